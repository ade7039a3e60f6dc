"""Telling how far a long computation has come, to whoever listens.

A method counts its steps with `steps`, or says where it is with `tell`; whoever shows a bar listens with
`reported_to`. Nothing else passes between the two, so a method needs no argument for it, and what is told is
a count of steps that the plan fixed: it depends on no private row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[int, int, str], None]
"""Called with the steps done, the steps in all, and what they are."""

_listener: ContextVar[Listener | None] = ContextVar("dptransfer_progress", default=None)


@contextmanager
def reported_to(listener: Listener) -> Iterator[None]:
    """Let `listener` hear of every step taken inside the block.

    >>> heard = []
    >>> with reported_to(lambda done, of, what: heard.append(f"{what} {done} of {of}")):
    ...     list(steps(2, "step"))
    [0, 1]
    >>> heard
    ['step 1 of 2', 'step 2 of 2']
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def steps(count: int, what: str) -> Iterator[int]:
    """0 to count − 1, telling the listener after each."""
    for index in range(count):
        yield index
        tell(index + 1, count, what)


def tell(done: int, count: int, what: str) -> None:
    """So many steps are done: for what does not count from 0, as a run that goes on does not."""
    listener = _listener.get()
    if listener is not None:
        listener(done, count, what)
