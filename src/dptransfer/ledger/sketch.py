"""Detect duplicate data sets registered under another name: keyed row hashes and sketches.

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
one-hot words, or below 16 coordinates repeat by chance: they have hashes, but `is_distinctive` is False.

The hash of 16 cells c is Σ a_j c_j mod 2^64 with secret random multipliers a_j: two different rows collide
with probability 2^-63. What is kept in a ledger is SipHash-2-4 of that, a pseudorandom function, so that it
says nothing to those who do not have the key.

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

A sketch has a hash for each row, up to a bound, and equal rows have equal hashes. In the clear it would tell
whoever has the file how many rows a small data set has, which nobody may know under add/remove, and how many
two data sets share. So it is padded to the largest length and added, bit by bit, to the output of SHAKE-256
on key and a random nonce. The chain's hashes keep it as it is.
"""

from __future__ import annotations

import base64
import hashlib
import math
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptransfer.base.types import AnyArray, Floats, Floats32, Integers
from dptransfer.data.sharded_rows import ShardedRows

Words: TypeAlias = NDArray[np.uint64]
ManyRows: TypeAlias = AnyArray | ShardedRows
"""Rows or pictures, here or in many files."""

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
    cells: Integers

    @property
    def is_distinctive(self) -> NDArray[np.bool_]:
        """Whether a row is so rich that no other is like it by chance."""
        if self.cells.shape[1] != NUMBERS:
            return np.zeros(len(self.cells), dtype=np.bool_)
        ordered = np.sort(np.abs(self.cells), axis=1)
        return np.asarray((np.diff(ordered, axis=1) > 0).sum(axis=1) >= DIFFERENT - 1)


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

    def chunks(
        self, rows: ManyRows, *, grids: Iterable[int] = (), step: float | None = None
    ) -> Iterator[Hashes]:
        """The hashes of rows, chunk by chunk, in these grids and in the one that is kept.

        Args:
            rows: what is hashed.
            grids: numbers of grids.
            step: the scale of int8 values, where rows are to be rounded to such values first.
        """
        wanted = {KEPT_GRID, *grids}
        for part in parts_of(rows):
            with np.errstate(all="ignore"):  # a warning would tell of the rows that are left out
                some = np.asarray(part).reshape(-1, self._dimension)
                yield self._hashes(some if step is None else _rounded(some, step), wanted)

    def _hashes(self, rows: AnyArray, grids: Iterable[int]) -> Hashes:
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

    def _shape(self, rows: AnyArray) -> tuple[Floats, Floats]:
        """The numbers of each row divided by their root mean square; and that."""
        numbers = (rows @ self._signs).astype(np.float64)
        scale = np.sqrt(np.mean(numbers**2, axis=1, keepdims=True))
        return numbers / scale, scale

    def _has_content(self, shape: Floats) -> NDArray[np.bool_]:
        content = np.isfinite(shape).all(axis=1)
        content &= (np.abs(shape - self._constant) > _CONSTANT).any(axis=1)
        content &= (np.abs(shape + self._constant) > _CONSTANT).any(axis=1)
        return np.asarray(content)

    def _grid(self, shape: Floats, grid: int) -> tuple[Words, Integers]:
        size, shift = GRIDS[grid]
        cells = np.rint(shape * (NUMBERS / self._count / size) + shift).astype(np.int64)
        return (cells @ self._multipliers[grid, : cells.shape[1]]).view(np.uint64), cells


def _rounded(rows: AnyArray, step: float) -> Floats32:
    """The rows as int8 with this scale holds them."""
    levels: Floats32 = np.rint(rows.astype(np.float32, copy=False) / np.float32(step))
    levels.clip(-128, 127, out=levels)
    levels *= np.float32(step)
    return levels


def _without_mean(rows: AnyArray) -> tuple[Floats, Floats]:
    """Rows divided by their largest value, minus their mean; and that value."""
    wide = rows.astype(np.float64)
    peak = np.abs(wide).max(axis=1, keepdims=True)
    wide /= peak
    return wide - wide.mean(axis=1, keepdims=True), peak


def parts_of(rows: ManyRows) -> Iterator[AnyArray]:
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
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _rounds(v: list[Words], count: int) -> None:
    def turned(word: Words, bits: int) -> Words:
        return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))

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
    words: Words = np.sort(np.concatenate([np.empty(0, dtype=np.uint64), *parts]))  # `np.unique` is slower
    words = words[np.append(True, words[1:] != words[:-1])[: len(words)]]
    return words


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

    def __init__(self, hashes: ArrayLike) -> None:
        self.hashes: Words = np.asarray(hashes, dtype=np.uint64)

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
        reach = min(self._reach, other._reach)
        mine, theirs = (
            one[: np.searchsorted(one, reach, side="right")] for one in (self.hashes, other.hashes)
        )
        shared = len(np.intersect1d(mine, theirs, assume_unique=True))
        return shared > 0 and shared * SHARE >= min(len(mine), len(theirs))

    @property
    def _reach(self) -> np.uint64:
        """The largest hash up to which the sketch is complete."""
        return self.hashes[-1] if len(self.hashes) == KEPT else np.uint64(2**64 - 1)


class Sample:
    """The smallest different hashes among those that were added."""

    def __init__(self) -> None:
        self._parts: list[Words] = []
        self._held, self._bound = 0, np.uint64(2**64 - 1)

    def add(self, hashes: Words) -> None:
        """Add hashes."""
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


_PURPOSE = b"dptransfer sealed sketch"
_NONCE = 16
_WORDS = KEPT + 1  # the number of hashes, and the hashes


def sealed_sketch(sketch: Sketch, key: bytes) -> str:
    """The sketch for the ledger's JSON.

    >>> one = Sketch(range(3))
    >>> opened_sketch(sealed_sketch(one, b"key"), b"key") == one
    True
    >>> len(sealed_sketch(one, b"key")) == len(sealed_sketch(Sketch(range(3000)), b"key"))
    True
    """
    words = np.zeros(_WORDS, dtype=np.uint64)
    words[0] = len(sketch.hashes)
    words[1 : 1 + len(sketch.hashes)] = sketch.hashes
    nonce = secrets.token_bytes(_NONCE)
    closed = (words ^ _stream(key, nonce)).astype(">u8")
    return base64.b64encode(nonce + closed.tobytes()).decode()


def opened_sketch(text: str, key: bytes) -> Sketch:
    """Read what `sealed_sketch` wrote; ValueError for anything else."""
    content = base64.b64decode(text, validate=True)
    nonce, body = content[:_NONCE], np.frombuffer(content[_NONCE:], dtype=">u8")
    if len(body) != _WORDS:
        raise ValueError("a sketch has one length")
    words = body.astype(np.uint64) ^ _stream(key, nonce)
    count, hashes = int(words[0]), words[1:]
    if not 0 < count <= KEPT or (hashes[1:count] <= hashes[: count - 1]).any() or hashes[count:].any():
        raise ValueError("a sketch is a short list of ascending hashes")
    return Sketch(hashes[:count])


def _stream(key: bytes, nonce: bytes) -> Words:
    content = hashlib.shake_256(_PURPOSE + key + nonce).digest(8 * _WORDS)
    return np.frombuffer(content, dtype=">u8").astype(np.uint64)
