import math

import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.exact.evaluation_layout import CONFIDENCE_KNOTS, MOST_CONFUSED
from dptransfer.privacy import Bound, Unit
from dptransfer.release.noisy_counts import NOTHING, Noisy, NoisyCounts, calibration_error, mean_share, share

from .noisy_evaluations import drawn, evaluation, event, noisy, truth


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


@pytest.mark.parametrize("classes", [2, 3, MOST_CONFUSED + 1])
def test_counts_are_read_as_they_were_written_and_nothing_else_is(classes):
    counts = evaluation(tuple(range(classes))).counts
    told = counts.to_dict()
    again = NoisyCounts.from_dict(told)
    assert again.to_dict() == told
    assert all((again.blocks[name] == counts.blocks[name]).all() for name in counts.blocks)
    for change in (
        {"unit": "household"},
        {"noise": {**told["noise"], "answers": 0.0}},
        {"noise": {"answers": 1.0}},
        {"blocks": {**told["blocks"], "answers": [1.0, 2.0, 3.0]}},
        {"blocks": {**told["blocks"], "answers": [1.0, float("nan")]}},
        {"blocks": {}},
        {"more": 1},
    ):
        with pytest.raises(ArgumentError, match="exactly the fields"):
            NoisyCounts.from_dict({**told, **change})


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "classes", "accuracy"),
    [(300, 2, 0.9), (1000, 2, 0.5), (1000, 10, 0.93), (3000, 10, 0.7), (10000, 30, 0.5), (5000, 10, 0.2)],
)
def test_intervals_hold_the_truth_in_94_of_100_and_are_less_than_twice_the_best(size, classes, accuracy):
    held, wider = coverage(size, classes, accuracy, repeats=1000, seed=1)
    assert min(held.values()) >= 0.94, held
    assert wider < 2


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


def test_of_too_few_examples_no_calibration_error_is_told():
    empty = noisy(np.zeros((2, 2)), np.zeros((len(CONFIDENCE_KNOTS), 2)), event(2), None)
    assert calibration_error(empty) == NOTHING


def test_persons_are_on_record():
    counts = evaluation().counts
    told = {**counts.to_dict(), "unit": "person", "person_bound": 2.0}
    assert NoisyCounts.from_dict(told).bound == Bound(Unit.PERSON, 2.0)
