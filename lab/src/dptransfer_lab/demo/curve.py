"""Accuracy against ε: how much promise costs how much accuracy.

For teaching only. Each dot reads the private pictures once more, so on secret data each would cost its ε; the
noise is seeded and nothing is released. The demo may, because its pictures are public in truth.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dptransfer.accounting import LARGEST_EPSILON
from dptransfer.errors import PrivacyWarning
from dptransfer.ledger import Ledger
from dptransfer.methods import PrivateMethod
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget
from dptransfer_lab.demo.embed import Embedded


@dataclass(frozen=True)
class Dot:
    """Balanced accuracy at one ε.

    Attributes:
        epsilon: ε.
        balanced: the mean over repetitions.
        lowest: the lowest of them.
        highest: the highest of them.
    """

    epsilon: float
    balanced: float
    lowest: float
    highest: float


def accuracy_curve(
    method: Callable[[], PrivateMethod],
    rows: Embedded,
    epsilons: Sequence[float],
    delta: float,
    *,
    repetitions: int = 3,
) -> list[Dot]:
    """Fit at each ε that is no absurd one a few times and test; nothing is released."""
    dots = []
    for epsilon in (value for value in epsilons if value <= LARGEST_EPSILON):
        found = [
            _balanced(method(), rows, Budget(epsilon=epsilon, delta=delta), i) for i in range(repetitions)
        ]
        dots.append(Dot(epsilon, float(np.mean(found)), min(found), max(found)))
    return dots


def _balanced(method: PrivateMethod, rows: Embedded, budget: Budget, seed: int) -> float:
    """Mean recall of one seeded fit; the demo's test sets are balanced, so this is its accuracy."""
    noise, ledger = SeededNoise(seed), Ledger.in_memory(strict_names=True)
    with warnings.catch_warnings(action="ignore", category=PrivacyWarning):  # a dot promises nothing anyway
        model = method.fit(rows.private, rows.public, budget=budget, ledger=ledger, noise=noise)
    chosen = model.scores(rows.test).argmax(axis=1)
    return float((chosen == rows.test_labels).mean())
