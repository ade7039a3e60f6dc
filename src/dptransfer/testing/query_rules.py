"""Contract of queries: exact integer answers that one unit moves no further than the query claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.base.types import AnyArray, Floats, Labels
from dptransfer.errors import ArgumentError
from dptransfer.privacy import Relation, Unit
from dptransfer.queries.query import L2Query, ScoreQuery
from dptransfer.testing.contract import require, require_refused, run_checks

LARGEST = float(np.finfo(np.float64).max)
NASTY = [math.nan, math.inf, -math.inf, 1e308, -1e308, LARGEST, -LARGEST]
NASTY += [5e-324, -1e-310, 2.0**-1022, 1e-160, 0.0, -0.0, 1.0, -1.0]
"""Entries at the edges of what a float64 can be."""


def random_rows(rng: np.random.Generator, count: int, width: int) -> Floats:
    """Rows of any kind: ordinary, single coordinates, constants, with nasty entries, and some twice."""
    rows = rng.normal(size=(count, width)) * 10.0 ** rng.integers(-3, 4, (count, 1))
    kinds = rng.integers(0, 5, count)
    for place in np.flatnonzero(kinds):
        value = NASTY[rng.integers(len(NASTY))]
        if kinds[place] == 1:
            rows[place] = value
        elif kinds[place] == 2:
            rows[place] = np.where(np.arange(width) == rng.integers(width), value, 0.0)
        elif kinds[place] == 3:
            rows[place, rng.integers(width)] = value
        elif place:
            rows[place] = rows[rng.integers(place)]
    return rows


Table: TypeAlias = tuple[AnyArray, Labels]
"""Rows and labels; of people, only one person's."""
DataSet: TypeAlias = tuple[AnyArray, ...]
"""Arguments of a query: rows, labels and, where persons are the unit, the person of each row."""


def squared_gap(query: L2Query, one: DataSet, other: DataSet) -> int:
    """Exact squared distance of two answers, in grid steps."""
    moved = query(*one).astype(object) - query(*other).astype(object)
    return int((moved**2).sum())


def squared_bound(query: L2Query, relation: Relation) -> Fraction:
    """Exact square of what the query claims, in grid steps."""
    bound = Fraction(query.l2_sensitivity(relation)) * Fraction(query.grid)
    return bound * bound


def share_of_sensitivity(query: L2Query, one: DataSet, other: DataSet, relation: Relation) -> float:
    """The share of the claimed sensitivity that these neighbours use; at most 1 if the claim is true."""
    return math.sqrt(Fraction(squared_gap(query, one, other)) / squared_bound(query, relation))


def with_people(people: Sequence[Table], seed: int | None = None) -> DataSet:
    """The rows of at least one person, with whose they are; in any order, if there is a seed."""
    x, y = (np.concatenate(part) for part in zip(*people, strict=True))
    whose = np.repeat(np.arange(len(people)), [len(rows) for rows, _ in people])
    order = np.arange(len(x)) if seed is None else np.random.default_rng(seed).permutation(len(x))
    return x[order], y[order], whose[order]


def one_person(rows: ArrayLike, labels: ArrayLike, width: int) -> Table:
    """Rows and labels of one person; one label stands for all."""
    rows = np.array(rows, dtype=np.float64).reshape(-1, width)
    return rows, np.broadcast_to(np.array(labels, dtype=np.int64), len(rows)).copy()


