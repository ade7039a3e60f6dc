import multiprocessing
from types import SimpleNamespace

import pytest

from dptransfer.encoders import device
from dptransfer.encoders.device import take_gpu


@pytest.fixture
def worker(monkeypatch):
    """Makes this process look like a worker of that name, on a machine with so many GPUs."""

    def look(name, gpus, seen=None):
        monkeypatch.setattr(multiprocessing, "current_process", lambda: SimpleNamespace(name=name))
        monkeypatch.setattr(multiprocessing, "parent_process", lambda: None if name == "MainProcess" else 1)
        monkeypatch.setattr(device, "gpu_count", lambda: gpus)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if seen is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
        take_gpu()
        return device.os.environ.get("CUDA_VISIBLE_DEVICES")

    return look


def test_each_worker_takes_a_gpu_of_its_own_as_long_as_there_are_enough(worker):
    assert {worker(f"SpawnProcess-{number}", 4) for number in range(1, 5)} == {"0", "1", "2", "3"}
    assert {worker(f"SpawnProcess-{number}", 4, "7,5") for number in (3, 4)} == {"7", "5"}


def test_one_gpu_none_or_no_worker_change_nothing(worker):
    assert worker("SpawnProcess-2", 1) is None
    assert worker("SpawnProcess-2", 0) is None
    assert worker("SpawnProcess-2", 4, "6") == "6"
    assert worker("MainProcess", 4) is None
