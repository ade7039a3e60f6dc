"""Text whose every character can be seen: no control sequences, no hidden direction marks."""

from __future__ import annotations

import re
import unicodedata

_JOINERS = "\u200c\u200d"  # invisible, but several scripts need them


def one_line(text: object) -> str:
    r"""One line, with control characters, bidirectional overrides and the like made visible.

    >>> one_line("two\nlines \x1b[31mred ")
    'two lines �[31mred'
    """
    return clean(str(text)).strip()


def clean(part: str) -> str:
    """Part of a line: the same, with the spaces at its ends."""
    return visible(re.sub(r"\s+", " ", part))


def visible(text: str) -> str:
    """The text with a mark in place of every character that nobody would see."""
    if text.isprintable():
        return text
    return "".join("\ufffd" if _hidden(letter) else letter for letter in text)


def _hidden(letter: str) -> bool:
    return unicodedata.category(letter).startswith("C") and letter not in _JOINERS
