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

**Steps of several kinds**, several selections, or sampled steps are composed by the library `dp_accounting`.
Three upper bounds on one curve, each valid at every ε; which is smallest depends on the events alone, not on
data, so the smallest is valid too.

- **PLD**, the distribution of the privacy loss: the Gaussian and the sampled steps composed with every
  selection as the worst case of its pure ε. Tight for noise, sampled or not, with a few selections and for
  selections without bounded range.
- **RDP**, Rényi divergences: the Gaussian, the sampled steps, and every selection by its ρ
  (`exact_curves.selection_rho`). The library has no PLD of bounded range, so this is where η²/8 counts.
  Tight for many selections of bounded range.
- **Sum**: the exact curve of the Gaussian and of the sampled steps without amplification, moved by the sum of
  the selections' ε. Best at tiny δ; it also means that a mixture never costs more than its parts added up,
  and selections never more than their pure sum.

Neighbouring relations do not appear: an event's numbers already hold for its own, so the library is always
asked about noise 1/μ on sensitivity 1, whose loss is the same in both directions. Sampled steps are told
their relation (`sampled`), and the library keeps both directions of their loss apart.

**Discretisation.** The library puts losses on multiples of an interval h, rounding pessimistically. s = √(μ²
+ Σ ε² + Σ σ²) is about the standard deviation of the loss (σ of one sampled step). With selections h is a
power of two times the ε of those that weigh most, the largest not above s/256 (s/2048 if the selections' ε
differ), so they fall on the grid without rounding; others are rounded up to a whole number of intervals
first. A sampled step adds at most h²/4 to the variance of the loss, so with T of them h is at most s/256 and
s/(16√T): together they add a part in 1000 to s², at most, unless the losses of one step span too many
intervals (which costs accuracy, never safety). The Gaussian adds 1e-5 to 2e-4 of δ.

**Rounding of floats.** Two things the library does not count are added here. It convolves by fast Fourier
transform, whose error is absolute, has either sign, and matters at a δ of 1e-12: 1e-15 for each selection,
each sampled release and for 50 more is added to δ. (That is measured, not proven: in 5551 comparisons with
exact sums, of up to 2000 selections, the library's δ was too small 335 times, by up to 9e-14, and never by
more than a sixth of what is added.) And the Rényi exponent is rounded, see `renyi`.
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

from dptransfer import privacy
from dptransfer.accounting import exact_curves, renyi
from dptransfer.accounting.exact_curves import SelectionGroup, Selections, total_epsilon
from dptransfer.accounting.renyi import ORDERS, Divergences
from dptransfer.accounting.sampled import SampledGroup, Samples, loss_distribution, whole_mu
from dptransfer.privacy import DisjointEvent, Event, same_relation

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
def _(event: privacy.GaussianEvent) -> Part:
    return GaussianPart(event.noise_multiplier, event.times)


@part_of.register
def _(event: privacy.SelectionEvent) -> Part:
    return SelectionGroup(event.epsilon, event.bounded_range, 1)


@part_of.register
def _(event: privacy.SampledGaussianEvent) -> Part:
    replaces = event.relation is privacy.Relation.REPLACE_ONE
    return SampledGroup(event.noise_multiplier, event.sampling_rate, replaces, event.times)


@part_of.register
def _(event: privacy.BestOfManyEvent) -> Part:
    return RenyiPart(event, _tuned_divergences, NO_RHO_OF_TUNING)


@lru_cache(maxsize=64)
def _tuned_divergences(event: privacy.BestOfManyEvent) -> Divergences | None:
    trials = [divergences_of(trial) for trial in event.candidates]
    return renyi.best_of_many_divergences(trials, event.mean_trials, event.shape)


def plain_rho(events: Sequence[Event]) -> float:
    """ρ of plain events, the sum of each one's; none of them is known by its divergences alone."""
    parts = map(part_of, events)
    return math.fsum(part.rho for part in parts if not isinstance(part, RenyiPart))


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
    groups: Selections = ()
    sampled: Samples = ()
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
            return [] if bounds is None else [renyi.epsilon_of_renyi(bounds, delta)]
        if self.groups or self.sampled:
            return mixed_epsilons(self.mu, self.groups, delta, self.sampled)
        return [exact_curves.epsilon_of_mu(self.mu, delta)]

    def divergences(self) -> Divergences | None:
        """Rényi divergences of everything, at `ORDERS`; None where the numbers are too large.

        Sampled steps pay for the lattice here (`best_of_many`), the others meet their ρ on it.
        """
        known = renyi.divergences(self.mu, self.groups, self.sampled)
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
        return 1.0 if bounds is None else renyi.delta_of_renyi(bounds, epsilon)
    if steps.is_one_selection:
        return exact_curves.selection_delta(steps.groups[0].epsilon, steps.groups[0].bounded_range, epsilon)
    if steps.groups or steps.sampled:
        return mixed_delta(steps.mu, steps.groups, epsilon, steps.sampled, quick=quick)
    return exact_curves.delta_of_mu(steps.mu, epsilon)


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


# The s for which a PLD is built. Above, losses pass 700, where the library's exp overflows; below, its
# differences of δ are mostly rounding, and ε is 0 at any δ in use.
_WIDTHS = 1e-6, 25.0
_SMALLEST_PLD_MU = 1e-9  # a smaller μ is raised to it: the library adds 1 to numbers of about 10/μ
_POINTS, _POINTS_IF_UNEQUAL = 256, 2048  # intervals to one standard deviation of the loss, at least
_POINTS_IF_SAMPLED = 16  # to one standard deviation of a sampled step's loss
_STEP_POINTS = 25_000  # to all losses of one sampled step, at most
_MOST_POINTS = 2**23  # to the losses of many sampled steps together
_WIDEST_SPAN = 500.0
_FFT_ROUNDING = 1e-15


