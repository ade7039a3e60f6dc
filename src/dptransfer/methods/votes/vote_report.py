"""Release a bound on the data-dependent privacy loss of answers, with noise of its own and charged.

The price of answers (`Inquiry.guarantee`) holds for all votes. For votes on which teachers agree the labels
tell far less (`queries.votes`), but how much less is a function of private votes: printed as it is, it
would be no guarantee and would leak. Here it is released in two steps, both Gaussian:

1. log S, the logarithm of its smooth sensitivity, which one unit moves by at most β, with noise of standard
   deviation s. Let B = exp(noisy log S + 9.6·s + 3β): it is below e^(3β)·S with probability at most
   Φ(−9.6) < 1e-21.
2. the loss L with noise z·B.

For a fixed pair of neighbours call the runs in which B is below |L − L′| bad. S bounds |L − L′| on either
side, so bad runs have probability at most 1e-21 on both. A mechanism that keeps silent in them is two
Gaussian releases in a row, and within that total variation of this one: two GaussianEvents, the second with
numeric_delta 1e-21, which accounts count.

The ledger restates events for replaced units, and for rows where persons are protected: for chains of up to
four neighbours. S grows by at most e^β from one to the next, so that with the 3β in B the same holds of all
steps of such a chain, and the silent mechanism, which is μ-Gaussian at each, is 4μ-Gaussian from end to end
(Dong, Roth and Su 2022). For chains of g > 4 bad runs have probability Φ((g − 4)·β/s − 9.6). So a report
about rows is refused where the account is by person: make it about persons. (An account that is turned to
persons later restates it all the same: declare the unit first.)

**What is true of the number.** B is released, so that the noise of step 2 is known: L is below its noisy
value plus the quantile of that noise with the stated confidence, over this report's own noise. Then, for the
data as they are and any neighbour, the labels alone are (ε, δ)-indistinguishable, ε from D_α ≤ tests + L at
the one order α that was fixed before; and labels and report together, whose divergences add up, at a larger
ε. That describes these data. It is no guarantee for others, and no reason to charge less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dptransfer.accounting import epsilon_of, guarantee_of, mu_of, noise_multiplier_for
from dptransfer.accounting.renyi import epsilon_at_order
from dptransfer.base import checks
from dptransfer.base.types import AnyArray
from dptransfer.errors import ArgumentError
from dptransfer.exact.chunks import plain_floats
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import GaussianMechanism
from dptransfer.methods.charging import require_kinds
from dptransfer.methods.votes.vote_aggregation import (
    NO_LABELS,
    Inquiry,
    charge_votes,
    count_votes,
    require_votes,
)
from dptransfer.noise import NoiseSource, SecureNoise
from dptransfer.privacy import Budget, Event, GaussianEvent, Guarantee, Unit, rounded_up
from dptransfer.queries.votes import AnswerLoss, LossOfAnswers, LossSensitivity

_FAR = 9.6  # standard deviations
_CHAIN = 3  # steps of smooth sensitivity, between the first and the last of four neighbours in a chain
MISSED = 1e-21
"""The probability that a normal draw is further to one side than 9.6 standard deviations, rounded up."""

_ORDER = 20.0
_SMOOTHNESS = 2.0
_SCALE_SHARE = 0.75


@dataclass(frozen=True)
class VoteReport:
    """A bound on what the answers to these votes tell, released with noise; all settings fixed before a look.

    Attributes:
        inquiry: the answers it is about. Their labels alone must be what was released: noisy votes tell all
            that was paid for.
        teachers: how many there are.
        budget: what the report itself may cost, (ε, δ).
        threshold: of the answers' tests, where there are some.
        order: Rényi order α of the loss. 20 suits losses of a tenth of the price: at δ = 1e-5 no order makes
            less than log(1/δ)/(α − 1), here 0.6, of ε.
        smoothness: β of the smooth sensitivity; None for 2/σ₂. The loss of a question whose others win with
            probability Φ(−t) grows by e^(√2·t/σ₂) with each vote that moves: beyond t = √2 smooth
            sensitivity then looks no further than it must.
        confidence: with which the reported bound holds.
    """

    inquiry: Inquiry
    teachers: int
    budget: Budget
    threshold: float | None = None
    order: float = _ORDER
    smoothness: float | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Refuse settings that say nothing, before anything is charged."""
        if self.budget.flavour != "approximate":
            raise ArgumentError("A report needs a budget in epsilon and delta; got another. Give both.")
        if self.budget.relation is not self.inquiry.relation:
            raise ArgumentError("Report and answers are about one relation; got two. Choose one.")
        if not 0.5 <= checks.fraction("confidence", self.confidence) <= 0.999:
            raise ArgumentError(
                f"confidence must lie between 0.5 and 0.999; got {self.confidence!r}. Usual is 0.95."
            )
        if self.smoothness is not None and not 1e-3 <= checks.positive("smoothness", self.smoothness) <= 1:
            raise ArgumentError(
                f"smoothness must lie between 0.001 and 1; got {self.smoothness!r}. Leave it out for 2/noise."
            )
        self.inquiry.require_threshold(self.threshold, self.teachers)
        _ = self.loss

    @cached_property
    def loss(self) -> AnswerLoss:
        """The loss that is reported."""
        asked = self.inquiry
        return AnswerLoss(
            asked.queries,
            self.teachers,
            asked.classes,
            asked.noise,
            self.order,
            asked.most_answers,
            asked.relation,
            self.threshold,
            asked.threshold_noise,
        )

    @cached_property
    def steps(self) -> tuple[GaussianMechanism, GaussianMechanism]:
        """The two releases; the bound of the second is set once the first is there.

        μ² is shared 3 to 1. The report is as wide as z₂·e^(9.6·β·z₁): it grows exponentially in the noise on
        log S, and only in proportion to that on the loss.
        """
        asked = self.inquiry
        smoothness = min(1.0, max(1e-3, self.smoothness or _SMOOTHNESS / asked.noise))
        scale = LossSensitivity(self.loss, smoothness, asked.unit)
        value = LossOfAnswers(self.loss, self.loss.of_all_answers, asked.unit)

        def both(z: float) -> tuple[GaussianMechanism, GaussianMechanism]:
            return (
                GaussianMechanism(scale, z / math.sqrt(_SCALE_SHARE), asked.relation),
                GaussianMechanism(value, z / math.sqrt(1 - _SCALE_SHARE), asked.relation),
            )

        return both(noise_multiplier_for(self.budget, lambda z: _events(both(z))))

    @property
    def margin(self) -> float:
        """By how much the bound is above the noisy log S, for the unlikely and for chains of neighbours."""
        scale, _ = self.steps
        return _FAR * scale.scale + _CHAIN * scale.query.l2_sensitivity(self.inquiry.relation)

    @property
    def events(self) -> tuple[Event, ...]:
        """What the report costs."""
        return _events(self.steps)

    def guarantee(self) -> Guarantee:
        """What is promised about the report."""
        return guarantee_of(self.events, self.budget.delta, self.inquiry.assumptions)

    @plain_floats()  # no flag and no filter of the caller's makes votes tell
    def release(
        self,
        votes: AnyArray,
        *,
        name: str,
        cast: bool = False,
        ledger: Ledger | None = None,
        noise: NoiseSource | None = None,
    ) -> ReportedLoss:
        """Charge the ledger, then look; the arguments are those of `aggregate_votes`."""
        require_votes(votes, self.inquiry, self.teachers, cast=cast)
        source = SecureNoise() if noise is None else noise
        ledger = Ledger.default() if ledger is None else ledger
        require_kinds(self.budget, ledger, source)
        if self.inquiry.unit is Unit.ROW and ledger.unit_of(name) is Unit.PERSON:
            raise ArgumentError(
                f"A report about rows tells nothing of persons who may have many; '{name}' counts by person. "
                "Ask about persons: unit=Unit.PERSON (--unit person)."
            )
        _ = self.steps, self.loss.growth  # what cannot be afforded, or held in memory, fails here
        with charge_votes(name, self.events, "votes report", self.budget.delta, ledger, source) as receipt:
            ballots = count_votes(votes, self.teachers, self.inquiry.classes, cast=cast)
            noisy, deviation = self.release_loss(ballots, source)
        return ReportedLoss(self, noisy, deviation, source.seeded, receipt.head)

    def release_loss(self, ballots: Any, noise: NoiseSource) -> tuple[float, float]:
        """The noisy loss and the standard deviation of its noise: all that is released."""
        scale, value = self.steps
        upper = float(scale.release(ballots, NO_LABELS, noise=noise)[0]) + self.margin
        most = self.loss.of_all_answers  # no loss moves further than that
        bound = min(max(math.exp(min(upper, 700.0)), self.loss.smallest_bound), most)
        sharp = replace(value, query=LossOfAnswers(self.loss, bound, self.inquiry.unit))
        return float(sharp.release(ballots, NO_LABELS, noise=noise)[0]) * bound, sharp.scale * bound


