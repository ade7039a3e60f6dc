"""Who won: the best private label of each setting, and those that a test cannot tell from it.

Cells of one seed had the same rows, so labels are compared seed by seed (paired t test), each with the best
one; Holm's correction keeps the chance of a single false difference in a setting at or below 5 %. What is not
private does not compete.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from dptransfer_lab.chance import holm, paired_chance
from dptransfer_lab.figures.style import Style
from dptransfer_lab.intervals import mean_of
from dptransfer_lab.points import each_setting


@dataclass(frozen=True)
class Winner:
    """Who is best in one setting.

    Attributes:
        label: the label with the largest mean over seeds.
        mean: that mean.
        lead: its distance to the second best mean; NaN where nobody else competed.
        level: the winner and every label that the test cannot tell from it; with one seed, the winner alone.
        clear: whether the test tells it from all others.
    """

    label: str
    mean: float
    lead: float
    level: frozenset[str]
    clear: bool


def winner_of(cells: pd.DataFrame, metric: str) -> Winner | None:
    """The best private label among the cells of one setting; None where nobody has the number."""
    rivals = cells[~cells["not_private"] & cells[metric].notna()]
    if rivals.empty:
        return None
    seeds = rivals.pivot_table(index="seed", columns="label", values=metric)
    means = seeds.mean().sort_values(ascending=False, kind="stable")
    best, others = means.index[0], list(means.index[1:])
    chances = [paired_chance((seeds[best] - seeds[label]).dropna()) for label in others]
    known = [not math.isnan(chance) for chance in chances]
    different = holm(chances)
    level = {label for label, told, off in zip(others, known, different, strict=True) if told and not off}
    lead = float(means.iloc[0] - means.iloc[1]) if others else math.nan
    clear = bool(others) and all(known) and not level
    return Winner(best, float(means.iloc[0]), lead, frozenset({best, *level}), clear)


def who_won(frame: pd.DataFrame, styles: Mapping[str, Style], metric: str = "balanced_accuracy") -> str:
    """One sentence: who is best in how many settings, and by how much; empty where nobody competed."""
    found = [winner for cells in each_setting(frame) if (winner := winner_of(cells, metric))]
    found = [winner for winner in found if not math.isnan(winner.lead)]
    if not found:
        return ""
    (first, most), *rest = Counter(winner.label for winner in found).most_common()
    leads = mean_of((100 * winner.lead for winner in found if winner.label == first), top=math.inf)
    clear = sum(winner.clear for winner in found if winner.label == first)
    many = f"{most} of {len(found)} settings" if len(found) > 1 else "the one setting"
    text = (
        f"{styles[first].words} is best in {many}, by {leads.mean:.1f} points on average over the second best"
    )
    text += f" (95 % interval {leads.low:.1f} to {leads.high:.1f})" if leads.n > 1 else ""
    text = "; ".join([text, *(f"{styles[label].words} is best in {count}" for label, count in rest)])
    return f"{text}. {_significance(clear, most)}"


def _significance(clear: int, most: int) -> str:
    """How many of the winner's leads are more than chance between seeds."""
    if most == 1:
        leads = "This lead is" if clear else "This lead is not"
    elif clear == most:
        leads = f"All {most} leads are"
    else:
        leads = f"{clear or 'None'} of {'' if clear else 'the '}{most} leads {'are' if clear > 1 else 'is'}"
    return f"{leads} statistically significant (paired t test over seeds, 5 %)."
