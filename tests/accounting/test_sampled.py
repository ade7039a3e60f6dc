import math
from functools import lru_cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptransfer.accounting import delta_of, delta_of_mu, epsilon_of, mu_of, rho_of
from dptransfer.accounting import sampled as replaced_moments
from dptransfer.accounting.renyi import delta_of_renyi, divergences
from dptransfer.accounting.sampled import (
    SampledGroup,
    _log_moments,
    loss_distribution,
    replaced_log_moments,
    sampled_divergences,
)
from dptransfer.accounting.steps import Steps, mixed_delta
from dptransfer.privacy import BestOfManyEvent, GaussianEvent, Relation, SampledGaussianEvent, SelectionEvent

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE

checked = settings(max_examples=20, deadline=None, derandomize=True)

CASES = [(1.0, 0.01), (0.5, 0.2), (3.0, 0.5), (0.8, 1e-3), (10.0, 0.05)]


def sampled(z, q, times, relation=ADD, **more):
    return SampledGaussianEvent(z, q, times, relation, **more)


def laws(z, q, x, other, points=200_001, reach=2.0):
    """Densities (times the step) of the answers with a row that contributes `x`, and with `other`."""
    t = np.linspace(-12 * z - reach, 12 * z + reach, points)

    def law(shift):
        return np.exp(-((t - shift) ** 2) / (2 * z * z)) / (z * math.sqrt(2 * math.pi)) * (t[1] - t[0])

    return (1 - q) * law(0.0) + q * law(x), (1 - q) * law(0.0) + q * law(other)


def exact_delta(z, q, epsilon, relation, points=200_001):
    """δ of one release by integration over the answer, the worse of both directions."""
    pairs = [(1.0, 0.0), (0.0, 1.0)] if relation is ADD else [(1.0, -1.0)]
    both = [laws(z, q, *pair, points) for pair in pairs]
    return max(float(np.maximum(p - math.exp(epsilon) * other, 0).sum()) for p, other in both)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize(("z", "q"), CASES)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0])
def test_one_release_costs_what_integration_over_the_answer_says(relation, z, q, epsilon):
    exact = exact_delta(z, q, epsilon, relation)
    found = delta_of([sampled(z, q, 1, relation)], epsilon)
    assert exact * (1 - 1e-6) - 1e-13 <= found <= exact * (1 + 2e-3) + 1e-13
    if exact > 1e-9:
        assert delta_of([sampled(z * 1.05, q, 1, relation)], epsilon) < exact  # a smaller loss is told apart


@pytest.mark.parametrize("direction", ["remove", "add", "replace-one"])
def test_two_releases_cost_what_integration_over_both_answers_says(direction):
    z, q, epsilon = 0.8, 0.1, 0.1
    pair = {"remove": (1.0, 0.0), "add": (0.0, 1.0), "replace-one": (1.0, -1.0)}[direction]
    p, other = laws(z, q, *pair, points=3001)
    loss = np.log(p / other)
    gain = np.maximum(1 - np.exp(epsilon - np.add.outer(loss, loss)), 0)
    exact = float(p @ gain @ p)
    both = loss_distribution(SampledGroup(z, q, direction == "replace-one", 2), 1e-3)
    found = {
        "remove": both._pmf_remove, "add": both._pmf_add, "replace-one": both._pmf_remove
    }[direction].get_delta_for_epsilon(epsilon)  # fmt: skip
    assert exact * (1 - 1e-4) <= found <= exact * (1 + 1e-3)


