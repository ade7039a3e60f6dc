import numpy as np
import pytest

from dptransfer.data.grey_levels import as_bytes, between, declared_range, require_in_range, require_not_dark
from dptransfer.errors import ArgumentError, DataError


@pytest.mark.parametrize("dtype", ["u1", "i1", ">u2", "<i2", ">u4", "<f4"])
def test_levels_are_the_exact_quotient_rounded_down_whatever_the_type(dtype):
    low, high = (-7, 113) if np.dtype(dtype).kind != "u" else (3, 200)
    values = np.arange(low - 2 if low < 0 else 0, high + 5 if high < 127 else 127).astype(dtype)
    exact = [min(255, max(0, 255 * (int(value) - low) // (high - low))) for value in values]
    assert as_bytes(values, between(low, high)).tolist() == exact


def test_what_is_beyond_is_cut_off_and_what_is_no_number_is_black_either_way():
    odd = np.array([[np.nan, -np.inf, np.inf, 1e300]])
    assert as_bytes(odd, between(0, 1)).tolist() == [[0, 0, 255, 255]]
    assert as_bytes(odd, between(0, 1, inverted=True)).tolist() == [[0, 255, 0, 0]]


def test_a_large_picture_goes_in_parts_and_none_is_left_out(monkeypatch):
    picture = np.random.default_rng(0).random((37, 11))
    whole = as_bytes(picture, between(0, 1))
    monkeypatch.setattr("dptransfer.data.grey_levels._AT_A_TIME", 30)
    assert np.array_equal(as_bytes(picture, between(0, 1)), whole)
    assert as_bytes(picture[:0], between(0, 1)).shape == (0, 11)


def test_sixteen_bits_that_leave_the_upper_quarters_alone_are_refused():
    require_not_dark(np.array([0, 64], np.uint8))
    for dark in (np.array([0, 63], np.uint8), np.zeros(0, np.uint8)):
        with pytest.raises(DataError, match="--grey-range"):
            require_not_dark(dark)


@pytest.mark.parametrize("bad", [(1, 1), (0, np.inf), (np.nan, 1), (0,), "ab", 7, (-1e308, 1e308)])
def test_a_range_is_two_finite_numbers_the_lower_first(bad):
    assert declared_range(None) is None
    assert declared_range([0, 1]) == (0.0, 1.0)
    with pytest.raises(ArgumentError, match="two numbers"):
        declared_range(bad)


def picture(*parts):
    """A picture of 100 × 100 values: (value, share) for each part."""
    made = np.concatenate([np.full(int(share * 10_000), value) for value, share in parts])
    return made.reshape(100, 100)


@pytest.mark.parametrize(
    ("parts", "declared"),
    [
        ([(4095, 1.0)], (0, 4095)),  # white all over, and allowed to be
        ([(4096, 0.01), (0, 0.99)], (0, 4095)),  # a few broken pixels
        ([(-1000, 0.6), (40, 0.1), (1200, 0.3)], (-150, 250)),  # air, brain and bone in a window
        ([(0, 0.2), (5000, 0.6), (2000, 0.2)], (0, 4000)),  # three quarters of what is not black, and no more
        ([(4097, 0.02), (2000, 0.98)], (0, 4096)),  # no whole bits: a window
        ([(0.5, 0.5), (np.inf, 0.3), (np.nan, 0.2)], (0.0, 1.0)),
    ],
)
def test_values_that_a_declared_range_covers_are_fine(parts, declared):
    require_in_range(picture(*parts), declared)


@pytest.mark.parametrize(
    ("parts", "declared"),
    [
        ([(60_000, 1.0)], (0, 4095)),
        ([(4096, 0.02), (2000, 0.98)], (0, 4095)),  # whole bits: a file cannot store such values
        ([(0, 0.6), (20_000, 0.4)], (0, 4000)),  # on black, and white where it is not
        ([(0, 0.2), (5000, 0.61), (2000, 0.19)], (0, 4000)),
        ([(3.0, 1.0)], (0.0, 1.0)),
    ],
)
def test_values_that_would_all_be_white_are_refused(parts, declared):
    with pytest.raises(DataError, match="grey range"):
        require_in_range(picture(*parts), declared)
