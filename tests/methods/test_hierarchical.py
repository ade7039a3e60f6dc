"""The model of noisy class sums, against data drawn from it and planted mistakes; and the centre of a map."""

import inspect

import numpy as np
import pytest
from scipy import stats

from dptransfer.data import PublicEmbeddings
from dptransfer.exact.feature_map import apply
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods.heads import hierarchical
from dptransfer.methods.heads.hierarchical import class_weights, count_estimates, posterior, recentre

AXES = 48
MOMENT = np.geomspace(1, 0.02, AXES)


def mutant(right, wrong):
    """`posterior` of the same source with one expression changed: a mistake somebody could have made."""
    source = inspect.getsource(hierarchical)
    assert source.count(right) == 1
    names = {"__name__": hierarchical.__name__}
    exec(source.replace(right, wrong), names)
    return names["posterior"]


def drawn(counts, scale, *, energy=0.3, common=0.2, seed=0, moment=MOMENT):
    """Class means, noisy sums and noisy counts from the model: γ = 1, |m₀|² = `common`."""
    rng = np.random.default_rng(seed)
    share = moment / moment.sum()
    counts = np.asarray(counts, dtype=np.float64)
    shape = len(counts), len(moment)
    middle = rng.choice([-1.0, 1.0], len(moment)) * np.sqrt(common * share)
    means = middle + rng.normal(size=shape) * np.sqrt(energy * share)
    within = (1 - energy - common) * share**0.25 / (share**0.25).sum()
    sums = counts[:, None] * means + rng.normal(size=shape) * np.sqrt(counts[:, None] * within)
    noisy = counts + rng.normal(size=len(counts)) * 3 * scale
    return means, sums + rng.normal(size=shape) * scale, noisy


def error(found, truth):
    return float(np.square(found - truth).sum(axis=1).mean())


def recovers_at_low_signal(fitted):
    """Closer to the planted means than sums over the true counts, or their common mean, in every draw."""
    for seed in range(3):
        counts = np.random.default_rng(seed).lognormal(np.log(60), 0.5, 40)
        means, sums, noisy = drawn(counts, 4.0, seed=seed)
        raw = error(sums / counts[:, None], means)
        alike = error(means.mean(axis=0), means)
        if not error(fitted(sums, noisy, 4.0, 12.0, MOMENT).means, means) < 0.45 * min(raw, alike):
            return False
    return True


def is_gaussian_conditioning(fitted, seed=0):
    """All classes follow from one prior, N(m₀, b): b and m₀ are solved from the first, and predict the rest.

    For one class and axis: precision 1/b + n²/D with D = n·within + s², and precision × mean = m₀/b + n·Z/D.
    """
    scale = 5.0
    _, sums, noisy = drawn(np.linspace(20, 400, 12), scale, seed=seed)
    found = fitted(sums, noisy, scale, 3 * scale, MOMENT)
    n, spread = found.counts[:, None], found.counts[:, None] * found.within + scale**2
    prior = 1 / found.uncertainty - n**2 / spread
    middle = (found.means / found.uncertainty - n * sums / spread) / prior
    return np.allclose(prior, prior[0], rtol=1e-6) and np.allclose(middle, middle[0], rtol=1e-5, atol=1e-8)


def finds_the_planted_numbers(fitted):
    """Energy of the class means, common mean and counts, where the data tell them well."""
    truth = np.tile([200.0, 400.0, 800.0, 1600.0], 15)
    means, sums, _ = drawn(truth, 3.0)
    noisy = truth + np.random.default_rng(8).normal(size=60) * 60.0
    found = fitted(sums, noisy, 3.0, 60.0, MOMENT)
    between = np.square(found.means - found.means.mean(axis=0)).sum(axis=1).mean()
    within = found.within.sum()
    middle = np.linalg.norm(found.means.mean(axis=0) - means.mean(axis=0))
    relative = np.abs(np.log(found.counts / truth))
    return 0.2 < between < 0.42 and 0.35 < within < 0.65 and middle < 0.1 and relative.max() < 0.3


def is_the_class_mean_without_noise(fitted):
    """With many rows and hardly any noise nothing is left to a prior."""
    truth = np.array([40_000.0, 90_000.0, 60_000.0])
    _, sums, _ = drawn(truth, 1e-6)
    found = fitted(sums, truth, 1e-6, 1e-6, MOMENT)
    return np.allclose(found.means, sums / truth[:, None], rtol=0.01, atol=1e-3)