@given(
    z=st.floats(0.4, 5),
    q=st.floats(0.01, 1),
    first=st.floats(-1, 1),
    second=st.floats(-1, 1),
    epsilon=st.floats(0, 3),
)
@checked
def test_no_pair_of_rows_is_worse_than_the_worst_pair(z, q, first, second, epsilon):
    epsilon = 0.0 if epsilon < 1e-300 else epsilon
    p, other = laws(z, q, first, second, points=20_001)
    delta = float(np.maximum(p - math.exp(epsilon) * other, 0).sum())
    assert delta <= delta_of([sampled(z, q, 1, REPLACE)], epsilon) * (1 + 1e-4) + 1e-9


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize(("z", "times"), [(20.0, 28), (2.0, 1), (5.0, 300)])
def test_a_rate_of_one_is_the_exact_gaussian(relation, z, times):
    distance = 2 if relation is REPLACE else 1
    exact = epsilon_of([GaussianEvent(z / distance, relation, times=times)], 1e-5)
    assert epsilon_of([sampled(z, 1.0, times, relation)], 1e-5) == pytest.approx(exact, rel=1e-6)
    grid = loss_distribution(SampledGroup(z, 1.0, relation is REPLACE, times), 1 / z / 40)
    mu = distance * math.sqrt(times) / z
    for epsilon in (0.2 * mu, mu, 3 * mu):
        assert 1 - 1e-12 <= grid.get_delta_for_epsilon(epsilon) / delta_of_mu(mu, epsilon) < 1.02


def test_the_tutorial_of_dp_sgd_has_its_known_price():
    """60,000 rows, batches of 256, 60 epochs, noise multiplier 1.1."""
    event = sampled(1.1, 256 / 60_000, 14_063)
    bounds = divergences(0.0, (), Steps.of([event]).sampled)
    assert delta_of_renyi(bounds, 2.60) <= 1e-5 < delta_of_renyi(bounds, 2.58)
    assert epsilon_of([event], 1e-5) == pytest.approx(2.382, abs=0.001)


@pytest.mark.parametrize(("z", "q", "times"), [(1.0, 0.01, 1000), (2.0, 0.1, 200), (0.6, 0.001, 10_000)])
def test_it_agrees_with_the_librarys_accountants(z, q, times):
    import dp_accounting
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    theirs = dp_event.SelfComposedDpEvent(
        dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(z)), times
    )
    neighbours = dp_accounting.NeighboringRelation
    for relation, name in ((ADD, neighbours.ADD_OR_REMOVE_ONE), (REPLACE, neighbours.REPLACE_ONE)):
        by_loss = PLDAccountant(name, 4e-4).compose(theirs).get_epsilon(1e-5)
        assert epsilon_of([sampled(z, q, times, relation)], 1e-5) == pytest.approx(by_loss, rel=2e-3)
    by_renyi = RdpAccountant().compose(theirs).get_epsilon(1e-5)
    ours = epsilon_of([sampled(z, q, times)], 1e-5)
    assert 0.7 * by_renyi < ours < by_renyi


def integrated_divergence(z, q, order, x, other):
    """Rényi divergence of the two answers, by integration in logarithms; the integrand peaks far outside."""
    t = np.linspace(-2 * order - 12 * z, 2 * order + 12 * z, 400_001)
    none, one, two = (-((t - shift) ** 2) / (2 * z * z) for shift in (0.0, x, other))
    p, r = (np.logaddexp(np.log1p(-q) + none, math.log(q) + each) for each in (one, two))
    step = math.log((t[1] - t[0]) / (z * math.sqrt(2 * math.pi)))
    return (float(np.logaddexp.reduce(order * p + (1 - order) * r)) + step) / (order - 1)


@pytest.mark.parametrize(("z", "q"), CASES)
def test_divergences_are_exact_at_integers_and_bounds_between(z, q):
    from dp_accounting.rdp.rdp_privacy_accountant import _compute_rdp_poisson_subsampled_gaussian

    orders = np.array([2.0, 3.0, 17.0, 64.0])
    found = sampled_divergences(SampledGroup(z, q, False, 3), orders)
    assert found == pytest.approx(3 * _compute_rdp_poisson_subsampled_gaussian(q, z, orders), rel=1e-6)
    for order in (1.5, 2.0, 2.5, 9.3):
        found, above = sampled_divergences(SampledGroup(z, q, False, 1), np.array([order, math.ceil(order)]))
        removed, added = (integrated_divergence(z, q, order, *pair) for pair in ((1.0, 0.0), (0.0, 1.0)))
        assert max(removed, added) * (1 - 1e-6) - 1e-10 <= found <= above
        assert order % 1 or found == pytest.approx(removed, rel=1e-5)


