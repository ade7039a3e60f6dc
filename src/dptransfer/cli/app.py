"""The `dptransfer` command as a whole: its name and its own options."""

from __future__ import annotations

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

    Example: dptransfer plan --epsilon 1 --delta 1e-5 --classes 10 --dim 1280
    """
