"""A coin that shows heads with probability exp(−x)·f exactly, for rational x and f.

Bits of a uniform number are compared with an interval around the probability, from `decimal`'s correctly
rounded exponential of quotients rounded down and up; if the interval contains them, more bits are drawn and
the interval is narrowed. No float takes part, and neither does what the program has set for `decimal`.
"""

from __future__ import annotations

import secrets
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


def below_exponential(uniform: int, bits: int, gap: int, scale: float | Fraction, factor: Fraction) -> bool:
    """Whether a uniform number in [0, 1) that begins with `uniform` is below exp(−gap/scale)·factor.

    Args:
        uniform: The first bits of the number, as an integer.
        bits: How many they are; further ones come from the operating system.
        gap: Numerator of the exponent.
        scale: Its denominator, taken exactly.
        factor: What the exponential is multiplied with; the product must be at most 1.

    >>> below_exponential(0, 16, gap=1, scale=2.0, factor=Fraction(1))  # exp(−1/2) is 0.6065
    True
    """
    while True:
        low, high = (factor * bound for bound in exponential_interval(gap, scale, digits=10 + bits // 3))
        if Fraction(uniform + 1, 2**bits) <= low:
            return True
        if Fraction(uniform, 2**bits) >= high:
            return False
        uniform, bits = uniform << 64 | secrets.randbits(64), bits + 64


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
