import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptransfer.accounting import guarantee_of
from dptransfer.errors import ArgumentError
from dptransfer.exact.evaluation_layout import CONFIDENCE_KNOTS
from dptransfer.privacy import GaussianEvent, Relation, Unit
from dptransfer.privacy.events import DisjointEvent
from dptransfer.release.charged_evaluation import (
    NOTHING,
    ChargedEvaluation,
    Noisy,
    Z,
    calibration_error,
    join_fit_and_check,
    mean_share,
    share,
    without_holdout,
)

from .counts import drawn, evaluation, event, noisy, truth
from .models import NOISE, make_model


def test_figures_are_those_of_the_counts():
    found = evaluation(size=20000, accuracy=0.8)
    assert found.accuracy.low < 0.8 < found.accuracy.high
    assert found.balanced_accuracy.low < 0.8 < found.balanced_accuracy.high
    assert [one.low < real < one.high for one, real in zip(found.recall, (0.65, 0.8, 0.95), strict=True)]
    assert all(one.value is not None for one in found.precision)
    assert abs(found.size.count - 20000) < 5 * found.size.variance**0.5
    told = found.figures()
    assert told["accuracy"]["value"] == found.accuracy.value
    assert [one["class"] for one in told["by_class"]] == ["cat", "dog", "eel"]
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def _at(told, **changes):
    return str(replace(told.guarantee, **changes))


@pytest.mark.parametrize("holdout", [None, 0.2])
def test_it_is_read_as_it_was_written_and_nothing_else_is(holdout):
    found = evaluation(holdout=holdout, created="2026", ledger_head="ab")
    told = json.loads(json.dumps(found.to_dict()))
    again = ChargedEvaluation.from_dict(told)
    assert again.to_dict() == told
    assert again.figures() == found.figures()
    for change in (
        {"holdout": 1.5},
        {"seeded": 0},
        {"events": []},
        {"classes": ["cat", "dog"]},
        {"counts": {}},
        {"guarantee": {**told["guarantee"], "relation": "replace-one"}},
        {"guarantee": {**told["guarantee"], "rho": "x"}},
        {"guarantee": {**told["guarantee"], "delta": False, "sentence": _at(found, delta=False)}},
        {"guarantee": {**told["guarantee"], "epsilon": 1, "sentence": _at(found, epsilon=1)}},
        {"more": 1},
    ):
        with pytest.raises(ArgumentError, match="exactly the fields"):
            ChargedEvaluation.from_dict({**told, **change})


def test_parts_of_different_evaluations_are_refused():
    found = evaluation()
    with pytest.raises(ArgumentError, match="one unit"):
        replace(found, guarantee=replace(found.guarantee, unit=Unit.PERSON))
    with pytest.raises(ArgumentError, match="list of classes"):
        replace(found, classes=("a", "b"))


def test_a_fit_and_its_check_are_parts_under_either_relation():
    check = event(3)
    (both,) = join_fit_and_check((NOISE,), (check,), 0.2)
    assert isinstance(both, DisjointEvent)
    assert both.parts == ((NOISE,), (check,))
    assert guarantee_of((both,), 1e-5).epsilon == guarantee_of((NOISE,), 1e-5).epsilon
    replaced = GaussianEvent(4.0, Relation.REPLACE_ONE), GaussianEvent(9.0, Relation.REPLACE_ONE)
    (both,) = join_fit_and_check(replaced[:1], replaced[1:], 0.2)
    assert both.parts == (replaced[:1], replaced[1:])


def held_out(events):
    found = evaluation(holdout=0.2)
    whole = join_fit_and_check(events, found.events, 0.2)
    return replace(make_model(events=whole), charged=found)


def test_a_model_is_taken_apart_into_its_fit_and_its_check():
    model = held_out((NOISE,))
    own = without_holdout(model)
    assert own.events == (NOISE,)
    assert own.guarantee == make_model().guarantee
    assert without_holdout(own) is own


def test_a_check_that_is_not_among_the_steps_is_noticed():
    model = held_out((NOISE,))
    with pytest.raises(ArgumentError, match="hold-out"):
        without_holdout(replace(model, events=(NOISE,)))
    with pytest.raises(ArgumentError, match="hold-out"):
        without_holdout(replace(model, charged=replace(model.charged, holdout=0.3)))


def test_pooled_counts_are_those_that_were_counted():
    confusion, reliability = drawn(5000, *truth(4, 0.7), np.random.default_rng(1))
    counts = noisy(confusion, reliability, event(4), None)
    assert counts.right.count == pytest.approx(np.trace(confusion), abs=1e-2)
    assert counts.wrong.count == pytest.approx(5000 - np.trace(confusion), abs=1e-2)
    for c in range(4):
        assert counts.right_of(c).count == pytest.approx(confusion[c, c], abs=1e-2)
        assert counts.missed_of(c).count == pytest.approx(confusion[c].sum() - confusion[c, c], abs=1e-2)
        others = confusion[:, c].sum() - confusion[c, c]
        assert counts.mistaken_for(c).count == pytest.approx(others, abs=1e-2)


