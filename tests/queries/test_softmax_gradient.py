import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from contracts.rows import steady
from dptransfer.features import chunks
from dptransfer.privacy import Relation
from dptransfer.queries import SoftmaxGradient, softmax_gradient

from .neighbours import CLASSES, EMPTY, MAPS, WIDTH, data_sets, examples, reach, squared_gap, stays_within


def query(seed=0, size=1.0, features="unit norm"):
    rng, width = np.random.default_rng(seed), MAPS[features].dimension
    return SoftmaxGradient(
        MAPS[features],
        linear=rng.normal(size=(CLASSES, width)) * size,
        offset=rng.normal(size=CLASSES) * size,
        precision=np.abs(rng.normal(size=(CLASSES, width))) * size,
    )


@steady
@given(
    data=data_sets(),
    first=examples,
    second=examples,
    seed=st.integers(0, 9),
    size=st.sampled_from([0.0, 1e-9, 1.0, 50.0, 1e6]),
)
def test_gradients_stay_within_their_sensitivity(data, first, second, seed, size):
    assert stays_within(query(seed, size), data, first, second)


def steep():
    """Logits so steep that the residual of a wrong guess has norm √2 before the clip."""
    zero = np.zeros((CLASSES, WIDTH))
    return SoftmaxGradient(MAPS["unit norm"], zero, np.array([0.0, 1e3, 0.0]), zero)


def test_the_sensitivity_is_reached():
    right, left = ([1.0, 0.0, 0.0], 0), ([-1.0, 0.0, 0.0], 0)
    assert 0.99 <= reach(steep(), right, left, Relation.ADD_REMOVE) <= 1
    assert 0.99 <= reach(steep(), right, left, Relation.REPLACE_ONE) <= 1


def test_without_the_clip_the_check_fails(monkeypatch):
    right, left = ([1.0, 0.0, 0.0], 0), ([-1.0, 0.0, 0.0], 0)
    assert stays_within(steep(), EMPTY, right, left)
    monkeypatch.setattr(
        softmax_gradient, "clipped_lattice", lambda rows, norm, clip: np.trunc(rows * norm).astype(np.int64)
    )
    assert not stays_within(steep(), EMPTY, right, left)


@pytest.mark.parametrize("elements", [1, 64, 10**9])
@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_order_and_threads_do_not_change_an_integer(monkeypatch, elements, threads):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, WIDTH)), rng.integers(0, CLASSES, 300)
    wanted = query()(x, y)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    order = rng.permutation(300)
    with threadpool_limits(threads):
        assert (query()(x[order], y[order]) == wanted).all()
    assert squared_gap(query(1), (x, y), (x[1:], y[1:])) > 0


def test_it_is_the_gradient_of_the_softmax_loss():
    """Against a plain float computation, where no residual is clipped."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, WIDTH)), rng.integers(0, CLASSES, 40)
    made = query(3, size=0.3)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    logits = made.offset + unit @ made.linear.T - 0.5 * unit**2 @ made.precision.T
    residual = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True) - np.eye(CLASSES)[y]
    residual /= np.maximum(1, np.linalg.norm(residual, axis=1, keepdims=True))
    assert np.abs(made(x, y) / made.grid - residual.T @ unit).max() < 0.05
    assert not made(*EMPTY).any()
