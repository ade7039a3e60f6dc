"""`dptransfer ledger verify` and `export`: is the record whole, and a copy of it to keep elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.ledger_view import entry_json, open_ledger
from dptransfer.cli.screen import say, show_facts, show_json
from dptransfer.errors import ArgumentError


def verify(
    head: Annotated[
        str | None,
        typer.Option("--head", help="A head kept elsewhere, such as a release's.", show_default=False),
    ] = None,
    ledger: options.LedgerFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Check the hash chain; with --head also that the record has that entry still.

    Without a head that was kept elsewhere a ledger that was rewritten as a whole passes too.

    Example: dptransfer ledger verify --head 3f9a...
    """
    if head is not None and not (len(head) == 64 and set(head.lower()) <= set("0123456789abcdef")):
        raise ArgumentError(
            "--head must be a whole head, 64 hexadecimal digits; this is not. "
            "A release has one in release.json, as ledger_head."
        )
    book = open_ledger(ledger, must_exist=True)
    book.verify(known_head=None if head is None else head.lower())
    entries = len(book.history(None))
    if as_json:
        show_json({"ledger": str(book.path), "head": book.head, "entries": entries, "known_head": head})
        return
    known = "" if head is None else ", and the given head is in it"
    show_facts({"Ledger": book.path, "Entries": entries, "Head": book.head})
    say(f"The chain holds{known}.", style="green")


def export(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The JSON Lines file to write.", show_default=False)
    ],
    ledger: options.LedgerFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Write every entry as a line of JSON; the file is for its owner's eyes only.

    Names, notes and times of charges are not protected by any guarantee.

    Example: dptransfer ledger export --out record.jsonl
    """
    if os.path.lexists(out):
        raise ArgumentError(f"--out must name a new file; '{out}' exists. Choose another name.")
    book = open_ledger(ledger, must_exist=True)
    entries = book.history(None)
    descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        for entry in entries:
            file.write(json.dumps(entry_json(entry), ensure_ascii=False) + "\n")
    if as_json:
        show_json({"ledger": str(book.path), "out": str(out), "entries": len(entries), "head": book.head})
    else:
        show_facts({"Ledger": book.path, "Written": out, "Entries": len(entries), "Head": book.head})
