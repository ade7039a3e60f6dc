"""Everything a study may name: the library's methods, and the mechanisms as papers print them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from dptransfer.errors import ArgumentError
from dptransfer.methods import METHODS, PrivateMethod
from dptransfer.methods.base import configuration_of
from dptransfer.named import converted, named_method
from dptransfer_lab.as_published import AS_PUBLISHED, Published
from dptransfer_lab.unprotected import PREFIX


def entrant(name: str, given: Mapping[str, Any]) -> PrivateMethod | Published:
    """What runs under this name with these settings.

    >>> entrant("mean", {}).name
    'mean'
    """
    if not name.startswith(PREFIX):
        return named_method(name, given)
    if name not in AS_PUBLISHED:
        raise ArgumentError(f"A printed mechanism is one of {', '.join(AS_PUBLISHED)}; got '{name}'.")
    printed: Any = AS_PUBLISHED[name]  # a dataclass; its fields are its settings
    known = [field.name for field in fields(printed)]
    for field in given:
        if field not in known:
            its = ", ".join(known) or "none"
            raise ArgumentError(f"A setting must be a field of '{name}'; got '{field}'. Its settings: {its}.")
    chosen: Published = replace(
        printed, **{field: converted(type(printed), field, value) for field, value in given.items()}
    )
    if chosen.name != name:
        raise ArgumentError(f"These settings make another mechanism, '{chosen.name}'; name that one instead.")
    return chosen


def settings_of(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings, JSON-ready: what was given, and the defaults of the rest."""
    whole: dict[str, Any] = configuration_of(entrant(name, given))
    return {field: value for field, value in whole.items() if field != "type"}


def is_private(name: str) -> bool:
    """Whether it is a method of the library's; all others run here alone, and are marked NOT PRIVATE.

    >>> is_private("mean"), is_private("as-published-mean")
    (True, False)
    """
    return name in METHODS
