"""Choose a method from public facts, or by trials on public data.

Tasks made of public rows cannot tell, as they have no pixels. So it is a rule on what is declared, with what
was measured (docs/how-to/choose-a-method.md): the noise of a step does not depend on the pictures, and its
signal grows with their number, so what counts is the pictures of a class over the noise on one sum of rows:

    pictures of a class ÷ noise         28    50    80    92   150   167   270   500 and more
    `film` less `public-prior`,
      CIFAR-10, even classes          −3.6  −2.0  +2.1  +3.0  +5.0  +5.2  +5.4  +5.1 to +6.2
      clothing, uneven ones                      −12.8        −7.7        −2.6  −1.5

With EfficientNet-Lite0 and δ = 1e-5; columns are rounded, and cells of one column averaged. Where classes are
even the border runs at 60, and where they are not it lies beyond 500: up to 150 the loss on one set is larger
than the gain on the other, and from 270 on it is smaller. 250 is the careful end of what lies between, as
training takes far longer than a head.

**Calibration** without a charged evaluation is by the same method, with the same noise, on tasks of public
rows. How confident a head should be depends on how hard its task is, which public rows tell only where they
have classes of their own. Tasks in which those stand for the private classes asked for a change in the right
direction on the data sets we tried; tasks of mixed unlabelled rows for anything. So a pool without enough
classes calibrates nothing. Tasks from one pool still tend to be easier than the private one: half of the
smallest change (in logarithms) that all of them ask for is taken, and none where they disagree about the
direction. `docs/how-to/scores.md` has the figures.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np

from dptransfer.accounting import mu_for
from dptransfer.base.progress import steps as counted
from dptransfer.base.types import Floats
from dptransfer.data import Facts, PublicData, PublicEmbeddings
from dptransfer.errors import ArgumentError, BudgetError, PrivacyWarning
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods.about import About, NonNegative
from dptransfer.methods.heads.mixed import AdaMix, OnlyPublic
from dptransfer.methods.heads.noisy_gd import NoisyGD
from dptransfer.methods.heads.public_prior import PublicPriorPrototypes
from dptransfer.methods.heads.start import FromShots
from dptransfer.methods.method import EmbeddingMethod, ImageMethod, Outcome, Plan, PrivateMethod
from dptransfer.methods.prototypes import class_sums, pool_selection
from dptransfer.methods.surrogate import (
    MOST_ROWS,
    Surrogate,
    SurrogateLedger,
    has_classes,
    scaled_budget,
    surrogates,
)
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation, Unit
from dptransfer.release.calibration import SIMULATED, Calibration
from dptransfer.release.classifier import PrivateClassifier, probabilities
from dptransfer.sources import PublicImages

MEASURED_WITH = "efficientnet-lite0"
"""The one encoder whose network the border was measured with."""
_BORDER = 250


def pixels_pay(facts: Facts, budget: Budget) -> tuple[bool, str]:
    """Whether `film` is expected to beat a head on rows, and why; uses public facts alone.

    >>> ten = Facts(tuple(range(10)), shape=(224, 224, 3), size=10_000)
    >>> pixels_pay(ten, Budget(epsilon=1.0, delta=1e-5))[0]
    True
    >>> pixels_pay(ten, Budget(epsilon=0.1, delta=1e-5))[1]
    "a class has 33 times the noise of one sum, and 'film' was ahead from about 250 on"
    """
    if facts.unit is Unit.PERSON:
        return False, "'film', which trains on pixels, has not been tested with person-level privacy"
    if budget.flavour == "pure":
        return False, "'film', which trains on pixels, has Gaussian noise, which a pure budget does not allow"
    if facts.declared_size is None:
        return False, "whether 'film', which trains on pixels, does better depends on an undeclared size"
    signal = facts.declared_size / len(facts.classes) / _noise(budget)
    why = f"a class has {signal:.0f} times the noise of one sum, and 'film' was ahead from about {_BORDER} on"
    return signal >= _BORDER, why


def _noise(budget: Budget) -> float:
    """Standard deviation of the noise on a sum of unit rows that has the whole budget to itself."""
    mu = {"gdp": budget.amount, "zcdp": math.sqrt(2 * budget.amount)}.get(budget.flavour)
    distance = 1 if budget.relation is Relation.ADD_REMOVE else 2
    return distance / (mu_for(budget.amount, budget.delta) if mu is None else mu)


def _never_run(self: object, task: object, /) -> Outcome:
    """The plan names the chosen method, and `fit` runs that one."""
    raise AssertionError("a plan made by Auto belongs to the method it chose")


@dataclass(frozen=True)
class AutoOnPictures(ImageMethod):
    """Choose `film` for private pictures where it is expected to be best; raise elsewhere.

    Releases:      what `film` releases.
    Guarantee:     that of `film`; the choice looks at declared facts alone and costs nothing.
    Relation:      the budget's.
    Sensitivity:   see `FiLM`.
    Assumes:       what `film` assumes.
    Reference:     docs/how-to/choose-a-method.md has what the rule rests on.
    """

    name: ClassVar[str] = "auto"
    about: ClassVar[About] = About(summary="Trains a network where pictures are many beside the noise.")
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)
    plans_by_facts: ClassVar[bool] = True

    def plan(self, facts: Facts, budget: Budget, public: PublicImages | None = None) -> Plan:
        """The plan of `film`, with the reason."""
        from dptransfer.methods.deep.fine_tuning import FiLM

        pays, why = pixels_pay(facts, budget)
        if not pays:
            raise ArgumentError(
                f"Auto trains a network where that was measured to pay, and would take rows here: {why}. "
                "Encode the pictures, or name a method for pictures, such as 'film'."
            )
        made = FiLM(**vars(self)).plan(facts, budget, public)
        return replace(made, notes=(f"Auto chose 'film', which trains on pixels: {why}.", *made.notes))

    run = _never_run


_UNITS_PER_CLASS = 100  # examples, or persons; assumed when the owner declares no size
_ROWS_PER_PERSON = 4.0  # assumed when the owner declares no other number
_FEWEST_ROWS = 200  # public rows that tasks can be made from
_FEWEST_TRIED, _TRIED_PER_CLASS = 1000, 50  # examples, or persons, of a task; larger ones take too long
_OTHER_METHOD = 6  # 3 points: any margin up to 10 chooses alike where trials tell (docs/methods/auto.md)
_SEED = 20_250  # the surrogates' own randomness: public, and the same for everyone


@dataclass(frozen=True)
class Auto(EmbeddingMethod):
    """Choose the default method, or another one that did better in trials on public rows.

    Releases:      what the chosen method releases.
    Guarantee:     the chosen method's; the choice itself looks at public facts only and costs nothing.
    Relation:      the budget's.
    Sensitivity:   the chosen method's.
    Assumes:       what the chosen method assumes.
    Reference:     docs/methods/auto.md says how surrogates are made, and how well they rank methods.

    Attributes:
        features: unused; every candidate brings its own.
        candidates: methods to try, the first being the default; empty for the library's own list.
        margin: how much better than the default, in balanced accuracy, a variant of it must do on average to
            be taken, and another method six times as much; neither may do worse on any task.
    """

    candidates: tuple[PrivateMethod, ...] = field(default=())
    margin: NonNegative = 0.005
    name: ClassVar[str] = "auto"
    about: ClassVar[About] = About(
        summary="Takes the default, or what does better on tasks made from public rows where these can "
        "tell: for all who do not want to choose.",
        family="Chosen for you",
    )
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)
    plans_by_facts: ClassVar[bool] = True

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """The winner's plan, with a note that says how it won."""
        candidates, quality = self.candidates, _UNMEASURED
        if not candidates:
            candidates, quality = _candidates(facts, budget, public)
        for candidate in candidates:
            candidate.require_unit(facts)
        winner, why = 0, _why_not_tried(candidates, public, quality)
        if public is not None and not why:
            accuracy = _tried(_Trial(facts, budget, public.fingerprint, repr(candidates), public, candidates))
            winner, scores = self._winner(candidates, accuracy), _scores(candidates, accuracy)
            made = f"On tasks made from public rows ({_sizes(facts)}; no private row was read)"
            why = f"{made} {scores}. {quality}"
        default = ", the default" * (winner == 0)
        note = f"Auto chose '{_short(candidates[winner])}'{default}. {why}.{_on_pixels(facts, budget)}"
        plan = candidates[winner].plan(facts, budget, public)
        return replace(plan, notes=(note, *plan.notes))

    def _winner(self, candidates: Sequence[PrivateMethod], accuracy: Floats) -> int:
        """The best on average of those that beat the default by what is needed and lose to it on no task.

        Surrogates rank variants of one method better than they rank methods. Who lost on one was not tried on
        those after it.
        """
        alike = np.array([type(one) is type(candidates[0]) for one in candidates])
        ahead = accuracy - accuracy[0]
        lead = ahead.mean(axis=1)
        fit = (lead > self.margin * np.where(alike, 1, _OTHER_METHOD)) & (ahead.min(axis=1) >= 0)
        return int(np.argmax(np.where(fit, lead, 0.0)))

    run = _never_run