def stays_near_the_unit_ball(fitted):
    """Rows have unit norm, so their means cannot be long, however loud the sums are."""
    _, sums, _ = drawn([20.0, 30.0, 25.0], 50.0)
    found = fitted(sums, np.array([20.0, 30.0, 25.0]), 50.0, 1.0, MOMENT)
    return np.linalg.norm(found.means, axis=1).max() < 1.5


def is_surer_of_larger_classes(fitted):
    _, sums, noisy = drawn(np.tile([5.0, 20.0, 80.0, 320.0, 1280.0], 4), 5.0)
    found = fitted(sums, noisy, 5.0, 15.0, MOMENT)
    order = np.argsort(found.counts)
    total = found.uncertainty.sum(axis=1)[order]
    return (found.uncertainty > 0).all() and (np.diff(total) <= 0).all() and total[-1] < 0.1 * total[0]


def scores_are_log_densities(fitted):
    """offset + linear·x − ½ precision·x² is a log density, less its −k/2 log 2π."""
    _, sums, noisy = drawn([30.0, 300.0, 900.0, 50.0], 3.0)
    found = fitted(sums, noisy, 3.0, 9.0, MOMENT)
    linear, offset, precision = found.predictive()
    x = np.random.default_rng(1).normal(size=(20, AXES)) * 0.2
    scores = offset + x @ linear.T - 0.5 * x**2 @ precision.T
    law = stats.norm(found.means, np.sqrt(found.within + found.uncertainty))
    exact = law.logpdf(x[:, None]).sum(axis=2)
    return np.allclose(scores - exact, AXES / 2 * np.log(2 * np.pi), atol=1e-8)


SIGN_OF_MEAN = ("(sums - n * mean) / total", "(sums + n * mean) / total")
SIGN_OF_DETERMINANT = ("(square - np.log(precision)", "(square + np.log(precision)")
MISTAKES = [
    (recovers_at_low_signal, *SIGN_OF_MEAN),
    (recovers_at_low_signal, *SIGN_OF_DETERMINANT),
    (recovers_at_low_signal, "- 0.5 * (square", "+ 0.5 * (square"),
    (recovers_at_low_signal, "- 2 * (sums * mean)", "+ 2 * (sums * mean)"),
    (is_gaussian_conditioning, *SIGN_OF_MEAN),
    (finds_the_planted_numbers, *SIGN_OF_DETERMINANT),
    (is_the_class_mean_without_noise, "n * between * (sums", "between * (sums"),
    (stays_near_the_unit_ball, "+ 1 / moment", "+ 0 / moment"),
    (is_surer_of_larger_classes, "(sum_scale**2 + n * within) / total", "(n**2 * between) / total"),
    (scores_are_log_densities, "-0.5 * (self.means**2", "0.5 * (self.means**2"),
]


@pytest.mark.parametrize("check", dict.fromkeys(check for check, *_ in MISTAKES))
def test_the_model_is_what_it_says(check):
    assert check(posterior)


@pytest.mark.parametrize(("check", "right", "wrong"), MISTAKES)
def test_a_planted_mistake_is_noticed(check, right, wrong):
    assert not check(mutant(right, wrong))


def test_loud_sums_are_not_read_as_class_means():
    _, sums, noisy = drawn(np.array([40_000.0, 90_000.0, 60_000.0]), 1e4)
    loud = posterior(sums, noisy, 1e4, 3e4, MOMENT)
    assert not np.allclose(loud.means, sums / noisy[:, None], rtol=0.01, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-9, 0.3, 20.0, 1e9])
def test_counts_are_never_negative_whatever_was_released(scale):
    rng = np.random.default_rng(0)
    for counts in (rng.normal(0, scale, 30), -np.abs(rng.normal(50, scale, 2)), np.zeros(500)):
        estimates = count_estimates(counts, scale)
        assert estimates.shape == counts.shape
        assert (estimates > 0).all()
        assert np.isfinite(estimates).all()


@pytest.mark.parametrize("scale", [1e-6, 0.5])
def test_counts_are_kept_where_their_noise_is_small(scale):
    truth = np.array([3.0, 10.0, 47.0, 1_000.0, 99_000.0])
    noisy = truth + scale * np.random.default_rng(0).normal(size=5)
    assert count_estimates(noisy, scale) == pytest.approx(noisy, abs=2 * scale + 1e-9)
    assert count_estimates(noisy, 3_000.0)[1] != pytest.approx(noisy[1], rel=0.5)


def test_counts_of_equal_classes_are_pooled_where_their_noise_is_large():
    noisy = 1_000 + 400 * np.random.default_rng(0).normal(size=100)
    pooled = count_estimates(noisy, 400.0)
    assert pooled.std() < 0.25 * noisy.std()
    assert pooled == pytest.approx(np.full(100, 1_000.0), rel=0.2)
    unequal = np.repeat([100.0, 10_000.0], 50) + 400 * np.random.default_rng(1).normal(size=100)
    apart = count_estimates(unequal, 400.0)
    assert apart[:50].max() < 2_000 < 8_000 < apart[50:].min()  # pooled only as far as the data allow


