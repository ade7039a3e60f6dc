"""Choose files and folders on the server, all under one folder; nothing is uploaded."""

from __future__ import annotations

import os
from pathlib import Path

from dptransfer.errors import ArgumentError

_MOST = 1000


def resolve_inside(root: Path, given: str) -> Path:
    """The real path of what was chosen, relative to `root` or absolute.

    Raises:
        ArgumentError: it is elsewhere, perhaps by a link.
    """
    try:
        found = (root / given.strip()).resolve()
        found.relative_to(root)
    except (ValueError, OSError, RuntimeError):
        raise ArgumentError(
            f"Files must be in '{root}', the folder that the app was started for; '{given}' is not. Choose "
            "another, or start the app with --root."
        ) from None
    return found


def list_folder(root: Path, at: Path) -> tuple[list[str], list[str], bool]:
    """Names of folders and of files in a folder under `root`, and whether there are more than are listed.

    Hidden names are left out, links that lead elsewhere or nowhere, and names that are no text.
    """
    folders, files = list[str](), list[str]()
    try:
        names = sorted(os.listdir(at), key=str.casefold)
    except OSError as problem:
        why = f"'{at}' is not ({problem.strerror}). Choose another."
        raise ArgumentError(f"A folder must be readable; {why}") from None
    for name in names:
        path = Path(os.path.realpath(at / name))
        if (
            name.startswith(".")
            or not path.is_relative_to(root)
            or any("\ud800" <= c <= "\udfff" for c in name)
        ):
            continue
        if path.is_dir() or path.is_file():
            (folders if path.is_dir() else files).append(name)
    return folders[:_MOST], files[:_MOST], max(len(folders), len(files)) > _MOST
