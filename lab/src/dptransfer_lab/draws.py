"""Rows drawn class by class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


def drawn_by_class(
    labels: NDArray[np.int64], how_many: Callable[[int], int], *, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Positions of rows of each class, in order; `how_many` says for a class of so many rows.

    >>> drawn_by_class(np.array([0, 0, 1, 1, 1]), lambda rows: rows - 1, rng=np.random.default_rng(0)).size
    3
    """
    classes = (np.flatnonzero(labels == place) for place in np.unique(labels))
    drawn = [rng.choice(rows, size=how_many(len(rows)), replace=False) for rows in classes]
    return np.sort(np.concatenate(drawn))
