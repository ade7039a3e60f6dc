"""Where a network is trained on pictures: by declared facts alone, with the reason, and else not at all."""

from dataclasses import replace

import pytest

from dptransfer.data import Facts
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.methods import FiLM
from dptransfer.methods.auto import AutoOnPictures, _noise, pixels_pay
from dptransfer.methods.method import Task
from dptransfer.methods.prototypes.class_sums import MeanPrototypes
from dptransfer.privacy import Budget, Relation, Unit

FACTS = Facts(tuple(range(10)), shape=(32, 32, 3), size=10_000)
BUDGET = Budget(epsilon=1.0, delta=1e-5)
REPLACE_ONE = replace(BUDGET, relation=Relation.REPLACE_ONE)


# The cells of docs/which-method.md: pictures of each of ten classes, ε, and the side of the border.
@pytest.mark.parametrize(
    ("each", "epsilon", "ahead"),
    [(1000, 1.0, True), (307, 4.0, True), (307, 2.0, False), (307, 1.0, False), (100, 1.0, False)],
)
def test_the_border_runs_between_what_was_measured(each, epsilon, ahead):
    pays, why = pixels_pay(replace(FACTS, size=10 * each), replace(BUDGET, epsilon=epsilon))
    assert pays == ahead
    assert "times the noise of one sum, and 'film' was ahead from about 250 on" in why


@pytest.mark.parametrize(
    ("facts", "budget", "why"),
    [
        (replace(FACTS, size=None), BUDGET, "undeclared size"),
        (replace(FACTS, unit=Unit.PERSON), BUDGET, "has not been tested"),
        (FACTS, Budget(epsilon=8.0), "a pure budget does not allow"),
    ],
)
def test_what_is_not_known_speaks_for_rows_and_is_said(facts, budget, why):
    assert pixels_pay(FACTS, BUDGET)[0]
    pays, said = pixels_pay(facts, budget)
    assert not pays
    assert why in said


def test_declared_class_sizes_are_a_size():
    assert pixels_pay(replace(FACTS, size=None, class_counts=(1000,) * 10), BUDGET)[0]


@pytest.mark.parametrize("budget", [BUDGET, Budget.gdp(0.3), Budget.zcdp(0.05), REPLACE_ONE], ids=str)
def test_noise_is_that_of_a_sum_with_the_whole_budget(budget):
    (mechanism,) = MeanPrototypes(features=UnitNorm()).plan(replace(FACTS, shape=(8,)), budget).mechanisms
    noise = mechanism.noise_multiplier * mechanism.query.l2_sensitivity(budget.relation)
    assert _noise(budget) == pytest.approx(noise, rel=1e-3)


def test_the_plan_is_that_of_film_with_the_reason():
    facts, chooser = replace(FACTS, classes=(0, 1, 2), size=3000), AutoOnPictures(size=32, device="cuda")
    plan = chooser.plan(facts, BUDGET)
    assert plan.method == FiLM(size=32, device="cuda")
    assert plan.events == plan.method.plan(facts, BUDGET).events
    assert plan.notes[0].startswith("Auto chose 'film', which trains on pixels: a class has 268 times")
    with pytest.raises(AssertionError, match="belongs to the method"):
        chooser.run(Task(plan, None, None, None, None))


def test_where_rows_are_to_be_taken_a_plan_on_pixels_is_refused_with_what_to_do():
    with pytest.raises(
        ArgumentError, match=r"would take rows here: a class has .*Encode the pictures.*'film'"
    ):
        AutoOnPictures().plan(replace(FACTS, size=1000), BUDGET)
