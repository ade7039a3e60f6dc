"""Format numbers for sentences, tables and errors."""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, Context

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_POWER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)e\+?(-?)0*(\d+)(?!\w|\.\d)")
_EXPONENT = re.compile(r"(?<=\de)(?:\+|(-))0*(?=\d)")


def number(value: float, digits: int = 6) -> str:
    """A number in at most `digits` digits, to the nearest.

    >>> number(1e-05), number(2e6), number(1.25), number(1e20), number(1 / 3, 2)
    ('1e-5', '2e6', '1.25', '1e20', '0.33')
    """
    return plain_exponents(f"{value:.{digits}g}")


def rounded_up(value: float, digits: int = 7) -> str:
    """A number in at most `digits` digits, never below the value: what is said of a privacy loss.

    >>> rounded_up(1.0), rounded_up(0.99999999), rounded_up(1.00000001), rounded_up(1e-05)
    ('1', '1', '1.000001', '1e-5')
    >>> rounded_up(0.123456, 3), rounded_up(float("inf"))
    ('0.124', 'unbounded')
    """
    if not math.isfinite(value):
        return "unbounded"
    up = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(value)))
    return number(float(up), digits)


def plain_exponents(text: str) -> str:
    """The text with Python's exponents, such as e-05 and e+20, as people write them.

    >>> plain_exponents("δ = 1e-05 and 2.5e+20")
    'δ = 1e-5 and 2.5e20'
    """
    return _EXPONENT.sub(r"\1", text)


def typeset(text: str) -> str:
    """The text with powers of ten as they are printed.

    >>> typeset("δ = 1e-5, at most 2.5e-07."), typeset("a digest, 3e5f9")
    ('δ = 10⁻⁵, at most 2.5·10⁻⁷.', 'a digest, 3e5f9')
    """
    return _POWER.sub(_printed, text)


def _printed(found: re.Match[str]) -> str:
    factor, sign, exponent = found.groups()
    return ("" if factor == "1" else f"{factor}·") + "10" + f"{sign}{exponent}".translate(_SUPERSCRIPTS)
