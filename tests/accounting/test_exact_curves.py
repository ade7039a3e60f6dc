import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from dptransfer.accounting import (
    delta_of_mu,
    epsilon_of_mu,
    mu_for,
    mu_with_slack,
    selection_delta,
    selection_rho,
)
from dptransfer.accounting.exact_curves import deltas_of_mu
from dptransfer.errors import ArgumentError

checked = settings(max_examples=80, deadline=None, derandomize=True)

mus = st.floats(-6, 3).map(lambda power: 10.0**power)

bad_numbers = [math.nan, -1.0, 5e-324, math.inf, "1", True]

# Computed with mpmath, 60 digits, from the formula of the module's docstring.
GOLDEN = [
    (1.0, 1.0, 0.12693673750664395),
    (0.25, 1.0, 2.9242721048564073e-6),
    (1.0, 20.0, 2.6647067053654977e-86),
    (1e-6, 4e-6, 7.145272722936009e-12),
    (1e3, 5e5, 0.49960105811853965),
    (1e3, 1e4, 1.0),
    (50.0, 3000.0, 6.6139881001728466e-269),
    (0.1, 3.0, 7.3048061017546759e-200),
]


@pytest.mark.parametrize(("mu", "epsilon", "truth"), GOLDEN)
def test_delta_is_the_exact_one_rounded_up_by_less_than_a_millionth(mu, epsilon, truth):
    delta = delta_of_mu(mu, epsilon)
    assert truth <= delta <= truth * (1 + 1e-6)
    assert delta_of_mu(mu * 1.001, epsilon) > delta or truth == 1.0  # and a wrong mu would be seen


@pytest.mark.parametrize(
    ("epsilon", "z"), [(0.1, 30.7496), (0.5, 7.0318), (1.0, 3.73063), (2.0, 1.99381), (8.0, 0.600229)]
)
def test_the_known_noise_multipliers_at_delta_1e_5(epsilon, z):
    assert 1 / mu_for(epsilon, 1e-5) == pytest.approx(z, rel=1e-5)


def test_delta_agrees_with_dp_accounting():
    from dp_accounting.pld import privacy_loss_distribution as pld

    curve = pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-4)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        assert curve.get_delta_for_epsilon(epsilon) == pytest.approx(delta_of_mu(0.5, epsilon), rel=1e-4)
        assert curve.get_delta_for_epsilon(epsilon) != pytest.approx(delta_of_mu(0.505, epsilon), rel=1e-4)


@given(mu=mus, position=st.floats(0, 30))
@checked
def test_delta_is_never_below_the_textbook_formula_in_log_space(mu, position):
    epsilon = mu * mu / 2 + mu * position
    head, tail = (float(log_ndtr(mu / 2 - epsilon / mu)), epsilon + float(log_ndtr(-mu / 2 - epsilon / mu)))
    noise = 1e-15 * (abs(head) + abs(tail) + epsilon + 1)  # the formula's own error, before it cancels
    textbook = head + math.log(max(-math.expm1(tail - head) - 2 * noise, 1e-300)) - noise
    assert math.log(delta_of_mu(mu, epsilon)) >= max(textbook, math.log(sys.float_info.min))


@given(mu=mus, low=st.floats(0, 1e4), high=st.floats(0, 1e4))
@checked
def test_delta_falls_with_epsilon_and_rises_with_mu(mu, low, high):
    low, high = sorted((low, high))
    low, high = (0.0 if low < 1e-300 else low), (0.0 if high < 1e-300 else high)
    assert delta_of_mu(mu, high) <= delta_of_mu(mu, low) * (1 + 1e-6)
    assert delta_of_mu(mu, low) <= delta_of_mu(mu * 1.01, low) * (1 + 1e-6)


@given(mu=mus, log_delta=st.floats(-650, -0.1))
@checked
def test_epsilon_was_checked_and_a_smaller_one_would_not_do(mu, log_delta):
    delta = math.exp(log_delta)
    epsilon = epsilon_of_mu(mu, delta)
    assert delta_of_mu(mu, epsilon) <= delta
    if epsilon > 0:
        assert delta_of_mu(mu, epsilon * (1 - 1e-6)) > delta


@given(epsilon=st.floats(1e-6, 1e4), log_delta=st.floats(-600, -0.1))
@checked
def test_mu_for_was_checked_and_a_larger_one_would_not_do(epsilon, log_delta):
    delta = math.exp(log_delta)
    mu = mu_for(epsilon, delta)
    assert delta_of_mu(mu, epsilon) <= delta < delta_of_mu(mu * (1 + 1e-6), epsilon)


def test_gaussian_noise_is_never_claimed_to_be_pure():
    assert delta_of_mu(1e-6, 1e4) == sys.float_info.min
    assert epsilon_of_mu(1e-6, 0.0) == math.inf
    for epsilon, delta, said in ((1.0, 0.0, "delta > 0"), (0.0, 3e-308, "too small")):
        with pytest.raises(ArgumentError, match=said):
            mu_for(epsilon, delta)


def test_negative_epsilons_continue_the_curve_as_an_integral_says():
    x = np.linspace(-12, 13, 400_001)
    p, q = np.exp(-((x - 1) ** 2) / 2), np.exp(-(x**2) / 2)
    for epsilon in (-2.0, -0.5, 0.5):
        area = np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0]) / math.sqrt(2 * math.pi)
        assert deltas_of_mu(1.0, np.array([epsilon]))[0] == pytest.approx(area, rel=1e-6)
        assert deltas_of_mu(1.01, np.array([epsilon]))[0] != pytest.approx(area, rel=1e-6)


