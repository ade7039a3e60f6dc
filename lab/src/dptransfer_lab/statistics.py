"""Statistics over seeds: means with 95 % intervals, tests of differences, summaries and winners.

Intervals stay where the number can be.
A share (an accuracy, an area under a curve) lies between 0 and 1, and Student's mean ± t·s/√n does not know:
"18.4 % [-50.8, 87.6]". Wilson's idea does: the spread of a share shrinks toward both ends as p(1 − p) does.
So the interval holds every p with (m − p)² ≤ (t²/n)·φ·p(1 − p), where φ = s²/(m(1 − m)) is the spread that
was seen and t is Student's. In the middle it is Student's interval, at the ends it is not symmetric, and it
never leaves 0 to 1. Cutting Student's interval would look alike and promise too much: over three or five
seeds whose accuracies have a Beta distribution around 5 %, it holds the truth in 88 % of cases, this one in
93 to 94 %.

The interval covers what changes with the seed, and not the choice of the data set or of its test rows. With
one seed there is none.

Cells of one seed had the same rows, so labels are compared seed by seed (paired t test), each with the best
one; Holm's correction keeps the chance of a single false difference in a setting at or below 5 %. What is not
private does not compete.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from dptransfer_lab.figures.style import Style
from dptransfer_lab.points import each_setting
from dptransfer_lab.results import GROUP, METRICS, SIZES

if TYPE_CHECKING:
    import pandas as pd


LEVEL = 0.95


class Mean(NamedTuple):
    """A mean of `n` numbers and its interval; NaN where there is none."""

    n: int
    mean: float
    low: float
    high: float


def mean_of(values: Iterable[float], *, top: float = 1.0) -> Mean:
    """The mean and its interval, of numbers between 0 and `top`; an infinite `top` cuts Student's at 0.

    >>> [round(number, 3) for number in mean_of([0.5, 0.7, 0.6])]
    [3, 0.6, 0.357, 0.802]
    >>> mean_of([0.5])
    Mean(n=1, mean=0.5, low=nan, high=nan)
    """
    numbers = np.asarray(list(values), dtype=np.float64)
    numbers = numbers[~np.isnan(numbers)]
    if len(numbers) < 2:
        return Mean(len(numbers), float(numbers.mean()) if len(numbers) else math.nan, math.nan, math.nan)
    mean = float(numbers.mean())
    reach = student(len(numbers)) * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    if not reach:  # all numbers are equal
        return Mean(len(numbers), mean, mean, mean)
    if math.isinf(top):
        return Mean(len(numbers), mean, max(0.0, mean - reach), mean + reach)
    share, reach = mean / top, reach / top
    k = reach**2 / (share * (1 - share))
    half = math.sqrt(reach**2 + k**2 / 4)
    low, high = ((share + k / 2 + sign * half) / (1 + k) for sign in (-1, 1))
    return Mean(len(numbers), mean, top * max(0.0, low), top * min(1.0, high))


def interval(values: Iterable[float]) -> tuple[float, float]:
    """The interval of a share alone, as seaborn asks for it."""
    return mean_of(values)[2:]


def positive_interval(values: Iterable[float]) -> tuple[float, float]:
    """The interval of a number that has no upper end."""
    return mean_of(values, top=math.inf)[2:]


def student(count: int) -> float:
    """Student's t of a two-sided interval over so many numbers."""
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, count - 1))


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


def one_per_seed(frame: pd.DataFrame, by: Sequence[str] = GROUP) -> pd.DataFrame:
    """Each group with one cell per seed: the last, where two versions of the library made the same one."""
    return frame.drop_duplicates([*by, "seed"], keep="last")


def summarise(
    frame: pd.DataFrame, metric: str = "balanced_accuracy", *, by: Sequence[str] = GROUP
) -> pd.DataFrame:
    """One row per group of cells, in the order they come.

    Columns: those of `by`; `n`, how many cells have the number; `mean`, with its interval `low` and `high`;
    `median`, `q25` and `q75`; the sizes of a typical cell; and `message`, why a cell is not done. Numbers are
    NaN where a group has none.

    Args:
        frame: cells, as `read_results` gives them.
        metric: a metric or a cost.
        by: the columns that a group shares.
    """
    top = 1.0 if metric in METRICS else math.inf
    return (
        one_per_seed(frame)
        .groupby(list(by), dropna=False, sort=False)
        .agg(
            n=(metric, "count"),
            mean=(metric, "mean"),
            low=(metric, lambda values: mean_of(values, top=top).low),
            high=(metric, lambda values: mean_of(values, top=top).high),
            median=(metric, "median"),
            q25=(metric, lambda values: values.quantile(0.25)),
            q75=(metric, lambda values: values.quantile(0.75)),
            **{name: (name, "first") for name in SIZES if name not in by},
            message=("message", "first"),
        )
        .reset_index()
    )


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
