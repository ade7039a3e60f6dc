"""Methods with people: every unit that is declared works, and a person is bounded with all their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dptransfer.base.types import Integers
from dptransfer.data import PrivateEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.mechanisms.mechanism import exact_answer
from dptransfer.privacy import Relation, Unit
from dptransfer.testing.contract import ContractBroken, require
from dptransfer.testing.sample_data import (
    CLASSES,
    NAME,
    SIZE,
    WIDTH,
    NoNoise,
    fit_sample,
    fresh_rows,
    noting_releases,
    sample_data_for,
)

LOUD = 40
"""Number of examples of the person who tries to count more than once."""
LOUD_KINDS = ("huge", "not a number", "alike")
EACH_OF_TEN = np.arange(SIZE) % 10
"""Ten persons, each with examples of every class."""
ODD_PEOPLE: Mapping[str, Any] = {
    "one person for all rows": np.zeros(SIZE, dtype=np.int64),
    "a person per row": np.arange(SIZE),
    "persons in every class": EACH_OF_TEN,
    "missing ids": np.array([None if row % 3 == 0 else str(row % 10) for row in range(SIZE)], dtype=object),
    "no id at all": np.full(SIZE, None, dtype=object),
}


def private_with_people(method: Any, ids: Any, x: Any = None, y: Any = None, **declared: Any) -> Any:
    """Private data whose examples belong to people: the ordinary ones, if none are given."""
    if x is None:
        x, y = sample_data_for(method).ordinary(7)
    known = {"size": SIZE, "rows_per_person": 3.0} | declared
    return method.takes(x, y, classes=CLASSES, name=NAME, people=ids, **known)


def add_loud_person(method: Any, kind: str, label: int = 0) -> tuple[Any, Integers, Integers]:
    """Thirty ordinary examples of ten persons, and forty of one more, who tries everything.

    Those that are alike are of one class, the others of all.
    """
    x, y = sample_data_for(method).ordinary(7)
    if issubclass(PrivateEmbeddings, method.takes):
        loud = np.full((LOUD, WIDTH), {"huge": 1e308, "not a number": np.nan, "alike": 1.0}[kind])
        loud[0], loud[1] = np.inf, 5e-324
    else:
        loud = np.full((LOUD, *x.shape[1:]), {"huge": 255, "not a number": 0, "alike": 128}[kind], np.uint8)
        loud[:2] = x[:2]
    classes = np.arange(LOUD) % len(CLASSES) if kind != "alike" else np.full(LOUD, label)
    ids = np.append(EACH_OF_TEN, np.full(LOUD, 10))
    return np.concatenate([x, loud]), np.append(y, classes), ids


class PersonShares:
    """How far one person moves each exact answer, as a share of how far they may.

    Mechanisms note what they answer, and this asks the same without the person. `first` is the first answer
    with its query, to be compared with that of a fit without them: of ballots nobody knows whose they are.

    Args:
        person: whose rows are left out.
    """

    def __init__(self, person: int) -> None:
        self.shares: list[float] = []
        self.first: tuple[Any, Any] | None = None
        self._person = person

    def record_fit(self, method: Any, data: Any) -> Any:
        """The model of a fit to the data, without noise, of which the shares are recorded."""
        with noting_releases(self._note) as ledger:
            return fit_sample(method, data, noise=NoNoise(), ledger=ledger)

    def _note(self, step: Any, query: Any, rows: Any, labels: Any, people: Any = None) -> None:
        answer = _exact(query, rows, labels, people)
        self.first = self.first or (query, answer)
        if people is not None:
            rest = people != self._person
            other = _exact(query, rows[rest], labels[rest], people[rest])
            self.shares.append(share_moved(query, answer, other))


def _exact(query: Any, rows: Any, labels: Any, people: Any) -> Any:
    """The exact answer, of all candidates where they are scored in pieces."""
    if hasattr(query, "pool_scores"):
        scored = query.pool_scores(rows, labels, people)
        return np.asarray(scored.scores(slice(0, len(scored))))
    return exact_answer(query, rows, labels, people)


def share_moved(query: Any, answer: Any, other: Any) -> float:
    """How far apart two answers are, as a share of how far one unit more may move them."""
    require(answer.shape == other.shape, "the answer has another shape without a person")
    gap = (answer - other).astype(np.float64)
    if hasattr(query, "score_range"):  # what a person adds, summed over the classes that they touch
        require(gap.min(initial=0) >= 0, "a person more lowers a score")
        return float(gap.max(axis=0).sum() / query.score_range)
    return float(np.linalg.norm(gap) / query.grid / query.l2_sensitivity(Relation.ADD_REMOVE))


def person_shares(method: Any, kind: str, **declared: Any) -> list[float]:
    """How far the person with forty rows moves each exact answer of a fit, as a share of how far they may."""
    x, y, ids = add_loud_person(method, kind)
    data, without = (
        private_with_people(method, ids[:n], x[:n], y[:n], **declared) for n in (None, len(x) - LOUD)
    )
    seen, others = PersonShares(data.people[-1]), PersonShares(data.people[-1])
    model = seen.record_fit(method, data)
    require(bool(seen.first) == bool(model.events), "an event has no mechanism of this library behind it")
    if seen.first is None:
        return []
    # A method may tell its mechanisms other people than it was given: so also compare two fits.
    others.record_fit(method, without)
    if others.first is None:
        raise ContractBroken("without a person it answers nothing")
    return [share_moved(*seen.first, others.first[1]), *seen.shares]


def _check_odd_people(method: Any) -> None:
    if Unit.PERSON not in method.units:
        return
    for name, ids in ODD_PEOPLE.items():
        ledger = Ledger.in_memory()
        model = fit_sample(method, private_with_people(method, ids), ledger=ledger)
        units = {model.guarantee.unit, *(event.unit for event in model.events)}
        require(units == {Unit.PERSON}, f"{name}: an event or the guarantee protects another unit")
        charged: Any = ledger.history()[0]
        require(charged.events == model.events, f"{name}: the events charged are not those released")
        require(
            np.isfinite(model.predict_proba(fresh_rows(model))).all(), f"{name}: scores that are no numbers"
        )


def _check_refused_people(method: Any) -> None:
    if Unit.PERSON in method.units:
        return
    ledger = Ledger.in_memory()
    try:
        fit_sample(method, private_with_people(method, EACH_OF_TEN, class_counts=[14, 9, 7]), ledger=ledger)
    except ArgumentError:
        require(ledger.history() == [], "data about persons were charged before they were refused")
    else:
        require(False, "data about persons were taken")


def _check_loud_person(method: Any) -> None:
    if Unit.PERSON not in method.units:
        return
    for kind in LOUD_KINDS:
        for moved in person_shares(method, kind):
            require(moved <= 1, f"rows that are {kind}: the answer moves {moved:.3g} times as far")


PEOPLE_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "odd people work like any other": _check_odd_people,
    "what does not bound persons refuses them before the charge": _check_refused_people,
    "forty rows of one person move no exact answer further than one may": _check_loud_person,
}
"""Each rule about people, in words, with the function that raises where a method breaks it."""
