"""Rényi divergence of Gaussian noise and selections together, and its conversion to δ.

Rényi divergences of adaptive steps add, order by order. A mechanism of divergence r(α) at order α > 1 has,
for every α,  log δ ≤ (α − 1)(r(α) − ε + log(1 − 1/α)) − log α  (Canonne, Kamath and Steinke 2020,
Proposition 12). Any order gives a valid bound, so a grid of orders needs no error analysis.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dptransfer import _check
from dptransfer.accounting.pure import SelectionGroup, selection_rho

_ORDERS = 1 + np.geomspace(1e-2, 1e7, 600)


def renyi_delta(mu: float, groups: Sequence[SelectionGroup], epsilon: float) -> float:
    """A δ at which Gaussian noise of GDP parameter `mu` (0 for none) and the selections are (ε, δ)-DP.

    >>> f"{renyi_delta(0.0, [SelectionGroup(0.1, True, 100)], 2.2):.1e}"
    '7.4e-06'
    """
    _check.non_negative("mu", mu)
    _check.non_negative("epsilon", epsilon)
    with np.errstate(over="ignore"):
        divergence = _ORDERS * (mu * mu / 2)
        for group in groups:
            divergence = divergence + group.times * _selection_divergence(group)
        exponent = (_ORDERS - 1) * (divergence - epsilon + np.log1p(-1 / _ORDERS)) - np.log(_ORDERS)
        exponent += 2.0**-50 * _ORDERS * (divergence + epsilon + 1)  # rounding of the line above
    return max(math.exp(min(0.0, float(exponent.min()))), sys.float_info.min)  # underflow is not purity


def _selection_divergence(group: SelectionGroup) -> NDArray[np.float64]:
    """The smaller of α·ρ and the divergence of randomised response, at every order."""
    epsilon = group.epsilon
    spread = np.logaddexp(_ORDERS * epsilon, (1 - _ORDERS) * epsilon) - np.logaddexp(0.0, epsilon)
    response = spread / (_ORDERS - 1) * (1 + 1e-12) + 1e-12 / (_ORDERS - 1)
    smaller: NDArray[np.float64] = np.minimum(_ORDERS * selection_rho(epsilon, group.bounded_range), response)
    return smaller
