"""`dptransfer federate`: several owners keep their rows and make one model together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

import dptransfer as dpt
from dptransfer.cli import charges, lib, options
from dptransfer.cli.commands import Group
from dptransfer.cli.screen import say, show_facts, show_json, show_progress
from dptransfer.errors import ArgumentError

StudyFile = Annotated[Path, Argument(help="The study that 'federate plan' wrote.", metavar="STUDY")]
PublicRows = Annotated[Path | None, options.data(help="The public pool that the study was planned with.")]

app = Typer(cls=Group, no_args_is_help=True)


@app.callback()
def federate() -> None:
    """Train one model on the rows of several owners, who keep them and add their own noise.

    Example: dptransfer federate plan study.toml --out sepsis.study
    """


@app.command()
def key(
    out: Annotated[Path, Argument(help="The file to write; keep it as safe as your rows.", metavar="FILE")],
    as_json: options.AsJson = False,
) -> None:
    """Make an owner's secret key, and print the public key that a study lists.

    Studies keep their noise in a folder beside this file. Whoever has the file can send shares in your name.

    Example: dptransfer federate key clinic-a.key
    """
    public = lib.OwnerKey.create(out).public
    if as_json:
        return show_json({"out": out, "public": public})
    say(f'{out.stem} = "{public}"')


@app.command()
def plan(
    terms: Annotated[Path, Argument(help="What the owners agreed on.", metavar="STUDY.toml")],
    out: Annotated[Path, Option("--out", "-o", help="The study to write.")],
    as_json: options.AsJson = False,
) -> None:
    """Plan a study, and show what each owner will be charged; no private data are read.

    STUDY.toml needs name, classes, epsilon, delta and a table [owners] of public keys. It may have method,
    settings, relation, unit, person_bound, size, public (a pool), encoder, dimension, trust ("files" or
    "secure-sum") and colluders. Send the file that this command writes to every owner, and compare its digest
    by telephone.

    Example: dptransfer federate plan study.toml --out sepsis.study
    """
    options.require_new(out)
    found = lib.read_terms(terms)
    encoder, pool = None, found.get("public")
    public = None if pool is None else dpt.Source(terms.parent / pool)
    model = None if "encoder" not in found else dpt.encoders.get_encoder(found["encoder"])
    encoder = None if model is None else model.identity
    if model is not None:
        found.setdefault("dimension", model.dimension)
    with lib.EncodedBeside(out) as beside:
        rows = None if public is None else public.public(model, beside)
        study = lib.plan_terms(found, rows, encoder)
    study.write(out)
    planned = study.plan
    if as_json:
        told = charges.privacy_json(planned.method.name, planned.guarantee, planned.events)
        return show_json(told | {"study": study.record, "digest": study.digest, "out": out})
    charges.show_events(planned.events)
    say()
    facts: dict[str, object] = {"Each owner is charged": planned.guarantee}
    facts["The promise holds"] = f"against {lib.against_whom(study.record)}"
    facts |= {"Owners": ", ".join(study.owners), "Method": planned.method.name, "Digest": study.digest}
    next_step = f"each owner: dptransfer federate share {out} ROWS --key KEY --to SHARES"
    show_facts({**facts, "Written": out, "Next": next_step})


@dataclass(frozen=True)
class OwnerOptions:
    """Who shares, where shares go, and what is charged."""

    key: Annotated[Path, Option(help="Your secret key.")]
    to: Annotated[Path, Option(help="Folder for your shares and those of others.")]
    wait: Annotated[float, Option(min=0, help="Seconds to wait for others in each round.")] = 0.0
    workspace: Annotated[Path | None, Option(help="Your private folder; default beside the key.")] = None
    name: options.DataSetName = None
    ledger: options.LedgerFile = None
    as_json: options.AsJson = False


@app.command()
def share(
    study: StudyFile,
    private: Annotated[Path, Argument(help="Your rows, images or texts.", metavar="ROWS")],
    owner: OwnerOptions,
    columns: options.ColumnOptions,
    reading: options.ReadingOptions,
    person: options.Person = None,
    public: PublicRows = None,
    settings: options.DataAssignments = None,
) -> None:
    """Charge your own ledger once, and write your signed share of each round.

    Methods that release sums have one round, others up to sixty. A round begins when the shares of all owners
    are in the folder: run the command again, or let it wait. A repeated command resumes, writes the same
    bytes and charges nothing twice.

    Example: dptransfer federate share sepsis.study rows.emb --key clinic-a.key --to shares/
    """
    agreed, secret = lib.read_study(study), lib.OwnerKey.load(owner.key)
    about = options.data_settings(settings, options.ABOUT_DATA)
    facts = agreed.facts
    bound = {} if facts.unit is dpt.Unit.ROW else {"person_bound": facts.person_bound}
    labels, table = about.get("labels"), columns.columns(split=about.get("split"))
    declared = lib.DeclaredSizes(**bound)  # type: ignore[typeddict-item]
    named = facts.classes, person, owner.name
    source = dpt.Source(private, labels, *named, table, reading.reading(), declared)
    book = charges.open_ledger(owner.ledger, strict_names=about.get("strict_names", False))
    with lib.EncodedBeside(owner.key.with_suffix(".rows")) as beside:  # others read the folder of shares
        rows = source.private(beside, of=facts)
        pool = None if public is None else dpt.Source(public).public(source.encoder, beside)
        with show_progress("Answering", count_is_private=False):
            how: dict[str, Any] = {name: getattr(owner, name) for name in ("workspace", "wait")}
            how |= {"public": pool, "ledger": book, "new_data_set": about.get("new_data_set", False)}
            done = lib.share(agreed, rows, secret, [owner.to], **how)
    told = {"owner": done.owner, "rounds": done.rounds, "finished": done.is_finished, "note": done.note}
    told["study"] = agreed.digest
    facts_shown = {"Rounds": f"{done.rounds} answered", "Study": f"{agreed.name} {agreed.digest}"}
    facts_shown["Next"] = done.note or f"anybody: dptransfer federate join {study} {owner.to} --out MODEL"
    charges.show_charge(book, done.ledger_head, None, told, facts_shown, as_json=owner.as_json)


@app.command()
def join(
    study: StudyFile,
    shares: Annotated[list[Path], Argument(help="The folder of shares, or the files.", metavar="SHARES")],
    out: Annotated[Path, Option("--out", "-o", help="The release directory to write.")],
    public: PublicRows = None,
    title: options.Title = None,
    contact: options.Contact = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Add up the shares of all owners, and write the release; anybody can do it, and repeat it.

    Nothing private is read and nothing is charged.

    Example: dptransfer federate join sepsis.study shares/ --out model/
    """
    missing = [path for path in shares if not path.exists()]
    if missing:
        raise ArgumentError(f"Shares are files or folders; '{missing[0]}' does not exist. Check the path.")
    agreed = lib.read_study(study)
    pool = None if public is None else dpt.Source(public).public()
    model = lib.join(agreed, shares, public=pool)
    model.save(out, title=title, contact=contact, overwrite=overwrite)
    if as_json:
        told = charges.privacy_json(model.provenance.method, model.guarantee, model.events)
        return show_json(told | {"owners": list(agreed.owners), "digest": agreed.digest, "out": out})
    facts: dict[str, object] = {"Guarantee": model.guarantee}
    facts["For each owner"] = f"against {lib.against_whom(agreed.record)}"
    facts |= {"Owners": ", ".join(agreed.owners), "Written": out, "Next": f"dptransfer card {out}"}
    show_facts(facts)
