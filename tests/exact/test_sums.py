import numpy as np
import pytest

from dptransfer.exact import sums as exact_sums
from dptransfer.exact.sums import add_by_class, class_sums_on_cuda

CLASSES = 5
LARGEST = 2**30
SIZES = {
    "none": [0, 0, 0, 0, 0],
    "one row": [0, 0, 1, 0, 0],
    "one class with everything": [0, 700, 0, 0, 0],
    "unequal": [1, 0, 333, 40, 5],
}


def problem(sizes, width=7, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    rows = rng.integers(-LARGEST, LARGEST, (len(labels), width))
    rows[: len(rows) // 2] = LARGEST  # sums that float64 would still hold, and float32 would not
    return rows, labels


def in_python(rows, labels, classes=CLASSES):
    """The definition, in Python integers."""
    sums = [[0] * rows.shape[1] for _ in range(classes)]
    for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
        sums[label] = [total + value for total, value in zip(sums[label], row, strict=True)]
    return np.array(sums, dtype=object)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_sums_are_those_of_python_integers_for_all_class_sizes_and_parts(sizes):
    rows, labels = problem(sizes)
    order = np.random.default_rng(1).permutation(len(rows))
    for step in (1, 13, 1000):
        sums = np.zeros((CLASSES, rows.shape[1]), dtype=np.int64)
        for start in range(0, len(rows), step):
            part = order[start : start + step]
            add_by_class(sums, rows[part], labels[part])
        assert (sums == in_python(rows, labels)).all()


@pytest.mark.parametrize(("value", "kind"), [(2**60 + 1, np.int64), (127, np.int8)])
def test_sums_beyond_what_floats_or_narrow_integers_hold_are_exact(value, kind):
    sums = np.zeros((1, 1), dtype=np.int64)
    add_by_class(sums, np.full((3, 1), value, dtype=kind), np.zeros(3, dtype=np.int64))
    assert sums[0, 0] == 3 * value


# What follows runs on a machine with a CUDA device: pytest -m gpu tests/exact


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [*SIZES.values(), [3] * 400, [9_000, 1, 20_000]])
def test_cuda_gives_the_same_sums_for_all_class_sizes_slabs_and_orders(sizes, monkeypatch):
    import torch

    rows, labels = problem(sizes, width=33)
    want = np.zeros((len(sizes), 33), dtype=np.int64)
    add_by_class(want, rows, labels)
    order = np.random.default_rng(1).permutation(len(rows))
    for step in (2**18, 1 + len(rows) // 9):
        monkeypatch.setattr(exact_sums, "_SLAB_ELEMENTS", step * 33)
        assert (class_sums_on_cuda(rows[order], labels[order], len(sizes)) == want).all()
    there = torch.from_numpy(rows).cuda()
    assert (class_sums_on_cuda(there, torch.from_numpy(labels).cuda(), len(sizes)) == want).all()
    halves = class_sums_on_cuda(rows, labels, len(sizes), lambda some: some[:, :3] // 2)
    want = np.zeros((len(sizes), 3), dtype=np.int64)
    add_by_class(want, rows[:, :3] // 2, labels)
    assert (halves == want).all()


@pytest.mark.gpu
def test_cuda_sums_beyond_what_floats_hold_are_exact():
    rows, labels = np.full((3, 1), 2**60 + 1), np.zeros(3, dtype=np.int64)
    assert class_sums_on_cuda(rows, labels, 1)[0, 0] == 3 * (2**60 + 1)
