from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import rows, steady
from dptransfer.errors import ArgumentError
from dptransfer.exact.evaluation_layout import (
    CHANCE_EDGES,
    CONFIDENCE_KNOTS,
    MOST_CONFUSED,
    TEMPERATURES,
    EvaluationLayout,
    chance_slack,
)
from dptransfer.exact.feature_map import UnitNorm, apply
from dptransfer.exact.lattice import unit_lattice
from dptransfer.exact.softmax import softmax, softmax_resolution
from dptransfer.methods.private_evaluation import evaluation_query
from dptransfer.privacy import EACH_ROW, Bound, Relation, Unit
from dptransfer.queries import CorrectCount, EvaluationCounts, LikelihoodGain
from dptransfer.queries.evaluation_counts import exact_scores
from dptransfer.release.heads import AverageHead, LinearHead

from .neighbours import CLASSES, MAPS, WIDTH, of_neighbours, reach, stays_within


def query(seed=0, size=1.0, bound=None, directions=False, features="unit norm", **more):
    rng = np.random.default_rng(seed)
    return EvaluationCounts(
        MAPS[features],
        linear=rng.normal(size=(CLASSES, MAPS[features].dimension)) * size,
        offset=np.zeros(CLASSES) if directions else rng.normal(size=CLASSES) * size,
        precision=None if seed % 2 else np.abs(rng.normal(size=(CLASSES, MAPS[features].dimension))) * size,
        temperature=more.pop("temperature", 0.3),
        directions=directions,
        **({} if bound is None else {"bound": Bound(Unit.PERSON, bound)}),
    )


def block(asked, answer, name):
    """One block of an answer as counts."""
    own = asked.layout.blocks[name]
    return (answer[own.start : own.stop] / own.weight).reshape(own.shape)


@of_neighbours(seed=st.integers(0, 9), size=st.sampled_from([0.0, 1e-9, 1.0, 1e6, 1e300]))
def test_one_example_moves_the_answer_by_no_more_than_it_says(data, first, second, seed, size):
    assert stays_within(query(seed, size), data, first, second)


def sure_query(bound=None):
    """One that is sure of the class of rows along the first axis."""
    linear = np.zeros((CLASSES, WIDTH))
    linear[0, 0], linear[1, 0] = 1.0, -1.0
    kind = {} if bound is None else {"bound": Bound(Unit.PERSON, bound)}
    return EvaluationCounts(MAPS["unit norm"], linear, np.zeros(CLASSES), temperature=1e-4, **kind)


def test_the_sensitivity_is_reached_under_either_relation():
    linear = np.zeros((5, WIDTH))
    linear[1, 0] = 1.0
    asked = EvaluationCounts(MAPS["unit norm"], linear, np.zeros(5), temperature=1e-4)
    sure, unsure = ([1.0, 0.0, 0.0], 1), ([0.0, 0.0, 0.0], 2)
    assert 0.999 < reach(asked, sure, unsure, Relation.ADD_REMOVE) <= 1
    assert 0.99 < reach(asked, sure, unsure, Relation.REPLACE_ONE) <= 1


@pytest.mark.parametrize("bound", [0.5, 1.0, 3.0])
def test_a_person_with_forty_rows_reaches_the_bound_and_rows_bounded_singly_would_pass_it(bound):
    asked = sure_query(bound)
    x, y = np.tile([1e308, 0.0, 0.0], (40, 1)), np.zeros(40, dtype=np.int64)
    own = asked(x, y, np.zeros(40, dtype=np.int64)).astype(float)
    assert 0.999 < np.linalg.norm(own) / (bound * asked.grid) <= 1
    assert np.linalg.norm(asked.of_rows(x, y).astype(float)) > 10 * bound * asked.grid


def test_blocks_hold_what_plain_arithmetic_counts():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(400, WIDTH)), rng.integers(0, CLASSES, 400)
    asked = query(3)
    scores = (apply(asked.features, x) @ asked.linear.T + asked.offset) / asked.temperature
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chosen, sure = chances.argmax(axis=1), chances.max(axis=1)
    right = chosen == y
    true = np.where(right, 1.0, chances[np.arange(400), y])
    answer = asked(x, y)
    assert block(asked, answer, "answers").tolist() == [right.sum(), 400 - right.sum()]
    for c in range(CLASSES):
        assert block(asked, answer, "by_class")[c, 0] == right[y == c].sum()
        assert block(asked, answer, "by_prediction")[c].sum() == (chosen == c).sum()
    confusion = np.bincount(CLASSES * y + chosen, minlength=CLASSES**2).reshape(CLASSES, CLASSES)
    assert (block(asked, answer, "confusion") == confusion).all()
    reliability = block(asked, answer, "reliability")
    assert np.isclose(reliability[:, 0] @ CONFIDENCE_KNOTS, sure[right].sum(), rtol=1e-3)
    assert np.isclose(reliability[:, 1].sum(), 400 - right.sum())
    confidences = block(asked, answer, "confidences")
    assert np.isclose(confidences[TEMPERATURES.index(1.0)], sure.sum(), rtol=1e-3)
    assert (np.diff(confidences) < 0).all()
    below = np.cumsum(block(asked, answer, "chances"))[:-1]
    for edge, count in zip(CHANCE_EDGES, below, strict=True):
        slack = chance_slack(CLASSES)
        assert (true < edge * (1 - slack)).sum() <= count <= (true < edge * (1 + slack)).sum()


