"""`dptransfer card`: the privacy card of a release."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.screen import console, on_terminal, say, show_json
from dptransfer.errors import ArgumentError


class CardFormat(Enum):
    """How the card is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    HTML = "html"


def card(
    model: Annotated[Path, typer.Argument(help="The release directory.", show_default=False)],
    form: Annotated[CardFormat, typer.Option("--format", "-f", help="What to print.")] = CardFormat.TEXT,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file to write instead.", show_default=False)
    ] = None,
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

    if form is CardFormat.HTML and out is None and not show and on_terminal():
        raise ArgumentError(
            "A page is for a browser; a terminal would show its source. "
            f"Open '{model / 'card.html'}' with --open, or pass --out card.html."
        )
    if title is not None or contact is not None:
        amend_release(model, title=title, contact=contact)
    made = card_of(read_release(model), read_evaluation(model))
    if show:
        typer.launch((model / "card.html").resolve().as_uri())
    elif out is None and (as_json or form is CardFormat.JSON):
        show_json(made.to_dict())
    elif out is None and form is CardFormat.TEXT:
        typer.echo(made.text(min(console().width, 100), colour=on_terminal()), nl=False)
    elif out is None:
        typer.echo(made.markdown() if form is CardFormat.MARKDOWN else made.html(), nl=False)
    else:
        _write(made.to_dict() if as_json or form is CardFormat.JSON else getattr(made, form.value)(), out)


def _write(content: object, out: Path) -> None:
    import json

    if out.exists():
        raise ArgumentError(f"--out must name a new file; '{out}' exists. Choose another name.")
    text = content if isinstance(content, str) else json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    out.write_text(text, encoding="utf-8")
    say(f"Written: {out}")
