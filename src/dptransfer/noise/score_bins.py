"""Histograms of scores, from which exact selections among millions are drawn.

A bin is an interval [i·2^l, (i + 1)·2^l) of scores, its level l and its index i. The finest ones are at most
a quarter of the noise's width, so that scores in one hardly differ in how likely they are. Further down,
where a choice hardly ever comes, bins are wider. A set of k is as likely as its worst member, so what counts
is how far a score lies below M, the k-th largest: it is in the widest bin that is at least 128 of its widths
below M, or in one of the finest. That is some hundred bins, whatever the scores.

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
bins. Which bin a score is in follows from the score and M alone (see `noise.score_bins`): with W widths, its
level is the largest l above the finest with (s >> l) + 1 + W ≤ (M + 1) >> l, or the finest. If that holds for
a level it holds for those below, so levels are counted up. It implies M − s ≥ W·2^l, which bounds them; and
where it does not hold for l + 1, bin s >> l is at most 2W + 1 bins below that of M: a small table for each
level counts all scores up to M. Those above M are fewer than a set has members, and are listed.

All of it is comparisons and sums of integers, so counts are those of the CPU. Scores are 0 or more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dptransfer.base.types import Integers

if TYPE_CHECKING:
    from torch import Tensor


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
    import torch

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
