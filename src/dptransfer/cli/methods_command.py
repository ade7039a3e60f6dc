"""`dptransfer methods`: what there is to choose from, in the methods' own words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from inspect import cleandoc
from typing import Annotated, Any, cast

from typer import Argument

import dptransfer as dpt
from dptransfer.cli import lib, options
from dptransfer.cli.screen import say, show_facts, show_json, show_table
from dptransfer.errors import ArgumentError

_EXAMPLE = "Example: --tune steps=10,30"
_OF_TUNING = {"mean_trials": float, "tune_on_public": bool}


def takes_images(method: dpt.methods.PrivateMethod) -> bool:
    """Whether the method trains on images, rather than on rows of numbers."""
    return method.takes is lib.PrivateImages


def method_from(
    name: str,
    settings: Mapping[str, object],
    tune: Sequence[str] | None = None,
    reading: dpt.encoders.Reading | None = None,
) -> dpt.methods.PrivateMethod:
    """The method called `name` with the settings that were given.

    Args:
        name: its command-line name.
        settings: values by field; beside `tune` also those of the tuning, mean_trials and tune_on_public.
        tune: texts 'field=value,value'; none for no tuning.
        reading: the encoder, sizes and device that options name: of a method on pictures its own, else of an
            encoder that takes the device too.
    """
    if not tune and (alone := [field for field in _OF_TUNING if field in settings]):
        raise ArgumentError(f"--set {alone[0]} needs something to tune; there is no --tune. {_EXAMPLE}")
    made = _tuned(name, settings, tune) if tune else lib.named_method(name, settings)
    if reading is None:
        return made
    if not isinstance(made, dpt.methods.ImageMethod):
        return on_device(made, reading.device, encodes=reading.encoder is not None)
    if twice := sorted(field for field in settings if getattr(reading, field, None) is not None):
        raise ArgumentError(f"A setting is given once; '{twice[0]}' is there twice. Leave out --set.")
    return lib.with_reading(made, reading)


def _tuned(name: str, settings: Mapping[str, object], tune: Sequence[str]) -> dpt.methods.PrivateMethod:
    """A choice among the configurations that `--tune` lists."""
    given = {field: value for field, value in settings.items() if field not in _OF_TUNING}
    own = {one: lib.in_type(kind, one, settings[one]) for one, kind in _OF_TUNING.items() if one in settings}
    lists: dict[str, list[object]] = {}
    for text in tune:
        field, equals, listed = (part.strip() for part in text.partition("="))
        values = lib.in_type(list[object], field, listed)  # as JSON, or by commas
        if not equals or not field or not values or "" in values:
            raise ArgumentError(f"--tune takes field=value,value; got '{text}'. {_EXAMPLE}")
        if field in given or field in lists:
            raise ArgumentError(f"A field is set or tuned once; '{field}' is there twice. Leave one out.")
        lists[field] = values
    if own.get("tune_on_public") and "mean_trials" in own:
        raise ArgumentError("mean_trials tunes on private rows, tune_on_public tries all. Leave one out.")
    alone = lib.named_method(name, given)  # what is wrong with the settings is not the tuning's fault
    found = lib.every_combination(lambda one: lib.named_method(name, given | one), lists, option="--tune ")
    tuning = dpt.methods.PictureTuning if takes_images(alone) else dpt.methods.PrivateTuning
    return tuning(candidates=tuple(candidate for _, candidate in found), **own)


def on_device(
    method: dpt.methods.PrivateMethod, device: str | None, *, encodes: bool = False
) -> dpt.methods.PrivateMethod:
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
        return cast("dpt.methods.PrivateMethod", replace(cast(Any, method), candidates=each))
    if device in devices_of(method):
        try:
            if encodes:  # an encoder does with less of a GPU than methods need
                lib.require_cuda()
            return lib.configure(method, {"device": device})
        except ArgumentError:
            if not encodes:
                raise
    if encodes:
        return method
    movable = [name for name, kind in dpt.methods.METHODS.items() if len(devices_of(kind(**{}))) > 1]
    raise ArgumentError(
        "--device must be where the method computes, if no --encoder takes it; "
        f"'{method.name}', as it is set, computes on {' or '.join(devices_of(method))} alone. "
        f"Leave --device out; 'cuda' is for {', '.join(movable)}."
    )


def devices_of(method: dpt.methods.PrivateMethod) -> tuple[str, ...]:
    """Where it can compute, as it is set."""
    if "device" not in {one.name for one in fields(method)}:
        return ("cpu",)
    return tuple(getattr(method, "devices", lib.DEVICES))


def methods(
    name: Annotated[str | None, Argument(help="A method, for its settings; or a paper's name.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the methods, including those of installed packages, or show the settings of one.

    Example: dptransfer methods top-k
    """
    every = dpt.methods.METHODS
    if name is None or name in every.names:
        chosen = list(every.values()) if name is None else []
    else:
        chosen = [one for one in every.values() if _is_called(name, one)]
    if name is not None and len(chosen) < 2:
        return _show_method(_facts(chosen[0] if chosen else every.find(name)), as_json)
    found = [_facts(method) for method in chosen]
    if as_json:
        show_json(found)
    else:
        families = dict.fromkeys(one["family"] for one in found)
        rows = [(one["name"], one["summary"]) for name in families for one in found if one["family"] == name]
        show_table(("Method", "What it releases, and when to use it"), rows)
    for problem in dpt.methods.METHODS.problems:
        say(problem, style="yellow", err=True)


