import numpy as np
import pytest

from dptransfer.accounting import fits
from dptransfer.audit.instance_loss import InstanceLosses
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.methods.configuration import named_method
from dptransfer.privacy import Budget, Guarantee, Relation, for_group
from dptransfer_lab.cell_privacy import (
    budget_of_one,
    group_epsilon,
    loss_summary,
    losses_by_size,
)

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


def losses(epsilons):
    promise = Guarantee(2.0, 1e-5, Relation.ADD_REMOVE)
    return InstanceLosses(np.array(epsilons), promise)


def test_the_distribution_is_that_of_the_rows():
    found = loss_summary(losses([0.0, 2.0, 1.0, 0.5, 1.5]), np.array([0, 2, 2, 0, 2]), 3)
    assert (found["promised"], found["delta"]) == (2.0, 1e-5)
    assert (found["mean"], found["largest"], found["share_below_half"]) == (1.0, 2.0, 0.4)
    assert [found["percentiles"][place] for place in (0, 25, 50, 75, 100)] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert found["class_rows"] == [2, 0, 3]
    assert found["class_medians"] == [0.25, None, 1.5]


def test_classes_are_grouped_by_size_and_empty_ones_left_out():
    rows, medians = [50, 0, 3, 10, 20, 4], [0.1, None, 0.9, 0.3, 0.2, 0.7]
    found = losses_by_size({"class_rows": rows, "class_medians": medians})
    assert found == pytest.approx([0.8, 0.3, 0.2, 0.1])


@pytest.mark.parametrize("rows", [[5, 5, 5, 5], [1, 2, 3]])
def test_equal_sizes_and_few_classes_make_no_groups(rows):
    assert losses_by_size({"class_rows": rows, "class_medians": [0.5] * len(rows)}) is None
