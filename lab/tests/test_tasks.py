import dataclasses

import numpy as np
import pytest

from dptransfer.data import long_tail_counts
from dptransfer.errors import DataError
from dptransfer_lab.cells import cells_of
from dptransfer_lab.sources import stored_arrays
from dptransfer_lab.study import parse_study
from dptransfer_lab.tasks import task_of

from .samples import PEOPLE


class Tasks:
    def __init__(self, stored):
        self.data, self.pool = stored["data", "toy", "made"], stored["pool", "pool", "made"]

    def task(self, key):
        return task_of(key, self.data, None if key.pool is None else self.pool)


@pytest.fixture
def bench(toy, small):
    stored = stored_arrays(small, [toy])
    return Tasks(stored), cells_of(small, stored)[0].task


def row_set(rows):
    return {row.tobytes() for row in np.ascontiguousarray(rows)}


def test_the_long_tail_is_the_one_asked_for(bench):
    tasks, key = bench
    for seed in range(3):
        task = tasks.task(dataclasses.replace(key, imbalance=4.0, seed=seed))
        assert sorted(task.sizes, reverse=True) == long_tail_counts(60, 4, 4).tolist()
        assert len(task.rows) == len(task.labels) == sum(task.sizes)
    orders = {
        tuple(np.argsort(tasks.task(dataclasses.replace(key, imbalance=4.0, seed=s)).sizes)) for s in range(8)
    }
    assert len(orders) > 1  # the seed shuffles the classes
    assert np.bincount(task.test_labels).tolist() == [30] * 4  # the test set stays whole


def test_shots_leave_the_training_rows_and_join_the_pool(bench):
    tasks, key = bench
    plain = tasks.task(dataclasses.replace(key, imbalance=0.0))
    assert plain.sizes == (60,) * 4
    task = tasks.task(dataclasses.replace(key, imbalance=0.0, shots=5))
    assert task.sizes == (55,) * 4
    shots = task.public.shots
    assert np.bincount(shots.labels).tolist() == [5] * 4
    assert not row_set(shots.rows) & row_set(task.rows)
    assert row_set(shots.rows) | row_set(task.rows) == row_set(plain.rows)
    assert len(task.public) == 200
    assert plain.public.shots is None


def test_cuts_are_as_large_as_asked(bench):
    tasks, key = bench
    cut = dataclasses.replace(key, imbalance=0.0, rows=30, classes=3, pool_rows=40, dimension=5)
    task = tasks.task(cut)
    assert task.rows.shape == (30, 5)
    assert len(task.classes) == 3
    assert set(task.labels) <= {0, 1, 2}
    assert (len(task.public), task.public.dimension) == (40, 5)
    assert task.test_rows.shape == (90, 5)
    for name in ("rows", "classes", "pool_rows", "dimension"):
        with pytest.raises(DataError, match=f"{name} = 9999"):
            tasks.task(dataclasses.replace(key, **{name: 9999}))
    with pytest.raises(DataError, match="shots"):
        tasks.task(dataclasses.replace(key, shots=60))


def test_a_class_keeps_its_name_when_classes_are_cut(bench):
    tasks, key = bench
    whole, task = (tasks.task(dataclasses.replace(key, imbalance=0.0, **cut)) for cut in ({}, {"classes": 2}))
    named = {row.tobytes(): whole.classes[label] for row, label in zip(whole.rows, whole.labels, strict=True)}
    assert {named[row.tobytes()] for row in task.rows[task.labels == 0]} == {task.classes[0]}


def test_the_attack_compares_equally_many_of_each_class(bench):
    tasks, key = bench
    for ratio in (0.0, 1.0, 4.0):
        task = tasks.task(dataclasses.replace(key, imbalance=ratio))
        inside, outside = task.labels[task.members], task.others[1]
        assert np.bincount(inside).tolist() == np.bincount(outside).tolist()
        assert len(set(task.members)) == len(task.members) > 0
        assert not row_set(task.others[0]) & row_set(task.rows)


def test_what_is_declared_is_what_was_asked_for(bench):
    tasks, key = bench
    task = tasks.task(dataclasses.replace(key, imbalance=4.0))
    assert task.private("nothing").facts.size is None
    with pytest.raises(DataError, match="people = "):
        task.private("nothing", "person")
    assert task.private("size").facts.size == len(task.rows)
    facts = task.private("class_counts").facts
    assert facts.class_counts == task.sizes


def test_rows_are_memory_mapped_and_shared_between_tasks(bench):
    tasks, key = bench
    first, second = (tasks.task(dataclasses.replace(key, imbalance=0.0, seed=seed)) for seed in (1, 2))
    assert isinstance(first.rows, np.memmap)
    assert first.rows is second.rows
    assert first.public is second.public


@pytest.fixture
def with_people(toy):
    study = parse_study(PEOPLE)
    stored = stored_arrays(study, [toy])
    arrays = stored["data", "toy", "made"].open()
    whose = {row.tobytes(): person for row, person in zip(arrays["rows"], arrays["people"], strict=True)}
    return Tasks(stored), cells_of(study, stored)[0].task, whose


def same_people(numbers, expected):
    """Whether two lists number the same persons, each in its own way."""
    pairs = set(zip(numbers, expected, strict=True))
    return len(pairs) == len(set(numbers)) == len(set(expected))


@pytest.mark.parametrize(
    "cut",
    [{}, {"rows": 50}, {"classes": 3}, {"shots": 2, "imbalance": 2.0}],
)
def test_people_stay_with_their_rows_through_every_cut(with_people, cut):
    tasks, key, whose = with_people
    task = tasks.task(dataclasses.replace(key, **cut))
    assert same_people(task.people, [whose[row.tobytes()] for row in task.rows])
    assert task.people.dtype == np.int64
    assert len(task.rows_by_person) == task.people.max() + 1
    assert task.rows_by_person.min() >= 1


def test_who_gave_a_shot_has_no_private_row(with_people):
    tasks, key, whose = with_people
    task = tasks.task(dataclasses.replace(key, shots=3))
    public = {whose[row.tobytes()] for row in task.public.shots.rows}
    assert not public & {whose[row.tobytes()] for row in task.rows}


def test_the_attack_compares_with_nobody_who_was_fitted_on(with_people):
    tasks, key, whose = with_people
    task = tasks.task(dataclasses.replace(key, rows=50))
    fitted = {whose[row.tobytes()] for row in task.rows}
    others = [whose.get(row.tobytes(), f"test {place}") for place, row in enumerate(task.others[0])]
    assert not fitted & set(others)
    assert len(task.other_people) == len(others)


def test_people_are_handed_over_where_they_are_protected(with_people):
    tasks, key, _ = with_people
    task = tasks.task(key)
    assert task.private("size").people is None
    private = task.private("nothing", "person", 2.0)
    assert same_people(private.people, task.people)
    assert (private.facts.person_bound, private.facts.rows_per_person) == (2.0, None)
    assert task.private("size", "person").facts.rows_per_person == 6.0
    assert task.private("size", "group").people is None
