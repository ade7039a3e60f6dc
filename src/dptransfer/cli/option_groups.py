"""Options that several commands share, as dataclasses: a field is an option, the commands get the object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a dataclass by an option for each of its fields.

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
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters = []
    for name, parameter in signature(command).parameters.items():
        kind = hints[name]
        if not is_dataclass(kind):
            parameters.append(_option(name, kind, parameter.default))
            continue
        groups[name] = kind
        inner = get_type_hints(kind, include_extras=True)
        defaults = {one.name: one.default for one in fields(kind)}
        parameters += [
            _option(field, inner[field], Parameter.empty if default is MISSING else default)
            for field, default in defaults.items()
        ]

    @wraps(command)
    def run(**options: Any) -> None:
        made = {
            name: kind(**{one.name: options.pop(one.name) for one in fields(kind)})
            for name, kind in groups.items()
        }
        command(**made, **options)

    run.__annotations__ = {}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _option(name: str, kind: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
