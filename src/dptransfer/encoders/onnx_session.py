"""A model in ONNX Runtime, called for one item at a time, so that a row is a function of its item alone.

A call of one item runs on one thread, and as many calls as there are cores run side by side: nothing is
shared among items but the weights, so neither the size of a batch nor the number of threads can reach a row.
It is the fastest way on a CPU, too. Measured with efficientnet-lite0 at 224 and 128 pixels and ONNX Runtime
1.31: rows of calls of 1, 2, 7, 8, 16, 32 and 64 pictures, on one thread and on two, are bit-identical anyway,
and none of these sizes is faster than one picture a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dptransfer import _check
from dptransfer.compute.cores import usable_cores
from dptransfer.compute.threads import side_by_side
from dptransfer.errors import ArgumentError, DataError

Inputs = Mapping[str, NDArray[Any]]
"""What a model is given, by the names of its inputs."""


def onnx_session(model: bytes | Path, *, extra: str, device: str = "cpu") -> Any:
    """The model, loaded; on a CPU it computes on the thread that calls it.

    Args:
        model: a file, or what would be in it.
        extra: the extra of ours that installs ONNX Runtime for this.
        device: 'cpu' or 'cuda'.
    """
    onnxruntime = _check.installed("onnxruntime", extra, "An ONNX encoder")
    if isinstance(model, Path) and not model.is_file():
        raise DataError(f"'{model}': the ONNX file must exist; it does not. Check the path.")
    provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(device.partition(":")[0])
    built = onnxruntime.get_available_providers()
    if provider not in built:
        raise ArgumentError(
            f"device={device!r} must be one this ONNX Runtime was built for ({', '.join(built)}). "
            "Use device='cpu'."
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # a library never prints
    given = model if isinstance(model, bytes) else str(model)
    try:
        return onnxruntime.InferenceSession(given, options, providers=[provider])
    except Exception as error:  # ONNX Runtime's own errors share no public base class
        what = "A graph" if isinstance(model, bytes) else f"'{model}': the file"
        raise DataError(
            f"{what} must be an ONNX model that ONNX Runtime can load; it is not "
            f"({type(error).__name__}). Export it again."
        ) from None


def one_by_one(session: Any, items: Sequence[Inputs]) -> list[NDArray[Any]]:
    """The model's first output for each item, in order, on all cores."""
    return list(side_by_side(lambda item: session.run(None, item)[0], items, usable_cores()))
