"""Every map: bounded integers of a row alone, on any thread and device, and back from a release."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from contracts.floating_point import flushing, needs_flags
from contracts.rows import rows, squared_length, steady
from dptransfer.data import PublicEmbeddings, Vocabulary
from dptransfer.errors import ArgumentError, DataError
from dptransfer.exact import chunks, feature_map
from dptransfer.exact.feature_map import (
    STRETCHES,
    FittedSideBySide,
    FittedUnitNorm,
    OnLattice,
    UnitNorm,
    apply,
    apply_on_device,
    describe,
    lattice_floats,
    lattice_on_device,
    mapped_on_cuda,
    read_features,
    within,
)
from dptransfer.exact.lattice import unit_lattice, unit_lattice_on_device
from dptransfer.exact.public_map import FittedSpan, PublicMap
from dptransfer.exact.vocabulary_map import FittedVocabularyMap, VocabularyMap

from .test_lattice import does_not_depend_on_the_batch, extreme_rows, just_above_whole_numbers, not_finite

WIDTH = 6
NORMS = st.sampled_from([1, 127, 2047, 2**26, 2**30])


def words(width=WIDTH, *, unit_rows=False, count=40):
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(count, width)) * (20.0 if unit_rows else 0.5)
    return Vocabulary(tuple(f"word {n}" for n in range(count)), weights, rng.normal(size=count), unit_rows)


def pool(width=WIDTH, *, non_negative=False):
    x = np.random.default_rng(0).normal(size=(300, width)) @ np.diag(np.geomspace(3, 0.1, width)) + 0.3
    return PublicEmbeddings((np.abs(x) if non_negative else x).astype(np.float32), vocabulary=words(width))


def maps(width):
    public = PublicMap(axes=min(16, width - 2)).fit(width, pool(width))
    return {
        "unit norm": UnitNorm().fit(width, None),
        "pooled": UnitNorm(pool=4).fit(width, None),
        "public map": public,
        "rooted public map": PublicMap(axes=3).fit(width, pool(width, non_negative=True)),
        "words": FittedVocabularyMap.of(words(width)),
        "words of unit rows": FittedVocabularyMap.of(words(width, unit_rows=True)),
        "side by side": FittedSideBySide(public, UnitNorm(pool=2).fit(width, None)),
        "span": FittedSpan.of(np.random.default_rng(4).normal(size=(3, width))),
    }


MAPS, WIDE = maps(WIDTH), maps(48)
ON_DEVICE = [name for name in MAPS if "words" not in name]


def some_rows(count=300, width=48, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, width)) * 10.0 ** rng.integers(-3, 3, (count, 1))


@pytest.mark.parametrize("name", MAPS)
@steady
@given(array=rows(WIDTH))
def test_rows_of_any_kind_are_mapped_within_the_norm_without_a_word(name, array):
    for norm in (1, 2, 2047, 2**30):
        assert all(squared_length(row) <= norm**2 for row in MAPS[name].lattice(array, norm))


@pytest.mark.parametrize("name", WIDE)
def test_a_row_gets_the_same_integers_in_every_batch(name):
    norm, fitted, x, rng = 2**30, WIDE[name], some_rows().astype(np.float32), np.random.default_rng(2)
    assert does_not_depend_on_the_batch(lambda some: fitted.lattice(some, norm), x, rng)
    assert not does_not_depend_on_the_batch(lambda some: fitted.lattice(some - some.mean(0), norm), x, rng)


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("elements", [1, 2**12])
def test_chunks_and_threads_do_not_change_an_integer(monkeypatch, name, elements):
    x = some_rows(500)
    want = WIDE[name].lattice(x, 2**30)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert (WIDE[name].lattice(x, 2**30) == want).all()


@pytest.mark.parametrize("features", [UnitNorm(), UnitNorm(pool=4), PublicMap(axes=3), VocabularyMap()])
def test_a_map_has_the_width_it_said(features):
    fitted = features.fit(WIDTH, pool())
    assert fitted.input_dimension == WIDTH
    assert (
        fitted.dimension == features.output_dimension(WIDTH, pool()) == fitted.lattice(np.eye(6), 9).shape[1]
    )


@pytest.mark.parametrize("name", MAPS)
def test_a_map_comes_back_from_a_release_and_with_changed_arrays_does_not(name):
    fitted, x = MAPS[name], some_rows(width=WIDTH)
    again = read_features(fitted.arrays(), describe(fitted))
    assert (again.lattice(x, 2**30) == fitted.lattice(x, 2**30)).all()
    assert getattr(again, "identity", None) == getattr(fitted, "identity", None)
    for key, array in fitted.arrays().items():
        with pytest.raises(DataError, match="identity"):
            read_features({**fitted.arrays(), key: array + np.int32(array == array.min())}, describe(fitted))


@pytest.mark.parametrize("shape", [(4, 5), (4, 6, 1)])
def test_rows_of_another_shape_are_refused(shape):
    with pytest.raises(DataError, match="6"):
        apply(MAPS["unit norm"], np.zeros(shape))


def test_an_unknown_kind_is_refused():
    with pytest.raises(ArgumentError, match="kind"):
        read_features({}, {"kind": "magic"})


def test_without_pooling_it_is_the_unit_lattice_and_pooling_averages_neighbours():
    array = np.random.default_rng(0).normal(size=(9, WIDTH))
    assert (MAPS["unit norm"].lattice(array, 2**30) == unit_lattice(array, 2**30)).all()
    made = FittedUnitNorm(5, pool=2).lattice(np.array([[1.0, 3.0, 0.0, 0.0, 3.0]]), 10**6)
    assert np.abs(made - np.array([[800_000, 0, 600_000]])).max() <= 2  # the last group may be smaller


def test_each_side_is_its_own_map_and_a_bit_shorter():
    pair, x = MAPS["side by side"], some_rows(width=WIDTH)
    got, cut = apply(pair, x), pair.first.dimension
    assert np.abs(STRETCHES[0] * got[:, :cut] - apply(pair.first, x)).max() < 1e-8
    assert np.abs(STRETCHES[1] * got[:, cut:] - apply(pair.second, x)).max() < 1e-8
    assert pair.dimension == got.shape[1] == cut + 3


def test_damaged_pairs_are_refused():
    pair = MAPS["side by side"]
    told = describe(pair)
    with pytest.raises(ValueError, match="pairs"):
        read_features(pair.arrays(), {**told, "second": told})
    with pytest.raises(ValueError, match="same rows"):
        read_features(pair.arrays(), {**told, "second": {**told["second"], "input_dimension": 5}})


# Rows that are on the lattice already

whole = st.one_of(
    st.integers(-12, 12), st.sampled_from([-(2**63), 2**63 - 1, 2**62, 2**32, 2**30, 2**30 - 1, -(2**16)])
)


@steady
@given(st.lists(st.tuples(whole, whole, whole), max_size=6), st.sampled_from([10, 2**16, 2**30]))
def test_no_row_beyond_the_norm_passes_and_all_others_do(drawn, norm):
    array = np.array(drawn, dtype=np.int64).reshape(-1, 3)
    made, floats = OnLattice(3, norm).lattice(array, norm), OnLattice(3, norm).floats(array, norm)
    for got, row in zip(made, array, strict=True):
        assert (got == (row if squared_length(row) <= norm**2 else 0)).all()
    assert floats.dtype == np.float64
    assert (floats == made).all()


@pytest.mark.parametrize("dimension", [7, 16, 2**14])
@pytest.mark.parametrize("entry", [2**30 + 1, 2**32, 2**62, -(2**63)])
def test_a_long_row_does_not_pass_because_its_squares_wrap_around(dimension, entry):
    row = np.full((1, dimension), entry, dtype=np.int64)
    for norm in (2**16, 2**30):
        assert not OnLattice(dimension, norm).lattice(row, norm).any()


def test_plain_squares_would_let_such_rows_pass():
    for dimension, entry in ((3, 2**32), (16, 2**30 + 1)):
        row = np.full((1, dimension), entry, dtype=np.int64)
        assert np.einsum("ij,ij->i", row, row)[0] <= 2**60 < squared_length(row)


@pytest.mark.parametrize("dimension", [1, 2**14])
def test_a_row_that_reaches_the_norm_exactly_passes_and_one_step_more_does_not(dimension):
    row = np.full((2, dimension), 2**30 // int(dimension**0.5), dtype=np.int64)
    row[1, 0] += 1
    assert squared_length(row[0]) == 2**60
    assert (OnLattice(dimension, 2**30).lattice(row, 2**30).any(axis=1) == [True, False]).all()


def test_another_norm_or_floats_are_refused():
    ten = OnLattice(2, norm=10)
    for ask in (ten.lattice, ten.floats):
        with pytest.raises(ArgumentError, match="norm 10"):
            ask(np.zeros((1, 2), dtype=np.int64), 11)
        with pytest.raises(ArgumentError, match="integers"):
            ask(np.full((1, 2), 0.5), 10)
    for dimension, norm in ((2, 0), (2, 2**30 + 1), (2**14 + 1, 5)):
        with pytest.raises(ArgumentError):
            OnLattice(dimension, norm)


@pytest.mark.parametrize("dtype", [np.int16, np.int64])
def test_floats_take_any_width_of_integer_and_leave_it_as_it_was(dtype):
    given = np.array([[300, -400], [30000, 30000], [0, 0]], dtype=dtype)
    before = given.copy()
    floats = OnLattice(2, norm=500).floats(given, 500)
    assert floats.tolist() == [[300.0, -400.0], [0.0, 0.0], [0.0, 0.0]]
    floats += 1
    assert (given == before).all()


def test_mapped_rows_are_the_same_floats_with_and_without_the_detour():
    x = some_rows(20, WIDTH)
    wanted = MAPS["unit norm"].lattice(x, 2**16)
    assert (lattice_floats(MAPS["unit norm"], x, 2**16) == wanted).all()
    assert (lattice_floats(OnLattice(WIDTH, 2**16), wanted.astype(np.int32), 2**16) == wanted).all()


# In torch: on its CPU, and with a CUDA device also there (pytest -m gpu tests/exact)

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


class Doubling:
    """A map without a route to devices."""

    input_dimension = dimension = WIDTH

    def lattice(self, array, norm):
        return unit_lattice(array * np.arange(1, 1 + WIDTH), norm)


def same(features, array, norm, device="cpu"):
    import torch

    there = torch.from_numpy(array).to(device)
    got = lattice_on_device(features, norm, device)(there).cpu().numpy()
    return (got.astype(np.int64) == features.lattice(array, norm)).all()


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MAPS)
@steady
@given(array=rows(WIDTH), norm=NORMS)
def test_torch_gives_the_integers_of_numpy_for_rows_of_any_kind(name, device, array, norm):
    assert same(MAPS[name], array, norm, device)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
@pytest.mark.parametrize("features", [*MAPS.values(), Doubling()], ids=[*MAPS, "of another kind"])
def test_torch_gives_the_integers_of_numpy_for_many_rows_of_every_type(features, dtype):
    array = (np.random.default_rng(1).normal(size=(3000, WIDTH)) * 40).astype(dtype)
    assert same(features, array, 2**30)


@needs_flags
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("setting", [nullcontext, flushing])
def test_rows_that_a_flag_could_change_give_the_same_integers(torch, dtype, setting, device):
    bad = np.repeat(not_finite(dtype)[:, None], WIDTH, axis=1)
    array = np.vstack([extreme_rows(40, dtype)[:, :WIDTH], bad])
    wanted = {name: MAPS[name].lattice(array, 2**30) for name in ON_DEVICE}
    with setting():
        for name, want in wanted.items():
            got = lattice_on_device(MAPS[name], 2**30, device)(torch.from_numpy(array).to(device))
            assert (got.cpu().numpy() == want).all()


def test_a_float32_map_would_be_caught(torch):
    array = np.random.default_rng(1).normal(size=(300, WIDTH))
    rounded = torch.from_numpy(array.astype(np.float32))
    assert (unit_lattice_on_device(rounded, 2**30).numpy() != unit_lattice(array, 2**30)).any()


@pytest.mark.parametrize("name", MAPS)
def test_mapped_floats_are_those_of_apply(torch, name):
    array = some_rows(50, WIDTH)
    assert (
        apply_on_device(MAPS[name], "cpu")(torch.from_numpy(array)).numpy() == apply(MAPS[name], array)
    ).all()


def test_rows_beyond_their_norm_become_zeros_as_on_the_cpu(torch):
    array = np.rint(np.random.default_rng(3).normal(size=(200, 5)) * 2**15).astype(np.int64)
    array[:4] = [[2**16, 0, 0, 0, 0], [2**16, 1, 0, 0, 0], [2**40, 2**40, 0, 0, 0], [-(2**16), 0, 0, 0, 0]]
    wanted = OnLattice(5, 2**16).lattice(array, 2**16)
    assert 10 < (~wanted.any(axis=1)).sum() < 190
    assert (within(torch.from_numpy(array).double(), 2**16).numpy() == wanted).all()


def test_what_a_grain_took_off_comes_back_on_a_device_too(torch):
    row, norm = just_above_whole_numbers(), 2**50
    found = unit_lattice_on_device(torch.from_numpy(row), norm)[0].numpy()
    assert (found == unit_lattice(row, norm)[0]).all()
    assert squared_length(found) <= norm**2


@pytest.mark.gpu
@pytest.mark.parametrize("elements", [1, 64, 2**23])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.dtype(">f4")])
def test_a_gpu_maps_rows_that_cannot_be_written_in_slabs_of_any_size(torch, monkeypatch, elements, dtype):
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
def test_cuda_gives_the_integers_of_numpy_for_many_wide_rows():
    array = np.random.default_rng(4).normal(size=(20_000, 1280)).astype(np.float32)
    public = PublicMap(axes=256).fit(1280, PublicEmbeddings(array[:3000]))
    for features in (UnitNorm().fit(1280, None), UnitNorm(pool=3).fit(1280, None), public):
        assert same(features, array, 2**30, "cuda")
