from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import squared_length, steady
from dptransfer.exact import gradient_sums as kernel
from dptransfer.exact.gradient_sums import FINE_RESIDUAL_NORM, PersonGradients, residual_lattice, residuals
from dptransfer.exact.softmax import IntegerLogits
from dptransfer.exact.sums import by_size

ROW_NORM = 2**16
WIDTH = 5


def problem(count, classes, seed=0, spread=1.0):
    """Rows about one direction, the nearer the smaller the spread: then a person's gradients add up."""
    rng = np.random.default_rng(seed)
    x = np.eye(WIDTH)[0] + spread * rng.normal(size=(count, WIDTH))
    rows = np.trunc(x * (ROW_NORM * (1 - 2**-20) / np.linalg.norm(x, axis=1, keepdims=True)))
    logits = IntegerLogits.coarse(rng.normal(size=(classes, WIDTH)), np.zeros(classes), ROW_NORM)
    return rows, rng.integers(0, classes, count), logits


def gradients(rows, labels, logits, examples=1.0, clip=0.7):
    shape = len(logits.offset), WIDTH

    def read(own):
        return rows[own], labels[own], rows[own]

    return PersonGradients(read, logits, clip, shape, ROW_NORM, examples)


def exact(rows, labels, logits, clip=0.7):
    """A person's gradient in Python integers."""
    grid = residual_lattice(residuals(rows, labels, logits), clip, FINE_RESIDUAL_NORM)
    return np.array(grid.astype(np.int64).astype(object) @ rows.astype(np.int64).astype(object))


@steady
@given(
    st.sampled_from([1, 2, 3, 5, 40, 64, 65, 130]),
    st.sampled_from([2, 24, 100]),
    st.integers(0, 99),
    st.sampled_from([0.0, 0.1, 3.0]),
    st.sampled_from([0.3, 1.0, 2.5, 70.0]),
)
def test_a_person_is_within_the_bound_and_close_to_it_and_whole_if_there_is_no_need(
    count, classes, seed, spread, examples
):
    rows, labels, logits = problem(count, classes, seed, spread)
    asked, alone = gradients(rows, labels, logits, examples), by_size(np.zeros(count, dtype=np.int64))
    whole, found = exact(rows, labels, logits), asked.bounded(alone)
    most = Fraction(examples) * asked.longest
    assert squared_length(found) <= most**2
    (norm,) = asked.norms(alone)
    assert squared_length(whole) <= Fraction(float(norm)) ** 2
    assert float(norm) ** 2 <= squared_length(whole) * (1 + 1e-6) + 1e-6 * asked.longest**2
    if norm < 0.99 * float(most) or count <= examples:
        assert (found == whole).all()
    else:
        assert squared_length(found) >= min(0.98 * most**2, 0.98 * squared_length(whole))


@pytest.mark.parametrize("classes", [2, 24])
def test_a_person_with_all_rows_comes_in_pieces_of_the_same_sum(monkeypatch, classes):
    rows, labels, logits = problem(5000, classes)
    asked, alone = gradients(rows, labels, logits), by_size(np.zeros(5000, dtype=np.int64))
    assert (asked._whole(alone).reshape(classes, WIDTH) == exact(rows, labels, logits)).all()
    wanted, seen = asked.bounded(alone), []
    monkeypatch.setattr(kernel, "_WHOLE_ELEMENTS", 70 * WIDTH)

    def read(own):
        seen.append(len(own))
        return rows[own], labels[own], rows[own]

    pieces = PersonGradients(read, logits, 0.7, asked.shape, ROW_NORM, 1.0)
    assert (pieces.bounded(alone) == wanted).all()
    assert max(seen) == 70


def test_products_of_as_many_rows_as_there_may_be_are_exact():
    """All partial sums are below 2⁵³."""
    assert kernel.MOST_PERSON_ROWS * FINE_RESIDUAL_NORM * ROW_NORM <= 2**52


@pytest.mark.parametrize("route", ["by pairs", "as a whole"])
def test_without_the_bound_on_persons_the_check_fails(monkeypatch, route):
    """A planted bug: what rows add is bounded one by one."""
    classes = 24 if route == "by pairs" else 2
    rows, labels, logits = problem(40, classes, spread=0.1)
    asked, alone = gradients(rows, labels, logits), by_size(np.zeros(40, dtype=np.int64))
    assert squared_length(asked.bounded(alone)) <= asked.longest**2
    if route == "by pairs":
        honest = kernel.norms_by_pairs
        monkeypatch.setattr(kernel, "norms_by_pairs", lambda *given: honest(*given) / 40)
    else:
        monkeypatch.setattr(kernel, "scaled_down", lambda sums, *_: sums)
    assert squared_length(asked.bounded(alone)) > asked.longest**2


@pytest.mark.gpu
@pytest.mark.parametrize("classes", [2, 24, 100])
def test_cuda_and_numpy_give_the_same_integers(classes):
    import torch

    rows, labels, logits = problem(20_000, classes, spread=0.5)
    rng = np.random.default_rng(1)
    groups = by_size(np.where(rng.random(20_000) < 0.1, 0, rng.integers(1, 3000, 20_000)))
    there = torch.from_numpy(rows).cuda(), torch.from_numpy(labels).cuda()

    def read(own):
        chosen = torch.from_numpy(own).cuda()
        return there[0][chosen], there[1][chosen], there[0][chosen]

    here = gradients(rows, labels, logits, 1.3)
    asked = PersonGradients(read, logits, 0.7, here.shape, ROW_NORM, 1.3)
    assert (asked.bounded(groups) == here.bounded(groups)).all()
    assert (asked.norms(groups) == here.norms(groups)).all()
