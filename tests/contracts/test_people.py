"""Every method with people: it fits, or refuses before the charge, and bounds a person as one."""

from dataclasses import dataclass

import numpy as np
import pytest

from dptransfer.data import PrivateEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import base, gaussian, rounds, selection, top_k
from dptransfer.methods import METHODS, MeanPrototypes, PrivateTuning
from dptransfer.methods.replan import verify_release
from dptransfer.privacy import Relation, Unit
from dptransfer.release import read_release
from methods.samples import Repeatable, Silent

from .method_suite import CLASSES, FRESH, POOL, SIZE, WIDTH, budget_for, fitted, ordinary, same, undrawn
from .test_method_suite import names_without_a_model, small

__all__ = ["names_without_a_model"]
REFUSING = {"coinpress": "public numbers of rows"}
BOUNDING = [name for name in METHODS if name not in REFUSING]
LOUD = 40


def owned(ids, x=None, y=None, **declared):
    if x is None:
        x, y = ordinary()
    told = {"size": SIZE, "rows_per_person": 3.0} | declared
    return PrivateEmbeddings(x, y, classes=CLASSES, name="clinic-a", people=ids, **told)


def several():
    """Ten persons, each in every class."""
    return np.arange(SIZE) % 10


def with_a_loud_person(kind):
    """Thirty ordinary rows of ten persons, and one more person whose forty rows try everything."""
    x, y = ordinary()
    loud = np.full((LOUD, WIDTH), {"huge": 1e308, "not a number": np.nan, "alike": 1.0}[kind])
    loud[0], loud[1] = np.inf, 5e-324
    classes = np.arange(LOUD) % len(CLASSES) if kind != "alike" else np.zeros(LOUD, dtype=np.int64)
    ids = np.append(several(), np.full(LOUD, 10))
    return np.concatenate([x, loud]), np.append(y, classes), ids


ODD_PEOPLE = {
    "one person for all rows": np.zeros(SIZE, dtype=np.int64),
    "a person per row": np.arange(SIZE),
    "persons in every class": several(),
    "missing ids": np.where(np.arange(SIZE) % 3 == 0, None, several().astype(str).astype(object)),
    "no id at all": np.full(SIZE, None, dtype=object),
}


@pytest.mark.parametrize("people", ODD_PEOPLE)
@pytest.mark.parametrize("name", BOUNDING)
def test_every_method_fits_people_whatever_they_have(name, people):
    ledger = Ledger.in_memory()
    model = fitted(small(name), owned(ODD_PEOPLE[people]), ledger=ledger)
    assert model.guarantee.unit is Unit.PERSON
    assert all(event.unit is Unit.PERSON for event in model.events)
    assert ledger.history()[0].events == model.events
    assert np.isfinite(model.predict_proba(FRESH)).all()


@pytest.mark.parametrize("name", BOUNDING)
def test_replaced_persons_are_protected_too(name):
    budget = budget_for(small(name), Relation.REPLACE_ONE)
    model = fitted(small(name), owned(several()), budget=budget)
    assert model.guarantee.unit is Unit.PERSON
    assert {(event.unit, event.relation) for event in model.events} <= {(Unit.PERSON, Relation.REPLACE_ONE)}


@pytest.mark.parametrize("name", REFUSING)
def test_what_bounds_rows_alone_refuses_persons_before_the_charge_with_the_reason(name):
    method, ledger = small(name), Ledger.in_memory()
    data = owned(several(), class_counts=[14, 9, 7])
    with pytest.raises(ArgumentError, match=f"{REFUSING[name]}.*one person"):
        fitted(method, data, ledger=ledger)
    with pytest.raises(ArgumentError, match=REFUSING[name]):
        method.plan(data.facts, budget_for(method), POOL)
    with pytest.raises(ArgumentError, match=REFUSING[name]):
        fitted(PrivateTuning(candidates=(MeanPrototypes(), method)), data, ledger=ledger)
    assert ledger.history() == []


