"""Keyed hashes of rows, equal for copies of a row in another type, order or length.

A row becomes up to 16 numbers: products with random signs (its own coordinates, where there are no more),
divided by their root mean square, so that the length of a row plays no part, except below 16 coordinates,
where a direction alone says too little and the length is one number more. The numbers are rounded to cells,
and the cells are hashed. Rounding a row to float16 moves a number by about 1e-4, and to int8 by about 0.01,
so a number close to the border of a cell may change its cell. Three sizes of cells, each with grids that are
shifted, make up for that: a copy is recognised if it agrees in one grid. Of 20,000 normal rows of 1,280
coordinates,

    cells of 1/8    keep 98 % in float16, and 28 % in int8
    cells of 1/32   keep 92 % in float16; one of these grids is kept in ledgers
    cells of 2^-14  keep 90 % at another length; they tell rows apart that have one large common part

so that, with three grids of middle size, all but 1 in 1,000 of the copies in float16 are recognised there,
and half of those in int8 in one of the two coarse grids.

A grid is used as far as it tells rows apart. Of rows that are nearly constant, or beyond what float32 holds,
what is left without their mean is hashed, in float64. Rows without content (all zeros, constant or not
finite) have no hash, for they would make strangers alike. Rows of few different cells, such as
one-hot words, or below 16 coordinates repeat by chance: they have hashes, but `telling` is False.

The hash of 16 cells c is Σ a_j c_j mod 2^64 with secret random multipliers a_j: two different rows collide
with probability 2^-63. What is kept in a ledger is SipHash-2-4 of that, a pseudorandom function, so that it
says nothing to those who do not have the key.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dptransfer.data.sharded_rows import ShardedRows

Words: TypeAlias = NDArray[np.uint64]

NUMBERS = 16
_SHIFTS = {2.0**-3: (0, 1 / 2), 2.0**-5: (0, 1 / 3, 2 / 3), 2.0**-14: (0, 1 / 2)}
GRIDS = tuple((size, shift) for size, shifts in _SHIFTS.items() for shift in shifts)
"""Sizes of cells for 16 numbers, from coarse to fine, each with the shift of the grid in cells."""

COARSE = 2
"""So many of the grids are coarse: rows that resemble each other closely may agree there by chance."""

FINEST = len(GRIDS) - 2
"""From here on grids are so fine that only copies in float32 agree."""

KEPT_GRID = COARSE
"""The grid whose hashes ledgers keep."""

DIFFERENT = 5
"""Different cells, up to their sign, below which a row may well be like another one by chance."""

SAMPLE = 2**17
"""Rows that are looked at of more rows in many files than twice as many."""

_RUN = 64  # neighbouring rows that are read at once of such a sample
_CHUNK_ELEMENTS = 2**20
_CONSTANT = 1e-4  # a row this close to a constant one is taken for constant


class Hashes(NamedTuple):
    """Hashes of some rows with content.

    Attributes:
        grids: by the number of a grid, a hash of each row.
        kept: those that a ledger keeps.
        cells: the cells of each row in that grid; none of rows that are too narrow to tell.
    """

    grids: dict[int, Words]
    kept: Words
    cells: NDArray[np.int64]

    @property
    def telling(self) -> NDArray[np.bool_]:
        """Whether a row is so rich that no other is like it by chance."""
        if self.cells.shape[1] != NUMBERS:
            return np.zeros(len(self.cells), dtype=np.bool_)
        ordered = np.sort(np.abs(self.cells), axis=1)
        found: NDArray[np.bool_] = (np.diff(ordered, axis=1) > 0).sum(axis=1) >= DIFFERENT - 1
        return found


class RowHasher:
    """Hashes of rows of one width under one key.

    Args:
        dimension: numbers in a row; of pictures, numbers in a picture.
        key: secret, the ledger's own.
    """

    def __init__(self, dimension: int, key: bytes) -> None:
        self._dimension, self._count = dimension, min(dimension, NUMBERS)
        self._signs = _signs(dimension, key)
        constant = self._signs.sum(axis=0, dtype=np.float64)
        self._constant = constant / max(float(np.sqrt(np.mean(constant**2))), 1e-9)
        stream = hashlib.shake_256(b"cells of rows" + key).digest(8 * len(GRIDS) * (NUMBERS + 1))
        self._multipliers = (np.frombuffer(stream, dtype="<i8") | 1).reshape(len(GRIDS), NUMBERS + 1)
        self._key = key

    def chunks(self, rows: Any, *, grids: Iterable[int] = ()) -> Iterator[Hashes]:
        """The hashes of rows, chunk by chunk, in these grids and in the one that is kept."""
        wanted = {KEPT_GRID, *grids}
        for part in parts_of(rows):
            with np.errstate(all="ignore"):  # a warning would tell of the rows that are left out
                yield self._hashes(np.asarray(part).reshape(-1, self._dimension), wanted)

    def _hashes(self, rows: NDArray[Any], grids: Iterable[int]) -> Hashes:
        shape, scale = self._shape(rows.astype(np.float32, copy=False))
        content = self._has_content(shape)
        if not content.all():
            rest, peak = _without_mean(rows[~content])
            shape[~content], small = self._shape(rest)
            scale[~content] = peak * small
            content = self._has_content(shape)
        if self._dimension < NUMBERS:
            shape = np.hstack([shape, np.log2(scale)])
        shape = shape if content.all() else shape[content]
        made = {grid: self._grid(shape, grid) for grid in grids}
        kept, cells = made[KEPT_GRID]
        told = cells if self._dimension >= NUMBERS else cells[:, :0]  # narrow rows repeat by chance
        hashes = {grid: hashed for grid, (hashed, _) in made.items()}
        return Hashes(hashes, siphash(kept, self._key), told)

    def _shape(self, rows: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The numbers of each row over their root mean square, and that."""
        numbers = (rows @ self._signs).astype(np.float64)
        scale = np.sqrt(np.mean(numbers**2, axis=1, keepdims=True))
        return numbers / scale, scale

    def _has_content(self, shape: NDArray[np.float64]) -> NDArray[np.bool_]:
        content = np.isfinite(shape).all(axis=1)
        content &= (np.abs(shape - self._constant) > _CONSTANT).any(axis=1)
        content &= (np.abs(shape + self._constant) > _CONSTANT).any(axis=1)
        found: NDArray[np.bool_] = content
        return found

    def _grid(self, shape: NDArray[np.float64], grid: int) -> tuple[Words, NDArray[np.int64]]:
        size, shift = GRIDS[grid]
        cells = np.rint(shape * (NUMBERS / self._count / size) + shift).astype(np.int64)
        return (cells @ self._multipliers[grid, : cells.shape[1]]).view(np.uint64), cells


