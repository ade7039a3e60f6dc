"""Reject networks whose output depends on other examples in the batch (such as BatchNorm).

A trained layer is computed by what is known of its kind. One that derives from a known kind and does more,
such as a normalisation with an activation behind it, would be trained as another network than is released.

What a picture adds must be a function of that picture. That it is one is not found out here: networks that
are not known to keep pictures apart run on each picture by itself (`encoders.per_example`). What is found out
is whether kernels do what they promise, on this machine and for batches of the size that a run has. A network
is asked with pictures that are the same for everyone, noise and extremes (`probe_pictures`), at two
parameter values:

- all pictures of a micro-batch move to the next slot, beside another one;
- one picture stays, and all others are replaced at once, by black ones or by faint noise;
- the first question is asked again at the end, when others have been asked in between.

On a CPU every bit must be the same: threads that share a product may round some of its rows otherwise, which
one thread does not. Other devices have no such remedy. What is refused there is more than rounding: a
thousandth of a gradient, divided by the size of a micro-batch, all of which one picture might move. Whether
bits differ, `tests/methods/deep/test_cross_example_check.py` measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import Floats, Labels, PixelArray, Tensor
from dptransfer.encoders import per_example, registry
from dptransfer.errors import ArgumentError, DPTransferError
from dptransfer.exact.feature_map import apply
from dptransfer.methods.deep import teachers, trained_parts
from dptransfer.methods.deep.picture_loss import PictureLoss, Pictures

_FAR_START = 0.3  # from the public start: what is trained must show
_PICTURES = 8
_APART = 1e-3  # of the largest logit; rounding is below a hundredth of it


def require_as_released(parts: trained_parts.TrainedParts) -> None:
    """Raise unless the changed encoder and the head find in pictures of noise what training computes."""
    network, bits = parts.network, np.random.Generator(np.random.PCG64(0))
    theta = bits.normal(size=parts.size) * _FAR_START
    # Black, white, and noise around colours: noise alone is the same grey to whatever averages.
    pictures = bits.integers(0, 128, (_PICTURES, network.side, network.side, 3), dtype=np.uint8)
    pictures += bits.integers(0, 128, (_PICTURES, 1, 1, 3), dtype=np.uint8)
    pictures[0], pictures[1] = 0, 255
    inputs, delta = network.inputs(pictures), parts.delta(theta)
    here = torch.from_numpy(theta.astype(np.float32)).to(network.device)
    trained = np.nan_to_num(parts.logits(here, parts.front(inputs)).cpu().numpy())
    released: Any = network.encoder if delta is None else registry.apply_delta(network.encoder, delta)
    with torch.no_grad(), per_example.exact_kernels():
        rows = released.rows_of(inputs).float().cpu().numpy()
    found = apply(parts.features, rows) @ parts.head(theta).T
    if np.abs(trained - found).max() > _APART * np.abs(found).max():
        raise ArgumentError(
            "What is trained must be what is released; a trained layer, or a stage, of "
            f"'{network.identity.name}' computes more than its kind says. Use another part to train, fewer "
            "blocks, or a network of plain layers."
        )


_MORE_THAN_ROUNDING = 1e-3  # of a gradient's norm, in float32, for all pictures of a batch together
_TINY = 1e-6  # of the longest gradient: shorter ones are as good as none
_FAR = (0.1, 1.0)  # from the start, where a network has no gradient

Pairs: TypeAlias = "Iterator[tuple[Tensor, Tensor]]"
"""Answers, (examples, ...), that must be the same."""


def require_own_gradients(parts: trained_parts.TrainedParts, *, views: int, micro_batch: int) -> None:
    """Raise unless a picture's gradient is its own: in any slot of a micro-batch, beside any pictures.

    Args:
        parts: what is trained.
        views: of each picture.
        micro_batch: how many pictures go through the network at a time.
    """
    bits = np.random.Generator(np.random.PCG64(0))
    thetas = [bits.normal(size=parts.size) * far for far in _FAR]
    shown = per_example.probe_pictures(micro_batch + 1, parts.network.side)
    labels, slots = np.arange(micro_batch + 1) % parts.classes, np.arange(micro_batch)
    next_slot = np.roll(np.arange(micro_batch + 1), 1)[:-1]

    def gradients(pixels: PixelArray, own: Labels, at: list[Floats]) -> list[Tensor]:
        loss = PictureLoss(Pictures(parts, pixels, views=views, micro_batch=micro_batch))
        return [loss.gradients_at(theta)(slots, own) for theta in at]

    def asked() -> Pairs:
        first, far = gradients(shown[:-1], labels[:-1], thetas)
        yield first[:-1], gradients(shown[next_slot], labels[next_slot], thetas[:1])[0][1:]
        for slot, beside in _replaced(shown[:-1]):
            for once, again in zip((first, far), gradients(beside, labels[:-1], thetas), strict=True):
                yield once[[slot]], again[[slot]]
        yield first, gradients(shown[:-1], labels[:-1], thetas[:1])[0]

    _require_same(asked, parts.network.identity.name, "micro_batch", micro_batch)


def require_own_ballots(model: teachers.Teachers, course: teachers.Course, side: int, name: str) -> None:
    """Raise unless what a teacher learns and says is its own, beside any pictures of the other teachers.

    Args:
        model: what the teachers are.
        course: how they learn.
        side: of the pictures.
        name: of the network.
    """
    pixels = per_example.probe_pictures(course.together * course.batch, side)
    shown = pixels.reshape(course.together, course.batch, side, side, 3)

    def ballots_and_slopes(raw: PixelArray, far: float) -> Tensor:
        weights, draws = model.start(course.together), torch.Generator().manual_seed(0)
        with torch.enable_grad(), per_example.exact_kernels():
            moved = [one + far * torch.randn(one.shape, generator=draws).to(one) for one in weights]
            logits = model.logits(moved, torch.from_numpy(raw).to(model.device))
            found = torch.autograd.grad(torch.log_softmax(logits, 2)[..., 0].sum(), weights)
        return torch.cat([one.reshape(course.together, -1) for one in (logits.detach(), *found)], dim=1)

    def asked() -> Pairs:
        first, farther = (ballots_and_slopes(shown, far) for far in _FAR)
        for slot, beside in _replaced(shown):
            for once, far in ((first, _FAR[0]), (farther, _FAR[1])):
                yield once[[slot]], ballots_and_slopes(beside, far)[[slot]]
        yield first, ballots_and_slopes(shown, _FAR[0])

    _require_same(asked, name, "together", course.together)


def _replaced(shown: PixelArray) -> Iterator[tuple[int, PixelArray]]:
    """A slot that stays, and all others replaced: beside the first by black, beside the last by noise."""
    bits = np.random.Generator(np.random.PCG64(1))
    for slot, low, high in ((0, 0, 1), (-1, 120, 136)):
        beside = bits.integers(low, high, shown.shape, dtype=np.uint8)
        beside[slot] = shown[slot]
        yield slot, beside


def _require_same(asked: Callable[[], Pairs], name: str, setting: str, together: int) -> None:
    """Raise unless all answers come, and those of each pair are the same."""
    bits_differ = False
    try:
        for one, other in asked():
            first, second = torch.nan_to_num(one), torch.nan_to_num(other)
            if torch.equal(first, second):
                continue
            bits_differ = True
            apart, norms = (first - second).norm(dim=1), first.norm(dim=1)
            most = _MORE_THAN_ROUNDING / together * norms.clamp(min=_TINY * float(norms.max()))
            if not bool((apart <= most).all()):
                raise ArgumentError(
                    "What a network makes of a picture must not depend on the pictures beside it, or one "
                    f"counts for many; that of '{name}' does. Use a network whose layers do not mix pictures."
                )
    except (RuntimeError, ValueError) as problem:
        if isinstance(problem, DPTransferError):
            raise
        why = str(problem).splitlines()[0]
        raise ArgumentError(
            f"What a network makes of each picture must have a gradient; that of '{name}' could not be "
            f"computed ({why}). Choose another encoder, other blocks, or another part to train."
        ) from None
    if bits_differ and first.device.type == "cpu":
        raise ArgumentError(
            "What a network makes of a picture must not depend, in any bit, on its place among others; on "
            f"this CPU, with its threads, that of '{name}' does. Let it run on one (OMP_NUM_THREADS=1, or "
            f"torch.set_num_threads(1)), or set another {setting}."
        )
