"""Exact integer noise: discrete Gaussian and Laplace from a cryptographic stream, and the cost of the grid.

The operating system's generator takes 20 ns for a 64-bit word, AES with a processor's own instructions 1 ns.
So the system gives 256 bits, the key, and the cipher makes words of them by encrypting 0, 1, 2, … What is
assumed is what encryption in this mode assumes: without the key, nobody can tell its output from uniform
words. The best known way to tell is that 128-bit blocks never repeat, which shows with probability below
q²/2¹²⁹ after q blocks: 2⁻⁶⁹ after 2³¹ words.

A stream lives as long as one call of a sampler. Two calls, two threads or the two sides of a fork therefore
never share a key, and nothing that is kept between calls could be read to repeat a draw; but for choices in a
workspace, which must come out the same when a run goes on (`methods.checkpoint`).

Bits of a uniform number are compared with an interval around the probability, from `decimal`'s correctly
rounded exponential of quotients rounded down and up; if the interval contains them, more bits are drawn and
the interval is narrowed. No float takes part, and neither does what the program has set for `decimal`.

Both are P(k) ∝ g(k) = exp(−(|k|/s)^p / p), with p = 2 and p = 1. Floats propose; what decides is exact.

**Proposal.** The integers are cut into bins of w = 2^j neighbours, so that s/w lies in [32, 64), or w = 1 for
s < 64; all of this is exact, since w is a power of two. Bin h holds k = hw + l with 0 ≤ l < w, for
h = −H, …, H − 1 with H = ⌈R·s/w⌉, where R = 6 for p = 2 and 20 for p = 1. A table of 2¹⁶ slots names bin h in
W_h ≥ 1 of them and keeps one slot for the tails. 16 bits of a uniform word choose a slot and j bits of a
second word are l, so every k of the bins is proposed with probability exactly W_h/(2¹⁶ w).

**Acceptance.** Let N be an integer with N·g(k) ≤ W_h for every k of bin h. A proposal is kept with
probability N·g(k)/W_h, and otherwise everything is drawn again. So one attempt ends with k with probability
W_h/(2¹⁶ w) · N·g(k)/W_h = N·g(k)/(2¹⁶ w): the law itself, whatever the W are. They only decide how often a
proposal is thrown away: N·Σg/(2¹⁶ w) are kept, 0.95 or more.

**Tails.** The slot of the tails proposes, by bits from the operating system, a side, a block b = 0, 1, 2, …
with probability 2^−(b+1), and a place 0 ≤ l < 64w in it: m = Hw + 64w·b + l, and k = m on the right or −1 − m
on the left. So every k outside the bins is proposed, with probability 2^−(b+8)/(2¹⁶ w), and it is kept with
probability 2^(b+8)·N·g(k). An attempt ends with it with probability N·g(k)/(2¹⁶ w), as for the bins: nothing
is cut off, and the law is the stated one on *all* integers. That 2^(b+8)·N·g(k) is a probability follows from
N < 2¹⁶, Hw ≥ Rs and 64w ≥ s: (|k|/s)^p/p ≥ (R + b)^p/p ≥ 18 + b, and 2^(24+b)·exp(−18 − b) < 0.26.

**Why N·g ≤ W.** The largest g of a bin is at its integer a nearest to zero: a = hw for h ≥ 0, and |a| =
(−h − 1)w + 1 for h < 0. W = ⌊N·ĝ(1 + 2⁻⁴⁰)⌋ + 1, where ĝ is g(a) in floats, and the next paragraph shows
that ĝ is right to a factor 1 ± 2⁻⁴¹, or else both are so small that W = 1 is enough. N is so small that these
W fit the slots, Σ(N·ĝ(1 + 2⁻⁴⁰) + 1) ≤ 2¹⁶ − 1, and no smaller; the slots left over go to bin 0.

**Rounding.** With u = 2⁻⁵³ and to first order: |k| < 2⁶³ becomes a float with relative error u, its quotient
by s has 2u, the square 5u. An exponent below 64 is therefore off by less than 2⁻⁴⁴. If `numpy.exp` is right
to a thousand units in the last place, which is **assumed**, it adds 2000 u < 2⁻⁴², and N/W two more u. So the
float t ≈ 2⁴⁷·N·g(k)/W ≤ 2⁴⁷ has relative error below 2⁻⁴¹ and is off by less than 64. Larger exponents occur
in the bins for s < 1 only. There N·g and its float are both below 2¹⁶·e⁻⁶³ < 2⁻⁷⁴, also where a processor
takes tiny floats for zero, and t is off by less than 1. t is compared with U, the first 47 bits of a uniform
number. Where the two differ by more than 65 the comparison is certain. Otherwise, once in 10¹² proposals, and
for all that come from the tails, U gets more bits and is compared in exact arithmetic (`noise.noise_source`).

**Mostly without an exponential.** The smallest g of a bin is at its integer z furthest from zero: hw + w − 1
for h ≥ 0, and hw for h < 0. Let t be the float of z, and S = ⌊t(1 − 2⁻⁴⁰)⌋. With t as right as above,
S ≤ 2⁴⁷·N·g(z)/W ≤ 2⁴⁷·N·g(k)/W for every k of the bin (where t may be off by 1 instead, t < 1 and S = 0). So
U < S, which is U + 1 ≤ S, keeps k whatever bits follow U. That settles 97 of 100 proposals; for the others t
is computed for k itself.

Besides the exponential it is assumed that the words are uniform (`noise.integer_noise`). A draw that 64 bits
cannot hold would raise OverflowError; for the scales that `noise.noise_source` allows its probability is
below e⁻²⁰⁰⁰.
"""

