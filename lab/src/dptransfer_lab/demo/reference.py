"""What could be had without privacy, and without private data: the two lines to compare with.

The probe on private rows is unprotected and follows every row it saw. It is there to be compared with, on
pictures that are public in truth, and never saved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dptransfer.base.arrays import AnyArray, Floats, Integers
from dptransfer.data import Labelled
from dptransfer.release import Evaluation, evaluate_scores
from dptransfer_lab.demo.sets import DemoSets
from dptransfer_lab.unprotected import unit_rows


@dataclass(frozen=True)
class Result:
    """How one classifier did on the test pictures.

    Attributes:
        name: the classifier in a few words.
        promise: what it promises to the private pictures, in a few words.
        tested: its test; a demo's test pictures are of every class, and its classes differ in size.
    """

    name: str
    promise: str
    tested: Evaluation


def logistic_test(
    train: tuple[AnyArray, Integers], test: tuple[AnyArray, Integers], sets: DemoSets
) -> Evaluation:
    """Logistic regression on unit-norm square roots of the embeddings, classes weighted alike."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=100.0, max_iter=1000, class_weight="balanced", tol=1e-3)
    chosen = model.fit(_scaled(train[0]), train[1]).predict(_scaled(test[0]))
    votes, labels = np.eye(len(sets.classes))[chosen], Labelled(test[1], sets.classes)
    return evaluate_scores(votes, labels, classes=sets.classes, minority_of=sets.sizes)


def _scaled(rows: AnyArray) -> Floats:
    return unit_rows(np.sqrt(np.abs(rows, dtype=np.float64)))
