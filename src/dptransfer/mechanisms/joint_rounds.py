"""Rounds of several questions under one price: what one pair of neighbours can do to all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dptransfer.mechanisms.base import Step
from dptransfer.mechanisms.rounds import GaussianRounds
from dptransfer.privacy import GaussianEvent, Relation, Unit
from dptransfer.queries.joint_reach import joint_reach


@dataclass(frozen=True)
class JointRounds:
    """Several `GaussianRounds` about the same rows, which together cost less than the sum of their prices.

    Releases:      the noisy answers of its parts.
    Guarantee:     GaussianEvent(z) with 1/z² = reach · Σ times/z_i² over the parts: 1/z-GDP. Fix a pair of
                   neighbours. Every answer is normal, with a mean that moves by at most what the pair can do
                   to it, and Σ (gap/scale)² ≤ 1/z² on every path the answers can take. Give the attacker one
                   more answer with the gap that is missing: then the loss is ½Σ(gap/scale)² plus a martingale
                   with Gaussian steps and quadratic variation 1/z², which is Brownian motion at the time
                   1/z², so the loss has the law of one release at z. The ε of the lattice of the parts
                   adds up as ever.
    Relation:      replace one example; under add/remove one row is the worst for all parts at once. Not
                   for persons, of whom nothing is proven: their parts are paid for one by one.
    Sensitivity:   √reach, of the answers each divided by its own sensitivity and weighted so that all have
                   noise of one scale and the weights' squares add up to 1. `queries.joint_reach` proves it.
    Assumes:       all parts ask about the same rows, on the grid of `SoftmaxGradient` (checked).
    Reference:     Smith and Thakurta (2022) for sums of squares bounded path by path.

    Attributes:
        parts: the rounds; unsampled.
        label: what is released, in words.
    """

    parts: tuple[GaussianRounds, ...]
    label: str

    @property
    def reach(self) -> float:
        """Largest share of the sum of the parts' prices, in μ², that one pair of neighbours can cost."""
        prices = [part.times / part.noise_multiplier**2 for part in self.parts]
        return joint_reach([part.query for part in self.parts], prices) / math.fsum(prices)

    @property
    def event(self) -> GaussianEvent:
        """What all parts cost together."""
        reach = self.reach
        price = math.fsum(part.times / part.noise_multiplier**2 for part in self.parts)
        events = [part.event for part in self.parts]
        assert all(isinstance(event, GaussianEvent) for event in events)  # sampled rounds have other prices
        return GaussianEvent(
            noise_multiplier=1 / math.sqrt(reach * price),
            relation=Relation.REPLACE_ONE,
            sensitivity=math.sqrt(reach),
            label=self.label,
            numeric_epsilon=math.fsum(event.numeric_epsilon for event in events),
        )

    def at_noise_of(self, recorded: GaussianEvent) -> JointRounds:
        """The same with as much noise in all; the shares of the price, and the reach, stay."""
        factor = recorded.noise_multiplier / self.event.noise_multiplier
        louder = (replace(one, noise_multiplier=factor * one.noise_multiplier) for one in self.parts)
        return replace(self, parts=tuple(louder))


def jointly(parts: Sequence[GaussianRounds], label: str) -> list[Step]:
    """The steps of a plan that releases these parts: a joint one if a row is replaced, else one by one."""
    if any(part.relation is Relation.ADD_REMOVE or part.query.unit is not Unit.ROW for part in parts):
        return list(parts)
    return [JointRounds(tuple(replace(part, is_part=True) for part in parts), label)]


def rounds_of(steps: Iterable[Step]) -> list[GaussianRounds]:
    """The rounds in a plan's steps, those of joint ones too, in order."""
    parts = (part for step in steps for part in (step.parts if isinstance(step, JointRounds) else (step,)))
    return [part for part in parts if isinstance(part, GaussianRounds)]
