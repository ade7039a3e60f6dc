"""Rows in Parquet files that are some of many: a row group is decoded when one of its rows is asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from dptransfer import _check
from dptransfer.arrays import AnyArray, Integers
from dptransfer.data.arrow_files import WHOLE_FILE
from dptransfer.data.columns import dense_rows, named_features, row_columns, row_form
from dptransfer.data.parsing import parsing
from dptransfer.data.table import require
from dptransfer.data.unchanged import Unchanged

_KEPT = 2  # a slice may begin in one group and end in the next


class RecentGroups:
    """The row groups that were decoded last, so that whoever walks through decodes each once.

    Threads take turns: pyarrow uses all cores for one group already. It travels empty.
    """

    def __init__(self) -> None:
        self._lock, self._groups = Lock(), OrderedDict[tuple[Path, int], AnyArray]()

    def get(self, key: tuple[Path, int], decode: Callable[[], AnyArray]) -> AnyArray:
        """The rows of a group, decoded if they are not among the last."""
        with self._lock:
            if key not in self._groups:
                while len(self._groups) >= _KEPT:
                    self._groups.popitem(last=False)
                self._groups[key] = decode()
            self._groups.move_to_end(key)
            return self._groups[key]

    def __reduce__(self) -> tuple[type[RecentGroups], tuple[()]]:
        return RecentGroups, ()


@dataclass(frozen=True)
class ParquetShard:
    """Rows of one row group.

    Attributes:
        file: the file as it was when it was opened first.
        group: which row group of it.
        count: how many rows.
        width: numbers in a row.
        dtype: their type.
        columns: where they are: one column of lists, or one for each feature.
        names: what the features are called, where they have a column each.
        recent: groups decoded last, of this file and of those beside it.
    """

    file: Unchanged
    group: int
    count: int
    width: int
    dtype: np.dtype[Any]
    columns: tuple[str, ...]
    names: tuple[str, ...] | None
    recent: RecentGroups

    @classmethod
    def all_at(
        cls,
        path: Path,
        features: str | Sequence[str] | None,
        others: Collection[str | None],
        recent: RecentGroups,
    ) -> list[ParquetShard]:
        """The row groups of a file; none where it has no rows.

        Args:
            path: the file.
            features: the columns that are features, as for `feature_names`.
            others: the columns that tell people or labels, and so are none.
            recent: where decoded groups are kept.
        """
        with Unchanged.first(path) as (file, stream):
            opened = _opened(path, stream)
            schema = opened.schema_arrow
            columns = row_columns(path, schema, features, others)
            width, dtype = row_form(path, schema, columns, lambda: _first_cells(path, opened, columns))
            names = named_features(schema, columns)
            counts = [opened.metadata.row_group(group).num_rows for group in range(opened.num_row_groups)]
        return [
            cls(file, group, count, width, dtype, columns, names, recent)
            for group, count in enumerate(counts)
            if count
        ]

    def read(self, which: slice | Integers) -> AnyArray:
        """The rows between two places, or at some places."""
        rows = self.recent.get((self.file.path, self.group), self._decoded)
        found: AnyArray = rows[which]
        return found

    def _decoded(self) -> AnyArray:
        path = self.file.path
        with self.file.opened() as stream:
            opened = _opened(path, stream)
            with parsing(path, *WHOLE_FILE):
                table = opened.read_row_group(self.group, columns=list(self.columns))
        rows = dense_rows(path, table, self.columns)
        uneven = f"all rows must have one width; some have {rows.shape[1]} numbers, and others {self.width}."
        require(rows.shape == (self.count, self.width), path, uneven, "Encode all with one encoder.")
        rows = rows.astype(self.dtype, copy=False)
        rows.flags.writeable = False
        return rows


def _opened(path: Path, stream: Any) -> Any:
    parquet = _check.installed("pyarrow.parquet", "readers", "Reading a Parquet file")
    with parsing(path, *WHOLE_FILE):
        return parquet.ParquetFile(stream)


def _first_cells(path: Path, opened: Any, columns: tuple[str, ...]) -> Any:
    """The first cells of a column, decoded alone, to see how long its lists are; None without any."""
    arrow = _check.installed("pyarrow", "readers", "Reading a Parquet file")
    with parsing(path, *WHOLE_FILE):
        batch = next(iter(opened.iter_batches(batch_size=64, columns=list(columns))), None)
        return None if batch is None else arrow.Table.from_batches([batch])
