import numpy as np

from dptransfer.methods.heads.second_order import ridge_inverse, solve_ridge


def symmetric(seed=0, width=6):
    half = np.random.default_rng(seed).normal(size=(width, width))
    return half + half.T


def test_negative_eigenvalues_of_a_noisy_matrix_do_not_flip_the_solution():
    noisy, target = symmetric(), np.random.default_rng(1).normal(size=6)
    assert np.linalg.eigvalsh(noisy).min() < -1
    assert solve_ridge(noisy, target, 0.1) @ target > 0
    assert np.linalg.norm(solve_ridge(noisy, target, 0.1)) <= np.linalg.norm(target) / 0.1


def test_a_definite_matrix_is_solved_as_it_is():
    definite, target = np.eye(6) + 0.1 * symmetric() @ symmetric(), np.arange(6.0)
    assert np.allclose(
        solve_ridge(definite, target, 0.5), np.linalg.solve(definite + 0.5 * np.eye(6), target)
    )


def test_the_inverse_is_that_of_the_positive_part():
    assert np.allclose(ridge_inverse(np.diag([4.0, -3.0, 0.5]), 0.5), np.diag([1 / 4.5, 2.0, 1.0]))


def test_both_divide_by_the_same_matrix():
    noisy, target = symmetric(2), np.arange(6.0)
    assert np.allclose(ridge_inverse(noisy, 0.3) @ target, solve_ridge(noisy, target, 0.3))
