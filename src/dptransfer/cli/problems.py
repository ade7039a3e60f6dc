"""Private images that cannot be read: their names go to a file for the owner's eyes, never into a message.

A message may end up in a log, a ticket or a chat, and the name of a private file is as private as the file;
so is how many there are. That there are any is told, since a fit must not silently learn from rows of zeros;
it is told before anything is charged, to whoever runs the command on the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dptransfer.errors import DataError

_ENDING = ".problems.txt"


def problems_file(beside: Path) -> Path:
    """Where the names are written: a fixed name beside the data or the output."""
    whole = beside.absolute()
    return whole.with_name(whole.name + _ENDING) if whole.name else whole / _ENDING.lstrip(".")


def note_problems(names: Sequence[str], beside: Path) -> Path | None:
    """Write the names, one a line, where their owner alone can read them; without names, forget old ones."""
    from dptransfer.data.owner_only import owner_only

    file = problems_file(beside)
    try:
        file.unlink(missing_ok=True)  # so that the mode is ours, whoever made the old one
        if not names:
            return None
        with open(file, "x", encoding="utf-8", errors="surrogateescape", opener=owner_only) as stream:
            stream.writelines(f"{name!r}\n" if "\n" in name else f"{name}\n" for name in names)
    except OSError as problem:
        raise DataError(
            f"The names of unreadable images are written to '{file}', which failed "
            f"({problem.strerror or problem}). Make that place writable, and run again."
        ) from None
    return file


def refuse_problems(names: Sequence[str], beside: Path, *, remedy: str) -> None:
    """Raise if there are any; the message says where their names are."""
    file = note_problems(names, beside)
    if file is not None:
        raise DataError(
            f"Images must be readable; some are not. Their names are in '{file}', for the owner's eyes. "
            f"{remedy}"
        )
