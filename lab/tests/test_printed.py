import math

import numpy as np
import pytest
from scipy.special import comb, ndtr

from dptransfer.errors import BudgetError
from dptransfer.privacy import Budget
from dptransfer_lab.as_published import (
    epsilon_delta,
    printed_log_weights,
    printed_mean_deviation,
    printed_steps,
    printed_theorem_noise,
    rho_of_budget,
    script_epsilon,
    selection_epsilon,
)


def test_the_printed_theorem_is_met_and_nothing_smaller_meets_it():
    for epsilon in (0.1, 1.0, 4.0):

        def left(sigma, epsilon=epsilon):
            near, far = 1 / (2 * sigma), sigma * epsilon / 2
            return ndtr(near - far) - math.exp(epsilon) * ndtr(-near - far)

        sigma = printed_theorem_noise(epsilon, 1e-5)
        assert left(sigma) <= 0.5e-5 * (1 + 1e-6)
        assert left(0.99 * sigma) > 0.5e-5
    assert printed_theorem_noise(1.0, 1e-5) == pytest.approx(1.23, abs=0.005)


@pytest.mark.parametrize(("from_zero", "first"), [(False, 1), (True, 0)])
def test_the_printed_weights_are_binomials(from_zero, first):
    found = np.exp(printed_log_weights(9, 3, from_zero=from_zero))
    assert found == pytest.approx([comb(y, 3) for y in range(first, first + 9)])


def test_the_printed_deviation_shrinks_with_the_class():
    assert printed_mean_deviation(0.5, np.array([1, 10])) == pytest.approx([2.0, 0.2])


def test_the_printed_steps_are_the_most_that_fit_the_printed_formula():
    for rho in (0.01, 0.0359, 1.0):
        steps = printed_steps(rho, 20.0)
        assert steps**2 / (2 * 400) <= rho < (steps + 1) ** 2 / (2 * 400)


def test_budgets_are_converted_by_exact_curves():
    rho = rho_of_budget(Budget(epsilon=1.99, delta=1e-5))
    assert rho == pytest.approx(0.125, rel=0.01)
    assert rho_of_budget(Budget.zcdp(0.3)) == 0.3
    assert rho_of_budget(Budget.gdp(2.0)) == 2.0
    assert epsilon_delta(Budget.zcdp(0.125))[0] == pytest.approx(1.99, abs=0.01)
    assert selection_epsilon(Budget.zcdp(0.5)) == pytest.approx(2.0)
    assert selection_epsilon(Budget.pure(3.0)) == 3.0
    for refused in (rho_of_budget, epsilon_delta):
        with pytest.raises(BudgetError, match="pure"):
            refused(Budget.pure(1.0))


def test_the_script_doubles_a_pure_epsilon_and_keeps_a_rho():
    assert script_epsilon(Budget.pure(0.7)) == pytest.approx(1.4)
    assert script_epsilon(Budget(epsilon=0.7, delta=1e-5)) == pytest.approx(1.4)
    assert script_epsilon(Budget.zcdp(0.5)) == selection_epsilon(Budget.zcdp(0.5))
