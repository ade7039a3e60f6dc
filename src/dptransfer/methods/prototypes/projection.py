"""Noisy prototypes behind a linear projection that is trained by DP-SGD."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dptransfer.base.types import Floats
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.exact import chunks, lattice
from dptransfer.exact.feature_map import Features, FittedFeatures, UnitNorm
from dptransfer.mechanisms import GaussianRounds
from dptransfer.methods.about import PROTOTYPES, About, Fraction, Moderate, Rate, Whole
from dptransfer.methods.heads.descent import STEP_OPTIONS, STEPS_SEE, GradientHead, HeadRows, Pace, UpdateRule
from dptransfer.methods.heads.noisy_gd import released_directions, sums_before
from dptransfer.noise import NoiseSource
from dptransfer.queries import L2Query, ProjectionGradient, softmax_gradient
from dptransfer.release.heads import CosineHead, Head, LinearHead

_START = math.sqrt(0.5 / CosineHead.temperature)


class _OfMap(UpdateRule):
    """The gradient of the map; its head is that of the nearest of the released `prototypes`."""

    is_informative: ClassVar[bool] = False
    """Steps keep their length: on digits, shortened ones hardly moved the map."""

    def read_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Start at public axes."""
        columns = self.features.dimension
        self.start = _START * public_axes(self.method.width(columns), columns)

    def read_released(self, paid: list[GaussianRounds], seen: HeadRows, noise: NoiseSource) -> None:
        """Take the directions of the released sums."""
        private = seen.private
        self.prototypes = released_directions(paid[0], self.features, private.rows, private, noise)

    def question(self, weights: Floats, features: FittedFeatures) -> L2Query:
        """The clipped gradient at this map."""
        return ProjectionGradient(features, weights, self.prototypes, self.clip, bound=self.bound)

    def head(self, weights: Floats) -> Head:
        """The nearest prototype after the map."""
        return LinearHead(*softmax_gradient.nearest_prototype(weights, self.prototypes))


@dataclass(frozen=True)
class Projection(GradientHead):
    """Noisy class sums behind a projection that noisy gradients train: for comparison with mean.

    Prototypes behind a linear map A that is trained to bring rows near their class's prototype.

    A row is given the class whose prototype is nearest after the map. Class sums are released once; their
    directions are the prototypes of every step and of the released head. −‖A x − A p‖² is linear in x up to a
    term that all classes share, so what is released is a linear head.

    Releases:      the (classes, dimension) class sums, once; then `steps` sums of clipped gradients of the
                   map, each over a fresh Poisson sample.
    Guarantee:     GaussianEvent(z₁) and SampledGaussianEvent(z, rate, steps), composed by their privacy loss
                   distributions; z is the smallest that fits, and z₁ follows from it by `share`.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `ClassSums` and `ProjectionGradient`.
    Assumes:       declared classes; a public feature map; who was sampled is never told.
    Reference:     Wahdany et al. (2025), Appendix C.6. Printed there: episodes, in which one half of a sample
                   makes the prototypes that the other half's loss is measured by. A row of the first half
                   then moves the gradient of every row of the second, and a clip per row bounds nothing. As f
                   is linear, f of a mean is the mean of f: so noisy sums, released once, serve all episodes,
                   and a row's gradient depends on that row and on released values. They find that it never
                   helps; so trained it beats `mean` on equally pooled features of CIFAR-10, and stays below
                   `mean` on all of them.

    Attributes:
        features: the public feature map; `UnitNorm(pool=10)` averages neighbouring features first, which is
            the paper's p_before; 1280 features then have a square map.
        steps: how many; by default 60, or as many as the budget allows at the given noise.
        noise_multiplier: noise of one step ÷ clip; by default as small as the budget allows.
        pace: how far the steps go. The start has rows of norm 3.2; 10 was the best of 3.2, 10 and 30 on
            scikit-learn's digits at ε = 0.5, 2 and 8.
        device: 'cpu'.
        share: s, of the price, in μ², that the map gets; the sums get the rest.
        dimension: rows of the map, d_p; by default as many as columns, or as fit 16,384 entries in all.
        sampling_rate: probability with which a step looks at an example, or at a person.
        clip: norm that each example's gradient is clipped to; at the start they have about 5.
    """

    features: Features = field(default_factory=lambda: UnitNorm(pool=10))
    pace: Pace = field(default_factory=lambda: Pace(reach=10.0, radius=10.0))
    share: Fraction = 0.5
    dimension: Whole | None = None
    sampling_rate: Rate = 0.05
    clip: Moderate = 1.0
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    rule_kind: ClassVar[type[UpdateRule]] = _OfMap
    name: ClassVar[str] = "projection"
    about: ClassVar[About] = About(
        card="The sums of the private rows of each class were released with Gaussian noise. A linear "
        f"projection was then trained by DP-SGD to bring rows near their class's direction, and {STEPS_SEE}, "
        "over a fresh Poisson sample. A row is given the class whose direction is nearest after it.",
        paper_names=("dppl-projection",),
        reference=f"{PROTOTYPES}, Appendix C.6, with prototypes that are released once: those of the printed "
        "episodes are not private.",
        family="From sums",
        options={
            **STEP_OPTIONS,
            "share": "Of the price for the projection.",
            "dimension": "Width of what it projects to.",
            "sampling_rate": "Chance to be in a step.",
            "clip": "Longest gradient of one example.",
        },
    )
    default_steps: ClassVar[int] = 60

    @property
    def rate(self) -> float:
        """The sampling rate."""
        return self.sampling_rate

    def planned_question(self, outline: FittedFeatures, facts: Facts) -> L2Query:
        """A gradient of the map's shape."""
        width, classes = self.width(outline.dimension), len(facts.classes)
        blank = np.zeros((width, outline.dimension)), np.zeros((classes, outline.dimension))
        return ProjectionGradient(outline, *blank, bound=facts.bound)

    def pre_steps(self, paid: GaussianRounds, outline: FittedFeatures, facts: Facts) -> list[GaussianRounds]:
        """The class sums, for the rest of the price."""
        return [sums_before(paid, outline, facts, 1 - self.share)]

    def width(self, columns: int) -> int:
        """Rows of the map for so many columns."""
        most = min(lattice.LARGEST_DIMENSION // columns, columns)
        if not 1 <= (self.dimension or most) <= most:
            raise ArgumentError(
                f"A projection has at most as many rows as columns, and {lattice.LARGEST_DIMENSION} entries; "
                f"{columns} columns leave {most} rows, dimension is {self.dimension}. Lower it, or pool "
                "more: features=UnitNorm(pool=...), on the command line --set features.pool=16."
            )
        return self.dimension or most


def public_axes(width: int, dimension: int) -> Floats:
    """(width, dimension) orthonormal rows: all axes themselves, or fewer at random, the same for everyone."""
    if width == dimension:
        return np.eye(dimension)
    directions = np.random.Generator(np.random.PCG64(0)).normal(size=(dimension, width))
    with chunks.one_blas_thread(width):
        axes: Floats = np.linalg.qr(directions)[0].T
    return axes
