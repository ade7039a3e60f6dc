"""A classifier from class names alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.facts import Facts
from dptransfer.features import FittedFeatures
from dptransfer.methods.base import Outcome, Plan, PrivateMethod
from dptransfer.methods.start import FromNames
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget
from dptransfer.release.heads import LinearHead


@dataclass(frozen=True)
class LanguageInit(PrivateMethod):
    """Zero-shot: each class's weights are the encoding of its name; no private row is looked at.

    The same weights start the other heads: `NoisyGD(start=FromNames(...))`, `AdaMix(start=FromNames(...))`.

    Releases:      nothing about the private rows.
    Guarantee:     ε = 0: there is no event.
    Relation:      either.
    Sensitivity:   0.
    Assumes:       class names are public; a text tower that shares the rows' space.
    Reference:     Golatkar et al. (2022), Section 3.3; Radford et al. (2021) for the zero-shot head.

    Attributes:
        features: the public feature map; plain unit norm keeps both modalities in one space.
        start: the tower, the sentence a name is put into, and the scale.
    """

    start: FromNames = field(default_factory=FromNames)
    name: ClassVar[str] = "language"

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """A tower, and names."""
        super().require_public(facts, public)
        self.start.require(facts, public)

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """No steps."""
        return self.make_plan([], budget)

    def run(
        self,
        plan: Plan,
        features: FittedFeatures,
        private: PrivateEmbeddings,
        noise: NoiseSource,
        public: PublicEmbeddings | None,
    ) -> Outcome:
        """The encoded names."""
        weights = self.start.weights(features, private.facts, public)
        return Outcome(LinearHead(weights, np.zeros(len(weights))), ())