from __future__ import annotations

import decimal
import math
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dptransfer.base import checks
from dptransfer.base.types import Floats, Integers, RandomWords
from dptransfer.errors import ArgumentError

KEY_BYTES = 32
_ZEROS = memoryview(bytes(2**19))  # to encrypt a zero is to see the cipher's own bits


class WordStream:
    """Independent uniform 64-bit words that nobody can repeat who does not have the key.

    >>> WordStream().words(3).shape
    (3,)

    Args:
        key: 32 uniform bytes, for one stream that is to be repeated; new ones if not given.
    """

    def __init__(self, key: bytes | None = None) -> None:
        # Imported here, so that `import dptransfer` does not load a cipher.
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        key, first_counter = key or os.urandom(KEY_BYTES), bytes(16)
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(first_counter)).encryptor()

    def words(self, count: int) -> RandomWords:
        """The next `count` words of the stream; read-only."""
        size = 8 * count
        zeros = _ZEROS[:size] if size <= len(_ZEROS) else bytes(size)
        return np.frombuffer(self._cipher.update(zeros), dtype=np.uint64)

    def bits(self, count: int) -> int:
        """An integer of the next `count` bits; what is left of a byte is thrown away.

        >>> 0 <= WordStream().bits(3) < 8
        True
        """
        return int.from_bytes(self._cipher.update(bytes(-(-count // 8)))) >> (-count % 8)


def uniform_integers(below: int, count: int) -> Integers:
    """`count` independent integers in 0..below−1.

    A 64-bit word is kept if it lies under the largest multiple of `below`, and its remainder is then uniform.
    With `below` at most 2³² a word is thrown away with probability under 2⁻³².

    >>> uniform_integers(1, 3).tolist()
    [0, 0, 0]
    """
    stream, most = WordStream(), 2**64 - 2**64 % below
    kept = np.empty(0, dtype=np.int64)
    while len(kept) < count:
        words = stream.words(count - len(kept))
        if most < 2**64:
            words = words[words < np.uint64(most)]
        kept = np.concatenate([kept, (words % np.uint64(below)).astype(np.int64)])
    return kept


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

    def survives(self, gap: int, scale: float) -> bool:
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
        context, unit = decimal_context(digits), decimal.Decimal(2**self._bits)

        def minus_log(number: int) -> decimal.Decimal:
            return context.minus(context.ln(context.divide(decimal.Decimal(number), unit)))

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
    down = quotient(over, under, digits + 3, decimal.ROUND_FLOOR)
    up = quotient(over, under, digits + 3, decimal.ROUND_CEILING)
    context = decimal_context(digits)
    low = context.next_minus(context.exp(up.copy_negate()))
    high = context.next_plus(context.exp(down.copy_negate()))
    return Fraction(low), min(Fraction(high), Fraction(1))


def quotient(over: int, under: int, digits: int, rounding: str) -> decimal.Decimal:
    """A quotient of exact numbers, rounded one way."""
    return decimal_context(digits, rounding).divide(decimal.Decimal(over), decimal.Decimal(under))


def decimal_context(digits: int, rounding: str = decimal.ROUND_HALF_EVEN) -> decimal.Context:
    """Decimal arithmetic of so many digits that neither overflows nor underflows.

    What is left out would come from `decimal.DefaultContext`, where a program may ask for an error wherever
    a result is rounded; whether one is may depend on private scores.
    """
    traps = [decimal.DivisionByZero, decimal.InvalidOperation]  # of which there are none
    return decimal.Context(digits, rounding, decimal.MIN_EMIN, decimal.MAX_EMAX, traps=traps)


_WIDTH = 85.0
_SMALLEST_SCALE = 10.0


def lattice_epsilon(scale: float, coordinates: int) -> float:
    """ε to add to the Gaussian curve for `coordinates` discrete draws of width `scale`, in grid steps.

    Let R be the law of a rounded normal draw, round(N(0, s²)), and D the discrete Gaussian that runs.
    Rounding is post-processing, so on an integer answer R has the exact Gaussian curve. Compare the two at an
    integer k:

        R(k) / φ(k) = ∫_{−½}^{½} exp(−u²/2s²) cosh(ku/s²) du  ∈  [exp(−1/8s²), exp(k²/8s⁴)],
        D(k) / φ(k) = 1 / Σ_j φ(j)  ∈  [1 − 3·exp(−2π²s²), 1]        (Poisson summation),

    and the last correction vanishes in float64 once s ≥ 10. For |k| ≤ w·s, log(R/D) lies in [−1/8s², w²/8s²].
    Outputs within 40 standard deviations of one data set's answer are within w = 80 of its neighbour's, as
    long as the noise multiplier is at least 1/40; those further out have mass at most 2m·exp(−800), which
    float64 cannot represent. So m coordinates differ by at most m(1 + 80²)/8s² in log-probability. The bound
    used is e = m(1 + 85²)/8s²: twice it also covers a neighbour at twice the distance (w = 120, 1 + 120² ≤
    2(1 + 85²)), which is how a step is restated for replacing one example (`privacy.in_relation`). If the
    ideal step is (ε, δ)-DP, the one that runs is (ε + e, exp(e)·δ)-DP.

    On a grid of 2⁻³⁰ it is next to nothing:

    >>> lattice_epsilon(scale=2.0**30, coordinates=100_000) < 1e-10
    True
    """
    checks.whole("coordinates", coordinates)
    if not scale >= _SMALLEST_SCALE:
        raise ArgumentError(
            f"Noise must be at least {_SMALLEST_SCALE:g} grid steps wide; got {scale!r}. Use a finer grid."
        )
    return coordinates * (1 + _WIDTH**2) / (8 * scale**2)


GAUSSIAN, LAPLACE = 2, 1
"""The power p that makes the law."""

_CHUNK = 2**14  # proposals at a time: the passes over them stay in the cache
_SLOT_BITS = 16
_COIN_BITS = 47
_REACH = {GAUSSIAN: 6, LAPLACE: 20}  # R, in scales: the smallest round numbers with R^p/p ≥ 18
_BINS_PER_BLOCK = 64
_MARGIN = 2.0**-40
_UNCERTAIN = 65.0


@dataclass(frozen=True)
class Proposal:
    """Which bin is proposed how often, for one law.

    Attributes:
        power: p.
        scale: s.
        shift: j; a bin holds 2^j integers.
        reach: H; bins are −H..H−1, arrays by bin begin with bin −H, and place 2H is that of the tails.
        ceiling: N.
        weights: W by bin, summing to 2¹⁶; 1 for the tails.
        slots: The bin that each slot names.
        thresholds: 2⁴⁷·N/W by bin, as floats. NaN for the tails: with it no comparison is certain.
        surely: S by bin: a smaller U keeps every integer of the bin. 0 for the tails.
    """

    power: int
    scale: float
    shift: int
    reach: int
    ceiling: int
    weights: Integers
    slots: NDArray[np.int16]
    thresholds: Floats
    surely: Integers


def discrete_gaussian(scale: float, count: int, stream: WordStream | None = None) -> Integers:
    """Independent integers k with probability ∝ exp(−k²/2·scale²), exactly.

    Args:
        scale: s in grid steps, at most 2⁵⁷; the caller has checked it.
        count: How many.
        stream: Where words come from; a new one, if none is given.

    >>> draws = discrete_gaussian(1e6, 10_000)
    >>> bool(0.9e6 < draws.std() < 1.1e6)
    True
    """
    return _draws(proposal(GAUSSIAN, scale), count, stream or WordStream())


def discrete_laplace(scale: float, count: int) -> Integers:
    """Independent integers k with probability ∝ exp(−|k|/scale), exactly; `scale` is at most 2⁵².

    >>> draws = discrete_laplace(1e6, 10_000)
    >>> bool(0.9e6 < abs(draws).mean() < 1.1e6)
    True
    """
    return _draws(proposal(LAPLACE, scale), count, WordStream())


def _draws(table: Proposal, count: int, stream: WordStream) -> Integers:
    kept, found = np.empty(count, dtype=np.int64), 0
    while found < count:
        # Some are thrown away; asking for a few more than are missing mostly saves a second round.
        size = min(_CHUNK, count - found + (count - found) // 20 + 8)
        words = stream.words(2 * size)
        draws, keep = accept_proposals(words[:size], words[size:], table)
        draws = draws[keep][: count - found]
        kept[found : found + len(draws)] = draws
        found += len(draws)
    return kept


@lru_cache(maxsize=32)
def proposal(power: int, scale: float) -> Proposal:
    """The table for one law: a hundred microseconds and 200 KiB."""
    shift = max(0, math.frexp(scale / _BINS_PER_BLOCK)[1])
    width = 2**shift
    reach = math.ceil(_REACH[power] * Fraction(scale) / width)
    bins = np.arange(-reach, reach)
    nearest = np.where(bins >= 0, bins * width, (-bins - 1) * width + 1)
    bounds = _exponentials(nearest, power, scale) * (1 + _MARGIN)
    free = 2**_SLOT_BITS - 1
    ceiling = int((free - len(bins)) / bounds.sum())
    weights = (ceiling * bounds).astype(np.int64) + 1
    weights[reach] += free - weights.sum()
    thresholds = 2.0**_COIN_BITS * ceiling / weights
    furthest = np.where(bins >= 0, bins * width + width - 1, -bins * width)
    surely = (thresholds * _exponentials(furthest, power, scale) * (1 - _MARGIN)).astype(np.int64)
    thresholds, surely, weights = np.append(thresholds, np.nan), np.append(surely, 0), np.append(weights, 1)
    slots = np.repeat(np.append(bins, reach), weights).astype(np.int16)
    for array in (weights, slots, thresholds, surely):  # they are shared by all later calls
        array.flags.writeable = False
    return Proposal(power, scale, shift, reach, ceiling, weights, slots, thresholds, surely)


Judged: TypeAlias = tuple[Integers, NDArray[np.bool_]]
"""Draws, and which of them are kept."""


def accept_proposals(first: RandomWords, second: RandomWords, table: Proposal) -> Judged:
    """What each pair of uniform words proposes, and whether it is kept.

    The first word holds slot (16 bits), one unused bit and U (47 bits), the second the place in the bin.
    """
    slot = (first >> np.uint64(64 - _SLOT_BITS)).view(np.int64)
    bins = table.slots.take(slot).astype(np.int64)
    draws = (second & np.uint64(2**table.shift - 1)).view(np.int64)
    draws += bins << table.shift
    bins += table.reach
    uniform = (first & np.uint64(2**_COIN_BITS - 1)).view(np.int64)
    keep = uniform < table.surely.take(bins)
    rest = np.flatnonzero(~keep)
    draws[rest], keep[rest] = _settled(draws[rest], bins[rest], uniform[rest], table)
    return draws, keep


def _settled(draws: Integers, bins: Integers, uniform: Integers, table: Proposal) -> Judged:
    """The same for proposals that not the whole bin agrees on; bins are places in the table's arrays."""
    above = uniform - _exponentials(draws, table.power, table.scale) * table.thresholds[bins]
    keep = above < 0
    for place in np.flatnonzero(~(np.abs(above) > _UNCERTAIN)):
        draw, factor = int(draws[place]), Fraction(table.ceiling, int(table.weights[bins[place]]))
        if bins[place] == 2 * table.reach:
            draw, factor = from_the_tails(table)
        keep[place] = _kept(draw, int(uniform[place]), factor, table)
        if keep[place]:  # others may lie anywhere, also beyond 64 bits
            draws[place] = draw
    return draws, keep


def from_the_tails(table: Proposal) -> tuple[int, Fraction]:
    """An integer outside the bins, and what exp(−(|k|/s)^p/p) is multiplied with when it is kept."""
    block = 0
    while secrets.randbits(1):
        block += 1
    width = _BINS_PER_BLOCK << table.shift
    draw = (table.reach << table.shift) + width * block + secrets.randbelow(width)
    side = secrets.randbits(1)
    return -1 - draw if side else draw, Fraction(table.ceiling * 2**block * 4 * _BINS_PER_BLOCK)


def _exponentials(draws: Integers, power: int, scale: float) -> Floats:
    """exp(−(|k|/s)^p / p) in floats; the module's proof bounds their error."""
    exponents = np.abs(draws).astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        exponents /= scale
        if power == GAUSSIAN:
            exponents *= exponents
        exponents *= -1 / power
        return np.exp(exponents, out=exponents)


def _kept(draw: int, uniform: int, factor: Fraction, table: Proposal) -> bool:
    """Whether a uniform number that begins with these 47 bits keeps the draw, in exact arithmetic."""
    gap, scale = abs(draw) ** table.power, table.power * Fraction(table.scale) ** table.power
    return below_exponential(uniform, _COIN_BITS, gap, scale, factor)
