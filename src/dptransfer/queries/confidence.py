"""How sure the encoder is of its own words for the rows: one mean, as two sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dptransfer.base.types import AnyArray, Integers, Labels, People
from dptransfer.exact.chunks import over_chunks
from dptransfer.exact.lattice import SUM_BITS
from dptransfer.exact.sums import Groups, group_sums, grouped, over_people
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
from dptransfer.privacy import Relation
from dptransfer.queries.query import BoundedQuery

_HAIR = 1 - 2.0**-40


@dataclass(frozen=True, eq=False)
class ConfidenceTotal(BoundedQuery):
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

    features: FittedVocabularyMap

    label = "encoder confidence"
    grid = 2**SUM_BITS
    shape = (2,)

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under add/remove, √2 under replace-one, for each example that a unit counts as."""
        return self.bound.examples * (1.0 if relation is Relation.ADD_REMOVE else 2**0.5)

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """The two sums, in steps of 2⁻³⁰."""
        answer = np.zeros(2, dtype=np.int64)
        for part in self._chunks(rows):
            answer += part.sum(axis=0)
        return answer

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """The two sums, in steps of 2⁻³⁰; a person adds the mean of their rows, times what they count."""
        answer = np.zeros(2, dtype=np.int64)

        def part(groups: Groups) -> Integers:
            sums = group_sums(lambda own: self._pairs(rows[own]), groups, 2)
            # The quotient is rounded, by far less than a hair, and the product toward zero.
            shares = np.minimum(1.0, self.bound.examples / groups.sizes * _HAIR)
            return np.trunc(sums * shares[:, None]).astype(np.int64)

        whose = grouped(people, np.zeros_like(people))
        for bounded in over_people(part, whose, self.features.input_dimension):
            answer += bounded.sum(axis=0)
        return answer

    def _chunks(self, rows: AnyArray) -> Iterator[Integers]:
        return over_chunks(lambda chunk: self._pairs(rows[chunk]), len(rows), self.features.input_dimension)

    def _pairs(self, rows: AnyArray) -> Integers:
        """(rows, 2): p and 1 − p of each, in grid steps."""
        sure = self.features.confidence(rows, self.grid)
        return np.column_stack([sure, self.grid - sure])
