"""`dptransfer app`: a fit from the browser, for those who do not use a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from dptransfer.cli import options
from dptransfer.cli.screen import say
from dptransfer.cli.serve_command import token_in
from dptransfer.errors import ArgumentError


def app(
    root: Annotated[Path | None, Option(help="Folder of data and models; default your home.")] = None,
    ledger: options.LedgerFile = None,
    host: Annotated[str, Option(help="Address; any other needs --token-file, --origin.")] = "127.0.0.1",
    port: Annotated[int, Option("--port", "-p", min=0, max=65535, help="0 for any free one.")] = 0,
    token_file: Annotated[Path | None, Option(help="File with the token of the link.")] = None,
    origin: Annotated[str | None, Option(help="Address of a proxy in front, with https.")] = None,
    idle_minutes: Annotated[float, Option(min=1, help="End after so many minutes without use.")] = 60,
    no_browser: Annotated[bool, Option("--no-browser", help="Only print the link.")] = False,
) -> None:
    """Fit a model in your browser: data, whom to protect, accuracy, charge, model.

    The app runs on this machine, for you alone. Open the link that it prints; it works once. Nothing is
    uploaded, and no other machine is contacted. Each screen shows the command that does the same. Ctrl-C ends
    the app.

    Example: dptransfer app --root ~/studies
    """
    try:
        from dptransfer.app import run_app
    except ImportError as problem:
        raise ArgumentError(
            f"The app needs the extra 'app'; {problem.name} is not installed. Run: "
            "pip install 'dptransfer[app]'"
        ) from None
    folder = Path.home() if root is None else root
    if not folder.is_dir():
        raise ArgumentError(f"--root must be a folder; '{folder}' is none. Name the one with your data.")

    def announce(link: str) -> None:
        say(f"Open this link, which works once: {link}", err=True)
        say("Ctrl-C ends the app.", err=True)

    token = None if token_file is None else token_in(token_file)
    where: dict[str, Any] = {"host": host, "port": port, "token": token, "origin": origin}
    where |= {"idle_minutes": idle_minutes, "open_browser": not no_browser}
    ended = run_app(folder, ledger=ledger, announce=announce, **where)
    if ended:
        say(ended, err=True)
