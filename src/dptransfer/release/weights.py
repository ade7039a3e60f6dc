"""`model.safetensors`: the released arrays and nothing else.

safetensors refuses a header that declares more than the file holds, overlapping arrays, gaps or bytes after
them, before it allocates anything; what it finds must then be what the manifest lists. No pickle is involved
anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dptransfer.arrays import AnyArray
from dptransfer.errors import ReleaseError
from dptransfer.release.manifest import OF_ENCODER, READ_AGAIN, WEIGHTS_NAME, ArrayEntry


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