def _without_mean(rows: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows over their largest value and without what they have in all coordinates, and that value."""
    wide = rows.astype(np.float64)
    peak = np.abs(wide).max(axis=1, keepdims=True)
    wide /= peak
    return wide - wide.mean(axis=1, keepdims=True), peak


def parts_of(rows: Any) -> Iterator[Any]:
    """Rows in slices of a few megabytes; of very many in files an even sample, in runs of neighbours."""
    step = max(1, _CHUNK_ELEMENTS // math.prod(rows.shape[1:]))
    if isinstance(rows, ShardedRows) and len(rows) > 2 * SAMPLE:
        step = max(1, step // _RUN)
        starts = np.linspace(0, len(rows) - _RUN, SAMPLE // _RUN, dtype=np.int64)
        for first in range(0, len(starts), step):
            yield rows[(starts[first : first + step, None] + np.arange(_RUN)).ravel()]
        return
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _signs(dimension: int, key: bytes) -> NDArray[np.float32]:
    """(dimension, numbers): the ledger's own signs; few coordinates stand for themselves."""
    if dimension <= NUMBERS:
        return np.eye(dimension, dtype=np.float32)
    stream = hashlib.shake_256(b"signs of rows" + key).digest(2 * dimension)
    bits = np.unpackbits(np.frombuffer(stream, dtype=np.uint8)).reshape(dimension, NUMBERS)
    return 1 - 2 * bits.astype(np.float32)


def siphash(words: Words, key: bytes) -> Words:
    """SipHash-2-4 of each 64-bit word, under a key that is made from `key`; several words at once.

    >>> [int(word) for word in siphash(np.array([1, 2], dtype=np.uint64), b"key")] == [
    ...     int(siphash(np.array([one], dtype=np.uint64), b"key")[0]) for one in (1, 2)
    ... ]
    True
    """
    secret = hashlib.blake2b(key=key[:64], digest_size=16, person=b"sketch of data").digest()
    return siphash_with(words, secret)


def siphash_with(words: Words, secret: bytes) -> Words:
    """SipHash-2-4 of each word's eight bytes, little-endian, under a key of 16 bytes."""
    keys = 2 * [int.from_bytes(secret[at : at + 8], "little") for at in (0, 8)]
    starts = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    state = [np.full(words.shape, start ^ key, np.uint64) for start, key in zip(starts, keys, strict=True)]
    length = np.uint64(8 << 56)
    for block in (words, length):
        state[3] ^= block
        _rounds(state, 2)
        state[0] ^= block
    state[2] ^= np.uint64(0xFF)
    _rounds(state, 4)
    found: Words = state[0] ^ state[1] ^ state[2] ^ state[3]
    return found


def _rounds(v: list[Words], count: int) -> None:
    def turned(word: Words, bits: int) -> Words:
        found: Words = (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))
        return found

    for _ in range(count):
        v[0] += v[1]
        v[2] += v[3]
        v[1] = turned(v[1], 13) ^ v[0]
        v[3] = turned(v[3], 16) ^ v[2]
        v[0] = turned(v[0], 32)
        v[2] += v[1]
        v[0] += v[3]
        v[1] = turned(v[1], 17) ^ v[2]
        v[3] = turned(v[3], 21) ^ v[0]
        v[2] = turned(v[2], 32)


def distinct(parts: Sequence[Words]) -> Words:
    """Different words of several arrays, in ascending order."""
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.uint64)
