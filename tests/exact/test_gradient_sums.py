import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import squared_length, steady
from dptransfer.exact import gradient_sums as kernel
from dptransfer.exact import softmax as exact_softmax
from dptransfer.exact.gradient_sums import (
    RESIDUAL_NORM,
    Residuals,
    clipped_gradient,
    norms_above,
    residual_lattice,
    residuals,
    whole_numbers,
)
from dptransfer.exact.softmax import probabilities
from dptransfer.methods.heads import start as softmax

from .test_exact_softmax import KINDS, ROW_NORM, SIZES, logits_of, problem


def as_floats(residual):
    """(rows, classes) residuals, entries in [−1, 1]."""
    whole = residual.others.copy()
    whole[residual.labels, np.arange(whole.shape[1])] = -residual.short
    return (whole / residual.total).T


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_numpy_and_torch_give_the_same_integers(size, kind):
    torch = pytest.importorskip("torch")
    for seed, (count, width, classes) in enumerate([(257, 9, 5), (1, 1, 2), (64, 130, 31), (0, 4, 3)]):
        rows, labels, logits = problem(count, width, classes, size, seed, kind)
        there = torch.from_numpy(rows), torch.from_numpy(labels)
        for clip in (1e-3, 0.7, 1.0, 2.0):
            here = clipped_gradient(rows, labels, logits, clip)
            assert (whole_numbers(here) == here).all()
            assert (here == whole_numbers(clipped_gradient(*there, logits, clip))).all()


@pytest.mark.gpu
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(257, 9, 5), (4096, 768, 100), (5000, 64, 1000), (1, 1, 2), (0, 4, 3)])
def test_cuda_and_numpy_give_the_same_integers(size, kind, shape):
    import torch

    rows, labels, logits = problem(*shape, size, 1, kind)
    there = torch.from_numpy(rows).cuda(), torch.from_numpy(labels).cuda()
    for clip in (1e-3, 1.0):
        wanted = clipped_gradient(rows, labels, logits, clip)
        assert (whole_numbers(clipped_gradient(*there, logits, clip)) == wanted).all()
        assert wanted.any() or len(rows) < 2  # one row may be certain of its class


@steady
@given(st.lists(st.integers(0, 200), max_size=6), st.integers(0, 99))
def test_any_cut_and_any_order_give_the_same_sum(cuts, seed):
    rows, labels, logits = problem(200, kind=KINDS[seed % 4])
    wanted = clipped_gradient(rows, labels, logits, 1.0)
    order = np.random.default_rng(seed).permutation(200)
    parts = np.split(order, sorted(cuts))
    assert (sum(clipped_gradient(rows[part], labels[part], logits, 1.0) for part in parts) == wanted).all()


def test_a_rows_residual_is_its_own_to_the_last_bit():
    for width, kind in itertools.product((3, 64, 513), KINDS):
        rows, labels, logits = problem(70, width, 7, 20.0, kind=kind)
        together = residual_lattice(residuals(rows, labels, logits), 0.9).T
        for i in range(70):
            alone = residual_lattice(residuals(rows[i : i + 1], labels[i : i + 1], logits), 0.9)
            assert (together[i] == alone[:, 0]).all()


def test_torch_is_exact_though_told_to_multiply_with_fewer_bits():
    torch = pytest.importorskip("torch")
    rows, labels, logits = problem(300, 200, size=30.0)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        found = clipped_gradient(torch.from_numpy(rows), torch.from_numpy(labels), logits, 1.0)
    finally:
        torch.set_float32_matmul_precision(before)
    assert (whole_numbers(found) == clipped_gradient(rows, labels, logits, 1.0)).all()


