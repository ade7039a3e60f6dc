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
    FINE_RESIDUAL_NORM,
    RESIDUAL_NORM,
    DeviceSample,
    PersonGradients,
    Residuals,
    clipped_gradient,
    norms_above,
    residual_lattice,
    residuals,
    whole_numbers,
)
from dptransfer.exact.lattice import unit_lattice
from dptransfer.exact.softmax import IntegerLogits, probabilities
from dptransfer.exact.sums import by_size

from .problems import DEVICES
from .test_softmax import KINDS, ROW_NORM, SIZES, logits_of, problem


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def as_floats(residual):
    """(rows, classes) residuals, entries in [−1, 1]."""
    whole = residual.others.copy()
    whole[residual.labels, np.arange(whole.shape[1])] = -residual.short
    return (whole / residual.total).T


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_numpy_and_torch_give_the_same_integers(torch, size, kind):
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
def test_cuda_and_numpy_give_the_same_integers(torch, size, kind, shape):
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


def test_torch_is_exact_though_told_to_multiply_with_fewer_bits(torch):
    rows, labels, logits = problem(300, 200, size=30.0)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        found = clipped_gradient(torch.from_numpy(rows), torch.from_numpy(labels), logits, 1.0)
    finally:
        torch.set_float32_matmul_precision(before)
    assert (whole_numbers(found) == clipped_gradient(rows, labels, logits, 1.0)).all()


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-300, 1e19, 1e37, 1e150, 1e307])
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


# What persons may add

PERSON_WIDTH = 5


def person_problem(count, classes, seed=0, spread=1.0):
    """Rows about one direction, the nearer the smaller the spread: then a person's gradients add up."""
    rng = np.random.default_rng(seed)
    x = np.eye(PERSON_WIDTH)[0] + spread * rng.normal(size=(count, PERSON_WIDTH))
    rows = np.trunc(x * (ROW_NORM * (1 - 2**-20) / np.linalg.norm(x, axis=1, keepdims=True)))
    logits = IntegerLogits.coarse(rng.normal(size=(classes, PERSON_WIDTH)), np.zeros(classes), ROW_NORM)
    return rows, rng.integers(0, classes, count), logits


def person_gradients(rows, labels, logits, examples=1.0, clip=0.7):
    shape = len(logits.offset), PERSON_WIDTH

    def read(own):
        return rows[own], labels[own], rows[own]

    return PersonGradients(read, logits, clip, shape, ROW_NORM, examples)


def exact_gradient(rows, labels, logits, clip=0.7):
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
    rows, labels, logits = person_problem(count, classes, seed, spread)
    asked, alone = person_gradients(rows, labels, logits, examples), by_size(np.zeros(count, dtype=np.int64))
    whole, found = exact_gradient(rows, labels, logits), asked.bounded(alone)
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
    rows, labels, logits = person_problem(5000, classes)
    asked, alone = person_gradients(rows, labels, logits), by_size(np.zeros(5000, dtype=np.int64))
    assert (asked._whole(alone).reshape(classes, PERSON_WIDTH) == exact_gradient(rows, labels, logits)).all()
    wanted, seen = asked.bounded(alone), []
    monkeypatch.setattr(kernel, "_WHOLE_ELEMENTS", 70 * PERSON_WIDTH)

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
    rows, labels, logits = person_problem(40, classes, spread=0.1)
    asked, alone = person_gradients(rows, labels, logits), by_size(np.zeros(40, dtype=np.int64))
    assert squared_length(asked.bounded(alone)) <= asked.longest**2
    if route == "by pairs":
        honest = kernel.norms_by_pairs
        monkeypatch.setattr(kernel, "norms_by_pairs", lambda *given: honest(*given) / 40)
    else:
        monkeypatch.setattr(kernel, "scaled_down", lambda sums, *_: sums)
    assert squared_length(asked.bounded(alone)) > asked.longest**2


@pytest.mark.gpu
@pytest.mark.parametrize("classes", [2, 24, 100])
def test_cuda_and_numpy_give_the_same_integers_of_persons(torch, classes):
    rows, labels, logits = person_problem(20_000, classes, spread=0.5)
    rng = np.random.default_rng(1)
    groups = by_size(np.where(rng.random(20_000) < 0.1, 0, rng.integers(1, 3000, 20_000)))
    there = torch.from_numpy(rows).cuda(), torch.from_numpy(labels).cuda()

    def read(own):
        chosen = torch.from_numpy(own).cuda()
        return there[0][chosen], there[1][chosen], there[0][chosen]

    here = person_gradients(rows, labels, logits, 1.3)
    asked = PersonGradients(read, logits, 0.7, here.shape, ROW_NORM, 1.3)
    assert (asked.bounded(groups) == here.bounded(groups)).all()
    assert (asked.norms(groups) == here.norms(groups)).all()


# Samples on a device, whose gradient is recorded; on a CPU the same steps run as they are


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("first", "clip", "can_be_recorded"), [(0, 0.3, True), (3, 1.0, True), (700, 1.0, False)]
)
def test_a_recorded_gradient_is_that_of_the_sample_alone(
    torch, device, first, clip, can_be_recorded, monkeypatch
):
    if not can_be_recorded:
        monkeypatch.setattr(kernel.cuda, "record_graph", lambda step, *_: step)
    rng, recorded = np.random.default_rng(0), {}
    x = unit_lattice(rng.normal(size=(1500, 40)), ROW_NORM).astype(np.float64)
    y = rng.integers(0, 7, 1500)
    there = [torch.from_numpy(part).to(device) for part in (x, y)]
    for size in (first, 1, 255, 256, 257, 1500):  # smaller and larger than what was recorded
        logits = IntegerLogits.coarse(rng.normal(size=(7, 40)) * 9, np.zeros(7), ROW_NORM)
        own = np.sort(rng.choice(1500, size, replace=False))
        found = DeviceSample(*there, own, recorded).recorded_gradient(logits, clip)
        assert (found == whole_numbers(clipped_gradient(x[own], y[own], logits, clip))).all()
        assert found.dtype == np.int64
    assert len(recorded) == 1


def test_what_is_recorded_for_one_clip_or_some_rows_is_not_used_for_others(torch):
    logits, recorded, own = IntegerLogits.coarse(np.zeros((2, 1)), np.zeros(2), ROW_NORM), {}, np.array([0])
    x, y = torch.ones((2, 1), dtype=torch.float64) * ROW_NORM, torch.tensor([0, 1])
    found = [
        DeviceSample(rows, labels, own, recorded).recorded_gradient(logits, 1.0)[0, 0]
        for rows, labels in ((x, y), (x / 2, y), (x / 2, 1 - y), (x, y))
    ]
    assert found[0] == 2 * found[1] == -2 * found[2] == found[3] < 0
    narrow = DeviceSample(x, y, own, recorded).recorded_gradient(logits, 0.1)
    assert narrow[0, 0] < found[0]  # in steps of its clip
    assert len(recorded) == 2
