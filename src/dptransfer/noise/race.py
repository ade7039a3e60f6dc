"""Exact noisy selection (exponential mechanism, report noisy max) from the histogram of scores alone.

A choice is drawn in two steps: a bin, and so many of its candidates by their number in it, from the counts
alone; then the candidates so proposed are looked up, and an exact coin decides by their
scores whether they are kept. Looking up is the caller's: a choice is a generator that says whom it wants to
see. So the candidates may be anywhere, no randomness goes to where they are, and however often somebody has
to look there again, nothing is drawn twice.

**Sets of k**, each with probability ∝ exp(smallest score in it ÷ scale); with k = 1 that is the exponential
mechanism. Let R be the number of candidates in bins above bin b, n that in b, and U_b ≥ exp((h − H)/scale)
for h the largest score in b and H that in the highest bin where a set's lowest member can lie. There are
C(R + n, k) − C(R, k) sets whose lowest member lies in b. Bin b is drawn with probability ∝ that number · U_b,
in whole numbers; then one of those sets, each as likely: how many members lie in b, and uniformly which. It
is kept with probability exp((s − H)/scale) ÷ U_b, where s is the set's smallest score, and otherwise all is
drawn again. What is kept is a given set with probability ∝ number · U_b · 1/number · exp(s/scale)/U_b =
exp(s/scale): the law itself, whatever the bins and the bounds U are. They only decide how often a proposal is
thrown away: in fine bins, a quarter of the scale wide, with probability at most 1 − e^(−1/4) = 0.22.

**Permute-and-flip**, the largest score + Exponential(scale). Its law is that of walking through a random
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

**Why U is a bound.** A difference of scores is an exact integer; as a float, divided by the scale, it is t·(1
+ 2⁻⁵²) at worst. For t ≤ 700 that moves exp(−t) by a factor within 1 ± 2⁻⁴², and an exponential that is off
by up to a thousand units in the last place by another 1 ± 2⁻⁴²; a factor of 1 + 2⁻⁴⁰ covers both. Further
down it is a power of two, at most twice what it must be, and at last a step of 2⁻¹¹⁰⁰ ÷ number of all sets.

**Histograms of scores.** A bin is an interval [i·2^l, (i + 1)·2^l) of scores, its level l and its index i.
The finest ones are at most a quarter of the noise's width, so that scores in one hardly differ in how likely
they are. Further down, where a choice hardly ever comes, bins are wider. A set of k is as likely as its worst
member, so what counts is how far a score lies below M, the k-th largest: it is in the widest bin that is at
least 128 of its widths below M, or in one of the finest. That is some hundred bins, whatever the scores.

Of large sets there are so many more with a low member that it lies deep. If R candidates are above a depth of
x scales, with R growing as x^a, then R^k·exp(−x) is largest at x = a·k. Around there the number of sets grows
as fast as their weight falls: in a bin of w scales the lowest member is mostly near the bottom, and w/(e^w −
1) of what is proposed is kept. With bins of 1/128 of the depth, w grows with k: of 10⁵ normal scores, sets of
200 took 6 proposals, and those of 1,000 more than 300. So it is 1/2k from k = 64 on, which took 1 to 3.

Bins of several parts are put together by adding counts, and the result is that of all scores at once: M only
grows when a part is added, that lets bins grow and not shrink, and bins of twice the width hold two of the
width before. So a choice that is drawn from bins does not depend on how the candidates were cut into parts,
nor on the order in which these were counted.

Millions of scores take longer on their way to the host than to be computed, and a class has some hundred
bins. Which bin a score is in follows from the score and M alone: with W widths, its level is the largest l
above the finest with (s >> l) + 1 + W ≤ (M + 1) >> l, or the finest. If that holds for a level it holds for
those below, so levels are counted up. It implies M − s ≥ W·2^l, which bounds them; and where it does not hold
for l + 1, bin s >> l is at most 2W + 1 bins below that of M: a small table for each level counts all scores
up to M. Those above M are fewer than a set has members, and are listed.

All of it is comparisons and sums of integers, so counts are those of the CPU. Scores are 0 or more.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np

from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import Integers, Tensor
from dptransfer.noise.integer_noise import ExponentialClock, RandomBits, below_exponential

_COUNTED_AT_ONCE = 2**16
_COARSER = 8  # levels: what is 2¹⁶ bins below M is 128 widths below it in bins 2⁸ times as wide
_MOST_WIDTHS = 2**13  # a bin then has 2²¹ others above it that are counted with it: 16 MB


class Bin(NamedTuple):
    """One bin, and how many candidates have a score in it."""

    level: int
    place: int
    members: int

    @property
    def high(self) -> int:
        """Largest score in it."""
        return ((self.place + 1) << self.level) - 1


@dataclass(frozen=True, eq=False)
class ScoreBins:
    """Candidates of one class by their scores.

    >>> bins = ScoreBins.of(np.array([3, 900, 901, 7]), scale=8.0)
    >>> [(one.place << one.level, one.high, one.members) for one in bins.descending_bins()]
    [(900, 901, 2), (4, 7, 1), (0, 3, 1)]

    Attributes:
        top: the largest scores, falling, as many as a set has members; fewer, if there are no more.
        size: how many that is.
        levels: of the bins that hold any.
        indices: of these bins.
        counts: how many candidates each holds.
    """

    top: Integers
    size: int
    levels: Integers
    indices: Integers
    counts: Integers

    @property
    def best(self) -> int:
        """The largest score."""
        return int(self.top[0])

    @classmethod
    def of(cls, scores: Integers, scale: float, size: int = 1) -> ScoreBins:
        """The bins of these scores, for noise of this width, and for sets of this size."""
        top, level = _largest(scores, size), finest_level(scale)
        at_once = max(_COUNTED_AT_ONCE, widths_below(size) + 2 << _COARSER)
        found: list[tuple[int, Integers, Integers]] = []
        last = int(top[-1])
        if size > 1:  # fewer than a set has members are above the last of them
            above = scores > last if len(top) == size else np.ones(len(scores), dtype=np.bool_)
            found.append((level, *np.unique(scores[above] >> level, return_counts=True)))
            scores = scores[~above]
        while len(scores):
            # Wraps round where a difference exceeds 2⁶³, which reading it without a sign undoes.
            gaps = (np.int64(last >> level) - (scores >> level)).view(np.uint64)
            far = gaps >= at_once if gaps.max() >= at_once else None
            filled = np.bincount((gaps if far is None else gaps[~far]).view(np.int64))
            taken = np.flatnonzero(filled)
            found.append((level, (last >> level) - taken, filled[taken]))
            if far is None:
                break
            scores, level = scores[far], level + _COARSER
        levels, indices, counts = zip(*found, strict=True)
        each = np.repeat(levels, [len(own) for own in indices])
        return cls.coarsen(top, size, each, np.concatenate(indices), np.concatenate(counts))

    @classmethod
    def merge(cls, parts: Sequence[ScoreBins]) -> ScoreBins:
        """The bins of all parts' scores."""
        if len(parts) == 1:
            return parts[0]
        names = ("top", "levels", "indices", "counts")
        top, *bins = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        return cls.coarsen(_largest(top, parts[0].size), parts[0].size, *bins)

    @classmethod
    def coarsen(
        cls, top: Integers, size: int, levels: Integers, indices: Integers, counts: Integers
    ) -> ScoreBins:
        """Each bin as wide as it may be, and then once."""
        for level in range(int(levels.min()), 63 if len(top) == size else 0):
            # All of the wider bin is so many of its widths below M: (i + 1 + widths)·2^l ≤ M + 1.
            rising = levels == level
            rising &= (indices >> 1) + 1 + widths_below(size) <= (int(top[-1]) + 1) >> (level + 1)
            if not rising.any() and level >= levels.max():
                break
            levels[rising] += 1
            indices[rising] >>= 1
        order = np.lexsort((-indices, levels))
        levels, indices, counts = levels[order], indices[order], counts[order]
        first = np.flatnonzero(np.append(True, (np.diff(levels) != 0) | (np.diff(indices) != 0)))
        return cls(top, size, levels[first], indices[first], np.add.reduceat(counts, first))

    def descending_bins(self) -> list[Bin]:
        """The bins, from the highest scores to the lowest."""
        found = map(Bin, self.levels.tolist(), self.indices.tolist(), self.counts.tolist())
        return sorted(found, key=lambda one: -one.high)


