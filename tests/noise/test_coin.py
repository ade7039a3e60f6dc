import decimal
import secrets
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dptransfer.noise import integer_noise as coin


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


@pytest.mark.parametrize("bits", [64, 192, 960])
def test_the_time_of_a_clock_lies_between_its_bounds_and_these_are_close(bits):
    """Numbers that begin with many zeros, too: their logarithms have more digits before the point."""
    rng = np.random.default_rng(0)
    with mpmath.workdps(400):
        for begins in {0, bits // 2, bits - 12}:
            for number in rng.integers(1, 2**12, 40).tolist():
                first = number << (bits - 12 - begins)
                clock = coin.ExponentialClock(Fraction(3), lambda _, first=first: first)
                clock._bits = bits
                clock.tick()
                clock.tick()
                digits = 10 + bits // 3
                shortest, longest = (
                    mpmath.mpf(end.numerator) / end.denominator for end in clock._time(digits)
                )
                last, next_one = (-2 * mpmath.log(mpmath.mpf(n) / 2**bits) / 3 for n in (first, first + 1))
                assert shortest <= next_one < last <= longest
                assert longest - last < mpmath.mpf(bits) ** 2 * mpmath.mpf(10) ** -digits * 10


def test_a_clock_that_may_have_stood_forever_has_no_upper_bound():
    clock = coin.ExponentialClock(Fraction(1), lambda _: 0)
    clock.tick()
    shortest, longest = clock._time(31)
    assert longest is None
    assert 44 < shortest < 45  # 64 ln 2


@pytest.mark.parametrize("first", range(8))
def test_a_candidate_survives_exactly_where_the_coin_is_below_the_exponential(first):
    """The two sides of the border, to the last of the first 64 bits; on it, further bits decide."""
    uniform, gap, scale, rate = 0x1E3779B97F4A7C15 * (first + 1), 7, 4.0, Fraction(5, 3)
    with mpmath.workdps(100):
        time = -mpmath.log(mpmath.mpf(uniform) / 2**64) * 3 / 5  # as if only zeros followed
        chance = mpmath.exp(-(1 - mpmath.exp(-mpmath.mpf(gap) / 4)) * time) * 2**64
        border = int(mpmath.floor(chance))
        below_middle = chance - border < 0.5
    ones = 2**64 - 1
    tosses = {
        (border - 1, 0): True,
        (border + 1, 0): False,
        (0, 0): True,
        (ones, ones): False,
        (border, 0): True,
        (border, ones): False,
        (border, 2**63): not below_middle,
    }
    for (toss, further), survives in tosses.items():
        given = iter([uniform, toss, further])  # of the clock, of the coin, and of the coin again
        clock = coin.ExponentialClock(rate, lambda _, given=given: next(given, 0))
        clock.tick()
        assert clock.survived(gap, scale) is survives


def test_a_clock_whose_time_is_not_bounded_yet_draws_more_digits():
    """A uniform number that begins with 64 zeros may still be 0, so that what has passed may be anything."""
    drawn = iter([0, 0, 2**63, 2**63])
    clock = coin.ExponentialClock(Fraction(1), lambda bits: next(drawn))
    clock.tick()
    assert clock.survived(1, 1.0)
    assert next(drawn, None) is None  # 64 bits more of the coin and of the time, and no more
