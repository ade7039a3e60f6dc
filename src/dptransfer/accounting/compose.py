"""A sequence of events → one curve, one guarantee.

Every number here is an upper bound on what the events cost together. The steps of a sequence may be chosen in
the light of earlier answers as long as their parameters were fixed in advance; for parameters chosen on the
way, sums of ε, of ρ and (all Gaussian) of μ² are still bounds, and the curve of a mixture is not proven to be
one.

- Gaussian steps compose exactly, to μ = √(Σ 1/z²); zCDP is never used for them.
- One selection has a closed form; several cost at most the sum of their ε, with δ = 0.
- Everything else is composed by the library `dp_accounting` (`mixed`).

**What the lattice costs.** The noise that runs is a Gaussian on an integer lattice, within a likelihood
ratio of the ideal one that costs `numeric_epsilon`. If the ideal steps are (ε, δ)-DP and s is the sum of
those numbers, then for any event S: P'(S) ≤ e^a P(S) ≤ e^a (e^ε Q(S) + δ) ≤ e^(ε+s) Q'(S) + e^s δ, with a ≤
s. So what ran has the curve e^s δ(ε − s). (ρ needs no such correction: the discrete Gaussian meets the same
ρ exactly, Canonne, Kamath and Steinke 2020, Theorem 4.)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dptransfer import _check
from dptransfer.accounting.gaussian import delta_of_mu, epsilon_of_mu, mu_with_slack
from dptransfer.accounting.mixed import mixed_delta, mixed_epsilons
from dptransfer.accounting.pure import (
    SelectionGroup,
    selection_delta,
    selection_groups,
    selection_rho,
    total_epsilon,
)
from dptransfer.accounting.search import smallest
from dptransfer.errors import BudgetError
from dptransfer.privacy import Event, GaussianEvent, Guarantee, SelectionEvent, same_relation

NO_PURE_GAUSSIAN = (
    "Gaussian noise has no pure-epsilon guarantee; give delta > 0 or use the methods public or top-k."
)


def delta_of(events: Sequence[Event], epsilon: float) -> float:
    """δ at which the events together are (ε, δ)-DP, rounded up.

    >>> from dptransfer.privacy import Relation
    >>> noise = GaussianEvent(3.7307, Relation.ADD_REMOVE)
    >>> delta_of([noise], 1.0) <= 1e-5 < delta_of([noise, noise], 1.0)
    True
    """
    _check.non_negative("epsilon", epsilon)
    return _Steps.of(events).delta(epsilon)


def epsilon_of(events: Sequence[Event], delta: float) -> float:
    """Smallest ε, to a few parts in 10⁹ and rounded up, at which the events together are (ε, δ)-DP.

    The returned ε was tried: `delta_of` of it is at most `delta`. At δ = 0 Gaussian noise has none: infinity.

    >>> from dptransfer.privacy import Relation
    >>> choice = SelectionEvent(0.1, Relation.ADD_REMOVE, True, "exponential")
    >>> round(epsilon_of([choice] * 100, 0.0), 9), epsilon_of([choice] * 100, 1e-5) < 2.3
    (10.0, True)
    """
    _check.probability("delta", delta)
    steps = _Steps.of(events)
    if delta == 0:
        return steps.pure if steps.mu == 0 else math.inf
    if steps.delta(0.0) <= delta:
        return 0.0

    def does(epsilon: float) -> bool:
        return steps.delta(epsilon) <= delta

    if steps.is_one_selection:
        found = smallest(does, steps.pure * 1e-9, steps.pure)
        return steps.pure if found is None else found
    ideal_delta = max(delta * math.exp(-steps.slack) * (1 - 1e-12), 1e-307)
    if steps.groups:
        guesses = mixed_epsilons(steps.mu, steps.groups, ideal_delta)
    else:
        guesses = [epsilon_of_mu(steps.mu, ideal_delta)]
    checked = (_raised(does, guess + steps.slack) for guess in guesses)
    return next(filter(math.isfinite, checked), math.inf)


def rho_of(events: Sequence[Event]) -> float:
    """ρ of zero-concentrated DP of the events together, the sum of each step's.

    >>> from dptransfer.privacy import Relation
    >>> rho_of([GaussianEvent(1.0, Relation.ADD_REMOVE)] * 2)
    1.0
    """
    same_relation(events)
    return math.fsum(
        0.5 * (1 / event.noise_multiplier) * (1 / event.noise_multiplier)
        if isinstance(event, GaussianEvent)
        else selection_rho(event.epsilon, event.bounded_range)
        for event in events
    )


def mu_of(events: Sequence[Event]) -> float | None:
    """μ of Gaussian DP of the events together, lattice included; None unless all are Gaussian.

    >>> from dptransfer.privacy import Relation
    >>> mu_of([GaussianEvent(10.0, Relation.ADD_REMOVE)] * 100)
    1.0
    """
    steps = _Steps.of(events)
    return None if steps.groups else mu_with_slack(steps.mu, steps.slack)


def pure_epsilon_of(events: Sequence[Event]) -> float | None:
    """ε of pure DP of the events together, the sum; None if any is Gaussian.

    >>> from dptransfer.privacy import Relation
    >>> pure_epsilon_of([SelectionEvent(0.5, Relation.ADD_REMOVE, False, "permute-and-flip")] * 2)
    1.0
    """
    steps = _Steps.of(events)
    return steps.pure if steps.mu == 0 else None


def guarantee_of(events: Sequence[Event], budget_delta: float, assumptions: Sequence[str] = ()) -> Guarantee:
    """What the events together promise, with ε quoted at `budget_delta`, or at δ = 0 where that is as good.

    >>> from dptransfer.privacy import Relation
    >>> print(guarantee_of([SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential")], 0.0))
    This model is (ε = 0.5)-differentially private with respect to adding or removing one example.
    """
    budget_delta = _check.probability("delta", budget_delta)
    relation = same_relation(events)
    pure, mu = pure_epsilon_of(events), mu_of(events)
    if pure is None and budget_delta == 0:
        raise BudgetError(NO_PURE_GAUSSIAN)
    epsilon, delta = epsilon_of(events, budget_delta), budget_delta
    if pure is not None and pure <= epsilon:
        epsilon, delta = pure, 0.0
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        rho=rho_of(events),
        mu=mu if mu is not None and math.isfinite(mu) else None,
        assumptions=tuple(assumptions),
    )


@dataclass(frozen=True)
class _Steps:
    """The events gathered: one Gaussian of parameter `mu` (0 for none), grouped selections, lattice slack."""

    mu: float
    groups: tuple[SelectionGroup, ...]
    slack: float

    @classmethod
    def of(cls, events: Sequence[Event]) -> _Steps:
        same_relation(events)
        noises = [event for event in events if isinstance(event, GaussianEvent)]
        choices = [event for event in events if isinstance(event, SelectionEvent)]
        if len(noises) + len(choices) != len(events):
            raise TypeError("every event must be a GaussianEvent or a SelectionEvent")
        mu = math.hypot(*(1 / event.noise_multiplier for event in noises))
        if noises:  # a subnormal μ has lost digits; a larger one is still true
            mu = max(mu, sys.float_info.min)
        return cls(mu, selection_groups(choices), math.fsum(event.numeric_epsilon for event in noises))

    @property
    def pure(self) -> float:
        return total_epsilon(self.groups)

    @property
    def is_one_selection(self) -> bool:
        return self.mu == 0 and len(self.groups) == 1 and self.groups[0].times == 1

    def delta(self, epsilon: float) -> float:
        """δ of what ran, e^s δ(ε − s); below 0 the identity of `deltas_of_mu` continues the curve."""
        if self.slack == 0:
            return self._ideal_delta(epsilon)
        if self.slack > 1:  # no lattice in use comes near; 1 is always true
            return 1.0
        ideal = epsilon - self.slack
        distance = abs(ideal)
        delta = self._ideal_delta(distance if distance >= sys.float_info.min else 0.0)
        if ideal < 0:
            delta = -math.expm1(ideal) + math.exp(ideal) * delta
        return min(1.0, math.exp(self.slack) * delta * (1 + 1e-14))

    def _ideal_delta(self, epsilon: float) -> float:
        if not self.groups:
            return delta_of_mu(self.mu, epsilon)
        if self.is_one_selection:
            return selection_delta(self.groups[0].epsilon, self.groups[0].bounded_range, epsilon)
        return mixed_delta(self.mu, self.groups, epsilon)


def _raised(fits: Callable[[float], bool], guess: float) -> float:
    """`guess`, raised by parts in 10¹² until it fits: it came from the same curve by another route."""
    if math.isinf(guess):
        return guess
    step = 1e-12
    while not fits(guess) and step < 1e-3:
        guess *= 1 + step
        step *= 2
    return guess if fits(guess) else math.inf
