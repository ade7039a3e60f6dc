"""A likelihood-ratio attack: how surprising is a row's loss, beside models that never saw the row?

A row that every model finds easy has a small loss whether it was used or not. So the attacker fits shadow
models by the method and settings on record, at the recorded noise, to labelled public rows of the same
encoder, and asks each for the row's logit, log p/(1 − p) of its own class. A row is taken for a member if the
released model's logit lies far above the shadows', in their standard deviations (Carlini et al. 2022, the
offline attack; logits are nearly normal where losses are not). One standard deviation is taken for all rows
where there are fewer than 32 shadows, as the authors advise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.labels import Labelled
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.methods.configuration import method_from_configuration
from dptransfer.methods.replan import budget_of
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Unit
from dptransfer.release import PrivateClassifier
from dptransfer.release.charged_evaluation import without_holdout

_FEW = 32  # shadows, below which all rows share one standard deviation
_FEWEST_ROWS = 20

Logits = Callable[[PrivateClassifier, AnyArray, Labelled], Floats]


def shadow_models(
    model: PrivateClassifier, public: PublicEmbeddings, *, count: int = 16, seed: int = 0
) -> list[PrivateClassifier]:
    """Models of the release's method, settings and noise, each fitted to half of the labelled public rows.

    Args:
        model: the release; of a method on rows.
        public: labelled rows of the same encoder, which no private example is among.
        count: how many models.
        seed: of the halves and the noise.
    """
    checks.whole("count", count)
    if public.labels is None or len(public) < _FEWEST_ROWS:
        raise ArgumentError(
            f"Shadow models are fitted to labelled public rows, {_FEWEST_ROWS} or more; these have "
            f"{'no labels' if public.labels is None else len(public)}. Give others, or leave them out."
        )
    plain = without_holdout(model)
    method, budget = method_from_configuration(plain.provenance.configuration), budget_of(plain)
    if method.takes is not PrivateEmbeddings:
        raise ArgumentError("Shadow models are for methods on rows; this one works on pictures.")
    rng, found = np.random.default_rng(seed), []
    for turn in range(count):
        half = np.sort(rng.permutation(len(public))[: len(public) // 2])
        people = np.arange(len(half)) if plain.facts.unit is Unit.PERSON else None
        labels = Labelled(np.asarray(public.labels)[half], plain.classes)
        rows = PrivateEmbeddings(public.rows[half], labels, people=people)
        rows.facts = replace(plain.facts, size=None, class_counts=None)
        rest = PublicEmbeddings(np.delete(np.asarray(public.rows), half, axis=0))
        pool: Any = rest if plain.provenance.public is not None else None
        noise = SeededNoise(seed + turn)
        found.append(method.fit(rows, pool, budget=budget, ledger=Ledger.in_memory(), noise=noise))
    return found


def logits(model: PrivateClassifier, x: ArrayLike, labels: Labelled) -> Floats:
    """Log p/(1 − p) of each row's own class."""
    from dptransfer.audit.membership import row_losses

    losses = row_losses(model, x, labels)  # −log p
    odds: Floats = -losses - np.log(-np.expm1(-np.maximum(losses, 1e-300)))
    return odds


def surprise(
    model: PrivateClassifier, shadows: Sequence[PrivateClassifier], x: ArrayLike, labels: Labelled
) -> Floats:
    """By how many standard deviations each row's logit lies below the shadows': small for members."""
    seen = np.array([logits(one, x, labels) for one in shadows])
    mean, spread = seen.mean(axis=0), seen.std(axis=0, ddof=1)
    if len(shadows) < _FEW:
        spread = np.full_like(spread, np.sqrt(np.mean(np.square(spread))))
    found: Floats = (mean - logits(model, x, labels)) / np.maximum(spread, 1e-12)
    return found
