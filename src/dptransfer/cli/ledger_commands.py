"""`dptransfer ledger`: what was spent on which data set, and what may be.

Entries are numbered in one series. How a charge ended is an entry of its own, and stands in the charge's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

import dptransfer as dpt
from dptransfer import ledger as records
from dptransfer.cli import charges, lib, options
from dptransfer.cli.commands import Group
from dptransfer.cli.screen import json_text, say, show_facts, show_json, show_result, show_table
from dptransfer.errors import ArgumentError, DPTransferError, LedgerError, UnknownCharge
from dptransfer.privacy import Unit, number, rounded_up

HEADER = ("Entry", "Time (UTC)", "User", "Data set", "What", "Epsilon (delta)", "Total", "Outcome or note")
FOOTNOTE = (
    "Epsilon: each charge by itself, at the delta in brackets. Total: all charges of its data set so far. "
    "Both as stated when it was charged. How a charge ended is an entry of its own, in brackets."
)

app = Typer(cls=Group, no_args_is_help=True)
_One = Argument(help="Name of the data set, or the first digits of its id.")
_Which = Annotated[str | None, _One]


@app.callback()
def ledger() -> None:
    """Show what was spent on each data set, set budgets, and check or export the ledger.

    You may give the ledger to an auditor. Keep its key file, LEDGER.key: with the key, single rows can be
    recognised.

    Example: dptransfer ledger show
    """


@app.command()
def show(dataset: _Which = None, ledger: options.LedgerFile = None, as_json: options.AsJson = False) -> None:
    """Show what is spent and allowed, by data set.

    Example: dptransfer ledger show clinic-a
    """
    book = charges.open_ledger(ledger, must_exist=True)
    wanted = None if dataset is None else book.find(dataset).id
    found = [one for one in book.datasets() if wanted in (None, one.dataset.id)]
    if as_json:
        datasets = [charges.summary_json(one) for one in found]
        return show_json({**_files(book), "head": book.head, "datasets": datasets})
    show_facts({name.capitalize(): value for name, value in _files(book).items()})
    if not found:
        return say("Nothing is on record yet.")
    accounts = [
        (one.dataset.name or "-", one.dataset.short, one.charges, one.unfinished, one.sentence)
        for one in found
    ]
    show_table(("Data set", "Id", "Charges", "Unfinished", "Account"), accounts, numbers=(2, 3))


@app.command()
def history(
    dataset: _Which = None,
    model: Annotated[list[Path] | None, Option(help="A release; mark the charge that it came from.")] = None,
    steps: Annotated[bool, Option("--steps", help="Show the noisy steps of each charge.")] = False,
    last: Annotated[int, Option(min=0, help="How many rows to show; 0 for all.")] = 100,
    ledger: options.LedgerFile = None,
    as_json: options.AsJson = False,
) -> None:
    """List charges with their cost and outcome, and changes of budgets, oldest first.

    Example: dptransfer ledger history clinic-a --model model/
    """
    book = charges.open_ledger(ledger, must_exist=True)
    entries = book.history(None if dataset is None else book.find(dataset))
    releases: dict[str, str] = {}
    for one in model or ():
        for head, words in release_heads(one).items():
            releases[head] = f"{releases[head]}, {words}" if head in releases else words
    # Each charge says how it ended.
    listed = [one for one in entries if not isinstance(one, records.ClosingEntry)]
    if as_json:
        found = [entry_json(one) for one in listed]
        for entry in found:
            if entry["hash"] in releases:
                entry["release"] = releases[entry["hash"]]
        return show_json({"ledger": book.path, "head": book.head, "entries": found})
    show_facts({"Ledger": book.path, "Head": book.head[:12]})
    rows = history_rows(listed, steps=steps, releases=releases, last=last or len(listed))
    if rows:
        show_table(HEADER, rows, numbers=(0,))
        is_cut = len(rows) < len(listed)
        cut = f"The last {len(rows)} of {len(listed)}; --last 0 shows all. " if is_cut else ""
    say(cut + FOOTNOTE if rows else "Nothing is on record yet.")
    hashes = {one.hash for one in entries}
    for head, words in releases.items():
        if head not in hashes:
            say(f"No charge listed here made {words} (head {head[:12]}).", style="yellow")


@app.command()
def budget(
    dataset: Annotated[str, _One],
    amount: options.BudgetOptions,
    unit: Annotated[Unit | None, Option(help="The protected unit; default the account's, else row.")] = None,
    most_rows_per_person: Annotated[int | None, Option(min=1, help="Promise: nobody has more rows.")] = None,
    note: Annotated[str, Option(help="Why, for the record.")] = "",
    rule: Annotated[str | None, Option(help="Composition rule: gaussian or renyi; before charges.")] = None,
    ledger: options.LedgerFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Set the budget of a data set, or print it if no number is given.

    Example: dptransfer ledger budget clinic-a --epsilon 3 --delta 1e-5
    """
    most = most_rows_per_person
    is_set = amount.has_amount or any(one is not None for one in (unit, most, rule))
    allowed = amount.budget() if is_set else None
    book = charges.open_ledger(ledger, must_exist=allowed is None)
    if allowed is not None:
        named: records.DataSet | str = dataset
        with suppress(LedgerError):  # a name that is not on record yet is that of one still to come
            named = book.find(dataset)
        book.set_budget(named, allowed, note=note, rule=rule, unit=unit, most_rows_per_person=most)
    rows = book.find(dataset)
    summary = next(one for one in book.datasets() if one.dataset == rows)
    if as_json:
        return show_json({"ledger": book.path, **charges.summary_json(summary)})
    limits = "none: everything is recorded, nothing refused"
    if summary.budget is not None and summary.unit is not None:
        limits = f"{summary.budget}, for one {summary.unit.words}"
    told = {"Data set": summary.dataset, "Budget": limits, "Account": summary.sentence}
    show_facts({"Ledger": book.path, **told})


