"""Sources of privacy noise: the operating system, or a seed for tests and benchmarks.

A coin is a uniform number compared with the rate q, a float and so a fraction with a power of two below. The
first 64 bits of the number are a word of the stream; q·2⁶⁴ = n + f with n an integer and 0 ≤ f < 1. A word
smaller than n means heads and a larger one tails, whatever bits follow. A word equal to n leaves a coin of
probability f, tossed with as many further bits as f has. So heads have probability n/2⁶⁴ + f/2⁶⁴ = q exactly.

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

Everything is drawn on integers. `SecureNoise` draws by the exact samplers of this package, in which floats
propose and exact arithmetic decides, so that what a draw reveals is what the mathematics says and no more.
Its randomness is the operating system's, and for many draws at once a cipher whose key the system gives.
`SeededNoise` has the same laws up to float64 rounding; anyone who knows the seed can take the noise off
again, so what it touches is stamped and refused for publication.
"""

from __future__ import annotations

import math
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Integers
from dptransfer.errors import ArgumentError
from dptransfer.noise import integer_noise, race
from dptransfer.noise.integer_noise import WordStream, decimal_context, quotient, uniform_integers
from dptransfer.noise.race import Choice, ScoreBins

_CHUNK = 2**15  # rows at a time: the passes over them stay in the cache


def exact_poisson_sample(rows: int, rate: float, stream: WordStream | None = None) -> Integers:
    """Increasing positions, each of 0..rows−1 with probability `rate`, which lies in (0, 1].

    Words come from the stream, or from a new one.

    >>> exact_poisson_sample(4, 1.0).tolist()
    [0, 1, 2, 3]
    """
    if rate == 1:
        return np.arange(rows, dtype=np.int64)
    scaled = Fraction(rate) * 2**64
    whole = int(scaled)
    rest, stream, taken = scaled - whole, stream or WordStream(), [np.empty(0, dtype=np.int64)]
    for start in range(0, rows, _CHUNK):
        words = stream.words(min(_CHUNK, rows - start))
        heads = words < np.uint64(whole)
        if rest:
            for place in np.flatnonzero(words == np.uint64(whole)):
                heads[place] = secrets.randbelow(rest.denominator) < rest.numerator
        taken.append(start + np.flatnonzero(heads))
    return np.concatenate(taken)


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

    >>> exact_trials(1.0, 1.0, lambda bits: 0)
    1
    """
    if not 1 <= mean <= LARGEST_MEAN:
        raise ArgumentError(f"mean must lie between 1 and {LARGEST_MEAN:g}; got {mean!r}.")
    is_odd = not -1 < shape <= _LARGEST_SHAPE or 0 < abs(shape) < _SMALLEST_SHAPE
    if shape != math.inf and is_odd:
        raise ArgumentError(
            f"shape must be infinite, 0, or -1 to {_LARGEST_SHAPE:g} and not tiny; got {shape!r}."
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
    low = quotient(uniform, 2**bits, digits, ROUND_FLOOR)
    high = quotient(uniform + 1, 2**bits, digits, ROUND_CEILING)
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
    """The mean, (1/γ − 1)·c(−η), for γ below 1."""
    return (1 / Decimal(halting) - 1) * _factor(Decimal(halting), Decimal(-shape))


def _factor(halting: Decimal, shape: Decimal) -> Decimal:
    """The module's c(η): η/(γ^−η − 1), or 1/log(1/γ) at η = 0."""
    rate = -halting.ln()
    return shape / ((shape * rate).exp() - 1) if shape else 1 / rate


LARGEST_GAUSSIAN_SCALE = 2.0**57
"""An int64 then holds 64 standard deviations: a draw beyond has probability below e⁻²⁰⁰⁰."""
LARGEST_LAPLACE_SCALE = 2.0**52
"""An int64 then holds 2048 scales: a draw beyond has probability below e⁻²⁰⁰⁰."""


class NoiseSource(Protocol):
    """The only supplier of privacy noise.

    What is asked for is drawn or computed at once, unless a source keeps a record of it.
    """

    @property
    def seeded(self) -> bool:
        """Whether the draws can be repeated by someone who knows a seed."""

    def _bits(self, count: int) -> int:
        """An integer of so many uniform bits."""

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Integers k with probability ∝ exp(−k² / 2·scale²), independently."""

    def gaussian_with_more(self, more: int, scale: float, shape: tuple[int, ...]) -> Integers:
        """Flat: draws for an answer of this shape, and after them `more` of the same call."""
        return self.discrete_gaussian(scale, (math.prod(shape) + more,))

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Integers k with probability ∝ exp(−|k| / scale), independently."""

    def best_set(self, bins: ScoreBins, size: int, scale: float) -> Choice:
        """A set with probability ∝ exp(smallest score in it / scale): the exponential mechanism's law."""
        return race.best_set(bins, size, checks.positive("scale", scale), self._bits)

    def permute_and_flip(self, bins: ScoreBins, scale: float) -> Choice:
        """Who has the largest score + Exponential(scale): permute-and-flip's law."""
        return race.permute_and_flip(bins, checks.positive("scale", scale), self._bits)

    def subset(self, population: int, size: int) -> Integers:
        """A uniformly random set of `size` of the integers 0..population−1, in increasing order."""

    def poisson_sample(self, rows: int, rate: float) -> Integers:
        """Increasing positions, each of 0..rows−1 independently with probability `rate` in (0, 1]."""

    def integers(self, below: int, count: int) -> Integers:
        """Independent uniform integers in 0..below−1."""

    def trials(self, mean: float, shape: float) -> int:
        """Number of repetitions before the best is chosen, by the laws of `noise.noise_source`."""
        return exact_trials(mean, shape, self._bits)

    def draw_once(self, what: str, draw: Callable[[], AnyArray]) -> AnyArray:
        """A noisy answer. A source that keeps a record gives one that is on it, and never draws it again."""
        return draw()

    def keep(self, what: str, compute: Callable[[], AnyArray]) -> AnyArray:
        """A private intermediate without noise, which such a source need not compute again."""
        return compute()

    def keep_pieces(
        self, what: str, count: int, compute: Callable[[Sequence[int]], Iterable[tuple[int, AnyArray]]]
    ) -> list[AnyArray]:
        """Likewise many, of which those whose numbers are not on the record are asked for."""
        return [array for _, array in sorted(compute(range(count)), key=lambda piece: piece[0])]