@pytest.mark.parametrize(("classes", "axes"), [(2, 1), (2, 64), (12, 1), (12, 64)])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e8])
def test_any_released_values_give_finite_scores(classes, axes, scale):
    rng = np.random.default_rng(classes * axes)
    moments = (np.zeros(axes), np.geomspace(1, 1e-30, axes), np.ones(axes))
    for moment in moments:
        sums = rng.normal(size=(classes, axes)) * scale + rng.normal(size=axes) * 1e3
        counts = rng.normal(size=classes) * 5 * scale
        found = posterior(sums, counts, scale, 5 * scale, moment)
        parts = (*found.predictive(), found.means, found.uncertainty, found.within, found.counts)
        assert all(np.isfinite(part).all() for part in parts)
        assert (found.uncertainty > 0).all()
        assert (found.within > 0).all()


def test_five_hundred_classes_are_no_exception(monkeypatch):
    monkeypatch.setattr(hierarchical, "_PRIOR_POWERS", (1.0,))  # for speed: the sizes are what matters here
    _, sums, noisy = drawn(np.full(500, 30.0), 3.0, moment=np.ones(8))
    found = posterior(sums, noisy, 3.0, 9.0, np.ones(8))
    assert found.means.shape == (500, 8)
    assert found.counts == pytest.approx(np.full(500, 30.0), rel=0.25)


WIDTH = 20
RNG = np.random.default_rng(0)
POOL = PublicEmbeddings(RNG.normal(size=(2000, WIDTH)) * np.geomspace(1, 0.1, WIDTH) + 0.5)
MAP = PublicMap(axes=8).fit(WIDTH, POOL)


def unit_rows(count, shift):
    rows = RNG.normal(size=(count, WIDTH)) * np.geomspace(1, 0.1, WIDTH) + 0.5 + shift
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


SHIFT = 0.4 * RNG.normal(size=WIDTH)
ROWS = unit_rows(5000, SHIFT)


def along_axes(vector):
    return vector @ MAP.axis_vectors()


def test_without_noise_the_centre_is_the_mean_along_the_axes():
    moved = recentre(MAP, ROWS.sum(axis=0), len(ROWS), scale=1e-6)
    assert along_axes(moved.centre()) == pytest.approx(along_axes(ROWS.mean(axis=0)), abs=1e-5)
    assert np.linalg.norm(apply(moved, ROWS).mean(axis=0)) < np.linalg.norm(apply(MAP, ROWS).mean(axis=0)) / 3


def test_pure_noise_leaves_the_centre_mostly_where_it_is():
    truth = MAP.centre() * 100
    noise = np.random.default_rng(1).normal(size=(50, WIDTH))
    moved = (recentre(MAP, truth + 300 * one, 100.0, 300.0).centre() for one in noise)
    moves = [np.linalg.norm(centre - MAP.centre()) for centre in moved]
    assert np.median(moves) < 0.15  # the noise itself would move it by 3·√8 ≈ 8
    assert max(moves) < 1.0


@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0])
def test_the_estimate_is_closer_than_the_pool_and_than_the_noisy_mean(scale):
    true = along_axes(ROWS.mean(axis=0))
    errors = []
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(scale=scale, size=WIDTH)
        total = ROWS.sum(axis=0) + noise
        ours = along_axes(recentre(MAP, total, len(ROWS), scale).centre())
        errors.append([np.linalg.norm(way - true) for way in (ours, along_axes(total / len(ROWS)))])
    ours, noisy = np.mean(errors, axis=0)
    assert ours <= noisy * 1.02
    assert ours < np.linalg.norm(along_axes(MAP.centre()) - true)


def test_only_the_mean_of_the_map_changes():
    moved = recentre(MAP, ROWS.sum(axis=0), len(ROWS), scale=1.0)
    assert (moved.matrix == MAP.matrix).all()
    assert moved.root == MAP.root
    assert moved.identity != MAP.identity


def test_no_class_outweighs_the_typical_one():
    counts = np.array([2458.0, 529.0, 114.0, 25.0])
    weighted = class_weights(counts) * counts
    assert weighted.max() == pytest.approx(np.exp(np.log(counts).mean()))
    assert weighted.tolist()[2:] == [114.0, 25.0]
    assert class_weights(np.full(3, 7.0)) == pytest.approx(np.ones(3))
