"""Gradients of a small sample on a GPU, recorded once as a CUDA graph and replayed.

A step of training is many small kernels, and a host takes longer to start them than a GPU to run them. Where
all steps have one shape, the kernels of the first are recorded (a CUDA graph) and started together for the
others. They are the same kernels on the same places in memory: what they compute is not changed.

A step on a thousand rows is dozens of kernels of some microseconds each. Samples differ in size, and what is
recorded has one shape (`compute.replayed`): so a sample is filled up with rows of zeros, whose residuals are
multiplied with nothing. One that is much larger than the first is worked on in parts: integers add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dptransfer.base.types import Integers
from dptransfer.exact.cuda import fetched, there
from dptransfer.exact.gradient_sums import clipped_gradient
from dptransfer.exact.softmax import IntegerLogits

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


class Recording(NamedTuple):
    """A step on samples of certain rows, for so many at a time."""

    rows: Any
    labels: Any
    room: int
    step: Callable[..., Any]


Recordings: TypeAlias = dict[tuple[float, float, tuple[int, ...]], Recording]
"""By what a step depends on beside rows, sample and weights."""

MOST_RECORDED = 2**13
"""Rows of a sample; the kernels of larger ones take longer than their start."""

_ROUND = 256


@dataclass(frozen=True, eq=False)
class DeviceSample:
    """Some rows in a GPU's memory.

    Attributes:
        rows: all of them, float64 tensors of integers.
        labels: class of each, in the same place.
        positions: of those in the sample.
        recorded: what was recorded for earlier samples, and will be for this.
    """

    rows: Any
    labels: Any
    positions: Integers
    recorded: Recordings

    def __len__(self) -> int:
        return len(self.positions)

    def taken(self) -> tuple[Any, Any]:
        """The rows of the sample, and their labels."""
        places = there(self.positions, self.rows)
        return self.rows[places], self.labels[places]

    def recorded_gradient(self, logits: IntegerLogits, clip: float) -> Integers:
        """`clipped_gradient` of the sample, for coarse logits without offsets, in whole numbers."""
        import torch

        key = clip, logits.row_step, logits.linear.shape
        known = self.recorded.get(key)
        if known is None or known.rows is not self.rows or known.labels is not self.labels:
            known = self.recorded[key] = self._record(logits, clip)
        room, step = known.room, known.step
        head = torch.from_numpy(logits.linear), torch.tensor(logits.linear_factor, dtype=torch.float32)
        total: Any = 0
        for start in range(0, max(1, len(self)), room):
            part = self.positions[start : start + room]
            places = np.full(room, -1)
            places[: len(part)] = part
            total = step(torch.from_numpy(places), *head) + total
        return fetched(total)

    def _record(self, logits: IntegerLogits, clip: float) -> Recording:
        import torch

        rows, labels, none = self.rows, self.labels, np.zeros_like(logits.offset)

        def step(*given: Any) -> Any:
            positions, linear, factor = (one.to(rows.device) for one in given)  # where it is not recorded
            places = positions.clamp(min=0)
            sample = rows[places] * (positions >= 0)[:, None]
            head = IntegerLogits(linear, factor, none, logits.row_step)
            return clipped_gradient(sample, labels[places], head, clip).long()

        room = (len(self) * 9 // 8 // _ROUND + 1) * _ROUND
        blank = torch.full((room,), -1, device=rows.device)
        linear = there(logits.linear, rows)
        return Recording(rows, labels, room, replayed(step, blank, linear, linear.new_ones(())))
