from dptransfer.bench.exposure import mean_epsilon, theorem_epsilon, top_k_epsilon
from dptransfer.bench.exposure_audit import audited_mean, audited_theorem, audited_top_k


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


def test_the_audit_refutes_the_printed_weights():
    found, where = audited_top_k(0.5, candidates=12, k=2, runs=60_000)
    assert 0.5 < found <= top_k_epsilon(0.5, 2, 12)
    assert where == "12 candidates, K = 2"
    never, _ = audited_top_k(0.5, from_zero=True, candidates=6, k=2, runs=40_000)
    assert never > 3  # one side never chooses the set
