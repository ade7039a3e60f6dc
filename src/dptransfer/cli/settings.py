"""From `--method`, its own options and `--set field=value` to a method object.

A method's frozen dataclass is its configuration, so its fields are the options: no second list is kept here,
and a method that is added later has its fields on the command line at once.
"""

from __future__ import annotations

import difflib
import json
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.methods import PrivateMethod


def method_from(
    name: str, shortcuts: Mapping[str, Any], assignments: Sequence[str] | None = None
) -> PrivateMethod:
    """The method called `name` with the settings that were given.

    Args:
        name: its command-line name.
        shortcuts: options such as --k by field name; None where not given.
        assignments: texts 'field=value' or 'features.field=value'.
    """
    from dptransfer.methods import METHODS

    if name not in METHODS:
        close = difflib.get_close_matches(name.lower().replace("_", "-"), METHODS, n=1, cutoff=0.5)
        remedy = f"Did you mean '{close[0]}'?" if close else "Choose one of these."
        raise ArgumentError(f"--method must be one of {', '.join(METHODS)}; got '{name}'. {remedy}")
    given = {field: value for field, value in shortcuts.items() if value is not None}
    for text in assignments or ():
        field, equals, value = text.partition("=")
        if not equals or not field.strip():
            raise ArgumentError(f"--set takes field=value; got '{text}'. Example: --set k=5")
        given[field.strip()] = value.strip()
    return _configured(METHODS[name](**{}), given)  # every field has a default


def _configured(method: PrivateMethod, given: Mapping[str, Any]) -> PrivateMethod:
    own: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    features = method.features
    for name, value in given.items():
        if name == "features":
            features = _feature_map(value)
        elif name in _settable(method):
            own[name] = _converted(type(method), name, value)
        else:
            inner[name.removeprefix("features.")] = value
    if inner:
        features = _with_inner(method, features, inner)
    return replace(method, **own, features=features) if own or features is not method.features else method


def _feature_map(kind: str) -> Any:
    from dptransfer.features import FittedPublicMap, FittedUnitNorm, PublicMap, UnitNorm

    known = {FittedPublicMap.kind: PublicMap, FittedUnitNorm.kind: UnitNorm}
    if kind not in known:
        raise ArgumentError(f"--set features=... must be one of {', '.join(known)}; got '{kind}'.")
    return known[kind]()


def _with_inner(method: PrivateMethod, features: Any, inner: Mapping[str, Any]) -> Any:
    """The feature map with these fields set; another kind of map where only that one has them."""
    for candidate in (features, _feature_map("public-map"), _feature_map("unit-norm")):
        if is_dataclass(candidate) and set(inner) <= _settable(candidate):
            values = {name: _converted(type(candidate), name, value) for name, value in inner.items()}
            return replace(candidate, **values)  # type: ignore[type-var]  # an instance, not a class
    of_maps = ["axes", "whitening", "pool"]
    known = [*sorted(_settable(method) - {"features"}), *of_maps]
    wrong = next((name for name in inner if name not in of_maps), " and ".join(inner))
    close = difflib.get_close_matches(wrong, known, n=1)
    remedy = f"Did you mean '{close[0]}'?" if close else f"Its settings are {', '.join(known)}."
    raise ArgumentError(
        f"A setting must be a field of the method; '{method.name}' has no '{wrong}'. {remedy}"
    )


def _settable(value: Any) -> set[str]:
    return {field.name for field in fields(value) if field.init}


def _converted(owner: type, name: str, given: Any) -> Any:
    """The value in the type of the field: read as JSON, a word or a comma list, whichever fits first."""
    from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

    hint = typing.get_type_hints(owner)[name]
    try:
        adapter = TypeAdapter(hint)
    except PydanticSchemaGenerationError:
        raise ArgumentError(f"'{name}' cannot be set on the command line. Set it in Python.") from None
    for reading in _readings(given):
        try:
            return adapter.validate_python(reading)
        except ValidationError:
            continue
    kind = getattr(hint, "__name__", str(hint)) if isinstance(hint, type) else str(hint)
    raise ArgumentError(f"'{name}' must be of the type {kind}; got '{given}'. Example: --set {name}=...")


def _readings(given: Any) -> list[Any]:
    if not isinstance(given, str):
        return [given]
    try:
        readings = [json.loads(given), given]
    except ValueError:
        readings = [given]
    return [*readings, [part.strip() for part in given.split(",")]]
