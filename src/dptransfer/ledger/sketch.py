"""Data known again under another name: a keyed sample of a data set's hashes, for the owner's ledger alone.

Of all hashes of a data set the smallest 8,192 are kept (a bottom-k sketch): a sample of its distinct rows,
or of its distinct sources, for which every data set makes the same choice. Smaller sets are kept whole.

Two sketches are compared up to the smaller of their last hashes, where both are complete, so that the share
of equal hashes there estimates which share of the smaller set is in the other one. Two sets overlap when that
share is a twentieth or more. A row keeps its cells with chance r = 9/10 (`row_hashes`). A part f of a larger
set has no hash in common with it with probability (1 - f r)^8192; of two large sets that share a tenth of
their rows, fewer than 410 in 8192 agree with probability P(Bin(8192, r/10) < 410) < 1e-30. If a row were in a
stranger's set by chance once in a hundred, 410 would agree with probability below 1e-100. Sets that share
less than a twentieth may be different people's, of whom some are in both.

Data that are to be public are held to more. All their hashes are at hand, and none may be in a sketch. Of m
rows that are copies from a set of n on record, min(1, 8192/n) · r · m hashes are expected in its sketch: 14.7
for 100 rows of 50,000, none of them with probability 4e-7.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np

from dptransfer.ledger.row_hashes import RowHasher, Words, distinct

KEPT = 8192
SHARE = 20  # one in so many of the smaller set makes an overlap


class Sketch:
    """The smallest keyed hashes of a data set's distinct rows or sources, in ascending order.

    >>> one, half, other = Sketch(range(40)), Sketch(range(20)), Sketch([98, 99])
    >>> one.overlaps(half), one.overlaps(other)
    (True, False)

    Args:
        hashes: those to keep, in ascending order.
    """

    def __init__(self, hashes: Iterable[int] | Words) -> None:
        self.hashes: Words = np.asarray(
            hashes if isinstance(hashes, np.ndarray) else list(hashes), dtype=np.uint64
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sketch) and np.array_equal(self.hashes, other.hashes)

    def __hash__(self) -> int:
        return hash(self.hashes.tobytes())

    def __repr__(self) -> str:
        return "Sketch()"  # how many there are tells how many rows

    @classmethod
    def of(cls, parts: Iterable[Words]) -> Sketch | None:
        """The sketch of all hashes in these parts; None if there is none."""
        sample = Sample()
        for part in parts:
            sample.add(part)
        return sample.sketch

    def overlaps(self, other: Sketch) -> bool:
        """Whether about a twentieth or more of the smaller set is in the other one."""
        mine, theirs = self.hashes, other.hashes
        reach = min(self._reach, other._reach)
        mine, theirs = (one[: np.searchsorted(one, reach, side="right")] for one in (mine, theirs))
        shared = len(np.intersect1d(mine, theirs, assume_unique=True))
        return shared > 0 and shared * SHARE >= min(len(mine), len(theirs))

    def to_text(self) -> str:
        """For the ledger's JSON."""
        return base64.b64encode(self.hashes.astype(">u8").tobytes()).decode()

    @classmethod
    def from_text(cls, text: str) -> Sketch:
        """Read what `to_text` wrote; ValueError for anything else."""
        hashes = np.frombuffer(base64.b64decode(text, validate=True), dtype=">u8").astype(np.uint64)
        if not 0 < len(hashes) <= KEPT or (hashes[1:] <= hashes[:-1]).any():
            raise ValueError("a sketch is a short list of ascending hashes")
        return cls(hashes)

    @property
    def _reach(self) -> np.uint64:
        """Up to here every hash of the data set is in the sketch."""
        return self.hashes[-1] if len(self.hashes) == KEPT else np.uint64(2**64 - 1)


class Sample:
    """The smallest different hashes among those that were added."""

    def __init__(self) -> None:
        self._parts: list[Words] = []
        self._held, self._bound = 0, np.uint64(2**64 - 1)

    def add(self, hashes: Words) -> None:
        """Some more hashes."""
        few = hashes[hashes <= self._bound]
        self._parts.append(few)
        self._held += len(few)
        if self._held > 4 * KEPT:
            self._settle()

    @property
    def sketch(self) -> Sketch | None:
        """The sketch of all that was added; None if that is nothing."""
        self._settle()
        return Sketch(self._parts[0]) if self._held else None

    def _settle(self) -> None:
        smallest = distinct(self._parts)[:KEPT]
        self._parts, self._held = [smallest], len(smallest)
        if len(smallest) == KEPT:
            self._bound = smallest[-1]


def sketch_of(rows: Any, key: bytes) -> Sketch | None:
    """The sketch of an array of rows or of pictures, read a chunk at a time; None if none has content."""
    hasher = RowHasher(int(np.prod(rows.shape[1:])), key)
    return Sketch.of(chunk.kept for chunk in hasher.chunks(rows))
