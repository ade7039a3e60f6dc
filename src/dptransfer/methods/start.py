"""Where a linear head starts: public knowledge alone, so it costs nothing; weight decay pulls back toward it.

A start has two functions: `require` raises, before anything is charged, if what it needs is not there, and
`weights` gives the (classes, dimension) weights before any private row is seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dptransfer import _check
from dptransfer.arrays import Floats, Floats32, Labels, Rows
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.data.examples import slabs
from dptransfer.errors import ArgumentError, DataError, Incompatible
from dptransfer.features import FittedFeatures, apply
from dptransfer.methods.softmax import fitted_softmax


@dataclass(frozen=True)
class FromZero:
    """No public knowledge: every class is as likely as any other."""

    kind: ClassVar[str] = "zero"

    def require(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """It needs nothing."""

    def weights(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> Floats:
        """Zeros."""
        return np.zeros((len(facts.classes), features.dimension))


@dataclass(frozen=True)
class FromShots:
    """Softmax regression on the labelled public rows (Golatkar et al. 2022, Section 3.2).

    Attributes:
        strength: pull toward zero while fitting them; few shots of unit norm need little.
    """

    strength: float = 1e-3
    kind: ClassVar[str] = "shots"

    def __post_init__(self) -> None:
        """Check the strength."""
        _check.moderate("strength", self.strength)

    def require(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Labelled public rows of declared classes."""
        labelled_rows(facts, public)

    def weights(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> Floats:
        """The fit to convergence."""
        rows, labels = mapped_shots(features, facts, public)
        zero = np.zeros((len(facts.classes), features.dimension))
        return fitted_softmax(rows, labels, zero, self.strength)


@dataclass(frozen=True)
class FromNames:
    """Class names through a text tower that shares the rows' space, scaled.

    The tower is any CLIP-like model of `transformers` whose image side encoded the rows, or, for rows of
    text, the sentence encoder that made them (Golatkar et al. 2022, Section 3.3).

    Attributes:
        tower: the text encoder: a model folder, a hub name, or a name the library knows.
        template: the sentence a name is put into.
        scale: β: length of each class's weights, so that logits are β times a cosine.
    """

    tower: str = ""
    template: str = "a photo of a {}."
    scale: float = 100.0
    kind: ClassVar[str] = "names"

    def __post_init__(self) -> None:
        """Check the settings."""
        _check.moderate("scale", self.scale)
        if "{}" not in self.template:
            raise ArgumentError(f"template must hold a place {{}} for the name; got {self.template!r}.")

    def require(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Names that are words, and a tower of the rows' width."""
        if not self.tower:
            raise ArgumentError(
                "A start from class names needs a text tower; none is named. Pass FromNames(tower='...'), on "
                "the command line --set start.tower=..., the text encoder that shares the rows' space."
            )
        if not all(isinstance(name, str) for name in facts.classes):
            raise DataError(
                "A start from class names needs classes that are words; these are numbers. "
                "Declare names, such as --classes cat,dog."
            )
        encoded_names(self, facts.classes, facts.dimension)

    def weights(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> Floats:
        """The mapped names, each of length `scale`."""
        return self.scale * apply(features, encoded_names(self, facts.classes, facts.dimension))


def labelled_rows(facts: Facts, public: PublicEmbeddings | None) -> tuple[Rows, Labels]:
    """The labelled public rows, which may be in many files, and their labels; an error if there are none."""
    if public is None:
        raise ArgumentError(
            "Labelled public rows are needed; none were given. Pass public=PublicEmbeddings(x, y, "
            "classes=[...]), or on the command line --shots shots.emb."
        )
    return public.shots_for(facts)


def mapped_shots(
    features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None
) -> tuple[Floats, Labels]:
    """The labelled public rows, mapped, and their labels; whoever learns from them takes all at once."""
    rows, labels = labelled_rows(facts, public)
    mapped = np.empty((len(rows), features.dimension))
    for slab in slabs(rows):
        mapped[slab] = apply(features, rows[slab])
    return mapped, labels


@lru_cache(maxsize=4)
def encoded_names(start: FromNames, classes: tuple[str | int, ...], dimension: int) -> Floats32:
    """One row per class, from its name."""
    from dptransfer.encoders import get_encoder

    encoder = get_encoder(start.tower, kind="text")
    rows = encoder.encode([start.template.format(name) for name in classes])
    if rows.shape[1] != dimension:
        raise Incompatible(
            f"A text tower must share the rows' space; '{start.tower}' gives {rows.shape[1]} dimensions and "
            f"the rows have {dimension}. Use the text side of the model that encoded them."
        )
    return rows
