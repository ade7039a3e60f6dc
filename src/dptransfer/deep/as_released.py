"""Refuses, before anything is charged, a network whose released change would not be what was trained.

A trained layer is computed by what is known of its kind. One that derives from a known kind and does more,
such as a normalisation with an activation behind it, would be trained as another network than is released.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dptransfer.arrays import AnyArray
from dptransfer.deep.trained_parts import TrainedParts
from dptransfer.encoders.device import exact_kernels
from dptransfer.encoders.registry import adapted
from dptransfer.errors import ArgumentError
from dptransfer.features import apply

_FAR_START = 0.3  # from the public start: what is trained must show
_PICTURES = 8
_APART = 1e-3  # of the largest logit; rounding is below a hundredth of it


def require_as_released(parts: TrainedParts) -> None:
    """Raise unless the changed encoder and the head find in pictures of noise what training computes."""
    import torch

    network, bits = parts.network, np.random.Generator(np.random.PCG64(0))
    theta = bits.normal(size=parts.size) * _FAR_START
    inputs = network.inputs(_pictures(bits, network.side))
    delta = parts.delta(theta)
    here = torch.from_numpy(theta.astype(np.float32)).to(network.device)
    trained = np.nan_to_num(parts.logits(here, parts.front(inputs)).cpu().numpy())
    released: Any = network.encoder if delta is None else adapted(network.encoder, delta)
    with torch.no_grad(), exact_kernels():
        rows = released.rows_of(inputs).float().cpu().numpy()
    found = apply(parts.features, rows) @ parts.head(theta).T
    if np.abs(trained - found).max() > _APART * np.abs(found).max():
        raise ArgumentError(
            "What is trained must be what is released; a trained layer, or a stage, of "
            f"'{network.identity.name}' computes more than its kind says. Use another part to train, fewer "
            "blocks, or a network of plain layers."
        )


def _pictures(bits: np.random.Generator, side: int) -> AnyArray:
    """Black, white, and noise around colours: noise alone is the same grey to whatever averages."""
    noise = bits.integers(0, 128, (_PICTURES, side, side, 3), dtype=np.uint8)
    pictures: AnyArray = noise + bits.integers(0, 128, (_PICTURES, 1, 1, 3), dtype=np.uint8)
    pictures[0], pictures[1] = 0, 255
    return pictures
