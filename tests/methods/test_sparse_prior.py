import numpy as np
import pytest

from dptransfer.methods.heads import words as sparse_prior
from dptransfer.methods.heads.words import sparse_posterior

CLASSES, WORDS = 12, 200


def task(seed=0, *, scale=4.0, counts=None, active=3):
    """Classes with a few words each, over a little of all words; their noisy sums and counts."""
    rng = np.random.default_rng(seed)
    counts = np.full(CLASSES, 40.0) if counts is None else counts
    means = np.full((CLASSES, WORDS), 0.003)
    for own in means:
        own[rng.choice(WORDS, active, replace=False)] = rng.uniform(0.2, 0.6, active)
    sums = counts[:, None] * means + scale * rng.normal(size=means.shape)
    return means, sums, counts + scale * rng.normal(size=CLASSES), scale


def rows_of(means, rng, each=40):
    """Rows whose words are drawn from their class, over a little of everything; scaled to unit norm."""
    labels = np.repeat(np.arange(len(means)), each)
    seen = rng.random((len(labels), means.shape[1])) < means[labels]
    rows = seen + 0.3 * rng.random(seen.shape)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), labels


def test_the_noise_is_taken_off_and_the_words_stay():
    means, sums, counts, scale = task()
    found = sparse_posterior(sums, counts, scale, scale)
    raw = np.square(sums / 40 - means).mean()
    assert np.square(found.means - means).mean() < 0.1 * raw
    assert np.abs(found.means - means)[means > 0.2].mean() < 0.2
    assert found.means.min() >= 0


def test_strong_sums_are_read_as_they_are():
    means, sums, _, _ = task(scale=1e-3)
    found = sparse_posterior(sums, np.full(CLASSES, 40.0), 1e-3, 1e-3)
    assert np.abs(found.means - means).max() < 1e-3


def test_rows_are_told_apart_better_than_by_the_noisy_sums():
    means, sums, counts, scale = task(scale=8.0)
    rows, labels = rows_of(means, np.random.default_rng(1))
    found = sparse_posterior(sums, counts, scale, scale)
    by_words = (rows @ found.weights.T).argmax(axis=1) == labels
    by_sums = (rows @ (sums / np.linalg.norm(sums, axis=1, keepdims=True)).T).argmax(axis=1) == labels
    assert by_words.mean() > by_sums.mean() + 0.1


def test_a_class_too_small_to_be_read_has_the_words_of_the_others():
    counts = np.array([400.0] * 11 + [1.0])
    means, sums, noisy, scale = task(counts=counts)
    found = sparse_posterior(sums, noisy, scale, scale)
    others = means[:11].max(axis=0) > 0.1
    assert found.means[11][others].mean() > 1.5 * found.means[11][~others].mean()


def test_pure_noise_is_not_read_as_words():
    rng = np.random.default_rng(0)
    found = sparse_posterior(5 * rng.normal(size=(CLASSES, WORDS)), np.full(CLASSES, 50.0), 5.0, 5.0)
    assert found.means.max() < 0.15
    assert found.means.mean() < 0.01


def test_shares_of_a_class_add_up_to_one_and_weights_are_their_logarithms():
    _, sums, counts, scale = task()
    found = sparse_posterior(sums, counts, scale, scale)
    assert np.allclose(found.shares.sum(axis=1), 1)
    assert np.allclose(np.exp(found.weights), found.shares)


@pytest.mark.parametrize("count", [-300.0, 0.0, 1e-9, 1e9])
@pytest.mark.parametrize("size", [0.0, 1e-9, 1e9])
def test_whatever_is_released_gives_finite_numbers(count, size):
    """Counts far below zero, sums of nothing, sums far larger than counts: noise may do any of it."""
    sums = size * np.random.default_rng(0).normal(size=(3, 20))
    with np.errstate(all="raise", under="ignore"):
        found = sparse_posterior(sums, np.full(3, count), 2.0, 5.0)
    for part in (found.means, found.weights):
        assert np.isfinite(part).all()


def test_a_part_of_very_many_sums_says_enough_about_them(monkeypatch):
    means, sums, counts, scale = task()
    whole = sparse_posterior(sums, counts, scale, scale)
    monkeypatch.setattr(sparse_prior, "_MOST_FITTED", sums.size // 3)
    part = sparse_posterior(sums, counts, scale, scale)
    assert np.square(part.means - means).mean() < 1.5 * np.square(whole.means - means).mean()
