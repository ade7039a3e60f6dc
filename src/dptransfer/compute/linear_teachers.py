"""Many small linear models at once: each learns from its own rows alone, and votes on the same questions."""

from __future__ import annotations

import numpy as np

from dptransfer.arrays import Floats, Integers, Labels
from dptransfer.compute.cores import usable_cores
from dptransfer.compute.threads import side_by_side

ABSTAINS = -1


def ballots_of(
    rows: Floats, labels: Labels, teacher: Integers, questions: Floats, *, teachers: int, classes: int
) -> Integers:
    """(teachers, questions) positions of classes: what each teacher takes each question for.

    Args:
        rows: (examples, dimension) mapped private rows.
        labels: their classes.
        teacher: who learns from each.
        questions: (questions, dimension) mapped public rows.
        teachers: how many; one without rows abstains.
        classes: how many; one that a teacher has no row of gets no vote of it.
    """
    order = np.argsort(teacher, kind="stable")
    ends = np.searchsorted(teacher[order], np.arange(teachers + 1))

    def cast(one: int) -> Integers:
        own = order[ends[one] : ends[one + 1]]
        return _ballot(rows[own], labels[own], questions, classes)

    return np.stack(list(side_by_side(cast, range(teachers), usable_cores())))


def _ballot(rows: Floats, labels: Labels, questions: Floats, classes: int) -> Integers:
    """What one teacher votes, from its own rows."""
    if len(rows) == 0:
        return np.full(len(questions), ABSTAINS, dtype=np.int64)
    seen, places = np.unique(labels, return_inverse=True)
    means = np.zeros((len(seen), rows.shape[1]))
    np.add.at(means, places, rows)
    means /= np.bincount(places)[:, None]
    return seen[(questions @ means.T - 0.5 * (means * means).sum(axis=1)).argmax(axis=1)]
