"""Methods that break one rule each; the suite must notice every one of them."""

from contextlib import suppress
from dataclasses import replace

import numpy as np

from dptransfer.encoders import encode_pixels
from dptransfer.methods import CoinPressPrototypes, FiLM, MeanPrototypes, NoisyGD
from dptransfer.methods.method import Outcome, Plan, with_query
from dptransfer.privacy import Budget, Unit
from dptransfer.release.heads import CosineHead
from dptransfer.testing.sample_data import CountedReads


def with_steps(task, *steps):
    """The task with other steps than were planned."""
    return replace(task, plan=replace(task.plan, mechanisms=steps))


class PeeksInPlan(MeanPrototypes):
    """Looks at private rows while it plans."""

    def plan(self, facts, budget, public=None):
        CountedReads.latest.rows.mean()
        return super().plan(facts, budget, public)


class LooksForFree(MeanPrototypes):
    """Plans nothing, so that nothing is charged, and looks at the rows all the same."""

    def plan(self, facts, budget, public=None):
        return self.make_plan([], budget)

    def run(self, task):
        step = super().plan(task.private.facts, Budget(epsilon=1.0, delta=1e-5)).mechanisms
        outcome = super().run(with_steps(task, *step))
        return replace(outcome, events=())


class FitsItsPlanToTheData(MeanPrototypes):
    """Releases less when there is less, so that the plan tells how many rows there are."""

    def plan(self, facts, budget, public=None):
        plan = super().plan(facts, budget, public)
        declared = getattr(CountedReads.latest, "facts", None) is facts
        (step,) = plan.mechanisms
        step = replace(step, noise_multiplier=step.noise_multiplier * (1.5 if declared else 1.0))
        return self.make_plan([step], budget)


class ReturnsOtherEvents(MeanPrototypes):
    """Says after the run that it cost less."""

    def run(self, task):
        outcome = super().run(task)
        return replace(outcome, events=tuple(replace(e, noise_multiplier=99.0) for e in outcome.events))


class ChangesItsEvent(MeanPrototypes):
    """Runs with less noise than it planned, and is honest about it afterwards."""

    def run(self, task):
        bold = [replace(step, noise_multiplier=step.noise_multiplier / 4) for step in task.plan.mechanisms]
        return super().run(with_steps(task, *bold))


class WidensItsQuery(MeanPrototypes):
    """Asks a costlier query than the one it planned, by way of `with_query`."""

    def run(self, task):
        (step,) = task.plan.mechanisms
        return super().run(with_steps(task, with_query(step, features=task.prepared, classes=99)))


class TakesOneMoreStep(NoisyGD):
    """Descends one step further than it paid for."""

    def run(self, task):
        (paid,) = task.plan.mechanisms
        return super().run(with_steps(task, replace(paid, times=paid.times + 1)))


class Overspends(MeanPrototypes):
    """Plans with half of the noise that the budget asks for."""

    def plan(self, facts, budget, public=None):
        plan = super().plan(facts, budget, public)
        (step,) = plan.mechanisms
        return self.make_plan([replace(step, noise_multiplier=step.noise_multiplier / 2)], budget)


class Boasts(MeanPrototypes):
    """Promises a smaller ε than its events give."""

    def plan(self, facts, budget, public=None):
        plan = super().plan(facts, budget, public)
        return Plan(self, plan.mechanisms, replace(plan.guarantee, epsilon=plan.guarantee.epsilon / 2))


class ChargesTwice(MeanPrototypes):
    """Talks to the ledger itself."""

    def run(self, task):
        import gc

        from dptransfer.errors import LedgerError
        from dptransfer.ledger import Ledger

        for ledger in [item for item in gc.get_objects() if type(item) is Ledger]:
            with suppress(LedgerError):  # other tests leave ledgers behind whose files are gone
                if any(entry.dataset.name == task.private.name for entry in ledger.history()):
                    ledger.charge(task.private, task.plan.events, label="again")
        return super().run(task)


class Swallows(MeanPrototypes):
    """Hides a failed run behind a release of zeros."""

    def run(self, task):
        try:
            return super().run(task)
        except OSError:
            return Outcome(CosineHead(np.zeros((3, task.prepared.dimension))), task.plan.events)


class ChangesItsHead(MeanPrototypes):
    """Releases other prototypes than those that it paid for."""

    def run(self, task):
        outcome = super().run(task)
        return replace(outcome, head=CosineHead(self.changed(outcome.head.prototypes, task)))


class BringsItsOwnNoise(ChangesItsHead):
    """Adds randomness that no seed repeats."""

    def changed(self, prototypes, task):
        return prototypes + np.random.default_rng().normal(size=prototypes.shape)


class MindsTheOrder(ChangesItsHead):
    """Lets the first row count more."""

    def changed(self, prototypes, task):
        return prototypes + np.tanh(np.nan_to_num(task.private.rows[:1], posinf=0.0, neginf=0.0).sum())


class InfersItsClasses(ChangesItsHead):
    """Releases prototypes of the classes it found, not of those declared."""

    def changed(self, prototypes, task):
        return prototypes[np.unique(task.private.labels)]


class RefusesNan(MeanPrototypes):
    """Raises on a row that is not finite, and so tells that it is there."""

    def run(self, task):
        if not np.isfinite(task.private.rows).all():
            raise ValueError("rows must be finite")
        return super().run(task)


