"""Counted by torch, bins are those of the CPU: here on tensors in ordinary memory, with -m gpu on a GPU."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from dptransfer.noise import score_bins
from dptransfer.noise import score_bins as counted
from dptransfer.noise.score_bins import ScoreBins, finest_level

ENDS = np.array([2**63 - 1, -(2**63), 0, 2**63 - 1, 5])

RNG = np.random.default_rng(0)

KINDS = {
    "close": RNG.integers(0, 40, 30),
    "tied": np.zeros(12, dtype=np.int64),
    "spread": (RNG.normal(size=40) * 1e9).astype(np.int64),
    "far": (RNG.normal(size=40) * 1e17).astype(np.int64),
    "as far as integers go": ENDS,
    "one": np.array([-7]),
}


def same(first, second):
    names = ("top", "levels", "indices", "counts")
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)


@pytest.mark.parametrize("scores", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("size", [1, 3, 20])
@pytest.mark.parametrize("scale", [0.5, 7.0, 1e6])
def test_bins_hold_every_candidate_once_and_do_not_overlap(scores, size, scale):
    bins = ScoreBins.of(scores, scale, size)
    falling = bins.descending_bins()
    assert sum(one.members for one in falling) == len(scores)
    assert all((scores >> one.level == one.place).sum() == one.members for one in falling)
    assert all(lower.high < one.place << one.level for one, lower in pairwise(falling))
    assert bins.top.tolist() == sorted(scores.tolist(), reverse=True)[:size]


@pytest.mark.parametrize("scores", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("size", [1, 3, 20])
@pytest.mark.parametrize("scale", [0.5, 7.0, 1e6])
def test_parts_put_together_are_the_whole_whatever_the_cut_and_the_order(scores, size, scale):
    whole = ScoreBins.of(scores, scale, size)
    rng = np.random.default_rng(1)
    for pieces in (2, 3, 7):
        cuts = np.sort(rng.integers(0, len(scores) + 1, pieces - 1))
        parts = [ScoreBins.of(part, scale, size) for part in np.split(scores, cuts) if len(part)]
        assert same(ScoreBins.merge(parts[::-1]), whole)
        nested = ScoreBins.merge([ScoreBins.merge(parts[:1]), *parts[1:]])
        assert same(nested, whole)


def test_every_cut_of_a_small_pool_gives_the_same_bins():
    scores = np.array([0, 3, 9_000, 8_990, 2**40, 2**40 - 1, 17, -5])
    whole = ScoreBins.of(scores, 2.0, 2)
    places = range(1, len(scores))
    for pieces in range(len(scores)):
        for cuts in combinations(places, pieces):
            parts = [ScoreBins.of(part, 2.0, 2) for part in np.split(scores, cuts)]
            assert same(ScoreBins.merge(parts), whole)


def test_a_part_that_is_left_out_or_counted_twice_shows():
    scores = KINDS["spread"]
    first, second = (ScoreBins.of(part, 1e6) for part in np.split(scores, 2))
    whole = ScoreBins.of(scores, 1e6)
    assert not same(ScoreBins.merge([first]), whole)
    assert not same(ScoreBins.merge([first, second, second]), whole)


@pytest.mark.parametrize("size", [1, 5, 50])
@pytest.mark.parametrize("spread", [1e3, 1e9, 1e16])
def test_there_are_few_bins_and_those_that_matter_are_fine(size, spread):
    scores = (np.random.default_rng(2).normal(size=20_000) * spread).astype(np.int64)
    scale = 1e6
    bins = ScoreBins.of(scores, scale, size)
    assert len(bins.levels) < 1_000 + size
    for one in bins.descending_bins():
        depth = int(bins.top[-1]) - one.high
        assert 2**one.level <= max(scale / 4, depth / 128)


@pytest.mark.parametrize("dense", [2**16, 2**17])
@pytest.mark.parametrize("size", [2, 700])
def test_bins_do_not_depend_on_how_many_are_counted_at_once(dense, size, monkeypatch):
    scores = (np.random.default_rng(3).normal(size=3_000) * 1e12).astype(np.int64)
    whole = ScoreBins.of(scores, 100.0, size)
    monkeypatch.setattr(score_bins, "_COUNTED_AT_ONCE", dense)
    assert same(ScoreBins.of(scores, 100.0, size), whole)
    assert same(ScoreBins.merge([ScoreBins.of(part, 100.0, size) for part in np.split(scores, 3)]), whole)


@pytest.mark.parametrize("scale", [1e-300, 0.3, 4.0, 1e6, 2.0**70])
def test_the_finest_bins_are_a_quarter_of_the_width_or_one_score(scale):
    level = finest_level(scale)
    assert level == 0 or 2**level <= scale / 4
    assert level == 62 or 2 ** (level + 1) > scale / 4


torch = pytest.importorskip("torch")

POOLS = {
    "bell": RNG.normal(5e6, 1e4, (5000, 4)).astype(np.int64),
    "deep": (2.0 ** RNG.uniform(0, 61, (3000, 3))).astype(np.int64),
    "ties": RNG.integers(0, 4, (500, 3)),
    "equal": np.full((100, 2), 7),
    "one far above": np.append(RNG.integers(0, 900, (400, 1)), [[2**60]], axis=0),
    "few": RNG.integers(0, 10**9, (3, 2)),
    "zeros below": np.append(np.zeros((50, 1), dtype=np.int64), [[2**62 - 1], [5]], axis=0),
}


def same_bins_on_device(one, other):
    names = ("top", "levels", "indices", "counts")
    return one.size == other.size and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in names
    )


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("size", [1, 2, 3, 70, 300])
@pytest.mark.parametrize("scale", [0.1, 40.0, 1e6])
def test_bins_are_those_of_the_cpu(pool, size, scale, device, monkeypatch):
    scores = POOLS[pool]
    expected = [ScoreBins.of(column, scale, size) for column in scores.T]
    for at_once in (2**22, 1):  # all classes, and one by one
        monkeypatch.setattr(counted, "_AT_ONCE", at_once)
        found = counted.bins_on_device(torch.from_numpy(scores).to(device), scale, size)
        assert all(map(same_bins_on_device, found, expected))
        assert len(found) == len(expected)


def test_parts_of_which_one_is_larger_than_a_set_are_put_together():
    scores = POOLS["bell"]
    parts = (scores[:2], scores[2:40], scores[40:])
    lots = [counted.bins_on_device(torch.from_numpy(part), 40.0, 3) for part in parts]
    for column, own in zip(scores.T, zip(*lots, strict=True), strict=True):
        assert same_bins_on_device(ScoreBins.merge(own), ScoreBins.of(column, 40.0, 3))
