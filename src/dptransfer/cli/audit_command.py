"""`dptransfer audit`: one document by which a release may leave the building."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from dptransfer import release
from dptransfer.cli import charges, lib, options
from dptransfer.cli.evaluate_commands import AttackOptions, run_attacks
from dptransfer.cli.screen import say, show_facts, show_json
from dptransfer.errors import ArgumentError

_COLOURS = {"green": "bold green", "amber": "bold yellow", "red": "bold red"}
_EXITS = {"green": 0, "amber": 3, "red": 1}
_PAGE = Path("audit.html")


def audit(
    model: options.Release,
    how: AttackOptions,
    ledger: options.LedgerFile = None,
    members: Annotated[Path | None, Option(help="Rows of the fit, to attack it; for you alone.")] = None,
    others: Annotated[Path | None, Option(help="With --members: others of the same draw.")] = None,
    out: Annotated[Path, Option("--out", "-o", help="The page; the record is beside it.")] = _PAGE,
    quick: Annotated[bool, Option("--quick", help="Draw less: a few seconds.")] = False,
    seed: Annotated[int, Option(help="Of the audit's own noise.")] = 0,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Audit a release and write a document to sign (audit.html) and its record (audit.json).

    The audit verifies the release, runs its method again on made-up rows, tests the noise of that run and of
    the release's own, plants faults to see whether it would find them, and lists what was spent. It reads no
    private row, unless --members names some: what comes of these goes into audit-members.html, for you alone.
    Exit code 1 if something contradicts the promise; 3 if not everything could be tried.

    Example: dptransfer audit model/ --ledger ledger.sqlite
    """
    if (members is None) != (others is None):
        raise ArgumentError("An attack compares members with others; one is missing. Pass both, or neither.")
    if members is None and (how.person is not None or how.public is not None):
        raise ArgumentError("--person and --public are for attacks; none was asked for. Pass --members.")
    record, own = out.with_suffix(".json"), out.with_name(f"{out.stem}-members.html")
    for file in (out, record, *([own] if members else [])):
        if not overwrite and os.path.lexists(file):
            raise ArgumentError(f"'{file}' exists. Choose another --out, or pass --overwrite.")
    book = None if ledger is None else charges.open_ledger(ledger, must_exist=True)
    found = lib.audit_release(model, ledger=book, quick=quick, seed=seed)
    page = lib.audit_document(found, release.read_evaluation(model)).html()
    lib.write_whole(out, page.encode(), overwrite=overwrite)
    lib.write_whole(record, lib.record_bytes(found), overwrite=overwrite)
    if members is not None and others is not None:
        attacks = run_attacks(model, found.model, members, others, how)
        private_page = lib.attack_document(attacks).html()
        lib.write_whole(own, private_page.encode(), overwrite=overwrite, opener=lib.owner_only)
    if as_json:
        show_json(found.to_dict())
    else:
        say(found.sentence, style=_COLOURS[found.light])
        files = {"Document": out, "Record": record, "For you alone": own if members else None}
        show_facts({name: file for name, file in files.items() if file is not None})
    if _EXITS[found.light]:
        raise typer.Exit(_EXITS[found.light])
