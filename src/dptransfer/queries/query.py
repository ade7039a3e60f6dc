"""Base classes of queries: deterministic functions of private rows that know their own sensitivity.

A query answers in integers: it maps each row to the lattice through a public feature map and adds up exactly.
`grid` says how many integer steps make one unit of the answer; sensitivities are in units.

Where persons are protected, `bound` says as how many examples one of them counts, and the query is asked
with `people`: it adds up each person's contributions, scales the sum down to what the bound allows, and
rounds toward zero. So the answer moves, when a person comes with all their rows, as far as it would when so
many examples come.

**Contributions** are what each row alone moves an answer by: for reports about single rows, never for a
release. Every answer is a sum over rows of integer contributions, so the answer on one row alone is what that
row adds to any data set. Queries that are asked often say it for all rows at once, by a method
`contribution_norms(rows, labels)` or `contribution_ranges(rows, labels, people)`, tested against the generic
route.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeAlias, final

import numpy as np

from dptransfer.base.types import AnyArray, Floats, Integers, Labels, Owners, People
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import FittedFeatures
from dptransfer.exact.sums import Groups, add_up, add_up_people
from dptransfer.privacy import EACH_ROW, Bound, Relation, Unit


class Query(Protocol):
    """What every query says of itself."""

    @property
    def label(self) -> str:
        """What is released, in words."""

    @property
    def unit(self) -> Unit:
        """Of what one more moves the answer as far as the query says: an example, or all of one person's."""

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """The exact answer, in grid steps; where persons are the unit, `people` is a third argument."""


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


class ScoreQuery(Query, Protocol):
    """A query that scores public candidates for each class: what a selection mechanism protects.

    A unit moves a score by an integer between 0 and `score_range`, and always in the same direction
    (monotone): adding it never lowers a score. An example moves the scores of its own class only; a person
    may move those of all classes, each by a part of the range, and the parts add up to one range.
    """

    @property
    def score_range(self) -> int:
        """Largest contribution of one unit to one score, in grid steps; the smallest is 0."""

    @property
    def classes(self) -> int:
        """Number of declared classes: a person may have rows of all."""


@dataclass(frozen=True)
class BoundedQuery(ABC):
    """Base of the queries that bound what one unit contributes, be it an example or a person.

    Attributes:
        bound: the unit, and as how many examples it counts.
    """

    bound: Bound = field(default=EACH_ROW, kw_only=True)

    @property
    def unit(self) -> Unit:
        """Of what one more moves the answer as far as the query says."""
        return self.bound.unit

    @final
    def __call__(self, rows: AnyArray, labels: Labels, people: Owners = None) -> Integers:
        """The exact answer, in grid steps."""
        self.require_unit(people)
        return self.of_rows(rows, labels) if people is None else self.of_people(rows, labels, people)

    def require_unit(self, people: Owners) -> None:
        """Raise unless whose each row is is told where persons are the unit, and not where rows are."""
        if (people is None) is not (self.unit is Unit.ROW):
            raise ArgumentError(
                "A query about persons must be told whose each row is, and one about rows must not; "
                "this one was asked otherwise. Pass people with a bound whose unit is a person."
            )

    @abstractmethod
    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """The answer where every row is a unit of its own."""

    @abstractmethod
    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """The answer where persons are, each bounded with all their rows."""


RowVectors: TypeAlias = Callable[[slice | Integers], Integers]
"""Gives the (rows, coordinates) integer vectors of the rows at some places."""


class RowSums(BoundedQuery):
    """Base of queries that add up an integer vector for each row, made of that row and its label alone."""

    features: FittedFeatures
    grid: ClassVar[int]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""

    @abstractmethod
    def vectors(self, rows: AnyArray, labels: Labels) -> RowVectors:
        """What each row adds, in grid steps."""

    @abstractmethod
    def bounded(self, sums: Integers, groups: Groups) -> Integers:
        """Persons' sums, of which those are made smaller that are more than a person may add."""

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """The sum, in grid steps."""
        return add_up(self.vectors(rows, labels), len(rows), self._row_elements, self.shape)

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """The sum, in grid steps, that of each person made small enough for the bound."""
        vectors = self.vectors(rows, labels)
        return add_up_people(vectors, people, self._row_elements, self.shape, self.bounded)

    @property
    def _row_elements(self) -> int:
        """About how many numbers the work on one row is about."""
        return max(self.features.input_dimension, math.prod(self.shape))


def contribution_norms(query: L2Query, rows: AnyArray, labels: Labels, people: Owners = None) -> Floats:
    """L2 norm, in units of the answer, of what each row contributes; or each person, in order of number."""
    at_once = getattr(query, "contribution_norms", None)
    if at_once is not None and people is None:
        norms: Floats = at_once(rows, labels)
        return norms
    return one_by_one(
        lambda *own: float(np.linalg.norm(query(*own).astype(np.float64)) / query.grid), rows, labels, people
    )


def contribution_ranges(query: ScoreQuery, rows: AnyArray, labels: Labels, people: Owners = None) -> Floats:
    """Largest minus smallest of what each row adds to the scores of its class, ÷ `score_range`.

    A constant added to all scores changes no selection, so this, and not the largest, is what a row can do.
    What a person does to several classes adds up.
    """
    at_once = getattr(query, "contribution_ranges", None)
    if at_once is not None:
        ranges: Floats = at_once(rows, labels, people)
        return ranges

    def span(x: AnyArray, y: Labels, *whose: People) -> float:
        asked: Callable[..., Integers] = query
        return float(np.ptp(asked(x, y, *whose), axis=0)[np.unique(y)].sum()) / query.score_range

    return one_by_one(span, rows, labels, people)


def largest_contribution(query: L2Query) -> float:
    """Bound on `contribution_norms`: adding a row moves the answer by its contribution.

    A query that is there for replace-one alone says it itself, as an attribute.
    """
    own: float | None = getattr(query, "largest_contribution", None)
    return query.l2_sensitivity(Relation.ADD_REMOVE) if own is None else own


def one_by_one(
    measure: Callable[..., float], rows: AnyArray, labels: Labels, people: Owners = None
) -> Floats:
    """`measure` of each row, or of each person's rows, as a data set of its own."""
    if people is None:
        found = [measure(rows[i : i + 1], labels[i : i + 1]) for i in range(len(rows))]
    else:
        order = np.argsort(people, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(people[order])) + 1)
        found = [measure(rows[own], labels[own], np.zeros_like(own)) for own in parts if len(own)]
    return np.array(found, dtype=np.float64)


def whole_norms(rows: AnyArray) -> Floats:
    """Norms of integer rows whose squares add up to less than 2⁶³; exact up to the square root."""
    norms: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows).astype(np.float64))
    return norms
