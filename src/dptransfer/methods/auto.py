"""Choosing a method by trying candidates on tasks made from public rows; no private row is read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dptransfer import _check
from dptransfer.accounting import epsilon_of_mu, mu_for
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.facts import Facts
from dptransfer.errors import BudgetError
from dptransfer.features import FittedFeatures, PublicMap
from dptransfer.ledger import Ledger
from dptransfer.methods.base import Outcome, Plan, PrivateMethod
from dptransfer.methods.mean_prototypes import MeanPrototypes
from dptransfer.methods.public_prior import PublicPriorPrototypes
from dptransfer.methods.public_prototypes import PublicPrototypes
from dptransfer.methods.surrogate import FAMILIES, Surrogate, surrogate_size, surrogates
from dptransfer.methods.top_k_prototypes import TopKPrototypes
from dptransfer.noise import NoiseSource, SeededNoise
from dptransfer.privacy import Budget

_EXAMPLES_PER_CLASS = 100  # assumed when the owner declares no size
_SEED = 20_250  # the surrogates' own randomness: public, and the same for everyone


@dataclass(frozen=True)
class Auto(PrivateMethod):
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
        margin: how much better, in balanced accuracy, a candidate must do than the default to be taken.
    """

    candidates: tuple[PrivateMethod, ...] = field(default=())
    margin: float = 0.01
    name: ClassVar[str] = "auto"
    plans_by_facts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the margin."""
        _check.non_negative("margin", self.margin)

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """The winner's plan, with a note that says how it won."""
        candidates = self.candidates or _candidates(budget, public)
        if public is None or len(candidates) == 1:
            why = (
                "no public rows were given to try others on" if public is None else "it is the only candidate"
            )
            return _explained(
                candidates[0].plan(facts, budget, public), f"Auto took '{_short(candidates[0])}': {why}."
            )
        accuracy = _tried(_Trial(public, facts, budget, candidates))
        best = int(np.argmax(accuracy))
        winner = best if accuracy[best] > accuracy[0] + self.margin else 0
        scores = "; ".join(f"{_short(m)} {a:.1%}" for m, a in zip(candidates, accuracy, strict=True))
        size = (
            "the declared size"
            if facts.size
            else f"{_EXAMPLES_PER_CLASS} examples per class, as no size is declared"
        )
        note = (
            f"Auto took '{_short(candidates[winner])}' by balanced accuracy on {len(FAMILIES)} surrogate "
            f"tasks made from the public pool ({size}; no private row was read): {scores}."
        )
        return _explained(candidates[winner].plan(facts, budget, public), note)

    def run(
        self,
        plan: Plan,
        features: FittedFeatures,
        private: PrivateEmbeddings,
        noise: NoiseSource,
        public: PublicEmbeddings | None,
    ) -> Outcome:
        """The plan names the chosen method, and `fit` runs that one."""
        raise AssertionError("a plan made by Auto belongs to the method it chose")


def _candidates(budget: Budget, public: PublicEmbeddings | None) -> tuple[PrivateMethod, ...]:
    """The default first. Without a pool there is one; a pure budget rules out Gaussian noise."""
    if budget.flavour == "pure":
        if public is None:
            raise BudgetError(
                "A pure budget without public rows pays for none of the methods: Gaussian noise has no pure "
                "guarantee, and selections choose public rows. Give delta > 0, or pass "
                "public=PublicEmbeddings(...) (on the command line: --public pool.emb)."
            )
        wide, narrow = PublicMap(axes=256), PublicMap(axes=64)
        return (
            PublicPrototypes(features=wide),
            PublicPrototypes(features=narrow),
            TopKPrototypes(features=wide, k=min(3, len(public))),
        )
    if public is None:
        return (MeanPrototypes(),)
    return (
        PublicPriorPrototypes(),
        PublicPriorPrototypes(fewest_axes=64),
        PublicPriorPrototypes(fewest_axes=32),
        PublicPriorPrototypes(features=PublicMap(axes=512)),
        MeanPrototypes(),
    )


@dataclass(frozen=True, eq=False)
class _Trial:
    """What the outcome of a trial depends on; all of it public."""

    public: PublicEmbeddings
    facts: Facts
    budget: Budget
    candidates: tuple[PrivateMethod, ...]

    @property
    def _key(self) -> tuple[object, ...]:
        return self.public.fingerprint, self.facts, self.budget, repr(self.candidates)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Trial) and other._key == self._key


@lru_cache(maxsize=4)
def _tried(trial: _Trial) -> tuple[float, ...]:
    """Mean balanced accuracy of each candidate over the surrogates, fitted as on real rows."""
    classes = len(trial.facts.classes)
    size = trial.facts.size or _EXAMPLES_PER_CLASS * classes
    made = surrogate_size(size)
    tasks = list(surrogates(trial.public, classes, made, rng=np.random.default_rng(_SEED)))
    budget = _scaled(trial.budget, size / made)
    return tuple(
        float(np.mean([_accuracy(candidate, task, trial.public, budget) for task in tasks]))
        for candidate in trial.candidates
    )


def _scaled(budget: Budget, factor: float) -> Budget:
    """The budget with noise smaller by `factor`: what a surrogate needs that is smaller by as much.

    It stays in its own currency: a GDP budget, say, would not pay for the selections that an (ε, δ) one does.
    """
    if factor == 1:
        return budget
    if budget.mu is not None:
        return replace(budget, mu=budget.mu * factor)
    if budget.rho is not None:
        return replace(budget, rho=budget.rho * factor**2)
    assert budget.epsilon is not None  # a Budget has exactly one amount
    if budget.flavour == "pure":
        return replace(budget, epsilon=budget.epsilon * factor)
    epsilon = epsilon_of_mu(mu_for(budget.epsilon, budget.delta) * factor, budget.delta)
    return replace(budget, epsilon=max(epsilon, budget.epsilon))


def _accuracy(candidate: PrivateMethod, task: Surrogate, public: PublicEmbeddings, budget: Budget) -> float:
    """Balanced accuracy on the surrogate's test rows, which are as many for every class."""
    model = candidate.fit(
        task.private,
        public,
        budget=budget,
        ledger=Ledger.in_memory(),
        noise=SeededNoise(_SEED + 1),  # not the seed of the tasks: draws would coincide
    )
    return float((model.scores(task.test_rows).argmax(axis=1) == task.test_labels).mean())


def _explained(plan: Plan, note: str) -> Plan:
    return replace(plan, notes=(note, *plan.notes))


def _short(method: PrivateMethod) -> str:
    """A candidate's name, with what tells it from another of the same name."""
    default = type(method)()
    own = [f"{name}={value}" for name, value in vars(method).items() if value != getattr(default, name)]
    return f"{method.name}({', '.join(own)})" if own else method.name
