from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from scipy.stats import norm

from dptransfer.accounting import selection_delta
from dptransfer.accounting.exact_curves import SelectionGroup
from dptransfer.accounting.steps import part_of
from dptransfer.base import checks
from dptransfer.ledger import Ledger
from dptransfer.privacy import (
    BestOfManyEvent,
    DisjointEvent,
    Event,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    Unit,
)
from dptransfer.privacy.event import KINDS
from dptransfer.testing import event_rules
from dptransfer.testing.contract import ContractBroken
from dptransfer.testing.event_rules import EVENT_CHECKS, check_event

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
NOISE = GaussianEvent(4.0, ADD, label="sums")
EVENTS = {
    "gaussian": NOISE,
    "gaussian, replaced": GaussianEvent(4.0, REPLACE, times=3),
    "gaussian, persons": GaussianEvent(4.0, ADD, unit=Unit.PERSON, numeric_epsilon=1e-4),
    "sampled": SampledGaussianEvent(noise_multiplier=2.0, relation=ADD, sampling_rate=0.1, times=5),
    "selection": SelectionEvent(0.4, ADD, True, "exponential"),
    "pure selection": SelectionEvent(0.4, REPLACE, False, "laplace"),
    "best of many": BestOfManyEvent(((NOISE,), (replace(NOISE, noise_multiplier=9.0),)), 3, 1.0),
    "disjoint": DisjointEvent(((NOISE,), (replace(NOISE, noise_multiplier=9.0),))),
}
JSON, WORDS, MORE, RESTATED, NOISY, REFERENCE, LEDGER = EVENT_CHECKS


def gaussian_delta(mu):
    """The exact curve of Gaussian noise, by another formula's code (Balle and Wang, 2018)."""
    return lambda epsilon: (
        norm.cdf(mu / 2 - epsilon / mu) - float(norm.cdf(-mu / 2 - epsilon / mu)) * 2.718281828459045**epsilon
    )


@pytest.mark.parametrize("name", EVENTS)
def test_events_of_every_kind_keep_every_rule(name):
    check_event(EVENTS[name])


def test_prices_agree_with_an_independent_curve():
    check_event(NOISE, reference=gaussian_delta(0.25), tolerance=1e-6)
    check_event(EVENTS["pure selection"], reference=lambda epsilon: selection_delta(0.4, False, epsilon))
    for wrong in (0.2505, 0.2495):  # too cheap, and too dear
        with pytest.raises(ContractBroken, match=REFERENCE):
            check_event(NOISE, reference=gaussian_delta(wrong), tolerance=0.001)


@dataclass(frozen=True)
class Fake(Event):
    """Pure ε-DP of `strength`; what each cheat does wrong is in its class."""

    strength: float
    relation: Relation
    label: str = ""
    unit: Unit = Unit.ROW
    noise_field: ClassVar[str] = "strength"
    field_checks: ClassVar[dict] = {"strength": checks.positive}

    def words(self, digits=5):
        return f"strength {self.strength:g}"

    def table_row(self):
        return self.words(), ""

    def further(self, distance, lattice=1):
        return replace(self, strength=self.strength / distance)


def fake(kind, **functions):
    """A kind of event that does some things otherwise."""
    return type(kind, (Fake,), {"kind": f"fake-{kind}", **functions})


def read_known(cls, values, read_event):
    known = ("strength", "relation", "label", "unit")
    return cls(**{name: value for name, value in values.items() if name in known})


Free, MoreIsDearer = fake("free"), fake("upside-down")


@part_of.register
def _(event: Fake):
    return SelectionGroup(0.5 / event.strength, False, 1)


@part_of.register
def _(event: Free):
    return SelectionGroup(1e-300, False, 1)


@part_of.register
def _(event: MoreIsDearer):
    return SelectionGroup(0.5 * event.strength, False, 1)


CHEATS = {
    JSON: {
        "forgets its label": fake(
            "forgetful", read=classmethod(lambda cls, values, read_event: cls(**{**values, "label": ""}))
        ),
        "reads anything": fake("careless", read=classmethod(read_known)),
    },
    WORDS: {
        "no words": fake("wordless", words=lambda self, digits=5: ""),
        "two lines": fake("two-lines", table_row=lambda self: ("one\ntwo", "")),
    },
    MORE: {"free": Free},
    RESTATED: {
        "groups for free": fake("groups", of_group=lambda self, size: self),
        "replaces for less": fake(
            "replaced",
            under_replace_one=lambda self: replace(self, strength=2 * self.strength, relation=REPLACE),
        ),
        "keeps its relation": fake("relation", under_replace_one=lambda self: self.further(2)),
        "keeps its unit": fake("unit", for_people=lambda self, most_rows: self.of_group(most_rows)),
        "persons for less": fake(
            "persons", for_people=lambda self, most_rows: replace(self, unit=Unit.PERSON)
        ),
        "rows for less": fake(
            "rows", for_rows=lambda self, _: replace(self, strength=3 * self.strength, unit=Unit.ROW)
        ),
        "more is dearer": MoreIsDearer,
    },
    NOISY: {"more is dearer": MoreIsDearer},
}


def test_the_honest_one_among_them_keeps_every_rule():
    check_event(fake("honest")(1.0, ADD, "answers"))


@pytest.mark.parametrize(("rule", "cheat"), [(rule, cheat) for rule in CHEATS for cheat in CHEATS[rule]])
def test_every_rule_catches_an_event_that_breaks_it(rule, cheat):
    event = CHEATS[rule][cheat](1.0, ADD, "answers")
    with pytest.raises(ContractBroken, match=rule):
        check_event(event, skip=[other for other in EVENT_CHECKS if other != rule])


@pytest.mark.parametrize("fault", ["grants anything", "forgets", "halves"])
def test_a_ledger_that_does_not_ask_for_the_price_is_noticed(fault, monkeypatch):
    class Lenient(Ledger):
        def charge(self, dataset, events, *, label):
            if fault == "grants anything" and label != "first":
                return None
            if fault == "forgets":
                events = [replace(one, label="") for one in events]
            if fault == "halves":
                events = [one.further(0.5) for one in events]
            return super().charge(dataset, events, label=label)

    monkeypatch.setattr(event_rules, "Ledger", Lenient)
    with pytest.raises(ContractBroken, match=LEDGER):
        check_event(NOISE, skip=[other for other in EVENT_CHECKS if other != LEDGER])


@pytest.fixture(autouse=True, scope="module")
def _no_trace_is_left():
    yield
    for kind in [name for name in KINDS if name.startswith("fake-")]:
        del KINDS[kind]
