import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import squared_length, steady
from dptransfer.exact import sums as exact_sums
from dptransfer.exact.sums import (
    add_by_class,
    alike,
    by_size,
    class_sums_on_cuda,
    group_rows,
    group_sums,
    group_sums_there,
    inner_products,
    norms_by_pairs,
    person_norms,
    scaled_down,
    whole_people,
)

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
    beyond = class_sums_on_cuda(np.full((3, 1), 2**60 + 1), np.zeros(3, dtype=np.int64), 1)
    assert beyond[0, 0] == 3 * (2**60 + 1)  # which no float holds
    halves = class_sums_on_cuda(rows, labels, len(sizes), lambda some: some[:, :3] // 2)
    want = np.zeros((len(sizes), 3), dtype=np.int64)
    add_by_class(want, rows[:, :3] // 2, labels)
    assert (halves == want).all()


# Sums of persons

NUMBERS = st.lists(st.integers(0, 12), max_size=60).map(lambda drawn: np.array(drawn, dtype=np.int64))


def labels_for(whose, seed=0):
    return np.random.default_rng(seed).integers(0, 4, len(whose))


@steady
@given(NUMBERS)
def test_grouped_rows_are_those_of_one_person_and_class(whose):
    labels = labels_for(whose)
    groups = group_rows(whose, labels)
    assert sorted(groups.order.tolist()) == list(range(len(whose)))
    seen = []
    for person in range(len(groups.firsts) - 1):
        for group in range(groups.firsts[person], groups.firsts[person + 1]):
            own = groups.order[groups.starts[group] : groups.starts[group + 1]]
            assert len({(int(whose[i]), int(labels[i])) for i in own}) == 1
            assert (labels[own] == groups.classes[group]).all()
        seen.append(int(whose[own[0]]))
    assert seen == sorted(set(whose.tolist()))
    assert groups.sizes.sum() == len(whose)


@steady
@given(NUMBERS)
def test_by_size_puts_those_with_few_rows_first_and_keeps_persons_together(whose):
    groups = by_size(whose)
    assert sorted(groups.order.tolist()) == list(range(len(whose)))
    assert (np.diff(groups.sizes) >= 0).all()
    for start, stop in zip(groups.starts, groups.starts[1:], strict=False):
        own = whose[groups.order[start:stop]]
        assert len(own) == (whose == own[0]).sum()
    runs = list(alike(groups.sizes))
    assert [len(set(groups.sizes[start:stop].tolist())) for start, stop in runs] == [1] * len(runs)
    assert sum(stop - start for start, stop in runs) == len(groups.sizes)
    few, many = groups.up_to(3)
    assert few.sizes.max(initial=0) <= 3 < many.sizes.min(initial=4)
    assert len(few.order) + len(many.order) == len(whose)


@steady
@given(NUMBERS, st.integers(1, 70))
def test_parts_hold_whole_persons_and_all_of_them(whose, step):
    for groups in (by_size(whose), group_rows(whose, labels_for(whose))):
        parts = list(whole_people(groups, step))
        members = [set(whose[part.order].tolist()) for part in parts]
        assert sum(map(len, members)) == len(set(whose.tolist()))
        assert sum(len(part.order) for part in parts) == len(whose)
        assert all(len(part.order) - part.sizes[-1] < step for part in parts)


def people_problem(whose, width=5, seed=0, largest=2**30):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-largest, largest, (len(whose), width)) // math.isqrt(width + 1)
    return rows, labels_for(whose)


@steady
@given(NUMBERS, st.integers(1, 9))
def test_group_sums_are_those_of_python_integers(whose, chunk):
    rows, labels = people_problem(whose)
    groups = group_rows(whose, labels)
    kept, exact_sums._CHUNK_ELEMENTS = exact_sums._CHUNK_ELEMENTS, chunk
    try:
        found = group_sums(lambda own: rows[own], groups, 5)
    finally:
        exact_sums._CHUNK_ELEMENTS = kept
    for group, sums in enumerate(found):
        own = groups.order[groups.starts[group] : groups.starts[group + 1]]
        assert sums.tolist() == [sum(int(v) for v in rows[own, j]) for j in range(5)]


@steady
@given(NUMBERS, st.sampled_from([0.3, 1.0, 2.5, 100.0]), st.integers(0, 9))
def test_nobody_is_longer_than_allowed_and_nobody_is_cut_without_need(whose, bound, seed):
    rows, labels = people_problem(whose, seed=seed)
    groups = group_rows(whose, labels)
    sums = group_sums(lambda own: rows[own], groups, 5)
    bounded = scaled_down(sums, groups, 2**30, bound * 2**30)
    norms = person_norms(sums, groups, 2**30) if len(whose) else np.zeros(0)
    for person, norm in enumerate(norms):
        own = slice(groups.firsts[person], groups.firsts[person + 1])
        exact = squared_length(sums[own])
        assert exact <= Fraction(float(norm)) ** 2 <= (1 + Fraction(1, 10**6)) * exact + 10**6
        assert squared_length(bounded[own]) <= Fraction(bound * 2**30) ** 2
        if norm <= bound * 2**30:
            assert (bounded[own] == sums[own]).all()
        else:
            assert squared_length(bounded[own]) >= 0.999 * (bound * 2**30) ** 2


def test_norms_hold_for_sums_of_very_many_rows():
    """2²⁸ rows of 2³⁰ along one axis: squares of such sums do not fit int64, and their upper bits do."""
    groups = exact_sums.Groups(
        np.zeros(0, dtype=np.int64), np.array([0, 2**28]), np.zeros(1), np.array([0, 1])
    )
    sums = np.array([[2**58, -(2**58) + 1]])
    norm = float(person_norms(sums, groups, 2**30)[0])
    assert squared_length(sums) <= Fraction(norm) ** 2 <= 1.001 * squared_length(sums)


@steady
@given(st.integers(1, 64), st.integers(1, 4), st.integers(0, 99), st.sampled_from(["any", "equal", "cancel"]))
def test_norms_by_pairs_are_just_above_the_exact_ones(rows, persons, seed, kind):
    rng = np.random.default_rng(seed)
    one, other = (np.trunc(rng.normal(size=(persons, rows, 3)) * 2.0**18) for _ in range(2))
    if kind != "any":
        one[:], other[:] = one[:, :1], other[:, :1]
    if kind == "cancel":
        one[:, ::2] *= -1
    longest = 2.0 ** math.ceil(math.log2(float(np.abs(one).max() * np.abs(other).max()) * 3 + 1))
    found = norms_by_pairs(inner_products(one), inner_products(other), longest)
    for u, v, norm in zip(one.astype(object), other.astype(object), found, strict=True):
        exact = sum(int(entry) ** 2 for entry in (u.T @ v).ravel())
        slack = Fraction(longest) ** 2 * rows**4 / 2**48
        assert exact <= Fraction(float(norm)) ** 2 <= (exact + slack) * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("shape", [(3, 1, 4), (2, 2, 7), (5, 6, 1), (1, 40, 30)])
def test_inner_products_are_those_of_the_definition(shape):
    vectors = np.random.default_rng(0).integers(-(2**16), 2**16, shape).astype(np.float64)
    wanted = np.einsum("kid,kjd->kij", vectors.astype(np.int64), vectors.astype(np.int64))
    assert (inner_products(vectors) == wanted).all()
    turned = np.asfortranarray(vectors.transpose(2, 0, 1)).transpose(1, 2, 0)
    assert (inner_products(turned) == wanted).all()


@steady
@given(NUMBERS, st.integers(0, 9))
def test_tensors_give_the_same_integers(whose, seed):
    torch = pytest.importorskip("torch")
    rows, labels = people_problem(whose, seed=seed)
    groups = group_rows(whose, labels)
    sums = group_sums(lambda own: rows[own], groups, 5)
    there = group_sums_there(lambda own: torch.from_numpy(rows[own]), groups, 5, "cpu")
    assert (there.numpy() == sums).all()
    if len(whose):
        wanted = scaled_down(sums, groups, 2**30, 1.7 * 2**30)
        assert (scaled_down(there, groups, 2**30, 1.7 * 2**30).numpy() == wanted).all()
        vectors = (rows // 2**14).astype(np.float64).reshape(1, -1, 5)
        here, away = inner_products(vectors), inner_products(torch.from_numpy(vectors))
        assert (here == away.numpy()).all()
        assert (
            norms_by_pairs(here.copy(), here, 2.0**40) == norms_by_pairs(away.clone(), away, 2.0**40)
        ).all()
