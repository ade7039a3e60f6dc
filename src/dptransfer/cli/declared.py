"""What the command line declares public: the class list and class sizes."""

from __future__ import annotations

from pathlib import Path

from dptransfer.errors import ArgumentError


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


def class_sizes(text: str | None) -> tuple[int, ...] | None:
    """The numbers that `--class-counts` lists.

    >>> class_sizes("120,80")
    (120, 80)
    """
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ArgumentError(
            f"--class-counts takes whole numbers with commas between them; got '{text}'. Example: 120,80"
        ) from None
