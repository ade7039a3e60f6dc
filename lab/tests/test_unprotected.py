from dataclasses import replace

import numpy as np
import pytest

from dptransfer.privacy import Budget
from dptransfer_lab.tasks import Task
from dptransfer_lab.unprotected import Paragon, Unprotected, nearest, unit_rows

from .test_as_published import CLASSES, task


def test_rows_have_unit_norm_and_zeros_stay():
    assert unit_rows([[3.0, 4.0], [0.0, 0.0]]) == pytest.approx(np.array([[0.6, 0.8], [0.0, 0.0]]))


def test_the_nearest_prototype_wins_by_direction():
    model = nearest(np.array([[10.0, 0], [0, 0.1]]), "note")
    assert model.scores([[1.0, 0.9], [0.9, 1.0]]).argmax(axis=1).tolist() == [0, 1]
    assert model.note == "note"
    assert Unprotected(np.eye(2), np.array([0.0, 10.0])).scores([[3.0, 4.0]])[0] == pytest.approx([0.6, 10.8])


__all__ = ["task"]


def fitted(task):
    return Paragon().fit(task, Budget(epsilon=1.0, delta=1e-5), np.random.default_rng(0))


def small(rows, labels):
    return Task(np.asarray(rows), np.asarray(labels), CLASSES, np.zeros((0, 3)), np.zeros(0))


def test_the_paragon_learns_from_shots_too(task):
    shots = -5 * np.eye(3, 12), np.arange(3)
    assert not np.allclose(fitted(task).weights, fitted(replace(task, shots=shots)).weights)


def test_the_paragon_never_names_a_class_that_no_row_has():
    one = fitted(small(np.ones((3, 3)), [1, 1, 1]))
    assert set(one.scores(np.eye(3)).argmax(axis=1)) == {1}
    two = fitted(small([[1.0, 0, 0], [0, 1.0, 0]], [0, 2]))
    assert two.scores([[1.0, 0, 0], [0, 1.0, 0]]).argmax(axis=1).tolist() == [0, 2]
