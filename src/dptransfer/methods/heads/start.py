"""Public starting points of a linear head: zero, class names, or labelled public shots.

Private rows never come here: their gradients are `queries.SoftmaxGradient`, in exact integers, of which these
functions are the definition in real numbers.

A start has two functions: `require` raises, before anything is charged, if what it needs is not there, and
`weights` gives the (classes, dimension) weights before any private row is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from dptransfer.base.types import Floats, Floats32, Labels, Rows
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.data.examples import slabs
from dptransfer.errors import ArgumentError, DataError, Incompatible
from dptransfer.exact.feature_map import FittedFeatures, apply
from dptransfer.methods.about import Moderate, check_settings


def residuals(weights: Floats, rows: Floats, labels: Labels) -> Floats:
    """softmax(rows·weightsᵀ) − onehot(labels): (rows, classes)."""
    found: Floats = softmax(rows @ weights.T, axis=1)
    found[np.arange(len(rows)), labels] -= 1.0
    return found


def gradient_norms(residual: Floats, rows: Floats) -> Floats:
    """Norm of each example's gradient residual ⊗ row: the product of two norms."""
    norms: Floats = np.linalg.norm(residual, axis=1) * np.linalg.norm(rows, axis=1)
    return norms


def clipped_gradient(weights: Floats, rows: Floats, labels: Labels, clip: float = np.inf) -> Floats:
    """Sum over the rows of their gradients, each clipped to norm `clip`; (classes, dimension).

    >>> rows, labels = np.array([[3.0, 4.0]]), np.array([0])
    >>> clipped_gradient(np.zeros((2, 2)), rows, labels, clip=1.0).round(3)
    array([[-0.424, -0.566],
           [ 0.424,  0.566]])
    """
    residual = residuals(weights, rows, labels)
    norms = gradient_norms(residual, rows)
    scale = np.minimum(1.0, clip / np.maximum(norms, np.finfo(np.float64).tiny))
    return (residual * scale[:, None]).T @ rows


def fitted_softmax(
    rows: Floats, labels: Labels, centre: Floats, strength: float, start: Floats | None = None
) -> Floats:
    """Argmin over W of the mean loss + ½·strength·‖W − centre‖²; (classes, dimension).

    A class without a row stays where the centre puts it, but for being pushed away from the others' rows.
    """
    own = np.arange(len(rows)), labels

    def objective(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(centre.shape)
        residual = rows @ weights.T
        residual -= residual.max(axis=1, keepdims=True)
        true = residual[own]
        np.exp(residual, out=residual)
        total = residual.sum(axis=1, keepdims=True)
        residual /= total
        residual[own] -= 1.0
        away = weights - centre
        loss = float(np.mean(np.log(total[:, 0]) - true)) + 0.5 * strength * float((away * away).sum())
        return loss, (residual.T @ rows / len(rows) + strength * away).ravel()

    return _minimised(objective, centre if start is None else start)


def fitted_to_chances(rows: Floats, chances: Floats, weights: Floats, strength: float) -> Floats:
    """Argmin over W of the weighted mean cross-entropy to soft labels + ½·strength·‖W‖²."""
    share = weights / weights.sum()

    def objective(flat: Floats) -> tuple[float, Floats]:
        fitted = flat.reshape(chances.shape[1], rows.shape[1])
        logits = rows @ fitted.T
        loss = float(share @ (logsumexp(logits, axis=1) - (chances * logits).sum(axis=1)))
        gradient = ((softmax(logits, axis=1) - chances) * share[:, None]).T @ rows + strength * fitted
        return loss + 0.5 * strength * float((fitted * fitted).sum()), gradient.ravel()

    return _minimised(objective, np.zeros((chances.shape[1], rows.shape[1])))


def _minimised(objective: Callable[[Floats], tuple[float, Floats]], start: Floats) -> Floats:
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 100})
    return np.asarray(found.x, dtype=np.float64).reshape(start.shape)


@dataclass(frozen=True)
class FromZero:
    """No public knowledge: every class is as likely as any other."""

    kind: ClassVar[str] = "zero"

    def require(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Raise nothing: zeros need no data."""

    def weights(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> Floats:
        """Zeros."""
        return np.zeros((len(facts.classes), features.dimension))


@dataclass(frozen=True)
class FromShots:
    """Softmax regression on the labelled public rows (Golatkar et al. 2022, Section 3.2).

    Attributes:
        strength: pull toward zero while fitting them; few shots of unit norm need little.
    """

    strength: Moderate = 1e-3
    kind: ClassVar[str] = "shots"

    def __post_init__(self) -> None:
        """Check the strength."""
        check_settings(self)

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
    scale: Moderate = 100.0
    kind: ClassVar[str] = "names"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_settings(self)
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
