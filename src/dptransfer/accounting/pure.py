"""Selections: one step that is pure ε-DP, and perhaps of bounded range too.

Two facts carry everything here; each is an exact trade-off curve, so it composes adaptively by dominating
pairs (Zhu, Dong and Wang 2022, Theorem 10).

**Pure ε-DP** is dominated by randomised response: loss +ε with probability e^ε/(1 + e^ε), else −ε (Kairouz,
Oh and Viswanath 2015). Hence δ(e) = (e^ε − e^e)/(1 + e^ε).

**η-bounded range** (the losses of one pair of data sets lie in an interval [t − η, t]). (1 − e^(e − loss))₊
is convex in e^(−loss), and E[e^(−loss)] = 1, so for given t the worst case puts all mass on the two ends;
the expectation fixes the mass of t to (e^η − e^t)/(e^η − 1). Then δ = (e^η − e^t)(1 − e^(e−t))/(e^η − 1),
whose derivative in t vanishes at t = (η + e)/2, and the maximum is

    δ(e) = (e^(η/2) − e^(e/2))² / (e^η − 1)        for −η ≤ e ≤ η   (Dong, Durfee and Rogers 2020).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from dptransfer.base import checks


class SelectionGroup(NamedTuple):
    """`times` equal selections, or other pure steps: each `epsilon`-DP, and of bounded range or not."""

    epsilon: float
    bounded_range: bool
    times: int

    @property
    def rho(self) -> float:
        """Zero-concentrated DP of all of them."""
        return self.times * selection_rho(self.epsilon, self.bounded_range)


def total_epsilon(groups: Iterable[SelectionGroup]) -> float:
    """Pure ε of all selections together, the sum, to the nearest float.

    >>> total_epsilon([SelectionGroup(0.1, True, 10)])
    1.0
    """
    return math.fsum(group.epsilon * group.times for group in groups)


def selection_delta(step_epsilon: float, bounded_range: bool, epsilon: float) -> float:
    """Exact δ at `epsilon` of one selection that is `step_epsilon`-DP; 0 from `step_epsilon` on.

    >>> selection_delta(1.0, True, 1.0)
    0.0
    >>> round(selection_delta(1.0, True, 0.0), 6) == round(math.tanh(1 / 4), 6)
    True
    >>> round(selection_delta(1.0, False, 0.0), 6) == round(math.tanh(1 / 2), 6)
    True
    """
    checks.positive("step_epsilon", step_epsilon)
    checks.non_negative("epsilon", epsilon)
    if epsilon >= step_epsilon:
        return 0.0
    gap = step_epsilon - epsilon
    if bounded_range:  # both divided by e^η, so that nothing overflows
        delta = math.expm1(-gap / 2) ** 2 / -math.expm1(-step_epsilon)
    else:
        delta = -math.expm1(-gap) / (1 + math.exp(-step_epsilon))
    return min(1.0, delta * (1 + 1e-14))


def selection_rho(step_epsilon: float, bounded_range: bool) -> float:
    """Zero-concentrated DP, ρ, of one selection: η²/8 with bounded range, ε²/2 without.

    With bounded range: the loss lies in an interval of length η, so by Hoeffding's lemma its cumulants grow
    at most like a normal variable's of variance η²/4. Without: the interval is [−ε, ε], of length 2ε.

    >>> selection_rho(2.0, True), selection_rho(2.0, False)
    (0.5, 2.0)
    """
    checks.positive("step_epsilon", step_epsilon)
    return step_epsilon * step_epsilon / (8 if bounded_range else 2)
