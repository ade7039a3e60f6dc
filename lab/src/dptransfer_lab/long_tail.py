"""Draw long-tailed subsets of balanced data sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.base.types import Integers
from dptransfer.data import long_tail_counts
from dptransfer.errors import ArgumentError


def long_tail(
    labels: ArrayLike, ratio: float, *, rng: np.random.Generator, classes: int | Sequence[str | int]
) -> Integers:
    """Indices of an exponentially long-tailed subset, for benchmarks alone: it reads labels freely.

    Which class gets which place in the tail is shuffled by `rng`; the first place gets N examples, N being
    the smallest class size available, so that every ratio uses one N. Examples are drawn without replacement.

    >>> balanced = np.repeat([0, 1, 2], 100)
    >>> kept = long_tail(balanced, 10, rng=np.random.default_rng(0), classes=3)
    >>> sorted(np.bincount(balanced[kept]).tolist())
    [10, 32, 100]

    Args:
        labels: position of each example's class.
        ratio: imbalance ratio, largest class over smallest; 1 gives a balanced subset.
        rng: shuffles the classes and draws the examples.
        classes: the class list, or how many classes there are.

    Returns:
        Sorted indices into `labels`.
    """
    found = np.asarray(labels)
    number = classes if isinstance(classes, int) else len(classes)
    if (
        found.ndim != 1
        or found.dtype.kind not in "iu"
        or (found.size and not 0 <= found.min() <= found.max() < number)
    ):
        raise ArgumentError(f"labels must be class positions from 0 to {number - 1}, in one dimension.")
    sizes = np.bincount(found, minlength=number)
    if sizes.min() == 0:
        raise ArgumentError("A long tail needs at least one example of each class; a class has none.")
    counts = long_tail_counts(int(sizes.min()), ratio, number)
    chosen = [
        rng.choice(np.flatnonzero(found == name), size=count, replace=False)
        for name, count in zip(rng.permutation(number), counts, strict=True)
    ]
    return np.sort(np.concatenate(chosen))
