"""Private hyper-parameter tuning: try configurations on private data and pay for it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from dptransfer.accounting import fits, mu_for
from dptransfer.base.progress import reported_to
from dptransfer.base.types import JsonObject
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.mechanisms import GaussianRounds, mechanism
from dptransfer.methods.about import About, Fraction
from dptransfer.methods.auto import Auto
from dptransfer.methods.method import (
    EmbeddingMethod,
    ImageMethod,
    Outcome,
    Plan,
    PrivateMethod,
    Task,
    configuration_of,
    require_as_planned,
)
from dptransfer.privacy import BestOfManyEvent, Budget, Unit, rounded_up
from dptransfer.queries import CorrectCount
from dptransfer.release.heads import score_arrays

_MOST_VALUES = 6  # of one setting, in a sentence


def tuned_settings(candidates: Sequence[PrivateMethod]) -> str:
    """The methods, and the settings in which those of one name differ, each with the values it may take.

    >>> from dptransfer.methods.prototypes.class_sums import MeanPrototypes
    >>> from dptransfer.methods.heads.noisy_gd import NoisyGD
    >>> tuned_settings([NoisyGD(steps=10), NoisyGD(steps=30), MeanPrototypes()])
    "'noisy-gd' with steps 10 or 30, 'mean'"
    """
    said = []
    for name in dict.fromkeys(one.name for one in candidates):
        values: dict[str, dict[str, None]] = {}
        for settings in _varied([one for one in candidates if one.name == name]):
            for setting, value in settings.items():
                values.setdefault(setting, {})[str(value)] = None
        said.append(_with(name, [f"{setting} {_or([*known])}" for setting, known in values.items()]))
    return ", ".join(said)


def configuration_in_words(chosen: PrivateMethod, candidates: Sequence[PrivateMethod]) -> str:
    """One of the candidates, by its name and the settings in which it may differ from others of that name.

    >>> from dptransfer.methods.heads.noisy_gd import NoisyGD
    >>> configuration_in_words(NoisyGD(steps=30), [NoisyGD(steps=10), NoisyGD(steps=30)])
    "'noisy-gd' with steps 30"
    """
    own = next(iter(_varied([chosen, *(one for one in candidates if one.name == chosen.name)])))
    return _with(chosen.name, [f"{setting} {value}" for setting, value in own.items()])


def _varied(alike: Sequence[PrivateMethod]) -> list[JsonObject]:
    """Each one's settings, by dotted name, that are not the same in all of them."""
    flat = [_flat(configuration_of(one)) for one in alike]
    names = list(dict.fromkeys(name for one in flat for name in one))
    differ = [name for name in names if len({str(one.get(name)) for one in flat}) > 1]
    return [{name: one[name] for name in differ if name in one} for one in flat]


def _flat(settings: Mapping[str, object], before: str = "") -> JsonObject:
    found: JsonObject = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= {f"{before}{name}": value["type"], **_flat(value, f"{before}{name}.")}
        elif name != "type":
            found[before + name] = value
    return found


def _with(name: str, settings: Sequence[str]) -> str:
    return f"'{name}' with {' and '.join(settings)}" if settings else f"'{name}'"


def _or(values: Sequence[str]) -> str:
    if len(values) > _MOST_VALUES:
        values = [*values[: _MOST_VALUES - 1], f"{len(values) - _MOST_VALUES + 1} others"]
    return " or ".join([", ".join(values[:-1]), values[-1]]) if len(values) > 1 else values[0]


_MOST = 100  # configurations: each is planned a dozen times before it is known what the best of them costs


