"""What a query is: a deterministic function of private rows that knows its own sensitivity.

A query answers in integers: it maps each row to the lattice through a public feature map and adds up exactly.
`grid` says how many integer steps make one unit of the answer; sensitivities are in units.
"""

from __future__ import annotations

from typing import Protocol

from dptransfer.arrays import AnyArray, Integers, Labels
from dptransfer.privacy import Relation, Unit


class Query(Protocol):
    """What every query says of itself."""

    @property
    def label(self) -> str:
        """What is released, in words."""

    @property
    def unit(self) -> Unit:
        """Of what one more moves the answer as far as the query says: an example, or all of one person's."""


class L2Query(Query, Protocol):
    """A query whose answer moves by a bounded Euclidean distance: what Gaussian noise protects."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""

    @property
    def grid(self) -> int:
        """Integer steps per unit of the answer."""

    def l2_sensitivity(self, relation: Relation) -> float:
        """Largest L2 distance, in units, between the answers on two neighbours."""

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """The exact answer, in grid steps."""


class ScoreQuery(Query, Protocol):
    """A query that scores public candidates for each class: what a selection mechanism protects.

    An example moves the scores of its own class only, each by an integer between 0 and `score_range`, and
    always in the same direction (monotone): adding it never lowers a score.
    """

    @property
    def score_range(self) -> int:
        """Largest contribution of one example to one score, in grid steps; the smallest is 0."""

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """(candidates, classes) scores, in grid steps."""
