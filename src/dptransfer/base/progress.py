"""Telling how far a long computation has come, to whoever listens, and showing it.

A method counts its steps with `steps`, or says where it is with `tell`; whoever shows a bar listens with
`reported_to`. Nothing else passes between the two, so a method needs no argument for it, and what is told is
a count of steps that the plan fixed: it depends on no private row. How many examples are encoded does, and is
shown to who looks at a terminal; in a log, and in a notebook, which is saved with all that it showed, there
is only a share of it.
"""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

Listener = Callable[[int, int, str], None]
"""Called with the steps done, the steps in all, and what they are."""

_HALF_MINUTE = 30.0
_now = time.monotonic
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


@contextmanager
def shown(what: str = "Working") -> Iterator[None]:
    """Show how far whatever is done inside the block has come; see `progress_bar`.

    >>> with shown("Counting"):
    ...     list(steps(2, "step"))
    [0, 1]
    """
    with progress_bar(what, count_is_private=True) as step, reported_to(step):
        yield


@contextmanager
def progress_bar(what: str, *, count_is_private: bool = False) -> Iterator[Callable[..., None]]:
    """How far something is, with rate and time left, on standard error; yields what is told of each step.

    It is told (done, total, unit). On a terminal and in a notebook a bar moves while nothing is counted, and
    fills once something is; elsewhere there is a line every half minute, and none for what takes less.

    Args:
        what: what is going on.
        count_is_private: whether the total is, as of private pictures: then a line, which may end up in a
            log, and a notebook, which is saved, tell the share alone.
    """
    pace, notebook = _Pace(), _notebook()
    if notebook is not None:
        yield partial(_update, notebook, what, pace, count_is_private)
        return
    if not sys.stderr.isatty():
        yield partial(_tell_now_and_then, what, pace, count_is_private)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_console(), transient=True) as shown:
        task = shown.add_task(what, total=None)

        def step(done: int, total: int, unit: str = "") -> None:
            words = _with_rate(what, done, total, unit, pace.heard(done, total, unit))
            shown.update(task, completed=done, total=total, description=words)

        yield step


class _Pace:
    """Steps a second since the first one of a kind that was heard of, and when somebody was told last."""

    def __init__(self) -> None:
        self.told = _now()
        self._kind: tuple[int, str] | None = None
        self._first, self._since = 0, self.told

    def heard(self, done: int, total: int, unit: str) -> float:
        now = _now()
        if (total, unit) != self._kind:
            self._kind, self._first, self._since = (total, unit), done, now
        return (done - self._first) / (now - self._since) if now > self._since else 0.0


def _console() -> Any:
    from rich.console import Console

    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def _notebook() -> Any:
    """A place in the notebook that runs this, to be written over and over; None elsewhere."""
    ipython = sys.modules.get("IPython")  # a notebook has loaded it, and nobody else needs it
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import HTML, display

    place = display(HTML(""), display_id=True)
    return None if place is None else lambda words: place.update(HTML(words))


def _update(
    place: Callable[[str], None],
    what: str,
    pace: _Pace,
    count_is_private: bool,
    done: int,
    total: int,
    unit: str = "",
) -> None:
    words = _with_rate(what, done, total, unit, pace.heard(done, total, unit))
    if count_is_private:
        words, done, total = f"{what}, {done / total:.0%}", round(100 * done / total), 100
    place(f'<progress value="{done}" max="{total}"></progress> {html.escape(words)}')


def _tell_now_and_then(
    what: str, pace: _Pace, count_is_private: bool, done: int, total: int, unit: str = ""
) -> None:
    rate = pace.heard(done, total, unit)
    if _now() - pace.told < _HALF_MINUTE or not rate:
        return
    pace.told = _now()
    left = f"{duration((total - done) / rate)} left"
    how_far = f"{what}, {done / total:.0%}" if count_is_private else _counted(what, done, total, unit)
    words = f"{how_far}, {left}" if count_is_private else f"{how_far}, {rate:.3g} a second, {left}"
    print(words, file=sys.stderr, flush=True)


def _with_rate(what: str, done: int, total: int, unit: str, rate: float) -> str:
    return _counted(what, done, total, unit) + (f", {rate:.3g}/s" if rate else "")


def _counted(what: str, done: int, total: int, unit: str) -> str:
    return f"{what}, {unit} {done} of {total}".replace(",  ", ", ")


def duration(seconds: float) -> str:
    """A time that is about so long, in words.

    >>> duration(50), duration(400), duration(30_000)
    ('50 s', '7 min', '8 h 20 min')
    """
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
