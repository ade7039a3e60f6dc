"""Arrays that are decoded once: kept as `.npy` in the cache folder, and memory-mapped by every worker."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from dptransfer.base.types import AnyArray, JsonObject
from dptransfer.data import EncoderIdentity
from dptransfer.data.atomic_files import cache_folder
from dptransfer_lab.results import canonical

Arrays = Mapping[str, AnyArray]
_FORMAT = 1  # a change of what is stored makes new folders
_NOTE = "set.json"


@dataclass(frozen=True)
class Stored:
    """A data set or a pool, as arrays on disk.

    Attributes:
        fingerprint: SHA-256 of everything in it.
        files: where each array is: 'rows' of a pool; 'rows', 'labels', 'test_rows', 'test_labels' of a data
            set, and 'people', 'test_people' where it tells whose each row is. Where it is of pictures, also
            'pixels' and 'test_pixels'.
        classes: the class list of a data set.
        encoder: who made the rows, where the file said so.
        rows_fingerprint: SHA-256 of the rows alone, as the library computes it.
    """

    fingerprint: str
    files: Mapping[str, str | AnyArray] = field(default_factory=dict, compare=False)
    classes: tuple[str | int, ...] = ()
    encoder: EncoderIdentity | None = None
    rows_fingerprint: str | None = None

    def open(self) -> Arrays:
        """The arrays; rows and pixels are memory-mapped, labels and people are read."""
        return {name: self._opened(name, file) for name, file in self.files.items()}

    def in_memory(self) -> Stored:
        """The same with the arrays themselves, for machines that cannot open the files."""
        return replace(self, files={name: np.asarray(array) for name, array in self.open().items()})

    def _opened(self, name: str, file: str | AnyArray) -> AnyArray:
        if not isinstance(file, str):
            return file
        mapped = name.endswith(("rows", "pixels"))
        array: AnyArray = np.load(file, mmap_mode="r" if mapped else None, allow_pickle=False)
        return array


def cached_arrays(key: JsonObject, make: Callable[[], tuple[Stored, Arrays]]) -> Stored:
    """What the cache has under this key, or what `make` gives, kept there from now on.

    Args:
        key: what the arrays are a function of, JSON-ready.
        make: returns the description, without files, and the arrays by name.
    """
    digest = hashlib.sha256(canonical({"format": _FORMAT, **key}).encode()).hexdigest()
    folder = cache_folder() / "bench" / digest[:24]
    found = _read(folder)
    if found is None:
        _write(folder, *make())
        found = _read(folder)
        assert found is not None
    return found


def _read(folder: Path) -> Stored | None:
    """What is there; a folder that is missing or damaged is as good as none."""
    try:
        note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        files = {name: str(folder / f"{name}.npy") for name in note.pop("arrays")}
        encoder = EncoderIdentity.from_dict(note.pop("encoder"))
    except (OSError, ValueError, KeyError):
        return None
    if not all(Path(file).is_file() for file in files.values()):
        return None
    return Stored(**{**note, "classes": tuple(note.get("classes", ())), "files": files, "encoder": encoder})


def _write(folder: Path, described: Stored, arrays: Arrays) -> None:
    """A folder appears whole or not at all; two processes that make the same one do no harm."""
    staging = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    staging.parent.mkdir(parents=True, exist_ok=True)
    staging.mkdir(mode=0o700)  # a study may name files that are not public
    try:
        for name, array in arrays.items():
            np.save(staging / f"{name}.npy", array, allow_pickle=False)
        note = {**asdict(described), "arrays": list(arrays)}
        del note["files"]
        (staging / _NOTE).write_text(json.dumps(note, ensure_ascii=False), encoding="utf-8")
        if _read(folder) is None:
            shutil.rmtree(folder, ignore_errors=True)
        try:
            os.rename(staging, folder)
        except OSError:
            if _read(folder) is None:
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
