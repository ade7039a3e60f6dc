"""Per-class sums and counts, weighted totals, sums around a released centre, and encoder confidence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, Floats, Integers, Labels, People, Tensor
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.exact import chunks, lattice, vocabulary_map
from dptransfer.exact import sums as exact_sums
from dptransfer.exact.cuda import Array, on_host, place_beside, use_cuda
from dptransfer.exact.feature_map import FittedFeatures, lattice_on_device
from dptransfer.exact.sums import Groups, group_rows, group_sums, scaled_down
from dptransfer.privacy import Relation, Unit
from dptransfer.queries.query import BoundedQuery, RowSums, RowVectors, whole_norms

_GRID: int = 2**lattice.SUM_BITS
_SLAB_ELEMENTS = 2**23  # of rows on a device at a time
# Of a weighted count: those of one person with 2³⁰ rows fit int64. One that wraps around is negative, and
# further from other persons' than two that are not.
_HEAVIEST_OF_PERSONS = 8


@dataclass(frozen=True)
class _SumsByClass(BoundedQuery):
    """Base of the sums of mapped rows by class, with and without weighted counts.

    Attributes:
        features: map of the rows.
        classes: how many.
        device: where rows are mapped and summed.
    """

    features: FittedFeatures
    classes: int
    device: str = "cpu"

    grid = _GRID

    @property
    def shape(self) -> tuple[int, int]:
        """(classes, dimension), or one more with counts."""
        return self.classes, self.features.dimension + (self._count_steps > 0)

    @property
    def _count_steps(self) -> int:
        """What a row adds to the count of its class, in grid steps; 0 where there are no counts."""
        return 0

    @property
    def _most(self) -> float:
        """Largest norm of what one person adds, in grid steps."""
        return self.bound.examples * _GRID

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """Sums in steps of 2⁻³⁰."""
        if use_cuda(self.device, rows):  # pragma: no cover — GPU
            on_device = lattice_on_device(self.features, _GRID)
            sums = exact_sums.class_sums_on_cuda(rows, labels, self.classes, on_device)
            return self._with_counts(sums, labels)

        def mapped(chunk: slice) -> tuple[Integers, Labels]:
            return self.features.lattice(rows[chunk], _GRID), labels[chunk]

        shape = self.classes, self.features.dimension
        parts = chunks.over_chunks(mapped, len(rows), self.features.input_dimension)
        return self._with_counts(_sum_by_class(parts, shape), labels)

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """Sums in steps of 2⁻³⁰, those of each person scaled down to the bound."""
        if use_cuda(self.device, rows):  # pragma: no cover — GPU
            return self.of_people_there(rows, labels, people, "cuda")
        features, weight = self.features, self._count_steps

        def part(groups: Groups) -> tuple[Integers, Integers]:
            sums = group_sums(lambda own: features.lattice(rows[own], _GRID), groups, features.dimension)
            if weight:
                sums = np.column_stack([sums, groups.counts * weight])
            return scaled_down(sums, groups, math.hypot(_GRID, weight), self._most), groups.classes

        parts = exact_sums.over_people(part, group_rows(people, labels), features.input_dimension)
        return _sum_by_class(parts, self.shape)

    def of_people_there(self, rows: Array, labels: Array, people: People, device: str) -> Integers:
        """The same integers on a torch device, to which some persons' rows are brought at a time."""
        features, weight = self.features, self._count_steps
        mapped = lattice_on_device(features, _GRID, device)
        answer = torch.zeros(self.shape, dtype=torch.int64, device=device)

        def brought(own: Integers) -> Tensor:
            some = rows[place_beside(own, rows)]
            return mapped(place_beside(some, answer) if isinstance(some, np.ndarray) else some.to(device))

        by_class = group_rows(people, on_host(labels))
        for groups in exact_sums.whole_people(by_class, max(1, _SLAB_ELEMENTS // features.input_dimension)):
            sums = exact_sums.group_sums_there(brought, groups, features.dimension, device)
            if weight:
                sums = torch.cat([sums, place_beside(groups.counts * weight, answer)[:, None]], dim=1)
            bounded = scaled_down(sums, groups, math.hypot(_GRID, weight), self._most)
            answer.index_add_(0, place_beside(groups.classes, answer), bounded)
        return answer.cpu().numpy()

    def contribution_norms(self, rows: AnyArray, labels: Labels) -> Floats:
        """Norms of the mapped rows, with the weight of a count behind."""

        def norms(chunk: slice) -> Floats:
            own = whole_norms(self.features.lattice(rows[chunk], _GRID)) / _GRID
            return np.hypot(own, self._count_steps / _GRID)

        return chunks.concatenate_chunks(norms, len(rows), self.features.input_dimension)

    def _with_counts(self, sums: Integers, labels: Labels) -> Integers:
        if not self._count_steps:
            return sums
        counts = np.bincount(on_host(labels), minlength=self.classes)
        return np.column_stack([sums, counts * self._count_steps])


@dataclass(frozen=True)
class ClassSums(_SumsByClass):
    """Per-class sums of mapped rows, each row of L2 norm at most 1.

    Releases:      a (classes, dimension) matrix, all classes in one answer.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. Add/remove: one row of the matrix moves by the norm of one mapped row, at most 1.
                   Replace: same class ‖a − b‖ ≤ 2; another class √(‖a‖² + ‖b‖²) ≤ √2; so 2. Persons: the
                   matrix of one person's sums is scaled to a Frobenius norm of at most `bound`, so bound
                   and 2·bound.
    Assumes:       classes declared in advance; labels in 0..classes−1; a feature map that works row by row.
                   Exact: integer rows of norm ≤ 2³⁰, int64 sums; on CUDA the same integers.
    Reference:     Wahdany et al. (2025), Section 4.1, which adds noise of 2r/n_c to class means; there n_c is
                   private under add/remove, and sums need half that noise.
    """

    label = "class sums"

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under add/remove, 2 under replace-one, for each example that a unit counts as."""
        return self.bound.examples * (1.0 if relation is Relation.ADD_REMOVE else 2.0)


@dataclass(frozen=True)
class ClassCounts(BoundedQuery):
    """The number of examples of each class.

    Releases:      a vector with one count per declared class.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. Add/remove: one count moves by 1. Replace: two counts move by 1, so √2. Persons: the
                   counts of one person are scaled to a norm of at most `bound`; no count is negative, so two
                   persons' are at most √2·bound apart.
    Assumes:       classes declared in advance; labels in 0..classes−1.
    Reference:     Zhu and Zhang, "Mean Estimation Strikes Back", Algorithm 1, line 4.
    """

    classes: int

    label = "class counts"
    grid = _GRID

    @property
    def shape(self) -> tuple[int]:
        """(classes,)."""
        return (self.classes,)

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under add/remove, √2 under replace-one, for each example that a unit counts as."""
        return self.bound.examples * (1.0 if relation is Relation.ADD_REMOVE else math.sqrt(2))

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """Counts in steps of 2⁻³⁰, fine enough for lattice noise."""
        counts: Integers = np.bincount(labels, minlength=self.classes).astype(np.int64) * _GRID
        return counts

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """Counts in steps of 2⁻³⁰, those of each person scaled down to the bound."""
        groups = group_rows(people, labels)
        counts = groups.counts[:, None] * _GRID
        bounded = scaled_down(counts, groups, _GRID, self.bound.examples * _GRID)
        return _sum_by_class([(bounded, groups.classes)], (self.classes, 1))[:, 0]

    def contribution_norms(self, rows: AnyArray, labels: Labels) -> Floats:
        """One for each example."""
        return np.ones(len(labels))


@dataclass(frozen=True)
class ClassSumsAndCounts(_SumsByClass):
    """Per-class sums of mapped rows, with the class count times `weight` as one more coordinate.

    Releases:      a (classes, dimension + 1) matrix; the last column holds the weighted counts.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2, with w for the weight. Add/remove: one row (x, w) appears, of norm at most √(1 + w²).
                   Replace: same class 2, as the counts cancel; another class √(2(1 + w²)), for (x, w) leaves
                   and (x′, w) appears; so 2 up to w = 1, and √(2(1 + w²)) from there on. Persons: bound times
                   that. Let (S, w·n) and (S′, w·n′) be two persons' matrices, each scaled to a norm of at
                   most bound·√(1 + w²). No class's sum is longer than its count, so S has at most the norm
                   bound, and the inner product of the two is at least (w² − 1)·Σ‖S_c‖·‖S′_c‖: not negative
                   from w = 1 on, and else at least (w² − 1)·bound². Rounding, less than a step in each entry,
                   is taken off the norm beforehand.
    Assumes:       classes declared in advance; labels in 0..classes−1; a feature map that works row by row.
    Reference:     Zhu and Zhang, "Mean Estimation Strikes Back", Algorithm 1, where w = 1. Its Theorem 2.1
                   allows σ = 1.23 at ε = 1, δ = 1e-5; the joint sensitivity √2 needs 5.276.

    Attributes:
        features: map of the rows.
        classes: how many.
        device: where rows are mapped and summed.
        weight: of a count, at least 2⁻¹⁶ and at most 2¹⁶, for persons 8; cut to a multiple of 2⁻¹⁶.
    """

    weight: float = 1.0

    label = "class sums and counts"

    def __post_init__(self) -> None:
        """Refuse a weight that leaves no count, or sums that leave int64."""
        heaviest = 2**16 if self.unit is Unit.ROW else _HEAVIEST_OF_PERSONS
        if not 2.0**-16 <= self.weight <= heaviest:
            raise ArgumentError(
                f"A count's weight must lie between 2^-16 and {heaviest}, for {self.unit.value}s; got "
                f"{self.weight!r}. A weight of 1 leaves counts as they are."
            )

    @property
    def exact_weight(self) -> float:
        """The weight, cut to a multiple of 2⁻¹⁶: a whole number of grid steps."""
        return int(self.weight * 2**16) / 2**16

    def l2_sensitivity(self, relation: Relation) -> float:
        """Bound · √(1 + w²) under add/remove; under replace-one 2 · bound, or √2 of it if w is above 1."""
        if relation is Relation.ADD_REMOVE:
            return self._one
        return math.sqrt(2) * self._one if self.exact_weight > 1 else 2.0 * self.bound.examples

    @property
    def _one(self) -> float:
        """Largest norm of what one unit contributes."""
        return self.bound.examples * math.hypot(1.0, self.exact_weight)

    @property
    def _count_steps(self) -> int:
        return int(self.weight * 2**16) * (_GRID // 2**16)

    @property
    def _most(self) -> float:
        return self._one * _GRID - 2 * math.sqrt(math.prod(self.shape))


def _sum_by_class(parts: Iterable[tuple[Integers, Labels]], shape: tuple[int, int]) -> Integers:
    """The sum of integer rows, which come in parts with their classes."""
    sums = np.zeros(shape, dtype=np.int64)
    for rows, labels in parts:
        exact_sums.add_by_class(sums, rows, labels)
    return sums


@dataclass(frozen=True, eq=False)
class WeightedTotal(RowSums):
    """Σ over rows of weight(class of the row) · mapped row, each row of L2 norm at most 1.

    Releases:      a vector as wide as the mapped rows; with a `count_weight` c, one more coordinate behind
                   them: c times the sum of the weights, as units count in the vector.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. Add/remove: the sum moves by one weighted row (w·x, c·w), of norm at most √(1 + c²).
                   Replace: by the difference of two of them, (w·x − w′·x′, c·(w − w′)), whose square is at
                   most (w + w′)² + c²(w − w′)² ≤ 4 for c ≤ 1. Persons: bound times that, by the argument of
                   `ClassSumsAndCounts`: no sum is longer than what is counted for it.
    Assumes:       weights in [0, 1], public or released (checked); labels in 0..classes−1; a feature map that
                   works row by row. Exact: w·x is rounded toward zero and c·w up, from products that are
                   exact or no larger than they should be.
    Reference:     class-balanced means; docs/methods/public-prior.md says what they are used for.

    Attributes:
        features: map of the rows.
        weights: (classes,).
        count_weight: c, a multiple of 2⁻¹⁶ up to 1; 0 for the sum alone.
    """

    features: FittedFeatures
    weights: Floats
    count_weight: float = 0.0

    label = "weighted sum of all rows"
    grid = _GRID

    def __post_init__(self) -> None:
        """Refuse weights that the sensitivity does not cover."""
        if not np.all((self.weights >= 0) & (self.weights <= 1)):
            raise ArgumentError("Weights must lie in [0, 1]; divide them by the largest.")
        if not 0 <= self.count_weight <= 1 or self.count_weight * 2**16 % 1:
            raise ArgumentError(
                f"count_weight must be a multiple of 2**-16 up to 1; got {self.count_weight!r}."
            )

    @property
    def shape(self) -> tuple[int]:
        """(dimension,), or one more with a count."""
        return (self.features.dimension + (self.count_weight > 0),)

    def l2_sensitivity(self, relation: Relation) -> float:
        """√(1 + c²) under add/remove, 2 under replace-one, for each example that a unit counts as."""
        one = math.hypot(1.0, self.count_weight)
        return self.bound.examples * (one if relation is Relation.ADD_REMOVE else 2.0)

    def bounded(self, sums: Integers, groups: Groups) -> Integers:
        """Each person's sum, scaled down to the bound."""
        longest = math.hypot(1.0, self.count_weight) * self.grid
        # Rounding, less than a step in each entry, is taken off beforehand.
        most = self.bound.examples * longest - 2 * math.sqrt(self.shape[0])
        return scaled_down(sums, groups, longest, most)

    def contribution_norms(self, rows: AnyArray, labels: Labels) -> Floats:
        """The weighted rows' norms."""
        weighted = self.vectors(rows, labels)

        def norms(chunk: slice) -> Floats:
            return whole_norms(weighted(chunk)) / self.grid

        return chunks.concatenate_chunks(norms, len(rows), self.features.input_dimension)

    def vectors(self, rows: AnyArray, labels: Labels) -> RowVectors:
        """(w·x, c·w) of each row, in grid steps."""

        def weighted(places: slice | Integers) -> Integers:
            # in half precision the grid is infinite
            weights = self.weights[labels[places]][:, None].astype(np.float64)
            mapped = self.features.lattice(rows[places], self.grid)
            on_grid = np.trunc(mapped * weights).astype(np.int64)
            if not self.count_weight:
                return on_grid
            # An integer of at most 31 bits times one of 17: exact.
            counted = np.ceil(np.ceil(weights * self.grid) * self.count_weight)
            return np.column_stack([on_grid, counted.astype(np.int64)])

        return weighted


_ROW_NORM = 2**26


@dataclass(frozen=True, eq=False)
class RecentredSums:
    """Per-class sums of (x − centre_c) ÷ radius_c, clipped to norm 1.

    Releases:      a (classes, dimension) matrix, all classes in one answer.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      replace one example by another of the same class: class sizes are public.
    Sensitivity:   L2. Same class: one row of the matrix moves by the difference of two vectors of norm at
                   most 1, so 2. Another class: two rows move by one such vector each, √2. So 2.
    Assumes:       centres and radii public or released; labels in 0..classes−1.
    Reference:     Biswas et al. (2020), Algorithm 1, as used by Wahdany et al. (2025), Appendix A.4.

    Attributes:
        features: map to unit-norm rows.
        centres: (classes, dimension), in units of the mapped rows.
        radii: (classes,) clipping radii.
    """

    features: FittedFeatures
    centres: Floats
    radii: Floats

    label = "class sums around released centres"
    unit = Unit.ROW
    grid = _GRID
    largest_contribution = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """(classes, dimension)."""
        return len(self.radii), self.features.dimension

    def l2_sensitivity(self, relation: Relation) -> float:
        """2, and only under replace-one."""
        if relation is not Relation.REPLACE_ONE:
            raise RelationMismatch(
                "CoinPress needs public class sizes, so its guarantee is for replacing one example; "
                f"got {relation.value}. Use Budget(..., relation=Relation.REPLACE_ONE), or the method 'mean'."
            )
        return 2.0

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """Sums in steps of 2⁻³⁰; a centre is rounded to the rows' grid, so the difference is exact."""
        return _sum_by_class(self._clipped(rows, labels), self.shape)

    def contribution_norms(self, rows: AnyArray, labels: Labels) -> Floats:
        """Norms of the clipped differences."""
        norms = [whole_norms(unit) / self.grid for unit, _ in self._clipped(rows, labels)]
        return np.concatenate([np.zeros(0), *norms])

    def _clipped(self, rows: AnyArray, labels: Labels) -> Iterator[tuple[Integers, Labels]]:
        """Each chunk's differences on the lattice, and its labels."""
        centres = np.rint(np.clip(self.centres, -(2.0**20), 2.0**20) * _ROW_NORM)

        def part(chunk: slice) -> tuple[Integers, Labels]:
            own = labels[chunk]
            difference = (self.features.lattice(rows[chunk], _ROW_NORM) - centres[own]) / _ROW_NORM
            return lattice.clipped_lattice(difference / self.radii[own][:, None], self.grid, clip=1.0), own

        return chunks.over_chunks(part, len(rows), self.features.input_dimension)


@dataclass(frozen=True, eq=False)
class ConfidenceTotal(RowSums):
    """(Σ p, Σ (1 − p)) over rows, where p is the probability of the row's likeliest word.

    The mean confidence is the first ÷ the sum of both, so that nobody need know how many rows, or persons as
    far as they count, there are.

    Releases:      two numbers.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. Add/remove: a row adds (p, 1 − p) with p in [0, 1], whose squares add up to at most 1.
                   Replace: (p − p′, p′ − p), of norm at most √2. Persons: one with m rows adds their sum
                   times min(1, bound/m): two numbers that are not negative and add up to at most bound, so
                   bound and √2·bound.
    Assumes:       a map that works row by row, rows in exact integers: p is rounded toward zero, and 1 − p is
                   what it lacks of the grid.
    Reference:     docs/methods/public-prior.md says what it is used for.

    Attributes:
        features: the map into the words.
    """

    features: vocabulary_map.FittedVocabularyMap

    label = "encoder confidence"
    grid = _GRID
    shape = (2,)

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under add/remove, √2 under replace-one, for each example that a unit counts as."""
        return self.bound.examples * (1.0 if relation is Relation.ADD_REMOVE else 2**0.5)

    def bounded(self, sums: Integers, groups: Groups) -> Integers:
        """For each person the mean of their rows, times what they count."""
        # The quotient is rounded, by far less than a hair, and the product toward zero.
        shares = np.minimum(1.0, self.bound.examples / groups.sizes * (1 - 2.0**-40))
        return np.trunc(sums * shares[:, None]).astype(np.int64)

    def vectors(self, rows: AnyArray, labels: Labels) -> RowVectors:
        """(p, 1 − p) of each row, in grid steps."""

        def pairs(places: slice | Integers) -> Integers:
            sure = self.features.confidence(rows[places], self.grid)
            return np.column_stack([sure, self.grid - sure])

        return pairs
