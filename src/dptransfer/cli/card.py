"""`dptransfer card`: the privacy card of a release."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.inputs import require_new
from dptransfer.cli.ledger_history import entry_of_release
from dptransfer.cli.screen import console, on_terminal, say, show_json
from dptransfer.errors import ArgumentError


class CardFormat(Enum):
    """How the card is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    HTML = "html"


_BY_NAME = {".md": CardFormat.MARKDOWN, ".json": CardFormat.JSON, ".html": CardFormat.HTML}


def card(
    model: options.Release,
    form: Annotated[
        CardFormat | None,
        typer.Option("--format", "-f", help="What to print; default by the name of --out, else text."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file to write instead.")] = None,
    title: options.Title = None,
    contact: options.Contact = None,
    as_json: options.AsJson = False,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser instead.")] = False,
) -> None:
    """Print the privacy card of a release.

    With --title or --contact the words are put on the card first, and the release stays verifiable.

    Example: dptransfer card model/ --open
    """
    from dptransfer.release import amend_release, card_of, read_evaluation, read_release

    form = form or _BY_NAME.get("" if out is None else out.suffix.lower(), CardFormat.TEXT)
    if form is CardFormat.HTML and out is None and not show and on_terminal():
        raise ArgumentError(
            "A page is for a browser; a terminal would show its source. Pass --open, or --out card.html."
        )
    if out is not None:
        require_new(out)
    if title is not None or contact is not None:
        amend_release(model, title=title, contact=contact)
    made = card_of(read_release(model), read_evaluation(model))
    if show:
        typer.launch((model / "card.html").resolve().as_uri())
        return
    if as_json or form is CardFormat.JSON:
        if out is None:
            return show_json(made.to_dict())
        text = json.dumps(made.to_dict(), indent=2, ensure_ascii=False) + "\n"
    elif form is CardFormat.TEXT:
        text = made.text(min(console().width, 100), colour=out is None and on_terminal())
    else:
        text = made.markdown() if form is CardFormat.MARKDOWN else made.html()
    if out is None:
        typer.echo(text, nl=False)
        if form is CardFormat.TEXT and (charged := entry_of_release(model)) is not None:
            say(charged, err=True)  # beside the card: it is for the owner
    else:
        from dptransfer.data.atomic_files import write_whole

        write_whole(out, text.encode())
        say(f"Written: {out}")
