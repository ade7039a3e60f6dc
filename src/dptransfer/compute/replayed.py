"""A computation on tensors of fixed shapes, recorded once on a GPU and replayed as a whole.

A step of training is many small kernels, and a host takes longer to start them than a GPU to run them. Where
all steps have one shape, the kernels of the first are recorded (a CUDA graph) and started together for the
others. They are the same kernels on the same places in memory: what they compute is not changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_TRIALS = 2  # before it is recorded, so that libraries have chosen and prepared what they use


def replayed(compute: Callable[..., Any], *inputs: Any, thrifty: bool = False) -> Callable[..., Any]:
    """The same function, for inputs of these shapes and types; on a CPU it is the function itself.

    So it is where it cannot be recorded, as that of a network whose forward pass waits for the device.

    Args:
        compute: from tensors to a tensor.
        inputs: tensors on the device, of the shapes that it will be called with, and of any values that it
            can take. Those of later calls may be in ordinary memory.
        thrifty: whether memory that trials took is given back before what is recorded gets its own; whoever
            needs some next then waits for it.
    """
    import torch

    if not inputs[0].is_cuda:
        return compute
    cuda: Any = torch.cuda
    kept = [one.clone() for one in inputs]
    before, aside = cuda.current_stream(), cuda.Stream()
    aside.wait_stream(before)
    with cuda.stream(aside):
        for _ in range(_TRIALS):
            compute(*kept)
    before.wait_stream(aside)
    if thrifty:
        cuda.synchronize()
        cuda.empty_cache()
    graph = cuda.CUDAGraph()
    try:
        with cuda.stream(aside):  # on the trials' stream, as libraries took memory for it that stays
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                found = compute(*kept)
            finally:
                graph.capture_end()
    except RuntimeError:
        return compute

    def replay(*given: Any) -> Any:
        for own, one in zip(kept, given, strict=True):
            own.copy_(one, non_blocking=True)
        graph.replay()
        return found.clone()  # as the next call writes to the same place

    return replay