def every_combination(
    make: Callable[[JsonObject], PrivateMethod], lists: Mapping[str, Sequence[object]], *, option: str = ""
) -> list[tuple[JsonObject, PrivateMethod]]:
    """Each combination of one value per setting, with the method that has it; two different ones at least.

    Args:
        make: the method with these settings.
        lists: the values to try, by setting.
        option: what stands before a setting where the user writes it, for messages.
    """
    for setting, values in lists.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ArgumentError(
                f"A tuned setting must have a list of values; '{setting}' has {values!r}. "
                "List two values or more."
            )
    found: list[tuple[JsonObject, PrivateMethod]] = []
    for values in itertools.islice(itertools.product(*lists.values()), _MOST + 1):
        settings = dict(zip(lists, values, strict=True))
        try:
            method = make(settings)
        except ArgumentError as problem:
            tried = " ".join(f"{option}{setting}={value}" for setting, value in settings.items())
            raise ArgumentError(f"{tried}: {problem}") from problem
        if any(method == other for _, other in found):
            raise ArgumentError(
                "Tuning chooses among different configurations; two of these are the same. "
                "List every value once."
            )
        found.append((settings, method))
    if not 2 <= len(found) <= _MOST:
        few = len(found) < 2
        raise ArgumentError(
            f"Tuning chooses among 2 to {_MOST} configurations; got {'one' if few else 'more'}. "
            f"List {'two values or more' if few else 'fewer values'}."
        )
    return found


_HALVINGS = 12  # of the interval a trial's ε is searched in: to one part in 4,000


