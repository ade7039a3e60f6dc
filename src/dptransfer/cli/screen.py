"""What commands print with: a console, a progress bar, small tables and JSON, all of which work in a pipe.

Nothing is read as markup: class names and file names come from users and may contain anything.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dptransfer.cli.failures import printable

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH = 120
_HALF_MINUTE = 30.0
_now = time.monotonic


def console(*, err: bool = False) -> Console:
    """A console on standard output, or on standard error for what is not the result."""
    from rich.console import Console

    width = None if on_terminal(err=err) else _PIPE_WIDTH
    return Console(stderr=err, markup=False, highlight=False, emoji=False, width=width)


def on_terminal(*, err: bool = False) -> bool:
    """Whether a person is looking, rather than a file or another program."""
    return (sys.stderr if err else sys.stdout).isatty()


@contextmanager
def working(what: str) -> Iterator[None]:
    """A bar that moves while something takes a while; nothing where nobody is looking."""
    with progress_bar(what):
        yield


@contextmanager
def progress_bar(what: str, *, count_is_private: bool = False) -> Iterator[Callable[..., None]]:
    """How far something is, with rate and time left, on standard error; yields what is told of each step.

    It is told (done, total, unit). On a terminal a bar moves while nothing is counted, and fills once
    something is; elsewhere there is a line every half minute, and none for what takes less.

    Args:
        what: what is going on.
        count_is_private: whether the total is, as of private pictures: then a line, which may end up in a
            log, tells the share alone.
    """
    pace = _Pace()
    if not on_terminal(err=True):
        yield partial(_tell_now_and_then, what, pace, count_is_private)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(err=True), transient=True) as shown:
        task = shown.add_task(what, total=None)

        def tell(done: int, total: int, unit: str = "") -> None:
            rate = pace.heard(done, total, unit)
            words = _counted(what, done, total, unit) + (f", {rate:.3g}/s" if rate else "")
            shown.update(task, completed=done, total=total, description=words)

        yield tell


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


def _tell_now_and_then(
    what: str, pace: _Pace, count_is_private: bool, done: int, total: int, unit: str = ""
) -> None:
    rate = pace.heard(done, total, unit)
    if _now() - pace.told < _HALF_MINUTE or not rate:
        return
    pace.told = _now()
    left = f"{_duration((total - done) / rate)} left"
    how_far = f"{what}, {done / total:.0%}" if count_is_private else _counted(what, done, total, unit)
    say(f"{how_far}, {left}" if count_is_private else f"{how_far}, {rate:.3g} a second, {left}", err=True)


def _counted(what: str, done: int, total: int, unit: str) -> str:
    return f"{what}, {unit} {done} of {total}".replace(",  ", ", ")


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def show_table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[int] = ()
) -> None:
    """A table; the columns in `numbers` are aligned to the right, and long words are folded, never cut."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for place, name in enumerate(header):
        table.add_column(printable(name), justify="right" if place in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(printable(cell) for cell in row))
    console().print(table)


def show_facts(facts: Mapping[str, object]) -> None:
    """Names and values, one pair a line; on a terminal long values wrap under themselves."""
    if not on_terminal():
        width = max(map(len, facts))
        for name, value in facts.items():
            typer.echo(f"{name:<{width}}  {printable(value)}")
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, printable(value))
    console().print(table)


def tell(facts: Mapping[str, object], *, as_json: bool, **only_json: object) -> None:
    """Facts with names in small letters: for people, one a line; as JSON with what only a program wants."""
    if as_json:
        show_json({**facts, **only_json})
    else:
        show_facts({name.capitalize(): value for name, value in facts.items()})


def say(text: object = "", *, style: str | None = None, err: bool = False) -> None:
    """A paragraph; in a pipe, one line."""
    console(err=err).print(printable(text), style=style, soft_wrap=not on_terminal(err=err))


def show_json(value: Any) -> None:
    """JSON on standard output; numbers JSON does not have become null."""
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower()
    text = json.dumps(_finite(value), indent=2, ensure_ascii=not encoding.startswith("utf"), allow_nan=False)
    typer.echo(text)


def _finite(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
