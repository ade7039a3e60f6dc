"""`dptransfer card`: the privacy card of a release."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.screen import console, show_json


class CardFormat(Enum):
    """How the card is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    HTML = "html"


def card(
    model: Annotated[Path, typer.Argument(help="The release directory.", show_default=False)],
    form: Annotated[CardFormat, typer.Option("--format", "-f", help="What to print.")] = CardFormat.TEXT,
    as_json: options.AsJson = False,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser instead.")] = False,
) -> None:
    """Print the privacy card of a release.

    Example: dptransfer card model/ --format html > card.html
    """
    from dptransfer.release import card_of, read_evaluation, read_release

    made = card_of(read_release(model), read_evaluation(model))
    if show:
        typer.launch((model / "card.html").resolve().as_uri())
    elif as_json or form is CardFormat.JSON:
        show_json(made.to_dict())
    elif form is CardFormat.TEXT:
        typer.echo(made.text(min(console().width, 100)), nl=False)
    else:
        typer.echo(made.markdown() if form is CardFormat.MARKDOWN else made.html(), nl=False)
