"""Progress of long computations: reported to listeners, and shown as a bar.

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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Listener = Callable[[int, int, str], None]
"""Called with the steps done, the steps in all, and what they are."""

_HALF_MINUTE = 30.0
_now = time.monotonic
_listener: ContextVar[Listener | None] = ContextVar("dptransfer_progress", default=None)
_screen: ContextVar[Callable[[str, float], None] | None] = ContextVar("dptransfer_screen", default=None)


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
def shown_on(screen: Callable[[str, float], None]) -> Iterator[None]:
    """Let `screen` show every bar of the block, which the terminal does not: what is going on, and the share.

    >>> shown = []
    >>> with shown_on(lambda *told: shown.append(told)), show_progress("Counting"):
    ...     list(steps(2, "step"))
    [0, 1]
    >>> shown
    [('Counting', 0.0), ('Counting', 0.5), ('Counting', 1.0)]
    """
    token = _screen.set(screen)
    try:
        yield
    finally:
        _screen.reset(token)


@contextmanager
def show_progress(what: str = "Working", *, count_is_private: bool = True) -> Iterator[None]:
    """Show how far whatever is done inside the block has come; see `progress_bar`.

    >>> with show_progress("Counting"):
    ...     list(steps(2, "step"))
    [0, 1]
    """
    with progress_bar(what, count_is_private=count_is_private) as step, reported_to(step):
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
    if (screen := _screen.get()) is not None:
        screen(what, 0.0)
        yield lambda done, total, unit="": screen(what, done / max(total, 1))
        return
    pace, write = _Pace(what, count_is_private), _notebook_place()
    if write is not None:
        yield partial(pace.write_bar, write)
        return
    if not sys.stderr.isatty():
        yield pace.print_now_and_then
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_console(), transient=True) as shown:
        task = shown.add_task(what, total=None)

        def step(done: int, total: int, unit: str = "") -> None:
            shown.update(task, completed=done, total=total, description=pace.words(done, total, unit))

        yield step


class _Pace:
    """Steps a second since the first one of a kind that was heard of, and when somebody was told last."""

    def __init__(self, what: str, count_is_private: bool) -> None:
        self._what, self._count_is_private = what, count_is_private
        self._told = self._since = _now()
        self._kind: tuple[int, str] | None = None
        self._first, self._rate = 0, 0.0

    def words(self, done: int, total: int, unit: str, each: str = "/s") -> str:
        """How far it is, and how fast."""
        now = _now()
        if (total, unit) != self._kind:
            self._kind, self._first, self._since = (total, unit), done, now
        self._rate = (done - self._first) / (now - self._since) if now > self._since else 0.0
        counted = f"{self._what}, {f'{unit} ' if unit else ''}{done} of {total}"
        return counted + (f", {self._rate:.3g}{each}" if self._rate else "")

    def write_bar(self, write: Callable[[str], None], done: int, total: int, unit: str = "") -> None:
        """Show it in a notebook."""
        words = self.words(done, total, unit)
        if self._count_is_private:
            words, done, total = f"{self._what}, {done / total:.0%}", round(100 * done / total), 100
        write(f'<progress value="{done}" max="{total}"></progress> {html.escape(words)}')

    def print_now_and_then(self, done: int, total: int, unit: str = "") -> None:
        """Print a line, if none was printed for a while."""
        words = self.words(done, total, unit, " a second")
        if _now() - self._told < _HALF_MINUTE or not self._rate:
            return
        self._told = _now()
        words = f"{self._what}, {done / total:.0%}" if self._count_is_private else words
        print(f"{words}, {duration((total - done) / self._rate)} left", file=sys.stderr, flush=True)


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def _notebook_place() -> Callable[[str], None] | None:
    """Writes over and over to one place in the notebook that runs this; None elsewhere."""
    ipython = sys.modules.get("IPython")  # a notebook has loaded it, and nobody else needs it
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import HTML, display

    place = display(HTML(""), display_id=True)
    return None if place is None else lambda words: place.update(HTML(words))


def duration(seconds: float) -> str:
    """A time that is about so long, in words.

    >>> duration(50), duration(400), duration(30_000)
    ('50 s', '7 min', '8 h 20 min')
    """
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
