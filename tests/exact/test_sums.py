import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import steady
from dptransfer.errors import ArgumentError
from dptransfer.exact.sums import class_sums

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
def test_sums_are_those_of_python_integers_for_all_class_sizes_chunks_and_orders(sizes):
    rows, labels = problem(sizes)
    order = np.random.default_rng(1).permutation(len(rows))
    for chunk in (None, 1, 13):
        got = class_sums(rows[order], labels[order], CLASSES, chunk=chunk)
        assert got.dtype == np.int64
        assert (got == in_python(rows, labels)).all()


def test_sums_beyond_what_floats_hold_are_exact():
    rows, labels = np.full((3, 1), 2**60 + 1), np.zeros(3, dtype=np.int64)
    assert class_sums(rows, labels, 1)[0, 0] == 3 * (2**60 + 1)
    assert int(rows.sum(dtype=np.float64)) != 3 * (2**60 + 1)


def test_narrow_integers_are_summed_in_wide_ones():
    rows, labels = np.full((1000, 2), 127, dtype=np.int8), np.zeros(1000, dtype=np.int64)
    assert (class_sums(rows, labels, 2) == [[127_000, 127_000], [0, 0]]).all()


def test_rows_are_mapped_chunk_by_chunk_where_a_map_is_given():
    rows, labels = problem(SIZES["unequal"])
    seen = []

    def halves(some):
        seen.append(len(some))
        return some[:, :3] // 2

    got = class_sums(rows, labels, CLASSES, chunk=100, mapped=halves)
    assert (got == in_python(rows[:, :3] // 2, labels)).all()
    assert max(seen) == 100


@steady
@given(st.integers(0, CLASSES - 1), st.lists(st.integers(-LARGEST, LARGEST), min_size=3, max_size=3))
def test_one_more_row_moves_the_sum_of_its_class_by_itself(label, row):
    rows, labels = problem(SIZES["unequal"], width=3)
    moved = class_sums(np.vstack([rows, row]), np.append(labels, label), CLASSES) - class_sums(
        rows, labels, CLASSES
    )
    assert moved[label].tolist() == row
    assert not np.delete(moved, label, axis=0).any()


def test_bad_arguments_are_refused():
    rows, labels = problem(SIZES["one row"])
    for bad in ({"device": "abacus"}, {"chunk": -1}):
        with pytest.raises(ArgumentError, match=next(iter(bad))):
            class_sums(rows, labels, CLASSES, **bad)
    with pytest.raises(ArgumentError, match="one entry per row"):
        class_sums(rows, labels[:0], CLASSES)


# What follows runs on a machine with a CUDA device: pytest -m gpu tests/compute


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [*SIZES.values(), [3] * 400, [9_000, 1, 20_000]])
def test_cuda_and_cpu_give_the_same_sums_for_all_class_sizes_chunks_and_orders(sizes):
    import torch

    rows, labels = problem(sizes, width=33)
    want = class_sums(rows, labels, len(sizes))
    order = np.random.default_rng(1).permutation(len(rows))
    for chunk in (None, 1 + len(rows) // 9):
        got = class_sums(rows[order], labels[order], len(sizes), device="cuda", chunk=chunk)
        assert (got == want).all()
    there = torch.from_numpy(rows).cuda()
    assert (class_sums(there, labels, len(sizes)) == want).all()
    assert (class_sums(there, torch.from_numpy(labels).cuda(), len(sizes), chunk=77) == want).all()


@pytest.mark.gpu
def test_cuda_sums_beyond_what_floats_hold_are_exact():
    rows, labels = np.full((3, 1), 2**60 + 1), np.zeros(3, dtype=np.int64)
    assert class_sums(rows, labels, 1, device="cuda")[0, 0] == 3 * (2**60 + 1)
