"""Where privacy noise comes from: the operating system, or, for tests and benchmarks, a seed.

Everything is drawn on integers. `SecureNoise` adds noise with OpenDP's exact samplers, which work in rational
arithmetic, and chooses among candidates with the exact races of `noise.race`, both on the operating system's
generator, so that what a draw reveals is what the mathematics says and no more. For many steps of much noise
there is `lattice_gaussian`, hundreds of times as fast, on a cipher whose key the operating system gives.
`SeededNoise` has the same laws up to float64 rounding; anyone who knows the seed can take the noise off
again, so what it touches is stamped and refused for publication.
"""

from __future__ import annotations

import math
import secrets
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dptransfer.errors import ArgumentError
from dptransfer.noise import lattice_gaussian, poisson_sample, race, trials

Integers = NDArray[np.int64]

LARGEST_GAUSSIAN_SCALE = 2.0**57
"""An int64 then holds 64 standard deviations: a draw beyond has probability below e⁻²⁰⁰⁰."""
LARGEST_LAPLACE_SCALE = 2.0**52
"""An int64 then holds 2048 scales: a draw beyond has probability below e⁻²⁰⁰⁰."""
SMALLEST_LATTICE_SCALE = 10.0
"""Narrower noise is also refused by `lattice_epsilon`, which every Gaussian step needs."""


class NoiseSource(Protocol):
    """The only supplier of privacy noise."""

    @property
    def seeded(self) -> bool:
        """Whether the draws can be repeated by someone who knows a seed."""
        ...

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Integers k with probability ∝ exp(−k² / 2·scale²), independently."""
        ...

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Integers k with probability ∝ exp(−|k| / scale), independently."""
        ...

    def gumbel_argmax(self, scores: Integers, scale: float) -> int:
        """Position j with probability ∝ exp(scores_j / scale): the exponential mechanism's law."""
        ...

    def exponential_argmax(self, scores: Integers, scale: float) -> int:
        """Position of the largest scores_j + Exponential(scale): permute-and-flip's law."""
        ...

    def subset(self, population: int, size: int) -> Integers:
        """A uniformly random set of `size` of the integers 0..population−1, in increasing order."""
        ...

    def lattice_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """The law of `discrete_gaussian` up to `lattice_gaussian_distance`, fast; from 10 grid steps on."""
        ...

    def poisson_sample(self, rows: int, rate: float) -> Integers:
        """Increasing positions, each of 0..rows−1 independently with probability `rate` in (0, 1]."""
        ...

    def trials(self, mean: float, shape: float) -> int:
        """Number of repetitions before the best is chosen, by the laws of `noise.trials`."""
        ...


