"""What tells configurations apart, in words: for notes and cards that say what was tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dptransfer.methods.base import PrivateMethod, configuration_of

_MOST_VALUES = 6  # of one setting, in a sentence


def tuned_settings(candidates: Sequence[PrivateMethod]) -> str:
    """The methods, and the settings in which those of one name differ, each with the values it may take.

    >>> from dptransfer.methods import MeanPrototypes, NoisyGD
    >>> tuned_settings([NoisyGD(steps=10), NoisyGD(steps=30), MeanPrototypes()])
    "'noisy-gd' with steps 10 or 30, 'mean'"
    """
    said = []
    for name in dict.fromkeys(one.name for one in candidates):
        values: dict[str, list[str]] = {}
        for settings in _varied([one for one in candidates if one.name == name]):
            for setting, value in settings.items():
                known = values.setdefault(setting, [])
                known += [str(value)] if str(value) not in known else []
        said.append(_with(name, [f"{setting} {_or(known)}" for setting, known in values.items()]))
    return ", ".join(said)


def configuration_in_words(chosen: PrivateMethod, candidates: Sequence[PrivateMethod]) -> str:
    """One of the candidates, by its name and the settings in which it may differ from others of that name.

    >>> from dptransfer.methods import NoisyGD
    >>> configuration_in_words(NoisyGD(steps=30), [NoisyGD(steps=10), NoisyGD(steps=30)])
    "'noisy-gd' with steps 30"
    """
    own = next(iter(_varied([chosen, *(one for one in candidates if one.name == chosen.name)])))
    return _with(chosen.name, [f"{setting} {value}" for setting, value in own.items()])


def _varied(alike: Sequence[PrivateMethod]) -> list[dict[str, Any]]:
    """Each one's settings, by dotted name, that are not the same in all of them."""
    flat = [_flat(configuration_of(one)) for one in alike]
    names = list(dict.fromkeys(name for one in flat for name in one))
    differ = [name for name in names if len({str(one.get(name)) for one in flat}) > 1]
    return [{name: one[name] for name in differ if name in one} for one in flat]


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= {f"{before}{name}": value["type"], **_flat(value, f"{before}{name}.")}
        elif name != "type":
            found[before + name] = value
    return found


def _with(name: str, settings: Sequence[str]) -> str:
    return f"'{name}' with {' and '.join(settings)}" if settings else f"'{name}'"


def _or(values: Sequence[str]) -> str:
    if len(values) > _MOST_VALUES:
        values = [*values[: _MOST_VALUES - 1], f"{len(values) - _MOST_VALUES + 1} others"]
    return " or ".join([", ".join(values[:-1]), values[-1]]) if len(values) > 1 else values[0]
