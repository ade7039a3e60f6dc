"""Many small linear models at once: each learns from its own rows alone, and votes on the same questions.

A teacher is a class-balanced ridge regression toward its classes: W minimises Σ wᵢ·‖eᵢ − W·xᵢ‖² + λ‖W‖²,
where eᵢ is the class of row i, one-hot, and the weights wᵢ, of mean 1, make all classes that it has seen
count alike. By the smaller of two systems: with n rows X in d dimensions, W = (Xᵀ·diag(w)·X +
λ)⁻¹·Xᵀ·diag(w)·E, or equally Xᵀ·(X·Xᵀ + λ·diag(1/w))⁻¹·E. It has no intercept: questions are of another
origin than its rows.

The price of votes rests on this: a ballot is a function of its teacher's rows alone, bit for bit. So nothing
is padded to the longest part, and no product is shared between teachers: each has its own calls, whose shapes
follow from its own rows. Nor does the order of rows matter for that: whoever joins or leaves other teachers
does not change it here.
"""

from __future__ import annotations

import numpy as np

from dptransfer.arrays import AnyArray, Floats, Floats32, Integers, Labels
from dptransfer.compute.cores import usable_cores
from dptransfer.compute.threads import side_by_side
from dptransfer.progress import tell

_NO_VOTE = -1  # `queries.votes.ABSTAINS`
_AT_ONCE = 32  # teachers that one thread is given at a time
RIDGE = 0.5
"""λ, for rows in the unit ball. Chosen on caltech101, gtsrb, hwu64 and news20 with 20 to 1,000 teachers: 0.1
was worse for small parts, and the nearest class mean was worse on gtsrb and alike on the others."""


def linear_ballots(
    rows: Floats32, labels: Labels, teacher: Integers, questions: Floats32, *, teachers: int
) -> AnyArray:
    """(teachers, questions) positions of classes: what each teacher takes each question for.

    A teacher without rows abstains, with −1. A class that it has no row of gets no vote from it; of classes
    with equal scores the first does.

    >>> x = np.array([[1, 0], [0, 1]], dtype=np.float32)
    >>> linear_ballots(x, np.array([2, 0]), np.array([1, 1]), x, teachers=2).tolist()
    [[-1, -1], [2, 0]]

    Args:
        rows: (examples, dimension) private rows in the unit ball.
        labels: their classes, as positions.
        teacher: who learns from each.
        questions: (questions, dimension) public rows.
        teachers: how many there are.
    """
    order = np.argsort(teacher, kind="stable")
    ends = np.searchsorted(teacher[order], np.arange(teachers + 1))

    def cast(first: int) -> AnyArray:
        several = range(first, min(first + _AT_ONCE, teachers))
        parts = (order[ends[one] : ends[one + 1]] for one in several)
        return np.stack([_ballot(rows[own], labels[own], questions) for own in parts])

    found: list[AnyArray] = []
    for some in side_by_side(cast, range(0, teachers, _AT_ONCE), usable_cores()):
        found.append(some)
        tell(min(len(found) * _AT_ONCE, teachers), teachers, "teacher")
    return np.concatenate(found)


def _ballot(rows: Floats32, labels: Labels, questions: Floats32) -> AnyArray:
    """What one teacher votes, from its own rows."""
    seen = np.unique(labels)
    if len(seen) < 2:  # it knows one answer, or none
        return np.full(len(questions), seen[0] if len(seen) else _NO_VOTE, dtype=np.int32)
    scores = questions @ _ridge(rows.astype(np.float64), np.searchsorted(seen, labels)).astype(np.float32)
    ballot: AnyArray = seen.astype(np.int32)[scores.argmax(axis=1)]
    return ballot


def _ridge(rows: Floats, classes: Labels) -> Floats:
    """(dimension, classes) columns of W."""
    counts = np.bincount(classes)
    weights = (len(rows) / (len(counts) * counts))[classes]
    targets = np.eye(len(counts))[classes]
    if len(rows) <= rows.shape[1]:
        return rows.T @ np.linalg.solve(rows @ rows.T + np.diag(RIDGE / weights), targets)
    weighted = rows * weights[:, None]
    second = weighted.T @ rows + RIDGE * np.eye(rows.shape[1])
    return np.asarray(np.linalg.solve(second, weighted.T @ targets), dtype=np.float64)
