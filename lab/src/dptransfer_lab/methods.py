"""Everything a study may name: the library's methods, and the mechanisms as papers print them."""

from __future__ import annotations

from typing import Any, TypeGuard, cast

from dptransfer.base.types import JsonObject
from dptransfer.errors import ArgumentError
from dptransfer.methods import ImageMethod, PrivateMethod, configuration_of
from dptransfer.methods.configuration import configure, named_method, setting_names
from dptransfer_lab.as_published import AS_PUBLISHED
from dptransfer_lab.unprotected import PREFIX, NotPrivate


def method_of(name: str, given: JsonObject) -> PrivateMethod | NotPrivate:
    """What runs under this name with these settings.

    >>> method_of("mean", {}).name
    'mean'
    """
    return named_method(name, given) if is_private(name) else _printed(name, given)


def settings_of(name: str, given: JsonObject) -> JsonObject:
    """All settings, JSON-ready: what was given, and the defaults of the rest."""
    whole: JsonObject = configuration_of(method_of(name, given))
    return {field: value for field, value in whole.items() if field != "type"}


def is_private(name: str) -> bool:
    """Whether it is a private method; all others run here alone, and are marked NOT PRIVATE.

    >>> is_private("mean"), is_private("as-published-mean")
    (True, False)
    """
    return not name.startswith(PREFIX)


def sees_pictures(method: PrivateMethod | NotPrivate) -> TypeGuard[ImageMethod]:
    """Whether it takes pictures; what is printed takes rows."""
    return isinstance(method, ImageMethod)


def _printed(name: str, given: JsonObject) -> NotPrivate:
    if name not in AS_PUBLISHED:
        raise ArgumentError(f"A printed mechanism is one of {', '.join(AS_PUBLISHED)}; got '{name}'.")
    default: Any = AS_PUBLISHED[name]
    known = setting_names(default)
    if not set(known) >= given.keys():
        its = ", ".join(known) or "none"
        raise ArgumentError(f"A setting must be a field of '{name}'; got {dict(given)}. Its settings: {its}.")
    chosen: Any = configure(default, given)
    if chosen.name != name:
        raise ArgumentError(f"These settings make another mechanism, '{chosen.name}'; name that one instead.")
    return cast(NotPrivate, chosen)