def test_variances_are_those_of_the_noise():
    step, rng = event(3), np.random.default_rng(2)
    exact = drawn(3000, *truth(3, 0.7), rng)
    several = [noisy(*exact, step, rng) for _ in range(1000)]
    for told in (
        [one.right for one in several],
        [one.wrong for one in several],
        [one.right_of(0) for one in several],
        [one.missed_of(1) for one in several],
        [one.mistaken_for(2) for one in several],
    ):
        found = np.var([one.count for one in told]) / told[0].variance
        assert abs(found - 1) < 5 * math.sqrt(2 / 1000)  # five standard deviations: one in a million


def coverage(size, classes, accuracy, repeats, seed=0):
    """How often each interval holds the truth, and its width over the best possible one of the accuracy."""
    joint, right, wrong = truth(classes, accuracy)
    step, rng = event(classes), np.random.default_rng(seed)
    true, knots = float(np.trace(joint)), np.array(CONFIDENCE_KNOTS)
    recall, precision = np.diag(joint) / joint.sum(axis=1), np.diag(joint) / joint.sum(axis=0)
    error = float(np.abs(knots * (1 - true) * wrong - (1 - knots) * true * right).sum())
    held = {name: [] for name in ("accuracy", "recall", "precision", "balanced", "calibration")}
    widths, best = [], []
    for _ in range(repeats):
        confusion, reliability = drawn(size, joint, right, wrong, rng)
        counts = noisy(confusion, reliability, step, rng)
        found = share(counts.right, counts.wrong)
        held["accuracy"].append(found.low <= true <= found.high)
        widths.append(found.high - found.low)
        scale, hits = step.noise_multiplier, np.trace(confusion)
        alone = share(*(Noisy(rng.normal(one, scale), scale**2) for one in (hits, size - hits)))
        best.append(alone.high - alone.low)
        classwise = [(counts.right_of(c), counts.missed_of(c)) for c in range(classes)]
        ends = [share(*pair) for pair in classwise]
        held["recall"] += [own.low <= real <= own.high for own, real in zip(ends, recall, strict=True)]
        ends = [share(counts.right_of(c), counts.mistaken_for(c)) for c in range(classes)]
        held["precision"] += [own.low <= real <= own.high for own, real in zip(ends, precision, strict=True)]
        mean = mean_share(classwise)
        held["balanced"].append(mean.low <= recall.mean() <= mean.high)
        gap = calibration_error(counts)
        held["calibration"].append(gap.low <= error <= gap.high)
    return {name: float(np.mean(own)) for name, own in held.items()}, np.mean(widths) / np.mean(best)


def test_intervals_hold_the_truth_at_a_small_budget():
    for size, classes, accuracy in ((1000, 3, 0.8), (4000, 10, 0.6)):
        held, wider = coverage(size, classes, accuracy, repeats=150)
        # With 95 % of 150, fewer than 127 would happen once in a million.
        assert min(held.values()) >= 127 / 150, held
        assert wider < 2


def test_intervals_that_forget_the_noise_would_be_noticed():
    step, rng = event(3), np.random.default_rng(0)
    joint, right, wrong = truth(3, 0.8)
    missed = 0
    for _ in range(150):
        counts = noisy(*drawn(1000, joint, right, wrong, rng), step, rng)
        found = share(Noisy(counts.right.count, 0.0), Noisy(counts.wrong.count, 0.0))
        missed += not found.low <= np.trace(joint) <= found.high
    assert missed > 150 - 127


def people_counts(rng, bound, step, people=3000):
    """Persons with 1 to 9 examples of which, for most, all are right or all wrong."""
    sizes = rng.integers(1, 10, people)
    chances = rng.choice([0.02, 0.98, 0.7], people, p=[0.2, 0.6, 0.2])
    right = rng.binomial(sizes, chances)
    voice = np.minimum(1.0, bound / sizes)
    counted = np.array([(right * voice).sum(), ((sizes - right) * voice).sum()])
    scale = step.noise_multiplier * bound
    told = counted + rng.normal(scale=scale, size=2)
    return [Noisy(float(one), scale**2) for one in told]


