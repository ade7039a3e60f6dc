"""Rows drawn class by class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


def drawn_by_class(
    labels: NDArray[np.int64], how_many: int | Callable[[int], int], *, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Positions of rows of each class, in order: so many of each, or what a function says of a class's size.

    >>> drawn_by_class(np.array([0, 0, 1, 1, 1]), 1, rng=np.random.default_rng(0)).size
    2
    """
    count = how_many if callable(how_many) else lambda _: how_many
    classes = (np.flatnonzero(labels == place) for place in np.unique(labels))
    drawn = [rng.choice(rows, size=count(len(rows)), replace=False) for rows in classes]
    return np.sort(np.concatenate(drawn))
