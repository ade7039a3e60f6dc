"""A coin that shows heads with probability exp(−x)·f exactly, for rational x and f, or for a random time x.

Bits of a uniform number are compared with an interval around the probability, from `decimal`'s correctly
rounded exponential of quotients rounded down and up; if the interval contains them, more bits are drawn and
the interval is narrowed. No float takes part, and neither does what the program has set for `decimal`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
)
from fractions import Fraction
from typing import TypeAlias

RandomBits: TypeAlias = Callable[[int], int]
"""Gives an integer of so many uniform bits."""


def below_exponential(
    uniform: int,
    bits: int,
    gap: int,
    scale: float | Fraction,
    factor: Fraction,
    randbits: RandomBits | None = None,
) -> bool:
    """Whether a uniform number in [0, 1) that begins with `uniform` is below exp(−gap/scale)·factor.

    Args:
        uniform: The first bits of the number, as an integer.
        bits: How many they are.
        gap: Numerator of the exponent.
        scale: Its denominator, taken exactly.
        factor: What the exponential is multiplied with; the product must be at most 1.
        randbits: Where further bits come from; the operating system, if nothing is said.

    >>> below_exponential(0, 16, gap=1, scale=2.0, factor=Fraction(1))  # exp(−1/2) is 0.6065
    True
    """
    while True:
        low, high = (factor * bound for bound in exponential_interval(gap, scale, digits=10 + bits // 3))
        if Fraction(uniform + 1, 2**bits) <= low:
            return True
        if Fraction(uniform, 2**bits) >= high:
            return False
        uniform, bits = uniform << 64 | (randbits or secrets.randbits)(64), bits + 64


class ExponentialClock:
    """A time that has passed in independent exponential steps, known to as many digits as are asked for.

    A step is −ln(U)/rate for a uniform number U, of which only the first bits are drawn before more matter.

    Args:
        rate: of the steps.
        randbits: where bits come from.
    """

    def __init__(self, rate: Fraction, randbits: RandomBits) -> None:
        self._rate, self._randbits = rate, randbits
        self._uniforms: list[int] = []
        self._bits = 64

    def tick(self) -> None:
        """One step passes."""
        self._uniforms.append(self._randbits(self._bits))

    def survived(self, gap: int, scale: float) -> bool:
        """True with probability exp(−(1 − w)·time), where w = exp(−gap/scale)."""
        if gap == 0:
            return True
        coin = self._randbits(self._bits)
        while True:
            digits = 10 + self._bits // 3
            low, high = exponential_interval(gap, scale, digits)
            shortest, longest = self._time(digits)
            if longest is not None:
                least = _exponential((1 - low) * longest, digits)[0]
                if Fraction(coin + 1, 2**self._bits) <= least:
                    return True
            if Fraction(coin, 2**self._bits) >= _exponential((1 - high) * shortest, digits)[1]:
                return False
            coin, *self._uniforms = (number << 64 | self._randbits(64) for number in (coin, *self._uniforms))
            self._bits += 64

    def _time(self, digits: int) -> tuple[Fraction, Fraction | None]:
        """Bounds on what has passed; none from above where a number may still be 0."""
        context, unit = decimal_context(digits), Decimal(2**self._bits)

        def minus_log(number: int) -> Decimal:
            return context.minus(context.ln(context.divide(Decimal(number), unit)))

        # Rounding a quotient moves its logarithm by 0.6·10^(1−digits) at most; rounding that, which is at
        # most bits·ln 2, by 0.5·bits·ln 2·10^(1−digits). With 64 bits or more, the sum is below this.
        slack = Fraction(self._bits, 10 ** (digits - 1))
        shortest = sum((Fraction(minus_log(one + 1)) - slack for one in self._uniforms), Fraction(0))
        if 0 in self._uniforms:
            return max(shortest, Fraction(0)) / self._rate, None
        longest = sum((Fraction(minus_log(one)) + slack for one in self._uniforms), Fraction(0))
        return max(shortest, Fraction(0)) / self._rate, longest / self._rate


def _exponential(exponent: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """An interval that contains exp(−exponent)."""
    return exponential_interval(exponent.numerator, Fraction(exponent.denominator), digits)


def exponential_interval(gap: int, scale: float | Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """An interval that contains exp(−gap/scale), about `digits` decimal digits narrow.

    >>> low, high = exponential_interval(1, 1.0, digits=20)
    >>> low < Fraction("0.36787944117144232159553") < high, float(high - low) < 1e-19
    (True, True)
    """
    if gap == 0:
        return Fraction(1), Fraction(1)
    top, bottom = scale.as_integer_ratio()
    over, under = gap * bottom, top
    if over > 4 * digits * under:  # too small to tell from nothing with these digits: below 10^(−1.7·digits)
        return Fraction(0), Fraction(1, 10**digits)
    # Numerator and denominator are exact as decimals of any length; only the quotient is rounded.
    down, up = (
        decimal_context(digits + 3, rounding).divide(Decimal(over), Decimal(under))
        for rounding in (ROUND_FLOOR, ROUND_CEILING)
    )
    context = decimal_context(digits)
    low = context.next_minus(context.exp(up.copy_negate()))
    high = context.next_plus(context.exp(down.copy_negate()))
    return Fraction(low), min(Fraction(high), Fraction(1))


def decimal_context(digits: int, rounding: str = ROUND_HALF_EVEN) -> Context:
    """Decimal arithmetic of so many digits that neither overflows nor underflows.

    What is left out would come from `decimal.DefaultContext`, where a program may ask for an error wherever
    a result is rounded; whether one is may depend on private scores.
    """
    traps = [DivisionByZero, InvalidOperation]  # of which there are none
    return Context(prec=digits, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=traps)
