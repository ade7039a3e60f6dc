"""The map goes where the released sum points, by as much as the noise lets it."""

import numpy as np
import pytest

from dptransfer.data import PublicEmbeddings
from dptransfer.exact.feature_map import apply
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods.heads.hierarchical import class_weights, recentre

WIDTH, AXES = 20, 8
RNG = np.random.default_rng(0)
POOL = PublicEmbeddings(RNG.normal(size=(2000, WIDTH)) * np.geomspace(1, 0.1, WIDTH) + 0.5)
MAP = PublicMap(axes=AXES).fit(WIDTH, POOL)


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
    moves = [
        np.linalg.norm(recentre(MAP, truth + 300 * one, 100.0, 300.0).centre() - MAP.centre())
        for one in noise
    ]
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
