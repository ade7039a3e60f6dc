"""Find private examples in public data before anything is charged.

All rows of a fit's public data, and of the shots beside them, are hashed (`row_hashes`), and private rows are
looked up among them while their own sketch is made, in one pass. One row is enough, if it tells: it has 16
numbers or more and is not of a few values. Other rows repeat by chance, and a twentieth of either set is
enough of them; in coarse cells, which find copies in int8, a five-hundredth of the public rows. With one
scale for all rows int8 moves rows of real encoders by 1 to 3 % of their length, and 4 to 30 % of such copies
agree in one coarse grid; of strangers of the same encoder at most one in 4,000 did. Files and texts are
compared by digests of their content, where these are on record; there one is enough, too. Where public or
private rows are stored as int8, the others are rounded to these values as well: copies are then equal.

A grid of cells is used if it tells public rows apart: a row that differs from all others in the finest grid
must not share its cells in this one, but for one row in a thousand. A coarse grid must tell private rows
apart as well: where these resemble each other, as scans of one organ may, so do public rows of that kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.errors import PrivateOverlap
from dptransfer.ledger import sketch as hashing
from dptransfer.ledger.sketch import KEPT_GRID, SHARE, Hashes, ManyRows, RowHasher, Sample, Sketch, Words

_FEW, _COARSE_SHARE = 4, 500  # public rows, and one in so many of them, that must be met in coarse cells
_ALIKE = 1000  # one row in so many may share its cells with another one


class RowOverlap:
    """Overlap of some public rows with private ones, by their hashes.

    Args:
        rows: public rows or pictures, of one width with the private ones.
        key: the ledger's secret.
        step: the scale of int8 values to which the public rows are rounded first.

    Attributes:
        step: the scale of int8 values, where the public rows are stored as such.
    """

    def __init__(self, rows: ManyRows, key: bytes, step: float | None = None) -> None:
        found = list(RowHasher(_width(rows), key).chunks(rows, grids=range(len(hashing.GRIDS)), step=step))
        every = [hashing.distinct([part.grids[grid] for part in found]) for grid in range(len(hashing.GRIDS))]
        apart = min(len(every[-1]), len(every[-2]))
        tells = {grid: words for grid, words in enumerate(every) if _tells_apart(apart, words)}
        # Where all others tell rows apart, the finest grids find no copy that those do not.
        enough = all(grid in tells for grid in range(hashing.COARSE, hashing.FINEST))
        last = hashing.FINEST if enough else len(hashing.GRIDS)
        self._grids = {grid: words for grid, words in tells.items() if grid < last}
        self._met = {grid: np.zeros(len(words), dtype=np.bool_) for grid, words in self._grids.items()}
        none = np.empty(0, dtype=np.uint64)
        self._kept: Words = np.concatenate([none, *(part.kept for part in found)])
        self._telling = np.concatenate([none.astype(np.bool_), *(part.is_distinctive for part in found)])
        self.step = step_of(rows)
        self._rows, self._shared = 0, {False: 0, True: 0}
        self._told = False
        self._private: dict[int, list[Words]] = {grid: [] for grid in self._grids if grid < hashing.COARSE}
        self._private_kept: list[Words] = []

    @property
    def grids(self) -> Collection[int]:
        """The grids in which private rows are looked up."""
        return self._grids.keys()

    def compare(self, private: Hashes, *, rounded: bool = False) -> None:
        """Compare some private rows.

        Args:
            private: their hashes.
            rounded: whether they are hashes of rows compared before, now rounded by `step`.
        """
        hit = np.zeros(len(private.kept), dtype=np.bool_)
        for grid, words in self._grids.items():
            where, found = _places(private.grids[grid], words)
            if grid < hashing.COARSE and found.any():
                found &= private.is_distinctive
            self._met[grid][where[found]] = True
            hit |= found & (grid >= hashing.COARSE)
        for grid, words_of_private in self._private.items():
            words_of_private.extend([private.grids[grid]] * (not rounded))
        if self._private and not rounded:
            self._private_kept.append(private.kept)
        self._rows += len(hit) * (not rounded)
        self._shared[rounded] += int(hit.sum())
        self._told = self._told or bool(hit.any() and (hit & private.is_distinctive).any())

    @property
    def has_shared_rows(self) -> bool:
        """Whether rows are shared with the private ones: one that tells, or a twentieth of either set."""
        met = {grid: (int(one.sum()), len(one)) for grid, one in self._met.items()}
        many = any(hits * SHARE >= rows > 0 for grid, (hits, rows) in met.items() if grid >= hashing.COARSE)
        coarse = any(
            hits >= max(_FEW, rows / _COARSE_SHARE)
            and _tells_apart(len(hashing.distinct(self._private_kept)), hashing.distinct(self._private[grid]))
            for grid, (hits, rows) in met.items()
            if grid < hashing.COARSE
        )
        shared = max(self._shared.values())
        return self._told or coarse or (shared > 0 and (many or shared * SHARE >= self._rows))

    def on_record(self, sketch: Sketch) -> bool:
        """Whether rows are in a data set whose sketch this is."""
        _, found = _places(self._kept, sketch.hashes)
        if KEPT_GRID in self._grids and (found & self._telling).any():
            return True
        own = Sketch.of([self._kept]) if found.any() else None
        return own is not None and own.overlaps(sketch)


def _tells_apart(apart: int, words: Words) -> bool:
    """Whether a grid has as many different cells as there are rows that differ, but for one in a thousand."""
    return apart - len(words) <= max(1, apart // _ALIKE)


def _places(words: Words, among: Words) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where each word is in an ascending array, and whether it is there."""
    if not len(among):
        return np.zeros(len(words), dtype=np.intp), np.zeros(len(words), dtype=np.bool_)
    where = np.minimum(np.searchsorted(among, words), len(among) - 1)
    return where, np.asarray(among[where] == words)


