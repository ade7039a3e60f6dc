"""Public pictures that show what a network makes of the unusual: extremes, single pixels, and noise."""

from __future__ import annotations

import numpy as np

from dptransfer.arrays import PixelArray


def probe_pictures(count: int, side: int) -> PixelArray:
    """So many pictures, (count, side, side, 3) bytes, the same for everyone; first and last are noise.

    Noise comes first, then a black picture, a white one, one half black and half white, a single bright
    pixel, a checkerboard and faint noise; and then the same again, with other noise.

    >>> [int(one.max()) for one in probe_pictures(9, 8)[1:4]]
    [0, 255, 255]
    """
    bits = np.random.Generator(np.random.PCG64(0))
    shape = (side, side, 3)
    rows, columns = np.indices((side, side))
    halves, board, pixel = (np.zeros(shape, dtype=np.uint8) for _ in range(3))
    halves[columns >= side // 2], board[(rows + columns) % 2 == 0], pixel[side // 2, side // 3] = (255,) * 3
    kinds = [np.zeros_like(halves), np.full_like(halves, 255), halves, pixel, board]
    pictures = np.empty((count, *shape), dtype=np.uint8)
    for place in range(count):
        kind = place % (len(kinds) + 2)
        if kind == 0 or place == count - 1:
            pictures[place] = bits.integers(0, 256, shape)
        elif kind > len(kinds):
            pictures[place] = bits.integers(110, 145, shape)
        else:
            pictures[place] = kinds[kind - 1]
    return pictures
