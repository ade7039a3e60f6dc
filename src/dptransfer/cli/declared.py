"""What the command line declares about the data: the class list, and what `--set data.FIELD=VALUE` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from dptransfer.errors import ArgumentError


@dataclass(frozen=True)
class Sizes:
    """What a plan may know about the sizes: `data.size` and `data.class_counts`, declared public."""

    size: int | None = None
    class_counts: tuple[int, ...] | None = None


@dataclass(frozen=True)
class AboutData(Sizes):
    """What a fit is told about the private data.

    Attributes:
        split: the part of a file that has several.
        labels: an `.npy` of labels, for rows without.
        new_data_set: rows that the ledger has under another name are other people's.
        strict_names: names alone tell data sets apart; rows are not compared.
    """

    split: str | None = None
    labels: Path | None = None
    new_data_set: bool = False
    strict_names: bool = False


About = TypeVar("About", bound=Sizes)


def settings_of(assignments: Sequence[str] | None, about: type[About]) -> tuple[dict[str, str], About]:
    """What `--set` says about the method, by field, and about the data.

    >>> settings_of(["k=5", "data.size=900"], Sizes)
    ({'k': '5'}, Sizes(size=900, class_counts=None))
    """
    method: dict[str, str] = {}
    data: dict[str, object] = {}
    for text in assignments or ():
        field, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not field:
            raise ArgumentError(f"--set takes field=value; got '{text}'. Example: --set k=5")
        name = field.removeprefix("data.")
        if name == field:
            method[field] = value
            continue
        known = [one.name for one in fields(about)]
        if name not in known:
            raise ArgumentError(
                f"--set data.FIELD takes one of {', '.join(known)} here; got '{name}'. Example: --set {_SIZE}"
            )
        from dptransfer.named import converted

        data[name] = converted(about, name, value)
    return method, about(**data)  # type: ignore[arg-type]  # converted to what the fields say


_SIZE = "data.size=5000"


def class_list(text: str) -> tuple[str | int, ...]:
    """The classes that `--classes` names: a number n (0 to n − 1), a comma list, or a file of names.

    >>> class_list("3"), class_list("cat, dog")
    ((0, 1, 2), ('cat', 'dog'))
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        if not 2 <= int(text) <= 10**6:
            raise ArgumentError(
                f"--classes must declare at least two classes, and at most a million; got {text}. "
                "Give their number, or their names."
            )
        return tuple(range(int(text)))
    if "," not in text and Path(text).is_file():
        try:
            lines = Path(text).read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError:
            raise ArgumentError(
                f"--classes must name a text file with one class per line; '{text}' is not UTF-8 text. "
                "Save it as UTF-8."
            ) from None
    elif "," in text:
        lines = text.split(",")
    else:
        raise ArgumentError(
            f"--classes takes a number, a comma list or a file of names; got '{text}', none of them. "
            "Example: --classes cat,dog"
        )
    names = [line.strip() for line in lines]
    while names and not names[-1] and "," not in text:  # what editors leave at the end of a file
        names.pop()
    if not all(names):  # to skip it would move the classes after it one place up, and labels may be places
        raise ArgumentError(
            "--classes must name every class; one of the names is empty. Remove a comma or a blank line."
        )
    if names and all(name.isascii() and name.isdigit() and str(int(name)) == name for name in names):
        return tuple(int(name) for name in names)
    return tuple(names)
