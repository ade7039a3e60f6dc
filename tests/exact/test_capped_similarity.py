import tracemalloc

import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.exact import capped_similarity as cpu
from dptransfer.exact.capped_similarity import ClassSimilarity

from .problems import (
    CAPS,
    CLASSES,
    DEVICES,
    ONE,
    PRECISIONS,
    adversarial,
    beyond_float64,
    class_similarity,
    expected,
    problem,
    weights_for,
)

ACTIVE = CAPS["both"]


def test_the_definition_gives_a_worked_example():
    """By hand: products 3·1 + 4·2 = 11 and −11, on a grid of norm 5, capped to [20, 30]."""
    private, labels = [[3, 4], [-3, -4], [3, 4]], [0, 0, 2]
    assert expected(private, labels, 3, [[1, 2]], low=20, high=30, one=25).tolist() == [[10, 0, 10]]
    assert expected(private, labels, 3, [[1, 2]], low=0, high=50, one=25).tolist() == [[50, 0, 36]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["none", "some", "all different"])
@pytest.mark.parametrize("caps", CAPS.values(), ids=CAPS)
def test_scores_are_those_of_python_integers(caps, kind, device):
    private, labels, public = problem(0)
    weights = weights_for(len(private), kind)
    for slab in (None, 1, 7):
        about = {"weights": weights, "device": device, "slab": slab}
        got = class_similarity(private, labels, CLASSES, public, *caps, **about)
        assert got.dtype == np.int64
        assert (got == expected(private, labels, CLASSES, public, *caps, weights=weights)).all()
        assert not got[:, 2].any()


@pytest.mark.parametrize("caps", [CAPS["open"], ACTIVE], ids=["linear", "capped"])
@pytest.mark.parametrize(("rows", "candidates"), [(0, 2), (3, 0)])
def test_no_private_rows_or_no_candidates_are_ordinary(rows, candidates, caps):
    private, public = np.ones((rows, 3), dtype=np.int16), np.ones((candidates, 3), dtype=np.int16)
    got = class_similarity(private, np.zeros(rows, dtype=np.int64), CLASSES, public, *caps)
    assert got.shape == (candidates, CLASSES)
    assert (got == expected(private, [0] * rows, CLASSES, public, *caps)).all()


def test_bad_arguments_are_refused_with_what_to_do():
    row, label = np.array([[1, 2]]), np.array([0])
    with pytest.raises(ArgumentError, match="precision"):
        ClassSimilarity(row, label, 1, 0, 10, precision="float8")
    with pytest.raises(ArgumentError, match="below"):
        ClassSimilarity(row, label, 1, 10, 10)
    with pytest.raises(ArgumentError, match="same features"):
        class_similarity(row, label, 1, np.array([[1, 2, 3]]), 0, 10)
    with pytest.raises(ArgumentError, match="labels"):
        class_similarity(row, np.array([0, 1]), 2, row, 0, 10)
    with pytest.raises(ArgumentError, match="weights"):
        class_similarity(row, label, 1, row, 0, 10, weights=np.array([1, 1]))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("caps", [CAPS["open"], ACTIVE], ids=["linear", "capped"])
@pytest.mark.parametrize(("panel", "tile", "workers"), [(64, 1, 2), (640, 7, 5), (2**23, 1024, 1)])
def test_chunks_panels_tiles_order_and_threads_do_not_change_an_integer(
    monkeypatch, caps, workers, panel, tile, weighted
):
    private, labels, public = problem(2, count=100 if weighted else 300)
    weights = weights_for(len(private), "all different" if weighted else "none")
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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("caps", [(0, 2 * ONE), (0, 2 * ONE - 1)], ids=["none", "one that nothing reaches"])
def test_weighted_sums_beyond_float64_are_exact(caps, device):
    given, weights, total = beyond_float64()
    assert class_similarity(*given, *caps, weights=weights, device=device).item() == total


def test_one_float64_product_would_not_be_exact_there(monkeypatch):
    given, weights, total = beyond_float64()
    monkeypatch.setattr(cpu, "exact_parts", lambda sums: [sums])
    assert class_similarity(*given, 0, 2 * ONE, weights=weights).item() != total


def test_classes_from_none_to_all_give_the_same_integers():
    classes = 300
    private, _, public = problem(5, count=250)
    for labels in (
        np.arange(len(private)) % classes,
        np.full(len(private), classes - 1),
        np.minimum(np.arange(len(private)) // 3, classes - 1),
    ):
        got = class_similarity(private, labels, classes, public, *ACTIVE)
        assert (got == expected(private, labels, classes, public, *ACTIVE)).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("norm", [2047, 127])
@pytest.mark.parametrize("kind", adversarial()[0])
def test_adversarial_rows_give_the_integers_of_the_definition(kind, norm, device):
    rows, candidates = adversarial(norm, width=48 if device == "cpu" else 1280)
    private, precision = rows[kind], PRECISIONS[norm]
    labels = np.full(len(private), 2)  # all classes but one are empty
    for caps in ((0, 2 * norm**2), (norm**2 - norm, 2 * norm**2), (norm**2 - 77, norm**2 + 55)):
        given = (private, labels, CLASSES, candidates, *caps)
        got = class_similarity(*given, precision=precision, device=device)
        assert (got == expected(*given, precision)).all()


def test_sums_in_float32_would_not_be_exact_on_those_rows():
    """The comparisons above can fail: without the wide sums these rows give other integers."""
    rows, candidates = adversarial()
    dots = candidates.astype(np.float32) @ rows["equal rows"].astype(np.float32).T
    exact = candidates @ rows["equal rows"].T
    assert (dots == exact).all()
    assert (dots.cumsum(axis=1)[:, -1] != exact.sum(axis=1)).any()


@pytest.mark.parametrize("device", DEVICES)
def test_a_memory_mapped_pool_is_scored_like_an_array(tmp_path, monkeypatch, device):
    private, labels, public = problem(7, candidates=25 if device == "cpu" else 5_000)
    monkeypatch.setattr(cpu, "_SLAB_ELEMENTS", 3 * private.shape[1])
    np.save(tmp_path / "pool.npy", public.astype(np.int16))
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    got = class_similarity(private, labels, CLASSES, mapped, *ACTIVE, device=device, slab=300)
    assert (got == expected(private, labels, CLASSES, public, *ACTIVE)).all()


def peak_bytes(count, candidates, width, caps, weighted):
    rng = np.random.default_rng(0)
    private = rng.integers(-20, 20, (count, width)).astype(np.int8)
    public = rng.integers(-20, 20, (candidates, width)).astype(np.int8)
    labels = rng.integers(0, 3, count)
    weights = weights_for(count, "all different" if weighted else "none")
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
    assert cpu.CappedSums(own, 0, 127**2, precision="int8")(rows[:1]).item() == total