@pytest.mark.parametrize("bad", bad_numbers)
def test_numbers_that_are_not_numbers_are_refused(bad):
    for call in (
        lambda: delta_of_mu(bad, 1.0),
        lambda: delta_of_mu(1.0, bad),
        lambda: epsilon_of_mu(bad, 1e-5),
        lambda: epsilon_of_mu(1.0, bad),
        lambda: mu_for(bad, 1e-5),
        lambda: mu_for(1.0, bad),
        lambda: mu_with_slack(1.0, bad),
        lambda: selection_delta(bad, True, 0.0),
        lambda: selection_delta(1.0, True, bad),
        lambda: selection_rho(bad, True),
    ):
        with pytest.raises(ArgumentError):
            call()
    assert selection_delta(1e4, True, 0.0) == pytest.approx(1.0)  # while large ones do not overflow


@given(mu=st.floats(0.01, 8), log_slack=st.floats(-20, -1))
@checked
def test_slack_is_covered_by_the_raised_mu_everywhere_on_the_curve(mu, log_slack):
    slack = math.exp(log_slack)
    raised = mu_with_slack(mu, slack)
    epsilons = np.linspace(0, mu * mu / 2 + 6 * mu, 60)
    needed = np.minimum(math.exp(slack) * deltas_of_mu(mu, epsilons - slack), 1.0)
    assert np.all(needed <= deltas_of_mu(raised, epsilons) * (1 + 1e-9))


def test_slack_needs_most_of_what_it_is_given():
    slack = 0.01
    raised = mu_with_slack(1.0, slack)
    almost = 1.0 + 0.95 * (raised - 1.0)
    assert math.exp(slack) * deltas_of_mu(1.0, np.array([-slack]))[0] > delta_of_mu(almost, 0.0)


def test_slack_that_no_mu_covers_gives_infinity():
    for mu, slack in ((100.0, 1e-3), (8.707211650398786, 5.039e-6), (2.45, 0.0905), (0.3969, 0.36185)):
        assert mu_with_slack(mu, slack) == math.inf  # some of them climb for a long time
    assert mu_with_slack(1e-9, 1e-6) < 1e-5  # while tiny mu are handled


@pytest.mark.parametrize("mu", [3e-308, 1e-300, 1e-160])
def test_a_tiny_mu_and_a_large_epsilon_do_not_overflow(mu):
    assert delta_of_mu(mu, 1e3) == sys.float_info.min
    assert delta_of_mu(mu, 0.0) >= mu * 0.39
    assert epsilon_of_mu(1 / mu, 1e-5) == math.inf


def two_point_delta(eta, t, epsilon):
    """δ of the loss t with its forced probability, else t − η: the family that is maximised over t."""
    chance = (np.exp(eta) - np.exp(t)) / np.expm1(eta)
    return chance * np.maximum(0, -np.expm1(epsilon - t))


@given(eta=st.floats(0.01, 20), share=st.floats(0, 1))
@checked
def test_bounded_range_is_the_worst_of_all_two_point_losses(eta, share):
    epsilon = share * eta if share * eta > 1e-300 else 0.0
    worst = two_point_delta(eta, np.linspace(0, eta, 20_001), epsilon).max()
    closed = selection_delta(eta, True, epsilon)
    assert worst <= closed * (1 + 1e-9) + 1e-15
    assert worst >= 0.999 * closed or closed < 1e-9  # and the worst case is reached


def test_no_pair_of_bounded_range_beats_the_closed_form():
    rng = np.random.default_rng(5)
    reached = 0.0
    for _ in range(300):
        eta, size = rng.uniform(0.1, 3), rng.integers(2, 6)
        q = rng.dirichlet(np.ones(size))
        p = q * np.exp(rng.uniform(0, 1, size) ** rng.choice([0.1, 1]) * eta)  # losses within η of each other
        p /= p.sum()
        for epsilon in (0.0, eta / 4, eta / 2):
            delta = np.maximum(p - math.exp(epsilon) * q, 0).sum()
            assert delta <= selection_delta(eta, True, epsilon) + 1e-12
            reached = max(reached, delta / selection_delta(eta, True, epsilon))
    assert reached > 0.8


def test_pure_selection_is_randomised_response():
    p, q = np.array([math.e, 1]) / (1 + math.e), np.array([1, math.e]) / (1 + math.e)
    for epsilon in (0.0, 0.3, 0.9):
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        assert selection_delta(1.0, False, epsilon) == pytest.approx(exact, rel=1e-12)
        assert selection_delta(1.0, True, epsilon) < 0.6 * exact


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 8.0])
def test_rho_covers_every_divergence_of_the_worst_pair_and_is_reached_by_small_steps(bounded, epsilon):
    if bounded:  # an interval of losses of length ε, by the worst place of it
        places = np.linspace(0.01, 0.99, 99) * epsilon
        p = (np.exp(epsilon) - np.exp(places)) / np.expm1(epsilon)  # mass under P of that loss
        q = p * np.exp(-places)
    else:
        p = np.array([1 / (1 + math.exp(-epsilon))])
        q = 1 - p
    reached = 0.0
    for order in (1.01, 1.5, 2.0, 8.0, 30.0):
        with np.errstate(divide="ignore"):
            moment = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
        reached = max(reached, float((np.log(moment) / (order - 1) / order).max()))
    rho = selection_rho(epsilon, bounded)
    assert reached <= rho * (1 + 1e-6)
    assert epsilon > 0.1 or reached >= 0.999 * rho
