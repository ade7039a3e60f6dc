import numpy as np
import pytest

from contracts.backwards import Backwards
from dptransfer.base import workers as pieces
from dptransfer.base.workers import ThisProcess
from dptransfer.data import PublicEmbeddings
from dptransfer.exact import principal_axes as module
from dptransfer.exact.principal_axes import cache_folder, principal_axes

POOL = np.random.default_rng(0).normal(size=(400, 6)) @ np.diag([5.0, 3.0, 2.0, 1.0, 0.5, 0.1]) + 1.0


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_MEMORY", type(module._MEMORY)())


def forget():
    module._MEMORY.clear()


def test_axes_are_the_eigenvectors_of_the_unit_rows_by_falling_variance():
    found = principal_axes(PublicEmbeddings(POOL))
    unit = POOL / np.linalg.norm(POOL, axis=1, keepdims=True)
    covariance = np.cov(unit.T, bias=True)
    assert np.allclose(found.mean, unit.mean(axis=0), atol=1e-6)
    assert np.allclose(found.axes.T @ found.axes, np.eye(6), atol=1e-9)
    assert np.allclose(found.axes.T @ covariance @ found.axes, np.diag(found.variance), atol=1e-6)
    assert (np.diff(found.variance) <= 0).all()
    assert not found.root


@pytest.mark.parametrize("repeats", [1, 2])  # twice the same rows: fewer axes than rows have any variance
def test_a_pool_with_far_fewer_rows_than_dimensions_has_the_axes_of_its_rows_alone(repeats):
    pool = np.tile(np.random.default_rng(1).normal(size=(6, 400)), (repeats, 1))
    found = principal_axes(PublicEmbeddings(pool))
    unit = pool / np.linalg.norm(pool, axis=1, keepdims=True)
    assert found.axes.shape == (400, len(pool))
    assert np.allclose(found.axes.T @ found.axes, np.eye(len(pool)), atol=1e-9)
    assert np.allclose(found.variance[:5].sum(), unit.var(axis=0).sum(), atol=1e-6)
    covariance = np.cov(unit.T, bias=True)
    assert np.allclose(found.axes.T @ covariance @ found.axes, np.diag(found.variance), atol=1e-6)
    forget()
    assert (principal_axes(PublicEmbeddings(pool)).axes == found.axes).all()  # also from the cache


def test_the_axes_of_a_pool_are_computed_once(monkeypatch):
    first = principal_axes(PublicEmbeddings(POOL))
    assert principal_axes(PublicEmbeddings(POOL)) is first
    forget()
    monkeypatch.setattr(module, "_compute", None)  # calling it now would fail
    again = principal_axes(PublicEmbeddings(POOL))
    assert (again.axes == first.axes).all()
    assert (again.mean == first.mean).all()
    with pytest.raises(TypeError):
        principal_axes(PublicEmbeddings(POOL[1:]))


@pytest.mark.parametrize("damage", [b"not a safetensors file", None])
def test_a_damaged_or_unwritable_cache_costs_time_and_nothing_else(damage, monkeypatch, tmp_path):
    want = principal_axes(PublicEmbeddings(POOL))
    (file,) = cache_folder().iterdir()
    forget()
    if damage is None:
        (tmp_path / "a file").touch()
        monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path / "a file" / "below"))
    else:
        file.write_bytes(damage)
    assert (principal_axes(PublicEmbeddings(POOL)).axes == want.axes).all()


@pytest.mark.parametrize("low", [0.0, -1.0])  # with roots, and without
@pytest.mark.parametrize("dimension", [1, 2, 6])
def test_sums_are_the_same_in_whatever_pieces_and_order(low, dimension, monkeypatch):
    rows = np.random.default_rng(0).uniform(low, 1.0, (200, dimension)).astype(np.float32)
    pool = PublicEmbeddings(rows)
    whole = module._compute(pool)
    for rows_each, workers in ((199, ThisProcess()), (7, Backwards())):
        monkeypatch.setattr(pieces, "_PIECE_BYTES", 4 * dimension * rows_each)
        found = module._compute(pool.with_workers(workers))
        assert found.root is whole.root is (low == 0.0)
        for name in ("mean", "axes", "variance"):
            assert np.array_equal(getattr(found, name), getattr(whole, name))
