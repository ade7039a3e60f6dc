import numpy as np
import pytest

from dptransfer.accounting import fits
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.errors import BudgetError
from dptransfer.methods.configuration import named_method
from dptransfer.privacy import Budget, Relation, for_group
from dptransfer_lab.cell_privacy import budget_of_one, group_epsilon

FACTS = Facts(classes=("cat", "dog"), shape=(6,), size=400)
BUDGETS = [
    Budget(epsilon=1.0, delta=1e-5),
    Budget(epsilon=8.0, delta=1e-6, relation=Relation.REPLACE_ONE),
    Budget.zcdp(0.5),
    Budget.gdp(1.0),
]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("size", [2, 40])
def test_a_group_stays_within_the_budget_and_uses_it_up(budget, size):
    method = named_method("mean", {})
    own = budget_of_one(method, FACTS, None, budget, size)
    assert own.flavour == budget.flavour
    events = method.plan(FACTS, own, None).events
    assert fits([for_group(event, size) for event in events], budget)
    assert not fits([for_group(event, size + size // 20 + 1) for event in events], budget)


def test_a_single_row_has_what_is_left_for_it():
    method = named_method("mean", {})
    assert budget_of_one(method, FACTS, None, Budget.zcdp(0.5), 10).amount == pytest.approx(0.005, rel=0.01)
    assert budget_of_one(method, FACTS, None, Budget.gdp(0.5), 10).amount == pytest.approx(0.05, rel=0.01)


@pytest.fixture(scope="module")
def pool():
    return PublicEmbeddings(np.random.default_rng(0).normal(size=(200, 6)))


def test_a_pure_budget_is_divided(pool):
    own = budget_of_one(named_method("public", {}), FACTS, pool, Budget.pure(2.0), 4)
    assert own.amount == pytest.approx(0.5)


@pytest.mark.parametrize(("name", "settings"), [("public", {}), ("dpsgd", {"steps": 3})])
def test_choices_and_samples_take_a_share_that_fits(name, settings, pool):
    method, budget = named_method(name, settings), Budget(epsilon=4.0, delta=1e-5)
    own = budget_of_one(method, FACTS, pool, budget, 6)
    events = method.plan(FACTS, own, pool).events
    assert group_epsilon(events, 1, 1e-5) < group_epsilon(events, 6, 1e-5) <= 4.0 * (1 + 1e-9)


def test_a_group_that_no_share_covers_is_refused(monkeypatch):
    monkeypatch.setattr("dptransfer_lab.cell_privacy.fits", lambda events, budget: False)
    with pytest.raises(BudgetError, match="A group of 6 rows"):
        budget_of_one(named_method("mean", {}), FACTS, None, Budget(epsilon=1.0, delta=1e-5), 6)
