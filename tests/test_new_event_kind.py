"""A new kind of event is its own class, one line of accounting and a mechanism; the rest takes it as it is.

Here all three stand in one file: Laplace noise on a count. In the library they would be four:
`privacy/laplace_event.py`, its import in `privacy/__init__.py`, a function in `accounting/steps.py`, and
`mechanisms/laplace.py`.
"""

import json
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from dptransfer.accounting import (
    composition_words,
    delta_of,
    epsilon_of,
    gdp_price,
    guarantee_of,
    mu_of,
    noise_multiplier_for,
    pure_epsilon_of,
    rho_of,
    selection_delta,
    true_positive_rate,
)
from dptransfer.accounting.exact_curves import SelectionGroup
from dptransfer.accounting.renyi import ORDERS
from dptransfer.accounting.steps import RenyiPart, Steps, part_of
from dptransfer.base import checks
from dptransfer.cli.charges import privacy_json, show_events
from dptransfer.errors import BudgetError, BudgetExceeded
from dptransfer.ledger import Ledger
from dptransfer.mechanisms.mechanism import at_noise_of
from dptransfer.methods.method import Plan
from dptransfer.methods.replan import _difference, _understates
from dptransfer.privacy import (
    BestOfManyEvent,
    Budget,
    Event,
    GaussianEvent,
    Relation,
    SelectionEvent,
    Unit,
    event_from_dict,
    event_to_dict,
    for_group,
    for_people,
    for_rows,
    in_relation,
    number,
)
from dptransfer.privacy.event import KINDS
from dptransfer.release import card_of
from dptransfer.release.verify import verify_files
from release.models import make_model, rewrite

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


# --- its event ---


@dataclass(frozen=True)
class LaplaceEvent(Event):
    """Laplace noise of mean size `noise_multiplier` · `sensitivity` on an answer of that L1 sensitivity."""

    noise_multiplier: float
    relation: Relation
    sensitivity: float = 1.0
    label: str = ""
    unit: Unit = Unit.ROW
    kind: ClassVar[str] = "laplace-of-this-test"
    noise_field: ClassVar[str] = "noise_multiplier"
    field_checks: ClassVar[dict] = {"noise_multiplier": checks.positive, "sensitivity": checks.positive}

    def words(self, digits=5):
        return f"Laplace noise {number(self.noise_multiplier, digits)}"

    def table_row(self):
        return (
            f"Laplace noise, multiplier {number(self.noise_multiplier)}",
            f"sensitivity {self.sensitivity:g}",
        )

    def further(self, distance, lattice=1):
        multiplier = self.noise_multiplier / distance
        return replace(self, sensitivity=distance * self.sensitivity, noise_multiplier=multiplier)


# --- its accounting ---


@part_of.register
def _(event: LaplaceEvent):
    return SelectionGroup(1 / event.noise_multiplier, False, 1)  # pure ε, and no bounded range


# --- its mechanism ---


@dataclass(frozen=True)
class LaplaceCount:
    noise_multiplier: float
    relation: Relation

    @property
    def event(self):
        return LaplaceEvent(self.noise_multiplier, self.relation, label="number of rows")


LAPLACE = LaplaceEvent(4.0, ADD, label="number of rows")  # ε = 1/4
NOISE = GaussianEvent(4.0, ADD)
BUDGET = Budget(epsilon=1.0, delta=1e-5)


def test_it_is_written_and_read_and_said():
    written = json.loads(json.dumps(event_to_dict(LAPLACE)))
    assert written == {
        "kind": "laplace-of-this-test",
        "noise_multiplier": 4.0,
        "relation": "add/remove",
        "sensitivity": 1.0,
        "label": "number of rows",
    }
    person = replace(LAPLACE, unit=Unit.PERSON)
    tuned = BestOfManyEvent(((LAPLACE, NOISE),), 3, 1.0)
    for event in (LAPLACE, person, tuned):
        assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event
    assert LAPLACE.words(3) == "Laplace noise 4"
    for bad in ({"noise_multiplier": -1.0}, {"noise_multiplier": "4"}, {"label": 7}, {"surprise": 1}):
        with pytest.raises(ValueError, match="could not be"):
            event_from_dict(written | bad)


def test_two_kinds_do_not_share_a_name():
    with pytest.raises(TypeError, match="'gaussian' is taken"):

        class Other(Event):
            kind: ClassVar[str] = "gaussian"

    assert KINDS["gaussian"] is GaussianEvent


def test_it_is_restated():
    assert in_relation(LAPLACE, REPLACE) == replace(
        LAPLACE, relation=REPLACE, noise_multiplier=2.0, sensitivity=2.0
    )
    assert for_group(LAPLACE, 3).noise_multiplier == 4.0 / 3
    tuned = BestOfManyEvent(((LAPLACE, NOISE),), 3, 1.0)
    assert in_relation(tuned, REPLACE).candidates[0][0] == in_relation(LAPLACE, REPLACE)
    person = replace(LAPLACE, unit=Unit.PERSON)
    assert for_rows(person, ADD) == replace(LAPLACE, noise_multiplier=2.0, sensitivity=2.0)
    assert for_people(LAPLACE, ADD, 3) == replace(for_group(LAPLACE, 3), unit=Unit.PERSON)


