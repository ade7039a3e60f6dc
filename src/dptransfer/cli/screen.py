"""What commands print with: a console, a progress bar, small tables and JSON, all of which work in a pipe.

Nothing is read as markup: class names and file names come from users and may contain anything.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dptransfer.base.progress import progress_bar as progress_bar
from dptransfer.cli.failures import printable

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH = 120


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
