"""What every method does alike: refusals before the charge, the plan, and what notebooks show of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dptransfer.data import PublicEmbeddings
from dptransfer.errors import (
    ArgumentError,
    BudgetError,
    DPTransferError,
    Incompatible,
    LedgerError,
    PrivacyWarning,
)
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.ledger import Ledger
from dptransfer.methods import (
    METHODS,
    Auto,
    CoinPressPrototypes,
    EmbeddingMethod,
    FeatureCovariance,
    ImageMethod,
    MeanPrototypes,
    PrivateMethod,
    PrivateTuning,
    PublicPrototypes,
)
from dptransfer.methods.method import Outcome, Outline, with_query
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Unit
from dptransfer.release.heads import CosineHead
from dptransfer.sources import PrivateImages, PublicImages

from .samples import BUDGET, REPLACE, WIDTH, fit, pool, private, refused_uncharged


def test_fit_is_final():
    assert MeanPrototypes.fit is PrivateMethod.fit
    assert getattr(PrivateMethod.fit, "__final__", False)
    for method in METHODS.values():
        assert method.fit is PrivateMethod.fit


def test_settings_are_checked_by_the_tables_of_the_class_and_of_its_bases():
    made = FeatureCovariance(steps=np.int64(3), share=np.float64(0.5), clip=2)
    assert (made.steps, made.share, made.clip) == (3, 0.5, 2)
    assert (type(made.steps), type(made.share)) == (int, float)  # as a release records them
    for bad in ({"steps": 0}, {"clip": -1.0}, {"share": 1.5}, {"device": "cuda"}):  # three classes' own
        with pytest.raises(ArgumentError, match=f"{next(iter(bad))} must"):
            FeatureCovariance(**bad)


class OldSource:
    """A source of noise from before answers were kept."""

    seeded = False


@pytest.mark.parametrize(
    "mix_up",
    [{"budget": 1.0}, {"budget": None}, {"ledger": "l.sqlite"}, {"noise": 3}, {"noise": OldSource()}],
)
def test_arguments_of_another_kind_are_refused_before_the_charge(mix_up):
    ledger = Ledger.in_memory()
    with pytest.raises(ArgumentError, match=f"{next(iter(mix_up))} must be a"):
        MeanPrototypes().fit(private(), **({"budget": BUDGET, "ledger": ledger} | mix_up))
    assert ledger.history() == []


def test_without_a_ledger_the_users_own_is_charged_and_the_noise_is_secure(monkeypatch, tmp_path):
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(tmp_path / "ledger.sqlite"))
    model = MeanPrototypes().fit(private(), budget=BUDGET)
    assert not model.provenance.seeded
    (charge, _) = Ledger(tmp_path / "ledger.sqlite").history()
    assert charge.label == "mean"
    assert model.provenance.ledger_head == charge.hash
    assert fit(MeanPrototypes()).provenance.seeded


def test_a_query_may_be_sharpened_but_its_cost_may_not_change():
    (step,) = MeanPrototypes().plan(private().facts, BUDGET).mechanisms
    assert isinstance(step.query.features, Outline)
    sharp = with_query(step, features=UnitNorm().fit(WIDTH, None))
    assert sharp.event == step.event
    with pytest.raises(DPTransferError, match="cost"):
        with_query(step, classes=9)
    with pytest.raises(AssertionError, match="rows"):
        step.query(np.zeros((1, WIDTH)), np.zeros(1, dtype=np.int64))


def test_a_ledger_that_cannot_note_the_end_does_not_lose_a_paid_model():
    ledger = Ledger.in_memory()

    def fails(*given, **named):
        raise LedgerError("disk full")

    ledger.complete = fails
    model = MeanPrototypes().fit(private(), budget=BUDGET, ledger=ledger, noise=SeededNoise(0))
    assert model.weights["prototypes"].shape == (3, WIDTH)
    assert ledger.history()[0].outcome is None
    assert ledger.privacy_spent("samples") is not None


class PublicOnly(EmbeddingMethod):
    """Looks at no private row: prototypes are fixed directions."""

    name = "public-only"

    def plan(self, facts, budget, public=None):
        return self.make_plan([], budget)

    def run(self, task):
        return Outcome(CosineHead(np.eye(3, WIDTH)), events=())


@pytest.mark.parametrize("budget", [BUDGET, REPLACE, Budget.pure(0.1), Budget.zcdp(0.1), Budget.gdp(0.1)])
def test_a_method_without_noisy_steps_costs_nothing_and_is_on_record(budget):
    ledger = Ledger.in_memory()
    ledger.set_budget("samples", replace(budget))
    model = PublicOnly().fit(private(), budget=budget, ledger=ledger, noise=SeededNoise(0))
    assert (model.events, model.guarantee.epsilon, model.guarantee.delta) == ((), 0.0, 0.0)
    assert model.guarantee.relation is budget.relation
    charge = ledger.history("samples")[1]
    assert (charge.events, charge.outcome, charge.label) == ((), "released", "public-only")
    assert ledger.privacy_spent("samples").epsilon == 0.0
    assert model.predict(np.eye(3, WIDTH)).tolist() == list(model.classes)


@pytest.mark.parametrize(
    ("budget", "declared", "match"),
    [
        (Budget(epsilon=20.0, delta=1e-5), {}, "epsilon"),
        (Budget(epsilon=1.0, delta=1e-5), {"size": 50_000}, "delta"),
        (Budget(epsilon=1.0, delta=1e-5), {"class_counts": [9_000, 2_000, 100]}, "delta"),
        (Budget(epsilon=1.0, delta=0.01), {}, "delta"),
    ],
)
def test_a_budget_that_promises_little_brings_one_warning_at_the_callers_line(budget, declared, match):
    with pytest.warns(PrivacyWarning, match=match) as caught:
        fit(MeanPrototypes(), private(**declared), budget=budget)
    assert [Path(one.filename).name for one in caught] == ["samples.py"]


def test_the_warning_comes_before_the_charge_and_whatever_the_rows_are():
    """With warnings as errors it is a refusal: nothing is spent. Sizes that are not declared do not count."""
    ledger, weak = Ledger.in_memory(), Budget(epsilon=20.0, delta=1e-5)
    for rows in (private(), private(np.full((1, WIDTH), np.nan), [0])):
        with pytest.raises(PrivacyWarning):
            MeanPrototypes().fit(rows, budget=weak, ledger=ledger)
    assert ledger.history() == []
    edge = Budget(epsilon=1.0, delta=1e-3)  # for 100 examples at most; 600 are there, and none declared
    MeanPrototypes().fit(private(), budget=edge, ledger=ledger, noise=SeededNoise(0))


class Pixels(ImageMethod):
    """Looks at nothing; says which data it takes."""

    name = "pixels"

    def plan(self, facts, budget, public=None):
        return self.make_plan([], budget)

    def run(self, task):
        return Outcome(CosineHead(np.eye(2, 4)), events=(), features=UnitNorm().fit(4, None))


def pictures(count=2):
    return PrivateImages(np.zeros((count, 4, 4, 3), np.uint8), np.arange(count) % 2, classes=["a", "b"])


@pytest.mark.parametrize(
    ("method", "data", "public", "match"),
    [
        (MeanPrototypes(), pool(), None, "PrivateEmbeddings"),
        (MeanPrototypes(), private(), private(), "PublicEmbeddings"),
        (PublicPrototypes(), private(), None, "public rows"),
        (MeanPrototypes(), private(np.zeros((1, 2**14 + 1)), [0]), None, "16384"),
        (MeanPrototypes(), pictures(), None, "Encode the pictures"),
        (Pixels(), private(), None, "PrivateImages"),
        (Auto(candidates=(Pixels(),)), private(), None, "PrivateImages"),
        (Pixels(), pictures(), pool(), "PublicImages"),
        (MeanPrototypes(), private(), PublicImages(np.zeros((1, 4, 4, 3), np.uint8)), "PublicEmbeddings"),
    ],
)
def test_data_of_another_kind_than_the_method_takes_are_refused_before_the_charge(
    method, data, public, match
):
    assert match in refused_uncharged(method, data, public)
    assert Pixels().fit(pictures(), budget=BUDGET, ledger=Ledger.in_memory()).facts.shape == (4, 4, 3)


def test_other_refusals_are_before_the_charge_too():
    wide = PublicEmbeddings(np.eye(WIDTH + 1))
    assert "dimension" in refused_uncharged(MeanPrototypes(), public=wide, error=Incompatible)
    refused_uncharged(CoinPressPrototypes(), budget=REPLACE)
    for nothing in (Budget(epsilon=1e308, delta=1e-5), Budget(epsilon=1.0, delta=0.5)):
        refused_uncharged(MeanPrototypes(), budget=nothing, error=BudgetError)


class BoundsRows(MeanPrototypes):
    """Knows of rows alone, and says why."""

    units = (Unit.ROW,)
    rows_only = "it was written in a hurry"


OWNED = private(people=np.arange(600) % 7)
CHOOSING = (Auto(candidates=(BoundsRows(),)), PrivateTuning(candidates=(MeanPrototypes(), BoundsRows())))


@pytest.mark.parametrize("method", [BoundsRows(), *CHOOSING])
def test_a_unit_that_the_method_does_not_bound_is_refused_before_the_charge(method):
    assert "in a hurry" in refused_uncharged(method, OWNED)
    assert fit(method).guarantee.unit is Unit.ROW


class PromisesPersons(MeanPrototypes):
    """Says that it bounds what a person contributes, and plans steps that bound rows."""

    def plan(self, facts, budget, public=None):
        return super().plan(replace(facts, unit=Unit.ROW), budget, public)


def test_a_plan_whose_steps_protect_another_unit_is_not_honest():
    assert "declared unit" in refused_uncharged(PromisesPersons(), OWNED, error=DPTransferError)
    assert fit(PromisesPersons()).guarantee.epsilon > 0


class PreparesBadly(MeanPrototypes):
    """Cannot do its public work."""

    def prepare(self, facts, public):
        raise ArgumentError("no network")


def test_public_work_is_done_before_the_charge_and_handed_to_the_run():
    assert "no network" in refused_uncharged(PreparesBadly())
    ledger = Ledger.in_memory()

    class Prepares(PublicOnly):
        def prepare(self, facts, public):
            assert ledger.history() == []
            return UnitNorm(pool=2).fit(facts.dimension, public)

        def run(self, task):
            charged.append(len(ledger.history()))
            return Outcome(CosineHead(np.eye(3, task.prepared.dimension)), events=())

    charged = []
    model = Prepares().fit(private(), budget=BUDGET, ledger=ledger)
    assert (model.features.dimension, model.dimension) == (WIDTH // 2, WIDTH)
    assert charged == [0, 1]  # on made-up rows, and then on these


@pytest.mark.parametrize("given", [3, PublicMap, None])
def test_what_is_no_feature_map_is_refused_when_the_method_is_made(given):
    with pytest.raises(ArgumentError, match="feature map"):
        MeanPrototypes(features=given)


def test_a_plan_shows_its_promise_its_steps_and_its_notes():
    plan = replace(MeanPrototypes().plan(private().facts, BUDGET), notes=("<why>",))
    assert "noisy steps: 1" in repr(plan)
    shown = plan._repr_html_()
    for part in (
        "&#x27;mean&#x27;",
        "class sums",
        "&lt;why&gt;",
        str(replace(plan.guarantee, assumptions=())),
    ):
        assert part in shown
    assert "no noisy step" in replace(plan, mechanisms=())._repr_html_()
    many = replace(plan, mechanisms=plan.mechanisms * 30)._repr_html_()
    assert "20 more" in many
    assert many.count("<tr>") == 12
