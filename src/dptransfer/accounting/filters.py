"""Privacy filters for adaptively chosen requests: whether one more fits, and what all of them cost.

Steps with curve δ_e are *μ-Gaussian but for η* if δ_e(t) ≤ δ_μ(t) + η for every t ≥ 0 (and so for every t:
below 0, δ(−t) = 1 − e^(−t) + e^(−t) δ(t) on both sides). Why that is the right price for requests that are
chosen in the light of earlier answers is shown in `requests`.

**Finding it.** Both curves decrease. On a cell [s, t] it is therefore enough that δ_e(s) ≤ δ_μ(t) + η, and
past the first t with δ_e(t) ≤ η nothing is left to show. A μ that some single points cannot do without is
raised by a part in a thousand and tried on every cell; a cell it does not settle is halved, and if its middle
cannot do without more, μ is raised, which leaves settled cells settled. So what is returned was shown for all
t, not for a sample of them. Sampled steps cost no more than without amplification (`sampled`), whatever the
search says: at a rate of 1 no number of cells settles two equal curves.

Taking the smallest of several curves, or the exact curve of a mixture, is right for steps that were **fixed
in advance**. It is not a rule for granting requests one at a time: at (1, 1e-5), after one Gaussian release
of μ = 0.2144, a second one (z = 6.218) and one sampled step (q = 1e-4, z = 0.288) each make the whole cost
exactly δ, but whoever looks at the first answer before choosing between them reaches 1.93 δ. A rule must
bound every path of requests by *one* argument, such as one of the three below, or share δ out among such
rules. An account has basic composition and, beside it, `gaussian` or `renyi`. Which of these two is settled
before the first answer: by the owner, with the budget, or else by the first request, `gaussian` where that
is all Gaussian or all selections.

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

**`renyi`.** One order α is fixed from ε and δ, and divergences at that order add up to at most the r that
converts to (ε, δ) (Feldman and Zrnic 2021). Every kind of step pays its own divergence; Gaussian steps lose
some 8 % of ε.

**Basic composition.** A request with curve δ_e pays the pair (ε_i, δ_i), where δ_i is fixed when it is made
and ε_i is the smallest ε with δ_e(ε) ≤ δ_i. Pairs that add up to at most (ε, δ) on every path cost at most
(ε, δ): with P₁, Q₁ the laws of the first answer a, and P_a, Q_a those of everything after it, backward
induction gives

    P(S) = Σ_a P₁(a) P_a(S_a) ≤ Σ_a P₁(a) min(1, e^(ε−ε₁) Q_a(S_a)) + (δ − δ₁)
         ≤ Σ_a e^ε₁ Q₁(a) e^(ε−ε₁) Q_a(S_a) + δ₁ + (δ − δ₁) = e^ε Q(S) + δ,

because the mean of a function between 0 and 1 is, under P₁, at most e^ε₁ times that under Q₁, and δ₁ more
(Rogers, Roth, Ullman and Vadhan 2016; Whitehouse, Ramdas, Rogers and Wu 2023). Selections pay their ε at
δ_i = 0, and lose nothing; so the plain sum of ε is part of this rule and needs no δ of its own. Other
requests pay at the share 2^(1−2b) of δ that a request with the number k = 1, 2, 3, ... among them has, b
being the bits of k: 1/2, twice 1/8, four times 1/32, and so on. These add up to 1 over all k, fall like
1/k² where halves of the rest would fall like 2^(−k), and take so few values that equal requests share a
price. Many selections in one request that are cheaper by a tenth or more at that δ_i pay there. What has no
ε at δ_i counts as infinite.

**Both share one account.** Basic composition counts a Gaussian (1, 1e-5) and a selection of ε = 1 as little
more than 2 in either order, where `gaussian` says 5.74 if the selection comes second. So δ is split, δ' =
δ/16 for basic composition: a request after the first is granted if one of the two rules holds, `gaussian`
or `renyi` at (ε, δ − δ') or basic composition at (ε, δ'), for *all* requests so far and this one. Either
rule at all of δ would not do: choosing which one to fill by the answers reaches 1.35 δ
(`tests/ledger/test_adversary.py`).

*Proof.* Fix the analyst's coins, so that requests are functions of the answers before, and let A and B be
the sets of outcomes at whose end the first and the second rule hold. A refusal is a function of earlier
requests, and tells nothing. Both rules are monotone: what each adds up only grows, so a rule that holds at
the end of a path held at every point of it, and one that failed stays so. The last request of a path was
granted, so A ∪ B is everything. Now let the same analyst face an account that stops for good where the
*first* rule would fail, whether or not the second one would go on. That process is (ε, δ − δ')-DP, because
the first rule bounds every path of it by one argument; and each outcome of A has the same probability in it
as in the real one, under P and under Q, since nothing on its path is stopped. Hence P(S ∩ A) − e^ε Q(S ∩ A)
≤ δ − δ' for every S, and likewise, with the other account, P(S ∩ B∖A) − e^ε Q(S ∩ B∖A) ≤ δ'. The sum is
P(S) − e^ε Q(S) ≤ δ. P and Q may be exchanged throughout. ∎

- *The first request* is made before anything is seen, and alone it may use all of δ by its exact curve:
  either nothing can follow it (no rule holds with it and anything that costs), and then it is the whole; or
  the first rule, which composes it exactly too, or the second holds with it, and the proof is as above. So
  the split itself depends on nothing but δ.
- *The plain sum of ε* is a rule that never uses δ. Where it holds basic composition does, so A ∪ B is the
  same set with it, and three rules need no more δ than two.
- *Pure budgets* (δ = 0), and those in ρ and μ, have one rule, the sum, and nothing to split.
- *Without a budget*, and for `spent`, what is stated is the smallest ε of a budget at that δ that would
  have granted everything. The split does not depend on ε, so a larger ε does not grant less by it.
- *A budget that is raised* counts from the first request on, at the split of its own δ: what is granted
  from then on is what it would have granted had it been there from the start. A decision to raise it that
  depends on answers is no part of any of these promises.

*Why a sixteenth.* At δ = 1e-5 an account of Gaussian charges alone states an ε that is 0.43 % higher at ε =
1 than with all of δ (0.47 % at 0.5, 0.31 % at 8); a Gaussian release and a selection of ε = 1 each together
2.21 instead of 2. Twice the share would cost the first 0.45 points more and save the second 2 points; half
of it the reverse, 0.2 and 2. Charges are Gaussian most of the time, and half a per cent is less than
anybody plans by.

**What is kept back.** N and what cut tails may cost must be fixed in advance as well: `RESERVE` of the
first rule's δ is kept back for both, a loss of 1e-11 of ε. Each request that is not Gaussian uses up
`SHARE` of δ, so the rule `gaussian` grants 131,072. Basic composition pays for cut tails within each δ_i.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from typing import Literal, get_args

import numpy as np

from dptransfer.accounting import compose
from dptransfer.accounting.calibrate import fits
from dptransfer.accounting.exact_curves import delta_of_mu, mu_with_slack
from dptransfer.accounting.renyi import ORDERS
from dptransfer.accounting.safe_search import smallest
from dptransfer.accounting.steps import Steps, all_steps, divergences_of
from dptransfer.base.types import Floats
from dptransfer.privacy import Budget, Event, GaussianEvent, Guarantee, Relation

_RAISED = 1 + 1e-3
_MOST_CELLS = 2000
_WIDEST = 1e3  # no account in use reaches this μ, nor its curve this ε: beyond, the price is infinite
# `delta_of_mu` is rounded up, by parts in 10¹², at small μ by up to 1e-12/μ of itself. Here it must not be:
# the curve of a slightly smaller μ lies lower by more than that, from a smallest μ on that costs nothing.
_NARROWER, _CURVE_ROUNDING = 1 - 1e-6, 1 - 2e-12
_SMALLEST = 1e-6


def gdp_price(events: Sequence[Event], lost: float) -> float:
    """The smallest μ, to a part in a thousand and rounded up, that these steps cost but for `lost`.

    Cut tails are left out: they are a distance between laws, and counted as such. Infinity if none is found.

    >>> from dptransfer.privacy import GaussianEvent, Relation, SampledGaussianEvent, SelectionEvent
    >>> gdp_price([GaussianEvent(4.0, Relation.ADD_REMOVE)], 0.0)
    0.25
    >>> round(gdp_price([SelectionEvent(0.4, Relation.ADD_REMOVE, True, "exponential")], 1e-20), 2)
    0.25
    >>> steps = SampledGaussianEvent(5.0, 0.01, 1000, Relation.ADD_REMOVE)
    >>> 1e-2 * math.sqrt(1000) / 5 < gdp_price([steps], 1e-20) < 0.08
    True
    """
    return _price(tuple(events), lost)


@lru_cache(maxsize=2**16)  # an account asks for the price of each of its charges again and again
def _price(events: tuple[Event, ...], lost: float) -> float:
    return max(_price_of(replace(steps, cut=0.0), lost) for steps in all_steps(events))


def _price_of(steps: Steps, lost: float) -> float:
    if steps.is_nothing:
        return 0.0
    most = math.inf if steps.groups or steps.by_renyi else mu_with_slack(steps.whole_mu, steps.slack)
    return min(most, _found(steps, lost)) if steps.groups or steps.sampled or steps.by_renyi else most


def _found(steps: Steps, lost: float) -> float:
    excess = {0.0: steps.delta(0.0) - lost}  # what a Gaussian curve must cover at each ε that was looked at
    end = 1e-3
    while excess[max(excess)] > 0:
        end *= 2
        if end > _WIDEST:
            return math.inf
        excess[end] = steps.delta(end) - lost
    mu = max(_smallest_mu(epsilon, needed) for epsilon, needed in excess.items()) * _RAISED
    edges = sorted(excess)
    cells = list(pairwise(edges))
    while cells and len(excess) < _MOST_CELLS:
        start, stop = cells.pop()
        if _covers(mu, stop, excess[start]):
            continue
        middle = (start + stop) / 2
        excess[middle] = steps.delta(middle) - lost
        if not _covers(mu / _RAISED, middle, excess[middle]):
            mu = _smallest_mu(middle, excess[middle]) * _RAISED
        cells += [(start, middle), (middle, stop)]  # settled ones stay settled as μ grows
    return math.inf if cells else mu


def _covers(mu: float, epsilon: float, needed: float) -> bool:
    return needed <= 0 or math.isinf(mu) or delta_of_mu(mu * _NARROWER, epsilon) * _CURVE_ROUNDING >= needed


def _smallest_mu(epsilon: float, needed: float) -> float:
    """The smallest μ whose curve covers `needed` at `epsilon`; infinity if none up to a wide bound does."""
    found = smallest(lambda mu: _covers(mu, epsilon, needed), _SMALLEST, _WIDEST, tolerance=1e-6)
    return math.inf if found is None else found


Rule = Literal["gaussian", "renyi"]
"""Composition rules of an (ε, δ) account for adaptive requests, beside basic composition."""
RULES: tuple[Rule, ...] = get_args(Rule)
BASIC_SHARE = 2.0**-4
"""Share of δ that basic composition has once there is a second request."""
RESERVE = 2.0**-32
"""Share of the other rule's δ that is kept back for what is lost on the way."""
SHARE = 2.0**-50
"""Share of δ that one request which is not Gaussian may lose."""
_CHEAPER = 0.9  # selections pay at a δ of their own where that makes their ε smaller by this factor


