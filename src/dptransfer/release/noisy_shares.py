"""Shares of counts that have noise, with intervals that hold for sampling and noise together.

Units (examples or persons) are drawn at random from those that the classifier will meet; `right` and `wrong`
are what they count in two sets of cells, plus noise. With θ = E right ÷ E(right + wrong), the number
D(θ) = right − θ·(right + wrong) has mean 0 and a variance of

    bound · θ(1 − θ) · E(right + wrong)  +  (1 − θ)² · noise(right) + θ² · noise(wrong)

at most. For examples (bound 1) the first term is that of a binomial count. For persons, let one count r right
of m in all, so that 0 ≤ r ≤ m ≤ bound. As a function of r, (r − θm)² is convex, so it lies below its chord,
r·m(1 − θ)² + (m − r)·m·θ². With m ≤ bound for one of the factors, and E r = θ E m over all persons, its mean
is at most bound · E m · θ(1 − θ); persons whose examples are all right or all wrong reach it. The 95 %
interval is the set of θ with D(θ)² ≤ Z² times that variance, a quadratic inequality (Wilson's, with noise;
Fieller's, without sampling). Where noise alone could have made up the count, nothing can be said: the
interval is (0, 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Z = 2.05
"""Intervals reach so many standard deviations to either side: 96 % of a normal law where 95 % are promised,
as the variances come from noisy counts too."""

_LEAST = 3  # standard deviations of its noise that a total must have for a share to be told


@dataclass(frozen=True)
class Noisy:
    """A count with noise.

    Attributes:
        count: what was counted, plus noise.
        variance: of the noise.
    """

    count: float
    variance: float


class Estimate(NamedTuple):
    """A share with its 95 % interval.

    Attributes:
        value: the share; None where nothing can be said, and the interval is then (0, 1).
        low: lower end.
        high: upper end.
    """

    value: float | None
    low: float
    high: float


NOTHING = Estimate(None, 0.0, 1.0)


def pooled(*told: Noisy) -> Noisy:
    """What several independent counts of the same thing say together: least squares.

    >>> pooled(Noisy(10.0, 1.0), Noisy(13.0, 2.0))
    Noisy(count=11.0, variance=0.6666666666666666)
    """
    precision = math.fsum(1 / own.variance for own in told)
    return Noisy(math.fsum(own.count / own.variance for own in told) / precision, 1 / precision)


def share(right: Noisy, wrong: Noisy, bound: float = 1.0) -> Estimate:
    """Right ÷ (right + wrong) with its interval; the derivation is at the top of this file.

    >>> [round(end, 4) for end in share(Noisy(8, 0), Noisy(2, 0))]  # Wilson's: there is no noise
    [0.8, 0.4762, 0.9462]
    >>> share(Noisy(8, 100), Noisy(2, 100))
    Estimate(value=None, low=0.0, high=1.0)
    """
    total = right.count + wrong.count
    if total <= 0:
        return NOTHING
    # A share lies in 0..1, and for these θ a count that is brought there too is nearer to θ·total.
    hits = min(max(right.count, 0.0), total)
    # θ²·square + θ·linear + constant ≤ 0
    sampled, z2 = bound * total, Z**2
    square = total**2 + z2 * (sampled - right.variance - wrong.variance)
    linear = -2 * hits * total - z2 * (sampled - 2 * right.variance)
    constant = hits**2 - z2 * right.variance
    if square <= 0:
        return NOTHING
    reach = math.sqrt(max(0.0, linear**2 - 4 * square * constant))
    low, high = ((-linear + sign * reach) / (2 * square) for sign in (-1, 1))
    value = hits / total
    low, high = max(0.0, min(low, value)), min(1.0, max(high, value))
    return NOTHING if (low, high) == (0.0, 1.0) else Estimate(value, low, high)


def mean_share(parts: Sequence[tuple[Noisy, Noisy]], bound: float = 1.0) -> Estimate:
    """The mean of the shares of (right, wrong) pairs; its interval holds whatever the small ones are.

    A pair whose total is less than three standard deviations of its noise may have any share: the interval
    allows for it, and the value is the mean of the others. A mean does not average a bias away, so theirs
    must go. With λ for noise(right) ÷ noise(total), right − λ·total has no noise in common with the total, so
    that share − λ is a quotient of two independent numbers, and only 1 ÷ total is biased: with s for the
    noise's deviation over the total its mean is (1 + s² + 3s⁴ + …) ÷ truth, and (1 − s² + 3s⁴) ÷ total takes
    that back.

    **Who is left out** depends on noise: pairs near the limit are in when their total came out too large,
    and their share − λ too small. For a true total of μ deviations that is a part of P(in) − μ·E(1/total; in)
    of it, at most 0.12 (near μ = 3) and no more than 0.2·E exp(−(total − 3)²/2) for every μ: both ends are
    moved by so much for every pair. (With five classes or more near the limit, all of recall 1, intervals
    without it hold in 90 % of cases, and with forty in half.)

    Variances add up, each over (total² − Z²·noise)² ÷ total², as in the interval of one share, since the
    total is noisy too. For persons, whose examples may be in several pairs, that is still enough: with r_c
    right of m_c, Σ m_c ≤ bound, and totals N_c, (Σ (r_c − θ_c m_c)/N_c)² ≤ bound · Σ (r_c − θ_c m_c)²/(m_c
    N_c²) by Cauchy and Schwarz, which adds up over all persons to at most bound · Σ θ_c(1 − θ_c)/N_c.
    """
    values, variance, lean = [], 0.0, 0.0
    for right, wrong in parts:
        total, noise = right.count + wrong.count, right.variance + wrong.variance
        part, deviation = (right.variance / noise if noise else 0.0), math.sqrt(noise)
        near = 0.2 * math.exp(-((total / deviation - _LEAST) ** 2) / 2) if noise else 0.0
        lean += near * max(part, 1 - part)
        if total <= _LEAST * deviation:
            continue
        s2 = noise / total**2
        value = part + (right.count - part * total) * (1 - s2 + 3 * s2**2) / total
        # Two of each kind are added, so that the variance does not vanish (Agresti and Coull 1998).
        p = (min(max(value, 0.0), 1.0) * total + 2) / (total + 4)
        sampled = bound * total * p * (1 - p)
        variance += (sampled + (1 - p) ** 2 * right.variance + p**2 * wrong.variance) * (
            total / (total**2 - Z**2 * noise)
        ) ** 2
        values.append(value)
    if not values:
        return NOTHING
    known, unknown = math.fsum(values), len(parts) - len(values)
    reach = Z * math.sqrt(variance) + lean
    ends = (known - reach) / len(parts), (known + reach + unknown) / len(parts)
    low, high = (min(max(end, 0.0), 1.0) for end in ends)
    return Estimate(min(max(known / len(values), low), high), low, high)
