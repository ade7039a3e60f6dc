"""Charges about rows and about persons add up in one account by restating, and by nothing else."""

import re
import shlex
from dataclasses import replace

import numpy as np
import pytest

from dptransfer.accounting import epsilon_of, guarantee_of
from dptransfer.cli.options import BudgetOptions
from dptransfer.errors import ArgumentError, BudgetExceeded, LedgerError, PrivacyWarning, RelationMismatch
from dptransfer.ledger import Charge, Ledger
from dptransfer.privacy import (
    BestOfManyEvent,
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

from .samples import ADD, GAUSS, REPLACE, RULES_DELTA, chosen


def charge_until_refused(ledger, name, steps):
    for _ in range(200):
        ledger.charge(name, steps, label="fit")


@pytest.mark.parametrize(
    ("budget", "steps"),
    [
        (Budget(epsilon=1.0, delta=1e-5), [GAUSS]),
        (Budget(epsilon=0.9, delta=3.3333333333e-7), [GAUSS]),
        (Budget(epsilon=1.0), [chosen(0.6)]),
        (Budget.zcdp(0.04), [GAUSS]),
        (Budget.gdp(0.3), [GAUSS]),
        (Budget(epsilon=2.0, delta=1e-5, relation=REPLACE), [GAUSS]),
    ],
)
def test_the_remedy_in_a_refusal_is_enough_and_not_much_more(ledger, budget, steps):
    ledger.set_budget("clinic a", budget)
    with pytest.raises(BudgetExceeded) as caught:
        charge_until_refused(ledger, "clinic a", steps)
    message = str(caught.value)
    _, _, _, name, *options = shlex.split(message.split("with: ")[1])
    amounts = dict(zip(options[::2], options[1::2], strict=True))
    relation = Relation(amounts.pop("--relation", "add/remove"))
    epsilon = float(amounts["--epsilon"]) if "--epsilon" in amounts else None
    asked = BudgetOptions(epsilon, float(amounts["--delta"]), amounts.get("--budget"), relation)
    raised = asked.budget()  # as the command line reads it
    assert (name, raised.flavour, raised.delta) == ("clinic a", budget.flavour, budget.delta)
    currency = {"zcdp": "rho", "gdp": "mu"}.get(budget.flavour, "epsilon")
    amount = getattr(raised, currency)
    ledger.set_budget(name, replace(raised, **{currency: amount * 0.99}), note="asked for")
    with pytest.raises(BudgetExceeded):
        ledger.charge(name, steps, label="fit")
    ledger.set_budget(name, raised, note="asked for")
    ledger.charge(name, steps, label="fit")


def test_a_pure_budget_refuses_gaussian_noise_with_a_way_out(ledger):
    ledger.set_budget("clinic-a", Budget(epsilon=10.0))
    with pytest.raises(BudgetExceeded, match="epsilon and delta"):
        ledger.charge("clinic-a", [GAUSS], label="fit")


def test_an_add_remove_step_costs_twice_against_a_replace_one_budget(ledger):
    ledger.set_budget("clinic-a", Budget(epsilon=1.0, relation=REPLACE))
    with pytest.raises(BudgetExceeded, match=r"epsilon 1.2 \(replace-one\)"):
        ledger.charge("clinic-a", [chosen(0.6)], label="fit")
    ledger.charge("clinic-a", [chosen(0.6, REPLACE)], label="fit")
    assert ledger.privacy_spent("clinic-a").epsilon == pytest.approx(0.6, rel=1e-6)
    assert ledger.privacy_spent("clinic-a").relation is REPLACE


def test_a_replace_one_step_cannot_be_paid_from_an_add_remove_budget(ledger):
    ledger.set_budget("clinic-a", Budget(epsilon=9.0))
    head = ledger.head
    with pytest.raises(RelationMismatch, match="--relation replace-one"):
        ledger.charge("clinic-a", [chosen(0.1, REPLACE)], label="fit")
    assert ledger.head == head
    ledger.charge("clinic-a", [chosen(0.1)], label="fit")


def test_replace_one_steps_of_the_past_block_a_later_add_remove_budget(ledger):
    ledger.charge("clinic-a", [chosen(0.1, REPLACE), chosen(0.1)], label="fit")
    ledger.set_budget("clinic-a", Budget(epsilon=9.0))
    with pytest.raises(RelationMismatch, match="is on record"):
        ledger.charge("clinic-a", [chosen(0.1)], label="fit")
    with pytest.raises(RelationMismatch):
        ledger.privacy_spent("clinic-a", relation=ADD)
    (summary,) = ledger.datasets()  # the overview still works, under the relation that all steps have
    assert summary.spent.relation is REPLACE
    assert summary.spent.epsilon == pytest.approx(0.3, rel=1e-6)
    ledger.set_budget("clinic-a", Budget(epsilon=9.0, relation=REPLACE), note="another relation")
    ledger.charge("clinic-a", [chosen(0.1)], label="fit")


def test_what_is_spent_is_stated_as_asked_or_as_the_budget_does(ledger):
    assert ledger.privacy_spent("clinic-a") is None
    ledger.charge("clinic-a", [chosen(0.5)], label="fit")
    assert (ledger.privacy_spent("clinic-a").delta, ledger.privacy_spent("clinic-a").relation) == (0.0, ADD)
    ledger.charge("clinic-a", [GAUSS], label="fit")
    together = replace(guarantee_of([chosen(0.5), GAUSS], 1e-5 * RULES_DELTA), delta=1e-5)
    assert ledger.privacy_spent("clinic-a").epsilon == pytest.approx(together.epsilon, rel=1e-9)
    assert replace(ledger.privacy_spent("clinic-a"), epsilon=together.epsilon) == together
    ledger.set_budget("clinic-a", Budget(epsilon=9.0))  # says nothing about Gaussian noise
    assert ledger.privacy_spent("clinic-a").delta == 1e-5
    ledger.set_budget("clinic-a", Budget(epsilon=9.0, delta=1e-7, relation=REPLACE), note="another relation")
    assert (ledger.privacy_spent("clinic-a").delta, ledger.privacy_spent("clinic-a").relation) == (
        1e-7,
        REPLACE,
    )
    asked = ledger.privacy_spent("clinic-a", delta=1e-6, relation=ADD)
    assert asked.epsilon == pytest.approx(
        guarantee_of([chosen(0.5), GAUSS], 1e-6 * RULES_DELTA).epsilon, rel=1e-9
    )
    assert asked.epsilon < ledger.privacy_spent("clinic-a").epsilon


def test_the_overview_says_what_is_spent_of_what_is_allowed(ledger):
    ledger.set_budget("a", Budget(epsilon=1.0, delta=1e-5))
    ledger.charge("b", [chosen(0.25)], label="fit")
    ledger.set_budget("c", Budget.zcdp(0.5))
    ledger.charge("c", [GAUSS], label="fit")
    ledger.charge("d", [GAUSS], label="fit")
    ledger.set_budget("d", Budget.gdp(1.0))
    sentences = {one.dataset.name: one.sentence for one in ledger.datasets()}
    assert sentences["a"] == "nothing is spent; the budget is epsilon = 1, delta = 1e-5, add/remove"
    assert sentences["b"] == "epsilon 0.25 (add/remove) is spent; no budget is set"
    assert re.match(r"rho 0.0312\d* \(add/remove\) is spent; the budget is rho = 0.5", sentences["c"])
    assert re.match(r"mu 0.25\d* \(add/remove\) is spent; the budget is mu = 1 GDP", sentences["d"])


def test_a_fit_without_private_rows_costs_nothing_and_fits_a_spent_budget(ledger):
    ledger.set_budget("clinic-a", Budget(epsilon=0.5))
    ledger.charge("clinic-a", [], label="public-only")
    spent = ledger.privacy_spent("clinic-a")
    assert (spent.epsilon, spent.delta, spent.relation) == (0.0, 0.0, ADD)
    assert ledger.datasets()[0].sentence.startswith("epsilon 0 (add/remove) is spent")
    ledger.charge("clinic-a", [chosen(0.5)], label="fit")
    with pytest.raises(BudgetExceeded):
        ledger.charge("clinic-a", [chosen(0.01)], label="fit")
    ledger.charge("clinic-a", [], label="public-only")
    assert ledger.privacy_spent("clinic-a").epsilon == 0.5
    assert len(ledger.history("clinic-a")) == 4
    ledger.set_budget("clinic-b", Budget(epsilon=0.5, relation=REPLACE))
    ledger.charge("clinic-b", [], label="public-only")
    assert ledger.privacy_spent("clinic-b").relation is REPLACE


@pytest.mark.parametrize(
    ("budget", "event", "rule"),
    [
        (Budget(epsilon=1.0), chosen(0.4), "the sum of epsilon"),
        (Budget.zcdp(0.05), GaussianEvent(5.0, ADD), "the sum of rho"),
        (Budget.gdp(0.3), GaussianEvent(5.0, ADD), "the sum of mu squared"),
    ],
)
def test_charges_that_add_up_name_the_sum_in_every_currency(ledger, budget, event, rule):
    if budget is not None:
        ledger.set_budget("clinic-a", budget)
    for _ in range(2):
        ledger.charge("clinic-a", [event], label="fit")
    summary = ledger.datasets()[0]
    assert summary.rule == rule
    assert rule in summary.sentence
    second = [one for one in ledger.history() if isinstance(one, Charge)][1]
    assert second.rule == ("no budget is set" if budget is None else rule)
    if budget is not None:
        with pytest.raises(BudgetExceeded, match=rf"\(add/remove\), by {rule}, above its budget"):
            ledger.charge("clinic-a", [event], label="fit")


def test_the_account_rounds_epsilon_as_the_guarantee_does(ledger):
    """One release, one number: whoever compares the ledger with the card must find the same digits."""
    event = GaussianEvent(4.2, ADD)
    ledger.set_budget("clinic-a", Budget(epsilon=1.0, delta=1e-5))
    ledger.charge("clinic-a", [event], label="fit")
    said = str(guarantee_of([event], 1e-5)).split("ε = ")[1].split(",")[0]
    assert len(said) > 6
    assert ledger.datasets()[0].sentence.startswith(f"epsilon {said} at delta 1e-5")
    with pytest.raises(BudgetExceeded, match=f"epsilon {said} is"):
        ledger.charge("clinic-a", [event], label="fit")


def test_every_charge_and_the_overview_say_which_rule_counted(ledger):
    ledger.set_budget("clinic-a", Budget(epsilon=3.0, delta=1e-5))
    for _ in range(2):
        ledger.charge("clinic-a", [GAUSS], label="fit")
    ledger.charge("clinic-b", [GAUSS], label="fit")
    _first, second, _other = (one for one in ledger.history() if isinstance(one, Charge))
    assert "'gaussian'" in second.rule
    summary = ledger.datasets()[0]
    assert summary.rule == second.rule
    assert second.rule in summary.sentence
    ledger.set_budget("clinic-a", Budget(epsilon=1.2, delta=1e-5), note="board decision 7")
    assert ledger.datasets()[0].sentence.endswith("add/remove, and nothing more is granted")


def test_the_owner_declares_a_rule_before_the_first_charge_and_not_after(ledger):
    tuned = BestOfManyEvent(((GaussianEvent(20.0, ADD),),), 5, 1.0)
    budget = Budget(epsilon=1.1, delta=1e-5)
    for name, rule in (("a", None), ("b", "renyi")):
        ledger.set_budget(name, budget, rule=rule)
        for _ in range(3):
            ledger.charge(name, [GaussianEvent(9.0, ADD)], label="fit")
    with pytest.raises(BudgetExceeded, match="rule 'renyi'"):
        ledger.charge("a", [tuned], label="search")
    ledger.charge("b", [tuned], label="search")
    with pytest.raises(LedgerError, match="by 'gaussian'"):
        ledger.set_budget("a", budget, rule="renyi")
    raised = replace(budget, epsilon=2.0)
    ledger.set_budget("b", raised, note="board decision 7")  # which keeps the rule
    assert "'renyi'" in next(one for one in ledger.datasets() if one.dataset.name == "b").sentence
    ledger.set_budget("b", budget, rule="renyi", note="lowered")
    with pytest.raises(ArgumentError, match="rule"):
        ledger.set_budget("c", budget, rule="pld")


def test_steps_without_a_price_are_refused_without_advice_to_change_the_kind_of_budget(ledger):
    ledger.set_budget("clinic-a", Budget(epsilon=1.0, delta=1e-5))
    ledger.charge("clinic-a", [GAUSS], label="fit")
    with pytest.raises(BudgetExceeded, match="no bound"):
        ledger.charge("clinic-a", [GaussianEvent(1e4, ADD, numeric_delta=1e-5)], label="fit")


def test_tuning_is_refused_by_a_budget_in_rho_with_a_way_out(ledger):
    tuned = BestOfManyEvent(((GaussianEvent(8.0, ADD),),), 5, 1.0)
    with pytest.warns(PrivacyWarning, match="epsilon"):
        ledger.set_budget("clinic-a", Budget.zcdp(9.0))
    with pytest.raises(BudgetExceeded, match="epsilon and delta"):
        ledger.charge("clinic-a", [tuned], label="search")
    ledger.charge("clinic-a", [SampledGaussianEvent(1.0, 0.01, 10, ADD)], label="linear-probe")
    assert ledger.privacy_spent("clinic-a").rho == pytest.approx(5.0)  # without amplification


def test_what_has_no_amount_in_the_budgets_currency_is_stated_in_epsilon(ledger):
    ledger.charge("clinic-a", [BestOfManyEvent(((GaussianEvent(8.0, ADD),),), 5, 1.0)], label="search")
    ledger.set_budget("clinic-a", Budget.zcdp(0.5))
    (summary,) = ledger.datasets()
    assert summary.spent.rho is None
    assert summary.sentence.startswith("epsilon ")


def test_the_remedy_names_the_unit_where_it_is_a_person(ledger):
    ledger.set_budget("clinic-a", Budget(epsilon=0.1, delta=1e-5), unit=Unit.PERSON)
    with pytest.raises(BudgetExceeded, match="--unit person"):
        ledger.charge("clinic-a", [replace(GAUSS, unit=Unit.PERSON)], label="fit")


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
    with pytest.raises(RelationMismatch, match="counts by person") as refused:
        ledger.charge("persons", [ROW], label="fit")
    assert "dptransfer ledger budget persons --unit person --most-rows-per-person N" in str(refused.value)
    assert len(ledger.history("persons")) == 1
    ledger.charge("persons", [], label="fit")  # nothing is of any unit


def test_a_limit_for_rows_counts_persons_double(ledger):
    ledger.set_budget("clinic", Budget(epsilon=epsilon_of([for_rows(PERSON, ADD)], 1e-5) * 1.001, delta=1e-5))
    with pytest.raises(BudgetExceeded, match="--unit person"):
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
    with pytest.raises(RelationMismatch, match="declared bound"):
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
    with pytest.raises(RelationMismatch, match="Replaced rows") as refused:
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
    with pytest.raises(RelationMismatch, match="is on record"):
        ledger.set_budget("rows", BUDGET, unit=Unit.PERSON)
    ledger.set_budget("rows", BUDGET, unit=Unit.PERSON, most_rows_per_person=3)
    assert ledger.privacy_spent("rows").epsilon == epsilon_of([for_people(ROW, ADD, 3)], 1e-5)
    ledger.charge("samples", [SAMPLED], label="fit")
    with pytest.raises(RelationMismatch, match="is on record"):
        ledger.set_budget("samples", BUDGET, unit=Unit.ROW)
    ledger.set_budget("samples", BUDGET)


def test_samples_of_persons_are_refused_by_an_account_of_rows(ledger):
    ledger.set_budget("limited", BUDGET)
    ledger.charge("charged", [ROW], label="fit")
    for name, remedy in (("limited", "--unit person ..."), ("charged", "--most-rows-per-person N ...")):
        for event in (SAMPLED, DisjointEvent(((SAMPLED,), (PERSON,)))):
            with pytest.raises(RelationMismatch, match="samples of persons") as refused:
                ledger.charge(name, [event], label="fit")
            assert str(refused.value).endswith(remedy)
    assert len(ledger.history()) == 2


def test_one_charge_protects_one_unit_and_bad_declarations_are_refused(ledger):
    with pytest.raises(RelationMismatch, match="one unit"):
        ledger.charge("new", [ROW, PERSON], label="fit")
    for bad in ({"unit": "person"}, {"most_rows_per_person": 0}, {"most_rows_per_person": 2.5}):
        with pytest.raises(ArgumentError):
            ledger.set_budget("new", BUDGET, **bad)
    assert ledger.history() == []
