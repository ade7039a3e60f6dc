"""The parts of a pool that are worked on one at a time."""

from __future__ import annotations

_MOST_PIECES = 1024
_PIECE_BYTES = 2**26


def pieces_of(count: int, bytes_each: int, most: int = _MOST_PIECES) -> list[slice]:
    """Parts of so many rows: of some megabytes each, and of more where there would be too many.

    >>> pieces_of(100, 2**20)
    [slice(0, 64, None), slice(64, 100, None)]
    """
    step = max(1, _PIECE_BYTES // max(1, bytes_each), -(-count // most))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]
