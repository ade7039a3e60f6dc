"""Methods that break one rule each; the suite must notice every one of them."""

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from dptransfer.encoders import encode_pixels
from dptransfer.methods import FiLM, MeanPrototypes, NoisyGD
from dptransfer.methods.base import Outcome, Plan, with_query
from dptransfer.privacy import Budget
from dptransfer.release.heads import CosineHead

from .method_suite import Watched


@dataclass(frozen=True)
class PeeksInPlan(MeanPrototypes):
    """Looks at private rows while it plans."""

    def plan(self, facts, budget, public=None):
        Watched.latest.rows.mean()
        return super().plan(facts, budget, public)


@dataclass(frozen=True)
class LooksForFree(MeanPrototypes):
    """Plans nothing, so that nothing is charged, and looks at the rows all the same."""

    def plan(self, facts, budget, public=None):
        return self.make_plan([], budget)

    def run(self, plan, features, private, noise, public):
        step = super().plan(private.facts, Budget(epsilon=1.0, delta=1e-5)).mechanisms
        outcome = super().run(replace(plan, mechanisms=step), features, private, noise, public)
        return replace(outcome, events=())


@dataclass(frozen=True)
class FitsItsPlanToTheData(MeanPrototypes):
    """Releases less when there is less, so that the plan tells how many rows there are."""

    def plan(self, facts, budget, public=None):
        plan = super().plan(facts, budget, public)
        declared = getattr(Watched.latest, "facts", None) is facts
        (step,) = plan.mechanisms
        step = replace(step, noise_multiplier=step.noise_multiplier * (1.5 if declared else 1.0))
        return self.make_plan([step], budget)


@dataclass(frozen=True)
class ReturnsOtherEvents(MeanPrototypes):
    """Says after the run that it cost less."""

    def run(self, plan, features, private, noise, public):
        outcome = super().run(plan, features, private, noise, public)
        return replace(outcome, events=tuple(replace(e, noise_multiplier=99.0) for e in outcome.events))


@dataclass(frozen=True)
class ChangesItsEvent(MeanPrototypes):
    """Runs with less noise than it planned, and is honest about it afterwards."""

    def run(self, plan, features, private, noise, public):
        bold = [replace(step, noise_multiplier=step.noise_multiplier / 4) for step in plan.mechanisms]
        return super().run(replace(plan, mechanisms=tuple(bold)), features, private, noise, public)


@dataclass(frozen=True)
class WidensItsQuery(MeanPrototypes):
    """Asks a costlier query than the one it planned, by way of `with_query`."""

    def run(self, plan, features, private, noise, public):
        (step,) = plan.mechanisms
        return super().run(
            replace(plan, mechanisms=(with_query(step, features=features, classes=99),)),
            features,
            private,
            noise,
            public,
        )


@dataclass(frozen=True)
class TakesOneMoreStep(NoisyGD):
    """Descends one step further than it paid for."""

    def run(self, plan, features, private, noise, public):
        (paid,) = plan.mechanisms
        return super().run(
            replace(plan, mechanisms=(replace(paid, times=paid.times + 1),)), features, private, noise, public
        )


@dataclass(frozen=True)
class Overspends(MeanPrototypes):
    """Plans with half of the noise that the budget asks for."""

    def plan(self, facts, budget, public=None):
        plan = super().plan(facts, budget, public)
        (step,) = plan.mechanisms
        return self.make_plan([replace(step, noise_multiplier=step.noise_multiplier / 2)], budget)


@dataclass(frozen=True)
class Boasts(MeanPrototypes):
    """Promises a smaller ε than its events give."""

    def plan(self, facts, budget, public=None):
        plan = super().plan(facts, budget, public)
        return Plan(self, plan.mechanisms, replace(plan.guarantee, epsilon=plan.guarantee.epsilon / 2))


@dataclass(frozen=True)
class ChargesTwice(MeanPrototypes):
    """Talks to the ledger itself."""

    def run(self, plan, features, private, noise, public):
        import gc

        from dptransfer.errors import LedgerError
        from dptransfer.ledger import Ledger

        for ledger in [item for item in gc.get_objects() if type(item) is Ledger]:
            with suppress(LedgerError):  # other tests leave ledgers behind whose files are gone
                if any(entry.dataset.name == private.name for entry in ledger.history()):
                    ledger.charge(private, plan.events, label="again")
        return super().run(plan, features, private, noise, public)


@dataclass(frozen=True)
class Swallows(MeanPrototypes):
    """Hides a failed run behind a release of zeros."""

    def run(self, plan, features, private, noise, public):
        try:
            return super().run(plan, features, private, noise, public)
        except OSError:
            return Outcome(CosineHead(np.zeros((3, features.dimension))), plan.events)


@dataclass(frozen=True)
class BringsItsOwnNoise(MeanPrototypes):
    """Adds randomness that no seed repeats."""

    def run(self, plan, features, private, noise, public):
        outcome = super().run(plan, features, private, noise, public)
        more = np.random.default_rng().normal(size=outcome.head.prototypes.shape)
        return replace(outcome, head=CosineHead(outcome.head.prototypes + more))