def worst_people(width: int, classes: int) -> dict[str, Table]:
    """Persons who try to count more than once; forty rows and more each, of at least two coordinates."""
    along, across = np.eye(width)[0], np.eye(width)[1]
    rng, last = np.random.default_rng(7), classes - 1
    tiny, huge = np.zeros(width), np.zeros(width)
    tiny[0], huge[:2] = 5e-324, (1e308, -1e308)
    odd, infinite = np.zeros(width), np.zeros(width)
    odd[:2], infinite[0] = (np.nan, 1.0), np.inf
    every = np.arange(39) % classes
    made: dict[str, tuple[ArrayLike, ArrayLike]] = {
        "equal rows": ([along] * 40, 0),
        "opposite of them": ([-along] * 40, 0),
        "at right angles": ([across] * 40, 0),
        "of another class": ([along] * 40, min(1, last)),
        "rows that cancel": ([along, -along] * 20, 0),
        "rows that nearly cancel": ([along, -along] * 20 + [along], 0),
        "huge rows": ([[1e308] * width] * 40, 0),
        "huge and tiny rows": ([huge, tiny] * 20, last),
        "no numbers": ([odd, infinite] * 20, 0),
        "a number among none": ([[np.nan] * width] * 39 + [along], 0),
        "zeros": ([[0.0] * width] * 40, min(1, last)),
        "all classes": ([along] * 39, every),
        "all classes and directions": (rng.normal(size=(39, width)), every),
        "one row": ([along], 0),
        "two rows": ([along, across], [0, last]),
        "very many rows": ([along] * 700, 0),
        "very many, any": (rng.normal(size=(600, width)), rng.integers(0, classes, 600)),
    }
    return {name: one_person(rows, labels, width) for name, (rows, labels) in made.items()}


Draw = Callable[[np.random.Generator, int], Table]
"""Given a generator and a number, so many rows and their labels."""


@dataclass(frozen=True)
class _Trial:
    query: Any
    """One of either kind, of which nothing is known."""
    width: int
    classes: int
    draw: Draw
    relations: tuple[Relation, ...]
    worst: Mapping[Relation, tuple[DataSet, DataSet]]
    cases: int
    seed: int

    @property
    def has_people(self) -> bool:
        return self.query.unit is Unit.PERSON

    @property
    def is_scoring(self) -> bool:
        return hasattr(self.query, "score_range")


def check_query(
    query: L2Query | ScoreQuery,
    *,
    width: int = 3,
    classes: int = 3,
    draw: Draw | None = None,
    relations: Collection[Relation] = tuple(Relation),
    worst: Mapping[Relation, tuple[DataSet, DataSet]] | None = None,
    cases: int = 200,
    seed: int = 0,
    skip: Collection[str] = (),
) -> None:
    """Raise `ContractBroken`, which is an AssertionError, unless a query keeps every rule of queries.

    Sensitivities are tried, not proved: on extreme pairs first, then on random neighbours, all of it in
    exact arithmetic.

    Args:
        query: an L2 query, or one that scores public candidates; about rows or about persons.
        width: how wide the rows are that it is asked about, at least 2.
        classes: how many classes their labels have.
        draw: gives rows and labels; by default rows that are nasty in every way, and any labels.
        relations: those under which it has a sensitivity.
        worst: for each relation, two neighbouring data sets, as the query is called with them, whose answers
            are as far apart as it claims, to 1 %.
        cases: how many random neighbours to try.
        seed: of the random neighbours.
        skip: rules of `QUERY_CHECKS` that do not apply; say why where you skip one.
    """

    def any_rows(rng: np.random.Generator, count: int) -> Table:
        return random_rows(rng, count, width), rng.integers(0, classes, count)

    trial = _Trial(query, width, classes, draw or any_rows, tuple(relations), dict(worst or {}), cases, seed)
    run_checks(trial, f"The query {type(query).__name__}", QUERY_CHECKS, skip)


def _check_statement(trial: _Trial) -> None:
    query = trial.query
    require(isinstance(query.label, str) and query.label.strip(), "`label` does not say what is released")
    require(isinstance(query.unit, Unit), "`unit` is not a Unit")
    if trial.is_scoring:
        require(isinstance(query.score_range, int) and query.score_range > 0, "`score_range` is no integer")
        require(query.classes == trial.classes, f"`classes` is not {trial.classes}")
        return
    require(isinstance(query.grid, int) and query.grid > 0, "`grid` is no positive integer")
    for relation in trial.relations:
        far = query.l2_sensitivity(relation)
        require(0 < far < np.inf, f"the sensitivity under {relation.value} is {far!r}")


def _check_answers(trial: _Trial) -> None:
    for data in _data_sets(trial, 20):
        copies = tuple(np.array(part) for part in data)
        first, again = trial.query(*data), trial.query(*map(np.array, copies))
        require(first.dtype.kind in "iu", f"the answer is of the type {first.dtype}, not of integers")
        require(np.array_equal(first, again), "the same data have another answer the second time")
        pairs = zip(data, copies, strict=True)
        same = all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)
        require(same, "asking changes the rows")
        fits = trial.is_scoring or first.shape == tuple(trial.query.shape)
        require(fits, f"the answer has the shape {first.shape}, not `shape`")