@pytest.mark.parametrize(("z", "q"), CASES)
def test_divergences_under_replace_one_are_those_of_the_worst_pair(z, q):
    """At orders that are integrated; between them the chord is a few parts in a thousand above."""
    for order, slack in ((1.5, 1e-6), (2.0, 1e-6), (4.0, 1e-6), (5.0, 1e-2), (20.0, 1e-2)):
        exact = integrated_divergence(z, q, order, 1.0, -1.0)
        found = float(sampled_divergences(SampledGroup(z, q, True, 1), np.array([order]))[0])
        assert exact * (1 - 1e-6) - 1e-10 <= found <= exact * (1 + slack) + 1e-9
        assert found <= (2 / z) ** 2 / 2 * order * (1 + 1e-12)  # never above that of an unsampled release


@pytest.mark.parametrize(("z", "epsilon", "before"), [(0.8, 16.03, 36.37), (2.0, 5.214, 6.069)])
def test_the_best_of_ten_sampled_runs_has_its_known_price_under_replace_one(z, epsilon, before):
    """Two hundred steps at a rate of 0.05; `before` is what the inequality of Cauchy and Schwarz gave."""
    tuned = BestOfManyEvent(((sampled(z, 0.05, 200, REPLACE),),), 10, 0.0)
    found = epsilon_of([tuned], 1e-5)
    assert found == pytest.approx(epsilon, rel=1e-3)
    assert found < 0.9 * before


@given(
    z=st.floats(0.5, 8),
    q=st.floats(1e-3, 0.9),
    times=st.integers(1, 300),
    relation=st.sampled_from(Relation),
    epsilon=st.floats(0.01, 4),
)
@checked
def test_more_releases_a_higher_rate_and_less_noise_cost_more(z, q, times, relation, epsilon):
    found = delta_of([sampled(z, q, times, relation)], epsilon)
    hair = 1e-13 * (times + 60)
    for other in (
        sampled(z, q, 2 * times, relation),
        sampled(z, min(1.0, 1.1 * q), times, relation),
        sampled(z / 1.1, q, times, relation),
    ):
        assert found <= delta_of([other], epsilon) * (1 + 1e-9) + hair
    assert found <= delta_of([sampled(z, q, times, relation)], epsilon, quick=True)
    assert (
        delta_of([sampled(z, q, times)], epsilon) <= delta_of([sampled(z, q, times, REPLACE)], epsilon) + hair
    )
    whole = (2 if relation is REPLACE else 1) * math.sqrt(times) / z
    assert found <= delta_of_mu(whole, epsilon)  # sampling never hurts


def test_rho_and_mu_count_no_amplification():
    assert rho_of([sampled(2.0, 0.01, 10)]) == pytest.approx(10 / 8)
    assert mu_of([sampled(2.0, 0.01, 100)]) == pytest.approx(5.0)
    assert rho_of([sampled(2.0, 0.01, 10, REPLACE)]) == pytest.approx(10 / 2)
    assert mu_of([sampled(2.0, 0.01, 100, REPLACE)]) == pytest.approx(10.0)
    assert Steps.of([sampled(2.0, 0.01, 50), sampled(2.0, 0.5, 50)]).whole_mu == pytest.approx(5.0)
    assert mu_of([sampled(2.0, 0.01, 1), SelectionEvent(1.0, ADD, True, "exponential")]) is None


def test_sampled_steps_compose_with_everything_else():
    mix = [sampled(1.0, 0.01, 500), GaussianEvent(5.0, ADD), SelectionEvent(0.1, ADD, False, "flip")]
    found = epsilon_of(mix, 1e-5)
    assert delta_of(mix, found) <= 1e-5 < delta_of(mix, found * (1 - 1e-6))
    parts = [epsilon_of([event], 1e-5) for event in mix]
    assert max(parts) < found < sum(parts)
    unsampled = epsilon_of([sampled(1.0, 1.0, 500), *mix[1:]], 1e-5)
    assert unsampled > 20 * found
    # A mixture with a step of rate 1 is the same as one with a Gaussian step, up to the grid.
    one = mixed_delta(0.2, (), 0.5, (SampledGroup(2.0, 1.0, False, 4),))
    other = delta_of_mu(math.hypot(0.2, 1.0), 0.5)
    assert one == pytest.approx(other, rel=1e-2)


