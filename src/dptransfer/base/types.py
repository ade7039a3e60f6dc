"""Names for types: arrays by what their numbers stand for, and JSON objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import torch
    from PIL import Image

AnyArray: TypeAlias = NDArray[Any]
"""Numbers or words, not looked at yet."""
Rows: TypeAlias = NDArray[np.floating[Any]]
"""Embeddings as they are kept: a row per example, in whatever precision they came."""
Labels: TypeAlias = NDArray[np.int64]
"""A class per row, as its position in the declared list."""
People: TypeAlias = NDArray[np.int64]
"""The person that each row is from, as a number from 0; private, like the rows."""
Owners: TypeAlias = People | None
"""Whose each row is; None where rows are protected, and not persons."""
EncodedRows: TypeAlias = NDArray[np.float32]
"""Embeddings as an encoder gives them."""
Integers: TypeAlias = NDArray[np.int64]
"""Whole numbers: rows on the lattice, sums of them, noise."""
Floats: TypeAlias = NDArray[np.float64]
"""Real numbers after release, or of public rows."""
Floats32: TypeAlias = NDArray[np.float32]
"""Real numbers on their way into an encoder or a kernel."""
RandomWords: TypeAlias = NDArray[np.uint64]
"""Random bits, 64 at a time."""
PixelArray: TypeAlias = NDArray[np.uint8]
"""Pictures, a byte per value."""
Picture: TypeAlias = "Image.Image"
"""An opened picture of Pillow's."""
Tensor: TypeAlias = "torch.Tensor"
"""An array of torch's, on any device."""
JsonObject: TypeAlias = dict[str, Any]
"""An object as JSON has it, read from a file or to be written to one."""


def array_or_none(values: ArrayLike) -> AnyArray | None:
    """NumPy's array; None for lists of unequal length, as NumPy's own error tells how many rows there are."""
    try:
        return np.asarray(values)
    except ValueError:
        return None