# How well trials rank methods: benchmarks/auto_ranking.py; docs/methods/auto.md has the tables.
_UNMEASURED = "How well such tasks rank these methods was not measured"
_OF_POOL = "Your public rows have no labels of these classes, so no trial could rank the methods"
_OF_SHOTS = (
    "Such tasks tell well: a rank correlation of 0.65 with six real sets, where going by them cost 0.2 "
    "points on average and at most 2"
)
_OF_SHOTS_UNSIZED = (
    "Without a size such tasks tell less: a rank correlation of 0.54 with six real sets, where going by "
    "them cost 1.4 points on average and up to 20, though a method that learns from labelled rows alone was "
    "left out. Declare a size, if it may be public"
)
_OF_PURE = (
    "Such tasks tell something: a rank correlation of 0.6 with four real sets, where going by them cost 0.4 "
    "points on average with a declared size, 1.2 without, and up to 10"
)


def _candidates(
    facts: Facts, budget: Budget, public: PublicEmbeddings | None
) -> tuple[tuple[PrivateMethod, ...], str]:
    """The default first, and how good trials of these are; a pure budget rules out Gaussian noise."""
    if budget.flavour == "pure":
        if public is None:
            raise BudgetError(
                "A pure budget without public rows pays for none of the methods: Gaussian noise has no pure "
                "guarantee, and selections choose public rows. Pass a delta above 0, on the command line "
                "--delta 1e-5, or give public rows."
            )
        wide = PublicMap(axes=256)
        sets = pool_selection.TopKPrototypes(features=wide, k=min(3, len(public)))
        return (pool_selection.PublicPrototypes(features=wide), sets), _OF_PURE
    if public is None:
        return (class_sums.MeanPrototypes(),), ""
    shots = public.shots
    # A pool may have labels of its own, which are not those of the private classes.
    if shots is None or not set(shots.classes or ()) <= set(facts.classes):
        return (PublicPriorPrototypes(),), _OF_POOL
    some = PublicMap(axes=128)
    both = PublicPriorPrototypes(), AdaMix(features=some), NoisyGD(features=some, start=FromShots())
    if facts.declared_size is None:  # what gets no better with private rows is no choice for any number
        return both, _OF_SHOTS_UNSIZED
    return (*both, OnlyPublic(features=some)), _OF_SHOTS