def test_the_lattice_and_cut_tails_are_paid_for():
    plain = delta_of([sampled(1.0, 0.1, 10)], 1.0)
    assert delta_of([sampled(1.0, 0.1, 10, numeric_epsilon=1e-3)], 1.0) > plain * 1.001
    cut = delta_of([sampled(1.0, 0.1, 10, numeric_delta=1e-7)], 1.0)
    assert cut == pytest.approx(plain + (1 + math.e) * 1e-7, rel=1e-9)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("z", [1e-3, 0.03, 1e3, 1e9, 1e200])
@pytest.mark.parametrize("q", [1e-300, 1e-9, 0.5, 1.0])
@pytest.mark.parametrize("times", [1, 10**9])
def test_extreme_steps_neither_raise_nor_come_out_free(relation, z, q, times):
    event = sampled(z, q, times, relation)
    whole = (2 if relation is REPLACE else 1) * math.sqrt(times) / z
    for epsilon in (0.0, 1.0):
        assert 0 < delta_of([event], epsilon) <= delta_of_mu(whole, epsilon)
    assert epsilon_of([event], 1e-5) >= 0


@pytest.mark.parametrize("z", [0.5, 2.0])
def test_the_bound_by_cauchy_and_schwarz_is_almost_reached_at_a_rate_next_to_one(z):
    """Where nothing is integrated it stands alone; there the pair is two normals that are 2/z apart."""
    orders, moments = _log_moments(z, 1 - 1e-9, True)
    exact = orders * (orders - 1) * (2 / z) ** 2 / 2
    far = orders >= 10
    assert far.sum() > 20
    assert np.all(moments[far] >= exact[far] * (1 - 1e-6))
    assert np.all(moments[far] <= exact[far] * 1.01)


CASES_REPLACED_MOMENTS = [(1.0, 0.5, 2.0), (0.3, 0.05, 3.0), (0.8, 1e-3, 1.5), (0.7, 1 - 1e-10, 4.0)]


def replaced_log_moment(z, q, order):
    return float(replaced_log_moments(z, q, [order])[0])


@lru_cache
def to_many_digits(z, q, order):
    """Log of ∫ P^α Q^(1−α) by mpmath's own rule, over pieces of about one standard deviation."""
    with mpmath.workdps(25):
        z, q, order = map(mpmath.mpf, (z, q, order))

        def integrand(t):
            one, other = (1 - q + q * mpmath.exp((side * t - 0.5) / z**2) for side in (1, -1))
            return mpmath.npdf(t, 0, z) * one**order * other ** (1 - order)

        pieces = int((2 * order + 20 * z) / z) + 2
        return mpmath.log(mpmath.quad(integrand, mpmath.linspace(-1 - 10 * z, 2 * order + 10 * z, pieces)))


@pytest.mark.parametrize(("z", "q", "order"), CASES_REPLACED_MOMENTS)
def test_moments_are_never_below_the_truth_and_good_to_twelve_digits(z, q, order):
    exact = to_many_digits(z, q, order)
    excess = float(mpmath.mpf(replaced_log_moment(z, q, order)) - exact)
    assert 0 <= excess <= 1e-12 * (1 + float(exact))


@pytest.mark.parametrize("fault", [{"_REACH": 2.0}, {"_DIGITS": 8.0}])
def test_a_rule_that_is_too_short_or_too_coarse_is_caught(fault, monkeypatch):
    for name, value in fault.items():
        monkeypatch.setattr(replaced_moments, name, value)
    excesses = [replaced_log_moment(*case) - float(to_many_digits(*case)) for case in CASES_REPLACED_MOMENTS]
    assert not all(0 <= excess <= 1e-12 * (1 + abs(excess)) for excess in excesses)


def test_a_rule_of_very_many_points_is_left_to_other_bounds():
    assert math.isinf(replaced_log_moment(0.1, 0.5, 500.0))
    assert math.isfinite(replaced_log_moment(0.1, 0.5, 2.0))


def test_many_orders_at_once_are_the_same_as_one_by_one():
    for z, q in ((0.4, 0.1), (2.0, 0.7)):
        orders = (1.1, 2.0, 7.5, 16.0)
        single = [replaced_log_moment(z, q, order) for order in orders]
        assert replaced_log_moments(z, q, orders) == pytest.approx(single, rel=1e-9, abs=1e-10)
