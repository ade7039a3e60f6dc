"""`model.safetensors`: the released arrays and nothing else.

The header is read and compared with the manifest before a byte of data is, so a file that declares
petabytes, an unknown type or overlapping arrays allocates nothing. No pickle is involved anywhere.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from operator import index
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dptransfer.arrays import AnyArray
from dptransfer.errors import ReleaseError
from dptransfer.release.files import open_file
from dptransfer.release.manifest import OF_ENCODER, WEIGHTS_NAME, ArrayEntry, Manifest

LARGEST_HEADER = 2**20

_TYPES = {"float64": "F64", "int32": "I32", "float32": "F32"}
_BYTES = {"float64": 8, "int32": 4, "float32": 4}
_AGAIN = "Fetch the release again from where it came from."


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


def read_weights(directory: Path, manifest: Manifest) -> dict[str, AnyArray]:
    """The arrays of a release, after header, size and checksum were found to be as the manifest says."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    recorded = manifest.files[WEIGHTS_NAME]
    with open_file(directory, WEIGHTS_NAME) as file:
        file.seek(0, 2)
        size = file.tell()
        if size != recorded.size:
            raise ReleaseError(
                f"'{WEIGHTS_NAME}' must have the recorded size, {recorded.size} bytes; it has {size}. "
                f"{_AGAIN}"
            )
        _require_header(file, size, manifest.arrays)
        file.seek(0)
        content = file.read(recorded.size)
    if hashlib.sha256(content).hexdigest() != recorded.sha256:
        raise ReleaseError(f"'{WEIGHTS_NAME}' must have the recorded SHA-256; it does not. {_AGAIN}")
    try:
        arrays: dict[str, AnyArray] = load(content)
    except (SafetensorError, ValueError) as problem:  # the latter of shapes that no array can have
        raise ReleaseError(f"'{WEIGHTS_NAME}' must be readable; it is not ({problem}). {_AGAIN}") from None
    for name, array in arrays.items():
        _require_finite(name, array)
    return arrays


def _require_header(file: BinaryIO, size: int, entries: Sequence[ArrayEntry]) -> None:
    """Raise unless the header names exactly the manifest's arrays, back to back, filling the file."""
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if length > min(LARGEST_HEADER, size):
        raise ReleaseError(
            f"The header of '{WEIGHTS_NAME}' may hold at most {LARGEST_HEADER} bytes and not more than the "
            f"file; it declares {length}. {_AGAIN}"
        )
    try:
        header = json.loads(file.read(length))
        found = {
            name: (spec["dtype"], tuple(map(index, spec["shape"])), tuple(map(index, spec["data_offsets"])))
            for name, spec in header.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ReleaseError(f"The header of '{WEIGHTS_NAME}' must be readable; it is not. {_AGAIN}") from None
    expected = {entry.name: (_TYPES[entry.dtype], entry.shape) for entry in entries}
    if {name: spec[:2] for name, spec in found.items()} != expected:
        raise ReleaseError(
            f"'{WEIGHTS_NAME}' must hold exactly the arrays listed in the manifest, with their types and "
            f"shapes; it does not. {_AGAIN}"
        )
    lengths = {entry.name: math.prod(entry.shape) * _BYTES[entry.dtype] for entry in entries}
    end = 0
    for name in sorted(found, key=lambda name: found[name][2]):
        if found[name][2] != (end, end + lengths[name]):
            raise ReleaseError(f"The arrays in '{WEIGHTS_NAME}' must lie back to back; they do not. {_AGAIN}")
        end += lengths[name]
    if 8 + length + end != size:
        raise ReleaseError(
            f"The arrays in '{WEIGHTS_NAME}' must fill the file: {8 + length + end} bytes; it has {size}. "
            f"{_AGAIN}"
        )


def _require_finite(name: str, array: AnyArray) -> None:
    if not np.isfinite(array).all():
        raise ReleaseError(
            f"Released arrays hold finite numbers; '{name}' does not. Do not use this model, and report "
            "how it arose."
        )
