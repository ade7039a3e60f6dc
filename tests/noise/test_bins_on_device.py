"""Counted by torch, bins are those of the CPU: here on tensors in ordinary memory, with -m gpu on a GPU."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dptransfer.noise import score_bins as counted  # noqa: E402
from dptransfer.noise.score_bins import ScoreBins  # noqa: E402

RNG = np.random.default_rng(0)
POOLS = {
    "bell": RNG.normal(5e6, 1e4, (5000, 4)).astype(np.int64),
    "deep": (2.0 ** RNG.uniform(0, 61, (3000, 3))).astype(np.int64),
    "ties": RNG.integers(0, 4, (500, 3)),
    "equal": np.full((100, 2), 7),
    "one far above": np.append(RNG.integers(0, 900, (400, 1)), [[2**60]], axis=0),
    "few": RNG.integers(0, 10**9, (3, 2)),
    "zeros below": np.append(np.zeros((50, 1), dtype=np.int64), [[2**62 - 1], [5]], axis=0),
}


def same(one, other):
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
        assert all(map(same, found, expected))
        assert len(found) == len(expected)


def test_parts_of_which_one_is_larger_than_a_set_are_put_together():
    scores = POOLS["bell"]
    parts = (scores[:2], scores[2:40], scores[40:])
    lots = [counted.bins_on_device(torch.from_numpy(part), 40.0, 3) for part in parts]
    for column, own in zip(scores.T, zip(*lots, strict=True), strict=True):
        assert same(ScoreBins.together(own), ScoreBins.of(column, 40.0, 3))
