import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t, ttest_rel

from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.results import frame_of
from dptransfer_lab.statistics import (
    holm,
    interval,
    mean_of,
    one_per_seed,
    paired_chance,
    positive_interval,
    summarise,
    who_won,
    winner_of,
)

from .synthetic import cells, record


def student(values):
    reach = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    return np.mean(values) - reach, np.mean(values) + reach


@pytest.mark.parametrize("values", [(0.0, 0.4), (0.99, 1.0, 0.7), (0.0, 0.0, 1.0), (0.02, 0.3, 0.01)])
def test_it_never_leaves_what_a_share_can_be_and_holds_the_mean(values):
    low, high = student(values)
    assert low < 0 or high > 1  # Student's would
    found = mean_of(values)
    assert 0 <= found.low < found.mean < found.high <= 1
    wider = mean_of([3 * value for value in values], top=3.0)
    assert wider[1:] == pytest.approx([3 * number for number in found[1:]])


def test_the_ends_solve_wilsons_equation():
    values = [0.1, 0.3, 0.15, 0.05]
    found = mean_of(values)
    spread = np.var(values, ddof=1) / (found.mean * (1 - found.mean))
    for p in (found.low, found.high):
        allowed = t.ppf(0.975, 3) ** 2 / 4 * spread * p * (1 - p)
        assert (found.mean - p) ** 2 == pytest.approx(allowed)


def test_near_the_ends_it_holds_the_truth_more_often_than_students():
    seeds, worst = 5, 0.92
    rng = np.random.default_rng(0)
    draws = rng.beta(0.9, 17.1, size=(2000, seeds))  # mean 0.05, deviation 0.05
    hits = np.mean([low <= 0.05 <= high for low, high in map(interval, draws)])
    students = np.mean([low <= 0.05 <= high for low, high in map(student, draws)])
    assert hits > worst
    assert students < hits - 0.02


def test_one_number_has_no_interval_and_none_has_no_mean():
    assert mean_of([0.5, math.nan])[:2] == (1, 0.5)
    assert math.isnan(mean_of([0.5]).low)
    assert mean_of([]).n == 0
    assert math.isnan(mean_of([]).mean)
    assert mean_of([0.0, 0.0, 0.0]) == (3, 0.0, 0.0, 0.0)
    assert mean_of([1.0, 1.0]) == (2, 1.0, 1.0, 1.0)
    assert positive_interval([1.0, 9.0]) == (0.0, pytest.approx(student([1.0, 9.0])[1]))  # a cost has no end
    assert mean_of([0.0, 0.0], top=0.0) == (2, 0.0, 0.0, 0.0)  # losses where nothing was promised


def test_the_chance_is_that_of_the_paired_t_test():
    one, other = [0.5, 0.6, 0.72], [0.52, 0.61, 0.75]
    gaps = pd.Series(other) - pd.Series(one)
    assert paired_chance(gaps) == pytest.approx(ttest_rel(other, one).pvalue)


@pytest.mark.parametrize(
    ("chances", "stand"),
    [
        ([0.04], [True]),
        ([0.04, 0.03], [False, False]),
        ([0.04, 0.02], [True, True]),
        ([0.01, 0.03, 0.031, 0.5], [True, False, False, False]),  # after the first that falls none stands
        ([math.nan, 0.04], [False, True]),  # what was not tested neither stands nor counts
        ([], []),
    ],
)
def test_more_tests_ask_for_more(chances, stand):
    assert holm(chances) == stand
    assert holm([0.04, 0.03], level=0.1) == [True, True]


CUT = {"rows": None, "classes": None, "pool_rows": None, "dimension": None}


def group_of(*accuracies, **more):
    return [record(seed=seed, balanced=value, **more) for seed, value in enumerate(accuracies)]


def rows(records, *given, **more):
    return summarise(frame_of(records), *given, **more).to_dict("records")


def test_a_group_has_its_mean_interval_and_quartiles():
    (row,) = rows(group_of(0.4, 0.5, 0.6, 0.7))
    assert (row["n"], row["mean"], row["low"], row["high"]) == pytest.approx(mean_of([0.4, 0.5, 0.6, 0.7]))
    assert (row["q25"], row["median"], row["q75"]) == pytest.approx((0.475, 0.55, 0.625))
    (row,) = rows([*group_of(0.5, 0.7), record(seed=2, status="refused", message="no pool")])
    assert (row["n"], row["mean"], row["message"]) == (2, pytest.approx(0.6), "no pool")


def test_two_versions_of_one_cell_count_once():
    frame = frame_of([record(balanced=0.1), record(balanced=0.9)])
    assert list(one_per_seed(frame)["balanced_accuracy"]) == [0.9]
    assert list(summarise(frame)["n"]) == [1]


def seeds(method, *values, **more):
    return [record(method, seed=seed, balanced=value, **more) for seed, value in enumerate(values)]


def won(*records):
    return winner_of(cells([one for some in records for one in some]), "balanced_accuracy")


def sentence(records):
    frame = cells(records)
    return who_won(frame, styles_of(frame))


def test_the_winner_has_the_largest_mean_and_its_lead():
    found = won(seeds("mean", 0.5, 0.6), seeds("public", 0.7, 0.7))
    assert (found.label, found.mean, found.lead) == ("public", pytest.approx(0.7), pytest.approx(0.15))
    assert not found.clear  # two seeds leave room for chance
    assert found.level == {"public", "mean"}


def test_seeds_are_compared_one_by_one():
    """What all labels share, such as the rows of a seed, is no noise between them."""
    paired = won(seeds("mean", 0.5, 0.6, 0.7), seeds("public", 0.52, 0.621, 0.719))
    assert paired.clear
    assert paired.level == {"public"}
    crossed = won(seeds("mean", 0.7, 0.6, 0.5), seeds("public", 0.52, 0.621, 0.719))
    assert crossed.level == {"public", "mean"}


def test_what_is_not_private_does_not_compete():
    found = won(seeds("mean", 0.5), seeds("as-published-mean", 0.9))
    assert found.label == "mean"
    assert math.isnan(found.lead)
    assert won(seeds("as-published-mean", 0.9)) is None


def test_one_sentence_says_who_won_where_and_by_how_much():
    shifts = {0.1: 0.02, 0.5: 0.03, 1.0: 0.04, 4.0: -0.01}  # by how much 'public' is ahead
    records = [
        record(method, epsilon=epsilon, seed=seed, balanced=0.5 + 0.01 * seed + shift * (method == "public"))
        for method in ("mean", "public")
        for epsilon, shift in shifts.items()
        for seed in range(3)
    ]
    said = sentence(records)
    for part in ("public is best", "3 of 4", "3.0 points", "0.5 to 5.5", "best in 1", "All 3 leads"):
        assert part in said
