"""Classification tasks made from a public pool, to try methods on before any private row is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.imbalance import long_tail_counts

_TEST_PER_CLASS = 20
_MOST_TEST_ROWS = 2000
_MOST_ROWS = 5000


@dataclass(frozen=True)
class Family:
    """How hard and how related a surrogate's classes are.

    Attributes:
        class_part: weight of a class's own public row in each of its examples; the rest is another public
            row.
        kinship: weight of a row that a few classes share, so that some classes are close neighbours.
        imbalance: ratio of the largest class to the smallest.
    """

    class_part: float
    kinship: float
    imbalance: float


# Plain clusters of the pool are too easy a task and rank methods wrongly. Examples that are part class and
# part unrelated pool row, with classes that overlap, rank them usefully; several families voting beat any
# single one.
FAMILIES = (Family(0.5, 0.75, 1.0), Family(0.4, 0.75, 10.0), Family(0.3, 0.6, 3.0))
_RELATED = 4


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A task with the declared number of classes, its rows made of public rows: nobody's data."""

    private: PrivateEmbeddings
    test_rows: NDArray[np.float32]
    test_labels: NDArray[np.int64]


def surrogate_size(size: int) -> int:
    """How many examples stand for `size` of them; the caller scales the noise by the same factor."""
    return min(size, _MOST_ROWS)


def surrogates(
    public: PublicEmbeddings,
    classes: int,
    size: int,
    *,
    rng: np.random.Generator,
    families: Sequence[Family] = FAMILIES,
) -> Iterator[Surrogate]:
    """One task per family, with about `size` examples."""
    for family in families:
        counts = _counts(classes, size, family.imbalance, rng)
        own = _unit(public.rows[rng.integers(0, len(public), classes)])
        shared = _unit(public.rows[rng.integers(0, len(public), -(-classes // _RELATED))])
        own = (1 - family.kinship) * own + family.kinship * shared[np.arange(classes) // _RELATED]
        labels = np.repeat(np.arange(classes), counts)
        tests = np.repeat(np.arange(classes), min(_TEST_PER_CLASS, max(2, _MOST_TEST_ROWS // classes)))
        rows, test_rows = (_examples(own, these, family, public, rng) for these in (labels, tests))
        names = [str(c) for c in range(classes)]
        yield Surrogate(PrivateEmbeddings(rows, labels, classes=names, name="surrogate"), test_rows, tests)


def _counts(classes: int, size: int, imbalance: float, rng: np.random.Generator) -> NDArray[np.int64]:
    shape = long_tail_counts(1_000_000, imbalance, classes).astype(np.float64)
    return rng.permutation(np.maximum(1, np.rint(size * shape / shape.sum()))).astype(np.int64)


def _examples(
    own: NDArray[np.float32],
    labels: NDArray[np.int64],
    family: Family,
    public: PublicEmbeddings,
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    other = _unit(public.rows[np.sort(rng.integers(0, len(public), len(labels)))])
    mixed = family.class_part * own[labels] + (1 - family.class_part) * rng.permutation(other)
    return mixed.astype(np.float32)


def _unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    # By the largest entry first: a float64 pool may hold what float32, or its squares, cannot.
    wide = rows.astype(np.float64)
    peak = np.maximum(np.abs(wide).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    narrow = (wide / peak).astype(np.float32)
    unit: NDArray[np.float32] = narrow / np.maximum(np.linalg.norm(narrow, axis=1, keepdims=True), 1e-30)
    return unit
