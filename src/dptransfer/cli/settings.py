"""From `--method`, its own options, `--set`, `--tune` and `--device` to a method object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dptransfer.cli.device import on_device
from dptransfer.cli.tuning import Tuning, tuned_method
from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.methods import PrivateMethod


def method_from(
    name: str,
    shortcuts: Mapping[str, Any],
    assignments: Sequence[str] | None = None,
    *,
    tuning: Tuning | None = None,
    device: str | None = None,
    encodes: bool = False,
) -> PrivateMethod:
    """The method called `name` with the settings that were given.

    Args:
        name: its command-line name.
        shortcuts: options such as --k by field name; None where not given.
        assignments: texts 'field=value' or 'features.field=value'.
        tuning: the settings to choose among, if any.
        device: where it computes; None for its own.
        encodes: whether an encoder takes the device too.
    """
    given = {field: value for field, value in shortcuts.items() if value is not None}
    for text in assignments or ():
        field, equals, value = text.partition("=")
        if not equals or not field.strip():
            raise ArgumentError(f"--set takes field=value; got '{text}'. Example: --set k=5")
        given[field.strip()] = value.strip()
    return on_device(tuned_method(name, given, tuning or Tuning()), device, encodes=encodes)
