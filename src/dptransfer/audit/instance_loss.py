"""Per-instance privacy loss: how much of the guarantee a run really uses up for each row or person.

A guarantee is about the worst row. A row of short features, or one that the model gets right anyway, moves
the answers by less, and the same noise hides it better. This is per-instance privacy (Wang 2019) as
Golatkar et al. (2022), Section 4.1 and Figure 3, plot it. Where persons are protected, read "person" for
"row" in all that follows: one moves an answer by what all their rows together are bounded to.

It is a diagnostic that reads private rows: the losses are a function of them, are not covered by the
guarantee, and never enter a release.

**What is computed.** A step of sensitivity Δ is charged as if every row moved its answer by Δ; row i moves
it by a share s of that (`mechanisms.row_shares`). Its own loss is what the same steps would cost with that
share in place of 1:

- Gaussian steps: μᵢ² = Σ (s/z)², the exact curve at the guarantee's δ.
- A selection: ε·s, where s is the range of the row's contributions to the scores of its class (a constant
  added to all scores changes no choice; a person's ranges add up over classes), for top-k up to four grid
  steps in millions.
- Poisson-sampled steps: the smaller of two upper bounds. One charges every step by the row's largest share,
  through the accountant; the other adds up Rényi divergences step by step, at shares rounded up to 1/64.
- Steps of several kinds: all of them by the row's largest share of any kind.

Under replace-one a row is exchanged for the worst other row, so that one which contributes nothing still has
about half of the loss; in sampled steps, which the longer of the two prices, all of it.

The questions of later steps depend on earlier noisy answers. The losses are those of the path this run
took: what the row would have cost had these questions been fixed in advance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dptransfer.accounting import epsilon_of, is_gaussian, pure_epsilon_of
from dptransfer.accounting.renyi import ORDERS, epsilon_of_renyi
from dptransfer.accounting.sampled import SampledGroup, sampled_divergences
from dptransfer.accounting.steps import Steps
from dptransfer.base.types import Floats
from dptransfer.data import PrivateData, PublicData
from dptransfer.errors import ArgumentError, DPTransferError
from dptransfer.ledger import Ledger
from dptransfer.mechanisms.row_shares import RowShares, recording
from dptransfer.methods import PrivateMethod
from dptransfer.methods.votes.voting import Voting
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Event, GaussianEvent, Guarantee, Relation, SampledGaussianEvent

_LEVELS = 64  # shares are rounded up to multiples of 1/64
_COARSE_LEVELS = 16  # where one level takes a third of a second
_ROUNDING = 1e-6  # shares are quotients of floats


@dataclass(frozen=True, eq=False)
class InstanceLosses:
    """Every row's own ε, at the δ of the guarantee, or every person's. Not protected; do not publish.

    Attributes:
        epsilons: one upper bound per row in the order of the rows, or per person in the order of their
            numbers (`private.people`); none above `guarantee.epsilon`.
        guarantee: what was promised to all of them.
    """

    epsilons: Floats
    guarantee: Guarantee

    @property
    def worst(self) -> float:
        """The largest loss; 0 where there is nobody."""
        return float(self.epsilons.max(initial=0.0))

    @property
    def share_below_half(self) -> float:
        """Share of rows, or persons, whose loss is under half of the guarantee's ε."""
        return float((self.epsilons < self.guarantee.epsilon / 2).mean()) if len(self.epsilons) else 0.0

    def quantile(self, share: float) -> float:
        """The loss that this share of them stays below."""
        return float(np.quantile(self.epsilons, share)) if len(self.epsilons) else 0.0


def has_instance_losses(method: PrivateMethod) -> bool:
    """Whether a method's answers are sums over rows, so that each row has a loss of its own."""
    return not isinstance(method, Voting)


def instance_losses(
    method: PrivateMethod,
    private: PrivateData,
    public: PublicData | None = None,
    *,
    budget: Budget,
    noise: SeededNoise,
) -> InstanceLosses:
    """Run a method and say what each private row loses, or each person; the model is thrown away.

    Args:
        method: what to run. It runs on the CPU.
        private: the rows the report is about.
        public: the public rows, for methods that use some.
        budget: what the run may cost.
        noise: a seeded source; this is a rehearsal on a ledger of its own and not a release.

    Raises:
        ArgumentError: the answers are not sums over rows, as those of teachers who vote.
        DPTransferError: a row moved an answer by more than was paid for. That is a fault in the method.
    """
    if not getattr(noise, "seeded", False):
        raise ArgumentError("instance_losses is a rehearsal and needs seeded noise; pass SeededNoise(seed).")
    if not has_instance_losses(method):
        raise ArgumentError(
            f"The method '{method.name}' has no losses by row: its answers are votes of teachers, each of "
            "whom learns from many rows. Use a method without teachers."
        )
    # A plan may rehearse on public rows, which is nobody's loss: it is made before anything is recorded.
    method = method.plan(private.facts, budget, public).method
    if getattr(method, "device", "cpu") != "cpu":  # the integers are the same there
        method = replace(cast(Any, method), device="cpu")
    with recording() as releases:
        model = method.fit(
            private, public, budget=budget, ledger=Ledger.in_memory(strict_names=True), noise=noise
        )
    units = len(private.labels) if private.people is None else int(private.people.max(initial=-1)) + 1
    epsilons = own_epsilons(model.events, releases, units, model.guarantee.delta)
    return InstanceLosses(np.minimum(epsilons, model.guarantee.epsilon), model.guarantee)


