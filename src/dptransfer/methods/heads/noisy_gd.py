"""Softmax regression by full-batch noisy gradient descent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.exact.feature_map import FittedFeatures
from dptransfer.methods.about import MIXED, RIGHT_STEPS, WINE, About
from dptransfer.methods.heads.gradient_head import STEP_OPTIONS, STEPS_SEE, GradientHead, Guide
from dptransfer.methods.heads.start import FromNames, FromShots, FromZero
from dptransfer.methods.settings import Moderate


@dataclass(frozen=True)
class NoisyGD(GradientHead):
    """Softmax regression; every step sees the private rows through one noisy sum of clipped gradients.

    Releases:      `steps` sums of clipped gradients over all rows, with Gaussian noise.
    Guarantee:     GaussianEvent(z, times=steps): √steps/z-GDP, exactly.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SoftmaxGradient`: the clip under add/remove, twice the clip under replace-one.
    Assumes:       declared classes; a public feature map; a start that is public.
    Reference:     Golatkar et al. (2022), Algorithm 1 and Theorem 3. Printed there: ρ = T²/2σ². T Gaussian
                   releases compose to T/2σ²; at σ = 20, δ = 1e-5 and ε = 1 that allows 28 steps, not 5. Steps
                   have a fixed length, so that no number of private rows is needed (see `descent`).

    Attributes:
        features: the public feature map.
        steps: how many; by default 30, or as many as the budget allows at the given noise.
        noise_multiplier: noise of one step ÷ clip; by default as small as the budget allows.
        pace: how far the steps go, weight decay toward the start, and the ball they stay in.
        device: where gradients are computed, 'cpu' or 'cuda'; the integers are the same.
        clip: norm that each example's gradient is clipped to; none is longer than √2.
        start: where the weights start, and what weight decay pulls toward: `FromZero()`, `FromShots()` or
            `FromNames(...)`.
    """

    clip: Moderate = 1.0
    start: FromZero | FromShots | FromNames = field(default_factory=FromZero)
    name: ClassVar[str] = "noisy-gd"
    about: ClassVar[About] = About(
        summary="Noisy gradients over all rows: many rows per class, and a public start (zero, shots "
        "or class names).",
        card=f"A linear softmax head was trained by full-batch gradient descent; {STEPS_SEE}. Where the "
        "weights started, and how far the steps went, was fixed without private rows.",
        reference=f"{MIXED}, Algorithm 1, {RIGHT_STEPS}",
        family="Linear heads",
        colour=WINE,
        marker=">",
        options={
            **STEP_OPTIONS,
            "clip": "Longest gradient of one example.",
            "start": "Where the weights start: zero, shots or names.",
        },
    )

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """What the start needs."""
        super().require_public(facts, public)
        self.start.require(facts, public)

    def guide(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> Guide:
        """The clipped gradient, from the start."""
        return Guide(self.start.weights(features, facts, public), self.clip, facts.bound)
