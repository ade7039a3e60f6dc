"""Requests made one after another, each perhaps chosen in the light of earlier answers: their joint cost.

Taking the smallest of several curves, or the exact curve of a mixture, is right for steps that were **fixed
in advance**. It is not a rule for granting requests one at a time: at (1, 1e-5), after one Gaussian release
of μ = 0.2144, a second one (z = 6.218) and one sampled step (q = 1e-4, z = 0.288) each make the whole cost
exactly δ, but whoever looks at the first answer before choosing between them reaches 1.93 δ. A rule must
bound every path of requests by *one* argument. Two such arguments are here; which of them holds is settled
before the first answer: by the owner, with the budget, or else by the first request, `gaussian` where that is
all Gaussian or all selections.

**`gaussian`.** Let L be the privacy loss so far, and ψ_v(L) = δ_√v(ε − L): what Gaussian noise of μ² = v
still to come would make of it. Suppose the next steps are, whatever was seen before, μ-Gaussian but for η
(`gdp_price`): H_t(P‖Q) ≤ δ_μ(t) + η for every t, in both directions. Their loss ℓ is drawn under P; write g
for the loss of the Gaussian noise, so that ψ_v(L) is the mean of (1 − e^(ε − L − g))₊. Then, exchanging the
means,

    E ψ_v(L + ℓ) = E_g E_ℓ (1 − e^((ε − L − g) − ℓ))₊ = E_g H_(ε−L−g)(P‖Q)
                 ≤ E_g δ_μ(ε − L − g) + η = ψ_(v+μ²)(L) + η.

So if μ² and η of all requests after the first add up to at most u and N on every path, backward induction
gives at most E ψ_u(L₁) + N for the whole, with L₁ the loss of the first request, which was fixed in advance:
the curve of the first request composed with one Gaussian of μ² = u, plus N. With η = 0 that is the theorem of
Smith and Thakurta (2022).

- Gaussian steps pay their own μ², and together lose nothing.
- The first request may be anything, and is composed exactly.
- Others pay the μ of `gdp_price`: sampled steps usually 5 to 20 % more than their ε suggests, a selection up
  to twice (bounded range) or five times (without) its ε, a tuned step several times as much. Nothing cheaper
  is possible beside Gaussian steps that lose nothing: the latter leave ψ itself as the value of stopping at
  L, and any other request must stay below it at every L.
- Only selections so far, and their ε add up to at most ε: then L never exceeds ε, and such a path adds
  nothing to δ.

**`renyi`.** One order α is fixed from ε and δ, and divergences at that order add up to at most the r that
converts to (ε, δ) (Feldman and Zrnic 2021). Every kind of step pays its own divergence; Gaussian steps lose
some 8 % of ε.

**What is kept back.** N and what cut tails may cost must be fixed in advance as well: `RESERVE` of δ is kept
back for both, a loss of 1e-13 of ε. Each request that is not Gaussian uses up `SHARE` of δ, so an account
grants 512.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from dptransfer.accounting.calibrate import fits
from dptransfer.accounting.compose import (
    epsilon_of,
    guarantee_of,
    is_gaussian,
    mu_of,
    pure_epsilon_of,
    rho_or_none,
)
from dptransfer.accounting.gdp_price import gdp_price
from dptransfer.accounting.renyi import ORDERS
from dptransfer.accounting.search import smallest
from dptransfer.accounting.steps import divergences_of
from dptransfer.arrays import Floats
from dptransfer.privacy import Budget, Event, GaussianEvent, Guarantee, Relation

Rule = Literal["gaussian", "renyi"]
"""How an (ε, δ) account counts requests that depend on earlier answers."""
RULES: tuple[Rule, ...] = get_args(Rule)
RESERVE = 2.0**-40
"""Share of δ that is kept back for what is lost on the way."""
SHARE = 2.0**-50
"""Share of δ that one request which is not Gaussian may lose."""


@dataclass(frozen=True)
class Requests:
    """What was asked for, in order: the steps of each request were fixed when it was made.

    >>> from dptransfer.privacy import SampledGaussianEvent
    >>> add_remove, budget = Relation.ADD_REMOVE, Budget(epsilon=1.0, delta=1e-5)
    >>> mean, step = GaussianEvent(1 / 0.2144, add_remove), SampledGaussianEvent(0.288, 1e-4, 1, add_remove)
    >>> Requests.of([[mean], [GaussianEvent(6.219, add_remove)]]).fit(budget)
    True
    >>> fits([mean, step], budget), Requests.of([[mean, step]]).fit(budget)  # as one plan
    (True, True)
    >>> Requests.of([[mean], [step]]).fit(budget)  # after the first answer was seen
    False

    Attributes:
        first: the steps of the first request, asked for before anything was answered.
        later: those of each later one.
        declared: the owner's choice of rule, made before the first request; None leaves it to that one.
    """

    first: tuple[Event, ...]
    later: tuple[tuple[Event, ...], ...] = ()
    declared: Rule | None = None

    @classmethod
    def of(cls, requests: Iterable[Sequence[Event]], declared: Rule | None = None) -> Requests:
        """Gather requests; those without any step do not count."""
        asked = [tuple(events) for events in requests if events]
        return cls(asked[0] if asked else (), tuple(asked[1:]), declared)

    @property
    def events(self) -> tuple[Event, ...]:
        """All steps, in order."""
        return sum(self.later, self.first)

    @property
    def rule(self) -> Rule:
        """How requests after the first are counted against a budget in ε and δ."""
        if self.declared is not None:
            return self.declared
        return "gaussian" if is_gaussian(self.first) or pure_epsilon_of(self.first) is not None else "renyi"

    @property
    def mu(self) -> float | None:
        """μ of Gaussian DP, the root of the sum of squares of each request's; None where one has none."""
        if mu_of(self.events) is None:
            return None
        return math.hypot(*(mu_of(events) or 0.0 for events in (self.first, *self.later)))

    def fit(self, budget: Budget) -> bool:
        """Whether all of them stay within the budget, whatever answers the later ones were chosen from."""
        if not self.later:
            return fits(self.first, budget)
        if budget.flavour == "gdp":
            return self.mu is not None and self.mu <= budget.amount
        if budget.flavour != "approximate":
            return fits(self.events, budget)  # sums of ρ and of pure ε
        epsilon = budget.amount
        if self.pure <= epsilon:
            return True
        cut = (1 + math.exp(min(epsilon, 700.0))) * math.fsum(event.numeric_delta for event in self.events)
        if self._lost > RESERVE / 2 or cut > budget.delta * RESERVE / 2:
            return False
        return self._epsilon(budget.delta, RESERVE, epsilon) <= epsilon

    def guarantee(self, delta: float, relation: Relation, limit: float | None = None) -> Guarantee:
        """What they promise together; with several requests, the ε that counts against a budget.

        It is the smallest ε of a budget, at this δ and by the same rule, that would have granted them all
        (but for `RESERVE`); `limit` is the ε of the budget there is.
        """
        if not self.later or delta == 0:
            return guarantee_of(self.events, delta, relation=relation)
        stated = replace(guarantee_of(self.first, delta, relation=relation), rho=rho_or_none(self.events))
        epsilon = self._epsilon(delta, self._lost, limit)
        if self.pure <= epsilon:
            return replace(stated, epsilon=self.pure, delta=0.0, mu=None)
        return replace(stated, epsilon=epsilon, delta=delta, mu=self.mu)

    @property
    def pure(self) -> float:
        """The sum of ε where all steps are selections; infinity otherwise."""
        pure = pure_epsilon_of(self.events)
        return math.inf if pure is None else pure

    @property
    def _lost(self) -> float:
        """The share of δ that requests which are not Gaussian have used up."""
        return 0.0 if self.rule == "renyi" else SHARE * sum(not is_gaussian(one) for one in self.later)

    def _epsilon(self, delta: float, kept_back: float, limit: float | None) -> float:
        left = delta * (1 - kept_back)
        if self.rule == "renyi":
            return self._renyi_epsilon(left, limit)
        price = math.hypot(*(gdp_price(events, delta * SHARE) for events in self.later))
        if math.isinf(price):
            return price
        cut = math.fsum(event.numeric_delta for event in self.events[len(self.first) :])
        rest = GaussianEvent(1 / price, self.first[0].relation, numeric_delta=cut, unit=self.first[0].unit)
        return epsilon_of([*self.first, rest], left)

    def _renyi_epsilon(self, delta: float, limit: float | None) -> float:
        """The smallest ε whose own order grants the divergences; never on the other side of `limit`.

        Whether it is at most `limit` is decided at the order of `limit` alone: one order for all paths.
        """
        divergences = divergences_of(self.events)
        if divergences is None:
            return math.inf

        def grants(epsilon: float) -> bool:
            order = _order(epsilon, delta)
            return float(divergences[order]) * (1 + 1e-12) <= float(_room(epsilon, delta)[order])

        low, high = 1e-6, 1e4
        if limit is not None:
            low, high = (min(low, limit), limit) if grants(limit) else (limit, max(limit, high))
        found = smallest(grants, low, high, tolerance=1e-9)
        return math.inf if found is None else found


def _room(epsilon: float, delta: float) -> Floats:
    """The largest divergence at each of `ORDERS` that converts to (ε, δ): `renyi` has the formula."""
    alpha = np.array(ORDERS)
    room: Floats = epsilon - np.log1p(-1 / alpha) + np.log(alpha * delta) / (alpha - 1)
    return room


@lru_cache(maxsize=256)
def _order(epsilon: float, delta: float) -> int:
    """The order, as its place in `ORDERS`, at which Gaussian noise (αμ²/2) gets most out of (ε, δ)."""
    return int(np.argmax(_room(epsilon, delta) / np.array(ORDERS)))
