import numpy as np
import pytest

from contracts.backwards import Backwards
from contracts.rows import squared_length
from dptransfer.base import workers as pieces
from dptransfer.base.workers import ThisProcess
from dptransfer.data import PublicEmbeddings
from dptransfer.data.atomic_files import cache_folder
from dptransfer.errors import ArgumentError, DataError
from dptransfer.exact import public_map
from dptransfer.exact.lattice import unit_lattice
from dptransfer.exact.public_map import FittedPublicMap, FittedSpan, PublicMap

WIDTH = 48
STRANGE_POOLS = {
    "smaller than float32 squares": np.full((5, 3), 1e-25, dtype=np.float32),
    "larger than float32": np.full((5, 3), 1e300),
    "subnormal": np.full((5, 3), 5e-324),
    "all zero": np.zeros((4, 3)),
    "one row": np.array([[1.0, 2.0, 3.0]]),
    "huge and small": np.array([[1e300, 1e-300, 0.0], [3.0, 4.0, 0.0], [-1e300, 1.0, 1.0]]),
}


def pool(seed=0, *, non_negative=False):
    x = np.random.default_rng(seed).normal(size=(300, WIDTH)) @ np.diag(np.geomspace(3, 0.1, WIDTH)) + 0.3
    return PublicEmbeddings((np.abs(x) if non_negative else x).astype(np.float32))


def private_rows(seed=1, count=300):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, WIDTH)) * 10.0 ** rng.integers(-3, 3, (count, 1))


def exact(fitted, x, norm):
    """The map in Python integers: what the float products must be."""
    unit = unit_lattice(np.copysign(np.sqrt(np.abs(x)), x) if fitted.root else x, 2**26)
    centred = unit.astype(object) - fitted.mean.astype(object)
    return unit_lattice((centred @ fitted.matrix.astype(object)).astype(np.float64), norm)


@pytest.mark.parametrize("non_negative", [False, True])
def test_the_products_are_those_of_python_integers(non_negative):
    fitted = PublicMap(axes=8).fit(WIDTH, pool(non_negative=non_negative))
    x = np.vstack([private_rows(count=20), -fitted.mean, *fitted.matrix.T, *-fitted.matrix.T])
    assert (fitted.lattice(x, 2**30) == exact(fitted, x, 2**30)).all()


def norms_are_exact(fitted):
    mean = squared_length(fitted.mean) <= 2**52
    return mean and all(squared_length(column) <= 2**50 for column in fitted.matrix.T)


@pytest.mark.parametrize("whitening", [0.0, 0.25, 0.5])
def test_no_partial_sum_leaves_the_range_where_floats_are_integers(whitening):
    fitted = PublicMap(axes=24, whitening=whitening).fit(WIDTH, pool())
    assert norms_are_exact(fitted)
    # Rows along the mean and along each column are the worst; the sum of absolute terms bounds any partial
    # sum.
    worst = np.vstack([-fitted.mean, *fitted.matrix.T, private_rows(count=20)])
    centred = np.abs(unit_lattice(worst, 2**26).astype(object) - fitted.mean.astype(object))
    assert (centred @ np.abs(fitted.matrix.astype(object))).max() <= 2**52


@pytest.mark.parametrize("name", STRANGE_POOLS)
def test_the_norms_hold_for_strange_pools_too(name):
    x = STRANGE_POOLS[name]
    fitted = PublicMap(axes=2).fit(3, PublicEmbeddings(x))
    assert norms_are_exact(fitted)
    assert all(squared_length(row) <= 2047**2 for row in fitted.lattice(x, 2047))


def test_a_plain_float32_mean_would_have_left_the_range():
    x = STRANGE_POOLS["smaller than float32 squares"]
    norms = np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    assert squared_length((x / norms).mean(axis=0) * 2.0**26) > 2**52


def test_a_map_whose_products_would_not_be_exact_cannot_exist():
    fitted = PublicMap(axes=2).fit(WIDTH, pool())
    settings = {**fitted.settings()}
    for name in ("mean", "matrix"):
        arrays = {**fitted.arrays(), name: np.full_like(fitted.arrays()[name], 2**26)}
        with pytest.raises(DataError, match="exact"):
            FittedPublicMap.read(arrays, settings)


def test_roots_are_taken_only_if_every_public_feature_is_non_negative():
    assert PublicMap(axes=2).fit(WIDTH, pool(non_negative=True)).root
    x = np.abs(pool().rows).copy()
    x[17, 3] = -1e-9
    assert not PublicMap(axes=2).fit(WIDTH, PublicEmbeddings(x)).root


def test_one_pool_gives_one_map_and_another_pool_another():
    first, again = PublicMap(axes=8).fit(WIDTH, pool()), PublicMap(axes=8).fit(WIDTH, pool())
    assert first.identity == again.identity
    assert first.pool == again.pool == pool().fingerprint
    assert PublicMap(axes=8).fit(WIDTH, pool(1)).identity != first.identity
    assert PublicMap(axes=8, whitening=0.4).fit(WIDTH, pool()).identity != first.identity


@pytest.mark.parametrize(("axes", "count", "width"), [(8, 300, 8), (8, 5, 4), (100, 300, WIDTH), (3, 1, 1)])
def test_the_width_is_known_before_the_map_is_fitted(axes, count, width):
    public = PublicEmbeddings(pool().rows[:count])
    features = PublicMap(axes=axes)
    assert features.output_dimension(WIDTH, public) == features.fit(WIDTH, public).dimension == width


