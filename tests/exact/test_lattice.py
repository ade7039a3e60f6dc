from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.floating_point import ROUNDING, flushing, met, needs_flags, rounding, unguarded
from contracts.rows import LARGEST, row, rows, squared_length, steady
from dptransfer.data import PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.exact import chunks
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.lattice import (
    GRAIN,
    MARGIN,
    clipped_lattice,
    coordinate_bits,
    grains,
    require_exact_norms,
    scaled_rows,
    unit_lattice,
)
from dptransfer.exact.public_map import PublicMap, UncentredRows

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


@pytest.mark.parametrize("dimension", [1, 8191, 2**14])
@pytest.mark.parametrize("value", [LARGEST, 1.0, 5e-324])
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


# Scaling, and what flags and rounding modes may not change

WIDTH = 512
FINEST = 2**50
FLOATS = (np.float16, np.float32, np.float64)


def maps():
    pool = np.random.default_rng(0).normal(size=(40, WIDTH))
    return {
        "unit norm": UnitNorm().fit(WIDTH, None),
        "pooled": UnitNorm(pool=3).fit(WIDTH, None),
        "public map": PublicMap(axes=5).fit(WIDTH, PublicEmbeddings(pool)),
        "rooted public map": PublicMap(axes=5).fit(WIDTH, PublicEmbeddings(np.abs(pool))),
        "rooted rows": UncentredRows(WIDTH, root=True),
    }


MAPS = maps()


def extreme_rows(count, dtype):
    """Rows that a flag would change: huge, subnormal, and mixtures with what is normal, in turns."""
    kind = np.finfo(dtype)
    sizes = [kind.max, kind.smallest_subnormal, kind.smallest_normal, kind.smallest_normal * 2.0**9, 1.0]
    rng = np.random.default_rng(1)
    x = np.zeros((count, WIDTH), dtype=dtype)
    for place in range(count):
        size = np.array(sizes[place % 5], dtype=dtype)
        x[place] = np.where(rng.random(WIDTH) < 0.3, size, kind.smallest_subnormal * rng.integers(-9, 9))
    return x


@steady
@given(row(3), st.sampled_from([19, 26]), st.booleans())
def test_a_row_is_multiplied_by_one_power_of_two_exactly(values, bits, root):
    x, power = scaled_rows(np.array([values]), bits, root=root)
    if not np.isfinite(values).all() or not np.any(values):
        assert not x.any()
        return
    assert 2 ** (bits - 1) <= np.abs(x).max() < 2**bits
    largest = max(abs(Fraction(value)) for value in values)
    for got, value in zip(x[0].tolist(), values, strict=True):
        exact = Fraction(value) * Fraction(2) ** int(power[0])
        if abs(Fraction(value)) * 2**MARGIN < largest:
            assert abs(got) < GRAIN  # next to nothing, also in the norm
        elif root:
            assert abs(Fraction(got) ** 2 - abs(exact)) <= abs(exact) * Fraction(2) ** -51
            assert got * value >= 0
        else:
            assert Fraction(got) == exact


@pytest.mark.parametrize("dtype", FLOATS)
def test_types_layouts_and_byte_orders_do_not_matter(dtype):
    x = extreme_rows(25, dtype)[:, :7]
    strided = np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3]
    alike = [x.astype(x.dtype.newbyteorder()), strided, np.asfortranarray(x), x[::-1][::-1]]
    for same in alike if dtype == np.float64 else [*alike, x.astype(np.float64)]:
        for found, wanted in zip(scaled_rows(same, 20), scaled_rows(x, 20), strict=True):
            assert (np.trunc(found) == np.trunc(wanted)).all()
        assert (unit_lattice(same, 2**30) == unit_lattice(x, 2**30)).all()


