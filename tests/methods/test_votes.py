"""A method that votes goes through the spine, from plan to prediction."""

import numpy as np
import pytest
from hypothesis import given

import dptransfer as dpt
from contracts.rows import steady
from dptransfer.errors import ArgumentError, BudgetExceeded
from dptransfer.ledger import Ledger
from dptransfer.privacy import Budget, Relation
from queries.neighbours import CLASSES, MAPS, POOL, data_sets, examples, reach, stays_within

from .samples import Repeatable, clusters, pool, private, released
from .votes import VoteCounts, Votes

BUDGET = Budget(epsilon=6.0, delta=1e-5)


def fitted(method, data, public=None, **given):
    return method.fit(
        data, public, budget=BUDGET, **{"ledger": Ledger.in_memory(), "noise": Repeatable(2)} | given
    )


@steady
@given(data=data_sets(), first=examples, second=examples)
def test_votes_stay_within_their_sensitivity(data, first, second):
    query = VoteCounts(MAPS["unit norm"], POOL.rows[:5], CLASSES, teachers=2)
    assert stays_within(query, data, first, second)


def test_votes_reach_their_sensitivity():
    """A lone teacher is turned around on every question by one row."""
    query = VoteCounts(MAPS["unit norm"], np.abs(POOL.rows[:5]), CLASSES, teachers=1)
    assert reach(query, ([1.0, 1.0, 1.0], 2), ([1.0, 1.0, 1.0], 2), Relation.ADD_REMOVE) >= 0.99


def test_a_vote_is_planned_charged_released_and_predicts(tmp_path):
    voted = fitted(Votes(), private(), pool())
    plan = Votes().plan(private().facts, BUDGET, pool())
    assert voted.events == plan.events
    loaded = dpt.load(released(voted, tmp_path))
    x, y = clusters(300, seed=9)
    assert loaded.score(x, y) > 0.9
    assert (loaded.scores(x) == voted.scores(x)).all()


def test_votes_cost_what_was_charged_and_a_spent_budget_refuses_more():
    ledger = Ledger.in_memory()
    ledger.set_budget("samples", BUDGET)
    model = fitted(Votes(), private(), pool(), ledger=ledger)
    charge = ledger.history("samples")[1]
    assert (charge.events, charge.label, charge.outcome) == (model.events, "votes", "released")
    with pytest.raises(BudgetExceeded):
        fitted(Votes(), private(), pool(), ledger=ledger)
    with pytest.raises(ArgumentError, match="needs public rows"):
        fitted(Votes(), private())
