"""Make classification tasks from a public pool, to try methods on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dptransfer.accounting import epsilon_of_mu, mu_for
from dptransfer.base.types import AnyArray, Floats, Floats32, Integers, People
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.labels import long_tail_counts
from dptransfer.ledger import AnyDataSet, Ledger, Receipt
from dptransfer.privacy import Budget, Event

MOST_ROWS = 5000
"""Examples of a task; where more are declared, the noise is made smaller by the same factor."""
_MOST_TEST_PER_CLASS = 200
_MOST_TEST_ROWS = 2000
_LARGEST_MU = 8.0
_FEWEST_LABELLED = 30  # rows of a public class that can stand for a private one


@dataclass(frozen=True)
class Family:
    """Difficulty of a surrogate task.

    Attributes:
        class_part: weight of a class's own public row in each of its examples; the rest is another public
            row.
        kinship: weight of a row that a few classes share, so that some classes are close neighbours.
        imbalance: ratio of the largest class to the smallest.
        many_classes: whether a person, where there are persons, has rows of any class, or of one.
    """

    class_part: float
    kinship: float
    imbalance: float
    many_classes: bool = False


# Plain clusters of the pool are too easy a task and rank methods wrongly. Examples that are part class and
# part unrelated pool row, with classes that overlap, rank them usefully; several families voting beat any
# single one. How imbalanced the private classes are is not known, nor whether the rows of a person are of one
# class (an author's mostly are, a caller's are not), so the families cover what may come.
FAMILIES = (
    Family(0.5, 0.75, 1.0),
    Family(0.3, 0.6, 3.0, many_classes=True),
    Family(0.4, 0.75, 10.0),
    Family(0.4, 0.6, 100.0, many_classes=True),
)
_RELATED = 4
# Of a person's own public row in what their rows have beside their class. Those of one person then have a
# cosine of 0.2 there; measured were 0.03 for callers, 0.18 for authors and 0.4 for tracks of a traffic sign.
_PERSON_PART = 1 / 3


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A task with the declared number of classes, its rows made of public rows: nobody's data.

    Attributes:
        private: stands for the private rows.
        public: the pool, with as many labelled shots of the surrogate's classes as the real one has.
        test_rows: rows to score on, as many for every class.
        test_labels: their classes.
    """

    private: PrivateEmbeddings
    public: PublicEmbeddings
    test_rows: Floats32
    test_labels: Integers

    def accuracy(self, scores: Floats) -> float:
        """Balanced accuracy of scores of the test rows, which are as many for every class."""
        return float((scores.argmax(axis=1) == self.test_labels).mean())


def scaled_budget(budget: Budget, factor: float) -> Budget:
    """The budget with noise smaller by `factor`: what a surrogate needs that is smaller by as much.

    It stays in its own currency: a GDP budget, say, would not pay for the selections that an (ε, δ) one does.
    Noise of an eighth of one example is none beside thousands of them, so no budget is raised beyond that:
    samplers that cut their tails pay for no such thing.

    >>> scaled_budget(Budget.zcdp(0.1), 2.0).rho
    0.4
    """
    amount = budget.amount
    if factor == 1 or budget.flavour == "pure":
        return budget if factor == 1 else replace(budget, epsilon=amount * factor)
    if budget.flavour == "gdp":
        raised = min(amount * factor, _LARGEST_MU)
    elif budget.flavour == "zcdp":
        raised = min(amount * factor**2, _LARGEST_MU**2 / 2)
    else:
        raised = epsilon_of_mu(min(mu_for(amount, budget.delta) * factor, _LARGEST_MU), budget.delta)
    changed: dict[str, Any] = {budget.currency: max(amount, raised)}
    return replace(budget, **changed)


