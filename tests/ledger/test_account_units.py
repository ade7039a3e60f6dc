"""Charges about rows and about persons add up in one account by restating, and by nothing else."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dptransfer.accounting import epsilon_of
from dptransfer.data import PrivateEmbeddings
from dptransfer.errors import ArgumentError, BudgetExceeded, RelationMismatch
from dptransfer.ledger import Charge, Ledger
from dptransfer.methods import MeanPrototypes
from dptransfer.privacy import (
    Budget,
    DisjointEvent,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    Unit,
    for_group,
    for_people,
    for_rows,
)

from .samples import RULES_DELTA

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
ROW = GaussianEvent(16.0, ADD)
PERSON = replace(ROW, unit=Unit.PERSON)
SAMPLED = SampledGaussianEvent(8.0, 0.1, 5, ADD, unit=Unit.PERSON)
BUDGET = Budget(epsilon=9.0, delta=1e-5)


@pytest.fixture
def ledger():
    return Ledger.in_memory()


def test_the_first_charge_settles_the_unit_of_an_account_without_a_limit(ledger):
    ledger.charge("rows", [ROW], label="fit")
    ledger.charge("rows", [PERSON], label="fit")
    assert ledger.privacy_spent("rows").unit is Unit.ROW
    both = epsilon_of([ROW, for_rows(PERSON, ADD)], 1e-5 * RULES_DELTA)
    assert ledger.privacy_spent("rows").epsilon == pytest.approx(both, rel=1e-9)
    ledger.charge("persons", [PERSON], label="fit")
    with pytest.raises(RelationMismatch, match="counts by person; a step by row was asked for") as refused:
        ledger.charge("persons", [ROW], label="fit")
    assert "dptransfer ledger budget persons --unit person --most-rows-per-person N" in str(refused.value)
    assert len(ledger.history("persons")) == 1
    ledger.charge("persons", [], label="fit")  # nothing is of any unit


def test_a_limit_for_rows_counts_persons_double(ledger):
    ledger.set_budget("clinic", Budget(epsilon=epsilon_of([for_rows(PERSON, ADD)], 1e-5) * 1.001, delta=1e-5))
    with pytest.raises(BudgetExceeded, match="count double for single rows; --unit person"):
        ledger.charge("clinic", [PERSON] * 2, label="fit")
    ledger.charge("clinic", [PERSON], label="fit")
    assert ledger.privacy_spent("clinic").epsilon == epsilon_of([for_rows(PERSON, ADD)], 1e-5)
    assert ledger.privacy_spent("clinic").epsilon > 1.9 * epsilon_of([PERSON], 1e-5)
    assert ledger.datasets()[0].unit is Unit.ROW


@pytest.mark.parametrize("own", Relation)
@pytest.mark.parametrize("limit", Relation)
def test_persons_are_restated_under_the_relation_of_the_limit(ledger, own, limit):
    event = replace(PERSON, relation=own)
    ledger.set_budget("clinic", replace(BUDGET, relation=limit))
    ledger.charge("clinic", [event], label="fit")
    assert ledger.privacy_spent("clinic").relation is limit
    assert ledger.privacy_spent("clinic").epsilon == epsilon_of([for_rows(event, limit)], 1e-5)


def test_a_limit_for_persons_counts_rows_as_a_group_of_the_declared_size(ledger):
    ledger.set_budget("clinic", BUDGET, unit=Unit.PERSON)
    with pytest.raises(RelationMismatch, match="without a bound on rows per person"):
        ledger.charge("clinic", [ROW], label="fit")
    assert len(ledger.history()) == 1
    ledger.set_budget("clinic", BUDGET, most_rows_per_person=5)
    ledger.charge("clinic", [ROW], label="fit")
    ledger.charge("clinic", [PERSON], label="fit")
    spent = ledger.privacy_spent("clinic")
    assert spent.unit is Unit.PERSON
    both = epsilon_of([for_people(ROW, ADD, 5), PERSON], 1e-5 * RULES_DELTA)
    assert spent.epsilon == pytest.approx(both, rel=1e-9)
    assert epsilon_of([for_people(ROW, ADD, 5)], 1e-5) == epsilon_of([for_group(ROW, 5)], 1e-5)
    assert str(spent).endswith("Assuming: nobody has more than 5 rows, as the data owner declared.")
    with pytest.raises(RelationMismatch, match="different numbers of them") as refused:
        ledger.charge("clinic", [replace(ROW, relation=REPLACE)], label="fit")
    assert "dptransfer ledger" not in str(refused.value)  # no other limit would help
    ledger.verify()


def test_the_unit_and_the_bound_stay_until_others_are_declared(ledger):
    ledger.set_budget("clinic", BUDGET, unit=Unit.PERSON, most_rows_per_person=np.int64(5))
    ledger.set_budget("clinic", Budget(epsilon=1.0, delta=1e-5))
    found = ledger.datasets()[0]
    assert (found.unit, found.most_rows_per_person, found.budget.epsilon) == (Unit.PERSON, 5, 1.0)
    assert found.sentence.endswith("add/remove, by person, nobody having more than 5 rows")
    ledger.set_budget("clinic", BUDGET, unit=Unit.ROW, most_rows_per_person=7)
    found = ledger.datasets()[0]
    assert (found.unit, found.most_rows_per_person) == (Unit.ROW, 7)
    ledger.charge("charged", [PERSON], label="fit")
    ledger.set_budget("charged", BUDGET)  # by person, as its charges are
    assert ledger.datasets()[1].unit is Unit.PERSON


def test_a_limit_that_the_charges_on_record_cannot_be_restated_for_is_refused(ledger):
    ledger.charge("rows", [ROW], label="fit")
    with pytest.raises(RelationMismatch, match="counts by person; a step by row is on record"):
        ledger.set_budget("rows", BUDGET, unit=Unit.PERSON)
    ledger.set_budget("rows", BUDGET, unit=Unit.PERSON, most_rows_per_person=3)
    assert ledger.privacy_spent("rows").epsilon == epsilon_of([for_people(ROW, ADD, 3)], 1e-5)
    ledger.charge("samples", [SAMPLED], label="fit")
    with pytest.raises(RelationMismatch, match="counts by row; a step by person is on record"):
        ledger.set_budget("samples", BUDGET, unit=Unit.ROW)
    ledger.set_budget("samples", BUDGET)


def test_samples_of_persons_are_refused_by_an_account_of_rows(ledger):
    ledger.set_budget("limited", BUDGET)
    ledger.charge("charged", [ROW], label="fit")
    for name, remedy in (("limited", "--unit person ..."), ("charged", "--most-rows-per-person N ...")):
        for event in (SAMPLED, DisjointEvent(((SAMPLED,), (PERSON,)))):
            with pytest.raises(RelationMismatch, match="samples of persons is not restated") as refused:
                ledger.charge(name, [event], label="fit")
            assert str(refused.value).endswith(remedy)
    assert len(ledger.history()) == 2


def test_charges_of_disjoint_parts_are_restated_too(ledger):
    apart = DisjointEvent(((PERSON,), (replace(PERSON, noise_multiplier=32.0),)))
    ledger.set_budget("clinic", BUDGET)
    ledger.charge("clinic", [apart], label="fit")
    assert ledger.privacy_spent("clinic").epsilon == epsilon_of([for_rows(PERSON, ADD)], 1e-5)


def test_one_charge_protects_one_unit_and_bad_declarations_are_refused(ledger):
    with pytest.raises(RelationMismatch, match="one unit"):
        ledger.charge("new", [ROW, PERSON], label="fit")
    for bad in ({"unit": "person"}, {"most_rows_per_person": 0}, {"most_rows_per_person": 2.5}):
        with pytest.raises(ArgumentError):
            ledger.set_budget("new", BUDGET, **bad)
    assert ledger.history() == []


def test_what_is_declared_is_on_record_and_read_back(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("clinic", BUDGET, unit=Unit.PERSON, most_rows_per_person=np.int64(5))
    ledger.charge("clinic", [ROW], label="fit")
    again = Ledger(tmp_path / "ledger.sqlite")
    again.verify()
    change = again.history()[0]
    assert (change.unit, change.most_rows_per_person) == (Unit.PERSON, 5)
    with again._store.transaction() as chain:
        body = json.loads(chain.rows[0].body)
    assert (body["unit"], body["most_rows_per_person"]) == ("person", 5)


def test_fits_with_and_without_people_share_an_account_by_restating_alone(ledger):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(60, 8)), np.arange(60) % 2
    people = PrivateEmbeddings(x, y, classes=[0, 1], people=np.arange(60) // 6, name="clinic")
    rows = PrivateEmbeddings(x, y, classes=[0, 1], name="clinic")
    asked = {"budget": Budget(epsilon=1.0, delta=1e-5), "ledger": ledger}
    MeanPrototypes().fit(people, **asked)
    with pytest.raises(RelationMismatch, match="without a bound on rows per person"):
        MeanPrototypes().fit(rows, **asked)
    assert len(ledger.history()) == 2  # one charge, and its end
    ledger.set_budget("clinic", BUDGET, most_rows_per_person=12)
    with pytest.raises(BudgetExceeded, match="by person"):
        MeanPrototypes().fit(rows, **asked)
    MeanPrototypes().fit(rows, budget=Budget(epsilon=0.1, delta=1e-5), ledger=ledger)
    found = [charge.events[0].unit for charge in ledger.history() if isinstance(charge, Charge)]
    assert found == [Unit.PERSON, Unit.ROW]
    assert ledger.privacy_spent("clinic").unit is Unit.PERSON
