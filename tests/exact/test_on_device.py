"""The maps in torch against those in NumPy, on torch's CPU; with a CUDA device also there: pytest -m gpu."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.floating_point import flushing, needs_flags
from contracts.rows import LARGEST, NASTY, rows, steady
from dptransfer.data import PublicEmbeddings
from dptransfer.exact import feature_map
from dptransfer.exact.feature_map import (
    OnLattice,
    UnitNorm,
    apply,
    apply_on_device,
    lattice_on_device,
    mapped_on_cuda,
    within,
)
from dptransfer.exact.lattice import unit_lattice, unit_lattice_on_device
from dptransfer.exact.public_map import PublicMap

from .test_lattice import just_above_whole_numbers
from .test_scaled_rows import extreme_rows, not_finite

torch = pytest.importorskip("torch")

WIDTH = 5
POOL = PublicEmbeddings(np.random.default_rng(0).normal(size=(40, WIDTH)))
MAPS = {
    "unit norm": UnitNorm().fit(WIDTH, None),
    "pooled": UnitNorm(pool=2).fit(WIDTH, None),
    "public map": PublicMap(axes=3).fit(WIDTH, POOL),
    "rooted public map": PublicMap(axes=3).fit(WIDTH, PublicEmbeddings(np.abs(POOL.rows))),
}
NORMS = st.sampled_from([1, 127, 2047, 2**26, 2**30])


class Doubling:
    """A map that `on_device` does not know."""

    input_dimension = dimension = WIDTH

    def lattice(self, array, norm):
        return unit_lattice(array * [1, 2, 3, 4, 5], norm)


def same(features, array, norm, device="cpu"):
    there = torch.from_numpy(array).to(device)
    got = lattice_on_device(features, norm, device)(there).cpu().numpy()
    return (got.astype(np.int64) == features.lattice(array, norm)).all()


@pytest.mark.parametrize("name", MAPS)
@steady
@given(array=rows(WIDTH), norm=NORMS)
def test_torch_gives_the_integers_of_numpy_for_rows_of_any_kind(name, array, norm):
    assert same(MAPS[name], array, norm)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64])
def test_torch_gives_the_integers_of_numpy_for_many_rows_of_every_type(name, dtype):
    array = (np.random.default_rng(1).normal(size=(3000, WIDTH)) * 40).astype(dtype)
    assert same(MAPS[name], array, 2**30)


def test_single_and_mixed_extremes_give_the_same_integers():
    values = [*NASTY, 2.0**1023, 2.0**-1074 * 3, 2.0**-1021, LARGEST / 3]
    array = np.array([[a, b] for a in values for b in values])
    for norm in (127, 2**30):
        with np.errstate(all="ignore"):
            want = unit_lattice(array, norm)
        assert (unit_lattice_on_device(torch.from_numpy(array), norm).numpy() == want).all()


def hard_rows(dtype):
    bad = np.repeat(not_finite(dtype)[:, None], WIDTH, axis=1)
    return np.vstack([extreme_rows(40, dtype)[:, :WIDTH], bad])


@needs_flags
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("setting", [nullcontext, flushing])
def test_rows_that_a_flag_could_change_give_the_same_integers(dtype, setting):
    array = hard_rows(dtype)
    wanted = {name: one.lattice(array, 2**30) for name, one in MAPS.items()}
    with setting():
        for name, one in MAPS.items():
            got = lattice_on_device(one, 2**30, "cpu")(torch.from_numpy(array)).numpy()
            assert (got == wanted[name]).all()


def test_a_float32_map_would_be_caught():
    array = np.random.default_rng(1).normal(size=(300, WIDTH))
    rounded = torch.from_numpy(array.astype(np.float32))
    assert (unit_lattice_on_device(rounded, 2**30).numpy() != unit_lattice(array, 2**30)).any()


def test_a_map_that_is_not_known_is_applied_on_the_cpu():
    assert same(Doubling(), np.random.default_rng(2).normal(size=(20, WIDTH)), 2047)


@pytest.mark.parametrize("name", MAPS)
def test_mapped_floats_are_those_of_apply(name):
    array = np.random.default_rng(3).normal(size=(50, WIDTH))
    got = apply_on_device(MAPS[name], "cpu")(torch.from_numpy(array)).numpy()
    assert (got == apply(MAPS[name], array)).all()


def test_rows_beyond_their_norm_become_zeros_as_on_the_cpu():
    rng = np.random.default_rng(3)
    array = np.rint(rng.normal(size=(200, WIDTH)) * 2**15).astype(np.int64)
    array[:4] = [[2**16, 0, 0, 0, 0], [2**16, 1, 0, 0, 0], [2**40, 2**40, 0, 0, 0], [-(2**16), 0, 0, 0, 0]]
    wanted = OnLattice(WIDTH, 2**16).lattice(array, 2**16)
    assert 10 < (~wanted.any(axis=1)).sum() < 190
    assert (within(torch.from_numpy(array).double(), 2**16).numpy() == wanted).all()


@pytest.mark.gpu
@pytest.mark.parametrize("elements", [1, 64, 2**23])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.dtype(">f4")])
def test_a_gpu_maps_rows_that_cannot_be_written_in_slabs_of_any_size(monkeypatch, elements, dtype):
    monkeypatch.setattr(feature_map, "_SLAB_ELEMENTS", elements)
    array = np.random.default_rng(5).normal(size=(41, WIDTH)).astype(dtype)
    array[3], array[7] = np.nan, 0.0
    array.flags.writeable = False
    for features in (*MAPS.values(), Doubling()):
        for some in (array, array[:0]):
            there = mapped_on_cuda(features, some, 2**16)
            assert there.dtype == torch.float64
            assert (there.cpu().numpy() == features.lattice(some, 2**16)).all()


@pytest.mark.gpu
@pytest.mark.parametrize("name", MAPS)
@steady
@given(array=rows(WIDTH), norm=NORMS)
def test_cuda_gives_the_integers_of_numpy_for_rows_of_any_kind(name, array, norm):
    assert same(MAPS[name], array, norm, "cuda")


@pytest.mark.gpu
def test_cuda_gives_the_integers_of_numpy_for_many_wide_rows():
    rng = np.random.default_rng(4)
    array = rng.normal(size=(20_000, 1280)).astype(np.float32)
    pool = PublicEmbeddings(array[:3000])
    for features in (UnitNorm().fit(1280, None), UnitNorm(pool=3).fit(1280, None)):
        assert same(features, array, 2**30, "cuda")
    assert same(PublicMap(axes=256).fit(1280, pool), array, 2**30, "cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", MAPS)
def test_cuda_gives_the_integers_of_numpy_for_rows_that_a_flag_could_change(name, dtype):
    assert same(MAPS[name], hard_rows(dtype), 2**30, "cuda")


def test_what_a_grain_took_off_comes_back_on_a_device_too():
    row, norm = just_above_whole_numbers(), 2**50
    found = unit_lattice_on_device(torch.from_numpy(row), norm)[0].numpy()
    assert (found == unit_lattice(row, norm)[0]).all()
    assert sum(int(one) ** 2 for one in found) <= norm**2
