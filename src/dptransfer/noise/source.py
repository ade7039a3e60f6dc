"""Where privacy noise comes from: the operating system, or, for tests and benchmarks, a seed.

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
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from dptransfer.arrays import AnyArray, Integers
from dptransfer.errors import ArgumentError
from dptransfer.noise import integer_noise, race
from dptransfer.noise.poisson_sample import exact_poisson_sample
from dptransfer.noise.race import Choice
from dptransfer.noise.score_bins import ScoreBins
from dptransfer.noise.trials import exact_trials
from dptransfer.noise.uniform import uniform_integers

LARGEST_GAUSSIAN_SCALE = 2.0**57
"""An int64 then holds 64 standard deviations: a draw beyond has probability below e⁻²⁰⁰⁰."""
LARGEST_LAPLACE_SCALE = 2.0**52
"""An int64 then holds 2048 scales: a draw beyond has probability below e⁻²⁰⁰⁰."""


class NoiseSource(Protocol):
    """The only supplier of privacy noise."""

    @property
    def seeded(self) -> bool:
        """Whether the draws can be repeated by someone who knows a seed."""

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Integers k with probability ∝ exp(−k² / 2·scale²), independently."""

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Integers k with probability ∝ exp(−|k| / scale), independently."""

    def best_set(self, bins: ScoreBins, size: int, scale: float) -> Choice:
        """A set with probability ∝ exp(smallest score in it / scale): the exponential mechanism's law."""

    def permute_and_flip(self, bins: ScoreBins, scale: float) -> Choice:
        """Who has the largest score + Exponential(scale): permute-and-flip's law."""

    def subset(self, population: int, size: int) -> Integers:
        """A uniformly random set of `size` of the integers 0..population−1, in increasing order."""

    def poisson_sample(self, rows: int, rate: float) -> Integers:
        """Increasing positions, each of 0..rows−1 independently with probability `rate` in (0, 1]."""

    def integers(self, below: int, count: int) -> Integers:
        """Independent uniform integers in 0..below−1."""

    def trials(self, mean: float, shape: float) -> int:
        """Number of repetitions before the best is chosen, by the laws of `noise.trials`."""

    def once(self, what: str, draw: Callable[[], AnyArray]) -> AnyArray:
        """A noisy answer. A source that keeps a record gives one that is on it, and never draws it again."""

    def kept(self, what: str, compute: Callable[[], AnyArray]) -> AnyArray:
        """A private intermediate without noise, which such a source need not compute again."""

    def kept_pieces(
        self, what: str, count: int, compute: Callable[[Sequence[int]], Iterable[tuple[int, AnyArray]]]
    ) -> list[AnyArray]:
        """Likewise many, of which those whose numbers are not on the record are asked for."""


class _WithoutRecord:
    """What is asked for is drawn and computed, whenever it is asked for."""

    def once(self, what: str, draw: Callable[[], AnyArray]) -> AnyArray:
        """A fresh answer."""
        return draw()

    def kept(self, what: str, compute: Callable[[], AnyArray]) -> AnyArray:
        """Computed here and now."""
        return compute()

    def kept_pieces(
        self, what: str, count: int, compute: Callable[[Sequence[int]], Iterable[tuple[int, AnyArray]]]
    ) -> list[AnyArray]:
        """All computed here and now."""
        return [array for _, array in sorted(compute(range(count)), key=lambda piece: piece[0])]


