import numpy as np
import pytest

from dptransfer_lab.tasks import Task
from dptransfer_lab.unprotected import Unprotected, class_sums, nearest, unit_rows


def test_rows_have_unit_norm_and_zeros_stay():
    assert unit_rows([[3.0, 4.0], [0.0, 0.0]]) == pytest.approx(np.array([[0.6, 0.8], [0.0, 0.0]]))


def test_sums_are_of_unit_rows_by_class():
    rows, labels = np.array([[3.0, 0], [0, 4.0], [0, 2.0], [0, 0]]), np.array([0, 1, 1, 1])
    sums, counts = class_sums(Task(rows, labels, ("a", "b"), rows, labels))
    assert sums == pytest.approx(np.array([[1.0, 0.0], [0.0, 2.0]]))
    assert counts.tolist() == [1, 3]


def test_the_nearest_prototype_wins_by_direction():
    model = nearest(np.array([[10.0, 0], [0, 0.1]]), "note")
    assert model.scores([[1.0, 0.9], [0.9, 1.0]]).argmax(axis=1).tolist() == [0, 1]
    assert model.note == "note"


def test_scores_are_linear_with_an_offset():
    model = Unprotected(np.eye(2), np.array([0.0, 10.0]))
    assert model.scores([[3.0, 4.0]])[0] == pytest.approx([0.6, 10.8])
