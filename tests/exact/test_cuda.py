import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import steady
from dptransfer.exact import capped_similarity as cpu
from dptransfer.exact import similarity_cuda as cuda
from dptransfer.exact.capped_similarity import ClassSimilarity
from dptransfer.exact.lattice import unit_lattice

from .problems import (
    CAPS,
    CLASSES,
    ONE,
    adversarial,
    beyond_float64,
    class_similarity,
    expected,
    problem,
    weights_for,
)


@steady
@given(st.lists(st.sampled_from([0, 0, 1, 2, 3, 4, 5, 8, 9, 40]), min_size=1, max_size=12), st.integers(1, 9))
def test_runs_cover_every_row_of_every_class_once(sizes, tile):
    whole, first, owner, end = cuda.tile_runs(np.array(sizes), tile)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    assert len(whole) == len(first) - 1 == -(-len(rows) // tile)
    for number, lone in enumerate(whole):
        inside = rows[number * tile : (number + 1) * tile]
        runs = slice(first[number], first[number + 1])
        rebuilt = np.repeat(owner[runs], np.diff(end[runs], prepend=0))
        assert rebuilt.tolist() == inside.tolist()
        assert (lone >= 0) == (len(inside) == tile and len(set(inside)) == 1)
        assert lone in (-1, inside[0])
    assert len(owner) <= len(whole) + len(sizes)  # no blow-up, whatever the sizes


# What follows runs on a machine with a CUDA device: pytest -m gpu tests/compute


def on_cuda(*arguments, slab=None, **options):
    """The scores, with so many public rows in a slab."""
    with pytest.MonkeyPatch.context() as patch:
        if slab is not None:
            patch.setattr(cuda, "_SLAB_BYTES", 2 * slab * arguments[3].shape[1])
        return class_similarity(*arguments, device="cuda", **options)


@pytest.mark.gpu
@pytest.mark.parametrize("caps", CAPS.values(), ids=CAPS)
def test_cuda_gives_the_integers_of_the_definition(caps):
    private, labels, public = problem(0)
    for slab in (None, 1, 7):
        got = on_cuda(private, labels, CLASSES, public, *caps, slab=slab)
        assert (got == expected(private, labels, CLASSES, public, *caps)).all()


@pytest.mark.gpu
@pytest.mark.parametrize("norm", [2047, 127])
@pytest.mark.parametrize("kind", adversarial()[0])
def test_cuda_gives_the_integers_of_the_definition_on_adversarial_rows(kind, norm):
    rows, candidates = adversarial(norm, width=1280)
    private, precision = rows[kind], "float16" if norm == 2047 else "int8"
    labels = np.full(len(private), 2)
    for caps in ((0, 2 * norm**2), (norm**2 - norm, 2 * norm**2), (norm**2 - 77, norm**2 + 55)):
        got = on_cuda(private, labels, CLASSES, candidates, *caps, precision=precision)
        assert (got == expected(private, labels, CLASSES, candidates, *caps, precision)).all()


SIZES = {
    "balanced": [600] * 5,
    "long tail": [5, 6, 8, 12, 30, 77, 300, 500, 0, 1, 255, 256, 257],
    "one row": [1],
    "one class": [0, 0, 2000, 0],
    "many small": [3] * 400,
    "one row each": [1] * 60,
}


@pytest.mark.gpu
@pytest.mark.parametrize("norm", [2047, 127])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("width", [1280, 100, 17])
def test_cuda_and_cpu_give_the_same_integers_for_all_class_sizes_and_widths(sizes, norm, width):
    rng = np.random.default_rng(len(sizes) + width)
    precision = "float16" if norm == 2047 else "int8"
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    private = unit_lattice(rng.normal(size=(len(labels), width)) + 0.2, norm)
    public = unit_lattice(rng.normal(size=(777, width)) + 0.2, norm)
    for low, high in ((0, 2 * norm**2), (norm**2 + norm**2 // 50, norm**2 + norm**2 // 10)):
        want = class_similarity(private, labels, len(sizes), public, low, high, precision=precision)
        for slab in (None, 100):
            got = on_cuda(private, labels, len(sizes), public, low, high, precision=precision, slab=slab)
            assert (got == want).all()


@pytest.mark.gpu
@pytest.mark.parametrize("norm", [2047, 127])
@pytest.mark.parametrize("kind", ["some", "all different"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_cuda_and_cpu_give_the_same_integers_for_weighted_rows(sizes, kind, norm):
    rng = np.random.default_rng(len(sizes))
    precision = "float16" if norm == 2047 else "int8"
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    private = unit_lattice(rng.normal(size=(len(labels), 100)) + 0.2, norm)
    public = unit_lattice(rng.normal(size=(777, 100)) + 0.2, norm)
    weights = weights_for(len(labels), kind)
    # The second pair of caps counts zero rows, such as fill up the last tile.
    for low, high in ((0, 2 * norm**2), (norm**2 - norm**2 // 50, norm**2 + norm**2 // 10)):
        given = (private, labels, len(sizes), public, low, high)
        want = class_similarity(*given, precision=precision, weights=weights)
        for slab in (None, 100):
            assert (on_cuda(*given, precision=precision, slab=slab, weights=weights) == want).all()


@pytest.mark.gpu
def test_weighted_sums_beyond_float64_are_exact_on_cuda():
    given, weights, total = beyond_float64()
    for caps in ((0, 2 * ONE), (0, 2 * ONE - 1)):
        assert on_cuda(*given, *caps, weights=weights).item() == total


@pytest.mark.gpu
@pytest.mark.parametrize("weights", [None, np.arange(300)])
def test_rows_longer_than_the_norm_are_zeros_on_cuda_too(weights):
    rng = np.random.default_rng(0)
    private = unit_lattice(rng.normal(size=(300, 64)), 127)
    public = unit_lattice(rng.normal(size=(50, 64)), 127).astype(np.int8)
    public[[4, 7]] = 127
    given = (private, np.arange(300) % 3, 3, 0, 2 * 127**2, "int8")
    want = ClassSimilarity(*given, "cpu", weights, any_length=True)(public)
    assert (ClassSimilarity(*given, "cuda", weights, any_length=True)(public) == want).all()


@pytest.mark.gpu
def test_tensors_on_the_device_are_used_there_without_being_asked():
    import torch

    private, labels, public = problem(3, count=900, candidates=300, width=64)
    want = class_similarity(private, labels, CLASSES, public, *CAPS["both"])
    there = torch.from_numpy(public).cuda().half()
    for x, y in ((private, labels), (torch.from_numpy(private).cuda(), torch.from_numpy(labels).cuda())):
        assert (class_similarity(x, y, CLASSES, there, *CAPS["both"]) == want).all()


@pytest.mark.gpu
def test_a_memory_mapped_pool_streams_through_the_device(tmp_path):
    private, labels, public = problem(4, count=500, candidates=5_000, width=48)
    np.save(tmp_path / "pool.npy", public.astype(np.int16))
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    want = cpu.CappedSums(cpu.ClassRows(private, labels, CLASSES), -500_000, 900_000)(public)
    got = on_cuda(private, labels, CLASSES, mapped, ONE - 500_000, ONE + 900_000, slab=300)
    assert (got == want).all()


@pytest.mark.gpu
@steady
@given(st.data())
def test_one_more_row_raises_each_score_of_its_class_by_a_whole_number_in_the_range_on_cuda(data):
    norm = data.draw(st.sampled_from([2047, 127]))
    precision = "float16" if norm == 2047 else "int8"
    private, labels, public = problem(data.draw(st.integers(0, 5)), count=8, norm=norm)
    low = data.draw(st.integers(0, 2 * norm**2 - 1))
    high = data.draw(st.integers(low + 1, 2 * norm**2))
    new = unit_lattice(np.array([data.draw(st.lists(st.floats(-3, 3), min_size=12, max_size=12))]), norm)
    label = data.draw(st.integers(0, CLASSES - 1))
    before = on_cuda(private, labels, CLASSES, public, low, high, precision=precision)
    more, owners = np.vstack([private, new]), np.append(labels, label)
    moved = on_cuda(more, owners, CLASSES, public, low, high, precision=precision) - before
    assert (moved >= 0).all()
    assert (moved <= high - low).all()
    assert not np.delete(moved, label, axis=1).any()


@pytest.mark.gpu
def test_hierarchical_and_caps_do_not_compile_the_kernel_again():
    from dptransfer.exact.similarity_cuda import capped_sums

    private, labels, public = problem(5, count=600)
    on_cuda(private, labels, CLASSES, public, ONE - 5, ONE + 5)
    compiled = sum(len(entry[0]) for entry in capped_sums.device_caches.values())
    on_cuda(private[:333], labels[:333], CLASSES, public[:16], ONE - 16, ONE + 1)
    on_cuda(private, labels % 1, 1, public, ONE, ONE + 7)
    assert sum(len(entry[0]) for entry in capped_sums.device_caches.values()) == compiled
