"""What any steps cost in Gaussian noise: the μ whose curve lies above theirs, but for a lost η.

Steps with curve δ_e are *μ-Gaussian but for η* if δ_e(t) ≤ δ_μ(t) + η for every t ≥ 0 (and so for every t:
below 0, δ(−t) = 1 − e^(−t) + e^(−t) δ(t) on both sides). Why that is the right price for requests that are
chosen in the light of earlier answers is shown in `requests`.

**Finding it.** Both curves decrease. On a cell [s, t] it is therefore enough that δ_e(s) ≤ δ_μ(t) + η, and
past the first t with δ_e(t) ≤ η nothing is left to show. A μ that some single points cannot do without is
raised by a part in a thousand and tried on every cell; a cell it does not settle is halved, and if its middle
cannot do without more, μ is raised, which leaves settled cells settled. So what is returned was shown for all
t, not for a sample of them. Sampled steps cost no more than without amplification (`sampled`), whatever the
search says: at a rate of 1 no number of cells settles two equal curves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from dptransfer.accounting.gaussian import delta_of_mu, mu_with_slack
from dptransfer.accounting.search import smallest
from dptransfer.accounting.steps import Steps, all_steps
from dptransfer.privacy import Event

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
