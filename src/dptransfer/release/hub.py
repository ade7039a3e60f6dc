"""Releases on the Hugging Face hub: `hf:OWNER/NAME` in the place of a directory, and the way there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from dptransfer.base.checks import import_optional
from dptransfer.data.atomic_files import cache_folder
from dptransfer.errors import ArgumentError, ReleaseError
from dptransfer.release.manifest import FILE_NAMES, MANIFEST_NAME

_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
_FILES = [MANIFEST_NAME, *FILE_NAMES]


def is_on_hub(path: str | Path) -> bool:
    """Whether this names a repository, 'hf:OWNER/NAME', and not a directory."""
    return str(path).startswith("hf:")


@cache
def download_release(path: str | Path) -> Path:
    """The directory with a copy of a release from the hub; a process looks there once.

    Args:
        path: 'hf:OWNER/NAME', or 'hf:OWNER/NAME@REVISION' for a branch, tag or commit.
    """
    name, revision = _repository(str(path).removeprefix("hf:"))
    hub = import_optional("huggingface_hub", "hub", "A release on the Hugging Face hub")
    folder = cache_folder() / "hub" / name.replace("/", "--") / (revision or "main").replace("/", "--")
    try:
        hub.snapshot_download(name, revision=revision, local_dir=folder, allow_patterns=_FILES)
    except Exception as problem:  # of many types: no network, no such repository, no permission
        raise ReleaseError(
            f"A release on the hub must be there and readable; '{name}' was not fetched "
            f"({type(problem).__name__}). Check name and network; a private one needs 'hf auth login'."
        ) from None
    return Path(folder)


def push_release(path: str | Path, repository: str, *, public: bool = False) -> str:
    """Upload a release to the hub, which makes the repository where there is none; return its address.

    Its files are checked first, and one with noise from a seed is refused.

    Args:
        path: the release directory.
        repository: 'OWNER/NAME'.
        public: whether everybody may read a repository that is made now.
    """
    from dptransfer.release.verify import verify_files

    name, revision = _repository(repository)
    checked = verify_files(path)
    if checked.failures or revision is not None:
        wrong = f"it fails {', '.join(checked.failures)}" if checked.failures else f"got '@{revision}'"
        raise ArgumentError(
            f"A release is pushed to the main branch, if it verifies; {wrong}. Nothing was uploaded."
        )
    hub = import_optional("huggingface_hub", "hub", "A release on the Hugging Face hub").HfApi()
    address = hub.create_repo(name, private=not public, exist_ok=True)
    title = f"Release {checked.method}, epsilon {checked.epsilon}"
    hub.upload_folder(repo_id=name, folder_path=path, commit_message=title, allow_patterns=_FILES)
    return str(address)


def _repository(name: str) -> tuple[str, str | None]:
    found = _NAME.fullmatch(name)
    if found is None or ".." in name:
        raise ArgumentError(f"A repository on the hub is named OWNER/NAME; got '{name}'.")
    return found[1], found[2]