class Watching:
    """Notes how far each exact answer moves without one person, as a share of how far it may."""

    def __init__(self, monkeypatch, person):
        self.shares, self.first, self._person = [], None, person
        for module in (gaussian, rounds, selection, top_k):
            monkeypatch.setattr(module, "exact_answer", self)

    def __call__(self, query, rows, labels, people):
        answer = base.exact_answer(query, rows, labels, people)
        if (
            people is None
        ):  # ballots: a person is behind one of them (`tests/compute/test_linear_teachers.py`)
            others = (
                base.exact_answer(query, np.delete(rows, one, axis=0), labels, None)
                for one in range(len(rows))
            )
        else:
            rest = people != self._person
            others = [base.exact_answer(query, rows[rest], labels[rest], people[rest])]
        self.shares.extend(share(query, answer, other) for other in others)
        self.first = self.first or (query, answer)
        return answer


def share(query, answer, other):
    gap = (answer - other).astype(np.float64)
    if hasattr(query, "score_range"):  # what a person adds, summed over the classes that they touch
        assert gap.min(initial=0) >= 0
        return gap.max(axis=0).sum() / query.score_range
    return np.linalg.norm(gap) / query.grid / query.l2_sensitivity(Relation.ADD_REMOVE)


@pytest.mark.parametrize("kind", ["huge", "not a number", "alike"])
@pytest.mark.parametrize("name", BOUNDING)
def test_forty_rows_of_one_person_move_no_answer_further_than_one_may(name, kind, monkeypatch):
    x, y, ids = with_a_loud_person(kind)
    data = owned(ids, x, y)
    seen = Watching(monkeypatch, data.people[-1])
    model = fitted(small(name), data, noise=Silent())
    assert bool(seen.shares) == bool(model.events)
    assert all(moved <= 1 for moved in seen.shares)


@dataclass(frozen=True)
class CountsRowsAsPersons(MeanPrototypes):
    """Bounds every row as if it were a person."""

    def run(self, plan, features, private, noise, public):
        private.people = np.arange(len(private.rows))
        return super().run(plan, features, private, noise, public)


@pytest.mark.parametrize(("method", "honest"), [(MeanPrototypes(), True), (CountsRowsAsPersons(), False)])
def test_a_method_that_bounds_rows_singly_is_caught(method, honest, monkeypatch):
    x, y, ids = with_a_loud_person("alike")
    with_them, without = Watching(monkeypatch, 10), Watching(monkeypatch, 10)
    for seen, kept in ((with_them, slice(None)), (without, slice(-LOUD))):
        monkeypatch.setattr(gaussian, "exact_answer", seen)
        fitted(method, owned(ids[kept], x[kept], y[kept]), noise=Silent())
    moved = share(with_them.first[0], with_them.first[1], without.first[1])
    assert (moved <= 1) == honest
    assert moved > 0.9


@pytest.mark.parametrize("name", BOUNDING)
def test_the_order_of_the_rows_does_not_matter(name):
    x, y, ids = with_a_loud_person("huge")
    method = undrawn(small(name))
    order = np.random.default_rng(3).permutation(len(x))
    assert same(fitted(method, owned(ids, x, y)), fitted(method, owned(ids[order], x[order], y[order])))


@pytest.mark.parametrize("name", BOUNDING)
def test_saved_it_loads_verifies_and_says_whom_it_protects(name, tmp_path):
    model = fitted(small(name), owned(several(), person_bound=2.0), noise=Repeatable(1))
    path = model.save(tmp_path / "model")
    again = read_release(path)
    assert same(model, again)
    assert again.guarantee == model.guarantee
    assert again.facts.bound == model.facts.bound
    assert (model.predict(FRESH) == again.predict(FRESH)).all()
    assert verify_release(path).failed == ()
    assert "one person, with all their examples" in (path / "CARD.md").read_text()


@pytest.mark.parametrize("name", BOUNDING)
def test_a_larger_bound_lets_a_person_say_more(name, monkeypatch):
    method, data = small(name), owned(several(), person_bound=3.0)
    model = fitted(method, data)
    assert model.facts.bound.examples == 3.0
    x, y, ids = with_a_loud_person("huge")
    loud = owned(ids, x, y, person_bound=3.0)
    seen = Watching(monkeypatch, loud.people[-1])
    fitted(method, loud, noise=Silent())
    assert all(moved <= 1 for moved in seen.shares)
