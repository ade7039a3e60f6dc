"""What stands in an `.emb` folder beside its rows, checked against them and written with the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptransfer.arrays import Labels, People
from dptransfer.data.class_names import Classes, declared_classes
from dptransfer.data.examples import form_to_digest, one_digest_each
from dptransfer.data.identity import EncoderIdentity
from dptransfer.data.labelled import Labelled
from dptransfer.data.on_disk import Opener, replaced_whole, write_synced
from dptransfer.data.owner_only import make_owner_folder, owner_only
from dptransfer.data.people import person_positions
from dptransfer.data.store_rows import RowsToWrite, file_digest, write_column
from dptransfer.errors import DataError

LABELS, PEOPLE, SOURCES, MANIFEST = "labels.npy", "people.npy", "sources.json", "manifest.json"
DIGESTS = "digests.npy"


@contextmanager
def filled(target: Path, *, public: bool) -> Iterator[Path]:
    """A folder to fill, which is then in its place; an error says what kept it from getting there."""
    try:
        with replaced_whole(target, Path.mkdir if public else make_owner_folder) as folder:
            yield folder
    except OSError as error:
        raise DataError(
            f"'{target}' must be written whole, and was not: {error.strerror or error}. "
            "Nothing was left behind; free some space or choose another place."
        ) from error


@dataclass(frozen=True, eq=False, repr=False)
class Beside:
    """What stands in a folder beside the rows."""

    labels: Labels | None
    classes: tuple[str | int, ...] | None
    sources: Sequence[str | Path] | None
    people: People | None
    digests: NDArray[np.uint64] | None
    encoder: EncoderIdentity | None
    name: str | None
    public: bool

    @classmethod
    def of(
        cls,
        count: int,
        labels: ArrayLike | Labelled | None,
        classes: Classes | None,
        sources: Sequence[str | Path] | None,
        people: ArrayLike | None,
        digests: ArrayLike | None,
        *others: Any,
    ) -> Beside:
        """Checked against the number of rows."""
        positions, listed = _labels_to_write(labels, classes)
        for what, given in (("labels", positions), ("sources", sources)):
            if given is not None and len(given) != count:
                raise DataError(f"rows and {what} must have one entry per example; their lengths differ.")
        whose = None if people is None else person_positions(people, count)
        made = cls(positions, listed, sources, whose, one_digest_each(digests, count), *others)
        if made.public and whose is not None:
            raise DataError("Public rows are nobody's data; people were given. Leave one of the two out.")
        return made

    @property
    def opener(self) -> Opener | None:
        """How files are opened to be written."""
        return None if self.public else owner_only

    def write(
        self,
        folder: Path,
        rows: RowsToWrite,
        files: dict[str, str],
        shards: Sequence[tuple[str, int, str]] | None = None,
    ) -> None:
        """Complete a folder that has its rows, `files` or `shards`."""
        from dptransfer.data.manifest import Manifest, Shard  # pydantic: heavy, and not needed to start

        if self.labels is not None:
            files[LABELS] = write_column(folder / LABELS, self.labels, self.opener)
        if self.people is not None:
            files[PEOPLE] = write_column(folder / PEOPLE, self.people, self.opener)
        if self.digests is not None:
            files[DIGESTS] = write_column(folder / DIGESTS, self.digests.view(np.int64), self.opener)
        if self.sources is not None:
            named = [Path(source).as_posix() for source in self.sources]
            text = json.dumps(named, ensure_ascii=False, indent=0)
            write_synced(folder / SOURCES, text.encode(), opener=self.opener)
            files[SOURCES] = file_digest(folder / SOURCES)
        whole = rows.content.copy()
        if self.labels is not None:
            whole.update(form_to_digest(self.labels.dtype, self.labels.shape))
            whole.update(np.ascontiguousarray(self.labels).data)
        manifest = Manifest(
            public=self.public,
            name=self.name,
            rows=len(rows),
            dimension=rows.shape[1],
            dtype=cast(Any, rows.kind.name),
            classes=cast(Any, self.classes),
            encoder=self.encoder,
            files=cast(Any, files),
            fingerprint=whole.hexdigest(),
            rows_fingerprint=rows.content.hexdigest(),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            shards=None if shards is None else tuple(Shard(*shard) for shard in shards),
            scale=rows.scale,
            finite=True if self.public and rows.finite else None,
        )
        write_synced(folder / MANIFEST, manifest.to_json().encode(), opener=self.opener)


def _labels_to_write(
    labels: ArrayLike | Labelled | None, classes: Classes | None
) -> tuple[Labels | None, tuple[str | int, ...] | None]:
    if labels is None:
        return None, None if classes is None else declared_classes(classes)
    if isinstance(labels, Labelled) or classes is not None:
        labelled = Labelled.of(labels, classes)
        return labelled.positions, labelled.classes
    given = np.asarray(labels)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise DataError("Labels that are not whole numbers need the declared class list. Pass classes=[...].")
    return given.astype(np.int64), None
