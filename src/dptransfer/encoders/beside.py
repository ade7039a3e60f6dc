"""A changed encoder and the one that it comes from, with their rows side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dptransfer.arrays import EncodedRows, Floats32
from dptransfer.data.identity import EncoderIdentity
from dptransfer.encoders.base import ImageEncoder

if TYPE_CHECKING:
    from PIL import Image


class Beside(ImageEncoder):
    """Rows of two encoders of the same pictures, each scaled to unit norm, next to each other.

    Args:
        changed: the first, which prepares pictures for both.
        plain: the second.
        identity: of both together.
    """

    def __init__(self, changed: ImageEncoder, plain: ImageEncoder, identity: EncoderIdentity) -> None:
        self._both, self.identity = (changed, plain), identity
        self.dimension = changed.dimension + plain.dimension

    def prepare(self, image: Image.Image) -> Floats32:
        """As the changed encoder does."""
        return self._both[0].prepare(image)

    def forward(self, pixels: Floats32) -> EncodedRows:
        """Rows of both; one that is all zeros stays so."""
        found = [np.asarray(one.forward(pixels), dtype=np.float64) for one in self._both]
        with np.errstate(all="ignore"):  # rows that are no numbers stay none
            norms = [np.linalg.norm(rows, axis=1, keepdims=True) for rows in found]
            unit = [rows / np.where(norm == 0, 1.0, norm) for rows, norm in zip(found, norms, strict=True)]
        return np.hstack(unit).astype(np.float32)