def _is_called(text: str, method: type[dpt.methods.PrivateMethod]) -> bool:
    """Whether papers call the method so, or by a name that begins or ends so."""
    said = re.sub(r"[ _]+", "-", text.strip().lower())
    return any(f"-{said}-" in f"-{one}-" for one in (method.name, *method.about.paper_names))


def _show_method(facts: lib.JsonObject, as_json: bool) -> None:
    if as_json:
        return show_json(facts)
    settings = facts.pop("settings").items()
    show_facts({name.capitalize(): value for name, value in facts.items() if value})
    say()
    rows = [(name, "" if one["default"] is None else one["default"], one["about"]) for name, one in settings]
    show_table(("--set", "Default", ""), rows)
    if not facts["takes"].startswith("pictures"):
        say("Feature map: --set axes=64 keeps 64 public axes; --set pool=4 averages 4 columns into one.")


def _facts(method: type[dpt.methods.PrivateMethod]) -> lib.JsonObject:
    """What a method says of itself, with its settings and their defaults."""
    about, plain = method.about, method(**{})
    settings = lib.setting_names(plain)
    takes = "pictures" if takes_images(plain) else "rows of an encoder"
    words = _documented(method)
    for name in {setting.partition(".")[0] for setting in settings if "." in setting}:
        for part in lib.alternatives(method, name):
            words |= {f"{name}.{field}": said for field, said in _documented(part).items()}
    words |= about.options
    takes += ", and public ones" if plain.needs_public else ""
    told = {"name": method.name, "family": about.family, "takes": takes, "summary": about.summary}
    told |= {"released": about.card, "reference": about.reference}
    each = {one: {"default": _default(plain, one), "about": words.get(one, "")} for one in settings}
    return {**told, "settings": each}


def _documented(method: type) -> dict[str, str]:
    """What the docstrings of a class and its bases say of each field, under "Attributes:"."""
    found: dict[str, str] = {}
    for one in reversed(method.__mro__):
        listed = cleandoc(one.__doc__ or "").partition("Attributes:\n")[2]
        for name, words in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", listed, re.MULTILINE):
            said = " ".join(words.replace("`", "").split())
            found[name] = said[0].upper() + said[1:] if said[:2].isalpha() else said  # 'β: length' stays
    return found


def _default(value: object, setting: str) -> object:
    """The default of a setting; of a part, which kind it is."""
    for name in setting.split("."):
        value = getattr(value, name, None)
    return getattr(value, "kind", value)
