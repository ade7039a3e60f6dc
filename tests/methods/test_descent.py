import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.methods import Pace
from dptransfer.methods.heads.descent import Descent

START = np.arange(12.0).reshape(4, 3)


def walk(gradients, pace=None, start=START, noise=0.0):
    descent = Descent(start, len(gradients), pace or Pace(reach=10.0))
    path = [descent.weights]
    for gradient in gradients:
        descent.step(gradient, noise)
        path.append(descent.weights)
    return np.array(path), descent.average


def test_step_lengths_fall_linearly_and_add_up_to_the_reach_whatever_the_gradients_length():
    rng = np.random.default_rng(0)
    gradients = [rng.normal(size=START.shape) * 10.0**e for e in (-9, 0, 7, 2, 100)]
    path, _ = walk(gradients, Pace(reach=10.0, radius=1e9))
    lengths = np.linalg.norm(np.diff(path, axis=0), axis=(1, 2))
    assert lengths == pytest.approx(np.array([5, 4, 3, 2, 1]) / 15 * 10 * 2)  # √4 classes
    assert lengths.sum() == pytest.approx(20.0)


def test_steps_go_against_the_gradient():
    gradient = np.random.default_rng(1).normal(size=START.shape)
    path, _ = walk([gradient])
    assert np.allclose(
        (path[1] - path[0]) / np.linalg.norm(path[1] - path[0]), -gradient / np.linalg.norm(gradient)
    )


def test_the_average_weights_iterates_by_their_number():
    rng = np.random.default_rng(2)
    path, average = walk([rng.normal(size=START.shape) for _ in range(6)], Pace(reach=10.0, radius=1e9))
    assert np.allclose(average, np.average(path[1:], axis=0, weights=np.arange(1, 7)))
    assert not np.allclose(average, path[1:].mean(axis=0))


def test_the_weights_stay_in_the_ball_around_the_start():
    gradient = np.ones_like(START)
    path, average = walk([gradient] * 8, Pace(reach=50.0, radius=3.0))
    away = np.linalg.norm(path - START, axis=(1, 2))
    assert away.max() == pytest.approx(6.0)
    assert np.linalg.norm(average - START) <= 6.0 + 1e-9
    assert np.linalg.norm(walk([gradient] * 8, Pace(reach=50.0))[0][-1] - START) > 6.0


def test_weight_decay_pulls_to_the_start_wherever_it_is():
    for start in (START, np.zeros_like(START), -100 * START):
        gradients = [np.ones_like(START)] * 10
        away = [
            np.linalg.norm(walk(gradients, Pace(reach=10.0, weight_decay=decay), start)[1] - start)
            for decay in (0.0, 1.0, 5.0, 1e9)
        ]
        assert away == sorted(away, reverse=True)
        assert away[0] > 1.2 * away[1] > 1.2 * away[3] > 0


def test_a_start_that_knows_something_is_moved_by_the_share_of_signal_in_what_is_seen():
    gradient = np.ones_like(START)
    seen = np.linalg.norm(gradient)
    lengths = [
        np.linalg.norm(np.diff(walk([gradient], noise=part * seen)[0], axis=0))
        for part in (0.0, 0.6, 0.8, 1.0, 2.0)
    ]
    assert lengths == pytest.approx([20.0, 16.0, 12.0, 0.0, 0.0])


def test_a_start_of_zeros_has_nothing_to_lose_and_keeps_its_steps():
    gradient, zero = np.ones_like(START), np.zeros_like(START)
    for noise in (0.0, 1e9):
        path, _ = walk([gradient], start=zero, noise=noise)
        assert np.linalg.norm(path[1]) == pytest.approx(20.0)


def test_a_gradient_of_zeros_moves_nothing():
    path, average = walk([np.zeros_like(START)] * 3)
    assert (path == START).all()
    assert (average == START).all()


@pytest.mark.parametrize("bad", [{"reach": 0.0}, {"weight_decay": -1.0}, {"radius": float("nan")}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(ArgumentError, match=next(iter(bad))):
        Pace(**bad)
