"""The similarity sums from their definition, in Python integers: slow, and what every backend is held to.

No array arithmetic, no blocks and no floats: a reader can check it against the formula line by line, and the
tests compare every backend with it by ==.
"""

from __future__ import annotations

from collections.abc import Sequence


def class_similarity_reference(
    private_rows: Sequence[Sequence[int]],
    labels: Sequence[int],
    classes: int,
    public_rows: Sequence[Sequence[int]],
    low: int,
    high: int,
    *,
    one: int,
    weights: Sequence[int] | None = None,
) -> list[list[int]]:
    """For each public row and class, Σ over the class of clip(one + dot, low, high) − low.

    >>> class_similarity_reference([[3, 4], [0, 5]], [0, 1], 2, [[5, 0]], low=0, high=40, one=25)
    [[40, 25]]

    Args:
        private_rows: integer rows.
        labels: class of each private row.
        classes: number of declared classes.
        public_rows: integer rows.
        low: smallest value of one + dot that counts.
        high: largest value that counts.
        one: squared grid norm.
        weights: how many times each private row counts; once if not given.
    """
    times = [1] * len(private_rows) if weights is None else [int(weight) for weight in weights]
    private = [[int(value) for value in row] for row in private_rows]
    result = []
    for candidate in public_rows:
        p = [int(value) for value in candidate]
        sums = [0] * classes
        for x, label, weight in zip(private, labels, times, strict=True):
            similarity = one + sum(a * b for a, b in zip(x, p, strict=True))
            sums[label] += weight * (min(max(similarity, low), high) - low)
        result.append(sums)
    return result
