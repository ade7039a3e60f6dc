"""Whether two sets differ without a model: fair draws are hardly ever called different, others are."""

import numpy as np
import pytest

from dptransfer.audit import membership as set_difference
from dptransfer.audit.membership import (
    UnitRows,
    WithoutModel,
    membership_attack,
    model_free_areas,
    smaller_share,
)

from .models import linear_model


def draw(rng, count, *, shift=0.0, spread=1.0, shares=(0.4, 0.4, 0.2), turned=False, width=12):
    y = rng.choice(3, count, p=shares)
    x = 2 * np.eye(3, width)[y] + rng.normal(size=(count, width)) * np.r_[1.0, spread, np.ones(width - 2)]
    x[:, -1] += shift
    return x + 3.0, (y + turned) % 3  # away from zero, so that unit norms keep what is there


def given(x, y, units=None):
    return UnitRows(x, y, np.arange(len(y)) if units is None else units)


def mean_area(members, others):
    return np.mean([smaller_share(*fold) for fold in model_free_areas(members, others)])


MODEL = linear_model(np.eye(3, 12))


def compared(members, others):
    return membership_attack(MODEL, members, others).without_model


@pytest.mark.parametrize("sizes", [(60, 60), (400, 40)])
def test_two_draws_of_one_distribution_are_hardly_ever_called_different(sizes):
    rng, alarms = np.random.default_rng(5), 0
    for _ in range(60):
        alarms += compared(draw(rng, sizes[0]), draw(rng, sizes[1])).differs
    assert alarms <= 5  # one in a hundred is meant; six or more of sixty have a chance of 2e-5


@pytest.mark.parametrize(
    "how",
    [
        {"shift": 1.0},
        {"spread": 3.0},
        {"shares": (0.1, 0.2, 0.7)},
        {"turned": True},  # neither rows nor classes differ, but which rows have which class
    ],
)
@pytest.mark.parametrize("sizes", [(400, 400), (500, 150)])
def test_sets_that_differ_are_told_apart(how, sizes):
    rng = np.random.default_rng(6)
    members, others = draw(rng, sizes[0]), draw(rng, sizes[1], **how)
    assert compared(members, others).differs
    assert compared(others, members).differs
    assert compared(members, others).auc > 0.5


def test_the_same_rows_in_both_sets_are_noticed():
    """Then a row of one half is another set's in the other: the classifier is worse than chance."""
    rows = draw(np.random.default_rng(7), 300)
    assert compared(rows, rows).interval[1] < 0.5


def test_neither_half_is_scored_by_what_it_was_trained_on():
    """Labels of pure noise in many dimensions: whoever scores its own training rows finds all of them."""
    rng = np.random.default_rng(8)
    areas = [mean_area(given(*draw(rng, 40, width=300)), given(*draw(rng, 40, width=300))) for _ in range(30)]
    assert abs(np.mean(areas) - 0.5) < 0.05


def test_people_are_halved_and_scored_as_a_whole():
    """People who all have a place of their own: halved by row, their other rows would tell whose each is."""
    rng, areas = np.random.default_rng(9), []
    for _ in range(15):
        sets = []
        for _ in range(2):
            places, whose = 4 * rng.normal(size=(20, 12)), np.repeat(np.arange(20), 10)
            rows = places[whose] + 0.1 * rng.normal(size=(200, 12))
            sets.append(given(rows, np.zeros(200, np.int64), whose))
        inside, outside = model_free_areas(*sets)[0]
        assert (len(inside), len(outside)) == (10, 10)
        areas.append(mean_area(*sets))
    assert abs(np.mean(areas) - 0.5) < 0.12


def test_sets_of_fewer_than_eight_say_nothing():
    rng = np.random.default_rng(10)
    assert model_free_areas(given(*draw(rng, 7)), given(*draw(rng, 90))) == ()
    assert len(model_free_areas(given(*draw(rng, 8)), given(*draw(rng, 90)))) == 2
    assert compared(draw(rng, 90), draw(rng, 7)) is None


def test_of_large_sets_a_part_is_taken(monkeypatch):
    monkeypatch.setattr(set_difference, "_MOST_ROWS", 30)
    rng = np.random.default_rng(11)
    folds = model_free_areas(given(*draw(rng, 500)), given(*draw(rng, 40)))
    assert [(len(inside), len(outside)) for inside, outside in folds] == [(30, 20), (30, 20)]


def test_rows_that_are_not_finite_or_all_zero_do_no_harm():
    rng = np.random.default_rng(12)
    (x, y), others = draw(rng, 80), draw(rng, 80)
    x[:3] = [[np.nan], [np.inf], [0.0]]
    x[3] = 1e300
    assert not compared((x, y), others).differs
    constant = np.ones((40, 3)), np.zeros(40, np.int64)
    assert mean_area(given(*constant), given(*constant)) == 0.5


def test_both_ends_of_the_interval_decide():
    assert not WithoutModel(0.6, (0.5, 0.7)).differs
    assert not WithoutModel(0.4, (0.3, 0.5)).differs
    assert WithoutModel(0.6, (0.5001, 0.7)).differs
    assert WithoutModel(0.4, (0.3, 0.4999)).differs
