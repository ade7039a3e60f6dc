"""Refuses, before anything is charged, a network that lets pictures see those beside them.

What a picture adds must be a function of that picture. A network is asked with pictures of noise, which are
the same for everyone, twice: all but one of them stay, and those of a micro-batch move to the next slot. So a
layer that mixes pictures shows, whatever its name, as does one that cannot carry parameters of each example;
and so do kernels that round otherwise in another slot.

On a CPU every bit must be the same: threads that share a product may round some of its rows otherwise, which
one thread does not. Other devices have no such remedy, and what is refused there is more than rounding, a
thousandth; whether bits differ, `tests/deep/test_neighbours.py` measures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dptransfer.arrays import PixelArray
from dptransfer.deep.picture_loss import PictureLoss
from dptransfer.deep.pictures import Pictures
from dptransfer.deep.teachers import Course, Teachers
from dptransfer.deep.trained_parts import TrainedParts
from dptransfer.encoders.device import exact_kernels
from dptransfer.errors import ArgumentError

_MORE_THAN_ROUNDING = 1e-3  # of a gradient's norm, in float32


def require_own_gradients(parts: TrainedParts, *, views: int, micro_batch: int) -> None:
    """Raise unless a picture's gradient is its own: in another slot of a micro-batch, beside another picture.

    Args:
        parts: what is trained.
        views: of each picture.
        micro_batch: how many pictures go through the network at a time.
    """
    bits = np.random.Generator(np.random.PCG64(0))
    pixels, labels = _noise(bits, micro_batch + 1, parts.network.side), np.arange(micro_batch + 1)
    theta = bits.normal(size=parts.size) * 0.1  # away from the start, where a network has no gradient

    def gradients(order: Any) -> Any:
        kept = Pictures(parts, pixels[order], views=views, micro_batch=micro_batch)
        return PictureLoss(kept).gradients_at(theta)(np.arange(micro_batch), labels[order] % parts.classes)

    def asked() -> tuple[Any, Any]:
        straight, turned = np.arange(micro_batch), np.roll(np.arange(micro_batch + 1), 1)[:micro_batch]
        return gradients(straight)[:-1], gradients(turned)[1:]

    _require_same(asked, parts.network.identity.name, "micro_batch")


def require_own_ballots(model: Teachers, course: Course, side: int, name: str) -> None:
    """Raise unless what a teacher learns is its own, beside other pictures of the teacher next to it.

    Args:
        model: what the teachers are.
        course: how they learn.
        side: of the pictures.
        name: of the network.
    """
    import torch

    bits = np.random.Generator(np.random.PCG64(0))
    shape = (course.together, course.batch, side, side, 3)
    pixels = _noise(bits, course.together * course.batch, side).reshape(shape)

    def gradients(beside: PixelArray) -> Any:
        weights = model.start(course.together)
        with torch.enable_grad(), exact_kernels():
            logits = model.logits(weights, torch.from_numpy(beside).to(model.device))
            found = torch.autograd.grad(torch.log_softmax(logits, 2)[..., 0].sum(), weights)
        both = [logits.detach(), *found]
        return torch.cat([one.reshape(course.together, -1) for one in both], dim=1)[:-1]

    def asked() -> tuple[Any, Any]:
        other = pixels.copy()
        other[-1] = 255 - other[-1]
        return gradients(pixels), gradients(other)

    _require_same(asked, name, "together")


def _require_same(asked: Callable[[], tuple[Any, Any]], name: str, setting: str) -> None:
    """Raise unless both answers come, and are the same."""
    import torch

    try:
        first, second = (torch.nan_to_num(answer) for answer in asked())
    except (RuntimeError, ValueError) as problem:
        why = str(problem).splitlines()[0]
        raise ArgumentError(
            f"A network must take pictures along the first axis of what its layers see; with '{name}' that "
            f"failed ({why}). Choose another encoder, other blocks, or another part to train."
        ) from None
    if torch.equal(first, second):
        return
    apart = float((first - second).norm() / first.norm())
    if not apart <= _MORE_THAN_ROUNDING:
        raise ArgumentError(
            "What a network makes of a picture must not depend on the pictures beside it, or one would count "
            f"for many; that of '{name}' does. Use a network whose layers do not mix pictures."
        )
    if first.device.type == "cpu":
        raise ArgumentError(
            "What a network makes of a picture must not depend, in any bit, on its place among others; on "
            f"this CPU, with its threads, that of '{name}' does. Let it run on one (OMP_NUM_THREADS=1, or "
            f"torch.set_num_threads(1)), or set another {setting}."
        )


def _noise(bits: np.random.Generator, count: int, side: int) -> PixelArray:
    return bits.integers(0, 256, (count, side, side, 3), dtype=np.uint8)