class SecureNoise:
    """Exact samplers on the operating system's cryptographic generator; the default everywhere."""

    seeded = False

    def __repr__(self) -> str:
        return "SecureNoise()"

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Exact discrete Gaussian (Canonne, Kamath and Steinke 2020), through OpenDP."""
        _require_room(scale, LARGEST_GAUSSIAN_SCALE)
        return _noise_like(_opendp_gaussian(float(scale)), shape)

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Exact discrete Laplace, through OpenDP."""
        _require_room(scale, LARGEST_LAPLACE_SCALE)
        return _noise_like(_opendp_laplace(float(scale)), shape)

    def gumbel_argmax(self, scores: Integers, scale: float) -> int:
        """Exact, by proposal and an exact coin; see `noise.race`."""
        return race.gumbel_argmax(np.ascontiguousarray(scores, dtype=np.int64), _required_scale(scale))

    def exponential_argmax(self, scores: Integers, scale: float) -> int:
        """Exact, by tossing every candidate's coin; see `noise.race`."""
        return race.exponential_argmax(np.ascontiguousarray(scores, dtype=np.int64), _required_scale(scale))

    def subset(self, population: int, size: int) -> Integers:
        """Uniform subset from the operating system's generator."""
        import random

        chosen = random.SystemRandom().sample(range(population), size)
        return np.sort(np.array(chosen, dtype=np.int64))

    def lattice_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Exact up to 16 standard deviations; see `noise.lattice_gaussian`."""
        _require_lattice_room(scale)
        return lattice_gaussian.lattice_gaussian(float(scale), math.prod(shape)).reshape(shape)

    def poisson_sample(self, rows: int, rate: float) -> Integers:
        """An exact coin for every row; see `noise.poisson_sample`."""
        return poisson_sample.poisson_sample(rows, _required_rate(rate))

    def trials(self, mean: float, shape: float) -> int:
        """Exact, by inversion with as many digits as it takes; see `noise.trials`."""
        return trials.trials(mean, shape, secrets.randbits)


class SeededNoise:
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

    def gumbel_argmax(self, scores: Integers, scale: float) -> int:
        """Gumbel noise in float64."""
        return int(np.argmax(scores / scale + self._rng.gumbel(size=scores.shape)))

    def exponential_argmax(self, scores: Integers, scale: float) -> int:
        """Exponential noise in float64."""
        return int(np.argmax(scores / scale + self._rng.exponential(size=scores.shape)))

    def subset(self, population: int, size: int) -> Integers:
        """Uniform subset."""
        return np.sort(self._rng.choice(population, size=size, replace=False)).astype(np.int64)

    def lattice_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """A rounded normal draw, as `discrete_gaussian`."""
        _require_lattice_room(scale)
        return self.discrete_gaussian(scale, shape)

    def poisson_sample(self, rows: int, rate: float) -> Integers:
        """A uniform float for every row."""
        return np.flatnonzero(self._rng.random(rows) < _required_rate(rate)).astype(np.int64)

    def trials(self, mean: float, shape: float) -> int:
        """By inversion, as the secure source, with bits from the seed."""
        return trials.trials(mean, shape, lambda bits: int.from_bytes(self._rng.bytes(bits // 8)))


def _require_room(scale: float, largest: float) -> None:
    """A cut-off draw would tell the answer it is added to, so noise too wide for int64 is refused."""
    if not 0 < scale <= largest:
        raise ArgumentError(
            f"The noise must be at most {largest:g} grid steps wide to fit 64-bit integers; got {scale!r}. "
            "Raise epsilon: this budget allows no useful release."
        )


def _require_lattice_room(scale: float) -> None:
    """As `_require_room`, and wide enough for the cost of the grid to be bounded."""
    _require_room(scale, LARGEST_GAUSSIAN_SCALE)
    if scale < SMALLEST_LATTICE_SCALE:
        raise ArgumentError(
            f"Lattice noise must be at least {SMALLEST_LATTICE_SCALE:g} grid steps wide; got {scale!r}. "
            "Use a finer grid."
        )


def _required_rate(rate: float) -> float:
    """A row is taken with some probability; none would be no sample."""
    if not 0 < rate <= 1:
        raise ArgumentError(f"rate must lie in (0, 1]; got {rate!r}.")
    return float(rate)


def _required_scale(scale: float) -> float:
    """A race needs a width it can divide by."""
    if not 0 < scale < float("inf"):
        raise ArgumentError(f"scale must be a positive finite number; got {scale!r}.")
    return float(scale)


def _noise_like(measurement: Any, shape: tuple[int, ...]) -> Integers:
    """Noise alone: the measurement applied to zeros, so that no private value crosses the language border."""
    count = int(np.prod(shape))
    if count == 0:
        return np.zeros(shape, dtype=np.int64)
    return np.array(measurement(np.zeros(count, dtype=np.int64)), dtype=np.int64).reshape(shape)


# OpenDP's default integer is 32 bits wide and saturates, which would cut the noise off without a word on a
# grid of 2⁻³⁰; hence "i64" throughout. Its parts are imported one by one: its prelude takes seconds.
@cache
def _integer_vectors() -> Any:
    from opendp.domains import atom_domain, vector_domain
    from opendp.mod import enable_features

    enable_features("contrib")
    return vector_domain(atom_domain(T="i64"))


@cache
def _opendp_gaussian(scale: float) -> Any:
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    return make_gaussian(_integer_vectors(), l2_distance(T="f64"), scale=scale)


@cache
def _opendp_laplace(scale: float) -> Any:
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance

    return make_laplace(_integer_vectors(), l1_distance(T="i64"), scale=scale)