class OverlapCheck:
    """Overlap of data that are not protected with private data: by rows and by sources.

    Args:
        data: public data and shots, or rows; what is None is passed over.
        key: the ledger's secret.
        rows: the private rows or pictures that they stand beside, if there are some.
    """

    def __init__(self, data: Sequence[object], key: bytes, rows: object = None) -> None:
        self._key = key
        listed = [one for given in data for one in _with_shots(given)]
        others = [found for one in listed if (found := rows_of(one)) is not None]
        steps = {None, step_of(rows)}
        self._rows = [(_width(found), RowOverlap(found, key, step)) for found in others for step in steps]
        self._sources = hashing.distinct([words for one in listed if (words := sources_of(one)) is not None])
        self._sources_shared = False

    def __bool__(self) -> bool:
        return bool(self._rows) or len(self._sources) > 0

    def of_width(self, width: int) -> list[RowOverlap]:
        """Those rows that can be compared with rows of this width."""
        return [rows for own, rows in self._rows if own == width]

    def compare_sources(self, private: Words) -> None:
        """Compare the files or texts behind private examples."""
        self._sources_shared = self._sources_shared or bool(_places(private, self._sources)[1].any())

    def require_none_shared(self) -> None:
        """Raise if any private example was found."""
        if self._sources_shared or any(rows.has_shared_rows for _, rows in self._rows):
            raise PrivateOverlap(
                "Public and test data may be published; these contain private examples of this fit. Nothing "
                "was charged. Remove them ('dptransfer check' lists them), or use other data."
            )

    def on_record(self, rows: Sequence[Sketch], sources: Sequence[Sketch]) -> bool:
        """Whether rows or sources are in a data set with these sketches."""
        kept = hashing.siphash(self._sources, self._key)
        return any(rows_here.on_record(sketch) for _, rows_here in self._rows for sketch in rows) or any(
            bool(_places(kept, sketch.hashes)[1].any()) for sketch in sources
        )


def rows_of(data: Any) -> ManyRows | None:
    """The rows of some data, or the pixels; an array is rows itself."""
    found: ManyRows | None = getattr(data, "rows", getattr(data, "pixels", None))
    return data if hasattr(data, "shape") else found


def step_of(rows: object) -> float | None:
    """The scale of rows that are stored as int8."""
    return rows.scale if isinstance(rows, ShardedRows) else None


def sources_of(data: object) -> Words | None:
    """Digests of the files or texts behind some data, where they are on record."""
    found: Words | None = getattr(data, "source_digests", None)
    return None if found is None else found[found != 0]


def _width(rows: ManyRows) -> int:
    return int(np.prod(rows.shape[1:]))


def _with_shots(data: object) -> Iterator[object]:
    yield data
    shots = getattr(data, "shots", None)
    if shots is not None and shots is not data:
        yield shots


Sketches: TypeAlias = tuple[Sketch | None, Sketch | None]


def sketches_of(rows: ManyRows | None, sources: Words | None, key: bytes, beside: OverlapCheck) -> Sketches:
    """Sketches of private rows and of their sources, compared with public data in the same pass.

    Raises:
        PrivateOverlap: some of that is private.
    """
    sample = Sample()
    if rows is not None:
        others = beside.of_width(_width(rows))
        wanted = {grid for other in others for grid in other.grids}
        for chunk in RowHasher(_width(rows), key).chunks(rows, grids=wanted):
            sample.add(chunk.kept)
            for other in others:
                other.compare(chunk)
        for other in others:
            if other.step is not None:
                for chunk in RowHasher(_width(rows), key).chunks(rows, grids=other.grids, step=other.step):
                    other.compare(chunk, rounded=True)
    if sources is not None:
        beside.compare_sources(sources)
    beside.require_none_shared()
    return sample.sketch, None if sources is None else source_sketch(sources, key)


def source_sketch(digests: Words, key: bytes) -> Sketch | None:
    """The keyed sketch of these files or texts; a digest of 0 stands for none, and is left out."""
    return Sketch.of([hashing.siphash(digests[digests != 0], key)])
