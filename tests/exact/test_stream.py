"""All of it needs a CUDA device: pytest -m gpu tests/compute."""

import numpy as np
import pytest

from dptransfer.exact import cuda as stream


def doubled(rows, step, kind=np.float64):
    return stream.map_slabs(rows, lambda slab: slab.double() * 2, rows.shape[1], kind, step)


@pytest.mark.gpu
@pytest.mark.parametrize("count", [0, 1, 6, 7, 1000])
def test_every_row_goes_through_once_and_in_order_whatever_the_slab(count):
    rows = np.random.default_rng(0).normal(size=(count, 5)).astype(np.float32)
    for step in (1, 7, 10_000):
        assert (doubled(rows, step) == 2.0 * rows.astype(np.float64)).all()


@pytest.mark.gpu
def test_memory_maps_tensors_and_rows_on_the_device_give_the_same(tmp_path):
    import torch

    rows = np.random.default_rng(1).integers(-9, 9, (5000, 16)).astype(np.int16)
    np.save(tmp_path / "rows.npy", rows)
    there = torch.from_numpy(rows).cuda()
    for some in (np.load(tmp_path / "rows.npy", mmap_mode="r"), torch.from_numpy(rows), there, rows[:, ::2]):
        host = some.cpu().numpy() if isinstance(some, torch.Tensor) else np.asarray(some)
        assert (doubled(some, 300) == 2.0 * host).all()


@pytest.mark.gpu
def test_memory_on_the_device_does_not_grow_with_the_rows():
    import torch

    peaks = []
    for count in (10_000, 200_000):
        rows = np.ones((count, 64), dtype=np.float32)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        doubled(rows, 1000)
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] <= 1.5 * peaks[0] < rows.nbytes / 5
