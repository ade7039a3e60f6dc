"""What could be had without privacy, and without private data: the two lines to compare with.

The probe on private rows is unprotected and follows every row it saw. It is there to be compared with, on
pictures that are public in truth, and never saved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dptransfer.arrays import AnyArray, Floats, Integers
from dptransfer.release import Evaluation


@dataclass(frozen=True)
class Result:
    """How one classifier did on the test pictures.

    Attributes:
        name: the classifier in a few words.
        promise: what it promises to the private pictures, in a few words.
        recall: by class.
        small: positions of the smallest quarter of the classes.
    """

    name: str
    promise: str
    recall: tuple[float, ...]
    small: tuple[int, ...]

    @property
    def balanced(self) -> float:
        """Mean recall."""
        return float(np.mean(self.recall))

    @property
    def smallest(self) -> float:
        """Mean recall of the smallest quarter of the classes."""
        return float(np.mean([self.recall[place] for place in self.small]))


def result_of(name: str, promise: str, evaluation: Evaluation) -> Result:
    """A private classifier's evaluation as a line of the comparison; demo test sets have every class."""
    recall = tuple(value for value in evaluation.recall if value is not None)
    assert len(recall) == len(evaluation.classes)
    small = tuple(evaluation.classes.index(name) for name in evaluation.minority_classes)
    return Result(name, promise, recall, small)


def logistic_result(
    name: str,
    promise: str,
    train: tuple[AnyArray, Integers],
    test: tuple[AnyArray, Integers],
    small: tuple[int, ...],
) -> Result:
    """Logistic regression on unit-norm square roots of the embeddings, classes weighted alike."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=100.0, max_iter=1000, class_weight="balanced", tol=1e-3)
    chosen = model.fit(_scaled(train[0]), train[1]).predict(_scaled(test[0]))
    truth = test[1]
    recall = tuple(float((chosen[truth == label] == label).mean()) for label in np.unique(truth))
    return Result(name, promise, recall, small)


def _scaled(rows: AnyArray) -> Floats:
    roots = np.sqrt(np.abs(rows, dtype=np.float64))
    scaled: Floats = roots / np.maximum(
        np.linalg.norm(roots, axis=1, keepdims=True), np.finfo(np.float64).tiny
    )
    return scaled
