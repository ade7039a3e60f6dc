"""Entry point of the dptransfer command, and its own options.

Ctrl-C and SIGTERM, which schedulers send, may come at any moment. So nothing heavy is imported before there
is somebody to hear them.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dptransfer._version import __version__
from dptransfer.cli.commands import Commands
from dptransfer.cli.failures import catch_sigterm, exit_code_of, stop_word

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


def run() -> None:
    """Run the command that the process was called with."""
    try:
        catch_sigterm()
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a terminal that cannot show ε shows a question mark
                stream.reconfigure(errors="replace")
        app(prog_name="dptransfer")
    except KeyboardInterrupt as stopped:  # outside of any command, which says more
        print(f"Error: {stop_word(stopped)}.", file=sys.stderr)
        sys.exit(exit_code_of(stopped))
