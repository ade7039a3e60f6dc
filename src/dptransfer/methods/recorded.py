"""A method from the configuration that a release recorded: the inverse of `configuration_of`.

A release comes from somebody else, so a word in it never names a module or a function: a type is looked up
among the methods of this library and of installed packages, their parts and the feature maps, and everything
else is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dptransfer.errors import DPTransferError, ReleaseError
from dptransfer.features import PublicMap, UnitNorm, VocabularyMap
from dptransfer.methods import METHODS, PictureTuning, PrivateTuning
from dptransfer.methods.base import PrivateMethod
from dptransfer.methods.parts import parts_of

_OF_EVERY_METHOD: tuple[type[Any], ...] = (PrivateTuning, PictureTuning, UnitNorm, PublicMap, VocabularyMap)


def method_from_configuration(configuration: Mapping[str, Any]) -> PrivateMethod:
    """The method whose `configuration_of` this is.

    >>> from dptransfer.methods import NoisyGD
    >>> from dptransfer.methods.base import configuration_of
    >>> method_from_configuration(configuration_of(NoisyGD(steps=10))) == NoisyGD(steps=10)
    True

    Raises:
        UnknownType: a type that neither this library nor an installed package has.
        ReleaseError: a setting that the type does not have or that is not there, a value that it refuses, or
            a type that is no method.
    """
    try:
        made = _built(configuration, _known_types())
    except (
        DPTransferError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        RecursionError,
    ) as problem:
        kind = UnknownType if isinstance(problem, UnknownType) else ReleaseError
        raise kind(
            f"A recorded configuration must be that of a method that is installed; it is not ({problem}). "
            "Read it with the version that wrote it, or ask its publisher."
        ) from None
    if not isinstance(made, PrivateMethod):
        raise ReleaseError(
            f"A recorded configuration must be that of a method; it is of a {type(made).__name__}. "
            "Ask its publisher."
        )
    return made


class UnknownType(ReleaseError):
    """A configuration of something that is not installed here."""


def _known_types() -> dict[str, type[Any]]:
    """By the name of the class; the library's own come first, so that no package takes the name of one."""
    known: dict[str, type[Any]] = {}
    parts = (one for method in METHODS.values() for one in (method, *parts_of(method)))
    for one in (*_OF_EVERY_METHOD, *parts):
        known.setdefault(one.__name__, one)
    return known


def _built(value: Any, known: Mapping[str, type[Any]]) -> Any:
    if isinstance(value, Mapping):
        settings = {name: _built(item, known) for name, item in value.items()}
        kind = settings.pop("type", None)
        if not isinstance(kind, str) or kind not in known:
            raise UnknownType(f"it names the type {kind!r}")
        expected = {one.name for one in fields(known[kind])}
        if set(settings) != expected:
            odd = ", ".join(sorted(expected ^ set(settings)))
            raise ReleaseError(f"missing or unknown settings of {kind}: {odd}")
        return known[kind](**settings)
    if isinstance(value, list | tuple):
        return tuple(_built(item, known) for item in value)
    return value
