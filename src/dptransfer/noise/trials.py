"""How often to repeat before the best is chosen: the random numbers of Papernot and Steinke (2022).

Choosing the best of K runs costs little more than one run if K itself is random and has one of these laws.

- Shape η > −1, finite: the truncated negative binomial on k = 1, 2, … with halting probability γ,

      P(k) = (1 − γ)^k / (γ^−η − 1) · Π_{l<k} (l + η)/(l + 1),    at η = 0:    (1 − γ)^k / (k·log(1/γ)).

  η = 1 is the geometric law, η = 0 the logarithmic one. With c(η) = η/(γ^−η − 1), or 1/log(1/γ) at η = 0, the
  first probability is (1 − γ)·c(η), every next one is (1 − γ)(k + η)/(k + 1) times the one before, and
  k·P(k) = (1 − γ)·c(η) times a coefficient of (1 − (1 − γ)x)^−(η+1), so the mean is (1 − γ)·c(η)·γ^−(η+1) =
  (1/γ − 1)·c(−η).
- Shape ∞: Poisson with that mean, where k = 0 is possible.

`dp_accounting.RepeatAndSelectDpEvent(event, mean, shape)` takes the mean and finds the γ that belongs to it;
it covers η ≥ 0. Its bound grows with the mean and with log(1/γ). Here γ is the smallest normal float whose
mean is at most the one stated, so that both are covered by what is charged.

A draw inverts the distribution function F: it is the k with F(k − 1) ≤ U < F(k). U is known to 64 bits at
first and F to 80 digits less what rounding took; if that leaves two values of k, both get more digits. So the
law is exact. It takes time in proportion to k, like the k runs that follow.

**Rounding.** With d digits, x = −η·log γ has relative error below 3·10^(1−d). Its size is below 10⁹, since
|η| ≤ 10⁶ and γ ≥ 2⁻¹⁰²², and above 10⁻²², since |η| ≥ 10⁻⁶ and γ ≤ 1 − 2⁻⁵³. So exp(x) − 1 has relative error
below 4·10⁹·10^(1−d) where |x| ≥ 1, and below 10²⁴·10^(1−d) where it loses digits to the subtraction. Each
further probability adds 5·10^(1−d), each sum 10^(1−d). All errors up to k stay below (k + 1)·10^(30−d).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from functools import lru_cache

from dptransfer.errors import ArgumentError
from dptransfer.noise.coin import decimal_context

LARGEST_MEAN = 1e9
_LARGEST_SHAPE = 1e6
_SMALLEST_SHAPE = 1e-6
_DIGITS = 80
_LOST_DIGITS = 30


def exact_trials(mean: float, shape: float, random_bits: Callable[[int], int]) -> int:
    """A random number of repetitions, at least 1 unless `shape` is infinite.

    Args:
        mean: Its expectation, at least 1.
        shape: η; 1 is geometric, 0 logarithmic, infinity Poisson.
        random_bits: A uniform integer of so many bits.

    >>> trials(1.0, 1.0, lambda bits: 0)
    1
    """
    if not 1 <= mean <= LARGEST_MEAN:
        raise ArgumentError(f"mean must lie between 1 and {LARGEST_MEAN:g}; got {mean!r}.")
    if shape != math.inf and not (
        -1 < shape <= _LARGEST_SHAPE and (shape == 0 or abs(shape) >= _SMALLEST_SHAPE)
    ):
        raise ArgumentError(
            f"shape must be infinite, 0, or between -1 and {_LARGEST_SHAPE:g} and at least "
            f"{_SMALLEST_SHAPE:g} in size; got {shape!r}."
        )
    mean, shape = float(mean), float(shape)
    uniform, bits, digits = random_bits(64), 64, _DIGITS
    while True:
        found = _inverse(uniform, bits, mean, shape, digits)
        if found is not None:
            return found
        uniform, bits, digits = uniform << 64 | random_bits(64), bits + 64, digits + 20


def _inverse(uniform: int, bits: int, mean: float, shape: float, digits: int) -> int | None:
    """The k whose interval [F(k − 1), F(k)) holds every number that begins with these bits, if one does."""
    low, high = (
        decimal_context(digits, rounding).divide(Decimal(uniform + step), Decimal(2**bits))
        for step, rounding in ((0, ROUND_FLOOR), (1, ROUND_CEILING))
    )
    with localcontext(decimal_context(digits)):
        below, error = Decimal(0), Decimal(f"1e{_LOST_DIGITS - digits}")
        for k, mass in _law(mean, shape):
            below += mass
            if below - (k + 1) * error >= high:
                return k
            if below + (k + 1) * error > low:
                return None
    return 1  # a mean of 1, or so close to it that γ is 1: there is no other k


def _law(mean: float, shape: float) -> Iterator[tuple[int, Decimal]]:
    """Each k with its probability, in the arithmetic of the surrounding context."""
    if shape == math.inf:
        k, mass = 0, Decimal(-mean).exp()
        while True:
            yield k, mass
            k += 1
            mass *= Decimal(mean) / k
    elif (gamma := halting_probability(mean, shape)) < 1:
        halting, eta = Decimal(gamma), Decimal(shape)
        k, mass = 1, (1 - halting) * _factor(halting, eta)
        while True:
            yield k, mass
            mass *= (1 - halting) * (k + eta) / (k + 1)
            k += 1


@lru_cache(maxsize=32)
def halting_probability(mean: float, shape: float) -> float:
    """γ: the smallest normal float at which the truncated negative binomial has a mean of at most `mean`.

    >>> round(halting_probability(4.0, 1.0), 12)
    0.25
    """
    low, high = sys.float_info.min, 1.0  # a subnormal number may count as zero
    with localcontext(decimal_context(_DIGITS)):
        if _mean(low, shape) <= mean:
            raise ArgumentError(f"A mean of {mean!r} is out of reach for shape {shape!r}. Raise shape.")
        while math.nextafter(low, 1.0) < high:
            # The geometric middle while the two are far apart, since γ may be tiny.
            middle = math.sqrt(low) * math.sqrt(high) if high > 4 * low else low + (high - low) / 2
            low, high = (low, middle) if _mean(middle, shape) <= mean else (middle, high)
    return high


def _mean(halting: float, shape: float) -> Decimal:
    """The mean, (1/γ − 1)·c(−η), and 1 at γ = 1."""
    if halting == 1:  # pragma: no cover — the search ends one float below
        return Decimal(1)
    return (1 / Decimal(halting) - 1) * _factor(Decimal(halting), Decimal(-shape))


def _factor(halting: Decimal, shape: Decimal) -> Decimal:
    """The module's c(η): η/(γ^−η − 1), or 1/log(1/γ) at η = 0."""
    rate = -halting.ln()
    return shape / ((shape * rate).exp() - 1) if shape else 1 / rate