@pytest.mark.parametrize("bound", [1.0, 4.0])
def test_intervals_hold_for_persons_whose_examples_are_alike(bound):
    step, rng = event(3), np.random.default_rng(5)
    # What a draw of a person gives on average: their right voices over their voices.
    sizes, chances = np.arange(1, 10), np.array([0.02, 0.98, 0.7]) @ [0.2, 0.6, 0.2]
    voices = np.minimum(sizes, bound)
    true = (voices * chances).sum() / voices.sum()
    held = [
        found.low <= true <= found.high
        for found in (share(*people_counts(rng, bound, step), bound) for _ in range(300))
    ]
    assert np.mean(held) > 0.9
    careless = [
        found.low <= true <= found.high
        for found in (share(*people_counts(rng, bound, step), bound / 8) for _ in range(300))
    ]
    assert bound == 1 or np.mean(careless) < np.mean(held)


def test_calibration_error_is_small_for_a_calibrated_classifier_and_large_for_a_boastful_one():
    knots = np.array(CONFIDENCE_KNOTS)
    each = np.full(len(knots), 4000.0)
    honest = np.column_stack([knots * each, (1 - knots) * each])
    boastful = np.column_stack([0.3 * each, 0.7 * each])
    for reliability, low, high in ((honest, 0.0, 0.05), (boastful, 0.2, 0.5)):
        total = reliability.sum(axis=0)
        confusion = np.array([[total[0] / 2, total[1] / 2], [total[1] / 2, total[0] / 2]])
        found = calibration_error(noisy(confusion, reliability, event(2), np.random.default_rng(3)))
        assert low <= found.value <= high
        assert found.low <= found.value <= found.high


amounts = st.floats(-1e6, 1e6)
variances = st.floats(0.0, 1e9)
pairs = st.tuples(st.builds(Noisy, amounts, variances), st.builds(Noisy, amounts, variances))


@given(pair=pairs, bound=st.sampled_from([0.5, 1.0, 8.0]))
def test_an_interval_is_never_empty_nor_nan_and_holds_its_value(pair, bound):
    found = share(*pair, bound)
    assert 0 <= found.low <= found.high <= 1
    assert found == NOTHING or found.low <= found.value <= found.high


some_noise = st.builds(Noisy, amounts, st.floats(1e-6, 1e9))  # counts that are released have some


@given(several=st.lists(st.tuples(some_noise, some_noise), max_size=5))
def test_a_mean_is_never_nan_either(several):
    found = mean_share(several)
    assert 0 <= found.low <= found.high <= 1
    assert found == NOTHING or found.low <= found.value <= found.high


def test_an_interval_solves_what_it_is_derived_from():
    right, wrong = Noisy(700.0, 900.0), Noisy(300.0, 400.0)
    found, total = share(right, wrong, bound=2.0), 1000.0
    for end in found[1:]:
        variance = 2.0 * end * (1 - end) * total + (1 - end) ** 2 * 900 + end**2 * 400
        assert math.isclose((700 - end * total) ** 2, Z**2 * variance, rel_tol=1e-9)


def test_a_small_class_may_have_any_recall_and_the_mean_allows_for_it():
    large, small = (Noisy(900.0, 1.0), Noisy(100.0, 1.0)), (Noisy(1.0, 1.0), Noisy(0.0, 1.0))
    found = mean_share([large, small])
    assert found.value == pytest.approx(0.9, abs=0.001)
    assert found.low < 0.45
    assert found.high > 0.95
    assert mean_share([large, large]).high < 0.93


def test_those_near_the_limit_are_allowed_for_whatever_their_size():
    """The part by which a share shrinks because only totals above three deviations count, by integration."""
    t = np.linspace(-9, 30, 40001)
    near, inside = 0.2 * np.exp(-((t - 3) ** 2) / 2), t > 3
    inverse = 1 / np.maximum(t, 3)
    inverse = inside * (inverse - inverse**3 + 3 * inverse**5)
    for mean in np.arange(0.0, 15, 0.25):
        law = np.exp(-((t - mean) ** 2) / 2)
        law /= law.sum()
        shrunk = law[inside].sum() - mean * (law @ inverse)
        assert abs(shrunk) <= law @ near + 1e-4


@pytest.mark.parametrize(
    ("classes", "size", "recall"),
    [(40, 1.5, 1.0), (40, 2.0, 1.0), (40, 2.5, 1.0), (40, 2.5, 0.0), (120, 6.0, 0.9)],
)
def test_the_mean_over_many_small_classes_is_covered_at_the_ends_too(classes, size, recall):
    rng, deviation, held = np.random.default_rng(7), math.hypot(20, 30), 0
    for _ in range(150):
        sizes = rng.poisson(size * deviation, classes)
        right = rng.binomial(sizes, recall)
        told = [
            (Noisy(one + 20 * rng.normal(), 400.0), Noisy(other + 30 * rng.normal(), 900.0))
            for one, other in zip(right, sizes - right, strict=True)
        ]
        found = mean_share(told)
        held += found.low <= recall <= found.high
    assert held > 127  # of 150: fewer have a chance below 1e-6 if 95 % are
