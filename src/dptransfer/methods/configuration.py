"""Build a method from a name and settings, and from the configuration that a release recorded.

A release comes from somebody else, so a word in it never names a module or a function: a type is looked up
among the methods of this library and of installed packages, their parts and the feature maps, and everything
else is refused.

A method's frozen dataclass is its configuration, so its fields are the settings: no second list is kept here,
and a method that is added later can be named, with its fields, at once. A field that holds another dataclass
is a part: its settings are reached with a dot ('pace.reach'). Where a part may be one of several, each has a
word for its `kind`, and the word alone chooses it ('start=shots').
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from dptransfer.errors import ArgumentError, DPTransferError, ReleaseError, nearest
from dptransfer.exact import feature_map, public_map, vocabulary_map
from dptransfer.methods import METHODS, tuning
from dptransfer.methods.method import PrivateMethod

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Made = TypeVar("Made", bound="DataclassInstance")
type_hints = cache(typing.get_type_hints)  # a verification asks for those of every method


def alternatives(owner: type, name: str) -> tuple[type, ...]:
    """The dataclasses that a field may hold; none for a field of plain values.

    >>> from dptransfer.methods.heads.noisy_gd import NoisyGD
    >>> [part.__name__ for part in alternatives(NoisyGD, "start")]
    ['FromZero', 'FromShots', 'FromNames']
    """
    hint = type_hints(owner)[name]
    if hint is feature_map.Features:
        return tuple(_MAPS)
    united = typing.get_origin(hint) in (typing.Union, types.UnionType)
    found = typing.get_args(hint) if united else (hint,)
    return tuple(one for one in found if isinstance(one, type) and is_dataclass(one))


def parts_of(owner: type) -> Iterator[type]:
    """Every dataclass that one of its fields may hold, and theirs."""
    for one in fields(owner):
        for part in alternatives(owner, one.name):
            yield part
            yield from parts_of(part)


_MAPS: dict[type[Any], str] = {
    public_map.PublicMap: public_map.FittedPublicMap.kind,
    feature_map.UnitNorm: feature_map.FittedUnitNorm.kind,
    vocabulary_map.VocabularyMap: vocabulary_map.FittedVocabularyMap.kind,
}
_OF_MAPS = ("axes", "whitening", "pool")
_OF_EVERY_METHOD: tuple[type[Any], ...] = (tuning.PrivateTuning, tuning.PictureTuning, *_MAPS)


def method_from_configuration(configuration: Mapping[str, object]) -> PrivateMethod:
    """The method whose `configuration_of` this is.

    >>> from dptransfer.methods.heads.noisy_gd import NoisyGD
    >>> from dptransfer.methods.method import configuration_of
    >>> method_from_configuration(configuration_of(NoisyGD(steps=10))) == NoisyGD(steps=10)
    True

    Raises:
        UnknownType: a type that neither this library nor an installed package has.
        ReleaseError: a setting that the type does not have or that is not there, a value that it refuses, or
            a type that is no method.
    """
    try:
        made = _built(configuration, _known_types())
    except _REFUSALS as problem:
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


_REFUSALS = (DPTransferError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)


class UnknownType(ReleaseError):
    """A configuration of something that is not installed here."""


def _known_types() -> dict[str, type[Any]]:
    """By the name of the class; the library's own come first, so that no package takes the name of one."""
    known: dict[str, type[Any]] = {}
    parts = (one for method in METHODS.values() for one in (method, *parts_of(method)))
    for one in (*_OF_EVERY_METHOD, *parts):
        known.setdefault(one.__name__, one)
    return known


def _built(value: object, known: Mapping[str, type[Any]]) -> object:
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


def named_method(name: str, given: Mapping[str, object]) -> PrivateMethod:
    """The method called `name` with the settings that were given.

    >>> named_method("top-k", {"k": 5, "axes": 64}).name
    'top-k'
    >>> made = named_method("noisy-gd", {"start": "shots", "start.strength": "0.1"})
    >>> made.start
    FromShots(strength=0.1)

    Args:
        name: its command-line name, or 'package.module:Class' for a method that no package registers.
        given: values by field; those of the feature map may be given beside the method's own, or as
            'features.field', and those of any other part as 'part.field'. A text is read as JSON, as a word
            or as a comma list, whichever fits first.
    """
    return configure(METHODS.find(name)(**{}), given)  # every field has a default


def as_method(method: str | PrivateMethod) -> PrivateMethod:
    """A method object as it is; a name as the method of that name, with its defaults."""
    if isinstance(method, type) and issubclass(method, PrivateMethod):
        made = f"{method.__name__}()"
        raise ArgumentError(f"A method is given by its name or as an object; got its class. Pass {made}.")
    return method if isinstance(method, PrivateMethod) else named_method(str(method), {})


def configure(method: PrivateMethod, given: Mapping[str, object]) -> PrivateMethod:
    """Change settings of a method; they are named as for `named_method`."""
    own = _settable(method)
    in_map = {name for name in set(_OF_MAPS) - own if "features" in own}
    named = {f"features.{name}" if name in in_map else name: value for name, value in given.items()}
    return _with_settings(method, named, f"'{method.name}'")


