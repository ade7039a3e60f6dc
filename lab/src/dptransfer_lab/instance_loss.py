"""What a record keeps of its rows' own privacy losses: how they are distributed, in all and by class size.

The losses are a function of private rows and are not covered by the guarantee: they stay in the laboratory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.audit.instance_loss import InstanceLosses

PERCENTILES = tuple(range(101))
_GROUPS = 4


def loss_summary(
    losses: InstanceLosses,
    labels: NDArray[np.int64],
    classes: int,
    people: NDArray[np.int64] | None = None,
) -> dict[str, Any]:
    """The distribution of ε over rows, JSON-ready; see `audit.instance_loss.instance_losses`.

    Where people are protected it is over them, and each row of a class stands for its person.

    Args:
        losses: each row's own ε, or each person's, and what was promised to all.
        labels: the rows' classes, as positions.
        classes: how many there are.
        people: whose each row is, where people are protected.
    """
    own = losses.epsilons
    of_rows = own if people is None else own[people]
    members = [of_rows[labels == place] for place in range(classes)]
    return {
        "promised": losses.guarantee.epsilon,
        "delta": losses.guarantee.delta,
        "mean": float(own.mean()),
        "largest": losses.worst,
        "share_below_half": losses.share_below_half,
        "percentiles": np.percentile(own, PERCENTILES).tolist(),
        "class_rows": [len(some) for some in members],
        "class_medians": [float(np.median(some)) if len(some) else None for some in members],
    }


def loss_metrics(summary: Mapping[str, Any] | None) -> dict[str, float | None]:
    """The median loss, and the distance between its quartiles, as shares of the promised ε.

    >>> loss_metrics({"promised": 2.0, "percentiles": [0.02 * place for place in range(101)]})
    {'instance_loss': 0.5, 'instance_loss_spread': 0.5}
    """
    if summary is None:
        return {"instance_loss": None, "instance_loss_spread": None}
    low, middle, high = (summary["percentiles"][place] for place in (25, 50, 75))
    promised = summary["promised"] or 1.0  # nothing was promised where nothing was read
    return {"instance_loss": middle / promised, "instance_loss_spread": (high - low) / promised}


def losses_by_size(summary: Mapping[str, Any]) -> list[float] | None:
    """Mean of the class medians in each quarter of the classes, from the smallest classes to the largest.

    None where there are fewer than four classes with rows, or all are of one size.

    >>> losses_by_size({"class_rows": [9, 1, 5, 7], "class_medians": [0.1, 0.4, 0.3, 0.2]})
    [0.4, 0.3, 0.2, 0.1]
    """
    pairs = zip(summary["class_rows"], summary["class_medians"], strict=True)
    ordered = sorted((rows, median) for rows, median in pairs if rows)
    if len(ordered) < _GROUPS or ordered[0][0] == ordered[-1][0]:
        return None
    return [float(part.mean()) for part in np.array_split([median for _, median in ordered], _GROUPS)]