def mixed_delta(
    mu: float, groups: Selections, epsilon: float, sampled: Samples = (), *, quick: bool = False
) -> float:
    """A δ at which Gaussian noise of GDP parameter `mu` (0 for none) and the other steps are (ε, δ)-DP.

    0 only where the selections' pure ε says so: with noise it is never 0. `quick` leaves the PLD out.

    >>> f"{mixed_delta(0.0, (SelectionGroup(0.1, False, 100),), 4.31):.2e}"
    '9.86e-06'
    """
    beyond = epsilon - total_epsilon(groups)
    whole = whole_mu(mu, sampled)
    if whole == 0 and beyond >= 0:
        return 0.0
    found = 1.0
    if beyond >= 0:
        found = exact_curves.delta_of_mu(whole, beyond if beyond >= sys.float_info.min else 0.0)
    bounds = renyi.divergences(mu, groups, sampled)
    if bounds is not None:
        found = min(found, renyi.delta_of_renyi(bounds, epsilon))
    distribution = None if quick else _distribution(mu, groups, sampled)
    if distribution is not None:
        by_loss = max(0.0, float(distribution.get_delta_for_epsilon(epsilon))) + _rounding(groups, sampled)
        found = min(found, by_loss)
    return max(found, sys.float_info.min)  # an underflow is not purity


def mixed_epsilons(mu: float, groups: Selections, delta: float, sampled: Samples = ()) -> list[float]:
    """Where each of the three bounds falls to `delta`, the library's by its own `get_epsilon`, ascending.

    They are guesses, exact but for rounding: `compose.epsilon_of` checks one before it returns it.

    >>> [round(epsilon, 2) for epsilon in mixed_epsilons(0.0, (SelectionGroup(0.1, False, 100),), 1e-5)]
    [4.31, 4.73, 10.0]
    """
    whole = whole_mu(mu, sampled)
    found = [total_epsilon(groups) + (exact_curves.epsilon_of_mu(whole, delta) if whole > 0 else 0.0)]
    left = delta - _rounding(groups, sampled)
    distribution = _distribution(mu, groups, sampled)
    if distribution is not None and left > 0:
        found.append(float(distribution.get_epsilon_for_delta(left)))
    bounds = renyi.divergences(mu, groups, sampled)
    if bounds is not None:
        found.append(renyi.epsilon_of_renyi(bounds, delta))
    return sorted(found)


def _rounding(groups: Selections, sampled: Samples) -> float:
    steps = sum(group.times for group in groups) + sum(group.times for group in sampled)
    return _FFT_ROUNDING * (50 + steps)


@lru_cache(maxsize=8)
def _distribution(mu: float, groups: Selections, sampled: Samples) -> Any:
    """The library's PLD; None where the numbers are too large or too small for it."""
    spreads = [math.sqrt(group.times) * group.epsilon for group in groups]
    width = math.hypot(mu, *spreads, *(math.sqrt(group.times) * group.deviation for group in sampled))
    if not _WIDTHS[0] <= width <= _WIDTHS[1] or any(group.span > _WIDEST_SPAN for group in sampled):
        return None
    from dp_accounting.pld import privacy_loss_distribution

    interval = _interval(width, groups, sampled)
    if any(_points(group, interval) > _MOST_POINTS for group in sampled):
        return None
    together = _selections(groups, interval)
    for group in sampled:
        together = together.compose(loss_distribution(group, interval))
    if mu > 0:
        noise = privacy_loss_distribution.from_gaussian_mechanism(
            standard_deviation=1 / max(mu, _SMALLEST_PLD_MU),
            pessimistic_estimate=True,
            value_discretization_interval=interval,
        )
        together = noise.compose(together)
    return together


def _interval(width: float, groups: Selections, sampled: Samples) -> float:
    coarsest = math.inf
    if sampled:
        root = math.sqrt(sum(group.times for group in sampled))
        span = max(group.span for group in sampled)
        coarsest = max(width / max(_POINTS_IF_SAMPLED * root, _POINTS), span / _STEP_POINTS)
    if not groups:
        return coarsest
    heaviest = _heaviest(groups)
    unequal = any(group.epsilon != heaviest for group in groups)
    coarsest = min(coarsest, width / (_POINTS_IF_UNEQUAL if unequal else _POINTS))
    return math.ldexp(heaviest, math.floor(math.log2(coarsest / heaviest)))


def _points(group: SampledGroup, interval: float) -> float:
    """About how many losses the library keeps: it bounds the tails at the orders 1 to 20 over the span."""
    variance = group.deviation**2 + interval**2 / 4
    orders = [order / group.span for order in range(1, 21)]
    return 2 * min(group.times * order * variance / 2 + 36 / order for order in orders) / interval


def _heaviest(groups: Selections) -> float:
    return max(groups, key=lambda group: group.times * group.epsilon**2).epsilon


def _selections(groups: Selections, interval: float) -> Any:
    from dp_accounting.pld import common, privacy_loss_distribution

    counts: Counter[int] = Counter()
    for group in groups:  # exact division for the heaviest: a power of two
        steps = group.epsilon / interval * (1 if group.epsilon == _heaviest(groups) else 1 + 1e-15)
        counts[math.ceil(steps)] += group.times
    together = privacy_loss_distribution.identity(interval)
    for whole_steps, times in sorted(counts.items()):
        worst_case = common.DifferentialPrivacyParameters(whole_steps * interval, 0.0)
        one = privacy_loss_distribution.from_privacy_parameters(worst_case, interval)
        together = together.compose(one.self_compose(times))
    return together
