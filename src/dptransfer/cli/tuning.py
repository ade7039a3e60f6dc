"""From `--tune field=a,b,c` to a method that chooses among configurations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dptransfer.errors import ArgumentError
from dptransfer.named import named_method

if TYPE_CHECKING:
    from dptransfer.methods import PrivateMethod

_EXAMPLE = "Example: --tune steps=10,30"


@dataclass(frozen=True)
class Tuning:
    """What the command line says about tuning.

    Attributes:
        fields: texts 'field=value,value'; none for no tuning.
        on_public: choose on public rows, which costs nothing, and not on private ones.
        mean_trials: expected number of trials on private rows; None for the method's own.
    """

    fields: Sequence[str] = ()
    on_public: bool = False
    mean_trials: float | None = None


def tuned_method(name: str, given: Mapping[str, Any], tuning: Tuning) -> PrivateMethod:
    """The method called `name` with these settings, or a choice among those that `--tune` lists."""
    if not tuning.fields:
        if tuning != Tuning():
            option = "--tune-on-public" if tuning.on_public else "--mean-trials"
            raise ArgumentError(f"{option} needs something to tune; there is no --tune. {_EXAMPLE}")
        return named_method(name, given)
    from dptransfer.methods import PrivateTuning
    from dptransfer.methods.grid import every_combination

    if tuning.on_public and tuning.mean_trials is not None:
        raise ArgumentError(
            "--mean-trials is for tuning on private rows; --tune-on-public tries every configuration. "
            "Leave one of them out."
        )
    lists = _lists(tuning.fields, given)
    named_method(name, given)  # what is wrong with the settings is not the tuning's fault
    found = every_combination(lambda one: named_method(name, {**given, **one}), lists, option="--tune ")
    candidates = tuple(candidate for _, candidate in found)
    made = PrivateTuning(candidates=candidates, tune_on_public=tuning.on_public)
    return made if tuning.mean_trials is None else replace(made, mean_trials=tuning.mean_trials)


def _lists(texts: Sequence[str], given: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The values to try, by field."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        field, equals, listed = (part.strip() for part in text.partition("="))
        if not equals or not field:
            raise ArgumentError(f"--tune takes field=value,value; got '{text}'. {_EXAMPLE}")
        values = _values(listed)
        if not values or "" in values:
            raise ArgumentError(
                f"--tune must list values; got '{text}', with none where one is due. {_EXAMPLE}"
            )
        if field in given:
            raise ArgumentError(f"A field is either set or tuned; '{field}' is both. Leave one of them out.")
        if field in found:
            raise ArgumentError(f"A field is tuned once; '{field}' is there twice. Give one list of values.")
        found[field] = values
    return found


def _values(listed: str) -> list[Any]:
    """A JSON list, for values that have commas themselves; else what stands between commas."""
    try:
        values = json.loads(listed)
    except ValueError:
        values = None
    return values if isinstance(values, list) else [part.strip() for part in listed.split(",")]