def _with_settings(value: Made, given: Mapping[str, object], of: str) -> Made:
    """A dataclass instance with these fields changed; 'part.field' reaches into the one a field holds."""
    owner: type = type(value)
    own: dict[str, object] = {}
    parts: dict[str, dict[str, object]] = {}  # by field: settings of the part, and its kind if one is chosen
    for name, setting in given.items():
        head, _, rest = name.partition(".")
        if head not in _settable(value):
            mapped = _OF_MAPS if "features" in _settable(value) else ()
            raise _no_such(of, name, [*setting_names(value), *mapped])
        if alternatives(owner, head):
            whole = setting if isinstance(setting, Mapping) else {"kind": setting}
            parts.setdefault(head, {}).update({rest: setting} if rest else whole)
        elif rest:
            plain = f"'{head}' of {of} is a plain value. Give '{head}' alone."
            raise ArgumentError(f"A dot leads to a part's own settings; {plain}")
        else:
            own[head] = in_type(type_hints(owner)[head], head, setting)
    own |= {head: _part(value, head, settings) for head, settings in parts.items()}
    return replace(value, **own) if own else value


def _part(owner: DataclassInstance, name: str, settings: dict[str, object]) -> Any:
    """The value of a field that holds a dataclass: of the kind that was chosen, with its settings."""
    known = alternatives(type(owner), name)
    asked = {setting.partition(".")[0] for setting in settings} - {"kind"}
    if "kind" in settings:
        made: Any = _of_kind(type(owner), name, settings.pop("kind"))
    else:
        made = getattr(owner, name)
        able = [kind for kind in known if asked <= _settable(kind)]
        if not asked <= _settable(made) and len(able) == 1:
            made = able[0](**{})  # settings that only one of the alternatives has choose it
    if not settings:
        return made
    if made is None:
        raise ArgumentError(f"'{name}' is none, which has no settings. Choose one: {_words(known)}.")
    word = _word(type(made))
    return _with_settings(made, settings, f"'{name}={word}'" if word else f"'{name}'")


def _of_kind(owner: type, name: str, kind: object) -> object:
    known = alternatives(owner, name)
    by_word = {word: option for option in known if (word := _word(option))}
    if isinstance(kind, known):
        return kind
    if isinstance(kind, str) and kind in by_word:
        return by_word[kind](**{})
    if kind in (None, "none", "null") and type(None) in typing.get_args(type_hints(owner)[name]):
        return None
    if by_word:
        remedy = nearest(str(kind), by_word, "Choose one of these.")
        raise ArgumentError(f"'{name}' must be one of {_words(known)}; got '{kind}'. {remedy}")
    inside = ", ".join(f"{name}.{one}" for option in known for one in sorted(_settable(option)))
    raise ArgumentError(f"'{name}' has settings of its own; got '{kind}' for all of them. Set {inside}.")


def _words(known: Iterable[type]) -> str:
    return ", ".join(_word(option) or option.__name__ for option in known)


def _word(option: type) -> str | None:
    """The word that chooses this kind of part."""
    return _MAPS.get(option) or getattr(option, "kind", None)


def _settable(value: object) -> set[str]:
    return {one.name for one in fields(value) if one.init} if is_dataclass(value) else set()


def setting_names(value: DataclassInstance) -> list[str]:
    """Names of all settings."""
    found = []
    for name in sorted(_settable(value) - {"features"}):
        parts = alternatives(type(value), name)
        if not parts or any(hasattr(part, "kind") for part in parts):
            found.append(name)
        found += sorted({f"{name}.{one}" for part in parts for one in _settable(part)})
    return found


def _no_such(of: str, wrong: str, known: list[str]) -> ArgumentError:
    listed = f"Its settings are {', '.join(known)}." if known else "It has no settings; leave that out."
    remedy = nearest(wrong, known, listed)
    return ArgumentError(f"A setting must be a field of the method; {of} has no '{wrong}'. {remedy}")


def in_type(hint: Any, name: str, given: object) -> Any:
    """The value in the type that `name` has: read as JSON, a word or a comma list, whichever fits first."""
    from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

    try:
        adapter = TypeAdapter(hint)
    except PydanticSchemaGenerationError:
        raise ArgumentError(f"'{name}' cannot be set by name. Set it in Python.") from None
    for reading in _readings(given):
        try:
            return adapter.validate_python(reading)
        except ValidationError:
            continue
    kind = hint.__name__ if isinstance(hint, type) else str(hint)
    raise ArgumentError(f"'{name}' must be of the type {kind}; got '{given}'. Give it such a value.")


def _readings(given: object) -> Iterator[object]:
    if isinstance(given, str):
        with suppress(ValueError):
            yield json.loads(given)
    yield given
    if isinstance(given, str):
        yield [part.strip() for part in given.split(",")]
