"""Noisy gradient descent in the metric of one noisy second moment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dptransfer.base.types import Floats
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.mechanisms import GaussianRounds, Step, jointly
from dptransfer.methods.about import FEATURES, OLIVE, About
from dptransfer.methods.heads.gradient_head import STEP_OPTIONS, STEPS_SEE, Guide, HeadRows
from dptransfer.methods.heads.least_squares import inverse
from dptransfer.methods.heads.noisy_gd import NoisyGD
from dptransfer.methods.method import Plan
from dptransfer.methods.settings import Fraction, Moderate
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget
from dptransfer.queries import SecondMoments
from dptransfer.queries.second_moments import OfAll


@dataclass(frozen=True)
class FeatureCovariance(NoisyGD):
    """Softmax regression with gradients divided by a noisy feature covariance, released once.

    Releases:      the second moment of all rows, then `steps` sums of clipped gradients.
    Guarantee:     GaussianEvents: the moment at z/√share, the gradients at z·√(steps/(1 − share)), with z the
                   smallest that fits. Under replace-one a single GaussianEvent for both: see `JointRounds`.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SecondMoments` and `SoftmaxGradient`, and `joint_reach` for both at once: no pair of
                   rows is the worst for moment and gradients, so with share = 0.2 the reach is 0.8 of what
                   they cost one by one (for `width` 1; about 1e-5·√width more for the moment's grid).
    Assumes:       declared classes; a public feature map; a start that is public.
    Reference:     Mehta et al. (2023), DP-FC.

    Attributes:
        share: of the budget that the second moment gets.
        ridge: added to the diagonal, in units of 2·scale·√width, about the noise's spectral norm.
    """

    share: Fraction = 0.2
    ridge: Moderate = 3.0
    name: ClassVar[str] = "feature-covariance"
    about: ClassVar[About] = About(
        summary="One noisy second moment, then noisy gradients: like newton, with more dimensions.",
        card="The second moments of the private rows were released once with Gaussian noise; a linear "
        f"softmax head was then trained by gradient descent in the metric they give, and {STEPS_SEE}.",
        reference=f"{FEATURES}, DP-FC.",
        family="Linear heads",
        colour=OLIVE,
        marker="H",
        options=STEP_OPTIONS,
    )

    def __post_init__(self) -> None:
        """Refuse noise that is given."""
        super().__post_init__()
        if self.noise_multiplier is not None:
            raise ArgumentError(
                "'feature-covariance' finds its own noise, by `share`, for its two kinds of release; got "
                f"noise_multiplier={self.noise_multiplier!r}. Leave it out, and set steps or share."
            )

    @property
    def devices(self) -> tuple[str, ...]:
        """Second moments are computed on the CPU."""
        return ("cpu",)

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """One second moment, then rounds of gradients."""
        outline, steps = self.outline(facts, public), self.steps or self.default_steps
        moment = SecondMoments(outline, OfAll(), bound=facts.bound)
        gradient = self.planned_question(outline, facts)

        def releases(z: float) -> list[Step]:
            parts = [
                GaussianRounds(moment, z / self.share**0.5, budget.relation, 1),
                GaussianRounds(gradient, z * (steps / (1 - self.share)) ** 0.5, budget.relation, steps),
            ]
            return jointly(parts, f"second moments and {steps} softmax gradients, jointly")

        return self.calibrated_plan(releases, budget)

    def informed(
        self, guide: Guide, before: Sequence[GaussianRounds], seen: HeadRows, noise: NoiseSource
    ) -> Guide:
        """The same in the metric of the moment."""
        (paid,) = before
        query = SecondMoments(seen.features, OfAll(), bound=guide.bound)
        released = paid.open(noise=noise).release(query, seen.rows, seen.labels, seen.people)
        metric = inverse(query.symmetric(released)[0], self.ridge * query.noise_norm(paid.scale))
        return _InMetric(guide.start, guide.clip, guide.bound, metric)


@dataclass(eq=False)
class _InMetric(Guide):
    """The private gradient, times a released matrix."""

    metric: Floats

    def gradient(self, weights: Floats, answer: Floats) -> Floats:
        """The answer in the metric."""
        return answer @ self.metric

    def noise_norm(self, answer: Floats, scale: float) -> float:
        """Each class's noise has the covariance scale²·metric², whose trace is the squared norm to expect."""
        return scale * float(np.linalg.norm(self.metric)) * math.sqrt(len(answer))