def test_heads_that_take_cosines_score_short_rows_by_their_direction():
    asked = query(1, features="pooled", directions=True)
    x, y = np.random.default_rng(2).normal(size=(50, WIDTH)), np.zeros(50, dtype=np.int64)
    mapped = apply(asked.features, x)
    unit = mapped / np.linalg.norm(mapped, axis=1, keepdims=True)
    scores = unit @ asked.linear.T / asked.temperature
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    found = block(asked, asked(x, y), "confidences")[TEMPERATURES.index(1.0)]
    assert np.isclose(found, chances.max(axis=1).sum(), rtol=1e-3)


def test_weights_leave_room_for_no_more_than_one_example_and_use_all_of_it():
    for classes in (2, 10, MOST_CONFUSED, MOST_CONFUSED + 1, 1000):
        layout = EvaluationLayout(classes)
        ones = {"confidences": len(TEMPERATURES)}
        squares = sum(own.weight**2 * ones.get(name, 1) for name, own in layout.blocks.items())
        assert 1 - 1e-8 < squares / EvaluationCounts.grid**2 <= 1
        assert ("confusion" in layout.blocks) is (classes <= MOST_CONFUSED)
        stops = [own.stop for own in layout.blocks.values()]
        assert [own.start for own in layout.blocks.values()] == [0, *stops[:-1]]
        assert layout.size == stops[-1]


@pytest.mark.parametrize("size", [1e-305, 1e150, 1e307])
def test_classifiers_of_any_finite_size_are_counted_and_others_refused(size):
    rng, unit = np.random.default_rng(0), UnitNorm().fit(4, None)
    linear, precision = rng.normal(size=(3, 4)), np.abs(rng.normal(size=(3, 4)))
    x, y, zero = rng.normal(size=(50, 4)), rng.integers(0, 3, 50), np.zeros(3)
    asked = EvaluationCounts(unit, linear * size, zero)
    assert block(asked, asked(x, y), "answers").sum() == pytest.approx(50)
    plain = CorrectCount(unit, linear, zero, precision)(x, y)
    assert (CorrectCount(unit, linear * size, zero, precision * size)(x, y) == plain).all()
    CorrectCount(unit, linear, zero, precision * size)(x, y)
    for kind in (EvaluationCounts, CorrectCount):
        with pytest.raises(ArgumentError, match="finite"):
            kind(unit, linear, np.full(3, np.nan))(x[:0], y[:0])


@steady
@given(x=rows(WIDTH, most=6), seed=st.integers(0, 9))
def test_rows_of_any_kind_are_counted_once_in_every_block(x, seed):
    asked = query(seed)
    answer = asked(x, np.zeros(len(x), dtype=np.int64))
    for name in ("answers", "by_class", "by_prediction", "confusion", "chances", "reliability"):
        assert block(asked, answer, name).sum() == pytest.approx(len(x), abs=1e-6)


@pytest.mark.parametrize("classes", [10, 1000, 20000])
def test_probabilities_of_very_many_classes_are_as_near_to_exact_ones_as_is_said(classes):
    """Those that are all but half a step of the table are rounded to nothing, and together are something."""
    depth = np.full((classes, 1), -np.log(0.45 * softmax_resolution(classes)))
    depth[:2, 0] = 0.0, np.log(100)
    exact = np.exp(-depth)
    off = abs(softmax(depth)[1, 0] / (exact[1, 0] / exact.sum()) - 1)
    assert off <= chance_slack(classes)
    assert (off > chance_slack(10)) == (classes == 20000)


def test_a_replaced_example_moves_almost_as_far_as_it_says_with_many_classes():
    """Sure and right against as unsure as can be and wrong: every block moves as far as it can."""
    count = 5000
    linear = np.zeros((count, WIDTH))
    linear[0, 0] = 1e6
    asked = EvaluationCounts(MAPS["unit norm"], linear, np.zeros(count))
    axis = np.eye(WIDTH)
    sure, unsure = (asked(axis[[place]], np.array([place])) for place in (0, 1))
    moved = float(np.square((sure - unsure) / asked.grid).sum())
    assert moved <= asked.l2_sensitivity(Relation.REPLACE_ONE) ** 2
    assert moved >= asked.l2_sensitivity(Relation.REPLACE_ONE) ** 2 * (1 - 1e-3)


# How many are right


