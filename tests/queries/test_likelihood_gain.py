"""One number about a public head: what one example can do to it, and that it is the mean gain."""

import numpy as np
import pytest
from hypothesis import strategies as st

from dptransfer.privacy import Bound, Relation, Unit
from dptransfer.queries import LikelihoodGain

from .neighbours import CLASSES, MAPS, WIDTH, of_neighbours, reach, stays_within

SURE = LikelihoodGain(MAPS["unit norm"], 50 * np.eye(CLASSES, WIDTH))


@of_neighbours(size=st.sampled_from([0.0, 1e-9, 3.0, 50.0, 1e30]))
def test_one_example_moves_the_number_by_no_more_than_it_says(data, first, second, size):
    assert stays_within(LikelihoodGain(MAPS["unit norm"], size * np.eye(CLASSES, WIDTH)), data, first, second)


def test_a_row_that_the_head_is_sure_of_and_one_it_is_wrong_about_reach_the_sensitivity():
    right, wrong = ([1.0, 0.0, 0.0], 0), ([1.0, 0.0, 0.0], 1)
    assert 0.99 < reach(SURE, right, wrong, Relation.ADD_REMOVE) <= 1
    assert 0.99 < reach(SURE, right, wrong, Relation.REPLACE_ONE) <= 1


@pytest.mark.parametrize("bound", [0.5, 1.0, 3.0])
def test_a_person_with_forty_rows_reaches_the_bound_and_rows_bounded_singly_would_pass_it(bound):
    asked = LikelihoodGain(SURE.features, SURE.linear, bound=Bound(Unit.PERSON, bound))
    x, y = np.tile([1e308, 0.0, 0.0], (40, 1)), np.zeros(40, dtype=np.int64)
    own = asked(x, y, np.zeros(40, dtype=np.int64))
    assert 0.99 < own[0] / (bound * asked.grid) <= 1
    assert asked.of_rows(x, y)[0] > 10 * bound * asked.grid


@pytest.mark.parametrize("classes", [3, 40])
def test_it_is_the_clipped_sum_of_log_likelihoods_above_those_of_a_blind_guess(classes):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(500, WIDTH)), rng.integers(0, classes, 500)
    head = 4 * rng.normal(size=(classes, WIDTH))
    logits = x / np.linalg.norm(x, axis=1, keepdims=True) @ head.T
    own = logits[np.arange(500), y] - np.log(np.exp(logits).sum(axis=1)) + np.log(classes)
    wanted = np.clip(own / min(np.log(classes), 3.0), -1, 1).sum()
    asked = LikelihoodGain(MAPS["unit norm"], head)
    assert asked(x, y)[0] / asked.grid == pytest.approx(wanted, abs=0.5)


def test_what_a_row_adds_depends_on_no_other_row():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(70, WIDTH)), rng.integers(0, CLASSES, 70)
    assert SURE(x, y)[0] == sum(SURE(x[i : i + 1], y[i : i + 1])[0] for i in range(70))
