"""Similarity of each public candidate to the private rows of each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats, Integers, Labels, Owners, People
from dptransfer.base.worker_env import usable_cores
from dptransfer.base.workers import Processes, ThisProcess, Workers
from dptransfer.data.sharded_rows import ShardedRows, stored_bytes
from dptransfer.errors import ArgumentError
from dptransfer.exact import capped_similarity, chunks, cuda, feature_map, sums
from dptransfer.exact.capped_similarity import GRID_NORM, LARGEST_WEIGHT, ClassSimilarity
from dptransfer.privacy import Unit
from dptransfer.queries.query import BoundedQuery

GridRows = NDArray[np.integer[Any]]

MAPPED_ELEMENTS = 2**22
"""Of mapped rows at a time: 32 MiB."""


def grid_rows(features: feature_map.FittedFeatures, rows: AnyArray, precision: str) -> GridRows:
    """Mapped rows on the precision's grid in its smallest type: 2 or 1 bytes a coordinate.

    The map gives eight-byte integers, so it is applied some rows at a time.
    """
    result = np.empty((len(rows), features.dimension), dtype=capped_similarity.GRID_DTYPE[precision])
    step = max(1, MAPPED_ELEMENTS // max(1, features.dimension))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        result[part] = features.lattice(rows[part], GRID_NORM[precision])
    return result


@dataclass(frozen=True, eq=False)
class GridPool:
    """A public pool on the grid, of which what is asked for is read and mapped, and nothing is kept.

    Attributes:
        features: the map.
        rows: the pool, which may be in many files.
        precision: the grid.
    """

    features: feature_map.FittedFeatures
    rows: AnyArray | ShardedRows
    precision: str

    @property
    def shape(self) -> tuple[int, int]:
        """Of the mapped rows."""
        return len(self.rows), self.features.dimension

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: slice | Integers) -> GridRows:
        if self.as_stored and isinstance(self.rows, ShardedRows):
            return self.rows.read(which, as_stored=True)
        return grid_rows(self.features, self.rows[which], self.precision)

    def require_unchanged(self) -> None:
        """Raise if a file of the pool is another one by now."""
        if isinstance(self.rows, ShardedRows):
            self.rows.require_unchanged()

    @property
    def as_stored(self) -> bool:
        """Whether the files hold rows of this grid: whole numbers of one byte, of unit norm at 127.

        They are taken as they are, which keeps their precision, and saves the way there and back. Nobody has
        seen to their norm: whoever scores them does.
        """
        small = self.precision == "int8" and stored_bytes(self.rows)
        return small and self.features == feature_map.FittedUnitNorm(self.shape[1])


_MOST_READERS = 8  # for a device; measured
_KEPT_BYTES = 2**27  # of scores


@dataclass(frozen=True, eq=False)
class SimilarityScores(BoundedQuery):
    """Σ over a class's rows of clip(1 + cos(x, p_j), lowest, highest) − lowest, for each candidate p_j.

    Releases:      nothing by itself; a selection mechanism releases positions.
    Guarantee:     with ExponentialMechanism at ε, SelectionEvent(ε); likewise the other selections.
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   each score of one class moves by an integer in [0, `score_range`] when an example is added,
                   and no score falls: the score is monotone. Replace: within a class by at most ± that, else
                   in two classes, up in one and down in the other. Persons: a row of somebody who has m rows
                   counts ⌊2¹⁶/max(m, bound)⌋ times, so all m together, over all classes, at most 2¹⁶ times.
                   When that person is added, the scores of class c move by integers in [0, Δ_c], where Δ_c is
                   the weight of their rows of class c times the range of one row, and Σ Δ_c ≤ `score_range`,
                   which is 2¹⁶ such ranges.
    Assumes:       candidates, caps and precision are public; labels in 0..classes−1; a feature map that works
                   row by row. Exact: integer products below 2²², integer caps, int64 sums; of persons, up to
                   2²³ of them.
    Reference:     Wahdany et al. (2025), Section 4.2, without the division by the range, which changes no
                   probability.

    Attributes:
        features: map of the private rows.
        candidates: integer public rows, mapped by the same features; or a pool of them, mapped where read.
        classes: number of declared classes.
        lowest: smallest 1 + cosine that counts (d_min).
        highest: largest that counts (d_max).
        precision: the integer grid; see `exact.capped_similarity`.
        device: where the products are computed, 'cpu' or 'cuda'; the integers are the same.
        workers: who computes them; likewise.
    """

    features: feature_map.FittedFeatures
    candidates: GridRows | GridPool
    classes: int
    lowest: float = 0.0
    highest: float = 2.0
    precision: str = "float16"
    device: str = "cpu"
    workers: Workers = field(default_factory=ThisProcess)

    label = "public prototypes by similarity"

    def __post_init__(self) -> None:
        """Check the caps, and the candidates' norms, on which the range of a score rests."""
        checks.one_of("precision", self.precision, GRID_NORM)
        checks.one_of("device", self.device, cuda.DEVICES)
        if not 0 <= self.lowest < self.highest <= 2:
            raise ArgumentError(
                "The caps on 1 + cosine must satisfy 0 <= lowest < highest <= 2; "
                f"got {self.lowest!r} and {self.highest!r}."
            )
        if self.score_range < 1:
            raise ArgumentError("The caps are closer than one grid step; move them apart.")
        # A pool's rows are bounded by the map that it puts them through, or where they are scored.
        if not isinstance(self.candidates, GridPool) and _has_longer(self.candidates, self.norm):
            raise ArgumentError(
                f"Candidates must be integer rows of norm at most {self.norm}; at least one is longer. "
                "Map them with features.lattice."
            )

    @property
    def norm(self) -> int:
        """Grid norm of the rows."""
        return GRID_NORM[self.precision]

    @property
    def caps(self) -> tuple[int, int]:
        """The caps in grid steps."""
        return round(self.lowest * self.norm**2), round(self.highest * self.norm**2)

    @property
    def score_range(self) -> int:
        """Largest contribution of one unit to one score, and of a person to those of all classes together.

        A person's is the same whatever the bound: a larger one makes single rows count less instead, which
        comes to the same choices.
        """
        low, high = self.caps
        return (high - low) * (1 if self.unit is Unit.ROW else LARGEST_WEIGHT)

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """(candidates, classes) scores."""
        return self._pool_scores(rows, labels, None).all()

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """(candidates, classes) scores, in which each row counts as many times as its person's rows may."""
        return self._pool_scores(rows, labels, people).all()

    def pool_scores(self, rows: AnyArray, labels: Labels, people: Owners) -> PoolScores:
        """The same scores, a piece of the candidates at a time."""
        self.require_unit(people)
        return self._pool_scores(rows, labels, people)

    def _pool_scores(self, rows: AnyArray, labels: Labels, people: Owners) -> PoolScores:
        weights = None if people is None else row_weights(people, self.bound.examples)
        similarity = self._similarity(rows, labels, weights, self.classes)
        return PoolScores(self.candidates, similarity, self.workers)

    def _similarity(
        self, rows: AnyArray, labels: Labels, weights: Integers | None, classes: int
    ) -> ClassSimilarity:
        private = grid_rows(self.features, rows, self.precision)
        device = "cuda" if cuda.use_cuda(self.device) else "cpu"
        stored = isinstance(self.candidates, GridPool) and self.candidates.as_stored
        return ClassSimilarity(private, labels, classes, *self.caps, self.precision, device, weights, stored)

    def contribution_ranges(self, rows: AnyArray, labels: Labels, people: Owners = None) -> Floats:
        """Largest minus smallest contribution of each row over all candidates, ÷ `score_range`.

        Products stay below 2²⁴, partial sums too, so float32 holds them exactly. A stored candidate that is
        longer than the norm counts as it is scored: without caps as zeros.
        """
        if people is not None:
            return self._ranges_of_people(rows, labels, people)
        (low, high), one = self.caps, self.norm**2
        uncapped = low <= 0 and high >= 2 * one
        mapped = grid_rows(self.features, rows, self.precision).astype(np.float32)
        smallest, largest = np.full(len(mapped), np.inf), np.full(len(mapped), -np.inf)
        step = max(1, MAPPED_ELEMENTS // max(1, len(mapped)))
        for start in range(0, len(self.candidates), step):
            slab = self.candidates[start : start + step].astype(np.float32)
            near = mapped @ slab.T
            if uncapped:
                near[:, capped_similarity.squared_norms(slab) > one] = 0
            smallest = np.minimum(smallest, near.min(axis=1))
            largest = np.maximum(largest, near.max(axis=1))
        # The cap is monotone, so the ends of the products are the ends of the contributions.
        ends = [np.clip(one + end, low, high) for end in (smallest, largest)]
        ranges: Floats = (ends[1] - ends[0]) / self.score_range
        return ranges

    def _ranges_of_people(self, rows: AnyArray, labels: Labels, people: People) -> Floats:
        """What a person has of one class is scored as a class of its own; their ranges add up."""
        groups, weights = sums.group_rows(people, labels), row_weights(people, self.bound.examples)
        step = max(1, MAPPED_ELEMENTS // max(1, len(self.candidates)))
        spans = [np.zeros(0)]
        for start in range(0, len(groups.classes), step):
            counts = groups.counts[start : start + step]
            own = groups.order[groups.starts[start] :][: counts.sum()]
            numbers = np.repeat(np.arange(len(counts)), counts)
            similarity = self._similarity(rows[own], numbers, weights[own], len(counts))
            spans.append(np.ptp(similarity(self.candidates), axis=0))
        ranges: Floats = np.add.reduceat(np.concatenate(spans), groups.firsts[:-1]) / self.score_range
        return ranges


@dataclass(frozen=True, eq=False)
class PoolScores:
    """`SimilarityScores` of candidates that come in pieces, for whoever works on them.

    Attributes:
        candidates: all of them.
        similarity: to the private rows; it travels with these to whoever works.
        engine: who that is; not sent along.
    """

    candidates: GridRows | GridPool
    similarity: ClassSimilarity
    engine: Workers = field(default_factory=ThisProcess)

    @property
    def workers(self) -> Workers:
        """Those of the engine; on cores of this process a thread for each, which a piece never leaves.

        Beside a device too: while it multiplies for one, others read.
        """
        return chunks.Threads(self.threads) if type(self.engine) is ThisProcess else self.engine

    @property
    def threads(self) -> int:
        """How many pieces are worked on at a time in one process; a device has enough with few."""
        return usable_cores() if self.similarity.device == "cpu" else min(_MOST_READERS, usable_cores())

    @property
    def at_hand(self) -> Workers:
        """The same, but for processes, which would have to be started: here are the same cores."""
        here = ThisProcess() if isinstance(self.engine, Processes) else self.engine
        return replace(self, engine=here).workers

    @property
    def classes(self) -> int:
        """How many scores a candidate has."""
        return self.similarity.classes

    @property
    def bytes_each(self) -> int:
        """Of a candidate with the floats made of it; a device gets four times as many, to be kept busy."""
        return (8 if self.similarity.device == "cpu" else 2) * int(self.candidates.shape[1])

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def fits_here(self) -> bool:
        """Whether all scores may be computed once, here, and kept, so that none is computed again."""
        rows = self.candidates.rows if isinstance(self.candidates, GridPool) else self.candidates
        here = type(self.engine) is ThisProcess and self.similarity.device == "cpu"
        return here and isinstance(rows, np.ndarray) and 8 * len(self) * self.classes <= _KEPT_BYTES

    def all(self) -> Integers:
        """(candidates, classes) scores."""
        return self.similarity(self.candidates)

    def scores(self, piece: slice) -> cuda.Array:
        """Those of the candidates at these positions, where they were computed."""
        return self.similarity.of_slab(self.candidates[piece])

    def require_unchanged(self) -> None:
        """Raise if the files of a pool have changed."""
        if isinstance(self.candidates, GridPool):
            self.candidates.require_unchanged()

    def only(self, wanted: Sequence[int]) -> PoolScores:
        """The same candidates with their scores for some classes."""
        return replace(self, similarity=self.similarity.only(wanted))

    def __getstate__(self) -> dict[str, object]:
        """Workers work, and have none of their own."""
        return {**self.__dict__, "engine": ThisProcess()}


def row_weights(people: People, bound: float) -> Integers:
    """How many times each row counts: its share of its person's 2¹⁶, and at most one of `bound` such shares.

    However the second is rounded, m rows of one person count m·⌊2¹⁶/m⌋ ≤ 2¹⁶ times at most. 40 rows reach
    99.98 % of that; somebody with more than 2¹⁶ rows does not count.

    >>> row_weights(np.array([0, 1, 1, 1]), bound=2.0).tolist()
    [32768, 21845, 21845, 21845]
    """
    sizes = np.bincount(people)
    shares: Integers = np.minimum(LARGEST_WEIGHT // np.maximum(sizes, 1), int(LARGEST_WEIGHT / max(bound, 1)))
    own: Integers = shares[people]
    return own


def _has_longer(rows: GridRows, norm: int) -> bool:
    """Whether a row is longer than the norm, exactly; entries beyond it are cut, so no square overflows."""
    step = max(1, MAPPED_ELEMENTS // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        part = np.clip(rows[start : start + step].astype(np.int64), -norm - 1, norm + 1)
        if (np.einsum("ij,ij->i", part, part) > norm**2).any():
            return True
    return False