def _check_people_argument(trial: _Trial) -> None:
    x, y = trial.draw(np.random.default_rng(trial.seed), 4)
    wrong = (x, y) if trial.has_people else (x, y, np.arange(len(x)))
    otherwise = "it answers without being told whose the rows are, or takes persons for rows"
    with require_refused(otherwise, ArgumentError, TypeError):
        trial.query(*wrong)


def _check_sensitivity(trial: _Trial) -> None:
    for data, first, second in _neighbours(trial):
        if trial.is_scoring:
            _require_scores_within(trial, data, first)
            continue
        pairs = {Relation.ADD_REMOVE: (data, first), Relation.REPLACE_ONE: (first, second)}
        for relation in trial.relations:
            gap, bound = squared_gap(trial.query, *pairs[relation]), squared_bound(trial.query, relation)
            far = f"two neighbours under {relation.value} are {float(gap / bound) ** 0.5:.6g} times as far"
            require(gap <= bound, f"{far} apart as the query claims")


def _require_scores_within(trial: _Trial, data: DataSet, more: DataSet) -> None:
    moved = trial.query(*more).astype(object) - trial.query(*data).astype(object)
    require((moved >= 0).all(), "one unit more lowers a score")
    total = sum(column.max(initial=0) for column in moved.T)
    require(total <= trial.query.score_range, "one unit more moves scores further than `score_range`")
    touched = sum(bool(column.any()) for column in moved.T)
    require(trial.has_people or touched <= 1, "one example moves scores of several classes")


def _check_worst_pair(trial: _Trial) -> None:
    for relation, pair in trial.worst.items():
        reached = share_of_sensitivity(trial.query, *pair, relation)
        require(reached <= 1, f"the worst pair under {relation.value} is {reached:.6g} times as far apart")
        require(reached >= 0.99, f"the worst pair under {relation.value} reaches {reached:.3g} of the claim")


def _data_sets(trial: _Trial, count: int) -> Iterator[DataSet]:
    """Small data sets of all kinds, an empty one and a single row among them."""
    rng = np.random.default_rng(trial.seed)
    for number in range(count):
        x, y = trial.draw(rng, number % 6)
        yield (x, y, np.sort(rng.integers(0, 3, len(x)))) if trial.has_people else (x, y)


def _neighbours(trial: _Trial) -> Iterator[tuple[DataSet, DataSet, DataSet]]:
    """A data set, the same with a unit more, and with another in that one's place.

    A unit is a person; or one row, as which a person with a single one is written.
    """
    rng, most = np.random.default_rng(trial.seed), 8 if trial.has_people else 1
    drawn = [trial.draw(rng, int(rng.integers(1, most + 1))) for _ in range(2 * trial.cases)]
    pairs, nobody = list(zip(drawn[::2], drawn[1::2], strict=True)), trial.draw(rng, 0)
    if nobody[0].shape == (0, trial.width) and nobody[0].dtype.kind == "f":
        cut = slice(None if trial.has_people else 1)
        extreme = [(x[cut], y[cut]) for x, y in worst_people(trial.width, trial.classes).values()]
        pairs = [(first, second) for first in extreme for second in extreme] + pairs
    for first, second in pairs:
        others = [drawn[place] for place in rng.integers(0, len(drawn), rng.integers(0, 4))]
        mixed = int(rng.integers(2**31))
        data = [with_people([nobody, *others, *more], mixed) for more in ((), (first,), (second,))]
        less, one, other = data if trial.has_people else (units[:2] for units in data)
        yield less, one, other


QUERY_CHECKS: Mapping[str, Callable[[_Trial], None]] = {
    "a query says what it releases, of which unit, on which grid": _check_statement,
    "answers are integers and follow from the rows": _check_answers,
    "persons and rows are not mistaken for each other": _check_people_argument,
    "neighbours stay within the sensitivity": _check_sensitivity,
    "the worst pair reaches the sensitivity": _check_worst_pair,
}
"""Each rule, in words, with the function that raises where a query breaks it."""
