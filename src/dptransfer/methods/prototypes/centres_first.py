"""Private class centres for a part of the price, released before noisy steps that build on them."""

from __future__ import annotations

import math

from dptransfer.base.types import AnyArray, Floats
from dptransfer.data import Facts, PrivateData
from dptransfer.exact.feature_map import FittedFeatures
from dptransfer.mechanisms import GaussianRounds
from dptransfer.noise import NoiseSource
from dptransfer.privacy import SMALLEST_NOISE_MULTIPLIER
from dptransfer.queries import ClassSums
from dptransfer.release.heads import unit_rows


def sums_before(
    rounds: GaussianRounds, features: FittedFeatures, facts: Facts, share: float
) -> GaussianRounds:
    """The class sums that cost this share, in μ², of what they and the rounds cost together.

    The price of sampled rounds is taken from their central limit, rate²·steps·(exp(1/z²) − 1) (Bu et al.
    2020); under replace-one an answer moves by twice what their noise is in units of. It decides about shares
    alone: the guarantee is computed from the events, exactly.
    """
    query, z = rounds.query, rounds.noise_multiplier
    gap = query.l2_sensitivity(rounds.relation) / rounds.sensitivity
    each = rounds.sampling_rate**2 * math.expm1(min(z**-2, 50.0)) if rounds.is_sampled else z**-2
    price = share / (1 - share) * rounds.times * gap**2 * each
    sums = ClassSums(features, len(facts.classes), bound=facts.bound)
    return GaussianRounds(sums, max(price**-0.5, SMALLEST_NOISE_MULTIPLIER), rounds.relation, 1)


def released_directions(
    paid: GaussianRounds,
    features: FittedFeatures,
    rows: AnyArray,
    private: PrivateData,
    noise: NoiseSource,
    *,
    device: str = "cpu",
) -> Floats:
    """(classes, dimension) directions of the noisy sums; directions need no count, which would cost more.

    Args:
        paid: the planned release.
        features: map of the rows.
        rows: of the private examples.
        private: the examples, for their labels and whose they are.
        noise: the source.
        device: where rows are summed; the sums are the same.
    """
    planned = paid.query
    assert isinstance(planned, ClassSums)
    asked = ClassSums(features, planned.classes, device, bound=planned.bound)
    return unit_rows(paid.open(noise=noise).release(asked, rows, private.labels, private.people))
