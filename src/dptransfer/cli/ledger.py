"""`dptransfer ledger`: what was spent on which data set, and what may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dptransfer.cli import budgets, ledger_record, options
from dptransfer.cli.ledger_view import entry_json, entry_words, open_ledger, summary_json
from dptransfer.cli.commands import Group
from dptransfer.cli.screen import say, show_facts, show_json, show_table
from dptransfer.errors import LedgerError
from dptransfer.privacy import Relation

if TYPE_CHECKING:
    from dptransfer.ledger import DataSet, Ledger

app = typer.Typer(cls=Group, no_args_is_help=True)
_One = typer.Argument(help="Its name, or the first digits of its id.", show_default=False)
_Which = Annotated[str | None, _One]


@app.callback()
def ledger() -> None:
    """Show what was spent on which data set, set budgets, check and copy the record.

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
        show_json(
            {"ledger": str(book.path), "head": book.head, "datasets": [summary_json(one) for one in found]}
        )
        return
    show_facts({"Ledger": book.path})
    if not found:
        say("Nothing is on record yet.")
        return
    rows = [
        (one.dataset.name or "-", one.dataset.short, one.charges, one.unfinished, one.sentence)
        for one in found
    ]
    show_table(("Data set", "Id", "Charges", "Unfinished", "Account"), rows, numbers=(2, 3))
    for one in found:
        if one.merged:
            spelled = ", ".join(f"'{name}'" for name in one.merged)
            say(f"{one.dataset} holds the charges of {spelled} too: an older version kept them apart.")


@app.command()
def history(
    dataset: _Which = None, ledger: options.LedgerFile = None, as_json: options.AsJson = False
) -> None:
    """List every charge and change of budget, oldest first.

    Example: dptransfer ledger history clinic-a --json
    """
    book = open_ledger(ledger, must_exist=True)
    entries = book.history(None if dataset is None else book.find(dataset))
    if as_json:
        show_json(
            {"ledger": str(book.path), "head": book.head, "entries": [entry_json(one) for one in entries]}
        )
        return
    show_facts({"Ledger": book.path, "Head": book.head[:12]})
    told = [(one, *entry_words(one)) for one in entries]
    rows = [
        (one.number, one.time[:19].replace("T", " "), one.dataset.name or one.dataset.short, what, how)
        for one, what, how in told
        if what
    ]
    if rows:
        show_table(("#", "Time (UTC)", "Data set", "What", "Outcome or note"), rows, numbers=(0,))
    else:
        say("Nothing is on record yet.")


@app.command()
def budget(
    dataset: Annotated[str, _One],
    epsilon: budgets.Epsilon = None,
    delta: budgets.Delta = None,
    rho: budgets.Rho = None,
    mu: budgets.Mu = None,
    relation: budgets.Neighbours = Relation.ADD_REMOVE,
    note: Annotated[str, typer.Option("--note", help="Why, for the record.")] = "",
    rule: Annotated[
        str | None,
        typer.Option(
            "--rule",
            help="How charges after the first are counted: gaussian or renyi. Before the first charge only.",
        ),
    ] = None,
    ledger: options.LedgerFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Set the limit of a data set; without numbers, print it.

    Example: dptransfer ledger budget clinic-a --epsilon 3 --delta 1e-5
    """
    setting = any(amount is not None for amount in (epsilon, delta, rho, mu, rule))
    limit = budgets.budget_from(epsilon, delta, rho, mu, relation) if setting else None
    book = open_ledger(ledger, must_exist=not setting)
    if limit is not None:
        book.set_budget(_known_or_new(book, dataset), limit, note=note, rule=rule)
    found = book.find(dataset)
    summary = next(one for one in book.datasets() if one.dataset.id == found.id)
    if as_json:
        show_json({"ledger": str(book.path), **summary_json(summary)})
        return
    limits = summary.budget or "none: everything is recorded, nothing refused"
    show_facts({"Ledger": book.path, "Data set": found, "Budget": limits, "Account": summary.sentence})


app.command()(ledger_record.verify)
app.command()(ledger_record.export)


def _known_or_new(book: Ledger, text: str) -> DataSet | str:
    """The data set on record, or the text as the name of one that is still to come."""
    try:
        return book.find(text)
    except LedgerError:
        return text
