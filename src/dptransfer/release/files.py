"""A release's files on disk: written atomically, read with limits.

safetensors refuses a header that declares more than the file holds, overlapping arrays, gaps or bytes after
them, before it allocates anything; what it finds must then be what the manifest lists. No pickle is involved
anywhere.

Writing goes to a sibling directory claimed by `data.atomic_files.claim`. Each file and the directory are
flushed to the disk, and one step puts it in place. Reading opens regular files only, inside the directory
only, up to a stated size only.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dptransfer.base.types import AnyArray
from dptransfer.data.atomic_files import replaced_whole, write_synced
from dptransfer.errors import DataError, ReleaseError
from dptransfer.release.manifest import (
    CARD_NAMES,
    FILE_NAMES,
    LARGEST_MANIFEST,
    MANIFEST_NAME,
    OF_ENCODER,
    READ_AGAIN,
    WEIGHTS_NAME,
    ArrayEntry,
    Manifest,
)


def weights_bytes(arrays: Mapping[str, AnyArray]) -> bytes:
    """The file's content; types that a release does not hold are refused, and so is a NaN."""
    from safetensors.numpy import save

    for name, array in arrays.items():
        expected = ("float32",) if name.startswith(OF_ENCODER) else ("float64", "int32")
        if array.dtype.name not in expected:
            raise ReleaseError(
                f"Released arrays are {' or '.join(expected)}; '{name}' is {array.dtype}. Convert it first."
            )
        _require_finite(name, array)
    return bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def describe_arrays(arrays: Mapping[str, AnyArray]) -> list[dict[str, Any]]:
    """What the manifest records about the arrays."""
    return [
        {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)}
        for name, array in sorted(arrays.items())
    ]


def read_weights(content: bytes, entries: Sequence[ArrayEntry]) -> dict[str, AnyArray]:
    """The arrays in the file's content: those that the manifest lists, and nothing beside them."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays: dict[str, AnyArray] = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except (SafetensorError, ValueError, KeyError) as problem:  # the last for types that numpy lacks
        raise ReleaseError(
            f"'{WEIGHTS_NAME}' must be readable; it is not ({problem}). {READ_AGAIN}"
        ) from None
    listed = sorted((entry.model_dump(mode="json") for entry in entries), key=lambda entry: entry["name"])
    if describe_arrays(arrays) != listed or header.keys() != arrays.keys():  # no metadata either
        raise ReleaseError(
            f"'{WEIGHTS_NAME}' must hold exactly the arrays listed in the manifest, with their types and "
            f"shapes; it does not. {READ_AGAIN}"
        )
    for name, array in arrays.items():
        _require_finite(name, array)
    return arrays


def _require_finite(name: str, array: AnyArray) -> None:
    if not np.isfinite(array).all():
        raise ReleaseError(
            f"Released arrays hold finite numbers; '{name}' does not. Do not use this model, and report "
            "how it arose."
        )


LARGEST_FILE = {
    MANIFEST_NAME: LARGEST_MANIFEST,
    WEIGHTS_NAME: 8 * 2**30,
    **{name: 2 * LARGEST_MANIFEST for name in CARD_NAMES},
}


def require_target(path: str | Path, *, overwrite: bool = False) -> None:
    """Raise unless a release may be written to `path`; worth asking before any privacy is spent.

    Overwriting replaces a release or an empty directory, and nothing else: it never deletes a file that is
    not part of a release.
    """
    target = Path(path)
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise ReleaseError(
            f"A release is written to a new directory; '{target}' exists. "
            "Choose another path, or pass overwrite=True (--overwrite)."
        )
    if target.is_symlink() or not target.is_dir():
        raise ReleaseError(
            f"Only a release directory can be overwritten; '{target}' is not one. Choose another path."
        )
    others = sorted({entry.name for entry in target.iterdir()} - {MANIFEST_NAME, *FILE_NAMES})
    if others:
        raise ReleaseError(
            f"Overwriting replaces a release and nothing else; '{target}' also holds '{others[0]}'. "
            "Move it away, or choose another path."
        )


def write_directory(path: Path, contents: Mapping[str, bytes], *, overwrite: bool) -> None:
    """Put a directory with exactly these files at `path`, or leave everything as it was."""
    require_target(path, overwrite=overwrite)
    try:
        with replaced_whole(path) as fresh:
            for name, content in contents.items():
                write_synced(fresh / name, content)
    except DataError as problem:  # somebody else is writing it, or nobody can
        raise ReleaseError(str(problem)) from None
    except OSError as problem:
        raise ReleaseError(
            f"A release is written whole or not at all; writing '{path}' failed "
            f"({problem.strerror or problem}). Nothing was left; free some space or choose another path."
        ) from problem


def require_directory(path: str | Path) -> Path:
    """The path, if there is a directory."""
    directory = Path(path)
    if not directory.is_dir():
        found = "is a file" if directory.exists() else "does not exist"
        raise ReleaseError(
            f"A release is a directory; '{directory}' {found}. "
            "Give the one that 'dptransfer fit' or save() wrote."
        )
    return directory


def open_file(directory: Path, name: str) -> BinaryIO:
    """Open one file of a release: present, regular, inside the directory, not too large."""
    path = directory / name
    try:
        inside = path.resolve().is_relative_to(directory.resolve())
        status = path.stat()
    except (OSError, RuntimeError):  # missing, or a loop of links
        if not os.path.lexists(directory / MANIFEST_NAME):
            raise ReleaseError(
                f"A release has a file {MANIFEST_NAME}; '{directory}' has none. "
                "Give the directory that 'dptransfer fit' or save() wrote."
            ) from None
        raise ReleaseError(
            f"A release consists of {MANIFEST_NAME}, {', '.join(FILE_NAMES)}; '{name}' is missing from "
            f"'{directory}'. {READ_AGAIN}"
        ) from None
    if not inside or not stat.S_ISREG(status.st_mode):
        raise ReleaseError(
            f"A release's files are ordinary files inside its directory; '{path}' is not. "
            "Copy the release with its files, not with links to them."
        )
    if status.st_size > LARGEST_FILE[name]:
        raise ReleaseError(
            f"'{name}' may hold at most {LARGEST_FILE[name]} bytes; this one holds {status.st_size}. "
            "It was not written by dptransfer; do not use it."
        )
    try:
        return path.open("rb")
    except OSError as problem:
        raise ReleaseError(
            f"A release must be readable; '{path}' is not ({problem.strerror}). Check its permissions."
        ) from None


def read_file(directory: Path, name: str) -> bytes:
    """The content of one file of a release, which is within its limit.

    A read makes room for as much as it is asked for, so it is asked for the file's size and not the limit.
    """
    with open_file(directory, name) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(size, LARGEST_FILE[name]) + 1)
    if len(content) != size or size > LARGEST_FILE[name]:
        raise ReleaseError(f"A release must stay as it is while it is read; '{name}' changed. Read it again.")
    return content


def read_recorded(directory: Path, name: str, manifest: Manifest) -> bytes:
    """The same, of a file that must be the one that the manifest recorded."""
    content, recorded = read_file(directory, name), manifest.files[name]
    if len(content) != recorded.size or hashlib.sha256(content).hexdigest() != recorded.sha256:
        raise ReleaseError(f"'{name}' must have the recorded size and SHA-256; it was changed. {READ_AGAIN}")
    return content
