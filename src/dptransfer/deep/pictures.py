"""Private pictures as the trained part of a network sees them: what is frozen is computed once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dptransfer.arrays import PixelArray
from dptransfer.deep.trained_parts import TrainedParts
from dptransfer.deep.views import views_of


class Pictures:
    """All pictures of a run, read once, when they are first asked for.

    What comes out of the frozen stages is kept, for all views, where that takes no more room than the picture
    would as floats; else the bytes are, and frozen stages run again. Which of the two does not depend on the
    pictures, and either way stages see pictures in batches of one size.

    Args:
        parts: what is trained.
        pixels: bytes by position, (pictures, side, side, 3): an array, or files.
        views: how many views of each picture.
        micro_batch: how many pictures, with their views, go through the network at a time.
    """

    def __init__(self, parts: TrainedParts, pixels: Any, *, views: int = 1, micro_batch: int = 32) -> None:
        self.parts, self.views, self.micro_batch = parts, views, micro_batch
        self._pixels = pixels
        self._kept: Any = None  # read when first asked for
        blank = self._maps(np.zeros((micro_batch, *pixels.shape[1:]), dtype=np.uint8))
        self._shape = blank.shape[1:]  # of one view
        self._keeps_maps = parts.first > 0 and views * self._shape.numel() <= math.prod(pixels.shape[1:])

    def __len__(self) -> int:
        return len(self._pixels)

    def at(self, positions: Any) -> Any:
        """Maps of the pictures at these positions, a tensor: (positions · views, …); −1 is a blank one."""
        if self._kept is None:
            self._kept = self._read()
        chosen = self._kept[positions]  # −1 is the last, a blank
        return chosen.flatten(0, 1) if self._keeps_maps else self._from_bytes(chosen)

    def _read(self) -> Any:
        """What is kept of every picture, and of a blank one at the end."""
        import torch

        device, each = self.parts.network.device, self._pixels.shape[1:]
        own = ((self.views, *self._shape), torch.float32) if self._keeps_maps else (each, torch.uint8)
        kept = torch.zeros((len(self) + 1, *own[0]), dtype=own[1], device=device)
        for start in range(0, len(kept), self.micro_batch):
            batch = np.zeros((self.micro_batch, *each), dtype=np.uint8)
            read = self._pixels[start : start + self.micro_batch]
            batch[: len(read)] = read
            found = self._maps(batch) if self._keeps_maps else torch.from_numpy(batch).to(device)
            there = kept[start : start + self.micro_batch]
            there.copy_(found.reshape(self.micro_batch, *own[0])[: len(there)])
        return kept

    def _maps(self, pixels: PixelArray) -> Any:
        import torch

        return self._from_bytes(torch.from_numpy(pixels).to(self.parts.network.device))

    def _from_bytes(self, raw: Any) -> Any:
        return self.parts.front(self.parts.network.from_bytes(views_of(raw, self.views)))
