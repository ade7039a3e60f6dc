import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import steady
from dptransfer.exact import similarity_cuda as cuda
from dptransfer.exact.capped_similarity import ClassSimilarity
from dptransfer.exact.lattice import unit_lattice

from .problems import (
    CAPS,
    CLASSES,
    ONE,
    PRECISIONS,
    class_similarity,
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


# What follows runs on a machine with a CUDA device: pytest -m gpu tests/exact


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
@pytest.mark.parametrize(
    ("width", "kind"), [(1280, "none"), (100, "none"), (17, "none"), (100, "some"), (100, "all different")]
)
def test_cuda_and_cpu_give_the_same_integers_for_all_class_sizes_widths_and_weights(sizes, norm, width, kind):
    rng = np.random.default_rng(len(sizes) + width)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    private = unit_lattice(rng.normal(size=(len(labels), width)) + 0.2, norm)
    public = unit_lattice(rng.normal(size=(777, width)) + 0.2, norm)
    about = {"precision": PRECISIONS[norm], "weights": weights_for(len(labels), kind)}
    one = norm**2
    # The third pair of caps counts zero rows, such as fill up the last tile.
    for caps in ((0, 2 * one), (one + one // 50, one + one // 10), (one - one // 50, one + one // 10)):
        want = class_similarity(private, labels, len(sizes), public, *caps, **about)
        for slab in (None, 100):
            got = class_similarity(
                private, labels, len(sizes), public, *caps, slab=slab, device="cuda", **about
            )
            assert (got == want).all()


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
def test_tensors_on_the_device_are_used_where_they_are():
    import torch

    private, labels, public = problem(3, count=900, candidates=300, width=64)
    want = class_similarity(private, labels, CLASSES, public, *CAPS["both"])
    there = torch.from_numpy(public).cuda().half()
    for x, y in ((private, labels), (torch.from_numpy(private).cuda(), torch.from_numpy(labels).cuda())):
        assert (class_similarity(x, y, CLASSES, there, *CAPS["both"], device="cuda") == want).all()


@pytest.mark.gpu
def test_classes_and_caps_do_not_compile_the_kernel_again():
    from dptransfer.exact.similarity_cuda import capped_sums

    private, labels, public = problem(5, count=600)
    class_similarity(private, labels, CLASSES, public, ONE - 5, ONE + 5, device="cuda")
    compiled = sum(len(entry[0]) for entry in capped_sums.device_caches.values())
    few = private[:333], labels[:333], CLASSES, public[:16]
    class_similarity(*few, ONE - 16, ONE + 1, device="cuda")
    class_similarity(private, labels % 1, 1, public, ONE, ONE + 7, device="cuda")
    assert sum(len(entry[0]) for entry in capped_sums.device_caches.values()) == compiled
