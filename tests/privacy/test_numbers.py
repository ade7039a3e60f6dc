"""The argument checks every public number passes through."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dptransfer import _check
from dptransfer.errors import ArgumentError

REAL = [_check.positive, _check.non_negative, _check.probability, _check.fraction]
NO_NUMBERS = [
    math.nan,
    math.inf,
    -math.inf,
    "0.5",
    None,
    True,
    False,
    0.5j,
    np.True_,
    np.array([0.5]),
    10**400,
]


@pytest.mark.parametrize("check", [*REAL, _check.whole])
@pytest.mark.parametrize("bad", [*NO_NUMBERS, np.float32("nan"), np.float64("inf"), -1, -0.5], ids=repr)
def test_what_is_no_number_or_below_zero_is_refused(check, bad):
    with pytest.raises(ArgumentError, match="share"):
        check("share", bad)


@pytest.mark.parametrize("check", REAL)
def test_subnormal_numbers_are_refused(check):
    assert check("share", 3e-308) == 3e-308
    for bad in (5e-324, 2e-308, np.float64(1e-310)):
        with pytest.raises(ArgumentError):
            check("share", bad)


@pytest.mark.parametrize("check", REAL)
@pytest.mark.parametrize(
    "half", [0.5, np.float64(0.5), np.float32(0.5), np.float16(0.5), Fraction(1, 2)], ids=repr
)
def test_numbers_of_every_make_are_taken_and_come_back_plain(check, half):
    assert type(check("share", half)) is float
    assert check("share", half) == 0.5


@pytest.mark.parametrize("three", [3, 3.0, np.int64(3), np.uint8(3), np.float32(3)], ids=repr)
def test_whole_numbers_of_every_make_are_taken_and_come_back_plain(three):
    assert type(_check.whole("count", three)) is int
    assert _check.whole("count", three, at_least=3) == 3
    assert _check.positive("count", three) == 3
    with pytest.raises(ArgumentError, match="at least 4"):
        _check.whole("count", three, at_least=4)
    with pytest.raises(ArgumentError, match="whole number"):
        _check.whole("count", three + 0.5)


def test_the_ends_are_where_they_are_said_to_be():
    assert _check.non_negative("x", 0) == 0 == _check.probability("x", 0.0)
    for check, bad in (
        (_check.positive, 0),
        (_check.fraction, 0),
        (_check.fraction, 1),
        (_check.probability, 1),
    ):
        with pytest.raises(ArgumentError):
            check("x", bad)
