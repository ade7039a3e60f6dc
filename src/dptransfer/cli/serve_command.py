"""`dptransfer serve`: answer requests over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from dptransfer.cli import options
from dptransfer.cli.screen import say
from dptransfer.errors import ArgumentError
from dptransfer.serve.limits import Limits

_limit = partial(Option, rich_help_panel="Limits")


@dataclass(frozen=True)
class LimitOptions:
    """What one client may ask for."""

    megabytes: Annotated[float, _limit(help="Largest request, in megabytes.")] = Limits.megabytes
    inputs: Annotated[int, _limit(min=1, help="Largest request or batch, in inputs.")] = Limits.inputs
    megapixels: Annotated[float, _limit(help="Largest picture, in megapixels.")] = Limits.megapixels
    seconds: Annotated[float, _limit(help="Longest wait for a request, and for an answer.")] = Limits.seconds
    waiting: Annotated[int, _limit(min=1, help="Largest number of waiting requests.")] = Limits.waiting


def serve(
    model: options.Release,
    limits: LimitOptions,
    host: Annotated[str, Option(help="Address; any other needs --token-file.")] = "127.0.0.1",
    port: Annotated[int, Option("--port", "-p", min=0, max=65535, help="0 for any free one.")] = 8080,
    unix_socket: Annotated[Path | None, Option(help="Listen on this socket instead.")] = None,
    name: Annotated[str | None, Option(help="Name of the model; default the folder's.")] = None,
    token_file: Annotated[Path | None, Option(help="File with the token that requests must carry.")] = None,
) -> None:
    """Serve a release over HTTP: Open Inference Protocol v2, MLflow's /invocations, /metrics.

    The release must verify. Rows, pictures and texts become labels, scores and, with a coverage, sets of
    classes. Inputs are not logged. After Ctrl-C or SIGTERM the server answers open requests and ends.

    Example: dptransfer serve model/ --port 8080
    """
    try:
        from dptransfer.serve import run_server
    except ImportError as problem:
        raise ArgumentError(
            f"A server needs the extra 'serve': {problem.name} is missing. pip install 'dptransfer[serve]'"
        ) from None
    token = None if token_file is None else token_in(token_file)

    def announce(address: str) -> None:
        say(f"Serving '{name or model.resolve().name}' at {address}; Ctrl-C stops it.", err=True)

    where: dict[str, Any] = {"host": host, "port": port, "unix_socket": unix_socket, "announce": announce}
    run_server(model, name=name, token=token, limits=Limits(**vars(limits)), **where)


def token_in(file: Path) -> str:
    """The token in a file, if nobody can guess it."""
    token = file.read_text(encoding="utf-8").strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable():
        raise ArgumentError(
            "A token must have at least 16 printable ASCII characters; that in --token-file has not. Write "
            "one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token
