import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss, roc_auc_score

from dptransfer.accounting import true_positive_rate
from dptransfer.audit.membership import (
    UnitRows,
    WithoutModel,
    area_interval,
    membership_attack,
    model_free_areas,
    row_losses,
    smaller_share,
)
from dptransfer.errors import ArgumentError, DataError
from dptransfer.privacy import Unit

from .models import MU_ONE, linear_model

WEIGHTS = np.array([[4.0, 0.0], [-4.0, 1.0], [0.0, 2.0]])
MODEL = linear_model(WEIGHTS)


def some(count, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    return rng.normal(size=(count, 2)) + shift * WEIGHTS[y], y


def test_the_loss_is_minus_the_logarithm_of_the_probability():
    x, y = some(50, 0)
    own = MODEL.predict_proba(x)[np.arange(50), y]
    assert row_losses(MODEL, x, y) == pytest.approx(-np.log(own))
    assert row_losses(MODEL, x, y).mean() == pytest.approx(
        log_loss(y, MODEL.predict_proba(x), labels=[0, 1, 2])
    )


def test_losses_too_small_or_too_large_for_a_probability_are_still_told_apart():
    sure = linear_model([[1.0, 0.0], [-1.0, 0.0]], temperature=0.01)
    x = np.array([[1.0, 0.0], [1.0, 0.5]])
    easy, hard = row_losses(sure, x, [0, 0]), row_losses(sure, x, [1, 1])
    assert sure.predict_proba(x)[0, 0] == sure.predict_proba(x)[1, 0] == 1.0
    assert 0 < easy[0] < easy[1] < 1e-70
    assert hard[0] > hard[1] > 170


def test_the_area_is_that_of_scikit_learn_and_ties_count_half():
    rng = np.random.default_rng(3)
    inside, outside = rng.integers(0, 9, 80) / 1.0, rng.integers(2, 12, 60) / 1.0
    truth = np.repeat([1, 0], [80, 60])
    assert smaller_share(inside, outside) == pytest.approx(roc_auc_score(truth, -np.append(inside, outside)))
    assert smaller_share(inside, inside) == 0.5
    assert smaller_share(np.zeros(3), np.ones(4)) == 1.0


def test_a_model_that_has_seen_nothing_cannot_be_attacked_and_one_that_fits_its_members_can():
    fresh = membership_attack(MODEL, some(900, 1), some(600, 2))
    assert fresh.interval[0] <= 0.5 <= fresh.interval[1]
    assert fresh.within_ceiling
    fitted = membership_attack(MODEL, some(900, 1, shift=2.0), some(600, 2))
    assert fitted.auc > 0.8
    assert not fitted.within_ceiling  # no model of this guarantee can be that easy to attack


def test_the_threshold_keeps_the_false_positive_rate():
    inside, outside = some(500, 4, shift=0.3), some(1999, 5)
    found = membership_attack(MODEL, inside, outside)
    own, other = np.sort(row_losses(MODEL, *inside)), np.sort(row_losses(MODEL, *outside))
    assert found.confidence == pytest.approx(1 - 0.05 / 4)  # the area and three rates
    for point, allowed in zip(found.points, (1, 19, 199), strict=True):
        hits = int((own < other[allowed]).sum())
        assert (other < other[allowed]).sum() <= point.false_positive_rate * 1999
        assert point.true_positive_rate == hits / 500
        exact = stats.binomtest(hits, 500).proportion_ci(found.confidence, method="exact")
        assert point.interval == pytest.approx((exact.low, exact.high))
        exact = stats.binomtest(allowed, 1999).proportion_ci(found.confidence, method="exact")
        assert point.false_positive_limit == pytest.approx(exact.high)
        assert point.ceiling_at_limit == true_positive_rate([MU_ONE], point.false_positive_limit)
    rates = [point.true_positive_rate for point in found.points]
    assert rates == sorted(rates)
    assert rates[-1] > 0.1


def test_the_verdict_looks_at_every_line_and_at_the_upper_end_of_false_alarms():
    found = membership_attack(MODEL, some(300, 1), some(200, 2))
    assert "Nothing here" in found.verdict
    point = found.points[-1]
    edge = replace(point, interval=(point.ceiling_at_limit, 1.0))
    assert replace(found, points=(edge,)).within_ceiling  # though above the ceiling at the rate aimed at
    assert edge.interval[0] > point.ceiling
    above = replace(point, interval=(np.nextafter(point.ceiling_at_limit, 1), 1.0))
    assert not replace(found, points=(above,)).within_ceiling
    assert "did better" in replace(found, points=(above,)).verdict
    assert replace(found, interval=(found.auc_ceiling, 1.0)).within_ceiling
    assert not replace(found, interval=(np.nextafter(found.auc_ceiling, 1), 1.0)).within_ceiling


def test_an_attack_as_good_as_the_ceiling_is_hardly_ever_taken_for_a_contradiction():
    """Members one deviation apart from the others, as the guarantee of μ = 1 just allows: 5 % at most."""
    rng, alarms, trials = np.random.default_rng(7), 0, 200
    identity = linear_model([[1.0], [-1.0]])
    for _ in range(trials):
        # The loss falls with the one feature; the class of every row is the first.
        inside, outside = rng.normal(1, 1, (80, 1)), rng.normal(0, 1, (150, 1))
        found = membership_attack(identity, (inside, [0] * 80), (outside, [0] * 150), check_sets=False)
        alarms += not found.within_ceiling
    assert stats.binom.sf(alarms - 1, trials, 0.05) > 1e-6


@pytest.mark.parametrize(("shift", "spread"), [(0.0, 1.0), (0.5, 1.0), (1.5, 1.0), (0.3, 1.5)])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(shift, spread):
    rng = np.random.default_rng(11)
    truth = float(stats.norm.cdf(shift / np.hypot(1, spread)))
    trials, covered = 1500, 0
    for _ in range(trials):
        low, high = area_interval(smaller_share(rng.normal(0, 1, 60), rng.normal(shift, spread, 90)), 60, 90)
        covered += low <= truth <= high
    # 92 to 98 %, give or take what 1500 trials scatter at a false-alarm rate of 1e-6.
    assert stats.binom.sf(covered - 1, trials, 0.98) > 1e-6
    assert stats.binom.cdf(covered, trials, 0.92) > 1e-6


def test_the_result_is_json_and_says_that_it_is_not_protected():
    found = membership_attack(MODEL, some(30, 1), some(200, 2))
    read = json.loads(json.dumps(found.to_dict()))
    assert read["auc"] == found.auc
    assert read["points"][0]["ceiling"] == found.points[0].ceiling
    assert read["verdict"] == found.verdict
    assert read["without_model"]["interval"] == list(found.without_model.interval)
    assert read["fair"] is True
    assert read["guarantee"] == found.guarantee.to_dict()
    assert "not cover" in found.statement


def test_sets_that_cannot_be_attacked_are_refused():
    x, y = some(5, 0)
    with pytest.raises(DataError, match="one member"):
        membership_attack(MODEL, (x[:0], y[:0]), (x, y))
    with pytest.raises(DataError, match="class for each"):
        membership_attack(MODEL, (x, y), (x, y[:4]))
    with pytest.raises(ArgumentError, match="strictly between"):
        membership_attack(MODEL, (x, y), (x, y), false_positive_rates=(0.0,))


OF_PERSONS = linear_model(WEIGHTS, [replace(MU_ONE, unit=Unit.PERSON)], unit=Unit.PERSON)


def test_persons_are_told_apart_by_the_mean_loss_of_their_rows():
    (x, y), others = some(60, 1), some(40, 2)
    people = np.arange(60) % 9
    found = membership_attack(OF_PERSONS, (x, y, people), (*others, ["only one"] * 40))
    losses = row_losses(OF_PERSONS, x, y)
    means = [losses[people == person].mean() for person in range(9)]
    assert (found.members, found.others) == (9, 1)
    assert found.auc == smaller_share(np.array(means), row_losses(OF_PERSONS, *others).mean(keepdims=True))
    assert found.guarantee.unit is Unit.PERSON
    assert "9 members" in found.verdict


def test_a_guarantee_for_rows_is_attacked_by_rows_whoever_has_them():
    """It allows more about somebody with forty rows than about one row, so persons are not compared to it."""
    inside, outside = some(60, 1), some(40, 2)
    by_row = membership_attack(MODEL, inside, outside)
    assert membership_attack(MODEL, (*inside, np.zeros(60)), (*outside, np.zeros(40))) == by_row


APART = WithoutModel(0.7, (0.6, 0.8))
ALIKE = WithoutModel(0.5, (0.4, 0.6))


@pytest.mark.parametrize(
    ("area", "ceiling", "apart", "fair", "contradicts"),
    [
        ((0.45, 0.56), 0.6, ALIKE, True, False),
        ((0.45, 0.56), 0.6, None, True, False),
        ((0.61, 0.9), 0.6, ALIKE, True, True),
        ((0.61, 0.9), 0.6, None, True, True),
        ((0.61, 0.9), 0.6, APART, False, False),  # the sets differ as much by themselves
        ((0.8, 0.9), 0.6, APART, False, False),
        ((0.81, 0.9), 0.6, APART, False, True),  # the sets do not differ that much
        ((0.45, 0.56), 0.6, APART, False, False),
        ((0.3, 0.4999), 0.6, ALIKE, False, False),  # members are harder than others: no training does that
        ((0.3, 0.5), 0.6, ALIKE, True, False),
        ((0.3, 0.4), 0.6, None, False, False),
    ],
)
def test_an_unfair_comparison_says_nothing_but_never_hides_more_than_it_explains(
    area, ceiling, apart, fair, contradicts
):
    found = membership_attack(MODEL, some(30, 1), some(200, 2), false_positive_rates=())
    found = replace(found, auc=sum(area) / 2, interval=area, auc_ceiling=ceiling, without_model=apart)
    assert (found.fair, found.contradicts_guarantee) == (fair, contradicts)
    assert ("did better" in found.verdict) == contradicts
    assert ("Unfair comparison" in found.verdict) == (not fair and not contradicts)
    assert ("Nothing here" in found.verdict) == (fair and not contradicts)


def test_people_and_not_rows_are_compared_where_people_are_protected():
    inside, others = some(600, 1), some(300, 2)
    people = np.arange(600) % 6  # six of them: too few to say
    assert membership_attack(OF_PERSONS, (*inside, people), others).without_model is None
    assert membership_attack(MODEL, (*inside, people), others).without_model is not None


def draw(rng, count, *, shift=0.0, spread=1.0, shares=(0.4, 0.4, 0.2), turned=False, width=12):
    y = rng.choice(3, count, p=shares)
    x = 2 * np.eye(3, width)[y] + rng.normal(size=(count, width)) * np.r_[1.0, spread, np.ones(width - 2)]
    x[:, -1] += shift
    return x + 3.0, (y + turned) % 3  # away from zero, so that unit norms keep what is there


def given(x, y, units=None):
    return UnitRows(x, y, np.arange(len(y)) if units is None else units)


def mean_area(members, others):
    return np.mean([smaller_share(*fold) for fold in model_free_areas(members, others)])


OF_TWELVE = linear_model(np.eye(3, 12))


def compared(members, others):
    return membership_attack(OF_TWELVE, members, others).without_model


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


def test_rows_that_are_not_finite_or_all_zero_do_no_harm():
    rng = np.random.default_rng(12)
    (x, y), others = draw(rng, 80), draw(rng, 80)
    x[:3] = [[np.nan], [np.inf], [0.0]]
    x[3] = 1e300
    assert not compared((x, y), others).differs
    constant = np.ones((40, 3)), np.zeros(40, np.int64)
    assert mean_area(given(*constant), given(*constant)) == 0.5