def test_it_is_composed_alone_with_others_and_inside_trials():
    assert pure_epsilon_of([LAPLACE] * 3) == 0.75
    assert epsilon_of([LAPLACE], 0.0) == 0.25
    assert delta_of([LAPLACE], 0.1) == selection_delta(0.25, False, 0.1)
    assert rho_of([LAPLACE, NOISE]) == pytest.approx(1 / 32 + 1 / 32)
    assert mu_of([LAPLACE, NOISE]) is None
    alike = SelectionEvent(0.25, ADD, False, "laplace")
    for beside in ([NOISE], [NOISE, alike], [BestOfManyEvent(((NOISE,),), 3, 1.0)]):
        assert epsilon_of([LAPLACE, *beside], 1e-5) == epsilon_of([alike, *beside], 1e-5)
    trials = [BestOfManyEvent(((one, NOISE),), 3, 1.0) for one in (LAPLACE, alike)]
    assert epsilon_of(trials[:1], 1e-5) == epsilon_of(trials[1:], 1e-5)
    assert gdp_price([LAPLACE], 1e-20) == gdp_price([alike], 1e-20)
    assert true_positive_rate([LAPLACE], 0.01) == true_positive_rate([alike], 0.01)


def test_its_noise_is_made_to_fit():
    multiplier = noise_multiplier_for(Budget.pure(0.5), lambda z: [LaplaceEvent(z, ADD)])
    assert multiplier == pytest.approx(2.0)
    beside = noise_multiplier_for(BUDGET, lambda z: [LaplaceEvent(z, ADD), NOISE])
    assert epsilon_of([LaplaceEvent(beside, ADD), NOISE], 1e-5) == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(BudgetError, match="GDP"):
        noise_multiplier_for(Budget.gdp(1.0), lambda z: [LaplaceEvent(z, ADD)])


def test_a_ledger_charges_it_first_and_later_and_refuses_it():
    ledger = Ledger.in_memory()
    ledger.set_budget("first", Budget(epsilon=1.2, delta=1e-5))
    ledger.complete(ledger.charge("first", [LAPLACE], label="count"))
    ledger.charge("first", [NOISE], label="fit")
    ledger.set_budget("later", Budget(epsilon=2.0, delta=1e-5))
    ledger.charge("later", [NOISE], label="fit")
    ledger.charge("later", [LAPLACE], label="count")
    ledger.verify()
    assert ledger.privacy_spent("later").epsilon > epsilon_of([NOISE, LAPLACE], 1e-5)
    with pytest.raises(BudgetExceeded, match="above its budget"):
        ledger.charge("first", [LaplaceEvent(0.5, ADD)], label="count")


def test_a_release_with_it_is_carded_shown_and_verified(tmp_path, capsys):
    model = make_model(events=(LAPLACE, NOISE))
    assert "multiplier 4" in card_of(model).markdown()
    model.save(tmp_path / "release")
    found = verify_files(tmp_path / "release")
    assert not found.failures
    assert found.recomputed_epsilon == model.guarantee.epsilon
    rewrite(tmp_path / "release", lambda fields: fields["events"][0].update(noise_multiplier=2.0))
    assert "guarantee" in verify_files(tmp_path / "release").failures
    show_events(model.events)
    assert "multiplier 4" in capsys.readouterr().out
    assert privacy_json("x", model.guarantee, model.events)["events"][0]["kind"] == "laplace-of-this-test"
    assert composition_words([LAPLACE])


def planned(step):
    return Plan(None, (step,), guarantee_of([step.event], 0.0))


def test_its_step_is_planned_again_at_the_recorded_noise():
    step = LaplaceCount(2.0, ADD)
    assert at_noise_of(LAPLACE, step) == LaplaceCount(4.0, ADD)
    assert at_noise_of(NOISE, step) is step
    model, plan = make_model(events=(LAPLACE,)), planned(LaplaceCount(4.0, ADD))
    assert _difference(model, plan) is None
    assert "other noise" in _difference(model, planned(step))
    understated = replace(LAPLACE, sensitivity=0.5)
    assert "sensitivity 0.5" in _difference(make_model(events=(understated,)), plan)
    assert _understates(understated, step.event)


@dataclass(frozen=True)
class KnownByRenyi(LaplaceEvent):
    """The same noise, of which only Rényi divergences are told."""

    kind: ClassVar[str] = "known-by-renyi"


@part_of.register
def _(event: KnownByRenyi):
    rho = 0.5 / event.noise_multiplier**2
    return RenyiPart(event, lambda one: rho * np.array(ORDERS), "This noise has no zCDP here.")


def test_a_kind_of_which_only_divergences_are_known_is_composed_by_them():
    event = KnownByRenyi(4.0, ADD)
    alike = GaussianEvent(4.0, ADD)
    assert Steps.of([event]).divergences() == pytest.approx(Steps.of([alike]).divergences(), rel=1e-9)
    assert epsilon_of([alike], 1e-5) < epsilon_of([event], 1e-5) < 1.1 * epsilon_of([alike], 1e-5)
    assert epsilon_of([event, LAPLACE, NOISE], 1e-5) > epsilon_of([event, NOISE], 1e-5)
    assert "Rényi" in composition_words([event])
    assert rho_of([event]) is None
    with pytest.raises(BudgetError, match="no zCDP here"):
        guarantee_of([event], 0.0)
    assert math.isinf(epsilon_of([event], 0.0))


@pytest.fixture(autouse=True, scope="module")
def _no_trace_is_left():
    yield
    for kind in (LaplaceEvent.kind, KnownByRenyi.kind):
        del KINDS[kind]
