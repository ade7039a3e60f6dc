"""Where answers are computed, rows streamed through a device, and functions recorded as CUDA graphs."""

import importlib.util

import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.exact import cuda
from dptransfer.exact.cuda import record_graph, square_root

torch = pytest.importorskip("torch")


class OnTheDevice:
    is_cuda = True


def test_the_cpu_is_used_unless_cuda_is_asked_for_or_an_array_is_there(monkeypatch):
    monkeypatch.setattr(cuda, "require_cuda", lambda: None)
    assert not cuda.use_cuda("cpu", np.zeros(3), [1])
    assert cuda.use_cuda("cuda", np.zeros(3))
    assert cuda.use_cuda("cpu", np.zeros(3), OnTheDevice())
    with pytest.raises(ArgumentError, match="device"):
        cuda.use_cuda("abacus")


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_a_missing_package_is_named(monkeypatch, missing):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else "there")
    with pytest.raises(ArgumentError, match=f"needs {missing}"):
        cuda.require_cuda()


def test_square_roots_of_tensors_are_those_of_arrays():
    values = np.append(np.random.default_rng(0).random(5000), 1 - 2.0**-53)
    assert (square_root(torch.from_numpy(values)).numpy() == np.sqrt(values)).all()


def doubled(rows, step, kind=np.float64):
    return cuda.map_slabs(rows, lambda slab: slab.double() * 2, rows.shape[1], kind, step)


@pytest.mark.gpu
@pytest.mark.parametrize("count", [0, 1, 6, 7, 1000])
def test_every_row_goes_through_once_and_in_order_whatever_the_slab(count):
    rows = np.random.default_rng(0).normal(size=(count, 5)).astype(np.float32)
    for step in (1, 7, 10_000):
        assert (doubled(rows, step) == 2.0 * rows.astype(np.float64)).all()


@pytest.mark.gpu
def test_memory_maps_tensors_and_rows_on_the_device_give_the_same(tmp_path):
    rows = np.random.default_rng(1).integers(-9, 9, (5000, 16)).astype(np.int16)
    np.save(tmp_path / "rows.npy", rows)
    there = torch.from_numpy(rows).cuda()
    for some in (np.load(tmp_path / "rows.npy", mmap_mode="r"), torch.from_numpy(rows), there, rows[:, ::2]):
        host = some.cpu().numpy() if isinstance(some, torch.Tensor) else np.asarray(some)
        assert (doubled(some, 300) == 2.0 * host).all()


@pytest.mark.gpu
def test_memory_on_the_device_does_not_grow_with_the_rows():
    peaks = []
    for count in (10_000, 200_000):
        rows = np.ones((count, 64), dtype=np.float32)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        doubled(rows, 1000)
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] <= 1.5 * peaks[0] < rows.nbytes / 5


def compute(first, second):
    return (first * 2 + second).cumsum(0)


def test_on_a_cpu_a_recorded_function_is_the_function_itself():
    assert record_graph(compute, torch.zeros(3), torch.zeros(3)) is compute


@pytest.mark.gpu
def test_a_recorded_function_computes_what_it_did_on_other_inputs():
    again = record_graph(compute, torch.zeros(50, device="cuda"), torch.zeros(50, device="cuda"))
    assert again is not compute
    for seed in range(3):
        torch.manual_seed(seed)
        given = torch.randn(2, 50, device="cuda")
        assert torch.equal(again(*given), compute(*given))


@pytest.mark.gpu
def test_a_recorded_answer_stays_as_it_is_when_the_next_comes():
    again = record_graph(compute, torch.zeros(50, device="cuda"), torch.zeros(50, device="cuda"))
    ones, nothing = torch.ones(50, device="cuda"), torch.zeros(50, device="cuda")
    first = again(ones, ones)
    again(nothing, nothing)
    assert torch.equal(first, compute(ones, ones))


@pytest.mark.gpu
def test_what_waits_for_the_device_cannot_be_recorded_and_is_left_as_it_is():
    def waiting(first, second):
        return first * float(second.sum().item())

    before = torch.cuda.current_stream()
    again = record_graph(waiting, torch.ones(5, device="cuda"), torch.ones(5, device="cuda"))
    assert again is waiting
    assert torch.cuda.current_stream() == before
    given = torch.arange(10.0, device="cuda").reshape(2, 5)
    assert torch.equal(again(*given), given[0] * 35)
    assert torch.equal(record_graph(compute, *given)(*given), compute(*given))