class SecureNoise(_WithoutRecord):
    """Exact samplers on the operating system's generator, or AES-256 keyed by it; the default everywhere."""

    seeded = False

    def __repr__(self) -> str:
        return "SecureNoise()"

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Exact; see `noise.integer_noise`."""
        _require_room(scale, LARGEST_GAUSSIAN_SCALE)
        return integer_noise.discrete_gaussian(float(scale), math.prod(shape)).reshape(shape)

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Exact; see `noise.integer_noise`."""
        _require_room(scale, LARGEST_LAPLACE_SCALE)
        return integer_noise.discrete_laplace(float(scale), math.prod(shape)).reshape(shape)

    def best_set(self, bins: ScoreBins, size: int, scale: float) -> Choice:
        """Exact, by proposal and an exact coin; see `noise.race`."""
        return race.best_set(bins, size, required_scale(scale), secrets.randbits)

    def permute_and_flip(self, bins: ScoreBins, scale: float) -> Choice:
        """Exact, by proposals, an exact clock and exact coins; see `noise.race`."""
        return race.permute_and_flip(bins, required_scale(scale), secrets.randbits)

    def subset(self, population: int, size: int) -> Integers:
        """Uniform subset from the operating system's generator."""
        import random

        chosen = random.SystemRandom().sample(range(population), size)
        return np.sort(np.array(chosen, dtype=np.int64))

    def poisson_sample(self, rows: int, rate: float) -> Integers:
        """An exact coin for every row; see `noise.poisson_sample`."""
        return exact_poisson_sample(rows, _required_rate(rate))

    def integers(self, below: int, count: int) -> Integers:
        """Exact; see `noise.uniform`."""
        return uniform_integers(_required_bound(below), count)

    def trials(self, mean: float, shape: float) -> int:
        """Exact, by inversion with as many digits as it takes; see `noise.trials`."""
        return exact_trials(mean, shape, secrets.randbits)


class SeededNoise(_WithoutRecord):
    """Repeatable noise for tests and benchmarks; never for publication.

    >>> first, second = (SeededNoise(1).discrete_gaussian(1e9, (2,)) for _ in range(2))
    >>> (first == second).all()
    np.True_
    """

    seeded = True

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._seed = seed

    def __repr__(self) -> str:
        return f"SeededNoise({self._seed})"

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """A rounded normal draw: within 1/(8·scale²) of the discrete Gaussian's probabilities."""
        _require_room(scale, LARGEST_GAUSSIAN_SCALE)
        return np.rint(self._rng.normal(0.0, scale, shape)).astype(np.int64)

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Difference of two geometric draws."""
        _require_room(scale, LARGEST_LAPLACE_SCALE)
        success = -np.expm1(-1.0 / scale)
        first, second = self._rng.geometric(success, shape), self._rng.geometric(success, shape)
        return np.asarray(first - second, dtype=np.int64)

    def best_set(self, bins: ScoreBins, size: int, scale: float) -> Choice:
        """As the secure source, with bits from the seed."""
        return race.best_set(bins, size, required_scale(scale), self._bits)

    def permute_and_flip(self, bins: ScoreBins, scale: float) -> Choice:
        """As the secure source, with bits from the seed."""
        return race.permute_and_flip(bins, required_scale(scale), self._bits)

    def subset(self, population: int, size: int) -> Integers:
        """Uniform subset."""
        return np.sort(self._rng.choice(population, size=size, replace=False)).astype(np.int64)

    def poisson_sample(self, rows: int, rate: float) -> Integers:
        """A uniform float for every row."""
        return np.flatnonzero(self._rng.random(rows) < _required_rate(rate)).astype(np.int64)

    def integers(self, below: int, count: int) -> Integers:
        """NumPy's own."""
        return self._rng.integers(_required_bound(below), size=count)

    def trials(self, mean: float, shape: float) -> int:
        """By inversion, as the secure source, with bits from the seed."""
        return exact_trials(mean, shape, self._bits)

    def _bits(self, bits: int) -> int:
        return int.from_bytes(self._rng.bytes(-(-bits // 8))) >> (-bits % 8)


def _require_room(scale: float, largest: float) -> None:
    """A cut-off draw would tell the answer it is added to, so noise too wide for int64 is refused."""
    if not sys.float_info.min <= scale <= largest:
        raise ArgumentError(
            f"The noise must be at most {largest:g} grid steps wide to fit 64-bit integers; got {scale!r}. "
            "Raise epsilon: this budget allows no useful release."
        )


def _required_rate(rate: float) -> float:
    """A row is taken with some probability; none would be no sample."""
    if not 0 < rate <= 1:
        raise ArgumentError(f"rate must lie in (0, 1]; got {rate!r}.")
    return float(rate)


def _required_bound(below: int) -> int:
    """Integers of 32 bits, of which there is at least one."""
    if not 0 < below <= 2**32:
        raise ArgumentError(f"below must lie in 1..2³²; got {below!r}.")
    return int(below)


def required_scale(scale: float) -> float:
    """A choice needs a width it can divide by."""
    if not 0 < scale < float("inf"):
        raise ArgumentError(f"scale must be a positive finite number; got {scale!r}.")
    return float(scale)
