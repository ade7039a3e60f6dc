"""Choosing among configurations on private rows, and paying for it; or on public rows, for nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from dptransfer import _check
from dptransfer.accounting import fits, mu_for
from dptransfer.arrays import AnyArray
from dptransfer.data import Facts, PrivateData, PublicEmbeddings
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.features import UnitNorm
from dptransfer.mechanisms import GaussianRounds
from dptransfer.mechanisms.base import at_noise_of
from dptransfer.methods.about import About
from dptransfer.methods.auto import Auto
from dptransfer.methods.base import EmbeddingMethod, Outcome, Plan, PrivateMethod, require_as_planned
from dptransfer.methods.configurations import configuration_in_words, tuned_settings
from dptransfer.noise import NoiseSource
from dptransfer.privacy import BestOfManyEvent, Budget, Unit, rounded_up
from dptransfer.progress import reported_to
from dptransfer.queries import CorrectCount
from dptransfer.release.heads import score_arrays

_HALVINGS = 12  # of the interval a trial's ε is searched in: to one part in 4,000


@dataclass(frozen=True)
class PrivateTuning(EmbeddingMethod):
    """Random search with a random number of trials; only the best trial is released.

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
    score_share: float = 0.1
    tune_on_public: bool = False
    name: ClassVar[str] = "private-tuning"
    about: ClassVar[About] = About(
        summary="The best of several configurations, chosen on the private rows, and paid for.",
        card="One of several configurations was chosen on the private rows: a random number of trials ran, "
        "each with a noisy score, and only the best was released. The price of choosing is part of the "
        "guarantee.",
        reference="Papernot, Steinke: Hyperparameter Tuning with Rényi Differential Privacy (ICLR 2022).",
        family="Chosen for you",
    )

    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)
    chooses: ClassVar[type[Any]] = EmbeddingMethod
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
        _check.fraction("score_share", self.score_share)
        if not -1 < self.shape < math.inf:
            raise ArgumentError(f"shape must be a finite number above -1; got {self.shape!r}.")
        by_facts = self.tune_on_public or any(one.plans_by_facts for one in self.candidates)
        object.__setattr__(self, "plans_by_facts", by_facts)
        # Any of them may be released, so what one assumes the guarantee of the whole does.
        assumed = dict.fromkeys(one for candidate in self.candidates for one in candidate.assumptions)
        object.__setattr__(self, "assumptions", tuple(assumed))

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
        """What any candidate needs."""
        for candidate in self.candidates:
            candidate.require_public(facts, public)

    def prepare(self, facts: Facts, public: PublicEmbeddings | None) -> list[Any]:
        """What each candidate prepares."""
        return [candidate.prepare(facts, public) for candidate in self.candidates]

    def run(
        self, plan: Plan, prepared: list[Any], private: PrivateData, noise: NoiseSource, public: Any
    ) -> Outcome:
        """Trial after trial; all but the best are forgotten.

        Nobody is told how far they are: steps that begin again and again would tell how many trials there
        are, and their number which candidates they are of. The price holds where neither is known.
        """
        with reported_to(lambda *_: None):
            best = self._best(plan, prepared, private, noise, public)
        return replace(best, events=plan.events)

    def _best(
        self, plan: Plan, prepared: list[Any], private: PrivateData, noise: NoiseSource, public: Any
    ) -> Outcome:
        (trials,) = plan.mechanisms
        assert isinstance(trials, Trials)
        highest, best = -math.inf, None
        # Neither how many trials there were nor which is ever told, but a run that goes on must not redraw.
        count = noise.once("number of trials", lambda: np.array(noise.trials(self.mean_trials, self.shape)))
        for _ in range(int(count)):
            place = int(noise.once("candidate", lambda: noise.subset(len(trials.plans), 1))[0])
            chosen, ready = trials.plans[place], prepared[place]
            if chosen.method is not self.candidates[place]:  # `Auto` named another when it planned
                ready = chosen.method.prepare(private.facts, public)
            outcome = chosen.method.run(chosen, ready, private, noise, public)
            require_as_planned(chosen, outcome)
            seen_by = ready if outcome.features is None else outcome.features
            arrays: dict[str, Any] = score_arrays(outcome.head)
            question = CorrectCount(seen_by, **arrays, bound=private.facts.bound)
            asked = trials.score.open(noise=noise)
            rows = self.rows_for(chosen.method, outcome, private)
            score = asked.release(question, rows, private.labels, private.people)
            if score[0] > highest:
                note = best_trial_note(self.candidates[place], self.candidates)
                best = replace(outcome, features=seen_by, notes=(*outcome.notes, note))
                highest = float(score[0])
        assert best is not None  # the law begins at one trial
        return best

    def rows_for(self, method: PrivateMethod, outcome: Outcome, private: Any) -> AnyArray:
        """What the trial's head scores: the private rows as they are."""
        rows: AnyArray = private.rows
        return rows


def best_trial_note(best: PrivateMethod, candidates: Sequence[PrivateMethod]) -> str:
    """What a release says of its choice; no two different candidates have the same."""
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
        return BestOfManyEvent(
            candidates=tuple((*plan.events, self.score.event) for plan in self.plans),
            mean_trials=self.mean_trials,
            shape=self.shape,
            label="the best of a random number of trials",
        )

    def at_noise_of(self, recorded: BestOfManyEvent) -> Trials:
        """The same with the noise of recorded trials in place of its own, if they have as many steps."""
        if [len(plan.mechanisms) + 1 for plan in self.plans] != list(map(len, recorded.candidates)):
            return self
        plans = (
            replace(plan, mechanisms=tuple(map(at_noise_of, trial[:-1], plan.mechanisms)))
            for trial, plan in zip(recorded.candidates, self.plans, strict=True)
        )
        score = cast(GaussianRounds, at_noise_of(recorded.candidates[0][-1], self.score))
        return replace(self, plans=tuple(plans), score=score)