@needs_flags
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("guarded", [True, False])
def test_a_row_has_the_same_integers_wherever_subnormal_numbers_are_flushed(
    monkeypatch, dtype, when, guarded
):
    """On both sides of the number of rows from which a second thread takes a part, with the flag set before
    that thread exists, after, or never; and by the bits alone, without `plain_floats`.
    """
    monkeypatch.setattr(chunks, "usable_cores", lambda: 2)
    x = extreme_rows(129, dtype)
    wanted = {
        name: np.vstack([one.lattice(x[i : i + 1], 2**30) for i in range(129)]) for name, one in MAPS.items()
    }
    assert all(found.any(axis=1).all() for found in wanted.values())
    if not guarded:
        unguarded(monkeypatch)
    with met(flushing(), when):
        for name, one in MAPS.items():
            for count in (1, 127, 128, 129):
                assert (one.lattice(x[:count], 2**30) == wanted[name][:count]).all()


@needs_flags
def test_entries_that_are_flushed_do_not_count_in_the_norm(monkeypatch):
    """On lattices so fine that one unit more in the norm would show: by the bits alone."""
    unguarded(monkeypatch)
    x = np.full((1, WIDTH), np.finfo(np.float64).smallest_subnormal)
    x[0, 0] = 1.0
    for fitted, norm in ((MAPS["unit norm"], FINEST), (MAPS["rooted rows"], 2**40)):
        wanted = fitted.lattice(x, norm)
        with flushing():
            assert (fitted.lattice(x, norm) == wanted).all()


@needs_flags
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("mode", ROUNDING)
def test_a_row_has_the_same_integers_whatever_the_rounding_mode(monkeypatch, mode, when):
    """On a lattice so fine that the last bit of a float is seen."""
    monkeypatch.setattr(chunks, "usable_cores", lambda: 2)
    x = np.random.default_rng(2).normal(size=(129, WIDTH))
    wanted = {name: one.lattice(x, FINEST) for name, one in MAPS.items()}
    with met(rounding(mode), when):
        for name, one in MAPS.items():
            for count in (127, 128, 129):
                assert (one.lattice(x[:count], FINEST) == wanted[name][:count]).all()
    unguarded(monkeypatch)
    with met(rounding(mode), "after"):  # the half that can fail
        assert (UnitNorm().fit(WIDTH, None).lattice(x, FINEST) != wanted["unit norm"]).any()


@needs_flags
@pytest.mark.parametrize("mode", ROUNDING)
def test_no_rounding_mode_lengthens_a_row_beyond_the_norm(monkeypatch, mode):
    unguarded(monkeypatch)
    rng = np.random.default_rng(3)
    x = np.vstack([rng.normal(size=(30, 9)), np.eye(9), np.full((1, 9), LARGEST), np.full((1, 9), 5e-324)])
    with rounding(mode):
        for norm in (127, 2047, 2**30):
            made = [
                unit_lattice(x, norm),
                unit_lattice(x, norm, root=True),
                clipped_lattice(x, norm, clip=0.7),
            ]
            assert all(squared_length(row) <= norm**2 for some in made for row in some)


def not_finite(dtype):
    """Quiet and signalling NaNs of both signs, and infinities, by their bits."""
    whole = np.dtype(f"u{np.dtype(dtype).itemsize}")
    kind = np.finfo(dtype)
    infinity = ((1 << kind.nexp) - 1) << kind.nmant
    quiet = infinity | 1 << (kind.nmant - 1)
    sign = 1 << (kind.bits - 1)
    patterns = [infinity, infinity | 1, quiet - 1, quiet, quiet | 1, infinity | ((1 << kind.nmant) - 1)]
    return np.array(patterns + [one | sign for one in patterns], dtype=whole).view(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", MAPS)
def test_a_row_that_is_not_finite_is_zeros_before_the_mean_is_subtracted_and_nothing_is_said(dtype, name):
    bad = not_finite(dtype)
    x = np.ones((2 * len(bad), WIDTH), dtype=dtype)
    x[: len(bad), 3] = bad
    x[len(bad) :] = bad[:, None]
    zeros = MAPS[name].lattice(np.zeros((1, WIDTH)), 2**30)
    with np.errstate(all="raise"):
        assert (MAPS[name].lattice(x, 2**30) == zeros).all()
        assert not clipped_lattice(x, 1000, clip=1.0).any()
    assert zeros.any() == ("public" in name)
