import decimal
import secrets
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dptransfer.noise import coin


def test_a_coin_that_is_close_is_decided_by_further_bits(monkeypatch):
    low, _ = coin.exponential_interval(1, 2.0, digits=60)
    close = int(low * 2**64)  # the first 64 bits of exp(−1/2): they decide nothing
    for further, below in ((0, True), (2**64 - 1, False)):
        monkeypatch.setattr(secrets, "randbits", lambda bits, further=further: further)
        assert coin.below_exponential(close, 64, 1, 2.0, Fraction(1)) is below
    monkeypatch.setattr(secrets, "randbits", None)  # no further bits are asked for
    assert coin.below_exponential(close - 1, 64, 1, 2.0, Fraction(1)) is True
    assert coin.below_exponential(close + 1, 64, 1, 2.0, Fraction(1)) is False
    assert coin.below_exponential(2**64 - 1, 64, 0, 2.0, Fraction(1)) is True  # a probability of one


@pytest.mark.parametrize("scale", [1.0, 0.1, 3.7e9, 5e-320, 1e300])
@pytest.mark.parametrize("gap", [1, 17, 10**12, 2**64])
def test_intervals_are_nested_and_narrow(gap, scale):
    outer, inner = (coin.exponential_interval(gap, scale, digits) for digits in (20, 50))
    assert 0 <= outer[0] <= inner[0] <= inner[1] <= outer[1] <= 1
    assert outer[1] - outer[0] <= Fraction(1, 10**18)
    exponent = min(Fraction(gap) / Fraction(scale), Fraction(700))
    assert float(outer[0]) == pytest.approx(np.exp(-float(exponent)), rel=1e-9, abs=1e-18)


def test_intervals_contain_known_digits_and_not_their_neighbours():
    e = "2.71828182845904523536028747135266249775724709369995957496696763"
    low, high = coin.exponential_interval(1, 1.0, digits=55)
    assert low < 1 / Fraction(e) < high
    assert not low < 1 / (Fraction(e) + Fraction(1, 10**50)) < high


@pytest.mark.parametrize("digits", [10, 25, 31])
def test_an_interval_that_begins_at_nothing_ends_above_the_exponential(digits):
    """Around the exponents from which on it is not computed."""
    with mpmath.workdps(100):
        for gap in range(digits, 6 * digits):
            low, high = coin.exponential_interval(gap, 1.0, digits)
            exact = mpmath.exp(-gap)
            assert mpmath.mpf(low.numerator) / low.denominator <= exact
            assert exact <= mpmath.mpf(high.numerator) / high.denominator <= exact + mpmath.mpf(10) ** -digits


def test_what_a_program_asks_of_decimal_arithmetic_does_not_make_some_coins_fail(monkeypatch):
    expected = [coin.exponential_interval(gap, 3.0, 20) for gap in range(4)]
    for signal in (decimal.Inexact, decimal.Rounded, decimal.FloatOperation):
        monkeypatch.setitem(decimal.DefaultContext.traps, signal, True)
    monkeypatch.setattr(decimal.DefaultContext, "rounding", decimal.ROUND_UP)
    assert [coin.exponential_interval(gap, 3.0, 20) for gap in range(4)] == expected