@dataclass(frozen=True)
class PrivateTuning(EmbeddingMethod):
    """The best of several configurations, chosen on the private rows, and paid for.

    Random search with a random number of trials; only the best trial is released.

    A trial draws one of the candidates uniformly, fits it, and scores it by the noisy number of private rows
    it gets right. How many trials there were is random and never told: that is what makes the price of many
    trials little more than that of two or three.

    Releases:      the result of the best trial, with the candidate's name.
    Guarantee:     one BestOfManyEvent: each candidate's events and its score's, repeated by the law of
                   trials.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   the candidates', and `CorrectCount`'s.
    Assumes:       the list of candidates was fixed without looking at the private rows. A search that picks
                   its next candidate by earlier scores (Optuna, say) is not covered: it must pay for every
                   trial.
    Reference:     Papernot and Steinke (2022), "Hyperparameter tuning with Rényi differential privacy".

    Attributes:
        features: unused; every candidate brings its own.
        candidates: the configurations to choose from; with `tune_on_public`, the first is the default.
        mean_trials: the expected number of trials.
        shape: law of their number, a truncated negative binomial: 0 for logarithmic, 1 for geometric. There
            is always one trial at least; a Poisson number, which may be none, is not offered.
        score_share: of a trial's budget, in μ², that its score gets.
        tune_on_public: choose on surrogate tasks made from public rows instead, as `Auto` does; costs
            nothing.
    """

    candidates: tuple[PrivateMethod, ...] = ()
    mean_trials: float = 10.0
    shape: float = 0.0
    score_share: Fraction = 0.1
    tune_on_public: bool = False
    name: ClassVar[str] = "private-tuning"
    about: ClassVar[About] = About(
        card="One of several configurations was chosen on the private rows: a random number of trials ran, "
        "each with a noisy score, and only the best was released. The price of choosing is part of the "
        "guarantee.",
        reference="Papernot, Steinke: Hyperparameter Tuning with Rényi Differential Privacy (ICLR 2022).",
        family="Chosen for you",
    )

    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)
    chooses: ClassVar[type] = EmbeddingMethod
    """What kind of method a candidate is."""

    def __post_init__(self) -> None:
        """Refuse what is no fixed list of methods."""
        super().__post_init__()
        listed = self.candidates if isinstance(self.candidates, tuple | list) else ()
        if not listed or not all(isinstance(method, self.chooses) for method in listed):
            raise ArgumentError(
                f"candidates must be a fixed list of methods of the kind {self.chooses.__name__}, made "
                f"before any example is seen; got {type(self.candidates).__name__}. A search that adapts to "
                "private scores is not covered by the guarantee of private tuning: list the configurations, "
                "or search on public rows with tune_on_public=True."
            )
        object.__setattr__(self, "candidates", tuple(listed))
        if not -1 < self.shape < math.inf:
            raise ArgumentError(f"shape must be a finite number above -1; got {self.shape!r}.")
        by_facts = self.tune_on_public or any(one.plans_by_facts for one in self.candidates)
        object.__setattr__(self, "plans_by_facts", by_facts)
        # Any of them may be released, so what one assumes the guarantee of the whole does.
        assumed = tuple(dict.fromkeys(one for method in self.candidates for one in method.assumptions))
        object.__setattr__(self, "assumptions", assumed)

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """The largest trials whose best fits the budget; on public rows, the winner's own plan."""
        for candidate in self.candidates:
            candidate.require_unit(facts)
        if self.tune_on_public:
            if public is None:
                raise ArgumentError(
                    "Tuning on public rows needs some; none were given. "
                    "Pass public=PublicEmbeddings(...), or on the command line --public pool.emb."
                )
            return Auto(candidates=self.candidates).plan(facts, budget, public)
        if budget.flavour != "approximate":
            raise BudgetError(
                f"Private tuning is accounted for in (epsilon, delta); got {budget}. State the budget so."
            )
        low, high, found, too_little = 0.0, budget.amount, None, ""
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            try:
                made = self._trials(facts, replace(budget, epsilon=middle), public)
            except BudgetError as problem:  # a candidate with given noise needs more
                low, too_little = middle, f" At epsilon {middle:.3g} of one trial: {problem}"
                continue
            if fits([made.event], budget):
                low, found = middle, made
            else:
                high = middle
        if found is None:
            raise BudgetError(
                f"The budget must pay for about {self.mean_trials:g} trials of every configuration; it does "
                f"not.{too_little} Raise epsilon, lower mean_trials or leave out the dearest configuration."
            )
        note = (
            f"Tuned on the private rows, among {len(self.candidates)} configurations "
            f"({tuned_settings(self.candidates)}): about {self.mean_trials:g} trials, of which the best is "
            f"released. Choosing is paid for: a trial's fit has epsilon {rounded_up(low, 3)} and not the "
            f"{rounded_up(budget.amount, 3)} that a fit without tuning could have."
        )
        return replace(self.make_plan([found], budget), notes=(note,))

    def _trials(self, facts: Facts, trial: Budget, public: PublicEmbeddings | None) -> Trials:
        """Plans for one trial of each candidate, with its score."""
        plans = tuple(candidate.plan(facts, trial, public) for candidate in self.candidates)
        multiplier = 1 / (math.sqrt(self.score_share) * mu_for(trial.amount, trial.delta))
        zero = np.zeros((len(facts.classes), 1))  # whatever width rows have, the answer is one number
        question = CorrectCount(UnitNorm().fit(1, None), zero, zero[:, 0], bound=facts.bound)
        score = GaussianRounds(question, multiplier, trial.relation, 1)
        return Trials(plans, score, self.mean_trials, self.shape)

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Raise unless every candidate has the public data it needs."""
        for candidate in self.candidates:
            candidate.require_public(facts, public)

    def prepare(self, facts: Facts, public: PublicEmbeddings | None) -> list[Any]:
        """Prepare each candidate."""
        return [candidate.prepare(facts, public) for candidate in self.candidates]

    def run(self, task: Task[list[Any], Any, Any]) -> Outcome:
        """Trial after trial; all but the best are forgotten.

        Nobody is told how far they are: steps that begin again and again would tell how many trials there
        are, and their number which candidates they are of. The price holds where neither is known.
        """
        with reported_to(lambda *_: None):
            best = self._best(task)
        return replace(best, events=task.plan.events)

    def _best(self, task: Task[list[Any], Any, Any]) -> Outcome:
        trials = task.plan.single_step(Trials)
        highest, best = -math.inf, None
        # Neither how many trials there were nor which is ever told, but a run that goes on must not redraw.
        private, noise = task.private, task.noise
        law = self.mean_trials, self.shape
        count = noise.draw_once("number of trials", lambda: np.array(noise.trials(*law)))
        for _ in range(int(count)):
            place = int(noise.draw_once("candidate", lambda: noise.subset(len(trials.plans), 1))[0])
            chosen, ready = trials.plans[place], task.prepared[place]
            if chosen.method is not self.candidates[place]:  # `Auto` named another when it planned
                ready = chosen.method.prepare(task.facts, task.public)
            outcome = chosen.method.run(replace(task, plan=chosen, prepared=ready))
            require_as_planned(chosen, outcome)
            seen_by = ready if outcome.features is None else outcome.features
            arrays: JsonObject = score_arrays(outcome.head)
            question = CorrectCount(seen_by, **arrays, bound=task.facts.bound)
            asked = trials.score.open(noise=noise)
            rows = chosen.method.rows_for_head(private, outcome)
            score = asked.release(question, rows, private.labels, private.people)
            if score[0] > highest:
                note = best_trial_note(self.candidates[place], self.candidates)
                best = replace(outcome, features=seen_by, notes=(*outcome.notes, note))
                highest = float(score[0])
        assert best is not None  # the law begins at one trial
        return best


def best_trial_note(best: PrivateMethod, candidates: Sequence[PrivateMethod]) -> str:
    """Note of a release on its choice; no two different candidates have the same."""
    return f"The best trial was of {configuration_in_words(best, candidates)}."


@dataclass(frozen=True, eq=False)
class Trials:
    """One plan per candidate, the score that each trial adds, and how many trials there are.

    Releases:      the best trial's result.
    Guarantee:     BestOfManyEvent.
    Relation:      that of the plans.
    Sensitivity:   that of the plans' steps.
    Assumes:       a trial's candidate is drawn uniformly, and the number of trials from the stated law.
    Reference:     Papernot and Steinke (2022).
    """

    plans: tuple[Plan, ...]
    score: GaussianRounds
    mean_trials: float
    shape: float

    @property
    def event(self) -> BestOfManyEvent:
        """What the whole search costs."""
        events = tuple((*plan.events, self.score.event) for plan in self.plans)
        label = "the best of a random number of trials"
        return BestOfManyEvent(events, mean_trials=self.mean_trials, shape=self.shape, label=label)

    def at_noise_of(self, recorded: BestOfManyEvent) -> Trials:
        """The same with the noise of recorded trials in place of its own, if they have as many steps."""
        if [len(plan.mechanisms) + 1 for plan in self.plans] != list(map(len, recorded.candidates)):
            return self
        plans = (
            replace(plan, mechanisms=tuple(map(mechanism.at_noise_of, trial[:-1], plan.mechanisms)))
            for trial, plan in zip(recorded.candidates, self.plans, strict=True)
        )
        score = cast(GaussianRounds, mechanism.at_noise_of(recorded.candidates[0][-1], self.score))
        return replace(self, plans=tuple(plans), score=score)


_SHARED = ("encoder", "size", "device", "grey_range")


@dataclass(frozen=True)
class PictureTuning(ImageMethod, PrivateTuning):
    """`PrivateTuning` among methods on pictures: a trial is scored by the encoder as the trial has left it.

    Releases:      the result of the best trial, with the candidate's name.
    Guarantee:     one BestOfManyEvent: each candidate's events and its score's, repeated by the law of
                   trials.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   the candidates', and `CorrectCount`'s: a picture's row is a function of that picture and of
                   the trial's encoder, which is part of the trial's private output.
    Assumes:       what `PrivateTuning` assumes, and what the candidates do of their networks.
    Reference:     Papernot and Steinke (2022), "Hyperparameter tuning with Rényi differential privacy".

    Attributes:
        encoder: that of the candidates, who have one; so with size, device and grey_range.
    """

    chooses: ClassVar[type] = ImageMethod

    def __post_init__(self) -> None:
        """Refuse what is no fixed list of methods on the same pictures."""
        PrivateTuning.__post_init__(self)
        first = self.candidates[0]
        if any(getattr(one, name) != getattr(first, name) for one in self.candidates for name in _SHARED):
            raise ArgumentError(
                "Candidates on pictures must be of one encoder, size, device and grey_range, as the pictures "
                "are read once for all of them; these differ. Tune something else."
            )
        if self.tune_on_public:
            raise ArgumentError(
                "Tuning on public data tries configurations on tasks made of public rows, and "
                f"'{first.name}' takes pictures. Leave tune_on_public out."
            )
        for name in _SHARED:
            object.__setattr__(self, name, getattr(first, name))
