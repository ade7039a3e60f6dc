"""How far a fit is: a bar on standard error that counts its noisy steps; nothing in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dptransfer.cli.screen import console, on_terminal
from dptransfer.progress import reported_to


@contextmanager
def step_bar(what: str) -> Iterator[None]:
    """A bar that moves while nothing is counted, and fills once a method counts its steps."""
    if not on_terminal(err=True):
        yield
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(err=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def listen(done: int, total: int, unit: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{what}, {unit} {done} of {total}")

        with reported_to(listen):
            yield
