"""The `dptransfer` command as a whole: its name, its own options, and how a process runs it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dptransfer import __version__
from dptransfer.cli.commands import Commands

app = typer.Typer(
    name="dptransfer",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dptransfer {__version__}")
        raise typer.Exit


@app.callback()
def dptransfer(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Private labelled examples and a public encoder to a classifier with a true privacy guarantee.

    Example: dptransfer demo
    """


def run() -> None:
    """Entry point of the `dptransfer` command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show ε shows a question mark
            stream.reconfigure(errors="replace")
    app(prog_name="dptransfer")
