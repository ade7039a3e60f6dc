"""Accuracy against ε: how much promise costs how much accuracy.

For teaching only. Each dot reads the private pictures once more, so on secret data each would cost its ε; the
noise is seeded and nothing is released. The demo may, because its pictures are public in truth.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from dptransfer import Fit, Ledger, SeededNoise, Source
from dptransfer.accounting import LARGEST_EPSILON
from dptransfer.errors import PrivacyWarning
from dptransfer.methods import PrivateMethod
from dptransfer.privacy import Budget
from dptransfer_lab.demo.embed import Embedded


def accuracy_curve(
    method: Callable[[], PrivateMethod],
    rows: Embedded,
    epsilons: Sequence[float],
    delta: float,
    *,
    repetitions: int = 3,
) -> dict[float, list[float]]:
    """Balanced accuracies of a few fits at each ε that is no absurd one; nothing is released."""
    budgets = [Budget(epsilon=value, delta=delta) for value in epsilons if value <= LARGEST_EPSILON]
    return {
        budget.epsilon or 0.0: [_balanced(method(), rows, budget, seed) for seed in range(repetitions)]
        for budget in budgets
    }


def _balanced(method: PrivateMethod, rows: Embedded, budget: Budget, seed: int) -> float:
    """Mean recall of one seeded fit; the demo's test sets are balanced, so this is its accuracy."""
    noise, ledger = SeededNoise(seed), Ledger.in_memory(strict_names=True)
    with warnings.catch_warnings(action="ignore", category=PrivacyWarning):  # a dot promises nothing anyway
        request = Fit(Source(rows.private), budget, method, Source(rows.public), calibrate=False)
        model = request.run(ledger, noise)
    chosen = model.scores(rows.test).argmax(axis=1)
    return float((chosen == rows.test_labels).mean())