def _rows_each(facts: Facts) -> float | None:
    """Rows of a person, declared or assumed; None where rows are the unit."""
    return None if facts.unit is Unit.ROW else facts.rows_per_person or _ROWS_PER_PERSON


def _size(facts: Facts) -> int:
    """Number of rows, declared or assumed."""
    return facts.declared_size or round(_UNITS_PER_CLASS * len(facts.classes) * (_rows_each(facts) or 1))


def _sizes(facts: Facts) -> str:
    """Size of the tasks, and which part of it is assumed."""
    people = facts.unit is Unit.PERSON
    assumed = f"{_UNITS_PER_CLASS} {'people' if people else 'examples'} per class, as no size is declared"
    said = "the declared size" if facts.declared_size else assumed
    said += f", {_rows_each(facts):.4g} examples of each person" if people else ""
    return said + ", as no number is declared" * (people and not facts.rows_per_person)


def _why_not_tried(candidates: Sequence[PrivateMethod], public: PublicEmbeddings | None, quality: str) -> str:
    """Reason why the candidates are not tried, or an empty text."""
    if public is None:
        return "There are no public rows to try other methods on"
    if len(candidates) == 1:
        return quality if quality == _OF_POOL else "It is the only candidate"
    return f"{len(public)} public rows are too few for trials" if len(public) < _FEWEST_ROWS else ""


def _scores(candidates: Sequence[PrivateMethod], accuracy: Floats) -> str:
    """Scores of the default, and the lead of each other candidate on the tasks that it was tried on."""
    first, *others = candidates
    ahead = 100 * np.nanmean(accuracy - accuracy[0], axis=1)
    counts = np.isfinite(accuracy).sum(axis=1)
    told = [
        f"'{_short(one)}' was {abs(lead):.1f} points {'ahead' if lead > 0 else 'behind'} on {count}"
        for one, lead, count in zip(others, ahead[1:], counts[1:], strict=True)
    ]
    return f"'{_short(first)}' had {np.nanmean(accuracy[0]):.1%} on {counts[0]}, and {', '.join(told)}"


def _on_pixels(facts: Facts, budget: Budget) -> str:
    """Hint about training the network itself, where the rows are those of pictures."""
    if facts.encoder is None or facts.encoder.name != MEASURED_WITH:
        return ""
    pays, why = pixels_pay(facts, budget)
    said = f"'film', which trains on pixels, may do better: {why}" if pays else f"{why[:1].upper()}{why[1:]}"
    return f" ({said}.)"


@dataclass(frozen=True)
class _Trial:
    """Key of a trial: all that its outcome depends on, which is public."""

    facts: Facts
    budget: Budget
    fingerprint: str
    described: str
    public: PublicEmbeddings = field(compare=False)
    candidates: tuple[PrivateMethod, ...] = field(compare=False)


