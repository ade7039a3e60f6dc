from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import LARGEST, row, rows, squared_length, steady
from dptransfer.errors import ArgumentError
from dptransfer.exact import chunks
from dptransfer.exact.lattice import (
    GRAIN,
    clipped_lattice,
    coordinate_bits,
    grains,
    require_exact_norms,
    unit_lattice,
)

NORMS = st.sampled_from([1, 2, 3, 127, 2047, 1000, 2**26, 2**30])


def stays_within(make, array, norm):
    """The bound itself, in Python integers."""
    return all(squared_length(made) <= norm**2 for made in make(array, norm))


@steady
@given(rows(4), NORMS)
def test_every_integer_row_is_within_the_norm_exactly(array, norm):
    assert stays_within(unit_lattice, array, norm)


@steady
@given(rows(3), NORMS, st.sampled_from([1e-300, 1e-9, 0.3, 1.0, 17.0, 1e300, LARGEST]))
def test_every_clipped_integer_row_is_within_the_norm_exactly(array, norm, clip):
    assert stays_within(lambda some, to: clipped_lattice(some, to, clip=clip), array, norm)


@pytest.mark.parametrize("dimension", [1, 2, 8191, 8192, 2**14])
@pytest.mark.parametrize("value", [LARGEST, 2.0**1023, 1.0, 5e-324])
def test_the_widest_rows_of_the_largest_numbers_stay_within_the_norm(dimension, value):
    array = np.full((1, dimension), value)
    assert stays_within(unit_lattice, array, 2**30)
    assert value < 1 or squared_length(unit_lattice(array, 2**30)[0]) >= (0.999 * 2**30) ** 2


def to_nearest(array, norm):
    """A planted bug: rounding to nearest can lengthen a row."""
    return np.rint(array * (norm / np.linalg.norm(array, axis=1, keepdims=True)))


def with_float_norm(array, norm):
    """A planted bug: squares of small entries underflow, so the float norm is too small."""
    with np.errstate(all="ignore"):
        return np.trunc(np.nan_to_num(array * (norm / np.linalg.norm(array, axis=1, keepdims=True))))


def test_the_bound_catches_rounding_to_nearest_and_a_float_norm():
    array = np.random.default_rng(0).normal(size=(50, 8))
    assert stays_within(unit_lattice, array, 1000)
    assert not stays_within(to_nearest, array, 1000)
    tiny = np.array([[3e-163, 4e-163, 1e-165]])
    assert stays_within(unit_lattice, tiny, 1000)
    assert not stays_within(with_float_norm, tiny, 1000)


def does_not_depend_on_the_batch(make, array, rng):
    """Whether random sub-batches, in any order and with repeats, get the integers of the whole."""
    whole = make(array)
    picks = [rng.integers(0, len(array), size) for size in (1, 2, 3, 17, len(array))]
    picks += [np.arange(len(array))[::-1], np.array([], dtype=int)]
    return all((make(array[pick]) == whole[pick]).all() for pick in picks)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_row_gets_the_same_integers_in_every_batch(dtype):
    rng = np.random.default_rng(1)
    array = (rng.normal(size=(200, 37)) * 10.0 ** rng.integers(-6, 4, (200, 1))).astype(dtype)
    for make in (lambda x: unit_lattice(x, 2**30), lambda x: clipped_lattice(x, 2047, clip=0.7)):
        assert does_not_depend_on_the_batch(make, array, rng)
    assert not does_not_depend_on_the_batch(
        lambda x: unit_lattice(x - x.sum(axis=0, dtype=float), 100), array, rng
    )


def test_type_layout_and_storage_of_the_rows_do_not_matter(tmp_path):
    rng = np.random.default_rng(2)
    single = rng.normal(size=(60, 10)).astype(np.float32)
    want = unit_lattice(single, 2**30)
    stored = np.memmap(tmp_path / "rows", dtype=np.float32, mode="w+", shape=single.shape)
    stored[:] = single
    wide = np.zeros((120, 30), dtype=np.float64)
    wide[::2, ::3] = single
    for same in (
        single.astype(np.float64),
        np.asfortranarray(single),
        stored,
        wide[::2, ::3],
        single[::-1][::-1],
    ):
        assert (unit_lattice(same, 2**30) == want).all()
    before = single.copy()
    unit_lattice(single, 2**30)
    assert (single == before).all()


@pytest.mark.parametrize("elements", [1, 7, 64, 10**9])
def test_the_chunk_size_does_not_matter(monkeypatch, elements):
    array = np.random.default_rng(3).normal(size=(41, 6))
    want = unit_lattice(array, 2**30)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    assert (unit_lattice(array, 2**30) == want).all()


@steady
@given(row(3), st.sampled_from([127, 2047, 2**30]))
def test_rounding_is_toward_zero(values, norm):
    (made,) = unit_lattice(np.array([values]), norm)
    if not np.isfinite(values).all():
        assert not made.any()
        return
    exact = [Fraction(value) for value in values]
    length = sum(value**2 for value in exact)
    for got, value in zip(made.tolist(), exact, strict=True):
        assert got**2 * length <= norm**2 * value**2
        assert got * value >= 0


def test_ordinary_rows_lose_next_to_nothing():
    array = np.random.default_rng(4).normal(size=(100, 1280))
    made = unit_lattice(array, 2**30) / 2**30
    exact = array / np.linalg.norm(array, axis=1, keepdims=True)
    assert np.abs(made - exact).max() < 1e-5
    assert np.linalg.norm(made, axis=1).min() > 1 - 1e-5


def test_rows_inside_the_clip_keep_their_length():
    made = clipped_lattice(np.array([[0.3, 0.4], [3.0, 4.0], [30.0, 40.0]]), 10**6, clip=5.0)
    assert np.abs(made - [[60_000, 80_000], [600_000, 800_000], [600_000, 800_000]]).max() <= 1


def test_a_row_that_is_not_finite_is_a_row_of_zeros_and_nothing_is_said():
    signalling = np.array([[0x7FA00000, 0x3F800000]], dtype=np.uint32).view(np.float32)
    for bad in (
        signalling,
        np.array([[np.nan, 1.0]]),
        np.array([[1.0, -np.inf]]),
        np.array([[np.inf, np.nan]]),
    ):
        assert not unit_lattice(bad, 1000).any()
        assert not clipped_lattice(bad, 1000, clip=1.0).any()


def test_too_many_dimensions_are_refused():
    require_exact_norms(2**14)
    with pytest.raises(ArgumentError, match="16384 dimensions"):
        require_exact_norms(2**14 + 1)
    with pytest.raises(ArgumentError, match="16384 dimensions"):
        unit_lattice(np.zeros((1, 2**14 + 1)), 100)
    with pytest.raises(ArgumentError, match="clip"):
        clipped_lattice(np.zeros((1, 2)), 100, clip=0.0)


def just_above_whole_numbers(width=2**14):
    """A row whose norm is 2⁻³² larger than that of its coordinates less a grain, rounded up."""
    row = np.full((1, width), 1 + GRAIN)
    row[0, 0] = 2.0 ** (coordinate_bits(width) - 1)  # where scaling leaves it
    return row


@pytest.mark.parametrize("make", [unit_lattice, lambda array, norm: clipped_lattice(array, norm, clip=1e-6)])
def test_what_a_grain_took_off_comes_back(make):
    norm = 2**50
    found = squared_length(make(just_above_whole_numbers(), norm)[0])
    assert norm**2 * (1 - 4e-6) < found <= norm**2
    assert grains(4) == 4 * GRAIN  # a grain for each, and another for what its subtraction rounded
