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


MISTAKES = [
    (is_gaussian_conditioning, "(sums - n * mean) / total", "(sums + n * mean) / total"),
    (finds_the_planted_numbers, "(square - np.log(precision)", "(square + np.log(precision)"),
    (finds_the_planted_numbers, "- 2 * (sums * mean)", "+ 2 * (sums * mean)"),
    (scores_are_log_densities, "-0.5 * (self.means**2", "0.5 * (self.means**2"),
]


@pytest.mark.parametrize("check", dict.fromkeys(check for check, *_ in MISTAKES))
def test_the_model_is_what_it_says(check):
    assert check(posterior)


@pytest.mark.parametrize(("check", "right", "wrong"), MISTAKES)
def test_a_planted_mistake_is_noticed(check, right, wrong):
    assert not check(mutant(right, wrong))


@pytest.mark.parametrize("scale", [1e-9, 0.3, 20.0, 1e9])
def test_counts_are_never_negative_whatever_was_released(scale):
    rng = np.random.default_rng(0)
    for counts in (rng.normal(0, scale, 30), -np.abs(rng.normal(50, scale, 2)), np.zeros(500)):
        estimates = count_estimates(counts, scale)
        assert estimates.shape == counts.shape
        assert (estimates > 0).all()
        assert np.isfinite(estimates).all()


@pytest.mark.parametrize(
    ("classes", "axes", "scale"), [(2, 1, 1e-9), (2, 64, 1e8), (12, 1, 1.0), (12, 64, 1e8)]
)
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


def test_no_class_outweighs_the_typical_one():
    counts = np.array([2458.0, 529.0, 114.0, 25.0])
    weighted = class_weights(counts) * counts
    assert weighted.max() == pytest.approx(np.exp(np.log(counts).mean()))
    assert weighted.tolist()[2:] == [114.0, 25.0]
    assert class_weights(np.full(3, 7.0)) == pytest.approx(np.ones(3))
