"""Votes of the nearest private rows: against their definition, and how far one unit moves them."""

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer.methods import PrivateKNN
from dptransfer.methods.votes.nearest import nearest_votes
from dptransfer.privacy import Budget, Unit
from methods.samples import Repeatable, check_record, clusters, pool, private, released

CLASSES, K = 3, 4
RNG = np.random.default_rng(0)
QUESTIONS = RNG.integers(-3, 4, (30, 2))  # so small that many products are equal


def data(rows, seed=1):
    rng = np.random.default_rng(seed)
    return rng.integers(-3, 4, (rows, 2)), rng.integers(0, CLASSES, rows), rng.integers(0, 6, rows)


def by_hand(x, y, people, question):
    """Nearest first; of equals the class with the larger number; of each person one."""
    order = sorted(range(len(x)), key=lambda row: (x[row] @ question, y[row]), reverse=True)
    first = {people[row]: y[row] for row in reversed(order)}
    nearest = sorted(first, key=lambda one: [people[row] for row in order].index(one))[:K]
    return np.bincount([first[one] for one in nearest], minlength=CLASSES)


@pytest.mark.parametrize("count", [0, 3, 40])
@pytest.mark.parametrize("by_person", [False, True])
def test_votes_are_those_of_the_definition_whatever_the_order_of_rows(count, by_person):
    x, y, people = data(count)
    people = people if by_person else np.arange(count)
    wanted = [by_hand(x, y, people, question).tolist() for question in QUESTIONS]
    turned = np.random.default_rng(5).permutation(count)
    for order in (np.arange(count), turned):
        whose = people[order] if by_person else None
        assert nearest_votes(x[order], y[order], whose, QUESTIONS, K, CLASSES).tolist() == wanted


@pytest.mark.parametrize("by_person", [False, True])
def test_one_unit_more_or_another_one_moves_a_vote_of_each_question_at_most(by_person):
    largest = 0.0
    for seed in range(20):
        x, y, people = data(12, seed)
        whose = people if by_person else np.arange(12)

        def votes(kept, x=x, y=y, whose=whose):
            return nearest_votes(x[kept], y[kept], whose[kept] if by_person else None, QUESTIONS, K, CLASSES)

        without, swapped = whose != whose[0], whose != whose[1]
        for one, other in ((np.full(12, True), without), (without, swapped)):
            moved = votes(one) - votes(other)
            assert np.abs(moved).sum(axis=1).max() <= 2
            largest = max(largest, float(np.linalg.norm(moved)))
    assert largest > 0.5 * np.sqrt(2 * len(QUESTIONS))


@pytest.mark.parametrize("people", [None, np.repeat(np.arange(200), 3)])
@pytest.mark.parametrize("settings", [{}, {"threshold": 20.0, "teachers": 30}], ids=str)
def test_a_student_learns_from_the_nearest_and_the_release_is_verified(people, settings, tmp_path):
    declared = {} if people is None else {"people": people, "rows_per_person": 3.0}
    model = PrivateKNN(**settings).fit(
        private(size=600, **declared),
        pool(),
        budget=Budget(epsilon=6.0, delta=1e-5),
        ledger=dpt.Ledger.in_memory(),
        noise=Repeatable(2),
    )
    assert model.guarantee.unit is (Unit.ROW if people is None else Unit.PERSON)
    assert check_record(model).passed
    assert dpt.load(released(model, tmp_path)).score(*clusters(300, seed=9)) > 0.9
