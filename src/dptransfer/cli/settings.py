"""From `--method`, its own options and `--set field=value` to a method object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dptransfer.errors import ArgumentError
from dptransfer.named import named_method

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
    given = {field: value for field, value in shortcuts.items() if value is not None}
    for text in assignments or ():
        field, equals, value = text.partition("=")
        if not equals or not field.strip():
            raise ArgumentError(f"--set takes field=value; got '{text}'. Example: --set k=5")
        given[field.strip()] = value.strip()
    return named_method(name, given)