def finest_level(scale: float) -> int:
    """Of bins that are at most a quarter of the width, or hold a single score.

    >>> finest_level(1000.0), finest_level(1.0)
    (7, 0)
    """
    return min(62, max(0, math.frexp(scale)[1] - 3))


def widths_below(size: int) -> int:
    """How many of its widths a bin for sets of this size is below M at least, or it is one of the finest.

    >>> widths_below(1), widths_below(100)
    (128, 200)
    """
    return min(_MOST_WIDTHS, max(128, 2 * size))


def _largest(scores: Integers, size: int) -> Integers:
    """The `size` largest scores, or all, falling."""
    if size < len(scores):
        scores = np.partition(scores, len(scores) - size)[-size:] if size > 1 else scores.max(keepdims=True)
    return np.sort(scores)[::-1]


_AT_ONCE = 2**22  # scores, and places that they are counted into


def bins_on_device(scores: Tensor, scale: float, size: int = 1) -> list[ScoreBins]:
    """The bins of each column of scores, for noise of this width, and for sets of this size.

    >>> import torch
    >>> (bins,) = bins_on_device(torch.tensor([[3], [900], [901], [7]]), scale=8.0)
    >>> [(one.place << one.level, one.high, one.members) for one in bins.descending_bins()]
    [(900, 901, 2), (4, 7, 1), (0, 3, 1)]
    """
    if len(scores) <= size:  # all of them are listed
        return [ScoreBins.of(column, scale, size) for column in scores.T.cpu().numpy()]
    top = scores.amax(0, keepdim=True) if size == 1 else scores.topk(size, 0).values
    finest, widths = finest_level(scale), widths_below(size)
    deepest = int((top[-1] - scores.amin(0)).max())
    levels = max(1, (deepest // widths).bit_length() - finest)
    together = max(1, _AT_ONCE // max(len(scores), levels * (2 * widths + 2)))
    found = []
    for first in range(0, scores.shape[1], together):
        own = slice(first, first + together)
        counts = _counts(scores[:, own], top[-1, own], finest, levels, widths)
        found += [_bins(*lot, finest) for lot in zip(top.T[own].cpu().numpy(), counts, strict=True)]
    return found


def _counts(scores: Tensor, last: Tensor, finest: int, levels: int, widths: int) -> Integers:
    """(classes, levels, bins below M's) numbers of scores up to M, the last of the largest."""
    classes, places = scores.shape[1], 2 * widths + 2
    risen = torch.zeros_like(scores)
    for up in range(finest + 1, finest + levels):
        risen += (scores >> up) + (1 + widths) <= (last + 1) >> up
    level = finest + risen
    place = (last >> level) - (scores >> level)
    place += (risen + levels * torch.arange(classes, device=scores.device)) * places
    whole = classes * levels * places
    place.masked_fill_(scores > last, whole)
    counts = torch.bincount(place.flatten(), minlength=whole + 1)[:whole]
    table: Integers = counts.reshape(classes, levels, places).cpu().numpy()
    return table


def _bins(top: Integers, counts: Integers, finest: int) -> ScoreBins:
    """One class's, from its largest scores and the counts of the others."""
    risen, below = np.nonzero(counts)
    levels, counts = finest + risen, counts[risen, below]
    indices = (top[-1] >> levels) - below
    above = top[top > top[-1]]
    if not len(above):
        return ScoreBins(top, len(top), levels, indices, counts)
    places, held = np.unique(above >> finest, return_counts=True)
    levels = np.append(np.full_like(places, finest), levels)
    return ScoreBins.coarsen(top, len(top), levels, np.append(places, indices), np.append(held, counts))


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
