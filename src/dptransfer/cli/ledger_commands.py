"""`dptransfer ledger`: what was spent on which data set, and what may be."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptransfer.cli import options
from dptransfer.cli.commands import Group
from dptransfer.cli.inputs import require_new
from dptransfer.cli.ledger_history import FOOTNOTE, HEADER, entry_json, history_rows, release_heads
from dptransfer.cli.screen import say, show_facts, show_json, show_table, tell
from dptransfer.errors import ArgumentError, LedgerError
from dptransfer.privacy import Relation, Unit

if TYPE_CHECKING:
    from dptransfer.ledger import DataSet, DatasetSummary, Ledger

app = typer.Typer(cls=Group, no_args_is_help=True)
_One = typer.Argument(help="Its name, or the first digits of its id.")
_Which = Annotated[str | None, _One]


@app.callback()
def ledger() -> None:
    """Show what was spent on which data set, set budgets, check and copy the record.

    An auditor may have the ledger's file; never its key, LEDGER.key, which tells single rows.

    Example: dptransfer ledger show
    """


@app.command()
def show(dataset: _Which = None, ledger: options.LedgerFile = None, as_json: options.AsJson = False) -> None:
    """Show what is spent and allowed, by data set.

    Example: dptransfer ledger show clinic-a
    """
    book = open_ledger(ledger, must_exist=True)
    wanted = None if dataset is None else book.find(dataset).id
    found = [one for one in book.datasets() if wanted in (None, one.dataset.id)]
    if as_json:
        datasets = [summary_json(one) for one in found]
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
    model: Annotated[
        list[Path] | None, typer.Option(help="A release; marks the charge that it came from.")
    ] = None,
    steps: Annotated[bool, typer.Option("--steps", help="Say what noise each charge was for.")] = False,
    last: Annotated[int, typer.Option(min=0, help="How many rows to show; 0 for all.")] = 100,
    ledger: options.LedgerFile = None,
    as_json: options.AsJson = False,
) -> None:
    """List charges, with what each cost and how it ended, and changes of limits; oldest first.

    Example: dptransfer ledger history clinic-a --model model/
    """
    from dptransfer.ledger import ClosingEntry

    book = open_ledger(ledger, must_exist=True)
    entries = book.history(None if dataset is None else book.find(dataset))
    releases: dict[str, str] = {}
    for one in model or ():
        for head, words in release_heads(one).items():
            releases[head] = f"{releases[head]}, {words}" if head in releases else words
    listed = [one for one in entries if not isinstance(one, ClosingEntry)]  # each charge says how it ended
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
        cut = (
            f"The last {len(rows)} of {len(listed)}; --last 0 shows all. " if len(rows) < len(listed) else ""
        )
        say(cut + FOOTNOTE)
    else:
        say("Nothing is on record yet.")
    hashes = {one.hash for one in entries}
    for head, words in releases.items():
        if head not in hashes:
            say(f"No charge listed here made {words} (head {head[:12]}).", style="yellow")


@app.command()
def budget(
    dataset: Annotated[str, _One],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    other_budget: options.OtherBudget = None,
    relation: options.Neighbours = Relation.ADD_REMOVE,
    unit: Annotated[
        Unit | None, typer.Option(help="Whose loss it limits; default the account's, else row.")
    ] = None,
    most_rows_per_person: Annotated[
        int | None, typer.Option(min=1, help="A public promise: nobody has more rows than that.")
    ] = None,
    note: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    rule: Annotated[
        str | None, typer.Option(help="How later charges count, set before the first: gaussian or renyi.")
    ] = None,
    ledger: options.LedgerFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Set the limit of a data set; without numbers, print it.

    Example: dptransfer ledger budget clinic-a --epsilon 3 --delta 1e-5
    """
    given = (epsilon, delta, other_budget, rule, unit, most_rows_per_person)
    setting = any(one is not None for one in given)
    limit = options.budget_from(epsilon, delta, other_budget, relation) if setting else None
    book = open_ledger(ledger, must_exist=not setting)
    if limit is not None:
        named: DataSet | str = dataset
        with suppress(LedgerError):  # a name that is not on record yet is that of one still to come
            named = book.find(dataset)
        most = most_rows_per_person
        book.set_budget(named, limit, note=note, rule=rule, unit=unit, most_rows_per_person=most)
    rows = book.find(dataset)
    summary = next(one for one in book.datasets() if one.dataset == rows)
    if as_json:
        return show_json({"ledger": book.path, **summary_json(summary)})
    limits = "none: everything is recorded, nothing refused"
    if summary.budget is not None and summary.unit is not None:
        limits = f"{summary.budget}, for one {summary.unit.words}"
    told = {"Data set": summary.dataset, "Budget": limits, "Account": summary.sentence}
    show_facts({"Ledger": book.path, **told})