@dataclass(frozen=True)
class Requests:
    """What was asked for, in order: the steps of each request were fixed when it was made.

    >>> from dptransfer.privacy import SampledGaussianEvent, SelectionEvent
    >>> add_remove, budget = Relation.ADD_REMOVE, Budget(epsilon=1.0, delta=1e-5)
    >>> mean, step = GaussianEvent(1 / 0.2144, add_remove), SampledGaussianEvent(0.288, 1e-4, 1, add_remove)
    >>> Requests.of([[mean], [GaussianEvent(6.3, add_remove)]]).fit(budget)
    True
    >>> fits([mean, step], budget), Requests.of([[mean, step]]).fit(budget)  # as one plan
    (True, True)
    >>> Requests.of([[mean], [step]]).fit(budget)  # after the first answer was seen
    False
    >>> choice = SelectionEvent(0.1, add_remove, False, "permute-and-flip")  # 0.1 more, whatever came before
    >>> Requests.of([[mean], [choice]]).fit(budget)
    True

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
    def each(self) -> tuple[tuple[Event, ...], ...]:
        """The steps of every request, in order."""
        return (self.first, *self.later)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """All steps, in order."""
        return tuple(chain.from_iterable(self.each))

    @property
    def rule(self) -> Rule:
        """How requests after the first count in ε and δ, where basic composition does not grant them."""
        if self.declared is not None:
            return self.declared
        one_kind = compose.is_gaussian(self.first) or compose.pure_epsilon_of(self.first) is not None
        return "gaussian" if one_kind else "renyi"

    @property
    def mu(self) -> float | None:
        """μ of Gaussian DP, the root of the sum of squares of each request's; None where one has none."""
        if compose.mu_of(self.events) is None:
            return None
        return math.hypot(*(compose.mu_of(events) or 0.0 for events in self.each))

    def fit(self, budget: Budget) -> bool:
        """Whether all of them stay within the budget, whatever answers the later ones were chosen from."""
        if not self.later:
            return fits(self.first, budget)
        if budget.flavour == "gdp":
            return self.mu is not None and self.mu <= budget.amount
        if budget.flavour != "approximate":
            return fits(self.events, budget)  # sums of ρ and of pure ε
        return self._smallest(budget.delta, budget.amount)[0] <= budget.amount

    def guarantee(self, delta: float, relation: Relation, limit: float | None = None) -> Guarantee:
        """What they promise together; with several requests, the ε that counts against a budget.

        It is the smallest ε of a budget, at this δ and by the same rules, that would have granted them all;
        `limit` is the ε of the budget there is.
        """
        if not self.later or delta == 0:
            return compose.guarantee_of(self.events, delta, relation=relation)
        first = compose.guarantee_of(self.first, delta, relation=relation)
        stated = replace(first, rho=compose.rho_of(self.events))
        epsilon, by = self._smallest(delta, limit)
        if by == "sum":
            return replace(stated, epsilon=epsilon, delta=0.0, mu=None)
        return replace(stated, epsilon=epsilon, delta=delta, mu=self.mu)

    def counted_by(self, delta: float, limit: float | None = None) -> Literal["one", "sum", "basic"] | Rule:
        """What `guarantee` went by: one request alone, the plain sum of ε, basic composition, or the rule."""
        return self._smallest(delta, limit)[1] if self.later else "one"

    @cached_property
    def pure(self) -> float:
        """The sum of ε where all steps are selections; infinity otherwise."""
        pure = compose.pure_epsilon_of(self.events)
        return math.inf if pure is None else pure

    def _smallest(self, delta: float, limit: float | None) -> tuple[float, Literal["sum", "basic"] | Rule]:
        """The smallest ε that one of the rules gives, and which; the split of δ is the same for all."""
        found: tuple[float, Literal["sum", "basic"] | Rule] = (self.pure, "sum")
        if delta == 0:
            return found
        by_rule = self._by_rule(delta * (1 - BASIC_SHARE), limit)
        if by_rule < found[0]:
            found = by_rule, self.rule
        basic = self._by_basic_composition(delta * BASIC_SHARE, found[0])
        return (basic, "basic") if basic < found[0] else found

    def _by_basic_composition(self, delta: float, at_most: float) -> float:
        """The sum of each request's ε at its own δ, where that is below `at_most`; infinity otherwise."""
        paid, sharing, total = [], 0, 0.0
        for events in self.each:
            share = math.ldexp(1.0, 1 - 2 * (sharing + 1).bit_length())
            epsilon, shares = _pair_epsilon(events, delta * share)
            sharing += shares
            paid.append(epsilon)
            total += epsilon
            if total > at_most * (1 + 1e-9):  # the others need no price
                return math.inf
        return math.fsum(paid) if sharing else self.pure

    def _by_rule(self, delta: float, limit: float | None) -> float:
        lost = 0.0
        if self.rule == "gaussian":
            lost = SHARE * sum(not compose.is_gaussian(events) for events in self.later)
        # What was charged without a budget may need more than is kept back; under one it is refused.
        kept_back = RESERVE if limit is not None else max(RESERVE, 2 * lost)
        if lost > kept_back / 2:
            return math.inf
        left = delta * (1 - kept_back)
        if self.rule == "renyi":
            epsilon = self._renyi_epsilon(left, limit)
        else:
            epsilon = self._gaussian_epsilon(left, delta * SHARE)
        cut = math.fsum(event.numeric_delta for event in self.events)
        largest = max(epsilon, limit or 0.0)  # of the budget that all paths have
        needed = (1 + math.exp(min(largest, 700.0))) * cut
        return epsilon if needed <= delta * kept_back / 2 else math.inf

    def _gaussian_epsilon(self, delta: float, lost: float) -> float:
        price = math.hypot(*(gdp_price(events, lost) for events in self.later))
        if math.isinf(price):
            return price
        rest = GaussianEvent(1 / price, self.first[0].relation, unit=self.first[0].unit)
        return compose.epsilon_of([*self.first, rest], delta)

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


@lru_cache(maxsize=2**16)  # an account asks for the price of each of its charges again and again
def _pair_epsilon(events: tuple[Event, ...], delta: float) -> tuple[float, bool]:
    """ε of one request at a δ of its own, or at 0 where that is as good; and whether it is at that δ."""
    pure = compose.pure_epsilon_of(events)
    if pure is not None and len(events) == 1:
        return pure, False
    epsilon = compose.epsilon_of(events, delta)
    if pure is not None and epsilon > _CHEAPER * pure:
        return pure, False
    return epsilon, True
