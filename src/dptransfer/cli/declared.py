"""What the command line declares about the data: the class list, and what `--set data.FIELD=VALUE` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.data.grey_levels import GreyRange as GreyEnds

SIZES = {
    "size": int,
    "class_counts": tuple[int, ...],
    "person_bound": float,  # as how many examples a person counts, at most
    "rows_per_person": float,  # about how many examples a person has
}
"""What a plan may know about the data, declared public."""

ABOUT_DATA = {
    **SIZES,
    "split": str,  # the part of a file that has several
    "labels": Path,  # an `.npy` of labels, for rows without
    "new_data_set": bool,  # rows that the ledger has under another name are other people's
    "strict_names": bool,  # names alone tell data sets apart; rows are not compared
}
"""What a fit is told about the private data."""

ABOUT_TEST = {"test_is_public": bool}
"""What is declared about test data that are not protected."""


def settings_of(
    assignments: Sequence[str] | None, about: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """What `--set` says about the method, by field, and about the data, in the types that `about` lists.

    >>> settings_of(["k=5", "data.size=900"], SIZES)
    ({'k': '5'}, {'size': 900})
    """
    from dptransfer.named import in_type

    method: dict[str, str] = {}
    data: dict[str, Any] = {}
    for text in assignments or ():
        field, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not field:
            raise ArgumentError(f"--set takes field=value; got '{text}'. Example: --set k=5")
        name = field.removeprefix("data.")
        if name == field:
            method[field] = value
        elif name in about:
            data[name] = in_type(about[name], name, value)
        else:
            known = f"one of {', '.join(about)} here; got '{name}'"
            raise ArgumentError(f"--set data.FIELD takes {known}. Example: --set data.size=5000")
    return method, data


def grey_ends(text: str | None) -> GreyEnds | None:
    """What `--grey-range` says: the values that are black and white.

    >>> grey_ends("-150,250")
    (-150.0, 250.0)
    """
    if text is None:
        return None

    from dptransfer.data.grey_levels import declared_range

    try:
        return declared_range(text.split(","))
    except ArgumentError:
        raise ArgumentError(
            f"--grey-range takes two numbers, black and then white, the lower first; got '{text}'. "
            "Example: --grey-range 0,4095"
        ) from None


def class_list(text: str) -> tuple[str | int, ...]:
    """The classes that `--classes` names: a number n (0 to n − 1), a comma list, or a file of names.

    >>> class_list("3"), class_list("cat, dog")
    ((0, 1, 2), ('cat', 'dog'))
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        if not 2 <= int(text) <= 10**6:
            raise ArgumentError(f"--classes takes 2 to a million classes; got {text}. Give their names.")
        return tuple(range(int(text)))
    if "," in text:
        names = [name.strip() for name in text.split(",")]
    elif Path(text).is_file():
        try:  # an editor may leave a mark at the beginning, and blank lines at the end
            names = [line.strip() for line in Path(text).read_text("utf-8-sig").rstrip().splitlines()]
        except UnicodeDecodeError:
            raise ArgumentError(
                f"--classes takes a file of text; '{text}' is not. Save it as UTF-8."
            ) from None
    else:
        raise ArgumentError(
            f"--classes takes a number, a comma list or a file of names; got '{text}'. Example: cat,dog"
        )
    if not all(names):  # to skip it would move the classes after it one place up, and labels may be places
        raise ArgumentError("--classes must name every class; one is empty. Remove a comma or a blank line.")
    if names and all(name.isascii() and name.isdigit() and str(int(name)) == name for name in names):
        return tuple(int(name) for name in names)
    return tuple(names)
