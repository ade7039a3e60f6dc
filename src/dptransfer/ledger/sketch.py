"""Rows known again under another name: a small keyed sketch of a data set, for the owner's ledger alone.

A row becomes up to 32 coarse numbers: signed sums of its coordinates (of one each, where there are no more),
divided by their root mean square and rounded to cells of m/1024 for m numbers. A copy in float16 moves a
number by about 1e-4, so five rows of six keep their cells, and all those of a copy in float32. The length of
a row plays no part, except below 16 coordinates, where a direction alone says too little. Nor do labels:
with other labels they are the same people. Rows without content (constant, of one coordinate, beyond what
float32 holds or not finite) are left out, for they would make strangers alike.

The cells are hashed with the ledger's key, and the 256 smallest hashes are kept (a bottom-k sketch): a sample
of the distinct rows, for which every data set makes the same choice. Up to the smaller of two sketches' last
hashes both are complete, so the share of equal hashes there estimates which share of the smaller set is in
the other one. Two sets overlap when that share is a twentieth or more.

Misses, with r = 5/6 the chance that a row keeps its cells. A part f of a larger set has no hash in common
with it with probability (1 - f r)^256: 6e-21 for a fold of 1/5, 1.4 % for 1/50; tiny parts of large sets
pass. Of two large sets that share a fifth of their rows, fewer than 13 in 256 agree with probability
P(Bin(256, r/5) < 13) = 4e-9; if they share a tenth, 1.7 %.

False alarms. Different people's rows agree where all their cells do, which on real embeddings of images and
texts was never seen. If a row were in a stranger's set by chance once in a hundred, 13 in 256 would agree
with probability P(Bin(256, 0.01) >= 13) = 3e-6. Rows with few possible values, such as one-hot words, do
repeat, and rows that differ by less than a hundredth of their length, such as raw measurements with one large
column, fall into the same cells: there the owner says that they are other people's. Of fewer than twenty rows
one in common, such as that of a blank picture, is enough.
"""

from __future__ import annotations

import base64
import hashlib
import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.arrays import Floats32

KEPT = 256
SHARE = 20  # one row in so many of the smaller set makes an overlap
_NUMBERS = 32
_CELLS = 1024  # cells per unit, shared among a row's numbers
_NARROW = 16
_CHUNK_ELEMENTS = 2**20
_PURPOSE = b"row sketch"


@dataclass(frozen=True)
class Sketch:
    """The smallest keyed hashes of a data set's distinct rows, in ascending order.

    >>> one, half, other = Sketch(tuple(range(40))), Sketch(tuple(range(20))), Sketch((98, 99))
    >>> one.overlaps(half), one.overlaps(other)
    (True, False)
    """

    hashes: tuple[int, ...]

    def overlaps(self, other: Sketch) -> bool:
        """Whether about a twentieth or more of the smaller set's rows are in the other one."""
        reach = min(self._reach, other._reach)
        mine, theirs = ({one for one in sketch.hashes if one <= reach} for sketch in (self, other))
        shared = len(mine & theirs)
        return shared > 0 and shared * SHARE >= min(len(mine), len(theirs))

    def to_text(self) -> str:
        """For the ledger's JSON."""
        return base64.b64encode(np.array(self.hashes, dtype=">u8").tobytes()).decode()

    @classmethod
    def from_text(cls, text: str) -> Sketch:
        """Read what `to_text` wrote; ValueError for anything else."""
        hashes = np.frombuffer(base64.b64decode(text, validate=True), dtype=">u8").tolist()
        if not 0 < len(hashes) <= KEPT or any(a >= b for a, b in pairwise(hashes)):
            raise ValueError("a sketch is a short list of ascending hashes")
        return cls(tuple(hashes))

    @property
    def _reach(self) -> int:
        """Up to here every hash of the data set is in the sketch."""
        return self.hashes[-1] if len(self.hashes) == KEPT else 2**64


def sketch_of(rows: Any, key: bytes) -> Sketch | None:
    """The sketch of an array of rows or of pictures, read a chunk at a time; None if none has content."""
    keyed = hashlib.blake2b(key=key, digest_size=8, person=_PURPOSE)

    def hashed(content: bytes) -> bytes:
        own = keyed.copy()
        own.update(content)
        return own.digest()

    smallest: list[bytes] = []  # big-endian, and so in the order of the numbers
    for cells in _cells(rows, _signs(math.prod(rows.shape[1:]), key)):
        each = cells.view(f"V{cells.itemsize * cells.shape[1]}").ravel().tolist()
        smallest = heapq.nsmallest(KEPT, {*smallest, *map(hashed, each)})
    return Sketch(tuple(int.from_bytes(one) for one in smallest)) if smallest else None


def _signs(dimension: int, key: bytes) -> Floats32:
    """The ledger's own signs, the same for ever: coordinate j goes into sum j modulo the number of sums."""
    stream = hashlib.shake_256(_PURPOSE + key).digest(dimension)
    signs = 1 - 2 * (np.frombuffer(stream, dtype=np.uint8) % 2).astype(np.float32)
    whole = dimension - dimension % min(dimension, _NUMBERS)
    return signs[:whole].reshape(-1, min(dimension, _NUMBERS))


def _cells(rows: Any, signs: Floats32) -> Iterator[NDArray[np.int32]]:
    """The coarse numbers of all rows that have content, chunk by chunk."""
    dimension = math.prod(rows.shape[1:])
    step = max(1, _CHUNK_ELEMENTS // dimension)
    for start in range(0, len(rows), step):
        with np.errstate(all="ignore"):  # a warning would tell of the rows that are left out
            chunk = np.asarray(rows[start : start + step], dtype=np.float32).reshape(-1, dimension)
            groups = chunk[:, : signs.size].reshape(-1, *signs.shape)
            numbers = np.einsum("rgn,gn->rn", groups, signs).astype(np.float64)
            numbers[:, : dimension - signs.size] += chunk[:, signs.size :]
            scale = np.sqrt(np.mean(numbers**2, axis=1, keepdims=True))
            shape = numbers / scale
            if dimension < _NARROW:
                shape = np.hstack([shape, np.log2(scale)])
            told = np.isfinite(shape).all(axis=1) & (chunk != chunk[:, :1]).any(axis=1)
            yield np.rint(shape[told] * (_CELLS / numbers.shape[1])).astype("<i4")
