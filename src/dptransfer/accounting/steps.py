"""Sort events into the terms in which each kind is accounted for.

`part_of` puts an event into one of four terms, and everything else follows from those:

- `GaussianPart`: Gaussian noise on all rows. Composes exactly.
- `SelectionGroup`: pure ε-DP, perhaps of bounded range.
- `SampledGroup`: Gaussian noise on Poisson samples.
- `RenyiPart`: whatever else has Rényi divergences at `ORDERS`; all other steps are then counted by theirs.

A new kind of event registers one function here. Steps on disjoint parts of the data are taken apart first, by
`branches`: each unit meets one `Steps` of several, and the worst of them counts. The derivations of what
lattice and cut tails cost are in `compose`.

**Disjoint parts.** A unit is in one part of each `DisjointEvent`, so what it meets is one choice of
a part per event, with all other steps; the event says why the worst choice bounds the whole, for every ε.
Curves are compared at each ε, since none of them need be above the others everywhere.

Equal events are interchangeable: k of them with two parts have k + 1 choices that differ, not 2^k. A part
that only repeats steps of another is never worse and is left out. Where more than `MOST` choices remain, the
last events count with all their parts at once, which is at least as much as any of them.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from itertools import combinations_with_replacement, product
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dptransfer.accounting.exact_curves import (
    SelectionGroup,
    delta_of_mu,
    epsilon_of_mu,
    selection_delta,
    total_epsilon,
)
from dptransfer.accounting.mixed import mixed_delta, mixed_epsilons
from dptransfer.accounting.renyi import (
    ORDERS,
    Divergences,
    best_of_many_divergences,
    delta_of_renyi,
    divergences,
    epsilon_of_renyi,
)
from dptransfer.accounting.sampled import SampledGroup, whole_mu
from dptransfer.privacy import (
    BestOfManyEvent,
    DisjointEvent,
    Event,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    same_relation,
)

NO_RHO_OF_TUNING = (
    "Choosing the best of many trials has no zCDP, GDP or pure guarantee here; "
    "tuning needs an (epsilon, delta) budget, such as --epsilon 1 --delta 1e-5."
)

_Group = TypeVar("_Group", SelectionGroup, SampledGroup)


class GaussianPart(NamedTuple):
    """`times` releases with Gaussian noise."""

    noise_multiplier: float
    times: int

    @property
    def rho(self) -> float:
        """Zero-concentrated DP of all of them."""
        mu = 1 / self.noise_multiplier
        return self.times * (0.5 * mu * mu)


class RenyiPart(NamedTuple):
    """A step of which Rényi divergences are known and nothing better.

    Attributes:
        event: the step.
        divergences_of: gives those of the event at `ORDERS`, or None where its numbers are too large.
        nothing_else: says, in words, that the step has no ρ, no μ and no pure ε.
    """

    event: Event
    divergences_of: Callable[[Any], Divergences | None]
    nothing_else: str


Part = GaussianPart | SelectionGroup | SampledGroup | RenyiPart


@singledispatch
def part_of(event: object) -> Part:
    """In what terms one event is accounted for."""
    raise TypeError(f"every event must be of a kind that is accounted for; got {type(event).__name__}")


@part_of.register
def _(event: GaussianEvent) -> Part:
    return GaussianPart(event.noise_multiplier, event.times)


@part_of.register
def _(event: SelectionEvent) -> Part:
    return SelectionGroup(event.epsilon, event.bounded_range, 1)


@part_of.register
def _(event: SampledGaussianEvent) -> Part:
    replaces = event.relation is Relation.REPLACE_ONE
    return SampledGroup(event.noise_multiplier, event.sampling_rate, replaces, event.times)


@part_of.register
def _(event: BestOfManyEvent) -> Part:
    return RenyiPart(event, _tuned_divergences, NO_RHO_OF_TUNING)


@lru_cache(maxsize=64)
def _tuned_divergences(event: BestOfManyEvent) -> Divergences | None:
    trials = [divergences_of(trial) for trial in event.candidates]
    return best_of_many_divergences(trials, event.mean_trials, event.shape)


MOST = 256
"""Choices that are looked at."""

Branch = tuple[Event, ...]


def branches(events: Sequence[Event]) -> list[Branch]:
    """The choices that matter, each without any `DisjointEvent`; one, the events themselves, without them.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> fit, check, later = (GaussianEvent(z, Relation.ADD_REMOVE) for z in (4.0, 8.0, 2.0))
    >>> [[one.noise_multiplier for one in branch]
    ...  for branch in branches([DisjointEvent(((fit,), (check,))), later])]
    [[2.0, 4.0], [2.0, 8.0]]
    """
    always = tuple(event for event in events if not isinstance(event, DisjointEvent))
    found = [always]
    for event, times in Counter(event for event in events if isinstance(event, DisjointEvent)).items():
        parts = _undominated(branch for steps in event.parts for branch in branches(steps))
        if len(found) * math.comb(len(parts) + times - 1, times) > MOST:
            parts = [plain_steps([event])]
        choices = combinations_with_replacement(parts, times)
        found = [before + sum(chosen, ()) for before, chosen in product(found, choices)]
    return found


def one_by_one(events: Sequence[Event]) -> list[list[Branch]]:
    """The choices of each event by itself, all plain events first and as one.

    What adds up over steps, such as ρ, is worst where each event is: choices need not be tried together.
    """
    parted = [event for event in events if isinstance(event, DisjointEvent)]
    plain = tuple(event for event in events if not isinstance(event, DisjointEvent))
    return [[plain], *(branches([event]) for event in parted)]


def plain_steps(events: Iterable[Event]) -> Branch:
    """The steps of all parts, one after another, as if one unit met them all."""
    found: list[Event] = []
    for event in events:
        parts = event.parts if isinstance(event, DisjointEvent) else None
        found += (event,) if parts is None else plain_steps(one for steps in parts for one in steps)
    return tuple(found)


def _undominated(parts: Iterable[Branch]) -> list[Branch]:
    """Those whose steps are not all among the steps of another."""
    kept: list[Branch] = []
    for part in sorted(parts, key=len, reverse=True):
        if not any(Counter(part) <= Counter(other) for other in kept):
            kept.append(part)
    return kept


@dataclass(frozen=True)
class Steps:
    """The events gathered: one Gaussian of parameter `mu` (0 for none), the rest in groups, and numerics.

    `slack` is the lattice's share of ε, and `sampled_slack` that of sampled steps alone; `cut` is the tails'
    share of total variation.
    """

    mu: float = 0.0
    groups: tuple[SelectionGroup, ...] = ()
    sampled: tuple[SampledGroup, ...] = ()
    by_renyi: tuple[RenyiPart, ...] = ()
    slack: float = 0.0
    sampled_slack: float = 0.0
    cut: float = 0.0

    @classmethod
    def of(cls, events: Sequence[Event]) -> Steps:
        """Gather plain events of one relation; none at all are fine. `all_steps` takes disjoint parts too."""
        parts = [part_of(event) for event in events]
        if not parts:
            return cls()
        same_relation(events)
        noises = [part for part in parts if isinstance(part, GaussianPart)]
        mu = math.hypot(*(math.sqrt(part.times) / part.noise_multiplier for part in noises))
        sampled = [event for event, part in zip(events, parts, strict=True) if isinstance(part, SampledGroup)]
        return cls(
            # A subnormal μ has lost digits; a larger one is still true.
            mu=max(mu, sys.float_info.min) if noises else 0.0,
            groups=_gathered(part for part in parts if isinstance(part, SelectionGroup)),
            sampled=_gathered(part for part in parts if isinstance(part, SampledGroup)),
            by_renyi=tuple(part for part in parts if isinstance(part, RenyiPart)),
            slack=math.fsum([event.numeric_epsilon for event in events]),
            sampled_slack=math.fsum([event.numeric_epsilon for event in sampled]),
            cut=math.fsum([event.numeric_delta for event in events]),
        )

    @property
    def pure(self) -> float:
        """ε of the selections alone, with their share of the lattice's."""
        return total_epsilon(self.groups) + self.slack

    @property
    def whole_mu(self) -> float:
        """μ of all noise, without amplification by sampling."""
        return whole_mu(self.mu, self.sampled)

    @property
    def is_gaussian(self) -> bool:
        """Whether there is Gaussian noise on all rows only, or nothing."""
        return not self.groups and not self.sampled and not self.by_renyi

    @property
    def is_pure(self) -> bool:
        """Whether there are only selections, with whole tails, or nothing."""
        return self.mu == 0 and not self.sampled and not self.by_renyi and self.cut == 0

    @property
    def is_nothing(self) -> bool:
        """Whether there is no step."""
        return self.is_pure and not self.groups

    @property
    def is_one_selection(self) -> bool:
        """Whether the closed form of one selection applies."""
        return self.is_pure and len(self.groups) == 1 and self.groups[0].times == 1

    def covers(self, other: Steps) -> bool:
        """Whether these cost at least as much at every ε: the same, but for Gaussian noise no larger."""
        same = (self.groups, self.sampled, self.by_renyi) == (other.groups, other.sampled, other.by_renyi)
        more = (self.mu, self.slack, self.sampled_slack, self.cut)
        less = (other.mu, other.slack, other.sampled_slack, other.cut)
        return same and all(mine >= theirs for mine, theirs in zip(more, less, strict=True))

    def delta(self, epsilon: float, quick: bool = False) -> float:
        """δ of what ran, e^s δ(ε − s) + (1 + e^ε) η; below 0 the identity of `deltas_of_mu` continues δ."""
        lost = (1 + math.exp(min(epsilon, 700.0))) * self.cut * (1 + 1e-12) if self.cut else 0.0
        if self.slack == 0:
            return min(1.0, _ideal_delta(self, epsilon, quick) + lost)
        if self.slack > 1:  # no lattice in use comes near; 1 is always true
            return 1.0
        ideal = epsilon - self.slack
        distance = abs(ideal)
        delta = _ideal_delta(self, distance if distance >= sys.float_info.min else 0.0, quick)
        if ideal < 0:
            delta = -math.expm1(ideal) + math.exp(ideal) * delta
        return min(1.0, math.exp(self.slack) * delta * (1 + 1e-14) + lost)

    def ideal_epsilons(self, delta: float) -> list[float]:
        """Where the ideal curve falls to `delta`, by each route, ascending; exact but for rounding."""
        if self.by_renyi:
            bounds = self.divergences()
            return [] if bounds is None else [epsilon_of_renyi(bounds, delta)]
        if self.groups or self.sampled:
            return mixed_epsilons(self.mu, self.groups, delta, self.sampled)
        return [epsilon_of_mu(self.mu, delta)]

    def divergences(self) -> Divergences | None:
        """Rényi divergences of everything, at `ORDERS`; None where the numbers are too large.

        Sampled steps pay for the lattice here (`best_of_many`), the others meet their ρ on it.
        """
        known = divergences(self.mu, self.groups, self.sampled)
        if known is None:
            return None
        orders = np.array(ORDERS)
        total: Divergences = known + self.sampled_slack * orders / (orders - 1)
        for part in self.by_renyi:
            found = part.divergences_of(part.event)
            if found is None:
                return None
            total += found
        return total


