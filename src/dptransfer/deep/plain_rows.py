"""Rows of a public network for private pictures, in batches of one size."""

from __future__ import annotations

from typing import Any

import numpy as np

from dptransfer.arrays import Floats32
from dptransfer.deep.network import Network
from dptransfer.encoders.device import repeatable


def plain_rows(network: Network, pixels: Any, micro_batch: int) -> Floats32:
    """(pictures, dimension), each a function of its own picture; the last batch is filled up with blanks.

    Args:
        network: the public network, as it is.
        pixels: bytes by position, (pictures, side, side, 3): an array, or files.
        micro_batch: how many go through the network at a time.
    """
    rows = np.zeros((len(pixels), network.dimension), dtype=np.float32)
    for start in range(0, len(pixels), micro_batch):
        batch = np.zeros((micro_batch, *pixels.shape[1:]), dtype=np.uint8)
        read = pixels[start : start + micro_batch]
        batch[: len(read)] = read
        with repeatable():
            found = network.rows(network.inputs(batch)).float().cpu().numpy()
        rows[start : start + len(read)] = found[: len(read)]
    return rows
