import tracemalloc

import numpy as np
import pytest

from dptransfer.exact import capped_similarity as cpu

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

ACTIVE = CAPS["both"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("caps", [CAPS["open"], ACTIVE], ids=["linear", "capped"])
@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize(("panel", "tile"), [(64, 1), (640, 7), (2**23, 1024)])
def test_chunks_panels_tiles_order_and_threads_do_not_change_an_integer(
    monkeypatch, caps, workers, panel, tile, weighted
):
    private, labels, public = problem(2, count=100 if weighted else 300)
    weights = weights_for(len(private), "all different") if weighted else None
    want = expected(private, labels, CLASSES, public, *caps, weights=weights)
    monkeypatch.setattr(cpu, "_PANEL_ELEMENTS", panel)
    monkeypatch.setattr(cpu, "_TILE_ROWS", tile)
    monkeypatch.setattr(cpu, "usable_cores", lambda: workers)
    order = np.random.default_rng(3).permutation(len(private))
    for slab in (1, 5, 1000):
        monkeypatch.setattr(cpu, "_SLAB_ELEMENTS", 2 * slab * private.shape[1])
        own = None if weights is None else weights[order]
        given = (private[order], labels[order], CLASSES, public, *caps)
        assert (class_similarity(*given, weights=own) == want).all()


def test_weighted_sums_beyond_float64_are_exact():
    given, weights, total = beyond_float64()
    for caps in ((0, 2 * ONE), (0, 2 * ONE - 1)):  # without a cap, and with one that no product reaches
        assert class_similarity(*given, *caps, weights=weights).item() == total


def test_one_float64_product_would_not_be_exact_there(monkeypatch):
    given, weights, total = beyond_float64()
    monkeypatch.setattr(cpu, "exact_parts", lambda sums: [sums])
    assert class_similarity(*given, 0, 2 * ONE, weights=weights).item() != total


@pytest.mark.parametrize("classes", [1, 3, 300])
def test_hierarchical_from_none_to_all_give_the_same_integers(classes):
    private, _, public = problem(5, count=250)
    for labels in (
        np.arange(len(private)) % classes,
        np.full(len(private), classes - 1),
        np.minimum(np.arange(len(private)) // 3, classes - 1),
    ):
        got = class_similarity(private, labels, classes, public, *ACTIVE)
        assert (got == expected(private, labels, classes, public, *ACTIVE)).all()


@pytest.mark.parametrize("norm", [2047, 127])
@pytest.mark.parametrize("kind", adversarial()[0])
def test_adversarial_rows_give_the_integers_of_the_definition(kind, norm):
    rows, candidates = adversarial(norm)
    private, precision = rows[kind], "float16" if norm == 2047 else "int8"
    labels = np.full(len(private), 2)  # all classes but one are empty
    for caps in ((0, 2 * norm**2), (norm**2 - norm, 2 * norm**2), (norm**2 - 77, norm**2 + 55)):
        got = class_similarity(private, labels, CLASSES, candidates, *caps, precision=precision)
        assert (got == expected(private, labels, CLASSES, candidates, *caps, precision)).all()


def test_sums_in_float32_would_not_be_exact_on_those_rows():
    """The comparisons above can fail: without the wide sums these rows give other integers."""
    rows, candidates = adversarial()
    dots = candidates.astype(np.float32) @ rows["equal rows"].astype(np.float32).T
    exact = candidates @ rows["equal rows"].T
    assert (dots == exact).all()
    assert (dots.cumsum(axis=1)[:, -1] != exact.sum(axis=1)).any()


def test_the_closed_form_without_caps_is_the_capped_sum():
    private, labels, public = problem(4)
    rows = cpu.ClassRows(private, labels, CLASSES)
    linear = cpu.LinearSums(rows, ONE)(public)
    capped = cpu.CappedSums(rows, -ONE, ONE)(public)
    assert (linear == capped).all()
    assert (linear == expected(private, labels, CLASSES, public, 0, 2 * ONE)).all()
    narrow = cpu.CappedSums(rows, -ONE + 1, ONE)(public)
    assert (linear != narrow).any()


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.float32])
def test_rows_of_any_type_give_the_same_integers(dtype):
    private, labels, public = problem(6, norm=127)
    caps = (127**2 - 900, 127**2 + 3_333)
    want = expected(private, labels, CLASSES, public, *caps, "int8")
    got = class_similarity(
        private.astype(dtype), labels, CLASSES, public.astype(dtype), *caps, precision="int8"
    )
    assert (got == want).all()


