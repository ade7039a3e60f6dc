"""Every method with people: it fits, or refuses before the charge, and bounds a person as one."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from dptransfer.data import PrivateImages
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import base, gaussian, rounds, selection
from dptransfer.methods import METHODS, MeanPrototypes, PrivateTuning, picture_voting, transfer_pate
from dptransfer.methods.partition import teacher_of_each_row
from dptransfer.methods.replan import verify_release
from dptransfer.methods.voting import Voting
from dptransfer.privacy import Relation, Unit
from dptransfer.release import read_release
from methods.samples import Repeatable, Silent

from .method_suite import (
    CLASSES,
    POOL,
    SIZE,
    WIDTH,
    budget_for,
    fitted,
    fresh,
    in_their_order,
    same,
    undrawn,
    world,
)
from .test_method_suite import names_without_a_model, small

__all__ = ["names_without_a_model"]
REFUSING = {"coinpress": "public numbers of rows"}
BOUNDING = [name for name in METHODS if name not in REFUSING]
LOUD = 40


def owned(method, ids, x=None, y=None, **declared):
    if x is None:
        x, y = world(method).ordinary()
    told = {"size": SIZE, "rows_per_person": 3.0} | declared
    return method.takes(x, y, classes=CLASSES, name="clinic-a", people=ids, **told)


def several():
    """Ten persons, each in every class."""
    return np.arange(SIZE) % 10


def with_a_loud_person(method, kind):
    """Thirty ordinary examples of ten persons, and one more person whose forty try everything."""
    x, y = world(method).ordinary()
    if method.takes is PrivateImages:
        loud = np.full((LOUD, *x.shape[1:]), {"huge": 255, "not a number": 0, "alike": 128}[kind], np.uint8)
        loud[:2] = x[:2]
    else:
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
    ledger, method = Ledger.in_memory(), small(name)
    model = fitted(method, owned(method, ODD_PEOPLE[people]), ledger=ledger)
    assert model.guarantee.unit is Unit.PERSON
    assert all(event.unit is Unit.PERSON for event in model.events)
    assert ledger.history()[0].events == model.events
    assert np.isfinite(model.predict_proba(fresh(model))).all()


@pytest.mark.parametrize("name", BOUNDING)
def test_replaced_persons_are_protected_too(name):
    method = small(name)
    budget = budget_for(method, Relation.REPLACE_ONE)
    model = fitted(method, owned(method, several()), budget=budget)
    assert model.guarantee.unit is Unit.PERSON
    assert {(event.unit, event.relation) for event in model.events} <= {(Unit.PERSON, Relation.REPLACE_ONE)}


@pytest.mark.parametrize("name", REFUSING)
def test_what_bounds_rows_alone_refuses_persons_before_the_charge_with_the_reason(name):
    method, ledger = small(name), Ledger.in_memory()
    data = owned(method, several(), class_counts=[14, 9, 7])
    with pytest.raises(ArgumentError, match=f"{REFUSING[name]}.*one person"):
        fitted(method, data, ledger=ledger)
    with pytest.raises(ArgumentError, match=REFUSING[name]):
        method.plan(data.facts, budget_for(method), POOL)
    with pytest.raises(ArgumentError, match=REFUSING[name]):
        fitted(PrivateTuning(candidates=(MeanPrototypes(), method)), data, ledger=ledger)
    assert ledger.history() == []


class Watching:
    """Notes how far each exact answer moves without one person, as a share of how far it may.

    Of teachers' ballots it does not know whose they are; those it notes are compared with a fit without them.
    """

    def __init__(self, monkeypatch, person):
        self.shares, self.first, self._person = [], None, person
        for module in (gaussian, rounds):
            monkeypatch.setattr(module, "exact_answer", self)
        monkeypatch.setattr(selection, "_in_pieces", self.scored)

    def __call__(self, query, rows, labels, people):
        return self.noted(base.exact_answer, query, rows, labels, people)

    def scored(self, query, rows, labels, people):
        self.noted(all_scores, query, rows, labels, people)
        return in_pieces(query, rows, labels, people)

    def noted(self, ask, query, rows, labels, people):
        answer = ask(query, rows, labels, people)
        self.first = self.first or (query, answer)
        if people is not None:
            rest = people != self._person
            other = ask(query, rows[rest], labels[rest], people[rest])
            self.shares.append(share(query, answer, other))
        return answer


in_pieces = selection._in_pieces


def all_scores(*asked):
    scored = in_pieces(*asked)
    return scored.scores(slice(0, len(scored)))


def shares_of(method, data, without, monkeypatch):
    """How far exact answers move without the last person."""
    seen = Watching(monkeypatch, data.people[-1])
    model = fitted(method, data, noise=Silent())
    assert bool(seen.first) == bool(model.events)
    if isinstance(method, Voting):
        others = Watching(monkeypatch, data.people[-1])
        fitted(method, without, noise=Silent())
        return [share(seen.first[0], seen.first[1], others.first[1])]
    return seen.shares


def share(query, answer, other):
    gap = (answer - other).astype(np.float64)
    if hasattr(query, "score_range"):  # what a person adds, summed over the classes that they touch
        assert gap.min(initial=0) >= 0
        return gap.max(axis=0).sum() / query.score_range
    return np.linalg.norm(gap) / query.grid / query.l2_sensitivity(Relation.ADD_REMOVE)


@pytest.mark.parametrize("kind", ["huge", "not a number", "alike"])
@pytest.mark.parametrize("name", BOUNDING)
def test_forty_rows_of_one_person_move_no_answer_further_than_one_may(name, kind, monkeypatch):
    method = small(name)
    x, y, ids = with_a_loud_person(method, kind)
    data, without = owned(method, ids, x, y), owned(method, ids[:-LOUD], x[:-LOUD], y[:-LOUD])
    moves = shares_of(method, data, without, monkeypatch)
    assert moves or not method.plan(data.facts, budget_for(method), world(method).pool).events
    assert all(moved <= 1 for moved in moves)


@dataclass(frozen=True)
class CountsRowsAsPersons(MeanPrototypes):
    """Bounds every row as if it were a person."""

    def run(self, plan, features, private, noise, public):
        private.people = np.arange(len(private.rows))
        return super().run(plan, features, private, noise, public)


@pytest.mark.parametrize(("method", "honest"), [(MeanPrototypes(), True), (CountsRowsAsPersons(), False)])
def test_a_method_that_bounds_rows_singly_is_caught(method, honest, monkeypatch):
    x, y, ids = with_a_loud_person(method, "alike")
    with_them, without = Watching(monkeypatch, 10), Watching(monkeypatch, 10)
    for seen, kept in ((with_them, slice(None)), (without, slice(-LOUD))):
        monkeypatch.setattr(gaussian, "exact_answer", seen)
        fitted(method, owned(method, ids[kept], x[kept], y[kept]), noise=Silent())
    moved = share(with_them.first[0], with_them.first[1], without.first[1])
    assert (moved <= 1) == honest
    assert moved > 0.9


@pytest.mark.parametrize("name", ["transfer-pate", "prom-pate"])
def test_teachers_among_whom_a_persons_rows_are_shared_out_are_caught(name, monkeypatch):
    method = replace(small(name), teachers=4)
    x, y, ids = with_a_loud_person(method, "alike")
    y[-LOUD:] = 2  # the rarest, so that many teachers change their minds
    parts = owned(method, ids, x, y), owned(method, ids[:-LOUD], x[:-LOUD], y[:-LOUD])
    (whole,) = shares_of(method, *parts, monkeypatch)
    for module in (transfer_pate, picture_voting):
        monkeypatch.setattr(
            module, "teacher_of_each_row", lambda n, _, *more: teacher_of_each_row(n, None, *more)
        )
    (shared_out,) = shares_of(method, *parts, monkeypatch)
    assert whole <= 1 < shared_out


@pytest.mark.parametrize("name", BOUNDING)
def test_the_order_of_the_rows_does_not_matter(name):
    method = undrawn(small(name))
    if in_their_order(method):
        pytest.skip("teachers look at their pictures one after the other")
    x, y, ids = with_a_loud_person(method, "huge")
    order = np.random.default_rng(3).permutation(len(x))
    turned = owned(method, ids[order], x[order], y[order])
    assert same(fitted(method, owned(method, ids, x, y)), fitted(method, turned))


@pytest.mark.parametrize("name", BOUNDING)
def test_saved_it_loads_verifies_and_says_whom_it_protects(name, tmp_path):
    method = small(name)
    model = fitted(method, owned(method, several(), person_bound=2.0), noise=Repeatable(1))
    path = model.save(tmp_path / "model")
    again = read_release(path)
    assert same(model, again)
    assert again.guarantee == model.guarantee
    assert again.facts.bound == model.facts.bound
    assert (model.predict(fresh(model)) == again.predict(fresh(model))).all()
    assert verify_release(path).failed == ()
    assert "one person, with all their examples" in (path / "CARD.md").read_text()


@pytest.mark.parametrize("name", BOUNDING)
def test_a_larger_bound_lets_a_person_say_more(name, monkeypatch):
    method = small(name)
    model = fitted(method, owned(method, several(), person_bound=3.0))
    assert model.facts.bound.examples == 3.0
    x, y, ids = with_a_loud_person(method, "huge")
    loud, rest = (owned(method, ids[:n], x[:n], y[:n], person_bound=3.0) for n in (None, -LOUD))
    assert all(moved <= 1 for moved in shares_of(method, loud, rest, monkeypatch))
