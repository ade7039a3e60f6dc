import decimal
import os
import secrets
import threading
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.noise import SecureNoise, SeededNoise
from dptransfer.noise import integer_noise as coin
from dptransfer.noise import integer_noise as stream
from dptransfer.noise import integer_noise as uniform
from dptransfer.noise.integer_noise import WordStream, uniform_integers

from .laws import RARELY, fits_table

DRAWS = {
    "words": lambda: WordStream().words(4),
    "discrete_gaussian": lambda: SecureNoise().discrete_gaussian(1e9, (4,)),
    "discrete_laplace": lambda: SecureNoise().discrete_laplace(1e9, (4,)),
    "poisson_sample": lambda: SecureNoise().poisson_sample(500, 0.5),
}


def in_a_fork(draw):
    """What the child of a fork draws."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of a fork beside threads
        child = os.fork()
    if child == 0:
        try:
            os.write(writer, draw().tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        drawn = pipe.read()
    os.waitpid(child, 0)
    return drawn


def test_it_is_aes_256_in_counter_mode(monkeypatch):
    """The published answer for a key and a block of zeros; the next block is the one for counter 1."""
    monkeypatch.setattr(os, "urandom", bytes)
    first_block = bytes.fromhex("dc95c078a2408989ad48a21492842087")
    assert WordStream().words(2).tobytes() == first_block
    assert WordStream().words(4).tobytes()[16:] == bytes.fromhex("530f8afbc74536b9a963b4f1c4cb738b")


def test_words_go_on_where_the_last_ones_ended(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda size: b"k" * size)
    once, parts = WordStream(), WordStream()
    in_parts = [parts.words(count) for count in (1, 0, 2, 4)]
    assert once.words(7).tolist() == np.concatenate(in_parts).tolist()


def test_more_words_than_fit_the_buffer_of_zeros(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda size: b"k" * size)
    many = len(stream._ZEROS) // 8 + 3
    words = WordStream().words(many)
    assert words.shape == (many,)
    assert words.dtype == np.uint64
    assert len(np.unique(words)) == many
    assert words[:5].tolist() == WordStream().words(5).tolist()


def test_every_stream_asks_for_a_key_of_its_own(monkeypatch):
    asked = []
    genuine = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or genuine(size))
    WordStream()
    SecureNoise().discrete_gaussian(1e9, (2,))
    SecureNoise().discrete_gaussian(1e9, (2,))
    assert asked == [32, 32, 32]


@pytest.mark.parametrize("name", DRAWS)
def test_neither_calls_nor_threads_repeat_each_other(name):
    drawn = []
    threads = [threading.Thread(target=lambda: drawn.append(DRAWS[name]().tobytes())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    drawn += [DRAWS[name]().tobytes() for _ in range(8)]
    assert len(set(drawn)) == 16


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("name", DRAWS)
def test_the_two_sides_of_a_fork_draw_different_words(name):
    DRAWS[name]()  # whatever is kept between calls is there before the fork
    children = [in_a_fork(DRAWS[name]) for _ in range(2)]
    assert len({*children, DRAWS[name]().tobytes()}) == 3
    assert all(children)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_generator_kept_across_a_fork_would_be_found_out():
    kept = SeededNoise(1)

    def draw():
        return kept.discrete_gaussian(1e9, (4,))

    assert in_a_fork(draw) == draw().tobytes()


def test_bytes_are_uniform_and_a_small_bias_would_show():
    words = WordStream().words(2**18).copy()
    for place in range(8):
        assert fits_table(words.view(np.uint8)[place::8], np.ones(256), RARELY)
    words[::20] &= np.uint64(2**64 - 2)  # one bit of the 64 is now set in 47.5 % of the words
    little_end = words & np.uint64(255)
    assert not fits_table(little_end.astype(np.int64), np.ones(256), RARELY)


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
        assert clock.survives(gap, scale) is survives


def test_a_clock_whose_time_is_not_bounded_yet_draws_more_digits():
    """A uniform number that begins with 64 zeros may still be 0, so that what has passed may be anything."""
    drawn = iter([0, 0, 2**63, 2**63])
    clock = coin.ExponentialClock(Fraction(1), lambda bits: next(drawn))
    clock.tick()
    assert clock.survives(1, 1.0)
    assert next(drawn, None) is None  # 64 bits more of the coin and of the time, and no more


def chi_square(drawn, below):
    expected = len(drawn) / below
    return float(((np.bincount(drawn, minlength=below) - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(3)], ids=repr)
def test_every_integer_below_is_as_likely_as_any_other(noise):
    drawn = noise.integers(7, 70_000)
    assert drawn.dtype == np.int64
    assert chi_square(drawn, 7) < 45  # 6 degrees of freedom: 5e-8 above
    assert chi_square(np.minimum(drawn, 5), 7) > 45


def test_a_word_above_the_largest_multiple_is_thrown_away(monkeypatch):
    words = iter([[2**64 - 1, 5], [2**64 - 2, 6], [8]])

    class Words:
        def words(self, count):
            return np.array(next(words)[:count], dtype=np.uint64)

    monkeypatch.setattr(uniform, "WordStream", Words)
    assert uniform_integers(3, 2).tolist() == [2, 2]  # 2⁶⁴ − 1 = 0 mod 3 has no two companions
    assert uniform_integers(4, 1).tolist() == [0]  # where 2⁶⁴ is a multiple, all are kept


@pytest.mark.parametrize("below", [0, -1, 2**32 + 1])
def test_bounds_that_are_none_are_refused(below):
    with pytest.raises(ArgumentError):
        SecureNoise().integers(below, 3)