def own_epsilons(events: Sequence[Event], releases: Sequence[RowShares], rows: int, delta: float) -> Floats:
    """Each row's ε at `delta`, from the events that were paid for and what rows moved in them."""
    shares = _largest_shares(events, releases, rows)
    if shares.max(initial=0.0) > 1 + _ROUNDING:
        raise DPTransferError(
            "A run must not let a row move an answer by more than was paid for; here one does. "
            "The guarantee is not true; please report this."
        )
    shares = np.minimum(shares, 1.0)
    losses = _by_share(events, shares, delta)
    steps = [(one.event, one.shares) for one in releases if isinstance(one.event, SampledGaussianEvent)]
    if events and len(steps) == len(releases) and all(isinstance(e, SampledGaussianEvent) for e in events):
        losses = np.minimum(losses, _by_divergence(events, steps, delta, shares > 0))
    return losses


def _largest_shares(events: Sequence[Event], releases: Sequence[RowShares], rows: int) -> Floats:
    """The smallest share that covers all of a row's steps, each kind by itself and the largest of them.

    Releases that were paid for together have a bound of their own on what one exchange does to all of them.
    """
    largest = np.zeros(rows)
    squares, parts, paid = np.zeros(rows), np.zeros(rows), 0.0
    for event in events:
        if event.trials():
            raise ArgumentError("A tuned method has no losses by row: its trials are forgotten.")
        if event.inner():
            raise ArgumentError("Steps on disjoint parts have no losses by row: nobody learns who was where.")
        if isinstance(event, GaussianEvent):
            paid += event.times / event.noise_multiplier**2
    for release in releases:
        if not isinstance(release.event, GaussianEvent):
            largest = np.maximum(largest, release.shares)
            continue
        moved = parts if release.is_part else squares  # μ² adds up, whatever the shares of the steps
        moved += (release.shares / release.event.noise_multiplier) ** 2
        if release.is_part:  # the joint bound below must not hide a contribution that is too long
            largest = np.where(release.shares > 1 + _ROUNDING, np.maximum(largest, release.shares), largest)
    squares += np.minimum(parts, paid)
    return np.maximum(largest, np.sqrt(squares / paid)) if paid else largest


def _by_share(events: Sequence[Event], shares: Floats, delta: float) -> Floats:
    """ε of the events with their noise ÷ share, at shares rounded up to a level.

    Where that is proven the step from the level down to the share itself is taken in proportion. With δ =
    0, ε is linear in the share. For Gaussian noise ε/μ grows with μ at fixed δ: with x = ε/μ and t = μ/2 +
    x, the derivative of δ by μ at fixed x is e^(xμ)(φ(t) − xΦ(−t)), and xΦ(−t) ≤ (x/t)φ(t) ≤ φ(t) by Mills'
    ratio.
    """
    smooth = delta == 0 or is_gaussian(events)
    count = _COARSE_LEVELS if Steps.of(events).sampled else _LEVELS
    levels = np.ceil(shares * count * (1 - 1e-12)).astype(np.int64)
    table = {
        int(level): epsilon_of([event.further(level / count) for event in events], delta) if level else 0.0
        for level in np.unique(levels)
    }
    losses = np.array([table[int(level)] for level in levels], dtype=np.float64)
    if smooth:
        return losses * (shares * count / np.maximum(levels, 1))
    pure = pure_epsilon_of(events) if events else None
    return losses if pure is None else np.minimum(losses, shares * pure)


def _by_divergence(
    events: Sequence[Event],
    steps: Sequence[tuple[SampledGaussianEvent, Floats]],
    delta: float,
    moved: NDArray[np.bool_],
) -> Floats:
    """ε from Rényi divergences added up step by step, plus what lattice and cut tails cost."""
    slack = math.fsum(event.numeric_epsilon for event in events)
    cut = math.fsum(event.numeric_delta for event in events)
    divergences = np.zeros((len(moved), len(ORDERS)))
    for event, shares in steps:
        levels = np.ceil(np.minimum(shares, 1.0) * _LEVELS * (1 - 1e-12)).astype(np.int64)
        divergences += _step_divergences(replace(event, label=""))[levels]
    losses = np.zeros(len(moved))
    for row in np.flatnonzero(moved):
        losses[row] = epsilon_of_renyi(divergences[row] + 2.0**-50, delta) + slack
        left = (delta - (1 + math.exp(min(losses[row], 700.0))) * cut) * math.exp(-slack)
        losses[row] = epsilon_of_renyi(divergences[row] + 2.0**-50, left) + slack if left > 0 else math.inf
    return losses


@lru_cache(maxsize=32)
def _step_divergences(event: SampledGaussianEvent) -> Floats:
    """(levels + 1, orders): one step's divergences for a row of each share."""
    orders, replaces = np.array(ORDERS), event.relation is Relation.REPLACE_ONE

    def at(level: int) -> Floats:
        multiplier = event.noise_multiplier * _LEVELS / level
        return sampled_divergences(SampledGroup(multiplier, event.sampling_rate, replaces, 1), orders)

    return np.stack([np.zeros(len(orders)), *(at(level) for level in range(1, _LEVELS + 1))])
