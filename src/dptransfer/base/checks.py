"""One-line argument checks that raise the library's own errors.

Each takes the argument's name and value and returns the value, so that a frozen dataclass can check
itself in ``__post_init__`` and a bad object never exists. They are for declared, public arguments only.
Numbers may be Python's or NumPy's; what is returned is Python's, so that it can be written as JSON.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Collection, Mapping
from numbers import Integral, Real
from types import ModuleType
from typing import Any, SupportsFloat, TypeAlias

from dptransfer.errors import ArgumentError, MissingDependency

Check: TypeAlias = Callable[[str, Any], Any]
"""Takes a field's name and its value; returns the value, or raises."""
Checks: TypeAlias = Mapping[str, Check]
"""The function that checks each field of a class, by the field's name."""


def positive(name: str, value: float) -> float:
    """A finite, normal number above zero (a subnormal one loses precision silently, so it is refused).

    >>> positive("clip", 1.5)
    1.5
    """
    if not (_is_finite(value) and value >= sys.float_info.min):
        raise ArgumentError(f"{name} must be a positive finite number; got {value!r}.")
    return _plain(value)


def moderate(name: str, value: float, *, or_zero: bool = False) -> float:
    """A setting between 1e-12 and 1e12: what is beyond serves no one, and may leave the floats further on.

    A method must not find that out once it has read rows, and depending on them.

    >>> moderate("ridge", 0.3)
    0.3
    """
    if not (_is_finite(value) and (1e-12 <= value <= 1e12 or (or_zero and value == 0))):
        zero = "0, or " if or_zero else ""
        raise ArgumentError(f"{name} must be {zero}1e-12 to 1e12; got {value!r}. Stay near the default.")
    return _plain(value)


def non_negative(name: str, value: float) -> float:
    """Zero, or a positive number as `positive` understands it."""
    return _plain(value) if _is_finite(value) and value == 0 else positive(name, value)


def probability(name: str, value: float) -> float:
    """A number in [0, 1); one itself would allow everything."""
    if not (_is_finite(value) and (value == 0 or sys.float_info.min <= value < 1)):
        raise ArgumentError(f"{name} must lie in [0, 1), and be 0 rather than subnormal; got {value!r}.")
    return _plain(value)


def fraction(name: str, value: float) -> float:
    """A number strictly between 0 and 1, and not subnormal."""
    if not (_is_finite(value) and sys.float_info.min <= value < 1):
        raise ArgumentError(f"{name} must lie strictly between 0 and 1; got {value!r}. Choose such a one.")
    return _plain(value)


def rate(name: str, value: float) -> float:
    """A number above 0 and at most 1: a chance that something happens at all."""
    if positive(name, value) > 1:
        raise ArgumentError(f"{name} must lie in (0, 1]; got {value!r}.")
    return _plain(value)


def or_none(check: Check) -> Check:
    """The same check for a setting that may be left open."""
    return lambda name, value: None if value is None else check(name, value)


def whole(name: str, value: int, *, at_least: int = 1) -> int:
    """A whole number no smaller than `at_least`; 3.0 is one."""
    if not (_is_finite(value) and int(value) == value and value >= at_least):
        raise ArgumentError(f"{name} must be a whole number of at least {at_least}; got {value!r}.")
    return int(value)


def one_of(name: str, value: str, allowed: Collection[str]) -> str:
    """One of a fixed list of words."""
    if value not in allowed:
        choices = ", ".join(sorted(allowed))
        raise ArgumentError(f"{name} must be one of {choices}; got {value!r}. Choose one of them.")
    return value


def import_optional(module: str, extra: str, purpose: str) -> ModuleType:
    """The module of an optional package, or an error that says which extra of ours installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingDependency(module.partition(".")[0], extra, purpose) from None


def _is_finite(value: object) -> bool:
    """Whether it is a number (a truth value is none) that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond the floats
        return False


def _plain(value: SupportsFloat) -> float:
    """The same number as Python's int or float."""
    return int(value) if isinstance(value, Integral) else float(value)
