import inspect
import math
import warnings

import pytest

from dptransfer.accounting import budget_warnings as module
from dptransfer.accounting import delta_of_mu, heed
from dptransfer.accounting.budget_warnings import WEAK_DELTA_WARNING, WEAK_EPSILON_WARNING
from dptransfer.errors import BudgetError, PrivacyWarning
from dptransfer.privacy import Budget


def said(budget, size=None):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        heed(budget, size)
    assert all(one.category is PrivacyWarning for one in caught)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize(
    ("budget", "weak"),
    [
        (Budget(epsilon=10.0, delta=1e-5), False),
        (Budget(epsilon=10.0001, delta=1e-5), True),
        (Budget(epsilon=700.0, delta=1e-5), True),
        (Budget.pure(10.0), False),
        (Budget.pure(11.0), True),
        (Budget.zcdp(0.5), False),
        (Budget.zcdp(5.0), True),
        (Budget.gdp(1.0), False),
        (Budget.gdp(4.0), True),
    ],
)
def test_an_epsilon_above_ten_brings_a_warning_in_every_currency(budget, weak):
    assert said(budget) == [WEAK_EPSILON_WARNING] * weak


def test_rho_and_mu_are_judged_by_the_epsilon_they_have_at_their_delta():
    mu = 2.0
    while delta_of_mu(mu, 10.0) < 1e-5:
        mu += 1e-3
    for factor, weak in ((0.998, False), (1.002, True)):
        assert said(Budget.gdp(factor * mu)) == [WEAK_EPSILON_WARNING] * weak
        assert said(Budget.zcdp((factor * mu) ** 2 / 2)) == [WEAK_EPSILON_WARNING] * weak


@pytest.mark.parametrize(
    ("delta", "size", "weak"),
    [
        (1e-5, None, False),
        (1e-3, None, False),
        (1.01e-3, None, True),
        (1e-5, 10_000, False),
        (1e-5, 10_001, True),
        (1e-3, 100, False),
        (5e-3, 10, False),
        (5e-3, None, True),
    ],
)
def test_a_delta_above_a_tenth_of_one_over_the_declared_size_brings_a_warning(delta, size, weak):
    assert said(Budget(epsilon=1.0, delta=delta), size) == [WEAK_DELTA_WARNING] * weak


def test_a_pure_budget_has_no_delta_to_be_warned_of():
    assert said(Budget.pure(1.0), 10**9) == []


@pytest.mark.parametrize(
    "budget",
    [
        Budget(epsilon=700.0001, delta=1e-5),
        Budget(epsilon=1e308, delta=1e-5),
        Budget.pure(1e308),
        Budget.zcdp(1e4),
        Budget.zcdp(1e308),
        Budget.gdp(40.0),
        Budget.gdp(1e308),
    ],
)
def test_an_epsilon_that_bounds_nothing_is_refused(budget):
    with pytest.raises(BudgetError, match="at most 700"):
        heed(budget)


@pytest.mark.parametrize("delta", [0.1, 0.5, 0.999])
def test_a_delta_of_a_tenth_is_refused_whatever_the_size(delta):
    for size in (None, 1):
        with pytest.raises(BudgetError, match=r"delta must be below 0\.1"):
            heed(Budget(epsilon=1.0, delta=delta), size)
    said(Budget(epsilon=1.0, delta=math.nextafter(0.1, 0)))


def test_both_are_said_and_neither_names_a_number_of_the_budget():
    """One text for all budgets, so that a sweep over a hundred of them is one warning each."""
    first, second = said(Budget(epsilon=50.0, delta=0.01)), said(Budget(epsilon=60.0, delta=0.02), 10**6)
    assert first == second == [WEAK_EPSILON_WARNING, WEAK_DELTA_WARNING]


def test_a_warning_points_at_the_line_that_asked_and_is_shown_once_in_a_loop():
    def asks():
        heed(Budget.pure(50.0), stacklevel=2)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(5):
            asks()  # this line
    (shown,) = caught
    assert shown.filename == __file__
    assert inspect.getsource(inspect.getmodule(asks)).splitlines()[shown.lineno - 1].endswith("# this line")


def test_recorded_budgets_that_promise_nothing_can_still_be_read():
    for odd in (Budget(epsilon=1e308, delta=0.5), Budget.gdp(1e6)):
        assert Budget.from_dict(odd.to_dict()) == odd


def test_nothing_but_the_budget_and_a_declared_size_is_asked_for():
    assert list(inspect.signature(module.heed).parameters) == ["budget", "size", "stacklevel"]
