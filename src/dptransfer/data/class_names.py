"""What a declared class may be called."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from dptransfer.errors import DataError


def require_printed(names: Sequence[str]) -> None:
    """Raise for a name that prints like nothing, like two lines, or like another one.

    It is asked when classes are declared. A release that has such names is read all the same.
    """
    if not all(name.strip() for name in names):
        raise DataError("A class must have a name; one is empty or blank. Give it a name, or leave it out.")
    if any(unicodedata.category(letter) == "Cc" for name in names for letter in name):
        raise DataError(
            "Class names must be one line of printed characters; one holds a control character, such as a "
            "line break, a tab or a NUL. Remove it."
        )
    if len({name.strip() for name in names}) < len(set(names)):
        raise DataError(
            "Class names must differ in more than the blanks around them; two do not. Rename one of them."
        )