def correct_count(seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    return CorrectCount(
        MAPS["unit norm"],
        linear=rng.normal(size=(CLASSES, WIDTH)) * size,
        offset=rng.normal(size=CLASSES) * size,
        precision=np.abs(rng.normal(size=(CLASSES, WIDTH))) * size,
    )


@of_neighbours(seed=st.integers(0, 9), size=st.sampled_from([0.0, 1e-9, 1.0, 1e6]))
def test_one_example_moves_the_count_by_one_at_most(data, first, second, seed, size):
    assert stays_within(correct_count(seed, size), data, first, second)


def east_or_west():
    linear = np.zeros((CLASSES, WIDTH))
    linear[0, 0], linear[1, 0] = 1.0, -1.0
    return CorrectCount(MAPS["unit norm"], linear, np.zeros(CLASSES))


def test_a_count_reaches_its_sensitivity_under_either_relation():
    right, wrong = ([1.0, 0.0, 0.0], 0), ([1.0, 0.0, 0.0], 1)
    assert reach(east_or_west(), right, wrong, Relation.ADD_REMOVE) == 1
    assert reach(east_or_west(), right, wrong, Relation.REPLACE_ONE) == 1


def test_it_counts_what_plain_arithmetic_counts():
    rng = np.random.default_rng(4)
    asked, x, y = correct_count(3), rng.normal(size=(300, WIDTH)), rng.integers(0, CLASSES, 300)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    scores = asked.offset + unit @ asked.linear.T - 0.5 * (unit * unit) @ asked.precision.T
    assert asked(x, y) == int((scores.argmax(axis=1) == y).sum()) * asked.grid


def test_scores_that_differ_in_the_ninth_digit_are_told_apart():
    linear = np.zeros((CLASSES, WIDTH))
    linear[:2, 0] = 1.0, 1.0 + 1e-7
    asked = CorrectCount(MAPS["unit norm"], linear, np.zeros(CLASSES))
    x = np.array([[1.0, 0.0, 0.0]])
    assert asked(x, np.array([1])) == asked.grid
    assert asked(x, np.array([0])) == 0


# Scores, beside a prior too

NORM = 2**16
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(400, 6))
UNIT = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
OWN, PRIOR = RNG.normal(size=(2, 4, 6)) * 3


def head(prior):
    return SimpleNamespace(linear=OWN, offset=np.zeros(4), precision=None, prior=prior)


@pytest.mark.parametrize("prior", [None, PRIOR])
def test_scores_in_their_unit_are_those_of_the_released_head_up_to_what_classes_share(prior):
    scored, unit = exact_scores(head(prior), NORM, 2.0**32)
    found = scored(unit_lattice(ROWS, NORM).astype(np.float64)).T * unit
    zero = np.zeros(4)
    released = LinearHead(OWN, zero) if prior is None else AverageHead(OWN, zero, prior)
    wanted = released.scores(UNIT)
    assert np.abs((found - found[:, :1]) - (wanted - wanted[:, :1])).max() < 2e-3
    assert (found.argmax(axis=1) == wanted.argmax(axis=1)).mean() > 0.99


def test_counts_and_histograms_are_of_the_mean_and_not_of_one_head():
    labels = AverageHead(OWN, np.zeros(4), PRIOR).scores(UNIT).argmax(axis=1)
    features = UnitNorm().fit(6, None)
    both = CorrectCount(features, OWN, np.zeros(4), prior=PRIOR)
    alone = CorrectCount(features, OWN, np.zeros(4))
    assert both(ROWS, labels)[0] / both.grid >= 0.99 * len(ROWS)
    assert alone(ROWS, labels)[0] / alone.grid < 0.9 * len(ROWS)
    asked = evaluation_query(AverageHead(OWN, np.zeros(4), PRIOR), features, EACH_ROW)
    answers = asked.layout.blocks["answers"]
    right = asked(ROWS, labels)[answers.start] / answers.weight
    assert right >= 0.99 * len(ROWS)


SURE = LikelihoodGain(MAPS["unit norm"], 50 * np.eye(CLASSES, WIDTH))


@of_neighbours(size=st.sampled_from([0.0, 1e-9, 3.0, 50.0, 1e30]))
def test_one_example_moves_the_number_by_no_more_than_it_says(data, first, second, size):
    assert stays_within(LikelihoodGain(MAPS["unit norm"], size * np.eye(CLASSES, WIDTH)), data, first, second)


def test_a_row_that_the_head_is_sure_of_and_one_it_is_wrong_about_reach_the_sensitivity():
    right, wrong = ([1.0, 0.0, 0.0], 0), ([1.0, 0.0, 0.0], 1)
    assert 0.99 < reach(SURE, right, wrong, Relation.ADD_REMOVE) <= 1
    assert 0.99 < reach(SURE, right, wrong, Relation.REPLACE_ONE) <= 1


@pytest.mark.parametrize("bound", [0.5, 1.0, 3.0])
def test_a_gain_of_a_person_with_forty_rows_reaches_the_bound(bound):
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
