import math

import pandas as pd
import pytest
from scipy.stats import ttest_rel

from dptransfer_lab.statistics import holm, paired_chance


def test_the_chance_is_that_of_the_paired_t_test():
    one, other = [0.5, 0.6, 0.72], [0.52, 0.61, 0.75]
    gaps = pd.Series(other) - pd.Series(one)
    assert paired_chance(gaps) == pytest.approx(ttest_rel(other, one).pvalue)


def test_equal_differences_are_certain_and_one_seed_tells_nothing():
    assert paired_chance(pd.Series([0.25, 0.25])) == 0.0
    assert paired_chance(pd.Series([0.0, 0.0, 0.0])) == 1.0
    assert math.isnan(paired_chance(pd.Series([0.2])))


def test_more_tests_ask_for_more():
    assert holm([0.04]) == [True]
    assert holm([0.04, 0.03]) == [False, False]
    assert holm([0.04, 0.02]) == [True, True]
    assert holm([0.04, 0.03], level=0.1) == [True, True]


def test_after_the_first_that_falls_none_stands():
    assert holm([0.01, 0.03, 0.031, 0.5]) == [True, False, False, False]


def test_what_was_not_tested_neither_stands_nor_counts():
    assert holm([math.nan, 0.04]) == [False, True]
    assert holm([]) == []
