"""Files and folders that only their owner can read, from their first byte on and whatever the umask says.

Rows, labels and file names are as private as the pictures they came from. A mode that is set after a file was
made comes too late for whoever opened it in between, so it is given when the file is made.
"""

from __future__ import annotations

import os
from pathlib import Path

_OTHERS = 0o077  # what groups and strangers may do


def make_owner_folder(path: Path) -> None:
    """Make a folder that nobody else can look into; one that is there already raises."""
    path.mkdir(mode=0o700)


def owner_only(path: str | os.PathLike[str], flags: int) -> int:
    """For `open(..., opener=owner_only)`: a file that is made is the owner's alone."""
    return os.open(path, flags, 0o600)


def others_may_look(path: Path) -> bool:
    """Whether the folder's mode lets other users of the machine in; a mode is no private value."""
    return os.name == "posix" and bool(path.stat().st_mode & _OTHERS)
