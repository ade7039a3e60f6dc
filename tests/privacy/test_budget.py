import json
import math

import numpy as np
import pytest

from dptransfer.errors import BudgetError
from dptransfer.privacy import Budget, Relation

ALL = [
    Budget.pure(1.0),
    Budget(epsilon=1.0, delta=1e-5),
    Budget.zcdp(0.5, delta=1e-6),
    Budget.gdp(1.5, relation=Relation.REPLACE_ONE),
]


def test_every_flavour_is_named_and_printed_with_its_relation():
    assert [budget.flavour for budget in ALL] == ["pure", "approximate", "zcdp", "gdp"]
    assert str(ALL[0]) == "epsilon = 1, add/remove"
    assert str(ALL[1]) == "epsilon = 1, delta = 1e-5, add/remove"
    assert str(ALL[2]) == "rho = 0.5 zCDP, add/remove"
    assert str(ALL[3]) == "mu = 1.5 GDP, replace-one"


@pytest.mark.parametrize("budget", ALL, ids=str)
def test_a_budget_survives_json(budget):
    assert Budget.from_dict(json.loads(json.dumps(budget.to_dict()))) == budget


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, 5e-324, "1", True])
@pytest.mark.parametrize("amount", ["epsilon", "rho", "mu"])
def test_an_amount_that_is_no_positive_number_is_refused(amount, bad):
    assert Budget(**{amount: 1.0}, delta=1e-5)
    with pytest.raises(BudgetError, match=amount):
        Budget(**{amount: bad}, delta=1e-5)


@pytest.mark.parametrize("bad", [math.nan, -1e-9, 1.0, 2.0, 5e-324, True])
def test_a_delta_that_is_no_probability_is_refused(bad):
    with pytest.raises(BudgetError, match="delta"):
        Budget(epsilon=1.0, delta=bad)


def test_exactly_one_currency_is_given():
    with pytest.raises(BudgetError, match="none of them"):
        Budget(delta=1e-5)
    with pytest.raises(BudgetError, match="epsilon, rho"):
        Budget(epsilon=1.0, rho=0.5, delta=1e-5)
    with pytest.raises(BudgetError, match="relation"):
        Budget(epsilon=1.0, relation="add/remove")


def test_zcdp_and_gdp_need_a_delta_to_quote_epsilon_at():
    for make in (Budget.zcdp, Budget.gdp):
        with pytest.raises(BudgetError, match="delta > 0"):
            make(1.0, delta=0.0)
        assert make(1.0).delta == 1e-5


@pytest.mark.parametrize("missing", ["epsilon", "delta", "rho", "mu", "relation"])
def test_a_stored_budget_with_a_missing_field_is_refused(missing):
    fields = Budget(epsilon=1.0, delta=1e-5).to_dict()
    assert Budget.from_dict(fields)
    del fields[missing]
    with pytest.raises(BudgetError, match=f"missing or unknown: {missing}"):
        Budget.from_dict(fields)


@pytest.mark.parametrize(
    "change", [{"sigma": 1.0}, {"relation": "neighbours"}, {"relation": []}, {"delta": "0"}]
)
def test_a_stored_budget_that_says_something_else_is_refused(change):
    with pytest.raises(BudgetError):
        Budget.from_dict({**Budget(epsilon=1.0, delta=1e-5).to_dict(), **change})


def test_numpy_numbers_become_plain_ones():
    budget = Budget(epsilon=np.float32(0.5), delta=np.float64(1e-5))
    assert budget == Budget(epsilon=0.5, delta=1e-5)
    assert Budget.from_dict(json.loads(json.dumps(budget.to_dict()))) == budget
    assert Budget(rho=np.int64(2), delta=1e-5).rho == 2
