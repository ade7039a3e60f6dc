"""A method from the configuration that a release recorded: the inverse of `configuration_of`.

A release comes from somebody else, so a word in it never names a module or a function: a type is looked up
among the methods, feature maps and parts of this library, and everything else is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dptransfer.errors import DPTransferError, ReleaseError
from dptransfer.features import PublicMap, UnitNorm
from dptransfer.methods import METHODS, PrivateTuning
from dptransfer.methods.base import PrivateMethod
from dptransfer.methods.descent import Pace
from dptransfer.methods.start import FromNames, FromShots, FromZero

_PARTS: tuple[type[Any], ...] = (PrivateTuning, UnitNorm, PublicMap, FromZero, FromShots, FromNames, Pace)


def method_from_configuration(configuration: Mapping[str, Any]) -> PrivateMethod:
    """The method whose `configuration_of` this is.

    >>> from dptransfer.methods import NoisyGD
    >>> from dptransfer.methods.base import configuration_of
    >>> method_from_configuration(configuration_of(NoisyGD(steps=10))) == NoisyGD(steps=10)
    True

    Raises:
        ReleaseError: a type that is not ours, a setting that the type does not have or that is not there, or
            a value that it refuses.
    """
    known: dict[str, type[Any]] = {one.__name__: one for one in (*METHODS.values(), *_PARTS)}
    try:
        made = _built(configuration, known)
    except (
        DPTransferError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        RecursionError,
    ) as problem:
        raise ReleaseError(
            f"A recorded configuration must be that of a method of this library; it is not ({problem}). "
            "Read it with the version that wrote it, or ask its publisher."
        ) from None
    if not isinstance(made, PrivateMethod):
        raise ReleaseError(
            f"A recorded configuration must be that of a method; it is of a {type(made).__name__}. "
            "Ask its publisher."
        )
    return made


def _built(value: Any, known: Mapping[str, type[Any]]) -> Any:
    if isinstance(value, Mapping):
        settings = {name: _built(item, known) for name, item in value.items()}
        kind = settings.pop("type", None)
        if not isinstance(kind, str) or kind not in known:
            raise ReleaseError(f"it names the type {kind!r}")
        expected = {one.name for one in fields(known[kind])}
        if set(settings) != expected:
            odd = ", ".join(sorted(expected ^ set(settings)))
            raise ReleaseError(f"missing or unknown settings of {kind}: {odd}")
        return known[kind](**settings)
    if isinstance(value, list | tuple):
        return tuple(_built(item, known) for item in value)
    return value