class ReleasesRows(ChangesItsHead):
    """Hands out three private rows as prototypes."""

    def changed(self, prototypes, task):
        return np.array(task.private.rows[:3], dtype=np.float64)


class KeepsAReference(MeanPrototypes):
    """Keeps the data inside the released head."""

    def run(self, task):
        outcome = super().run(task)
        object.__setattr__(outcome.head, "source", task.private)
        return outcome


class _Upside(CosineHead):
    def scores(self, rows):
        return -super().scores(rows)


class PredictsByUnsavedRule(MeanPrototypes):
    """Predicts by a rule that the release does not contain."""

    def run(self, task):
        outcome = super().run(task)
        return replace(outcome, head=_Upside(outcome.head.prototypes))


class PeeksAtPixels(FiLM):
    """Looks at private pictures while it plans."""

    def plan(self, facts, budget, public=None):
        CountedReads.latest.pixels[:1].mean()
        return super().plan(facts, budget, public)


class RefusesBlackPictures(FiLM):
    """Raises where a picture could not be read, and so tells that there is one."""

    def run(self, task):
        if len(task.private.labels) and not task.private.pixels[:].any(axis=(1, 2, 3)).all():
            raise ValueError("a picture is black")
        return super().run(task)


class ReleasesPicturesAsRows(FiLM):
    """Hands out the rows of three private pictures as the head's weights."""

    def run(self, task):
        outcome = super().run(task)
        rows = encode_pixels(task.private.pixels[:3], self.encoder_after(None, outcome.encoder_delta))
        return replace(outcome, head=replace(outcome.head, weights=rows.astype(np.float64)))


class AddsAnAnswer(ChangesItsHead):
    """Draws noise of its own for an answer that no event pays for."""

    def changed(self, prototypes, task):
        total = np.nan_to_num(task.private.rows, posinf=0.0, neginf=0.0).sum(axis=0)
        return prototypes + np.tanh(total + task.noise.discrete_gaussian(10.0, total.shape))


class AsksTwice(MeanPrototypes):
    """Asks the one mechanism that it paid for a second time."""

    def run(self, task):
        super().run(task)
        return super().run(task)


class NamesNoUnit(MeanPrototypes):
    """Bounds nothing, by its own word."""

    units = ()


class GivesNoReason(MeanPrototypes):
    """Bounds rows alone, and does not say why."""

    units = (Unit.ROW,)
    rows_only = ""


class TakesAnything(MeanPrototypes):
    """Does not say which data it takes."""

    takes_public = None

    def require_data(self, private, public):
        pass


class ForgetsThePeople(MeanPrototypes):
    """Plans for single rows where persons are declared."""

    def plan(self, facts, budget, public=None):
        return super().plan(replace(facts, unit=Unit.ROW), budget, public)


class RefusesMissingIds(MeanPrototypes):
    """Raises where a person has a single row."""

    def run(self, task):
        if task.private.people is not None and len(set(task.private.people)) == len(task.private.people):
            raise ValueError("ids are missing")
        return super().run(task)


class TakesPersonsAsRows(CoinPressPrototypes):
    """Bounds rows alone, and takes persons all the same."""

    def require_unit(self, facts):
        pass


class CountsRowsAsPersons(MeanPrototypes):
    """Bounds every row as if it were a person."""

    def run(self, task):
        if task.private.people is not None:
            task.private.people = np.arange(len(task.private.rows))
        return super().run(task)


PICTURE_CHEATS = {
    "a refused budget leaves the rows unread": PeeksAtPixels,
    "no row is read before the charge": PeeksAtPixels,
    "odd data sets work like any other": RefusesBlackPictures,
    "the release holds no private array": ReleasesPicturesAsRows,
}
"""Check → a method on pictures that must fail it."""

CHEATS = {
    "a refused budget leaves the rows unread": (PeeksInPlan, LooksForFree),
    "no row is read before the charge": (PeeksInPlan, LooksForFree),
    "a plan needs the declared facts alone": (PeeksInPlan, FitsItsPlanToTheData),
    "the events charged are the events released": (
        ReturnsOtherEvents,
        ChangesItsEvent,
        WidensItsQuery,
        TakesOneMoreStep,
    ),
    "the ledger gets one charge and one closing entry": (ChargesTwice, ReturnsOtherEvents),
    "a run that raises has spent and says that it failed": (Swallows,),
    "the guarantee follows from the events and fits the budget": (Overspends, Boasts),
    "the same seed gives the same release": (BringsItsOwnNoise,),
    "what is released follows from noisy answers alone": (ReleasesRows, MindsTheOrder, AddsAnAnswer),
    "mechanisms release what was paid for": (AsksTwice,),
    "its units and kinds of data are declared": (NamesNoUnit, GivesNoReason, TakesAnything),
    "odd people work like any other": (ForgetsThePeople, RefusesMissingIds),
    "what does not bound persons refuses them before the charge": (TakesPersonsAsRows,),
    "forty rows of one person move no exact answer further than one may": (CountsRowsAsPersons,),
    "the order of the rows does not matter": (MindsTheOrder,),
    "odd data sets work like any other": (InfersItsClasses, RefusesNan),
    "the release holds no private array": (ReleasesRows, KeepsAReference),
    "saved and loaded it predicts the same": (PredictsByUnsavedRule,),
}
"""Check → the methods that must fail it."""