def test_a_memory_mapped_pool_is_scored_like_an_array(tmp_path, monkeypatch):
    private, labels, public = problem(7)
    monkeypatch.setattr(cpu, "_SLAB_ELEMENTS", 3 * private.shape[1])
    np.save(tmp_path / "pool.npy", public.astype(np.int16))
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    got = class_similarity(private, labels, CLASSES, mapped, *ACTIVE)
    assert (got == expected(private, labels, CLASSES, public, *ACTIVE)).all()


def peak_bytes(count, candidates, width, caps, weighted):
    rng = np.random.default_rng(0)
    private = rng.integers(-20, 20, (count, width)).astype(np.int8)
    public = rng.integers(-20, 20, (candidates, width)).astype(np.int8)
    labels = rng.integers(0, 3, count)
    weights = weights_for(count, "all different") if weighted else None
    tracemalloc.start()
    try:
        result = class_similarity(private, labels, 3, public, *caps, weights=weights)
        return tracemalloc.get_traced_memory()[1] - result.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("weighted", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("caps", [CAPS["open"], ACTIVE], ids=["linear", "capped"])
def test_extra_memory_stays_below_the_stated_constant(monkeypatch, caps, weighted):
    """With panels, slabs and tiles a sixty-fourth of their size, so must be the peak, whatever the sizes."""
    for name, value in (("PANEL", 2**17), ("SLAB", 2**15)):
        monkeypatch.setattr(cpu, f"_{name}_ELEMENTS", value)
    for name in ("_TILE_ROWS", "_SLAB_ROWS"):
        monkeypatch.setattr(cpu, name, 128)
    monkeypatch.setattr(cpu, "usable_cores", lambda: 3)
    stated = (cpu.PANEL_BYTES + 3 * cpu.THREAD_BYTES) // 64
    shapes = [(20_000, 400, 64), (400, 20_000, 64), (3_000, 3_000, 256)]
    for count, candidates, width in [(3_000, 2_500, 64)] if weighted else shapes:
        assert count * candidates * 4 > 10 * stated  # the full matrix would not pass
        assert peak_bytes(count, candidates, width, caps, weighted) <= stated


def test_few_public_rows_still_give_every_thread_a_share():
    assert cpu._slab_rows(10, 1280, workers=4) == 3
    assert cpu._slab_rows(10**6, 1280, workers=4) == 512
    assert cpu._slab_rows(10**6, 16_384, workers=4) == 128
    assert cpu._slab_rows(0, 1280, workers=4) == 1


@pytest.mark.parametrize(("norm", "rows"), [(127, 8_000_000), (2047, 2_000)])
@pytest.mark.parametrize("width", [1, 256, 768])
def test_float32_holds_the_products_of_both_parts(norm, rows, width):
    """At the most rows for which class sums are cut in two, in the directions that are longest then."""
    most = rows
    while cpu._float32_part(2 * most, width, norm) is not None:
        most *= 2
    part = cpu._float32_part(most, width, norm)
    while part is None:
        most = most * 9 // 10
        part = cpu._float32_part(most, width, norm)
    along, across = np.zeros(width), np.full(width, part - 1)
    along[0] = norm * most
    for sums in (along, -along, across, -np.ones(width)):
        for one in cpu.exact_parts(sums, part):
            assert norm * np.linalg.norm(one) <= 2**24
    assert norm * np.linalg.norm(along) > 2**24  # in one part it would not hold them


def test_sums_of_many_equal_rows_on_the_int8_grid_are_exact():
    rows = np.zeros((2047, 3), dtype=np.int8)
    rows[:, 0] = 127
    total = 2047 * 127**2
    assert total != int(np.float32(total))  # odd and above 2²⁴
    own = cpu.ClassRows(rows, np.zeros(2047, dtype=np.int64), 1)
    got = cpu.CappedSums(own, 0, 127**2, precision="int8")(rows[:1])
    assert got.item() == total
