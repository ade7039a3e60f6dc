"""Types of settings that say what a value must be; checked when a method, or a part of one, is made.

>>> from dptransfer.methods.heads.noisy_gd import NoisyGD
>>> NoisyGD(steps=0)
Traceback (most recent call last):
    ...
dptransfer.errors.ArgumentError: steps must be a whole number of at least 1; got 0.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any, TypeAlias

from dptransfer.base import checks

Whole: TypeAlias = Annotated[int, checks.whole]
Positive: TypeAlias = Annotated[float, checks.positive]
NonNegative: TypeAlias = Annotated[float, checks.non_negative]
Moderate: TypeAlias = Annotated[float, checks.moderate]
ModerateOrZero: TypeAlias = Annotated[float, partial(checks.moderate, or_zero=True)]
Fraction: TypeAlias = Annotated[float, checks.fraction]
Rate: TypeAlias = Annotated[float, checks.rate]

Check: TypeAlias = Callable[[str, Any], Any]
"""A function of name and value that returns the value, or raises."""


def one_of(*words: str) -> Check:
    """Check that a text is one of these words.

    >>> hint = Annotated[str, one_of("soft", "hard")]
    """
    return partial(checks.one_of, allowed=words)


def check_settings(made: Any) -> None:
    """Check each field of a dataclass instance by the functions in its type."""
    for name, check in _checks_of(made.__class__).items():
        object.__setattr__(made, name, check(name, getattr(made, name)))


@cache
def _checks_of(kind: Any) -> dict[str, Check]:
    """By field; a class adds to those of its bases."""
    found: dict[str, Check] = {}
    for one in reversed(kind.__mro__):
        for name, hint in inspect.get_annotations(one, eval_str=True).items():
            for part in (hint, *typing.get_args(hint)):
                for check in filter(callable, getattr(part, "__metadata__", ())):
                    found[name] = check if part is hint else checks.or_none(check)  # in a union with None
    return found
