"""A fit that holds out units: by a coin each, persons whole, one charge, and what the check costs."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer import accounting
from dptransfer.accounting import fits, guarantee_of
from dptransfer.data import Facts
from dptransfer.encoders import apply_delta, encode_pixels
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.ledger import Charge, Ledger
from dptransfer.methods import method as shared_parts
from dptransfer.methods import private_evaluation
from dptransfer.methods.checkpoint import RecordedNoise
from dptransfer.methods.fitting import FitPlan, facts_of_fit
from dptransfer.methods.replan import verify_release
from dptransfer.noise import SecureNoise, SeededNoise
from dptransfer.privacy import Budget, Relation, Unit
from dptransfer.privacy.events import DisjointEvent

from .samples import (
    BUDGET,
    CLASSES,
    REPLACE,
    WIDTH,
    Repeatable,
    Silent,
    clusters,
    images,
    pool,
    private,
    shots,
)

ZCDP, GDP = (make(0.3, relation=Relation.REPLACE_ONE) for make in (Budget.zcdp, Budget.gdp))


def held(data=None, method=None, *, budget=BUDGET, ledger=None, noise=None, holdout=0.2, **more):
    return (method or dpt.methods.MeanPrototypes()).fit(
        data or private(),
        more.pop("public", None),
        budget=budget,
        ledger=ledger or Ledger.in_memory(),
        noise=noise or SeededNoise(1),
        holdout=holdout,
        **more,
    )


def planned(budget=BUDGET, method=None, facts=None, chance=0.2, public=None):
    facts = facts or private().facts
    return FitPlan.make(method or dpt.methods.MeanPrototypes(), facts, budget, public, chance)


def with_people(count=600, each=4, **declared):
    x, y = clusters(count)
    return private(x, y, people=np.arange(count) // each, **declared)


@pytest.mark.parametrize("budget", [BUDGET, REPLACE, ZCDP, GDP])
@pytest.mark.parametrize("method", [dpt.methods.MeanPrototypes(), dpt.methods.NoisyGD(steps=3)])
def test_fit_and_check_each_spend_the_whole_budget(budget, method):
    made = planned(budget, method)
    assert made.plan.events == method.plan(private().facts, budget).events
    (both,) = made.events
    assert isinstance(both, DisjointEvent)
    assert both.relation is budget.relation
    assert both.parts == (made.plan.events, (made.check.event,))
    assert fits(made.events, budget)
    for events in (*both.parts, made.events):
        said = guarantee_of(events, budget.delta)
        used = {"epsilon": said.epsilon, "rho": said.rho, "mu": said.mu}
        assert used[budget.currency] == pytest.approx(budget.amount, rel=1e-6)
    assert "the larger" in made.notes[0]


def test_the_charge_is_one_and_the_model_says_the_same():
    ledger = Ledger.in_memory()
    model = held(ledger=ledger)
    (charge,) = (entry for entry in ledger.history() if isinstance(entry, Charge))
    assert charge.events == model.events == planned().events
    assert model.guarantee == planned().guarantee
    assert model.charged.holdout == 0.2
    assert model.charged.events == (planned().check.event,)
    assert any("20% of examples" in note for note in model.provenance.notes)
    assert 90 < model.charged.size.count < 150
    assert "20% of people" in planned(facts=with_people().facts).notes[0]


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
@pytest.mark.parametrize("unit", Unit)
def test_a_release_with_a_hold_out_verifies_and_a_dropped_check_fails(tmp_path, budget, unit):
    data = private() if unit is Unit.ROW else with_people()
    model = held(data, budget=budget, noise=Repeatable(1))
    path = model.save(tmp_path / "good")
    assert verify_release(path).outcome == "verified"
    assert dpt.load(path).charged.to_dict() == model.charged.to_dict()
    forged = replace(model, events=model.events[-1:], guarantee=model.guarantee)
    parts = (model.events[0].parts[0], ())
    forged = replace(forged, events=(DisjointEvent(parts, label=model.events[0].label),))
    assert "steps" in verify_release(forged.save(tmp_path / "forged")).failures


def test_nobody_is_in_both_parts_and_everybody_in_one():
    x, y = clusters(500)
    data = private(x, y)
    own, kept = planned().split(data, SeededNoise(3))
    assert sorted(map(tuple, [*own.rows, *kept.rows])) == sorted(map(tuple, x))
    assert 60 < len(kept.labels) < 140
    assert own.facts == kept.facts == facts_of_fit(data.facts, 0.2)
    assert own.fingerprint != data.fingerprint
    assert (data.rows == x).all()


def test_persons_stay_whole_and_are_numbered_from_zero():
    count, each = 400, 8
    x, y = clusters(count)
    ids = np.random.default_rng(0).permutation(np.arange(count) // each)
    data = private(np.column_stack([ids, x[:, 1:]]), y, people=ids)
    own, kept = planned(facts=data.facts).split(data, SeededNoise(3))
    first, second = set(own.rows[:, 0]), set(kept.rows[:, 0])
    assert not first & second
    assert first | second == set(range(count // each))
    for part in (own, kept):
        assert set(part.people) == set(range(len(set(part.rows[:, 0]))))
        for person in range(part.people.max() + 1):
            assert len(set(part.rows[part.people == person, 0])) == 1
            assert (part.people == person).sum() == each


def test_coins_are_fair_in_the_long_run_and_come_from_the_noise_source():
    data = private(np.zeros((20000, WIDTH)), np.zeros(20000, dtype=int))
    kept = planned(chance=0.3).split(data, SecureNoise())[1]
    assert abs(len(kept.labels) - 6000) < 5 * (20000 * 0.3 * 0.7) ** 0.5
    again = [planned().split(private(), SeededNoise(5))[1].rows for _ in range(2)]
    assert (again[0] == again[1]).all()


@pytest.mark.parametrize("holdout", [None, 0.2])
def test_a_fit_with_a_plan_made_before_plans_nothing_again_and_releases_the_same(monkeypatch, holdout):
    plan = Mock(wraps=dpt.methods.MeanPrototypes().plan)
    calibrate = Mock(wraps=accounting.noise_multiplier_for)
    monkeypatch.setattr(dpt.methods.MeanPrototypes, "plan", lambda self, *given: plan(*given))
    for place in (shared_parts, private_evaluation):
        monkeypatch.setattr(place, "noise_multiplier_for", calibrate)
    first = held(holdout=holdout)
    asked = 1 + (holdout is not None)
    assert (plan.call_count, calibrate.call_count) == (1, asked)
    made = dpt.methods.MeanPrototypes().plan_fit(private().facts, BUDGET, holdout=holdout)
    again = held(holdout=holdout, plan=made)
    assert (plan.call_count, calibrate.call_count) == (2, 2 * asked)
    assert (again.head.prototypes == first.head.prototypes).all()
    assert (again.events, again.guarantee) == (first.events, first.guarantee)


@pytest.mark.parametrize(
    "other",
    [
        {"method": dpt.methods.MeanPrototypes(features=UnitNorm(pool=2))},
        {"data": private(size=500)},
        {"budget": Budget(epsilon=0.5, delta=1e-5)},
        {"public": pool()},
        {"holdout": 0.3},
        {"holdout": None},
    ],
    ids=lambda other: "-".join(map(str, other)),
)
def test_a_plan_made_for_anything_else_is_refused_before_the_charge(other):
    refused("A plan belongs", plan=planned(), **other)


def refused(match, *given, **named):
    """Before the charge."""
    ledger = Ledger.in_memory()
    with pytest.raises(ArgumentError, match=match):
        held(*given, ledger=ledger, **named)
    assert ledger.history() == []


@pytest.mark.parametrize("chance", [0.0, 1.0, -0.2, float("nan"), "a fifth"])
def test_a_chance_that_is_none_is_refused_before_the_charge(chance):
    refused("holdout", holdout=chance)


def test_what_cannot_be_planned_beside_a_hold_out_is_refused_before_the_charge():
    sized = private(class_counts=[200, 200, 200])
    refused("class sizes", sized, dpt.methods.CoinPressPrototypes(), budget=REPLACE)
    with pytest.raises(BudgetError):  # a pure budget has no noise for the check
        planned(Budget(epsilon=1.0), dpt.methods.PublicPrototypes(), public=pool())


def _killed(*_):
    raise RuntimeError("killed")


def test_a_killed_run_goes_on_with_the_same_units(tmp_path, monkeypatch):
    ledger, drawn, split = Ledger.in_memory(), [], FitPlan.split

    def noted(self, data, noise):
        assert isinstance(noise, RecordedNoise)
        own, kept = split(self, data, noise)
        drawn.append(kept.rows)
        return own, kept

    monkeypatch.setattr(FitPlan, "split", noted)
    evaluate = FitPlan.evaluate
    monkeypatch.setattr(FitPlan, "evaluate", _killed)
    with pytest.raises(RuntimeError, match="killed"):
        held(ledger=ledger, noise=SecureNoise(), workspace=tmp_path / "run")
    monkeypatch.setattr(FitPlan, "evaluate", evaluate)
    held(ledger=ledger, noise=SecureNoise(), workspace=tmp_path / "run")
    assert (drawn[0] == drawn[1]).all()
    assert sum(isinstance(entry, Charge) for entry in ledger.history()) == 1


def test_pictures_held_out_are_seen_by_the_encoder_as_the_run_left_it(monkeypatch):
    pytest.importorskip("torch")
    from methods.deep.tiny import PLACE, tiny_classifier

    halves, split = [], FitPlan.split
    monkeypatch.setattr(FitPlan, "split", lambda *given: halves.append(split(*given)) or halves[0])
    far = dpt.methods.FiLM(encoder=PLACE, size=8, steps=12, micro_batch=16, reach=100.0)
    model = held(images(), far, noise=Silent(), holdout=0.5)
    own, kept = halves[0]
    assert len(own.labels) + len(kept.labels) == 90
    assert len(own.labels) == len(own.pixels[:]) > 0
    rows = encode_pixels(kept.pixels, apply_delta(tiny_classifier(), model.encoder_delta))
    right = int((model.predict(rows) == np.array(model.classes)[kept.labels]).sum())
    plain = encode_pixels(kept.pixels, tiny_classifier())
    assert right != int((model.predict(plain) == np.array(model.classes)[kept.labels]).sum())
    assert model.charged.size.count == pytest.approx(len(rows))
    assert model.charged.accuracy.value == pytest.approx(right / len(rows), abs=1e-6)


def test_declared_sizes_shrink_with_the_fit_and_class_sizes_are_dropped():
    facts = Facts(CLASSES, WIDTH, class_counts=(50, 30, 20))
    assert facts_of_fit(facts, 0.2) == Facts(CLASSES, WIDTH, size=80)
    assert facts_of_fit(Facts(CLASSES, WIDTH), 0.2) == Facts(CLASSES, WIDTH)


def test_a_method_without_private_steps_is_checked_all_the_same():
    model = held(method=dpt.methods.OnlyPublic(), public=shots())
    assert model.events[0].parts[0] == ()
    assert model.guarantee.epsilon <= 1


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
@pytest.mark.parametrize(
    "method",
    [
        dpt.methods.PublicPriorPrototypes(),
        dpt.methods.PublicPrototypes(),
        dpt.methods.DPSGDProbe(),
        dpt.methods.PrivateTuning(
            candidates=[dpt.methods.NoisyGD(steps=2), dpt.methods.NoisyGD(steps=4)], mean_trials=2.0
        ),
    ],
    ids=lambda method: method.name,
)
def test_methods_of_every_kind_hold_out_persons_and_verify(tmp_path, method, budget):
    data = with_people(size=600, rows_per_person=4)
    model = held(data, method, budget=budget, noise=Repeatable(1), public=pool())
    assert fits(model.events, budget)
    assert model.charged.counts.bound.unit is Unit.PERSON
    assert verify_release(model.save(tmp_path / "release")).outcome == "verified"
