"""Witness coordinates: noise and public canaries beside the answers of a run, for whoever checks its noise.

Each Gaussian answer of a run has a few coordinates more than were asked for. In these no private row has
anything: coordinate j holds c_j·Δ plus noise, where Δ is the sensitivity that the answer is paid for, in
whole steps of its grid, the coin c_j is 0 or 1, and the noise is drawn in the same call of the sampler, for
the same standard deviation z·Δ. The coins follow from a seed whose hash is in the ledger's entry of the
charge, before anything is drawn.

**They cost no privacy.** Let A(D) + N be the answer and W = cΔ + N' its witnesses. N' is independent of D and
of N, c is public, and how many there are and at which scale is planned, or follows from earlier answers. So
given these, W has one law whatever D is, and is independent of A(D) + N: the likelihood ratio of (a, w)
between two neighbours is that of a. An adversary could draw W alone. With answers one after the other the
same holds at each step, given the steps before it. Trials that are thrown away have none, since witnesses
would tell how many there were. That part of a cipher's stream becomes public does not make the rest easier
to guess: to be told from uniform words by one who sees some of them is what a stream cipher rules out.

**What they show.** (W_j − c_j·Δ)/(z·Δ) are independent draws of the standard normal law, but for the lattice.
So Σ of their squares has a χ² law if noise of the stated size was drawn in that very run: of 4,096
the standard deviation is known to 1.1 %. They bind the code and its generator, and no liar.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dptransfer.base import checks
from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.base.types import Floats

_LARGEST_SCALE = 2.0**60
_FARTHEST = 1e6  # standard deviations
CELLS = 64
"""Equally likely intervals of the standard normal law, in which draws are counted."""


@dataclass(frozen=True)
class WitnessLaw:
    """Answers one after the other whose witnesses have one law.

    Attributes:
        label: what was asked.
        noise_multiplier: z.
        sensitivity: Δ, in units of the answer.
        grid: steps of the grid in one unit; a canary is ⌊Δ·grid⌋ steps.
        answers: how many answers.
        each: how many witnesses each of them has.
    """

    label: str
    noise_multiplier: float
    sensitivity: float
    grid: int
    answers: int
    each: int


@dataclass(frozen=True, eq=False)
class Witnesses:
    """The witnesses of a run, in the order in which they were drawn.

    Attributes:
        seed: 64 hexadecimal digits, from which the coins follow.
        laws: of which answers they are.
        values: one number for each, in units of its answer.
    """

    seed: str
    laws: tuple[WitnessLaw, ...]
    values: Floats

    @property
    def digest(self) -> str:
        """What the ledger has on record of the seed."""
        return coin_digest(self.seed)

    @property
    def coins(self) -> Floats:
        """Which of them hold a canary, as 0 and 1."""
        return coins_of(self.seed, 0, len(self.values))

    @property
    def draws(self) -> Floats:
        """Their noise over its stated standard deviation: standard normal, if it was drawn."""
        laws, counts = self.laws, [law.answers * law.each for law in self.laws]
        grid = np.repeat([float(law.grid) for law in laws], counts)
        canary = np.repeat([float(math.floor(law.sensitivity * law.grid)) for law in laws], counts)
        scale = np.repeat([law.noise_multiplier * law.sensitivity * law.grid for law in laws], counts)
        with np.errstate(all="ignore"):  # a forger's numbers may overflow; they are no normal draws then
            found = standard_draws(self.values * grid - canary * self.coins, scale)
        return np.clip(np.nan_to_num(found), -_FARTHEST, _FARTHEST)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form, without the values."""
        return {"seed": self.seed, "laws": [asdict(law) for law in self.laws]}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], values: Floats) -> Witnesses:
        """Read what `to_dict` gave."""
        laws = tuple(WitnessLaw(**law) for law in fields["laws"])
        for law in laws:
            for name in ("answers", "each", "grid"):
                checks.whole(name, getattr(law, name))
            for name in ("noise_multiplier", "sensitivity"):
                checks.positive(name, getattr(law, name))
            if not law.noise_multiplier * law.sensitivity * law.grid < _LARGEST_SCALE:
                raise ArgumentError("Noise is at most 2⁵⁷ steps wide; that of these witnesses is wider.")
        seed = str(fields["seed"])
        if len(bytes.fromhex(seed)) != 32 or sum(law.answers * law.each for law in laws) != len(values):
            raise ArgumentError(
                "Witnesses need a seed of 64 digits and a value per answer. Fetch the release again."
            )
        return cls(seed, laws, values)


def standard_draws(steps: Floats, scale: Floats | float) -> Floats:
    """Draws in steps of the grid, made continuous by a uniform number each, over what they should vary by."""
    spread = np.random.default_rng(0).uniform(-0.5, 0.5, len(steps))
    found: Floats = (steps + spread) / np.sqrt(np.square(scale) + 1 / 12)
    return found


def coins_of(seed: str, first: int, count: int) -> Floats:
    """`count` coins from number `first` on: the bits of SHAKE-256 of the seed's bytes, highest bit first.

    >>> coins_of("00" * 32, 3, 5).tolist() == coins_of("00" * 32, 0, 8)[3:].tolist()
    True
    """
    stream = hashlib.shake_256(bytes.fromhex(seed)).digest(-(-(first + count) // 8))
    return np.unpackbits(np.frombuffer(stream, np.uint8))[first : first + count].astype(np.float64)


def coin_digest(seed: str) -> str:
    """SHA-256 of the seed's bytes."""
    return hashlib.sha256(bytes.fromhex(seed)).hexdigest()


def size_p_value(draws: Floats) -> float:
    """Chance that so many standard normal draws are together as small as these, or smaller: χ².

    >>> size_p_value(np.full(4096, 0.9)) < 1e-9, size_p_value(np.ones(4096)) > 0.3
    (True, True)
    """
    from scipy.stats import chi2

    return float(chi2.cdf(float(draws @ draws), len(draws)))


def size_upper_limit(draws: Floats, error: float) -> float:
    """What their standard deviation is at most, wrong with chance `error`: √(Σx² / χ² quantile)."""
    from scipy.stats import chi2

    return float(np.sqrt(float(draws @ draws) / chi2.ppf(error, len(draws))))


def shape_p_value(draws: Floats) -> float:
    """Chance that standard normal draws fill `CELLS` equally likely intervals as unevenly as these: Pearson.

    >>> shape_p_value(np.linspace(-1, 1, 4096)) < 1e-9
    True
    """
    from scipy.special import ndtr
    from scipy.stats import chisquare

    cells = np.minimum((ndtr(draws) * CELLS).astype(np.int64), CELLS - 1)
    return float(chisquare(np.bincount(cells, minlength=CELLS)).pvalue)


def tail_p_value(draws: Floats, beyond: float = 3.0) -> float:
    """Chance that as few, or as many, standard normal draws are this far out on either side; two-sided.

    >>> tail_p_value(np.zeros(10_000)) < 1e-9
    True
    """
    from scipy.special import ndtr
    from scipy.stats import binomtest

    found = int((np.abs(draws) > beyond).sum())
    return float(binomtest(found, len(draws), 2 * float(ndtr(-beyond))).pvalue)