@pytest.mark.parametrize("clip", [0.05, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("kind", ["coarse", "fine"])
def test_it_is_the_clipped_gradient_of_the_definition_up_to_the_stated_rounding(clip, classes, kind):
    """Per row: logits are off by 2⁻¹¹ each, coarse ones by 2⁻¹¹ of the weights' norm too, and the softmax has
    slope ½; the grid takes off up to a step in each class. Clipping and dividing by the clip stretches an
    error by at most 1/clip. Rows are exact.
    """
    rng, count = np.random.default_rng(classes), 50
    rows, labels, _ = problem(count, 12, classes, seed=classes)
    weights = rng.normal(size=(classes, 12)) * 4
    logits = logits_of(kind, weights, np.zeros(classes), None)
    found = clipped_gradient(rows, labels, logits, clip)
    wanted = softmax.clipped_gradient(weights, rows / ROW_NORM, labels, clip) / clip
    gap = float(np.linalg.norm(found / (RESIDUAL_NORM * ROW_NORM) - wanted))
    off = 2**-11 * (1 + np.linalg.norm(weights, axis=1).max() * (kind == "coarse"))
    per_row = math.sqrt(classes) * (0.5 * off / clip + 1.0 / RESIDUAL_NORM) + 1e-5
    assert gap <= count * per_row
    assert gap <= 0.02 * float(np.linalg.norm(wanted))


def made_of(weights, label):
    """The residual of one row with these exponentials; the largest is what exp(0) is in the table."""
    whole = np.array(weights, dtype=np.float64)
    whole[int(whole.argmax())] = exact_softmax._table(len(whole))[0]
    others, total = whole[:, None].copy(), whole[None].sum(axis=1)
    others[label] = 0.0
    return Residuals(others, total - whole[label], total, np.array([label]))


@steady
@given(
    st.lists(st.one_of(st.integers(0, 2**19), st.sampled_from([0, 1, 2**19])), min_size=2, max_size=40),
    st.integers(0, 39),
    st.sampled_from([1e-6, 0.1, 1.0, math.sqrt(2)]),
)
def test_no_clipped_residual_is_longer_than_the_grid_norm(weights, label, clip):
    residual = made_of(weights, label % len(weights))
    entries = [Fraction(float(entry)) for entry in as_floats(residual)[0] * residual.total]
    squares = sum(entry**2 for entry in entries) / Fraction(float(residual.total[0])) ** 2
    above = float(norms_above(residual)[0])
    assert squares <= Fraction(above) ** 2 <= squares * (1 + Fraction(1, 10**9))
    made = residual_lattice(residual, clip)
    assert (made == np.trunc(made)).all()
    assert squared_length(made[:, 0]) <= RESIDUAL_NORM**2
    # Clipped ones fill the ball, and those inside the clip keep their length relative to it.
    wanted = RESIDUAL_NORM * min(1.0, math.sqrt(squares) / clip)
    assert squared_length(made[:, 0]) ** 0.5 >= 0.999 * wanted - math.sqrt(len(weights))


def test_with_a_norm_that_is_rounded_down_the_check_fails(monkeypatch):
    """A norm taken a little short lets residuals out of the ball, which the check above would see."""
    rows, labels, logits = problem(50, size=50.0)

    def longest():
        made = residual_lattice(residuals(rows, labels, logits), 0.1)
        return max(squared_length(column) for column in made.T)

    assert longest() <= RESIDUAL_NORM**2
    short = norms_above
    monkeypatch.setattr(kernel, "norms_above", lambda residual: short(residual) * (1 - 1e-3))
    assert longest() > RESIDUAL_NORM**2


def test_other_inputs_than_the_rows_can_be_multiplied_with():
    rows, labels, logits = problem(60)
    halves = np.trunc(rows[:, :3] / 2)
    grid = residual_lattice(residuals(rows, labels, logits), 1.0).astype(np.int64)
    assert (clipped_gradient(rows, labels, logits, 1.0, halves) == grid @ halves.astype(np.int64)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-300, 1e19, 1e30, 3e35, 1e37, 1e60, 1e150, 1e200, 1e307])
def test_a_head_of_any_finite_size_has_a_gradient_within_the_bound(kind, size):
    """Logits that leave float32, or squares that leave float64, would be NaN, and no place in the table."""
    rows, labels, _ = problem(60)
    rng = np.random.default_rng(5)
    linear, offset = rng.normal(size=(5, 9)) * size, rng.normal(size=5) * size
    linear[0], offset[1] = 0.0, 0.0
    with np.errstate(all="raise", under="ignore"):
        logits = logits_of(kind, linear, offset, np.abs(linear))
        whole = clipped_gradient(rows, labels, logits, 1.0)
        alone = [clipped_gradient(rows[i : i + 1], labels[i : i + 1], logits, 1.0) for i in range(60)]
    assert (sum(alone) == whole).all()
    assert max(squared_length(one) for one in alone) <= (RESIDUAL_NORM * ROW_NORM) ** 2
    if size > 1e6:  # every row is sure of one class: that of the largest logit
        score = (linear / size) @ (rows.T / ROW_NORM) + (offset / size)[:, None]
        score -= 0.5 * (np.abs(linear) / size) @ (rows.T / ROW_NORM) ** 2 if kind == "curved" else 0.0
        gap = np.diff(np.sort(score, axis=0)[-2:], axis=0)[0]
        assert (probabilities(rows, logits).argmax(axis=0) == score.argmax(axis=0))[gap > 0.01].all()
        assert (probabilities(rows, logits).max(axis=0) > 0.999)[gap > 0.01].all()
