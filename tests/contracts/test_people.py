"""Every method with people: it fits, or refuses before the charge, and bounds a person as one."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.methods import METHODS, MeanPrototypes, PrivateTuning
from dptransfer.methods.votes import voting
from dptransfer.methods.votes.voting import teacher_of_each_row
from dptransfer.privacy import Relation, Unit
from dptransfer.testing import sample_data
from dptransfer.testing.method_rules import person_shares
from dptransfer.testing.sample_data import (
    EACH_OF_TEN,
    POOL,
    add_loud_person,
    budget_for,
    fit_sample,
    is_same_release,
    private_with_people,
    reads_in_order,
    without_sampling,
)

from .test_method_suite import small

REFUSING = {"coinpress": "public numbers of rows"}
BOUNDING = [name for name in METHODS if name not in REFUSING]


@pytest.mark.parametrize("name", BOUNDING)
def test_replaced_persons_are_protected_too(name):
    method = small(name)
    budget = budget_for(method, Relation.REPLACE_ONE)
    model = fit_sample(method, private_with_people(method, EACH_OF_TEN), budget=budget)
    assert model.guarantee.unit is Unit.PERSON
    assert {(event.unit, event.relation) for event in model.events} <= {(Unit.PERSON, Relation.REPLACE_ONE)}


@pytest.mark.parametrize("name", REFUSING)
def test_what_bounds_rows_alone_refuses_persons_before_the_charge_with_the_reason(name):
    method, ledger = small(name), Ledger.in_memory()
    data = private_with_people(method, EACH_OF_TEN, class_counts=[14, 9, 7])
    with pytest.raises(ArgumentError, match=f"{REFUSING[name]}.*one person"):
        fit_sample(method, data, ledger=ledger)
    with pytest.raises(ArgumentError, match=REFUSING[name]):
        method.plan(data.facts, budget_for(method), POOL)
    with pytest.raises(ArgumentError, match=REFUSING[name]):
        fit_sample(PrivateTuning(candidates=(MeanPrototypes(), method)), data, ledger=ledger)
    assert ledger.history() == []


@pytest.mark.parametrize("name", ["transfer-pate", "prom-pate"])
def test_teachers_among_whom_a_persons_rows_are_shared_out_are_caught(name, monkeypatch):
    method = replace(small(name), teachers=4)
    rarest = partial(add_loud_person, label=2)  # so that many teachers change their minds
    monkeypatch.setattr(sample_data, "add_loud_person", rarest)
    (whole,) = person_shares(method, "alike")
    by_row = lambda rows, _, *more: teacher_of_each_row(rows, None, *more)  # noqa: E731
    monkeypatch.setattr(voting, "teacher_of_each_row", by_row)
    (shared_out,) = person_shares(method, "alike")
    assert whole <= 1 < shared_out


@pytest.mark.parametrize("name", BOUNDING)
def test_the_order_of_the_rows_does_not_matter(name):
    method = without_sampling(small(name))
    if reads_in_order(method):
        pytest.skip("teachers look at their pictures one after the other")
    x, y, ids = add_loud_person(method, "huge")
    order = np.random.default_rng(3).permutation(len(x))
    turned = private_with_people(method, ids[order], x[order], y[order])
    assert is_same_release(
        fit_sample(method, private_with_people(method, ids, x, y)), fit_sample(method, turned)
    )


@pytest.mark.parametrize("name", BOUNDING)
def test_a_larger_bound_lets_a_person_say_more(name):
    method = small(name)
    model = fit_sample(method, private_with_people(method, EACH_OF_TEN, person_bound=3.0))
    assert model.facts.bound.examples == 3.0
    assert all(moved <= 1 for moved in person_shares(method, "huge", person_bound=3.0))
