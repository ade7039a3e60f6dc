"""Where work on many pieces is done: in this process, in others, or on a cluster.

A piece of work is a pure function of a piece of the data: asked again, for whatever reason, it gives the same
bytes. So whoever dies is simply replaced, nothing is counted twice, and what is made of all pieces does not
depend on who did them, or in which order they came back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from dptransfer.base.progress import tell

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Workers(Protocol):
    """Who works on pieces."""

    def ready(self) -> None:
        """Find out whether they can be reached, before anything is spent; raise if not."""

    def each(
        self, work: Callable[[Piece], Result], pieces: Sequence[Piece], what: str
    ) -> Iterator[tuple[int, Result]]:
        """(number of a piece, what `work` gives for it), each once, in whatever order they are done.

        Args:
            work: a pure function that can be sent to another process, with the arrays that it needs inside,
                which it must not change. What it raises ends everything, here, as it was raised there.
            pieces: what it is called with, one at a time.
            what: what a piece is called, for whoever watches.
        """


class Here:
    """This process, one piece after the other; what works on a piece may use all cores.

    >>> list(Here().each(len, ["one", "three"], "word"))
    [(0, 3), (1, 5)]
    """

    def __repr__(self) -> str:
        return "Here()"

    def ready(self) -> None:
        """It always is."""

    def each(
        self, work: Callable[[Piece], Result], pieces: Sequence[Piece], what: str
    ) -> Iterator[tuple[int, Result]]:
        """In order."""
        for number, piece in enumerate(pieces):
            yield number, work(piece)
            tell(number + 1, len(pieces), what)


_MOST_PIECES = 1024
_PIECE_BYTES = 2**26


def pieces_of(count: int, bytes_each: int, most: int = _MOST_PIECES) -> list[slice]:
    """Parts of so many rows: of some megabytes each, and of more where there would be too many.

    >>> pieces_of(100, 2**20)
    [slice(0, 64, None), slice(64, 100, None)]
    """
    step = max(1, _PIECE_BYTES // max(1, bytes_each), -(-count // most))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]