def test_without_a_pool_or_with_bad_settings_it_refuses():
    with pytest.raises(DataError, match="public"):
        PublicMap().fit(4, None)
    for bad in ({"axes": 0}, {"whitening": -0.1}, {"whitening": 0.51}, {"whitening": float("nan")}):
        with pytest.raises(ArgumentError):
            PublicMap(**bad)


# The axes of a pool

POOL = np.random.default_rng(0).normal(size=(400, 6)) @ np.diag([5.0, 3.0, 2.0, 1.0, 0.5, 0.1]) + 1.0


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(public_map, "_MEMORY", type(public_map._MEMORY)())


def forget():
    public_map._MEMORY.clear()


def test_axes_are_the_eigenvectors_of_the_unit_rows_by_falling_variance():
    found = public_map.principal_axes(PublicEmbeddings(POOL))
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
    found = public_map.principal_axes(PublicEmbeddings(pool))
    unit = pool / np.linalg.norm(pool, axis=1, keepdims=True)
    assert found.axes.shape == (400, len(pool))
    assert np.allclose(found.axes.T @ found.axes, np.eye(len(pool)), atol=1e-9)
    assert np.allclose(found.variance[:5].sum(), unit.var(axis=0).sum(), atol=1e-6)
    covariance = np.cov(unit.T, bias=True)
    assert np.allclose(found.axes.T @ covariance @ found.axes, np.diag(found.variance), atol=1e-6)
    forget()
    assert (public_map.principal_axes(PublicEmbeddings(pool)).axes == found.axes).all()  # also from the cache


def test_the_axes_of_a_pool_are_computed_once(monkeypatch):
    first = public_map.principal_axes(PublicEmbeddings(POOL))
    assert public_map.principal_axes(PublicEmbeddings(POOL)) is first
    forget()
    monkeypatch.setattr(public_map, "_compute", None)  # calling it now would fail
    again = public_map.principal_axes(PublicEmbeddings(POOL))
    assert (again.axes == first.axes).all()
    assert (again.mean == first.mean).all()
    with pytest.raises(TypeError):
        public_map.principal_axes(PublicEmbeddings(POOL[1:]))


@pytest.mark.parametrize("damage", [b"not a safetensors file", None])
def test_a_damaged_or_unwritable_cache_costs_time_and_nothing_else(damage, monkeypatch, tmp_path):
    want = public_map.principal_axes(PublicEmbeddings(POOL))
    (file,) = cache_folder().iterdir()
    forget()
    if damage is None:
        (tmp_path / "a file").touch()
        monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path / "a file" / "below"))
    else:
        file.write_bytes(damage)
    assert (public_map.principal_axes(PublicEmbeddings(POOL)).axes == want.axes).all()


@pytest.mark.parametrize("low", [0.0, -1.0])  # with roots, and without
@pytest.mark.parametrize("dimension", [1, 2, 6])
def test_sums_are_the_same_in_whatever_pieces_and_order(low, dimension, monkeypatch):
    rows = np.random.default_rng(0).uniform(low, 1.0, (200, dimension)).astype(np.float32)
    pool = PublicEmbeddings(rows)
    whole = public_map._compute(pool)
    for rows_each, workers in ((199, ThisProcess()), (7, Backwards())):
        monkeypatch.setattr(pieces, "_PIECE_BYTES", 4 * dimension * rows_each)
        found = public_map._compute(pool.with_workers(workers))
        assert found.root is whole.root is (low == 0.0)
        for name in ("mean", "axes", "variance"):
            assert np.array_equal(getattr(found, name), getattr(whole, name))


def test_a_map_may_keep_its_first_axes_or_have_another_mean():
    fitted = PublicMap(axes=8).fit(WIDTH, pool())
    few, moved = fitted.first(3), fitted.with_mean(np.full(WIDTH, 0.1))
    assert (few.axis_vectors() == fitted.axis_vectors()[:, :3]).all()
    assert (moved.axis_vectors() == fitted.axis_vectors()).all()
    assert np.abs(moved.centre() - 0.1).max() < 1e-6


def test_axes_of_another_width_in_the_cache_and_a_pool_of_too_many_rows_are_refused(monkeypatch):
    want = public_map.principal_axes(PublicEmbeddings(POOL))
    (file,) = cache_folder().iterdir()
    forget()
    other = public_map.principal_axes(PublicEmbeddings(POOL[:, :2]))
    (another,) = set(cache_folder().iterdir()) - {file}
    another.replace(file)
    forget()
    assert other.axes.shape != want.axes.shape
    assert (public_map.principal_axes(PublicEmbeddings(POOL)).axes == want.axes).all()
    monkeypatch.setattr(public_map, "_MOST_ROWS", 2)
    with pytest.raises(DataError, match="2³⁰"):
        public_map.principal_axes(PublicEmbeddings(POOL[:, :3]))


def test_a_span_has_orthonormal_columns_that_are_small_enough_for_exact_products():
    directions = np.random.default_rng(0).normal(size=(5, 9)) @ np.diag([1.0] * 4 + [0.0] * 5)
    span = FittedSpan.of(directions)
    assert span.basis.shape == (9, 4)
    assert np.allclose(span.basis.T @ span.basis, np.eye(4), atol=1e-6)
    with pytest.raises(DataError):
        FittedSpan(2 * span.matrix)
