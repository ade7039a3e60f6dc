"""Device and runtime of a model, and repeatable arithmetic on it."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dptransfer.base import checks
from dptransfer.base.lazy_torch import torch
from dptransfer.errors import ArgumentError


def torch_device(name: str) -> torch.device:
    """The torch device of that name; one that is not there is an error, never a silent CPU."""
    checks.import_optional("torch", "torch", "Running an encoder")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ArgumentError(f"device must be 'cpu', 'cuda', 'cuda:1', ... or 'mps'; got {name!r}.") from None
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }.get(device.type, False)
    if not there:
        raise ArgumentError(f"device={name!r} must be present; torch finds none here. Use device='cpu'.")
    return device


@contextmanager
def repeatable() -> Iterator[None]:
    """Inference mode with exact kernels."""
    with torch.inference_mode(), exact_kernels():
        yield


@contextmanager
def exact_kernels() -> Iterator[None]:
    """Deterministic kernels and no reduced-precision shortcut.

    cuDNN's autotuner may pick another kernel in the next run and TF32 rounds to ten bits; both are off, so
    that a row depends on the picture, the weights, the machine and the batch's size alone.
    """
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        yield


def take_gpu() -> None:
    """In a worker process on a machine with several GPUs, let it see one of them alone: 'cuda' is that one.

    Workers are numbered in the order they start, so each gets another GPU as long as there are enough. It
    must be called before anything else in the process asks for a GPU. On a cluster Ray does the same.
    """
    number = multiprocessing.current_process().name.rpartition("-")[2]
    if multiprocessing.parent_process() is None or not number.isdecimal():
        return
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    there = list(map(str, range(gpu_count()))) if seen is None else seen.split(",")
    if len(there) > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = there[int(number) % len(there)]


def gpu_count() -> int:
    """How many NVIDIA GPUs this process may open; asked of the system, as torch takes seconds to load."""
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def runtime_for(name: str, *, device: str, asked: str | None, packages: Sequence[str]) -> str:
    """'onnx' or 'torch': what is asked for, else ONNX Runtime on a CPU, unless only torch is installed.

    Args:
        name: the encoder's.
        device: where to run; ONNX Runtime runs it on the cpu alone.
        asked: what the user says.
        packages: what ONNX Runtime needs for it, itself included.
    """
    if asked is None:
        can = all(importlib.util.find_spec(package) is not None for package in packages)
        return "onnx" if device == "cpu" and (can or importlib.util.find_spec("torch") is None) else "torch"
    if asked == "onnx" and device != "cpu":
        rule = f"Rows of {name} by ONNX Runtime are made on the cpu; got device={device!r}."
        raise ArgumentError(f"{rule} Leave device out, or make all rows with runtime='torch'.")
    return asked