@app.command()
def approve(
    model: options.Release,
    name: Annotated[str, Option("--name", help="Who approves.")],
    note: Annotated[str, Option(help="What was decided, and why.")],
    ledger: options.LedgerFile = None,
) -> None:
    """Record in the ledger that a person approved a release; audits list it.

    Example: dptransfer ledger approve model/ --name "A. Officer" --note "may leave, review in 2027"
    """
    book = charges.open_ledger(ledger, must_exist=True)
    book.approve(dpt.load(model).provenance.ledger_head, name, note)
    say(f"On record as entry {book.history()[-1].number}, by {name}.")


@app.command()
def verify(
    head: Annotated[str | None, Option(help="A chain head kept elsewhere, such as a release's.")] = None,
    ledger: options.LedgerFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Check the hash chain, and with --head that the ledger still contains that entry.

    Without a head that you kept elsewhere, a ledger that was rewritten as a whole passes too.

    Example: dptransfer ledger verify --head 3f9a...
    """
    if head is not None and not (len(head) == 64 and set(head.lower()) <= set("0123456789abcdef")):
        raise ArgumentError("--head takes 64 hexadecimal digits; these are not. See release.json.")
    book = charges.open_ledger(ledger, must_exist=True)
    book.verify(known_head=None if head is None else head.lower())
    entries = len(book.history(None))
    show_result({**_files(book), "entries": entries, "head": book.head}, as_json=as_json, known_head=head)
    if not as_json:
        say("The chain holds" + (", and the given head is in it." if head else "."), style="green")
        say("You may give the ledger to an auditor. Keep the key: with it, single rows can be recognised.")


@app.command()
def export(
    out: Annotated[Path, Option("--out", "-o", help="The JSON Lines file to write.")],
    ledger: options.LedgerFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Write every entry as a line of JSON, for the data owner only.

    No guarantee protects the names, notes and times of charges.

    Example: dptransfer ledger export --out record.jsonl
    """
    options.require_new(out)
    book = charges.open_ledger(ledger, must_exist=True)
    entries = book.history(None)
    lines = (json_text(entry_json(entry), indent=None) + "\n" for entry in entries)
    lib.write_whole(out, "".join(lines).encode(), opener=lib.owner_only)
    facts = {"ledger": book.path, "out": out, "entries": len(entries), "head": book.head}
    show_result(facts, as_json=as_json)


def _files(book: dpt.Ledger) -> dict[str, object]:
    """The ledger and its secret key, which is said to be missing where it is."""
    key = None if book.path is None else lib.key_path(book.path)
    missing = key is not None and not key.exists()
    return {"ledger": book.path, "key": f"missing ({key}): nothing can be charged" if missing else key}


def history_rows(
    entries: Sequence[records.Entry], *, steps: bool, releases: Mapping[str, str], last: int
) -> list[tuple[object, ...]]:
    """A row for each charge and each change of a limit, in order.

    Args:
        entries: charges and limits of the ledger, oldest first.
        steps: whether to say what noise each charge was for.
        releases: words for the releases that charges made, by the head that the charge had.
        last: how many rows, counted from the end.
    """
    currencies: dict[str, str] = {}
    rows: list[tuple[object, ...]] = []
    for place, entry in enumerate(entries, start=last - len(entries)):
        if isinstance(entry, records.BudgetChange):
            currencies[entry.dataset.id] = entry.budget.currency
        if place < 0:
            continue
        shared = (entry.number, entry.time[:19].replace("T", " "), entry.user)
        name = entry.dataset.name or entry.dataset.short
        if isinstance(entry, records.BudgetChange):
            rows.append((*shared, name, _limit_words(entry), "", "", entry.note))
        elif isinstance(entry, records.Approval):
            what = f"entry {entry.charge} approved by {entry.approver}"
            rows.append((*shared, name, what, "", "", entry.note))
        elif isinstance(entry, records.Charge):
            currency = currencies.get(entry.dataset.id, "epsilon")
            costs = (_amount(entry.cost, currency), _amount(entry.total, currency))
            ended = "; ".join(filter(None, (_outcome(entry), releases.get(entry.hash))))
            rows.append((*shared, name, charge_words(entry, steps=steps), *costs, ended))
    return rows


def charge_words(charge: records.Charge, *, steps: bool = True) -> str:
    """What was charged for: the label, with `steps` what noise, and always what cannot be read here."""
    told = [charge.label]
    try:
        words = [event.words() for event in charge.events] or ["no private row used, nothing spent"]
        by = [f"by {unit.value}" for unit in {event.unit for event in charge.events} - {Unit.ROW}]
        told = [f"{charge.label}: {'; '.join(words + by)}"] if steps else told
    except UnknownCharge:
        told = [f"{charge.label}: steps of the kind {', '.join(charge.kinds)}, not all of which is installed"]
    if charge.apart_from:
        told.append(f"said to be other people than {', '.join(one[:12] for one in charge.apart_from)}")
    return "; ".join(told)


def entry_json(entry: records.Entry) -> lib.JsonObject:
    """One entry of the record, whatever its kind; what only the ledger needs is left out."""
    inside = ("dataset", "steps", "sketch", "sources", "workspace", "coins")
    found = {one.name: getattr(entry, one.name) for one in fields(entry) if one.name not in inside}
    if isinstance(entry, records.Charge):
        found |= {"status": entry.status, "events": list(entry.steps)}
    return {"kind": entry.kind, "dataset": vars(entry.dataset), **found}


def release_heads(model: Path) -> dict[str, str]:
    """The heads that a release keeps of the charges behind it, with words for what each of them made."""
    released = dpt.load(model)
    called = f"{model}" + (f" ('{released.provenance.title}')" if released.provenance.title else "")
    found = {released.provenance.ledger_head: called}
    if released.charged is not None:
        found.setdefault(released.charged.ledger_head, f"test results of {called}")
    return {head: words for head, words in found.items() if head is not None}


def entry_of_release(model: Path) -> str | None:
    """Which entry of the user's ledger a release came from, in words; None where none is known here."""
    where = dpt.Ledger.default_path()
    with suppress(DPTransferError, OSError):  # a ledger that cannot be read is no concern of a release
        heads = release_heads(model) if where.is_file() else {}
        entries = dpt.Ledger(where).history() if heads else []
        if numbers := [entry.number for entry in entries if entry.hash in heads]:
            of = "entry" if len(numbers) == 1 else "entries"
            return f"Charged as {of} {' and '.join(map(str, numbers))} of your ledger {where}."
    return None


def _outcome(charge: records.Charge) -> str:
    if charge.outcome is None:
        return "open: interrupted or running"
    return f"{charge.outcome}{f': {charge.detail}' if charge.detail else ''} ({charge.closed_by})"


def _amount(stated: Mapping[str, float] | None, currency: str) -> str:
    """What is spent, in the currency of the limit where it has an amount in that."""
    if stated is None:
        return "not stated"
    if currency != "epsilon" and currency in stated:
        return f"{currency} {rounded_up(stated[currency])}"
    if "epsilon" not in stated:
        return "unbounded"
    at = f" ({number(stated['delta'])})" if stated.get("delta") else ""
    return f"{rounded_up(stated['epsilon'])}{at}"


def _limit_words(change: records.BudgetChange) -> str:
    by = "" if change.unit is Unit.ROW else f", by {change.unit.value}"
    most = change.most_rows_per_person
    by += "" if most is None else f", nobody having more than {most} rows"
    rule = "" if change.rule is None else f", counted by '{change.rule}'"
    return f"limit set to {change.budget}{by}{rule}"
