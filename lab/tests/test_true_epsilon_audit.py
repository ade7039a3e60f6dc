import numpy as np

from dptransfer.audit.lower_bound import counted_epsilon
from dptransfer_lab.as_published import ScriptedPublic
from dptransfer_lab.true_epsilon import (
    ERROR,
    audited_mean,
    audited_public,
    audited_theorem,
    audited_top_k,
    mean_epsilon,
    public_epsilon,
    theorem_epsilon,
    top_k_epsilon,
)


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
