import math

import numpy as np
import pytest
from scipy.stats import t

from dptransfer_lab.statistics import interval, mean_of, positive_interval


def student(values):
    reach = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    return np.mean(values) - reach, np.mean(values) + reach


def test_in_the_middle_and_with_little_spread_it_is_students_interval():
    values = [0.501, 0.499, 0.502, 0.498, 0.5]
    assert mean_of(values)[2:] == pytest.approx(student(values), abs=1e-5)


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


@pytest.mark.parametrize(("seeds", "worst"), [(3, 0.925), (5, 0.92)])
def test_near_the_ends_it_holds_the_truth_more_often_than_students(seeds, worst):
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
    assert mean_of([0.0, 0.0], top=0.0) == (2, 0.0, 0.0, 0.0)  # losses where nothing was promised


def test_a_cost_has_no_upper_end():
    assert positive_interval([1.0, 9.0]) == (0.0, pytest.approx(student([1.0, 9.0])[1]))
