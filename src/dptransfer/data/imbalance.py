"""Long-tailed subsets of a balanced data set, for benchmarks and demonstrations only.

Reads labels freely and is not private: never use it on data whose labels are secret.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.base import checks
from dptransfer.base.types import Integers
from dptransfer.errors import ArgumentError


def long_tail_counts(largest: int, ratio: float, classes: int) -> Integers:
    """Class sizes n_c = N·IR^(−c/(C−1)), rounded, at least one: from `largest` (N) down to `largest`/`ratio`.

    The exponent runs from 0 to exactly −1, so the last class is IR times smaller than the first. (The
    published code raises to t/C with t = linspace(0, C, C), which is the same: t_c/C = c/(C−1).)

    >>> long_tail_counts(100, 10, 3).tolist()
    [100, 32, 10]

    Args:
        largest: size of the first class, N.
        ratio: imbalance ratio IR, at least 1.
        classes: number of classes, C.
    """
    checks.whole("largest", largest)
    checks.whole("classes", classes)
    if not checks.positive("ratio", ratio) >= 1:
        raise ArgumentError(
            f"ratio must be at least 1, the size of the largest class over the smallest; got {ratio}."
        )
    exponents = np.arange(classes) / max(classes - 1, 1)
    return np.maximum(np.rint(largest * ratio**-exponents), 1).astype(np.int64)


def long_tail(
    labels: ArrayLike, ratio: float, *, rng: np.random.Generator, classes: int | Sequence[str | int]
) -> Integers:
    """Indices of an exponentially long-tailed subset.

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
