import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import steady
from dptransfer.base.progress import reported_to
from dptransfer.methods.votes import transfer_pate as linear_teachers
from dptransfer.methods.votes.transfer_pate import RIDGE, linear_ballots
from dptransfer.queries.votes import ABSTAINS

CLASSES, WIDTH, TEACHERS = 4, 6, 8


def rows_of(count, seed=0, width=WIDTH):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, width)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True), rng.integers(0, CLASSES, count)


QUESTIONS = rows_of(30, seed=9)[0]


def ballots(x, y, teacher, teachers=TEACHERS, questions=QUESTIONS):
    return linear_ballots(x, y, teacher, questions, teachers=teachers)


def changed(one, other):
    return int((one != other).any(axis=1).sum())


@pytest.mark.parametrize("count", [3, 5, 6, 7, 40])
def test_a_teacher_is_the_balanced_ridge_regression_of_its_rows(count):
    """Fewer rows than dimensions, as many, and more: two ways to the same weights."""
    x, y = rows_of(count, seed=count)
    y[:2] = 0, 1
    seen, classes = np.unique(y, return_inverse=True)
    weights = 1 / np.bincount(classes)[classes]
    weights /= weights.mean()
    x64 = x.astype(np.float64)
    wanted = np.linalg.solve(
        (x64.T * weights) @ x64 + RIDGE * np.eye(WIDTH), (x64.T * weights) @ np.eye(len(seen))[classes]
    )
    assert linear_teachers._ridge(x64, classes) == pytest.approx(wanted)
    voted = seen[(QUESTIONS @ wanted).argmax(axis=1)]
    assert (ballots(x, y, np.zeros(count, dtype=np.int64), teachers=1)[0] == voted).all()


def test_every_class_counts_alike_however_many_rows_it_has():
    """Without weights ninety rows of one class would take the question for themselves."""
    x = np.repeat(np.eye(2, dtype=np.float32), [90, 1], axis=0)
    y = np.repeat([0, 1], [90, 1])
    middle = np.array([[0.6, 0.8]], dtype=np.float32)
    assert ballots(x, y, np.zeros(91, dtype=np.int64), 1, middle).tolist() == [[1]]


def test_who_has_no_rows_abstains_and_who_has_one_class_votes_for_it():
    x, _ = rows_of(2)
    cast = ballots(x, np.array([3, 3]), np.array([1, 1]), teachers=3)
    assert (cast[[0, 2]] == ABSTAINS).all()
    assert (cast[1] == 3).all()
    assert (ballots(x[:0], np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)) == ABSTAINS).all()


def test_a_class_that_a_teacher_has_not_seen_gets_no_vote_of_it():
    x, y = rows_of(60)
    teacher = np.arange(60) % TEACHERS
    for one, cast in enumerate(ballots(x, y, teacher)):
        assert set(cast.tolist()) <= set(y[teacher == one].tolist())


def test_rows_of_zeros_and_one_teacher_with_all_rows_are_no_trouble():
    x, y = rows_of(500)
    x[::3] = 0
    everything = ballots(x, y, np.full(500, 5))
    assert (np.delete(everything, 5, axis=0) == ABSTAINS).all()
    assert len(np.unique(everything[5])) > 1
    assert (ballots(np.zeros_like(x), y, np.full(500, 5))[5] == 0).all()  # of equals the first


people = st.lists(st.integers(0, 11), min_size=1, max_size=40)


@steady
@given(whose=people, seed=st.integers(0, 2**32 - 1))
def test_whoever_comes_or_goes_or_is_replaced_in_place_changes_one_ballot_and_elsewhere_two(whose, seed):
    """Persons with all their rows; the others' draws stay, as `methods.votes.voting` says they may."""
    whose = np.array(whose)
    rng = np.random.default_rng(seed)
    x, y = rows_of(len(whose), seed)
    drawn = rng.integers(0, TEACHERS, 12)
    leaving = whose == whose[0]
    every = ballots(x, y, drawn[whose])
    assert changed(every, ballots(x[~leaving], y[~leaving], drawn[whose][~leaving])) <= 1
    elsewhere = np.where(leaving, rng.integers(0, TEACHERS), drawn[whose])
    others = np.where(leaving[:, None], -x, x)
    assert changed(every, ballots(others, y, drawn[whose])) <= 1
    assert changed(every, ballots(others, y, elsewhere)) <= 2


def test_forty_rows_of_one_person_change_one_ballot_and_parts_of_equal_size_would_change_many():
    x, y = rows_of(440)
    drawn = np.random.default_rng(1).integers(0, TEACHERS, 41)
    whose = np.append(np.arange(400) % 40, np.full(40, 40))
    assert changed(ballots(x, y, drawn[whose]), ballots(x[:400], y[:400], drawn[whose[:400]])) == 1
    by_position = np.sort(np.arange(440) % TEACHERS), np.sort(np.arange(400) % TEACHERS)
    assert changed(ballots(x, y, by_position[0]), ballots(x[:400], y[:400], by_position[1])) > 2
    by_row = np.random.default_rng(2).integers(0, TEACHERS, 440)  # a person's rows with several teachers
    assert changed(ballots(x, y, by_row), ballots(x[:400], y[:400], by_row[:400])) > 2


def test_neither_threads_nor_the_other_teachers_change_a_ballot(monkeypatch):
    x, y = rows_of(3000, width=64)
    teacher, asked = np.random.default_rng(0).integers(0, 200, 3000), rows_of(100, 5, 64)[0]
    cast = ballots(x, y, teacher, 200, asked)
    monkeypatch.setattr(linear_teachers, "usable_cores", lambda: 1)
    assert (ballots(x, y, teacher, 200, asked) == cast).all()
    for one in (0, 7, 199):
        own = teacher == one
        assert (ballots(x[own], y[own], np.zeros(own.sum(), dtype=np.int64), 1, asked)[0] == cast[one]).all()


def test_how_far_it_is_is_told_by_teachers_whatever_rows_they_have():
    x, y = rows_of(50)
    for teacher in (np.zeros(50, dtype=np.int64), np.arange(50)):
        heard = []
        with reported_to(lambda *told, heard=heard: heard.append(told)):
            ballots(x, y, teacher, 70)
        assert heard == [(32, 70, "teacher"), (64, 70, "teacher"), (70, 70, "teacher")]