def _events(steps: tuple[GaussianMechanism, GaussianMechanism]) -> tuple[GaussianEvent, GaussianEvent]:
    first, second = (step.event for step in steps)
    return first, replace(second, numeric_delta=MISSED)


@dataclass(frozen=True, eq=False)
class ReportedLoss:
    """What was released, and what follows from it.

    Attributes:
        report: its settings.
        noisy_loss: the loss of answering at the report's order, with noise; it may be on either side.
        scale: standard deviation of that noise.
        seeded: whether the noise came from a seed: then nothing is protected.
        ledger_head: the entry of the charge.
    """

    report: VoteReport
    noisy_loss: float
    scale: float
    seeded: bool
    ledger_head: str

    @property
    def loss_bound(self) -> float:
        """The loss of answering is at most this, with the stated confidence; never above all answers'."""
        from scipy.special import ndtri

        bound = self.noisy_loss + float(ndtri(self.report.confidence)) * self.scale * (1 + 1e-9)
        return min(max(bound, 0.0), self.report.loss.of_all_answers)

    @property
    def epsilon_of_labels(self) -> float:
        """ε of the labels for the data as they are, if the bound holds; never above the price for all."""
        asked, delta = self.report.inquiry, self.report.budget.delta
        return min(epsilon_at_order(self._labels, self.report.order, delta), asked.guarantee(delta).epsilon)

    @property
    def epsilon_with_report(self) -> float:
        """The same for labels and report together."""
        asked, delta, order = self.report.inquiry, self.report.budget.delta, self.report.order
        exact = epsilon_of((*asked.events, *self.report.events), delta)
        own = order * (mu_of(self.report.events) or 0.0) ** 2 / 2
        lost = 3 * math.exp(min(exact, 700.0)) * MISSED  # above (1 + e^ε)·1e-21
        if lost >= delta:
            return exact
        return min(epsilon_at_order(self._labels + own, order, delta - lost), exact)

    @property
    def _labels(self) -> float:
        """D_α of tests, whatever the votes, of labels, by the bound, and what the grid costs."""
        asked, order = self.report.inquiry, self.report.order
        *tests, _ = asked.events
        of_tests = order * (mu_of(tests) or 0.0) ** 2 / 2 if tests else 0.0
        grid = math.fsum(event.numeric_epsilon for event in asked.events) * order / (order - 1)
        return of_tests + self.loss_bound + grid

    @property
    def statement(self) -> str:
        """The sentence that goes with the numbers wherever they are shown."""
        asked, delta = self.report.inquiry, self.report.budget.delta
        own, price = self.report.guarantee(), asked.guarantee(delta)
        labels, both = rounded_up(self.epsilon_of_labels, 4), rounded_up(self.epsilon_with_report, 4)
        change = asked.relation.sentence(asked.unit)
        return (
            f"With probability at least {self.report.confidence:g} over the noise of this report: for the "
            f"data as they are, {change} leaves the labels (ε = {labels}, δ = {rounded_up(delta)})"
            f"-indistinguishable, and labels and report together ε = {both}. That describes these data, and "
            f"is no guarantee: the price for any data is ε = {rounded_up(price.epsilon, 4)} for the labels "
            f"and ε = {rounded_up(own.epsilon, 4)} for this report."
        )
