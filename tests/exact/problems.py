"""Rows, caps and the definition in Python integers, for every backend's tests."""

import numpy as np
import pytest

from dptransfer.exact.capped_similarity import GRID_NORM, ClassSimilarity
from dptransfer.exact.lattice import unit_lattice

CLASSES = 4
ONE = 2047**2
PRECISIONS = {2047: "float16", 127: "int8"}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]

CAPS = {
    "open": (0, 2 * ONE),
    "wider than open": (-5, 2 * ONE + 7),
    "far wider on one side": (-(2**40) - 1, ONE + 3),
    "low": (ONE + 10_001, 2 * ONE),
    "high": (0, ONE - 999),
    "both": (ONE - 12_345, ONE + 2_000_001),
    "one step": (ONE, ONE + 1),
    "above every product": (2 * ONE + 1, 2 * ONE + 9),
    "below every product": (-9, -1),
}


def class_similarity(private, labels, classes, public, low, high, *, slab=None, **about):
    """The library's scores; on a device with so many public rows in a slab."""
    from dptransfer.exact import similarity_cuda

    with pytest.MonkeyPatch.context() as patch:
        if slab is not None:
            patch.setattr(similarity_cuda, "_SLAB_BYTES", 2 * slab * public.shape[1])
        return ClassSimilarity(private, labels, classes, low, high, **about)(public)


def expected(private, labels, classes, public, low, high, precision="float16", weights=None, one=None):
    """Σ over each class of clip(one + dot, low, high) − low by its definition, in Python integers.

    No array arithmetic, no blocks and no floats: slow, and what every backend is held to.

    >>> expected([[3, 4], [0, 5]], [0, 1], 2, [[5, 0]], low=0, high=40, one=25).tolist()
    [[40, 25]]
    """
    one = GRID_NORM[precision] ** 2 if one is None else one
    times = [1] * len(private) if weights is None else [int(weight) for weight in weights]
    private = [[int(value) for value in row] for row in private]
    result = []
    for candidate in public:
        p = [int(value) for value in candidate]
        sums = [0] * classes
        for x, label, weight in zip(private, labels, times, strict=True):
            similarity = one + sum(a * b for a, b in zip(x, p, strict=True))
            sums[label] += weight * (min(max(similarity, low), high) - low)
        result.append(sums)
    return np.array(result, dtype=object).reshape(len(public), classes)


def problem(seed, count=60, candidates=25, width=12, norm=2047):
    """Rows of three of four classes, with the extremes: along an axis, one row gives the largest product,
    its opposite the smallest, and a row may be zero.
    """
    rng = np.random.default_rng(seed)
    private = unit_lattice(rng.normal(size=(count, width)) + 0.4, norm)
    public = unit_lattice(rng.normal(size=(candidates, width)) + 0.4, norm)
    corners = np.zeros((3, width), dtype=np.int64)
    corners[0, 0], corners[1, 0] = norm, -norm
    labels = rng.choice([0, 1, 3], size=count + 3)  # class 2 stays empty
    return np.vstack([private, corners]), labels, np.vstack([public, corners])


def weights_for(count, kind="some", seed=0):
    """No weights, a few different ones with the extremes, or as many as there are rows."""
    rng = np.random.default_rng(seed)
    if kind == "some":
        return rng.choice([0, 1, 1638, 2**16 - 1, 2**16], size=count).astype(np.int64)
    return None if kind == "none" else rng.permutation(np.linspace(1, 2**16, count).astype(np.int64))


def beyond_float64(rows=65_537):
    """Rows, labels, candidates, weights and the open sums, an odd number above 2⁵³ that no float64 holds."""
    row, candidate, weight = (2045, 82), (2043, 101), 65_535
    total = rows * weight * (ONE + row[0] * candidate[0] + row[1] * candidate[1])
    assert total > 2**53
    assert int(float(total)) != total
    private = np.tile(np.array(row, dtype=np.int16), (rows, 1))
    arguments = (private, np.zeros(rows, dtype=np.int64), 1, np.array([candidate], dtype=np.int16))
    return arguments, np.full(rows, weight), total


def adversarial(norm=2047, width=48):
    """Private rows and candidates that break sums which are not exact, by name."""
    one_coordinate = np.zeros((9, width), dtype=np.int64)
    one_coordinate[np.arange(9), np.arange(9)] = norm
    flat = unit_lattice(np.ones((1, width)), norm)
    signs = flat * np.where(np.arange(width) % 2, 1, -1)
    spike = np.ones((1, width), dtype=np.int64)
    spike[0, 7] = int(np.sqrt(norm**2 - width))
    rows = {
        "one coordinate": one_coordinate,
        "equal rows": np.repeat(flat, 700, axis=0),
        "alternating signs": np.repeat(signs, 5, axis=0),
        "a spike among ones": np.repeat(spike, 5, axis=0),
        "zero rows": np.zeros((6, width), dtype=np.int64),
    }
    candidates = np.vstack([one_coordinate[:2], flat, -flat, signs, spike, -spike, 0 * flat])
    return rows, candidates