@app.command()
def verify(
    head: Annotated[str | None, typer.Option(help="A head kept elsewhere, such as a release's.")] = None,
    ledger: options.LedgerFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Check the hash chain; with --head also that the record has that entry still.

    Without a head that was kept elsewhere a ledger that was rewritten as a whole passes too.

    Example: dptransfer ledger verify --head 3f9a...
    """
    if head is not None and not (len(head) == 64 and set(head.lower()) <= set("0123456789abcdef")):
        raise ArgumentError(
            "--head takes 64 hexadecimal digits; these are not. A release has them in release.json."
        )
    book = open_ledger(ledger, must_exist=True)
    book.verify(known_head=None if head is None else head.lower())
    entries = len(book.history(None))
    tell({**_files(book), "entries": entries, "head": book.head}, as_json=as_json, known_head=head)
    if not as_json:
        say("The chain holds" + (", and the given head is in it." if head else "."), style="green")
        say("An auditor may have the ledger; the key stays with you, for it tells single rows.")


@app.command()
def export(
    out: Annotated[Path, typer.Option("--out", "-o", help="The JSON Lines file to write.")],
    ledger: options.LedgerFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Write every entry as a line of JSON; the file is for its owner's eyes only.

    Names, notes and times of charges are not protected by any guarantee.

    Example: dptransfer ledger export --out record.jsonl
    """
    from dptransfer.data.atomic_files import owner_only, write_whole

    require_new(out)
    book = open_ledger(ledger, must_exist=True)
    entries = book.history(None)
    lines = (json.dumps(entry_json(entry), ensure_ascii=False) + "\n" for entry in entries)
    write_whole(out, "".join(lines).encode(), opener=owner_only)
    tell({"ledger": book.path, "out": out, "entries": len(entries), "head": book.head}, as_json=as_json)


def open_ledger(path: Path | None, *, must_exist: bool = False, strict_names: bool = False) -> Ledger:
    """The ledger at `path`, the user's own without one; with `must_exist` no new one is made.

    Who only wants to read must not be shown an empty ledger because a path was mistyped.
    """
    from dptransfer.ledger import Ledger

    where = Ledger.default_path() if path is None else path
    if must_exist and not where.exists():
        raise ArgumentError(
            f"A ledger is made by the first budget or charge; there is none at '{where}'. "
            "Check --ledger, or without it the environment variable DPTRANSFER_LEDGER."
        )
    return Ledger(where, strict_names=strict_names)


def _files(book: Ledger) -> dict[str, object]:
    """The ledger and its secret key, which is said to be missing where it is."""
    from dptransfer.ledger.row_key import key_path

    key = None if book.path is None else key_path(book.path)
    missing = key is not None and not key.exists()
    return {"ledger": book.path, "key": f"missing ({key}): nothing can be charged" if missing else key}


def summary_json(summary: DatasetSummary) -> dict[str, Any]:
    """One data set's account."""
    plain = ("charges", "unfinished", "rule", "sentence", "most_rows_per_person")
    return {
        **asdict(summary.dataset),
        "spent": None if summary.spent is None else summary.spent.to_dict(),
        "budget": None if summary.budget is None else summary.budget.to_dict(),
        "unit": None if summary.unit is None else summary.unit.value,
        **{name: getattr(summary, name) for name in plain},
    }


def charge_record(book: Ledger, head: str) -> tuple[dict[str, Any], dict[str, object]]:
    """A charge and the account it was made to, as JSON and as facts for people.

    Args:
        book: where it was charged.
        head: of the charge.
    """
    charge, account = book.charge_of(head)
    entry = {"path": str(book.path), "entry": charge.number, "head": charge.hash}
    return {"ledger": entry, "account": summary_json(account)}, {
        "Charged": f"{account.dataset}, entry {charge.number} of the ledger {book.path}",
        "Account": account.sentence,
    }
