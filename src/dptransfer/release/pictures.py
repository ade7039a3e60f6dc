"""Pictures that a model is to predict, as rows of the encoder whose rows it takes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dptransfer.arrays import EncodedRows
from dptransfer.errors import DataError

if TYPE_CHECKING:
    from dptransfer.data.identity import EncoderIdentity
    from dptransfer.encoders import Encoder
    from dptransfer.encoders.delta import EncoderDelta
    from dptransfer.release.classifier import PrivateClassifier


def rows_of_pictures(model: PrivateClassifier, pixels: Any, device: str) -> EncodedRows:
    """Rows for pictures as bytes, (pictures, height, width, 3), by the encoder as the release changes it.

    Args:
        model: whose rows they are to be.
        pixels: the pictures, of any one size; the encoder squeezes them to its own.
        device: where to encode.

    Raises:
        DataError: no pictures, or a model of which no encoder, or none that can be found, is on record.
    """
    from dptransfer.encoders import encode_pixels

    delta = model.encoder_delta
    recorded = model.facts.encoder if delta is None else delta.base
    if recorded is None:
        raise DataError(
            "Pictures become rows by the model's encoder; it names none. Encode them as the rows that it was "
            "fitted on, and pass these."
        )
    if pixels.shape[3] != 3 or pixels.dtype != np.uint8 or 0 in pixels.shape[1:]:
        raise DataError(
            "Pictures must be bytes (uint8) of the shape (pictures, height, width, 3); got the type "
            f"{pixels.dtype} and the shape {tuple(pixels.shape)}. Convert them."
        )
    return encode_pixels(pixels, _loaded(recorded, delta, device))


@lru_cache(maxsize=1)  # for a caller with a picture at a time; a second network would only take room
def _loaded(recorded: EncoderIdentity, delta: EncoderDelta | None, device: str) -> Encoder:
    from dptransfer.encoders import encoder_of

    return encoder_of(recorded, device=device, delta=delta)