class SecureNoise(NoiseSource):
    """Exact samplers on the operating system's generator, or AES-256 keyed by it; the default everywhere."""

    seeded = False

    def __repr__(self) -> str:
        return "SecureNoise()"

    def _stream(self) -> WordStream:
        return WordStream()

    def _bits(self, count: int) -> int:
        return secrets.randbits(count)

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Exact; see `noise.integer_noise`."""
        _require_room(scale, LARGEST_GAUSSIAN_SCALE)
        return integer_noise.discrete_gaussian(float(scale), math.prod(shape), self._stream()).reshape(shape)

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Exact; see `noise.integer_noise`."""
        _require_room(scale, LARGEST_LAPLACE_SCALE)
        return integer_noise.discrete_laplace(float(scale), math.prod(shape)).reshape(shape)

    def subset(self, population: int, size: int) -> Integers:
        """Uniform subset from the operating system's generator."""
        chosen = secrets.SystemRandom().sample(range(population), size)
        return np.sort(np.array(chosen, dtype=np.int64))

    def poisson_sample(self, rows: int, rate: float) -> Integers:
        """An exact coin for every row; see `exact_poisson_sample`."""
        return exact_poisson_sample(rows, checks.rate("rate", rate), self._stream())

    def integers(self, below: int, count: int) -> Integers:
        """Exact; see `noise.integer_noise`."""
        return uniform_integers(_required_bound(below), count)


class SeededNoise(NoiseSource):
    """Repeatable noise for tests and benchmarks; never for publication.

    >>> first, second = (SeededNoise(1).discrete_gaussian(1e9, (2,)) for _ in range(2))
    >>> (first == second).all()
    np.True_
    """

    seeded = True

    def __init__(self, seed: int) -> None:
        self._rng, self._aside = np.random.default_rng(seed), np.random.default_rng((seed, 1))
        self._seed = seed

    def __repr__(self) -> str:
        return f"SeededNoise({self._seed})"

    def _bits(self, count: int) -> int:
        return int.from_bytes(self._rng.bytes(-(-count // 8))) >> (-count % 8)

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """A rounded normal draw: within 1/(8·scale²) of the discrete Gaussian's probabilities."""
        _require_room(scale, LARGEST_GAUSSIAN_SCALE)
        return np.rint(self._rng.normal(0.0, scale, shape)).astype(np.int64)

    def gaussian_with_more(self, more: int, scale: float, shape: tuple[int, ...]) -> Integers:
        """Those after the answer's come from a generator of their own: without them the rest is the same."""
        own = self.discrete_gaussian(scale, shape).ravel()
        self._rng, kept = self._aside, self._rng
        try:
            return np.concatenate([own, self.discrete_gaussian(scale, (more,))])
        finally:
            self._rng = kept

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Difference of two geometric draws."""
        _require_room(scale, LARGEST_LAPLACE_SCALE)
        success = -np.expm1(-1.0 / scale)
        first, second = self._rng.geometric(success, shape), self._rng.geometric(success, shape)
        return np.asarray(first - second, dtype=np.int64)

    def subset(self, population: int, size: int) -> Integers:
        """Uniform subset."""
        return np.sort(self._rng.choice(population, size=size, replace=False)).astype(np.int64)

    def poisson_sample(self, rows: int, rate: float) -> Integers:
        """A uniform float for every row."""
        return np.flatnonzero(self._rng.random(rows) < checks.rate("rate", rate)).astype(np.int64)

    def integers(self, below: int, count: int) -> Integers:
        """NumPy's own."""
        return self._rng.integers(_required_bound(below), size=count)


def _require_room(scale: float, largest: float) -> None:
    """A cut-off draw would tell the answer it is added to, so noise too wide for int64 is refused."""
    if not sys.float_info.min <= scale <= largest:
        raise ArgumentError(
            f"Noise must be at most {largest:g} grid steps wide; got {scale!r}. Raise epsilon."
        )


def _required_bound(below: int) -> int:
    """Integers of 32 bits, of which there is at least one."""
    if not 0 < below <= 2**32:
        raise ArgumentError(f"below must lie in 1..2³²; got {below!r}.")
    return int(below)
