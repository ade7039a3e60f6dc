"""Events gathered into one curve: which accounting route each kind takes.

The derivations of what lattice and cut tails cost are in `compose`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from dptransfer.accounting.best_of_many import trial_divergences
from dptransfer.accounting.gaussian import delta_of_mu, epsilon_of_mu
from dptransfer.accounting.mixed import mixed_delta, mixed_epsilons
from dptransfer.accounting.pure import SelectionGroup, selection_delta, selection_groups, total_epsilon
from dptransfer.accounting.renyi import delta_of_renyi, epsilon_of_renyi
from dptransfer.accounting.sampled import SampledGroup, sampled_groups, whole_mu
from dptransfer.privacy import (
    BestOfManyEvent,
    Event,
    GaussianEvent,
    SampledGaussianEvent,
    SelectionEvent,
    numeric_delta_of,
    numeric_epsilon_of,
    same_relation,
)


@dataclass(frozen=True)
class Steps:
    """The events gathered: one Gaussian of parameter `mu` (0 for none), the rest in groups, and numerics.

    `slack` is the lattice's share of ε, `cut` the tails' share of total variation; `tuned` are all events, if
    some of them are tuned.
    """

    mu: float
    groups: tuple[SelectionGroup, ...]
    sampled: tuple[SampledGroup, ...]
    tuned: tuple[Event, ...]
    slack: float
    cut: float

    @classmethod
    def of(cls, events: Sequence[Event]) -> Steps:
        """Gather events of one relation; none at all are fine."""
        if not events:
            return cls(0.0, (), (), (), 0.0, 0.0)
        if not all(isinstance(event, Event) for event in events):
            raise TypeError("every event must be one of those in dptransfer.privacy")
        same_relation(events)
        noises = [event for event in events if isinstance(event, GaussianEvent)]
        mu = math.hypot(*(math.sqrt(event.times) / event.noise_multiplier for event in noises))
        if noises:  # a subnormal μ has lost digits; a larger one is still true
            mu = max(mu, sys.float_info.min)
        return cls(
            mu=mu,
            groups=selection_groups(event for event in events if isinstance(event, SelectionEvent)),
            sampled=sampled_groups(event for event in events if isinstance(event, SampledGaussianEvent)),
            tuned=tuple(events) if any(isinstance(event, BestOfManyEvent) for event in events) else (),
            slack=math.fsum(map(numeric_epsilon_of, events)),
            cut=math.fsum(map(numeric_delta_of, events)),
        )

    @property
    def pure(self) -> float:
        """ε of the selections alone."""
        return total_epsilon(self.groups)

    @property
    def whole_mu(self) -> float:
        """μ of all noise, without amplification by sampling."""
        return math.hypot(self.mu, whole_mu(self.sampled)) if self.sampled else self.mu

    @property
    def is_pure(self) -> bool:
        """Whether there are only selections, or nothing."""
        return self.mu == 0 and not self.sampled and not self.tuned

    @property
    def is_nothing(self) -> bool:
        """Whether there is no step."""
        return self.is_pure and not self.groups

    @property
    def is_one_selection(self) -> bool:
        """Whether the closed form of one selection applies."""
        return self.is_pure and len(self.groups) == 1 and self.groups[0].times == 1

    def delta(self, epsilon: float, quick: bool = False) -> float:
        """δ of what ran, e^s δ(ε − s) + (1 + e^ε) η; below 0 the identity of `deltas_of_mu` continues δ."""
        lost = (1 + math.exp(min(epsilon, 700.0))) * self.cut * (1 + 1e-12) if self.cut else 0.0
        if self.slack == 0:
            return min(1.0, self._ideal_delta(epsilon, quick) + lost)
        if self.slack > 1:  # no lattice in use comes near; 1 is always true
            return 1.0
        ideal = epsilon - self.slack
        distance = abs(ideal)
        delta = self._ideal_delta(distance if distance >= sys.float_info.min else 0.0, quick)
        if ideal < 0:
            delta = -math.expm1(ideal) + math.exp(ideal) * delta
        return min(1.0, math.exp(self.slack) * delta * (1 + 1e-14) + lost)

    def ideal_epsilons(self, delta: float) -> list[float]:
        """Where the ideal curve falls to `delta`, by each route, ascending; exact but for rounding."""
        if self.tuned:
            bounds = trial_divergences(self.tuned)
            return [] if bounds is None else [epsilon_of_renyi(bounds, delta)]
        if self.groups or self.sampled:
            return mixed_epsilons(self.mu, self.groups, delta, self.sampled)
        return [epsilon_of_mu(self.mu, delta)]

    def _ideal_delta(self, epsilon: float, quick: bool) -> float:
        if self.is_nothing:
            return 0.0
        if self.tuned:
            bounds = trial_divergences(self.tuned)
            return 1.0 if bounds is None else delta_of_renyi(bounds, epsilon)
        if self.is_one_selection:
            return selection_delta(self.groups[0].epsilon, self.groups[0].bounded_range, epsilon)
        if self.groups or self.sampled:
            return mixed_delta(self.mu, self.groups, epsilon, self.sampled, quick=quick)
        return delta_of_mu(self.mu, epsilon)
