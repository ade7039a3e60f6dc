"""Choosing a method by trying candidates on tasks made from public rows; no private row is read."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dptransfer import _check
from dptransfer.arrays import Floats
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.errors import BudgetError, PrivacyWarning
from dptransfer.features import PublicMap
from dptransfer.ledger import Ledger
from dptransfer.methods.about import SLATE, About
from dptransfer.methods.adamix import AdaMix
from dptransfer.methods.base import EmbeddingMethod, Outcome, Plan, PrivateMethod
from dptransfer.methods.mean_prototypes import MeanPrototypes
from dptransfer.methods.mixed_baselines import OnlyPublic
from dptransfer.methods.noisy_gd import NoisyGD
from dptransfer.methods.pool_selection import PublicPrototypes, TopKPrototypes
from dptransfer.methods.public_prior import PublicPriorPrototypes
from dptransfer.methods.start import FromShots
from dptransfer.methods.surrogate import FAMILIES, Surrogate, scaled_budget, surrogate_size, surrogates
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Unit
from dptransfer.progress import steps as counted
from dptransfer.release.classifier import PrivateClassifier

_UNITS_PER_CLASS = 100  # examples, or persons; assumed when the owner declares no size
_ROWS_PER_PERSON = 4.0  # assumed when the owner declares no other number
_FEWEST_ROWS = 200  # public rows that tasks can be made from
_OTHER_METHOD = 6
_SEED = 20_250  # the surrogates' own randomness: public, and the same for everyone


@dataclass(frozen=True)
class Auto(EmbeddingMethod):
    """Takes the candidate that does best on surrogate tasks made from the public pool.

    Releases:      what the chosen method releases.
    Guarantee:     the chosen method's; the choice itself looks at public facts only and costs nothing.
    Relation:      the budget's.
    Sensitivity:   the chosen method's.
    Assumes:       what the chosen method assumes.
    Reference:     docs/methods/auto.md says how surrogates are made and when they mislead.

    Attributes:
        features: unused; every candidate brings its own.
        candidates: methods to try, the first being the default; empty for the library's own list.
        margin: how much better than the default, in balanced accuracy, a variant of it must do on average to
            be taken, and another method six times as much; neither may do worse on any task.
    """

    candidates: tuple[PrivateMethod, ...] = field(default=())
    margin: float = 0.005
    name: ClassVar[str] = "auto"
    about: ClassVar[About] = About(
        summary="Tries the others on tasks made from public rows and takes the best: for all who do "
        "not want to choose.",
        family="Chosen for you",
        colour=SLATE,
        marker="*",
    )
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)
    plans_by_facts: ClassVar[bool] = True
    checks: ClassVar[_check.Checks] = {"margin": _check.non_negative}

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """The winner's plan, with a note that says how it won."""
        candidates = self.candidates or _candidates(facts, budget, public)
        for candidate in candidates:
            candidate.require_unit(facts)
        why_not = _why_not_tried(candidates, public)
        if public is None or why_not:
            note = f"Auto took '{_short(candidates[0])}': {why_not}."
            return _explained(candidates[0].plan(facts, budget, public), note)
        trial = _Trial(facts, budget, public.fingerprint, repr(candidates), public, candidates)
        accuracy = _tried(trial)
        winner = self._winner(candidates, accuracy)
        scores = "; ".join(
            f"{_short(m)} {a:.1%}" for m, a in zip(candidates, accuracy.mean(axis=1), strict=True)
        )
        note = (
            f"Auto took '{_short(candidates[winner])}' by balanced accuracy on {len(FAMILIES)} surrogate "
            f"tasks made from the public pool ({_sizes(facts)}; no private row was read): {scores}."
        )
        return _explained(candidates[winner].plan(facts, budget, public), note)

    def _winner(self, candidates: Sequence[PrivateMethod], accuracy: Floats) -> int:
        """The best on average of those that beat the default by what is needed and lose to it on no task.

        Surrogates rank variants of one method better than they rank methods.
        """
        alike = np.array([type(one) is type(candidates[0]) for one in candidates])
        ahead = accuracy - accuracy[0]
        lead = ahead.mean(axis=1)
        fit = (lead > self.margin * np.where(alike, 1, _OTHER_METHOD)) & (ahead.min(axis=1) >= 0)
        return int(np.argmax(np.where(fit, lead, 0.0)))

    def run(self, *_: Any) -> Outcome:
        """The plan names the chosen method, and `fit` runs that one."""
        raise AssertionError("a plan made by Auto belongs to the method it chose")


