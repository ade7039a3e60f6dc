"""A classifier from class names alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from dptransfer.methods.about import TEAL, About
from dptransfer.methods.citations import MIXED
from dptransfer.methods.mixed_baselines import OnlyPublic
from dptransfer.methods.start import FromNames


@dataclass(frozen=True)
class LanguageInit(OnlyPublic):
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
    about: ClassVar[About] = About(
        summary="Nothing about private rows, ε = 0: where a text tower knows the class names.",
        card="Each class's weights are the encoding of its name by a public text encoder. No private row was "
        "used.",
        reference=f"{MIXED}, Section 3.3; Radford et al.: Learning Transferable Visual Models From Natural "
        "Language Supervision (ICML 2021).",
        family="Without private rows",
        colour=TEAL,
        marker="p",
    )
    needs_public: ClassVar[bool] = False
