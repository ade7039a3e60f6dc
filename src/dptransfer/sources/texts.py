"""Find the texts of a data set: a table with a column of texts, or a plain file with one text per line."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.types import People
from dptransfer.data.arrow import is_columnar
from dptransfer.data.columns import (
    USUAL_COLUMNS,
    Columns,
    declared_labels,
    is_person_file,
    read_listed,
    require_label_column,
)
from dptransfer.data.examples import text_digests
from dptransfer.data.labels import Classes, Labelled, LabelledList
from dptransfer.data.tables import parsing, require
from dptransfer.sources.file_types import require_known_type
from dptransfer.sources.open_columns import open_columns
from dptransfer.sources.person_files import people_in_file


@dataclass(frozen=True, repr=False)
class TextList(LabelledList):
    """Texts in a fixed order, with labels where they are known; printing it shows none of them.

    Attributes:
        texts: the texts.
        labelled: their classes, or None.
        people: whose each is, as a number from 0, or None.
    """

    texts: tuple[str, ...]
    labelled: Labelled | None = None
    people: People | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def source_digests(self) -> NDArray[np.uint64]:
        """Of each text."""
        return text_digests(self.texts)


def find_texts(
    source: str | Path,
    columns: Columns = USUAL_COLUMNS,
    *,
    classes: Classes | None = None,
    labelled: bool = True,
) -> TextList:
    """Read texts from a table with a column of texts, or from a .txt of one text per line.

    Args:
        source: a CSV, a Parquet file, a saved Hugging Face data set or a .txt; CSV and .txt are in UTF-8.
        columns: the columns of texts, labels and people; people may be in a file of ids (see
            `people_in_file`).
        classes: the full public list of classes; required with labels, for it is never read off them, unless
            a Hugging Face data set declares one.
        labelled: False to ignore a column of labels, as for a prediction.
    """
    path, person = Path(source), columns.person
    known = person is None or columns.ids is not None or is_person_file(person)
    require(known, path, f"people of texts are in a column or a file; got '{person}'.", "Name one.")
    there = path.is_file() or is_columnar(path)
    require(there, path, "the file of texts must exist; it does not.", "Check the path.")
    if path.suffix.lower() == ".csv" or is_columnar(path):
        with open_columns(path, columns.split) as table:
            found = read_listed(table, columns.text or "text", columns, "text")
        words = found.labels if labelled else None
        labels = declared_labels(path, words, found.classes if classes is None else classes)
        listed = TextList(tuple(found.examples), labels, found.people)
    else:
        if path.suffix.lower() != ".txt":
            require_known_type(path)
            kinds = "texts come as .csv, .parquet or .txt; this file holds something else."
            require(False, path, kinds, "Convert the file, or choose an encoder for images.")
        listed = TextList(_lines(path))
        no_column = "a .txt has no column of people."
        require(columns.ids is None, path, no_column, "Name a .csv or .npy file that has them.")
    if labelled:
        require_label_column(path, columns.label, listed.labelled)
    if person is None or listed.people is not None:
        return listed
    return replace(listed, people=people_in_file(Path(person), len(listed)))


def _lines(path: Path) -> tuple[str, ...]:
    with parsing(path, "the file must be UTF-8 text; it is not.", "Save it again."):
        lines = tuple(line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip())
    require(lines, path, "the file must hold at least one text; it holds none.", "Check the file.")
    return lines
