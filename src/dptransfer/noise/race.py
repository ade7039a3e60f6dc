"""Exact noisy selection (exponential mechanism, report noisy max) from the histogram of scores alone.

A choice is drawn in two steps: a bin, and so many of its candidates by their number in it, from the counts
alone (`noise.score_bins`); then the candidates so proposed are looked up, and an exact coin decides by their
scores whether they are kept. Looking up is the caller's: a choice is a generator that says whom it wants to
see. So the candidates may be anywhere, no randomness goes to where they are, and however often somebody has
to look there again, nothing is drawn twice.

Sets of k, each with probability ∝ exp(smallest score in it ÷ scale); with k = 1 that is the exponential
mechanism. Let R be the number of candidates in bins above bin b, n that in b, and U_b ≥ exp((h − H)/scale)
for h the largest score in b and H that in the highest bin where a set's lowest member can lie. There are
C(R + n, k) − C(R, k) sets whose lowest member lies in b. Bin b is drawn with probability ∝ that number · U_b,
in whole numbers; then one of those sets, each as likely: how many members lie in b, and uniformly which. It
is kept with probability exp((s − H)/scale) ÷ U_b, where s is the set's smallest score, and otherwise all is
drawn again. What is kept is a given set with probability ∝ number · U_b · 1/number · exp(s/scale)/U_b =
exp(s/scale): the law itself, whatever the bins and the bounds U are. They only decide how often a proposal is
thrown away: in fine bins, a quarter of the scale wide, with probability at most 1 − e^(−1/4) = 0.22.

Permute-and-flip, the largest score + Exponential(scale). Its law is that of walking through a random
permutation and stopping at candidate i with probability w_i = exp(−(M − s_i)/scale), where M is the largest
score (McKenna and Sheldon 2020). Let each candidate be visited at the times of a Poisson process of rate 1,
all independent: the order of first visits is a random permutation. Toss a coin of w_i at each visit; visits
with heads come at rate w_i, those with tails at rate 1 − w_i, independently of one another. The walk stops at
the first visit that is its candidate's first and shows heads. So draw visits with heads alone, all together
at rate Σ w, each at i with probability ∝ w_i: that is what is proposed for sets of one. At time t it was i's
first visit with probability exp(−(1 − w_i)·t), if no tails were before; if there were, i is out for good. The
bounds U serve here, too: proposals come at the rate of their sum, and each stays with probability w_i/U_b.
The candidate with the largest score has w = 1 and is never out, so the walk ends; mostly it does at the
first proposal, since t is about 1/Σw.

Why U is a bound. A difference of scores is an exact integer; as a float, divided by the scale, it is t·(1 +
2⁻⁵²) at worst. For t ≤ 700 that moves exp(−t) by a factor within 1 ± 2⁻⁴², and an exponential that is off by
up to a thousand units in the last place by another 1 ± 2⁻⁴²; a factor of 1 + 2⁻⁴⁰ covers both. Further down
it is a power of two, at most twice what it must be, and at last a step of 2⁻¹¹⁰⁰ ÷ number of all sets.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Generator, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np

from dptransfer.base.types import Integers
from dptransfer.noise.integer_noise import ExponentialClock, RandomBits, below_exponential
from dptransfer.noise.score_bins import ScoreBins

_MARGIN = Fraction(2**40 + 1, 2**40)
_FLOAT_DEPTH = 700.0  # exp(−700) is a normal float
_BOUND_BITS = 1100


class Lookup(NamedTuple):
    """Candidates that a choice has to see: of one bin, by their number in it, in order of position."""

    level: int
    place: int
    numbers: tuple[int, ...]


class Candidate(NamedTuple):
    """A candidate."""

    position: int
    score: int


Choice: TypeAlias = Generator[Sequence[Lookup], Sequence[Sequence[Candidate]], tuple[int, ...]]
"""Says whom it wants to see, is told, and returns the positions that it chose."""


def best_set(bins: ScoreBins, size: int, scale: float, randbits: RandomBits) -> Choice:
    """`size` candidates with probability ∝ exp(smallest of their scores ÷ scale), exactly.

    >>> import secrets
    >>> scores = np.array([0, 10_000, 0, 10_000])
    >>> run_choice(best_set(ScoreBins.of(scores, 1.0, size=2), 2, 1.0, secrets.randbits), scores)
    (1, 3)
    """
    found = bins.descending_bins()
    above = np.cumsum([0] + [one.members for one in found]).tolist()
    sets = [math.comb(upto, size) for upto in above]
    highest = next(one.high for one, upto in zip(found, sets[1:], strict=True) if upto)
    bounds, one_in_bits = _bounds([max(0, highest - one.high) for one in found], scale, sets[-1])
    weights = [(sets[i + 1] - sets[i]) * bound for i, bound in enumerate(bounds)]
    while True:
        place = _drawn(weights, randbits)
        lowest, better = found[place], above[place]
        fewest, shares = _shares(lowest.members, better, size)
        members = fewest + _drawn(shares, randbits)
        (seen,) = yield [Lookup(lowest.level, lowest.place, _subset(lowest.members, members, randbits))]
        gap, factor = highest - min(one.score for one in seen), Fraction(one_in_bits, bounds[place])
        if below_exponential(randbits(64), 64, gap, scale, factor, randbits):
            break
    others = np.array(_subset(better, size - members, randbits), dtype=np.int64)
    places = np.searchsorted(above, others, side="right") - 1
    wanted = []
    for place in np.unique(places):
        numbers = others[places == place] - above[place]
        wanted.append(Lookup(found[place].level, found[place].place, tuple(numbers.tolist())))
    found_in_bins = [seen, *((yield wanted) if wanted else ())]
    return tuple(sorted(one.position for inside in found_in_bins for one in inside))


def permute_and_flip(bins: ScoreBins, scale: float, randbits: RandomBits) -> Choice:
    """The position of the largest score + Exponential(scale), exactly.

    >>> import secrets
    >>> scores = np.array([0, 10_000, 0])
    >>> run_choice(permute_and_flip(ScoreBins.of(scores, 1.0), 1.0, secrets.randbits), scores)
    (1,)
    """
    found = bins.descending_bins()
    bounds, one_in_bits = _bounds([max(0, bins.best - one.high) for one in found], scale, 1)
    weights = [one.members * bound for one, bound in zip(found, bounds, strict=True)]
    clock = ExponentialClock(Fraction(sum(weights), one_in_bits), randbits)
    out = set()
    while True:
        clock.tick()
        place = _drawn(weights, randbits)
        number = uniform_below(found[place].members, randbits)
        ((seen,),) = yield [Lookup(found[place].level, found[place].place, (number,))]
        gap, factor = bins.best - seen.score, Fraction(one_in_bits, bounds[place])
        stays = below_exponential(randbits(64), 64, gap, scale, factor, randbits)
        if stays and seen.position not in out:
            if clock.survives(gap, scale):
                return (seen.position,)
            out.add(seen.position)


def run_choice(choice: Choice, scores: Integers) -> tuple[int, ...]:
    """What is chosen among candidates that are all here."""
    try:
        wanted = next(choice)
        while True:
            wanted = choice.send([find_candidates(one, scores)[0] for one in wanted])
    except StopIteration as end:
        chosen: tuple[int, ...] = end.value
        return chosen


def find_candidates(wanted: Lookup, scores: Integers) -> tuple[list[Candidate], int]:
    """The candidates that a choice wants to see, as far as they are here, and how many are in its bin."""
    places = np.flatnonzero(scores >> wanted.level == wanted.place)
    chosen = places[[number for number in wanted.numbers if number < len(places)]]
    return [Candidate(int(place), int(scores[place])) for place in chosen], len(places)


def uniform_below(bound: int, randbits: RandomBits) -> int:
    """A uniform integer in 0..bound − 1."""
    bits = (bound - 1).bit_length()
    while (drawn := randbits(bits) if bits else 0) >= bound:
        pass
    return drawn


def _drawn(weights: Sequence[int], randbits: RandomBits) -> int:
    """A place with probability ∝ its weight, exactly."""
    ends = list(accumulate(weights))
    return bisect_right(ends, uniform_below(ends[-1], randbits))


def _shares(held: int, better: int, size: int) -> tuple[int, list[int]]:
    """How many sets have m of `held` members and the others of `better`: the smallest m ≥ 1, and for each m.

    The next number follows from the one before it, C(held, m) · C(better, size − m), without new binomials.

    >>> _shares(3, 4, 2)  # 3·4 and 3·1
    (1, [12, 3])
    """
    fewest = max(1, size - better)
    shares = [math.comb(held, fewest) * math.comb(better, size - fewest)]
    for m in range(fewest, min(size, held)):
        shares.append(shares[-1] * (held - m) * (size - m) // ((m + 1) * (better - size + m + 1)))
    return fewest, shares


def _subset(population: int, size: int, randbits: RandomBits) -> tuple[int, ...]:
    """A uniformly random set of `size` of the numbers 0..population − 1, in order (Floyd's algorithm)."""
    chosen: set[int] = set()
    for last in range(population - size, population):
        drawn = uniform_below(last + 1, randbits)
        chosen.add(last if drawn in chosen else drawn)
    return tuple(sorted(chosen))


def _bounds(gaps: Sequence[int], scale: float, sets: int) -> tuple[list[int], int]:
    """Integers of at least exp(−gap/scale), and hardly more, and the integer that stands for 1."""
    bits = _BOUND_BITS + sets.bit_length()

    def bound(gap: int) -> int:
        depth = gap / scale
        if depth <= _FLOAT_DEPTH:
            return min(1 << bits, math.ceil(Fraction(math.exp(-depth)) * _MARGIN * (1 << bits)))
        return 1 << max(0, bits - math.floor(min(depth, 2.0**40) * math.log2(math.e) * (1 - 2.0**-40)))

    return [bound(gap) for gap in gaps], 1 << bits
