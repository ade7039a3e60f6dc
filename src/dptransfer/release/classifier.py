"""The fitted, public thing: what `fit` returns, what a release holds, what predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptransfer.data.embeddings import class_positions
from dptransfer.data.facts import Facts
from dptransfer.errors import DataError
from dptransfer.features import FittedFeatures, apply
from dptransfer.privacy import Event, Guarantee
from dptransfer.release.heads import Head, head_arrays

_CHUNK = 4096


@dataclass(frozen=True)
class Provenance:
    """How a classifier came to be, as far as it may be told.

    Attributes:
        method: the method's command-line name.
        configuration: its settings, JSON-ready.
        seeded: whether the noise came from a seed, so that anyone with the seed can remove it.
        notes: reasons for choices made from public facts, for the card.
        public: what is known of the public rows: their name, fingerprint, count and encoder; None if none
            were used.
        ledger_head: head of the ledger's hash chain after the charge.
        created: UTC time, ISO 8601.
        versions: versions of this library and of those the guarantee rests on.
        prototypes: for methods that select public rows: their row numbers and, where known, their sources.
    """

    method: str
    configuration: Mapping[str, Any]
    seeded: bool
    notes: tuple[str, ...] = ()
    public: Mapping[str, Any] | None = None
    ledger_head: str | None = None
    created: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    prototypes: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class PrivateClassifier:
    """A differentially private classifier; holds released arrays and public facts, and no private row.

    Attributes:
        head: the released arrays and the rule that scores with them.
        features: the public map in front of it.
        facts: what the data owner declared.
        events: the noisy steps that ran.
        guarantee: what those steps promise together.
        provenance: how it was made.
    """

    head: Head
    features: FittedFeatures
    facts: Facts
    events: tuple[Event, ...]
    guarantee: Guarantee
    provenance: Provenance

    @property
    def classes(self) -> tuple[str | int, ...]:
        """The declared classes, in order."""
        return self.facts.classes

    @cached_property
    def weights(self) -> dict[str, NDArray[Any]]:
        """The released arrays by name; the public map's carry the prefix 'features.'."""
        maps = {f"features.{name}": array for name, array in self.features.arrays().items()}
        return {**head_arrays(self.head), **maps}

    def scores(self, x: ArrayLike) -> NDArray[np.float64]:
        """One score per row and class, higher for likelier; rows are handled in chunks."""
        rows = _numeric_rows(x)
        result = np.empty((len(rows), len(self.classes)))
        for start in range(0, max(len(rows), 1), _CHUNK):  # at least once, so that a bad width is refused
            chunk = slice(start, start + _CHUNK)
            result[chunk] = self.head.scores(apply(self.features, rows[chunk]))
        return result

    def predict(self, x: ArrayLike) -> NDArray[Any]:
        """The likeliest declared class of each row."""
        chosen: NDArray[Any] = np.asarray(self.classes)[self.scores(x).argmax(axis=1)]
        return chosen

    def predict_proba(self, x: ArrayLike) -> NDArray[np.float64]:
        """Softmax of the scores; a ranking with a public temperature, not a calibrated probability."""
        return probabilities(self.scores(x), self.head.temperature)

    def score(self, x: ArrayLike, y: ArrayLike) -> float:
        """Accuracy on labelled rows. Test rows are not protected by the guarantee."""
        truth = class_positions(y, self.classes)
        return float((self.scores(x).argmax(axis=1) == truth).mean())

    def save(self, path: str | Path, *, unsafe_for_publication: bool = False, **extra: Any) -> Path:
        """Write a release directory; see `dptransfer.release.bundle.write_release`."""
        from dptransfer.release.bundle import write_release

        return write_release(self, path, unsafe_for_publication=unsafe_for_publication, **extra)


def probabilities(scores: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Softmax of scores ÷ `temperature`.

    >>> probabilities(np.array([[0.0, 0.0]]), temperature=1.0)
    array([[0.5, 0.5]])
    """
    logits = scores / temperature
    logits -= logits.max(axis=1, keepdims=True)
    weights: NDArray[np.float64] = np.exp(logits)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _numeric_rows(x: ArrayLike) -> NDArray[Any]:
    rows = np.asarray(x)
    if not (np.issubdtype(rows.dtype, np.number) and not np.iscomplexobj(rows)):
        raise DataError(f"Rows must hold real numbers; got the type {rows.dtype}.")
    return rows
