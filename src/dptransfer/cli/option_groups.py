"""Options that several commands share, as dataclasses: a field is an option, the commands get the object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import get_type_hints


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a dataclass by an option for each field, or for its fields.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     width: int
    ...     height: int = 2
    >>> def area(size: Size, times: int = 1) -> None:
    ...     print(size.width * size.height * times)
    >>> list(signature(expand_groups(area)).parameters)
    ['width', 'height', 'times']
    >>> expand_groups(area)(width=3, height=2, times=1)
    6
    """
    defaults = {name: one.default for name, one in signature(command).parameters.items()}
    hints = get_type_hints(command, include_extras=True)

    @wraps(command)
    def run(**options: object) -> None:
        command(**{name: _build(hints[name], name, options) for name in defaults})

    run.__annotations__ = {}
    run.__dict__["__signature__"] = Signature(
        [one for name, default in defaults.items() for one in _options(name, hints[name], default)]
    )
    return run


def _options(name: str, kind: type, default: object) -> Iterator[Parameter]:
    """The option of this name, or those of the group."""
    if not is_dataclass(kind):
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        return
    hints = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        default = Parameter.empty if one.default is MISSING else one.default
        yield from _options(one.name, hints[one.name], default)


def _build(kind: type, name: str, options: dict[str, object]) -> object:
    """The value of this option, or an object of the group."""
    if not is_dataclass(kind):
        return options[name]
    hints = get_type_hints(kind)
    return kind(**{one.name: _build(hints[one.name], one.name, options) for one in fields(kind)})
