"""DP-SGD whose upper clip follows the gradients' norms, by a noisy count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from dptransfer.base.types import Floats
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import FittedFeatures
from dptransfer.methods.about import PURPLE, About
from dptransfer.methods.heads.dpsgd import DPSGDProbe
from dptransfer.methods.heads.gradient_head import Guide
from dptransfer.methods.settings import Fraction, Moderate
from dptransfer.privacy import Unit
from dptransfer.queries import GradientAndExcess, L2Query, SoftmaxGradient
from dptransfer.queries.softmax_gradient import require_count_weight

_LONGEST = math.sqrt(2)  # norm of a softmax residual is at most this


@dataclass(frozen=True)
class GlobalAdapt(DPSGDProbe):
    """Gradients are scaled by one common factor; those above an upper clip Z are cut to it, and Z adapts.

    An example's gradient g counts as g·C/max(Z, ‖g‖): in units of the bound C that is g clipped to Z, divided
    by Z, whatever C is. So short gradients keep their proportions, which helps small classes, and the answer
    has sensitivity 1. After each step Z grows or shrinks with the noisy share of gradients above it.

    Releases:      `steps` noisy sums over Poisson samples, each of gradients and a count of long ones.
    Guarantee:     SampledGaussianEvent(z, rate, steps) for gradient and count together.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `GradientAndExcess`.
    Assumes:       declared classes; a public feature map; a declared approximate number of units, for persons
                   a size and rows per person. The count is divided by the EXPECTED sample size, never by the
                   realised one.
    Reference:     Esipova et al. (2023), DPSGD-Global-Adapt.

    Attributes:
        count_weight: of the count in a step's answer; its noise is that of the gradient ÷ this.
        tolerance: share of examples that may be above the upper clip.
        adapt_rate: how fast the upper clip follows.
    """

    count_weight: Annotated[float, require_count_weight] = 0.25
    tolerance: Fraction = 0.1
    adapt_rate: Moderate = 0.2
    name: ClassVar[str] = "global-adapt"
    about: ClassVar[About] = About(
        summary="Noisy gradients and counts over Poisson samples: for comparison on imbalanced data, "
        "where an approximate size is public.",
        card="A linear softmax head was trained by DP-SGD on Poisson samples of those who are protected; "
        "each step released, in one answer with Gaussian noise, a sum of scaled gradients and a count of "
        "those above an upper clip. That count, as a share of the declared size, moved the clip of the next "
        "step.",
        reference="Esipova, Ghomi, Luo, Cresswell: Disparate Impact in Differential Privacy from Gradient "
        "Misalignment (ICLR 2023), DPSGD-Global-Adapt.",
        family="Linear heads",
        colour=PURPLE,
        marker="<",
        options=DPSGDProbe.about.options,
    )

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """A declared size: the expected sample is a share of it."""
        super().require_public(facts, public)
        if facts.declared_units is None:
            needed, size, options = ("examples", "size=...", "--set data.size=5000")
            if facts.unit is Unit.PERSON:
                needed, size = "people", "size=... and rows_per_person=..."
                options += " --set data.rows_per_person=4"
            raise ArgumentError(
                "'global-adapt' divides a count by the expected sample size, so it needs an approximate "
                f"number of {needed} that may be public; none is declared. "
                f"Pass {size}, on the command line {options}."
            )

    @property
    def devices(self) -> tuple[str, ...]:
        """Its question is answered on the CPU."""
        return ("cpu",)

    def planned_question(self, outline: FittedFeatures, facts: Facts) -> L2Query:
        """Gradient and count."""
        zero = np.zeros((len(facts.classes), outline.dimension))
        gradient = SoftmaxGradient(outline, zero, zero[:, 0], bound=facts.bound)
        return GradientAndExcess(gradient, self.clip, self.count_weight, bound=facts.bound)

    def guide(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> Guide:
        """The gradient, from the start, with an upper clip that begins at `clip`."""
        assert facts.declared_units is not None
        expected = self.sampling_rate * facts.declared_units
        # Of a person, the sum of their rows' gradients, in units of as many as they count as.
        together = max(1.0, (facts.rows_per_person or 1.0) / facts.bound.examples)
        start = self.start.weights(features, facts, public)
        return _AdaptingGuide(start, self.clip, facts.bound, self, expected, _LONGEST * together)


@dataclass(eq=False)
class _AdaptingGuide(Guide):
    """Moves the upper clip with each answer's noisy count, one entry of thousands."""

    method: GlobalAdapt
    expected: float
    longest: float

    def question(self, weights: Floats, features: FittedFeatures) -> L2Query:
        """Gradient in units of the upper clip, and how many are longer."""
        zero = np.zeros(len(weights))
        gradient = SoftmaxGradient(features, weights, zero, clip=self.clip, bound=self.bound)
        return GradientAndExcess(gradient, self.clip, self.method.count_weight, bound=self.bound)

    def gradient(self, weights: Floats, answer: Floats) -> Floats:
        """The gradient; the count moves the clip for the next step."""
        share = answer[-1] / (self.method.count_weight * self.bound.examples) / self.expected
        above = min(1.0, max(0.0, float(share))) - self.method.tolerance
        growth = math.exp(min(5.0, self.method.adapt_rate * above))  # e⁵ leads from the least to the longest
        self.clip = min(self.longest, max(1e-2, self.clip * growth))
        return answer[:-1].reshape(weights.shape)
