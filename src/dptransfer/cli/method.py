"""From `--method`, `--set`, `--tune` and `--device` to a method object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast

from dptransfer.cli.pictures import sees_pictures
from dptransfer.errors import ArgumentError
from dptransfer.named import in_type, named_method

if TYPE_CHECKING:
    from dptransfer.data.grey_levels import GreyRange
    from dptransfer.methods import PrivateMethod

_EXAMPLE = "Example: --tune steps=10,30"
_OF_TUNING = {"mean_trials": float, "tune_on_public": bool}


def method_from(
    name: str,
    settings: Mapping[str, Any],
    tune: Sequence[str] | None = None,
    *,
    device: str | None = None,
    encoder: str | None = None,
    image_size: int | None = None,
    grey_range: GreyRange | None = None,
) -> PrivateMethod:
    """The method called `name` with the settings that were given.

    Args:
        name: its command-line name.
        settings: values by field; beside `tune` also those of the tuning, mean_trials and tune_on_public.
        tune: texts 'field=value,value'; none for no tuning.
        device: where it computes; None for its own.
        encoder: what --encoder names: of a method on pictures its own, else one that takes the device too.
        image_size: what --image-size says, likewise.
        grey_range: what --grey-range says, likewise.
    """
    if not tune and (alone := [field for field in _OF_TUNING if field in settings]):
        raise ArgumentError(f"--set {alone[0]} needs something to tune; there is no --tune. {_EXAMPLE}")
    made = _tuned(name, settings, tune) if tune else named_method(name, settings)
    if not sees_pictures(made):
        return on_device(made, device, encodes=encoder is not None)
    given = {"encoder": encoder, "size": image_size, "device": device, "grey_range": grey_range}
    changes = {field: value for field, value in given.items() if value is not None}
    if twice := sorted(changes.keys() & settings.keys()):
        raise ArgumentError(f"A setting is given once; '{twice[0]}' is there twice. Leave out --set.")
    if candidates := getattr(made, "candidates", ()):
        changes = {"candidates": tuple(replace(one, **changes) for one in candidates)}
    return cast("PrivateMethod", replace(cast(Any, made), **changes))


def _tuned(name: str, settings: Mapping[str, Any], tune: Sequence[str]) -> PrivateMethod:
    """A choice among the configurations that `--tune` lists."""
    from dptransfer.methods import PictureTuning, PrivateTuning
    from dptransfer.methods.grid import every_combination

    given = {field: value for field, value in settings.items() if field not in _OF_TUNING}
    own = {name: in_type(kind, name, settings[name]) for name, kind in _OF_TUNING.items() if name in settings}
    if own.get("tune_on_public") and "mean_trials" in own:
        raise ArgumentError(
            "mean_trials is for tuning on private rows, tune_on_public tries all. Leave one of them out."
        )
    lists = _lists(tune, given)
    alone = named_method(name, given)  # what is wrong with the settings is not the tuning's fault
    found = every_combination(lambda one: named_method(name, {**given, **one}), lists, option="--tune ")
    tuning = PictureTuning if sees_pictures(alone) else PrivateTuning
    return tuning(candidates=tuple(candidate for _, candidate in found), **own)


def _lists(texts: Sequence[str], given: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The values to try, by field."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        field, equals, listed = (part.strip() for part in text.partition("="))
        values = in_type(list[Any], field, listed)  # as JSON, for values that have commas, or by commas
        if not equals or not field or not values or "" in values:
            raise ArgumentError(f"--tune takes field=value,value; got '{text}'. {_EXAMPLE}")
        if field in given or field in found:
            raise ArgumentError(f"A field is set or tuned once; '{field}' is there twice. Leave one out.")
        found[field] = values
    return found


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
    if candidates := getattr(method, "candidates", ()):
        each = tuple(on_device(one, device, encodes=encodes) for one in candidates)
        return cast("PrivateMethod", replace(cast(Any, method), candidates=each))
    able = device in devices_of(method)
    if encodes and not (able and _all_there()):
        return method
    if able:
        return cast("PrivateMethod", replace(cast(Any, method), device=device))
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