def surrogates(
    public: PublicEmbeddings,
    classes: int,
    size: int,
    *,
    rows_per_person: float | None = None,
    person_bound: float = 1.0,
    rng: np.random.Generator,
) -> Iterator[Surrogate]:
    """One task per family, with about `size` examples.

    Where the public rows have labels of their own, and enough of them, real classes stand for the private
    ones; otherwise each class is made around a public row. With `rows_per_person`, examples are of persons
    with so many rows each, which are alike.
    """
    per_class = min(_MOST_TEST_PER_CLASS, max(2, _MOST_TEST_ROWS // classes))
    shots = 0 if public.shots is None else max(1, len(public.shots) // classes)
    for family in FAMILIES:
        shape = long_tail_counts(1_000_000, family.imbalance, classes).astype(np.float64)
        counts = rng.permutation(np.maximum(1, np.rint(size * shape / shape.sum()))).astype(np.int64)
        source = _labelled_classes(public, classes, rng) or _made_classes(public, classes, family, rng)
        labels, tests, shown = (np.repeat(np.arange(classes), each) for each in (counts, per_class, shots))
        people = None
        if rows_per_person is not None:
            people = made_people(len(labels), rows_per_person, many_classes=family.many_classes, rng=rng)
        rows, test_rows, shot_rows = source(labels, people), source(tests, None), source(shown, None)
        told: Any = {"classes": [str(c) for c in range(classes)], "encoder": public.encoder}
        pool = public.with_shots(PublicEmbeddings(shot_rows, shown, **told)) if shots else public
        whose: Any = {"people": people, "person_bound": person_bound, "rows_per_person": rows_per_person}
        private = PrivateEmbeddings(rows, labels, name="surrogate", size=size, **told, **whose)
        yield Surrogate(private, pool, test_rows, tests)


def made_people(rows: int, each: float, *, many_classes: bool, rng: np.random.Generator) -> People:
    """Persons with as many rows each, of rows in order of class: consecutive ones, or any."""
    persons = max(1, round(rows / each))
    people: People = np.arange(rows) * persons // rows
    return rng.permutation(people) if many_classes else people


Source = Callable[[Integers, People | None], Floats32]
"""Gives an example of each of these classes, by these persons; asked again, other examples where it can."""


def has_classes(public: PublicEmbeddings, classes: int) -> bool:
    """Whether so many of the public rows' own classes can stand for private ones."""
    return public.labels is not None and len(_usable(public.labels)) >= classes


def _usable(labels: Integers) -> Integers:
    return np.flatnonzero(np.bincount(labels) >= _FEWEST_LABELLED)


def _labelled_classes(public: PublicEmbeddings, classes: int, rng: np.random.Generator) -> Source | None:
    """Examples of `classes` of the public rows' own classes; None if too few have enough rows."""
    labels = public.labels
    if labels is None or not has_classes(public, classes):
        return None
    chosen = rng.choice(_usable(labels), size=classes, replace=False)
    members = [rng.permutation(np.flatnonzero(labels == name)) for name in chosen]
    given = np.zeros(classes, dtype=np.int64)

    def examples(of: Integers, people: People | None) -> Floats32:
        places = np.empty(len(of), dtype=np.int64)
        for number, own in enumerate(members):
            wanted = np.flatnonzero(of == number)
            taken = own[(given[number] + np.arange(len(wanted))) % len(own)]
            if people is not None:  # rows of one person are near one another
                taken = taken[_neighbourly(_unit(public.rows[taken]))]
                wanted = wanted[np.argsort(people[wanted], kind="stable")]
            places[wanted] = taken
            given[number] += len(wanted)
        return public.rows[places].astype(np.float32)

    return examples


def _neighbourly(rows: Floats32) -> Integers:
    """An order in which rows that are alike stand together: halved along two rows' difference, and again."""
    if len(rows) < 3:
        return np.arange(len(rows))
    order = np.argsort(rows @ (rows[0] - rows[-1]), kind="stable")
    halves = np.array_split(order, 2)
    return np.concatenate([half[_neighbourly(rows[half])] for half in halves])


def _made_classes(public: PublicEmbeddings, classes: int, family: Family, rng: np.random.Generator) -> Source:
    """Examples that are part class, a mix of two public rows, and part another public row."""
    own = _unit(public.rows[rng.integers(0, len(public), classes)])
    shared = _unit(public.rows[rng.integers(0, len(public), -(-classes // _RELATED))])
    own = (1 - family.kinship) * own + family.kinship * shared[np.arange(classes) // _RELATED]

    def drawn(count: int) -> Floats32:
        rows = _unit(public.rows[np.sort(rng.integers(0, len(public), count))])
        return rng.permutation(rows)

    def examples(of: Integers, people: People | None) -> Floats32:
        other = drawn(len(of))
        if people is not None:
            persons = drawn(int(people.max()) + 1)
            other = _unit(_PERSON_PART * persons[people] + (1 - _PERSON_PART) * other)
        mixed = family.class_part * own[of] + (1 - family.class_part) * other
        return mixed.astype(np.float32)

    return examples


def _unit(rows: AnyArray) -> Floats32:
    # By the largest entry first: a float64 pool may hold what float32, or its squares, cannot.
    wide = rows.astype(np.float64)
    peak = np.maximum(np.abs(wide).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    narrow = (wide / peak).astype(np.float32)
    unit: Floats32 = narrow / np.maximum(np.linalg.norm(narrow, axis=1, keepdims=True), 1e-30)
    return unit


class SurrogateLedger(Ledger):
    """Ledger for public rows that stand in for private ones, beside their own pool."""

    def charge(
        self, dataset: AnyDataSet, events: Sequence[Event], *, beside: object = None, **how: Any
    ) -> Receipt:
        """Record a charge; public rows that are among the surrogates are no matter."""
        return super().charge(dataset, events, **how)
