"""The parts of a method: fields that hold a dataclass with settings of its own, such as `start` or `pace`."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache

type_hints = cache(typing.get_type_hints)  # a verification asks for those of every method


def alternatives(owner: type, name: str) -> tuple[type, ...]:
    """The dataclasses that a field may hold; none for a field of plain values.

    >>> from dptransfer.methods import NoisyGD
    >>> [part.__name__ for part in alternatives(NoisyGD, "start")]
    ['FromZero', 'FromShots', 'FromNames']
    """
    hint = type_hints(owner)[name]
    united = typing.get_origin(hint) in (typing.Union, types.UnionType)
    found = typing.get_args(hint) if united else (hint,)
    return tuple(one for one in found if isinstance(one, type) and is_dataclass(one))


def parts_of(owner: type) -> Iterator[type]:
    """Every dataclass that one of its fields may hold, and theirs."""
    for one in fields(owner):
        for part in alternatives(owner, one.name):
            yield part
            yield from parts_of(part)
