import numpy as np
import pytest

from dptransfer.exact import chunks
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.exact.sums import by_size
from dptransfer.methods.heads.descent import head_rows
from dptransfer.queries.softmax_gradient import ROW_NORM

from .samples import WIDTH, clusters, pool, private


@pytest.mark.parametrize("features", [UnitNorm().fit(WIDTH, None), PublicMap(axes=3).fit(WIDTH, pool())])
@pytest.mark.parametrize("elements", [1, 10**9])
def test_rows_are_mapped_once_to_the_grid_of_the_gradient(monkeypatch, features, elements):
    x, y = clusters(50)
    x[3] = np.nan
    wanted = features.lattice(x, ROW_NORM)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    seen = head_rows(features, private(x, y))
    assert seen.rows.dtype == np.int32
    assert (seen.rows == wanted).all()
    assert (seen.labels == y).all()
    assert (seen.features.lattice(seen.rows, ROW_NORM) == wanted).all()
    if features.dimension == WIDTH:  # elsewhere a row of zeros is put where the pool's mean has it
        assert not seen.rows[3].any()


def test_no_rows_are_fine():
    x, y = clusters(5)
    assert head_rows(UnitNorm().fit(WIDTH, None), private(x[:0], y[:0])).rows.shape == (0, WIDTH)


def test_rows_of_a_person_are_put_next_to_each_other_with_their_labels():
    x, y = clusters(50)
    whose = np.random.default_rng(0).integers(0, 9, len(x))
    features = UnitNorm().fit(WIDTH, None)
    ids = np.array([f"person {number}" for number in whose])
    data = private(x, y, people=ids)
    seen = head_rows(features, data)
    order = by_size(data.people).order
    assert not (order == np.arange(len(x))).all()
    assert (seen.rows == features.lattice(x, ROW_NORM)[order]).all()
    assert (seen.labels == y[order]).all()
    assert (seen.people == data.people[order]).all()
    assert (by_size(seen.people).order == np.arange(len(x))).all()


@pytest.mark.gpu
@pytest.mark.parametrize("features", [UnitNorm().fit(WIDTH, None), PublicMap(axes=3).fit(WIDTH, pool())])
@pytest.mark.parametrize("whose", [None, np.random.default_rng(0).integers(0, 9, 100)])
def test_rows_on_a_gpu_are_the_same_integers_in_the_same_order(features, whose):
    x, y = clusters(50)
    x[3] = np.nan
    data = private(x, y, people=None if whose is None else whose[: len(x)])
    here, there = (head_rows(features, data, device) for device in ("cpu", "cuda"))
    assert there.rows.is_cuda
    assert (there.rows.cpu().numpy() == here.rows).all()
    assert (there.labels.cpu().numpy() == here.labels).all()
    assert whose is None or (there.people == here.people).all()
