"""Whether a difference is more than chance: the paired t test over seeds, and Holm's correction for many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def paired_chance(gaps: pd.Series) -> float:
    """How often equals would differ by so much, given their differences seed by seed; NaN with one seed."""
    from scipy.stats import ttest_1samp

    if len(gaps) < 2:
        return math.nan
    if np.ptp(gaps) == 0:  # no spread: equal, or apart by the same amount in every seed
        return float(gaps.iloc[0] == 0)
    return float(ttest_1samp(gaps, 0.0).pvalue)


def holm(chances: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which of these differences stand: Holm (1979), who allows one false one of all with chance `level`.

    The i-th smallest of m chances must be at most level/(m − i), and all before it too; NaN is no test.

    >>> holm([0.04, 0.01, 0.5]), holm([0.02, 0.01, 0.5])
    ([False, True, False], [True, True, False])
    """
    order = sorted((chance, place) for place, chance in enumerate(chances) if not math.isnan(chance))
    standing = [False] * len(chances)
    for rank, (chance, place) in enumerate(order):
        if chance > level / (len(order) - rank):
            break
        standing[place] = True
    return standing
