import numpy as np
import pytest
from scipy import stats

from dptransfer.accounting import epsilon_of_mu
from dptransfer.audit.lower_bound import (
    audited_epsilon,
    counted_epsilon,
    excess_over_claim,
    gaussian_epsilon,
    high_limit,
    low_limit,
    samples,
)
from dptransfer.privacy import GaussianEvent, Relation, SelectionEvent

DELTA = 1e-5


def normals(distance, count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, count), rng.normal(distance, 1, count)


def test_the_counted_bound_is_right_for_a_law_that_is_known():
    """Two normals a distance μ apart: below their exact ε, and not far below; wide of it for equal laws."""
    truth = epsilon_of_mu(2.0, DELTA)
    assert 0.3 * truth < counted_epsilon(*normals(2.0, 200_000), DELTA) <= truth
    assert counted_epsilon(*normals(0.0, 200_000), DELTA) < 0.05


def test_the_counted_bound_does_not_mind_which_set_comes_first_or_which_way_it_moves():
    near, far = normals(2.0, 20_000)
    found = [
        counted_epsilon(*pair, DELTA) for pair in ((near, far), (far, near), (-near, -far), (-far, -near))
    ]
    assert min(found) > 2
    assert max(found) - min(found) < 1


def test_the_gaussian_bound_needs_few_runs_and_stays_below_the_truth():
    truth = epsilon_of_mu(2.0, DELTA)
    found = [gaussian_epsilon(*normals(2.0, 400, seed), DELTA) for seed in range(60)]
    assert 0.6 * truth < np.mean(found) < max(found) <= truth
    assert gaussian_epsilon(*normals(0.0, 400), DELTA) == 0.0
    assert counted_epsilon(*normals(2.0, 400), DELTA) < 0.5 * np.mean(found)


def test_the_error_is_what_is_asked_for():
    """With an error of 90 % the bound is often above the truth; with 1 % it hardly ever is."""
    truth = epsilon_of_mu(1.0, DELTA)

    def wrong(error):
        return sum(
            gaussian_epsilon(*normals(1.0, 50, seed), DELTA, error=error) > truth for seed in range(60)
        )

    assert wrong(0.01) <= 3
    assert 3 < wrong(0.9) < 54


def test_the_whole_curve_refutes_with_fewer_runs_than_one_point_of_it():
    """Half of the noise that was claimed: counts at δ do not prove it, rates do."""
    claim = [GaussianEvent(1.0, Relation.ADD_REMOVE)]
    quiet = normals(2.0, 2000)
    assert counted_epsilon(*quiet, DELTA) < epsilon_of_mu(1.0, DELTA)
    assert excess_over_claim(*quiet, claim) > 0.1
    assert excess_over_claim(*normals(1.0, 2000), claim) <= 0


def test_a_claim_is_hardly_ever_refuted_when_it_is_true():
    claim = [GaussianEvent(1.0, Relation.ADD_REMOVE)]
    assert not any(excess_over_claim(*normals(1.0, 400, seed), claim, error=1e-3) > 0 for seed in range(60))


def test_randomised_response_is_found_out_when_it_lies_more_rarely_than_it_says():
    rng = np.random.default_rng(2)
    claim = [SelectionEvent(1.0, Relation.ADD_REMOVE, False, "laplace")]

    def answers(epsilon):
        truth = np.exp(epsilon) / (1 + np.exp(epsilon))
        return (rng.random(4000) < truth).astype(float), (rng.random(4000) > truth).astype(float)

    assert excess_over_claim(*answers(1.0), claim) <= 0
    assert excess_over_claim(*answers(1.5), claim) > 0
    assert 0.7 < counted_epsilon(*answers(1.0), 0.0) <= 1.0


def test_runs_are_repeated_with_seeds_of_their_own():
    def run(noise):
        return noise.discrete_gaussian(1000.0, (3,))

    found = samples(run, 10, seed=4)
    assert len(found) == 10
    assert len(set(found)) > 5
    assert (found == samples(run, 10, seed=4)).all()
    assert (found != samples(run, 10, seed=40)).any()
    assert len(samples(lambda noise: noise.discrete_gaussian(10.0, (1,))[0], 5, seed=0)) == 5


def test_an_audit_of_two_runs_finds_what_its_samples_hold():
    def quiet(noise):
        return noise.discrete_gaussian(1000.0, (500,))

    def moved(noise):
        return quiet(noise) + 2000

    truth = epsilon_of_mu(2.0, DELTA)
    assert 0.8 * truth < audited_epsilon(quiet, moved, trials=2000, delta=DELTA, gaussian=True) <= truth
    assert 0.1 * truth < audited_epsilon(quiet, moved, trials=2000, delta=DELTA) <= truth
    assert audited_epsilon(quiet, quiet, trials=2000, delta=DELTA) == pytest.approx(0.0, abs=0.05)


def test_the_limits_are_those_of_clopper_and_pearson():
    for hits, trials in ((0, 50), (1, 50), (25, 50), (50, 50)):
        low, high = low_limit(hits, trials, 5e-7), high_limit(hits, trials, 5e-7)
        assert low <= hits / trials <= high
        assert hits == 0 or stats.binom.sf(hits - 1, trials, low) == pytest.approx(5e-7, rel=1e-3)
        assert hits == trials or stats.binom.cdf(hits, trials, high) == pytest.approx(5e-7, rel=1e-3)
