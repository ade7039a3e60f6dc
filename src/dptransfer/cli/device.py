"""Where a method computes: what `--device` says to methods that can compute there."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast

from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.methods import PrivateMethod


def on_device(method: PrivateMethod, device: str | None, *, encodes: bool = False) -> PrivateMethod:
    """The method, computing on this device.

    Args:
        method: as it was set; of a choice between several, each.
        device: 'cuda', 'cpu' or what else an encoder takes; None for where the method computes anyway.
        encodes: whether an encoder takes the device too. A method that cannot follow it stays where it is;
            without an encoder a device that nothing uses is an error.
    """
    if device is None or device == "cpu":
        return method
    candidates = getattr(method, "candidates", ())
    if candidates:
        each = tuple(on_device(one, device, encodes=encodes) for one in candidates)
        moved: PrivateMethod = replace(cast(Any, method), candidates=each)
        return moved
    able = device in devices_of(method)
    if encodes and not (able and _all_there()):
        return method
    if able:
        moved = replace(cast(Any, method), device=device)
        return moved
    from dptransfer.methods import METHODS

    movable = [name for name, kind in METHODS.items() if len(devices_of(kind(**{}))) > 1]
    raise ArgumentError(
        "--device must be where the method computes, if no --encoder takes it; "
        f"'{method.name}', as it is set, computes on {' or '.join(devices_of(method))} alone. "
        f"Leave --device out; 'cuda' is for {', '.join(movable)}."
    )


def devices_of(method: PrivateMethod) -> tuple[str, ...]:
    """Where it can compute, as it is set."""
    from dptransfer.compute.device import DEVICES

    if "device" not in {one.name for one in fields(method)}:
        return ("cpu",)
    return tuple(getattr(method, "devices", DEVICES))


def _all_there() -> bool:
    """Whether methods find all that they need of a GPU; an encoder does with less."""
    from dptransfer.compute.device import require_cuda

    try:
        require_cuda()
    except ArgumentError:
        return False
    return True