def tasks_to_try(facts: Facts, budget: Budget, public: PublicEmbeddings) -> tuple[list[Surrogate], Budget]:
    """Tasks that are small enough for several methods: seconds for ten classes, ten for a hundred."""
    units = max(_FEWEST_TRIED, _TRIED_PER_CLASS * len(facts.classes))
    return tasks_like(facts, budget, public, round(units * (_rows_each(facts) or 1)))


def tasks_like(
    facts: Facts, budget: Budget, public: PublicEmbeddings, most: int | None = None
) -> tuple[list[Surrogate], Budget]:
    """Surrogate tasks of the declared or assumed size, and the budget that gives them as much noise.

    Args:
        facts: of the data that they stand for.
        budget: what a fit on those may cost.
        public: what they are made of.
        most: rows of a task; a larger size is made smaller, and its noise as well.
    """
    size = _size(facts)
    made = min(MOST_ROWS, size, most or size)
    bounded = partial(surrogates, rows_per_person=_rows_each(facts), person_bound=facts.person_bound)
    tasks = bounded(public, len(facts.classes), made, rng=np.random.default_rng(_SEED))
    return list(tasks), scaled_budget(budget, size / made)


@lru_cache(maxsize=4)
def _tried(trial: _Trial) -> Floats:
    """(candidates, tasks) balanced accuracies, each candidate fitted as on real rows.

    Who does worse than the first on a task cannot be taken, and is not tried on those after it: NaN.
    """
    tasks, budget = tasks_to_try(trial.facts, trial.budget, trial.public)
    accuracy = np.full((len(trial.candidates), len(tasks)), np.nan)
    left = list(range(len(trial.candidates)))
    for place in counted(len(tasks), "task made from public rows"):
        if left == [0]:
            break
        for candidate in left:
            accuracy[candidate, place] = _accuracy(trial.candidates[candidate], tasks[place], budget)
        left = [candidate for candidate in left if accuracy[candidate, place] >= accuracy[0, place]]
    return accuracy


def _accuracy(candidate: PrivateMethod, task: Surrogate, budget: Budget) -> float:
    """Balanced accuracy on the surrogate's test rows, which are as many for every class."""
    return task.accuracy(fitted_on(task, candidate, budget).scores(task.test_rows))


def fitted_on(task: Surrogate, method: PrivateMethod, budget: Budget) -> PrivateClassifier:
    """Fit a method to a surrogate; its rows are public, so the noise may be seeded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        ledger = SurrogateLedger.in_memory(strict_names=True)
        noise = SeededNoise(_SEED + 1)  # not the seed of the tasks: draws would coincide
        return method.fit(task.private, task.public, budget=budget, ledger=ledger, noise=noise)


def _short(method: PrivateMethod) -> str:
    """A candidate's name, with what tells it from another of the same name."""
    default = type(method)()
    own = [f"{name}={value}" for name, value in vars(method).items() if value != getattr(default, name)]
    return f"{method.name}({', '.join(own)})" if own else method.name


_TEMPERATURES = np.exp(np.linspace(-math.log(4), math.log(4), 65))


def calibrate_on_public(
    model: PrivateClassifier, public: PublicData | None, *, budget: Budget
) -> PrivateClassifier:
    """The model with `simulated` set, where public rows with enough classes of their own allow for it.

    No private row is read and nothing is charged: it takes four fits on at most 5,000 public rows each.

    Args:
        model: a fitted classifier; one with a charged evaluation has a better calibration, and stays.
        public: the public rows that it was fitted with.
        budget: what its fit was allowed; the tasks get as much noise.
    """
    from dptransfer.methods.configuration import method_from_configuration

    if model.charged is not None or not isinstance(public, PublicEmbeddings):
        return model
    if not has_classes(public, len(model.classes)):
        return model
    try:
        method = method_from_configuration(model.provenance.configuration)
        tasks, scaled = tasks_like(model.facts, budget, public)
        places = counted(len(tasks), "task made of public rows")
        asked = [_log_temperature(fitted_on(tasks[one], method, scaled), tasks[one]) for one in places]
    except Exception:  # whatever a method makes of such tasks: the model is paid for, and must not be lost
        return model
    if max(asked) >= 0 >= min(asked):  # they disagree about the direction
        return model
    flat = (0.0,) * len(model.classes)
    return replace(model, simulated=Calibration(math.exp(min(asked, key=abs) / 2), flat, SIMULATED))


def _log_temperature(model: PrivateClassifier, task: Surrogate) -> float:
    """Where the mean confidence of a classifier is its accuracy, on the test rows of its task."""
    scores = model.scores(task.test_rows)
    tempered = (probabilities(scores, model.head.temperature * factor) for factor in _TEMPERATURES)
    means = [float(chances.max(axis=1).mean()) for chances in tempered]
    return float(np.interp(task.accuracy(scores), means[::-1], np.log(_TEMPERATURES)[::-1]))
