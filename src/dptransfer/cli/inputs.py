"""Checks of paths that commands share."""

from __future__ import annotations

import os
from pathlib import Path

from dptransfer.cli.screen import say
from dptransfer.errors import ArgumentError


def require_new(out: Path) -> None:
    """Raise for a file that is there already, be it a broken link."""
    if os.path.lexists(out):
        raise ArgumentError(f"--out must name a new file; '{out}' exists. Choose another name.")


def note_open_folder(path: Path) -> None:
    """Say it, once and in fixed words, where other users of the machine may read a private `.emb` folder."""
    from dptransfer.data.atomic_files import others_may_look

    if path.suffix == ".emb" and path.is_dir() and others_may_look(path):
        say(
            f"Note: other users of this machine can read '{path}'. To prevent that, run: chmod -R go= {path}",
            err=True,
        )