@dataclass(frozen=True)
class MindsTheOrder(MeanPrototypes):
    """Lets the first row count more."""

    def run(self, plan, features, private, noise, public):
        outcome = super().run(plan, features, private, noise, public)
        nudge = np.nan_to_num(private.rows[:1], posinf=0.0, neginf=0.0).sum()
        return replace(outcome, head=CosineHead(outcome.head.prototypes + np.tanh(nudge)))


@dataclass(frozen=True)
class InfersItsClasses(MeanPrototypes):
    """Releases prototypes of the classes it found, not of those declared."""

    def run(self, plan, features, private, noise, public):
        outcome = super().run(plan, features, private, noise, public)
        return replace(outcome, head=CosineHead(outcome.head.prototypes[np.unique(private.labels)]))


@dataclass(frozen=True)
class RefusesNan(MeanPrototypes):
    """Raises on a row that is not finite, and so tells that it is there."""

    def run(self, plan, features, private, noise, public):
        if not np.isfinite(private.rows).all():
            raise ValueError("rows must be finite")
        return super().run(plan, features, private, noise, public)


@dataclass(frozen=True)
class ReleasesRows(MeanPrototypes):
    """Hands out three private rows as prototypes."""

    def run(self, plan, features, private, noise, public):
        outcome = super().run(plan, features, private, noise, public)
        return replace(outcome, head=CosineHead(np.array(private.rows[:3], dtype=np.float64)))


@dataclass(frozen=True)
class KeepsAReference(MeanPrototypes):
    """Keeps the data inside the released head."""

    def run(self, plan, features, private, noise, public):
        outcome = super().run(plan, features, private, noise, public)
        object.__setattr__(outcome.head, "source", private)
        return outcome


@dataclass(frozen=True, eq=False)
class _Upside(CosineHead):
    def scores(self, rows):
        return -super().scores(rows)


@dataclass(frozen=True)
class PredictsByUnsavedRule(MeanPrototypes):
    """Predicts by a rule that the release does not contain."""

    def run(self, plan, features, private, noise, public):
        outcome = super().run(plan, features, private, noise, public)
        return replace(outcome, head=_Upside(outcome.head.prototypes))


@dataclass(frozen=True)
class PeeksAtPixels(FiLM):
    """Looks at private pictures while it plans."""

    def plan(self, facts, budget, public=None):
        Watched.latest.pixels[:1].mean()
        return super().plan(facts, budget, public)


@dataclass(frozen=True)
class RefusesBlackPictures(FiLM):
    """Raises where a picture could not be read, and so tells that there is one."""

    def run(self, plan, prepared, private, noise, public):
        if len(private.labels) and not private.pixels[:].any(axis=(1, 2, 3)).all():
            raise ValueError("a picture is black")
        return super().run(plan, prepared, private, noise, public)


@dataclass(frozen=True)
class ReleasesPicturesAsRows(FiLM):
    """Hands out the rows of three private pictures as the head's weights."""

    def run(self, plan, prepared, private, noise, public):
        outcome = super().run(plan, prepared, private, noise, public)
        rows = encode_pixels(private.pixels[:3], self.encoder_after(None, outcome.encoder_delta))
        return replace(outcome, head=replace(outcome.head, weights=rows.astype(np.float64)))


PICTURE_CHEATS = {
    "a_refused_budget_leaves_the_rows_unread": PeeksAtPixels,
    "no_row_is_read_before_the_charge": PeeksAtPixels,
    "odd_data_sets_all_work_and_raise_nothing": RefusesBlackPictures,
    "the_release_holds_no_private_array": ReleasesPicturesAsRows,
}
"""Check → a method on pictures that must fail it."""

CHEATS = {
    "a_refused_budget_leaves_the_rows_unread": (PeeksInPlan, LooksForFree),
    "no_row_is_read_before_the_charge": (PeeksInPlan, LooksForFree),
    "a_plan_needs_the_facts_alone": (PeeksInPlan, FitsItsPlanToTheData),
    "the_events_charged_are_the_events_released": (
        ReturnsOtherEvents,
        ChangesItsEvent,
        WidensItsQuery,
        TakesOneMoreStep,
    ),
    "the_ledger_gets_one_charge_and_one_closing_entry": (ChargesTwice, ReturnsOtherEvents),
    "a_run_that_raises_has_spent_and_says_that_it_failed": (Swallows,),
    "the_guarantee_follows_from_the_events_and_fits_the_budget": (Overspends, Boasts),
    "the_same_seed_gives_the_same_release": (BringsItsOwnNoise,),
    "the_order_of_the_rows_does_not_matter": (MindsTheOrder,),
    "odd_data_sets_all_work_and_raise_nothing": (InfersItsClasses, RefusesNan),
    "the_release_holds_no_private_array": (ReleasesRows, KeepsAReference),
    "saved_and_loaded_it_predicts_the_same": (PredictsByUnsavedRule,),
}
"""Check → the methods that must fail it."""
