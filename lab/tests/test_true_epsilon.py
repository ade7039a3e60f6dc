import math

import numpy as np
import pytest
from scipy.special import comb

from dptransfer.accounting import delta_of_mu
from dptransfer.audit.lower_bound import counted_epsilon
from dptransfer_lab.as_published import ScriptedPublic, printed_log_weights
from dptransfer_lab.true_epsilon import (
    ERROR,
    GaussianPair,
    audited_mean,
    audited_public,
    audited_theorem,
    audited_top_k,
    mean_epsilon,
    printed_claims,
    public_epsilon,
    theorem_epsilon,
    top_k_epsilon,
)


@pytest.mark.parametrize(("size", "expected"), [(5, 97.6), (50, 5.33), (500, 2.07)])
def test_the_printed_mean_is_far_from_its_claim_for_small_classes(size, expected):
    assert mean_epsilon(0.125, size, 1280, 1e-5) == pytest.approx(expected, rel=0.005)


def test_the_pairs_curve_agrees_with_simulation_and_with_equal_deviations():
    rng = np.random.default_rng(0)
    pair = GaussianPair(1.0, 0.8, 0.5, 3)
    x = rng.standard_normal((400_000, 3))
    v = np.array([0.5, 0, 0])
    loss = 3 * math.log(0.8) + ((x - v) ** 2).sum(axis=1) / (2 * 0.64) - (x**2).sum(axis=1) / 2
    for epsilon in (0.0, 0.5, 2.0):
        expected = np.maximum(0, -np.expm1(epsilon - loss)).mean()
        assert pair.delta(epsilon) == pytest.approx(expected, rel=0.02)
    nearly = GaussianPair(1.0, 1.0 - 1e-3, 0.5, 1)
    assert nearly.delta(0.3) == pytest.approx(delta_of_mu(0.5, 0.3), rel=0.02)


def test_top_k_loss_is_that_of_enumerated_sets():
    n, k, epsilon = 7, 3, 1.0
    weights = np.exp(printed_log_weights(n, k))

    def chance(scores, members):
        """Probability of one set under the printed sampler."""
        order = np.argsort(-scores, kind="stable")
        rank = {int(candidate): place + 1 for place, candidate in enumerate(order)}
        worst = max(rank[m] for m in members)
        whole = (weights * np.exp(epsilon / 2 * scores[order])).sum()
        drawn = weights[worst - 1] * np.exp(epsilon / 2 * scores[order[worst - 1]]) / whole
        return drawn / comb(worst - 1, k - 1)

    tied, risen = np.zeros(n), np.ones(n)
    risen[k - 1] = 0.0
    ratio = math.log(chance(risen, range(k)) / chance(tied, range(k)))
    assert top_k_epsilon(epsilon, k, n) == pytest.approx(abs(ratio))
    assert top_k_epsilon(1.0, 5, 1_281_167) == pytest.approx(11.95, abs=0.01)


def test_the_script_of_public_prototypes_selects_at_twice_its_epsilon():
    n, epsilon = 5, 0.5
    raised = np.exp(2 * epsilon * np.eye(n)[0])
    ratio = math.log(raised[0] / raised.sum() * n)
    assert public_epsilon(epsilon, n) == pytest.approx(ratio)
    assert public_epsilon(1.0, 1_281_167) == pytest.approx(2.0, abs=1e-5)
    (found,) = printed_claims(["as-published-public"], epsilon=1.0)
    assert found.unsafe
    assert found.claimed < found.audited <= public_epsilon(1.0, 30)


def test_the_audit_refutes_the_printed_mean_of_a_small_class_and_not_more():
    claimed, rho = 1.99, 0.125
    found = audited_mean(rho, 5, 64, 1e-5, runs=4000)
    assert claimed < found <= mean_epsilon(rho, 5, 64, 1e-5)


def test_the_audit_cannot_refute_a_large_class_in_few_dimensions():
    found = audited_mean(0.125, 500, 8, 1e-5, runs=2000)
    assert found <= mean_epsilon(0.125, 500, 8, 1e-5)
    assert found < 1.99


def test_the_audit_refutes_the_printed_theorem():
    found = audited_theorem(1.0, 1e-5, runs=50_000)
    assert 1.0 < found <= theorem_epsilon(1.0, 1e-5)
    assert audited_theorem(1.0, 1e-5, runs=50_000) == found


def test_the_audit_refutes_the_script_of_public_prototypes_and_not_the_paper():
    found, where = audited_public(1.0, candidates=12, runs=60_000)
    assert 1.0 < found <= public_epsilon(1.0, 12)
    assert where == "12 candidates"
    # Algorithm 1 as printed, exp(ε·u), on the same pair.
    rng, scores = np.random.default_rng(0), (np.zeros(12), np.eye(12)[0])
    hits = [(ScriptedPublic().choose(u, 1.0, rng, times=60_000) == 0).astype(float) for u in scores]
    assert counted_epsilon(*hits, 0.0, error=ERROR) < 1.0


def test_the_audit_refutes_the_printed_weights():
    found, where = audited_top_k(0.5, candidates=12, k=2, runs=60_000)
    assert 0.5 < found <= top_k_epsilon(0.5, 2, 12)
    assert where == "12 candidates, K = 2"
    never, _ = audited_top_k(0.5, from_zero=True, candidates=6, k=2, runs=40_000)
    assert never > 3  # one side never chooses the set
