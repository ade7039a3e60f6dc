import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import squared_length, steady
from dptransfer.compute import softmax_gradient as kernel
from dptransfer.compute.softmax_gradient import (
    RESIDUAL_NORM,
    IntegerLogits,
    clipped_gradient,
    logit_steps,
    norms_above,
    probabilities,
    residual_lattice,
    residuals,
)
from dptransfer.methods import softmax

ROW_NORM = 2**16
SIZES = [0.0, 1e-9, 1.0, 50.0, 1e6]


def problem(count=257, width=9, classes=5, size=3.0, seed=0, curved=False):
    """Integer rows as floats, labels, and a head of weights of about this size."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, width))
    rows = np.trunc(x * (ROW_NORM * (1 - 2**-20) / np.linalg.norm(x, axis=1, keepdims=True)))
    labels = rng.integers(0, classes, count)
    precision = np.abs(rng.normal(size=(classes, width))) * size if curved else None
    linear, offset = rng.normal(size=(classes, width)) * size, rng.normal(size=classes) * size
    return rows, labels, IntegerLogits.of(linear, offset, precision, ROW_NORM)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("curved", [False, True])
def test_numpy_and_torch_give_the_same_integers(size, curved):
    torch = pytest.importorskip("torch")
    for seed, (count, width, classes) in enumerate([(257, 9, 5), (1, 1, 2), (64, 130, 31), (0, 4, 3)]):
        rows, labels, logits = problem(count, width, classes, size, seed, curved)
        there = torch.from_numpy(rows), torch.from_numpy(labels)
        for clip in (1e-3, 0.7, 1.0, 2.0):
            here = clipped_gradient(rows, labels, logits, clip)
            assert here.dtype == np.int64
            assert (here == clipped_gradient(*there, logits, clip)).all()


@pytest.mark.gpu
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("shape", [(257, 9, 5), (4096, 768, 100), (5000, 64, 1000), (1, 1, 2), (0, 4, 3)])
def test_cuda_and_numpy_give_the_same_integers(size, curved, shape):
    import torch

    rows, labels, logits = problem(*shape, size, 1, curved)
    there = torch.from_numpy(rows).cuda(), torch.from_numpy(labels).cuda()
    for clip in (1e-3, 1.0):
        wanted = clipped_gradient(rows, labels, logits, clip)
        assert (clipped_gradient(*there, logits, clip) == wanted).all()
        assert wanted.any() or len(rows) < 2  # one row may be certain of its class


@steady
@given(st.lists(st.integers(0, 200), max_size=6), st.integers(0, 99))
def test_any_cut_and_any_order_give_the_same_sum(cuts, seed):
    rows, labels, logits = problem(200, curved=bool(seed % 2))
    wanted = clipped_gradient(rows, labels, logits, 1.0)
    order = np.random.default_rng(seed).permutation(200)
    parts = np.split(order, sorted(cuts))
    assert (sum(clipped_gradient(rows[part], labels[part], logits, 1.0) for part in parts) == wanted).all()


def test_a_rows_residual_is_its_own_to_the_last_bit():
    for width in (3, 64, 513):
        rows, labels, logits = problem(70, width, 7, 20.0, curved=True)
        together = residuals(rows, labels, logits)
        alone = [residuals(rows[i : i + 1], labels[i : i + 1], logits)[0] for i in range(70)]
        assert (together == np.array(alone)).all()


@pytest.mark.parametrize("size", SIZES[1:])
def test_logits_are_exact_products_rounded_once(size):
    """Against fractions; the last row points along a weight, where the product is largest."""
    rng = np.random.default_rng(3)
    linear = rng.normal(size=(4, 6)) * size
    rows = np.trunc(rng.normal(size=(20, 6)) * (ROW_NORM / 8))
    rows[-1] = np.trunc(linear[0] / np.linalg.norm(linear[0]) * ROW_NORM)
    logits = IntegerLogits.of(linear, np.zeros(4), None, ROW_NORM)
    found = logit_steps(rows, logits)
    for i, row in enumerate(rows):
        for c in range(4):
            product = sum(int(a) * int(b) for a, b in zip(row, logits.linear[c], strict=True))
            assert abs(product) < 2**52
            assert found[i, c] == round(product * Fraction(logits.linear_factor))
    assert np.abs(found / 2**10 - rows @ linear.T / ROW_NORM).max() <= 2**-10 + 1e-9 * size


@pytest.mark.parametrize("clip", [0.05, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_it_is_the_clipped_gradient_of_the_definition_up_to_the_stated_rounding(clip, classes):
    """Per row: logits are off by 2⁻¹¹ each and the softmax has slope ½; the grid takes off up to a step in
    each class. Clipping and dividing by the clip stretches an error by at most 1/clip. Rows are exact.
    """
    rng, count = np.random.default_rng(classes), 50
    rows, labels, _ = problem(count, 12, classes, seed=classes)
    weights = rng.normal(size=(classes, 12)) * 4
    found = clipped_gradient(rows, labels, IntegerLogits.of(weights, np.zeros(classes), None, ROW_NORM), clip)
    wanted = softmax.clipped_gradient(weights, rows / ROW_NORM, labels, clip) / clip
    gap = float(np.linalg.norm(found / (RESIDUAL_NORM * ROW_NORM) - wanted))
    per_row = math.sqrt(classes) * (0.5 * 2**-11 / clip + 1.0 / RESIDUAL_NORM) + 1e-5
    assert gap <= count * per_row
    assert gap <= 0.02 * float(np.linalg.norm(wanted))


@steady
@given(
    st.lists(st.one_of(st.floats(-1, 1), st.sampled_from([1.0, -1.0, 0.0, 1e-300])), min_size=2, max_size=8),
    st.sampled_from([1e-6, 0.1, 1.0, math.sqrt(2)]),
)
def test_no_clipped_residual_is_longer_than_the_grid_norm(entries, clip):
    residual = np.array([entries])
    made = residual_lattice(residual, clip)
    assert (made == np.trunc(made)).all()
    assert squared_length(made) <= RESIDUAL_NORM**2
    assert Fraction(float(norms_above(residual)[0])) ** 2 >= sum(Fraction(entry) ** 2 for entry in entries)
    length = float(np.linalg.norm(residual))
    if length >= clip:
        assert squared_length(made) ** 0.5 >= 0.999 * RESIDUAL_NORM - math.sqrt(len(entries))
    else:  # rows inside the clip keep their length relative to it
        assert squared_length(made) ** 0.5 >= 0.999 * RESIDUAL_NORM * length / clip - math.sqrt(len(entries))


def test_with_a_norm_that_is_rounded_down_the_check_fails(monkeypatch):
    """A norm taken a little short lets residuals out of the ball, which the check above would see."""
    residual = np.full((1, 5), 0.6)
    assert squared_length(residual_lattice(residual, 1.0)) <= RESIDUAL_NORM**2
    short = norms_above
    monkeypatch.setattr(kernel, "norms_above", lambda residual: short(residual) * (1 - 1e-3))
    assert squared_length(residual_lattice(residual, 1.0)) > RESIDUAL_NORM**2


def test_probabilities_are_those_of_the_softmax():
    rows, _, _ = problem(40, 6, 4)
    linear = np.random.default_rng(1).normal(size=(4, 6)) * 5
    found = probabilities(rows, IntegerLogits.of(linear, np.zeros(4), None, ROW_NORM))
    logits = rows @ linear.T / ROW_NORM
    wanted = np.exp(logits - logits.max(axis=1, keepdims=True))
    wanted /= wanted.sum(axis=1, keepdims=True)
    assert np.abs(found - wanted).max() < 2**-11
    assert np.abs(found.sum(axis=1) - 1).max() < 1e-12


def test_other_inputs_than_the_rows_can_be_multiplied_with():
    rows, labels, logits = problem(60)
    halves = np.trunc(rows[:, :3] / 2)
    grid = residual_lattice(residuals(rows, labels, logits), 1.0).astype(np.int64)
    assert (clipped_gradient(rows, labels, logits, 1.0, halves) == grid.T @ halves.astype(np.int64)).all()
