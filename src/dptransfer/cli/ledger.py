"""`dptransfer ledger`: what was spent on which data set, and what may be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptransfer.cli import options
from dptransfer.cli.failures import OneLineErrors
from dptransfer.cli.screen import say, show_facts, show_json, show_table
from dptransfer.errors import ArgumentError, LedgerError
from dptransfer.privacy import Relation

if TYPE_CHECKING:
    from dptransfer.ledger import DatasetSummary, Entry, Ledger

app = typer.Typer(cls=OneLineErrors, no_args_is_help=True)
_Which = Annotated[
    str | None, typer.Argument(metavar="[DATASET]", help="Its name, or the first digits of its id.")
]


@app.callback()
def ledger() -> None:
    """What was spent on which data set: show, history, budget.

    Example: dptransfer ledger show
    """


def open_ledger(path: Path | None, *, must_exist: bool = False) -> Ledger:
    """The ledger at `path`; the user's own without one."""
    from dptransfer.ledger import Ledger

    if path is None:
        return Ledger.default()
    if must_exist and not path.exists():
        raise ArgumentError(f"--ledger must name a ledger; there is none at '{path}'. Check the path.")
    return Ledger(path)


@app.command()
def show(dataset: _Which = None, ledger: options.LedgerFile = None, as_json: options.AsJson = False) -> None:
    """Show what is spent and allowed, by data set.

    Example: dptransfer ledger show clinic-a
    """
    book = open_ledger(ledger, must_exist=True)
    wanted = None if dataset is None else book.find(dataset).id
    summaries = [one for one in book.datasets() if wanted in (None, one.dataset.id)]
    if as_json:
        show_json({"ledger": str(book.path), "head": book.head, "datasets": [summary_json(s) for s in summaries]})
        return
    say(f"Ledger {book.path}")
    if not summaries:
        say("Nothing is on record yet.")
        return
    say()
    rows = [(s.dataset.name or "-", s.dataset.short, s.charges, s.unfinished or "-", s.sentence) for s in summaries]
    show_table(("Data set", "Id", "Charges", "Unfinished", "Account"), rows, numbers=(2, 3))


@app.command()
def history(dataset: _Which = None, ledger: options.LedgerFile = None, as_json: options.AsJson = False) -> None:
    """List every charge and change of budget, oldest first.

    Example: dptransfer ledger history clinic-a --json
    """
    book = open_ledger(ledger, must_exist=True)
    entries = [_entry_json(e) for e in book.history(None if dataset is None else book.find(dataset))]
    if as_json:
        show_json({"ledger": str(book.path), "head": book.head, "entries": entries})
        return
    say(f"Ledger {book.path}; head {book.head[:12]}")
    rows = [
        (e["number"], e["time"][:19], e["dataset"]["name"] or e["dataset"]["id"][:12], _what(e), _how(e))
        for e in entries
        if e["kind"] != "closing"
    ]
    say() if rows else say("Nothing is on record yet.")
    if rows:
        show_table(("#", "Time (UTC)", "Data set", "What", "Outcome"), rows, numbers=(0,))


@app.command()
def budget(
    dataset: Annotated[str, typer.Argument(help="Its name, or the first digits of its id.")],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    mu: options.Mu = None,
    relation: options.Neighbours = Relation.ADD_REMOVE,
    note: Annotated[str, typer.Option("--note", help="Why, for the record.")] = "",
    ledger: options.LedgerFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Set the limit of a data set; without numbers, print it.

    Example: dptransfer ledger budget clinic-a --epsilon 3 --delta 1e-5
    """
    setting = any(amount is not None for amount in (epsilon, delta, rho, mu))
    limit = options.budget_from(epsilon, delta, rho, mu, relation) if setting else None
    book = open_ledger(ledger, must_exist=not setting)
    if limit is not None:
        try:
            book.set_budget(book.find(dataset), limit, note=note)
        except LedgerError:  # not on record: a string is the name of a new account
            book.set_budget(dataset, limit, note=note)
    found = book.find(dataset)
    summary = next(one for one in book.datasets() if one.dataset.id == found.id)
    if as_json:
        show_json({"ledger": str(book.path), **summary_json(summary)})
        return
    show_facts({"Ledger": book.path, "Data set": found, "Budget": summary.budget or "none", "Account": summary.sentence})


def summary_json(summary: DatasetSummary) -> dict[str, Any]:
    """One data set's account."""
    return {
        "id": summary.dataset.id,
        "name": summary.dataset.name,
        "charges": summary.charges,
        "unfinished": summary.unfinished,
        "spent": None if summary.spent is None else summary.spent.to_dict(),
        "budget": None if summary.budget is None else summary.budget.to_dict(),
        "sentence": summary.sentence,
    }


def _entry_json(entry: Entry) -> dict[str, Any]:
    raise NotImplementedError