@lru_cache(maxsize=8192)  # a plan is costed when it is made, before it is charged, and when it is verified
def _ideal_delta(steps: Steps, epsilon: float, quick: bool) -> float:
    """δ of the steps on ideal noise; some 50 numbers are asked for to calibrate one plan."""
    if steps.is_nothing:
        return 0.0
    if steps.by_renyi:
        bounds = steps.divergences()
        return 1.0 if bounds is None else delta_of_renyi(bounds, epsilon)
    if steps.is_one_selection:
        return selection_delta(steps.groups[0].epsilon, steps.groups[0].bounded_range, epsilon)
    if steps.groups or steps.sampled:
        return mixed_delta(steps.mu, steps.groups, epsilon, steps.sampled, quick=quick)
    return delta_of_mu(steps.mu, epsilon)


def all_steps(events: Sequence[Event]) -> list[Steps]:
    """What one unit may meet: the plain steps of every choice of parts (`branches`) that may be the worst."""
    kept: list[Steps] = []
    for steps in map(Steps.of, branches(events)):
        if not any(other.covers(steps) for other in kept):
            kept = [other for other in kept if not steps.covers(other)] + [steps]
    return kept


def divergences_of(events: Sequence[Event]) -> Divergences | None:
    """Rényi divergences of the events together, order by order those of the worst choice of parts."""
    total: Divergences = np.zeros(len(ORDERS))
    for choices in one_by_one(events):
        found = [Steps.of(branch).divergences() for branch in choices]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return None
        total = total + np.max(known, axis=0)
    return total


def _gathered(parts: Iterable[_Group]) -> tuple[_Group, ...]:
    """Equal steps as one group, in a fixed order, so that a thousand of them cost as much as one."""
    counted: Counter[_Group] = Counter()
    for part in parts:
        counted[part._replace(times=0)] += part.times
    return tuple(kind._replace(times=times) for kind, times in sorted(counted.items()))