def _candidates(facts: Facts, budget: Budget, public: PublicEmbeddings | None) -> tuple[PrivateMethod, ...]:
    """The default first. Without a pool there is one; a pure budget rules out Gaussian noise."""
    if budget.flavour == "pure":
        if public is None:
            raise BudgetError(
                "A pure budget without public rows pays for none of the methods: Gaussian noise has no pure "
                "guarantee, and selections choose public rows. Give delta > 0, or pass "
                "public=PublicEmbeddings(...) (on the command line: --public pool.emb)."
            )
        wide, narrow = PublicMap(axes=256), PublicMap(axes=64)
        sets = TopKPrototypes(features=wide, k=min(3, len(public)))
        return PublicPrototypes(features=wide), PublicPrototypes(features=narrow), sets
    if public is None:
        return (MeanPrototypes(),)
    some = PublicMap(axes=128)
    prior = PublicPriorPrototypes()
    unlabelled = (prior, MeanPrototypes(), MeanPrototypes(features=some), NoisyGD(features=some))
    shots = public.shots
    # A pool may have labels of its own, which are not those of the private classes.
    if shots is None or not set(shots.classes or ()) <= set(facts.classes):
        return unlabelled
    labelled = (OnlyPublic(features=some), AdaMix(features=some), NoisyGD(features=some, start=FromShots()))
    return (*unlabelled, *labelled)


def _rows_each(facts: Facts) -> float | None:
    """Rows of a person, declared or assumed; None where rows are the unit."""
    return None if facts.unit is Unit.ROW else facts.rows_per_person or _ROWS_PER_PERSON


def _size(facts: Facts) -> int:
    """Number of rows, declared or assumed."""
    return facts.size or round(_UNITS_PER_CLASS * len(facts.classes) * (_rows_each(facts) or 1))


def _sizes(facts: Facts) -> str:
    """How large the tasks are, and how much of that is assumed."""
    units = "examples" if facts.unit is Unit.ROW else "people"
    assumed = f"{_UNITS_PER_CLASS} {units} per class, as no size is declared"
    said = "the declared size" if facts.size else assumed
    if facts.unit is Unit.PERSON:
        said += f", {_rows_each(facts):.4g} examples of each person"
        said += "" if facts.rows_per_person else ", as no number is declared"
    return said


def _why_not_tried(candidates: tuple[PrivateMethod, ...], public: PublicEmbeddings | None) -> str:
    """What keeps the candidates from being tried; nothing, mostly."""
    if public is None:
        return "no public rows were given to try others on"
    if len(candidates) == 1:
        return "it is the only candidate"
    if len(public) < _FEWEST_ROWS:
        return f"{len(public)} public rows are too few to make tasks from"
    return ""


@dataclass(frozen=True)
class _Trial:
    """What the outcome of a trial depends on, all of it public; rows and methods by what tells them apart."""

    facts: Facts
    budget: Budget
    fingerprint: str
    described: str
    public: PublicEmbeddings = field(compare=False)
    candidates: tuple[PrivateMethod, ...] = field(compare=False)


def tasks_like(facts: Facts, budget: Budget, public: PublicEmbeddings) -> tuple[list[Surrogate], Budget]:
    """Surrogate tasks of the declared or assumed size, and the budget that gives them as much noise."""
    size = _size(facts)
    made = surrogate_size(size)
    tasks = surrogates(
        public,
        len(facts.classes),
        made,
        rows_per_person=_rows_each(facts),
        person_bound=facts.person_bound,
        rng=np.random.default_rng(_SEED),
    )
    return list(tasks), scaled_budget(budget, size / made)


@lru_cache(maxsize=4)
def _tried(trial: _Trial) -> Floats:
    """(candidates, tasks) balanced accuracies, each candidate fitted as on real rows."""
    tasks, budget = tasks_like(trial.facts, trial.budget, trial.public)
    accuracy = np.zeros((len(trial.candidates), len(tasks)))
    for place in counted(accuracy.size, "candidate tried on public rows"):
        candidate, task = divmod(place, len(tasks))
        accuracy[candidate, task] = _accuracy(trial.candidates[candidate], tasks[task], budget)
    return accuracy


def _accuracy(candidate: PrivateMethod, task: Surrogate, budget: Budget) -> float:
    """Balanced accuracy on the surrogate's test rows, which are as many for every class."""
    model = fitted_on(task, candidate, budget)
    return float((model.scores(task.test_rows).argmax(axis=1) == task.test_labels).mean())


def fitted_on(task: Surrogate, method: PrivateMethod, budget: Budget) -> PrivateClassifier:
    """What the method makes of a surrogate's rows; they are public, so noise and budget need no care."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return method.fit(
            task.private,
            task.public,
            budget=budget,
            ledger=Ledger.in_memory(strict_names=True),
            noise=SeededNoise(_SEED + 1),  # not the seed of the tasks: draws would coincide
        )


def _explained(plan: Plan, note: str) -> Plan:
    return replace(plan, notes=(note, *plan.notes))


def _short(method: PrivateMethod) -> str:
    """A candidate's name, with what tells it from another of the same name."""
    default = type(method)()
    own = [f"{name}={value}" for name, value in vars(method).items() if value != getattr(default, name)]
    return f"{method.name}({', '.join(own)})" if own else method.name
