"""The bins of scores that are on a torch device, counted there: `ScoreBins.of` for all classes at once.

Millions of scores take longer on their way to the host than to be computed, and a class has some hundred
bins. Which bin a score is in follows from the score and M alone (see `noise.score_bins`): with W widths, its
level is the largest l above the finest with (s >> l) + 1 + W ≤ (M + 1) >> l, or the finest. If that holds for
a level it holds for those below, so levels are counted up. It implies M − s ≥ W·2^l, which bounds them; and
where it does not hold for l + 1, bin s >> l is at most 2W + 1 bins below that of M: a small table for each
level counts all scores up to M. Those above M are fewer than a set has members, and are listed.

All of it is comparisons and sums of integers, so counts are those of the CPU. Scores are 0 or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dptransfer.arrays import Integers
from dptransfer.noise.score_bins import ScoreBins, finest_level, widths_below

if TYPE_CHECKING:
    from torch import Tensor

_AT_ONCE = 2**22  # scores, and places that they are counted into


def bins_on_device(scores: Tensor, scale: float, size: int = 1) -> list[ScoreBins]:
    """The bins of each column of scores, for noise of this width, and for sets of this size.

    >>> import torch
    >>> (bins,) = bins_on_device(torch.tensor([[3], [900], [901], [7]]), scale=8.0)
    >>> [(one.place << one.level, one.high, one.held) for one in bins.falling()]
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
    return ScoreBins.widened(top, len(top), levels, np.append(places, indices), np.append(held, counts))
