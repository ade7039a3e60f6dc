from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import logsumexp

from dptransfer.errors import ArgumentError
from dptransfer.exact import softmax as kernel
from dptransfer.exact.softmax import IntegerLogits, log_mean_softmax, logit_steps

ROW_NORM = 2**16
SIZES = [0.0, 1e-9, 1.0, 50.0, 1e6]
KINDS = ["coarse", "fine", "curved", "beside a prior"]


def logits_of(kind, linear, offset, precision):
    if kind == "beside a prior":
        prior = IntegerLogits.coarse(precision - linear, offset, ROW_NORM)
        return replace(IntegerLogits.coarse(linear, offset, ROW_NORM), beside=prior)
    if kind == "coarse":
        return IntegerLogits.coarse(linear, offset, ROW_NORM)
    return IntegerLogits.of(linear, offset, precision if kind == "curved" else None, ROW_NORM)


def problem(count=257, width=9, classes=5, size=3.0, seed=0, kind="coarse"):
    """Integer rows as floats, labels, and a head of weights of about this size."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, width))
    rows = np.trunc(x * (ROW_NORM * (1 - 2**-20) / np.linalg.norm(x, axis=1, keepdims=True)))
    labels = rng.integers(0, classes, count)
    precision = np.abs(rng.normal(size=(classes, width))) * size
    linear, offset = rng.normal(size=(classes, width)) * size, rng.normal(size=classes) * size
    return rows, labels, logits_of(kind, linear, offset, precision)


@pytest.mark.parametrize("size", SIZES[1:])
def test_logits_are_exact_products_rounded_once(size):
    """Against fractions; the last row points along a weight, where the product is largest."""
    rng = np.random.default_rng(3)
    linear = rng.normal(size=(4, 6)) * size
    rows = np.trunc(rng.normal(size=(20, 6)) * (ROW_NORM / 8))
    rows[-1] = np.trunc(linear[0] / np.linalg.norm(linear[0]) * ROW_NORM)
    logits = IntegerLogits.of(linear, np.zeros(4), None, ROW_NORM)
    found = logit_steps(rows, logits).T
    for i, row in enumerate(rows):
        for c in range(4):
            product = sum(int(a) * int(b) for a, b in zip(row, logits.linear[c], strict=True))
            assert abs(product) < 2**52
            assert found[i, c] == round(product * Fraction(logits.linear_factor))
    assert np.abs(found / 2**10 - rows @ linear.T / ROW_NORM).max() <= 2**-10 + 1e-9 * size


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("width", [1, 400, 2**14])
def test_coarse_logits_are_exact_products_of_rounded_rows_and_near_the_fine_ones(size, width):
    """In float32 and any order; the last rows point along weights, where products are largest."""
    rng = np.random.default_rng(3)
    linear = rng.normal(size=(4, width)) * size
    x = np.concatenate([rng.normal(size=(12, width)), linear, -linear])
    rows = np.trunc(x * (ROW_NORM * (1 - 2**-20) / np.linalg.norm(x, axis=1, keepdims=True)))
    logits = IntegerLogits.coarse(linear, np.zeros(4), ROW_NORM)
    assert logits.linear.dtype == np.float32
    coarse = np.rint(rows / 2**5).astype(np.int64)
    products = coarse @ logits.linear.T.astype(np.int64)
    # Every partial sum is at most the sum of the absolute values' products, by norm.
    reach = np.linalg.norm(coarse, axis=1).max() * np.linalg.norm(logits.linear, axis=1).max()
    assert np.abs(products).max() <= reach < 2**24
    for order in (np.arange(width), rng.permutation(width)):
        shuffled = replace(logits, linear=np.ascontiguousarray(logits.linear[:, order]))
        found = logit_steps(np.ascontiguousarray(rows[:, order]), shuffled).T
        assert (found == np.rint(products * logits.linear_factor)).all()
    longest = np.linalg.norm(linear, axis=1).max()
    assert np.abs(found / 2**10 - rows @ linear.T / ROW_NORM).max() <= 2**-11 + 6 * 2**-12 * longest


def test_a_finer_grid_would_not_be_exact_in_float32(monkeypatch):
    """The half that can fail: with norms of 2¹⁵ and 2¹⁶ the order of a float32 sum shows."""
    monkeypatch.setattr(kernel, "_COARSE_ROW_NORM", 2**15)
    monkeypatch.setattr(kernel, "_COARSE_LINEAR_NORM", 2**16)
    rows, _, logits = problem(50, 400, size=30.0)
    coarse = np.rint(rows / 2).astype(np.int64)
    products = coarse @ logits.linear.T.astype(np.int64)
    assert (kernel._coarse_product(rows, logits).T != products).any()


@pytest.mark.parametrize("classes", [1, 3, 1000, 2**14])
def test_squares_of_a_tables_largest_entries_add_up_exactly(classes):
    table = kernel._table(classes)
    assert classes * int(table[0]) ** 2 <= 2**52
    assert table[0] >= 2**19
    assert (table == np.rint(table)).all()
    assert table[-1] == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_a_coefficient_that_is_not_finite_is_refused_before_any_row_is_seen(kind, bad):
    fine = np.ones((3, 4))
    for place in range(3):
        parts = [fine.copy(), np.ones(3), fine.copy()]
        parts[place].flat[2] = bad
        if place < 2 or kind == "curved":
            with pytest.raises(ArgumentError, match="must be finite"):
                logits_of(kind, *parts)


def test_a_softmax_of_depths_is_the_same_for_a_row_alone_and_among_others():
    depths = np.abs(np.random.default_rng(2).normal(size=(5, 301))) * 10
    depths -= depths.min(axis=0)
    found = kernel.softmax(depths)
    wanted = np.exp(-depths) / np.exp(-depths).sum(axis=0)
    assert np.abs(found - wanted).max() < 2**-10
    for i in range(301):
        assert (kernel.softmax(depths[:, i : i + 1])[:, 0] == found[:, i]).all()
    assert kernel.softmax(np.array([[0.0], [np.inf]])).tolist() == [[1.0], [0.0]]


def depths(classes, rows, spread, seed):
    logits = np.random.default_rng([classes, seed]).normal(size=(classes, rows)) * spread
    return logits.max(axis=0) - logits


@pytest.mark.parametrize("classes", [1, 2, 10, 1000])
@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0])
def test_log_mean_softmax_is_the_logarithm_of_the_mean(classes, spread):
    first, second = depths(classes, 50, spread, 0), depths(classes, 50, spread, 1)
    logs = [-one - logsumexp(-one, axis=0) for one in (first, second)]
    wanted = np.logaddexp(*logs) - np.log(2)
    found = log_mean_softmax(first, second)
    likely = wanted > np.log(1e-5)
    assert np.abs(found - wanted)[likely].max() < 1e-6
    if spread:
        assert np.abs(found - logs[0])[likely].max(initial=0) > 1e-3 or classes == 1


def test_a_rows_average_is_the_same_to_the_last_bit_in_any_company():
    first, second = depths(37, 501, 4.0, 2), depths(37, 501, 4.0, 3)
    whole = log_mean_softmax(first, second)
    for place in range(0, 501, 50):
        alone = log_mean_softmax(first[:, place : place + 1].copy(), second[:, place : place + 1].copy())
        assert (alone[:, 0] == whole[:, place]).all()
    order = np.random.default_rng(0).permutation(501)
    assert (log_mean_softmax(first[:, order], second[:, order]) == whole[:, order]).all()


def test_what_neither_holds_possible_has_a_finite_score():
    far = np.array([[0.0], [1e300]])
    found = log_mean_softmax(far, far)
    assert np.isfinite(found).all()
    assert found[0, 0] == pytest.approx(0, abs=1e-9)
    assert found[1, 0] < -20
