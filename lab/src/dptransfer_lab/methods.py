"""Everything a study may name: the library's methods, and the mechanisms as papers print them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dptransfer.errors import ArgumentError
from dptransfer.methods import PrivateMethod, configuration_of
from dptransfer.named import named_method
from dptransfer_lab.as_published import AS_PUBLISHED
from dptransfer_lab.unprotected import PREFIX, NotPrivate


def method_of(name: str, given: Mapping[str, Any]) -> PrivateMethod | NotPrivate:
    """What runs under this name with these settings.

    >>> method_of("mean", {}).name
    'mean'
    """
    return named_method(name, given) if is_private(name) else _printed(name, given)


def settings_of(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings, JSON-ready: what was given, and the defaults of the rest."""
    whole: dict[str, Any] = configuration_of(method_of(name, given))
    return {field: value for field, value in whole.items() if field != "type"}


def is_private(name: str) -> bool:
    """Whether it is a private method; all others run here alone, and are marked NOT PRIVATE.

    >>> is_private("mean"), is_private("as-published-mean")
    (True, False)
    """
    return not name.startswith(PREFIX)


def _printed(name: str, given: Mapping[str, Any]) -> NotPrivate:
    from pydantic import TypeAdapter, ValidationError

    if name not in AS_PUBLISHED:
        raise ArgumentError(f"A printed mechanism is one of {', '.join(AS_PUBLISHED)}; got '{name}'.")
    default: Any = AS_PUBLISHED[name]
    settings = {field.name: getattr(default, field.name) for field in fields(default)}
    try:
        if not settings.keys() >= given.keys():
            raise ValueError
        chosen: NotPrivate = TypeAdapter(type(default)).validate_python({**settings, **given})
    except (ValueError, ValidationError):
        its = ", ".join(f"{field} = {value}" for field, value in settings.items()) or "none"
        raise ArgumentError(
            f"A setting must be a field of '{name}' and of its type; got {dict(given)}. Its settings: {its}."
        ) from None
    if chosen.name != name:
        raise ArgumentError(f"These settings make another mechanism, '{chosen.name}'; name that one instead.")
    return chosen
