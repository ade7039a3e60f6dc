"""What `dptransfer fit` says afterwards: what was charged to which ledger, the promise, the files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.cli.ledger_view import summary_json
from dptransfer.cli.privacy_view import privacy_json, show_events
from dptransfer.cli.screen import say, show_facts

if TYPE_CHECKING:
    from dptransfer.data import PrivateEmbeddings
    from dptransfer.ledger import DatasetSummary, Entry, Ledger
    from dptransfer.release import Evaluation, PrivateClassifier


def fit_json(
    model: PrivateClassifier, rows: PrivateEmbeddings, book: Ledger, out: Path, scores: Evaluation | None
) -> dict[str, Any]:
    """Everything as one JSON object."""
    charge, summary = _account(model, rows, book)
    return {
        **privacy_json(model.provenance.method, model.guarantee, model.events),
        "configuration": dict(model.provenance.configuration),
        "notes": list(model.provenance.notes),
        "seeded": model.provenance.seeded,
        "ledger": {"path": str(book.path), "entry": charge.number, "head": charge.hash},
        "account": summary_json(summary),
        "out": str(out),
        "files": _files(out),
        "evaluation": None if scores is None else scores.to_dict(),
    }


def show_fit(
    model: PrivateClassifier, rows: PrivateEmbeddings, book: Ledger, out: Path, scores: Evaluation | None
) -> None:
    """The same for people."""
    charge, summary = _account(model, rows, book)
    show_events(model.events)
    say()
    facts: dict[str, object] = {
        "Charged": f"{summary.dataset}, entry {charge.number} of the ledger {book.path}",
        "Account": summary.sentence,
        "Guarantee": model.guarantee,
    }
    if scores is not None:
        low, high = scores.balanced_interval
        facts["Tested"] = (
            f"balanced accuracy {scores.balanced_accuracy:.3f} ({low:.3f} to {high:.3f}) "
            f"on {scores.size} rows. {scores.statement}"
        )
    facts["Written"] = f"{out}: {', '.join(_files(out))}"
    facts["Next"] = f"dptransfer card {out}"
    if scores is None:
        facts["Next"] = f"dptransfer card {out}; with test rows: dptransfer evaluate {out} TEST --add-to-card"
    show_facts(facts)
    for note in model.provenance.notes:
        say(f"Note: {note}")
    if rows.name is None:
        say("Hint: with --name NAME every version of this data set shares one account in the ledger.")
    if model.provenance.seeded:
        say("NOT PRIVATE, DO NOT PUBLISH: the noise came from a seed.", style="bold red")


def _account(model: PrivateClassifier, rows: PrivateEmbeddings, book: Ledger) -> tuple[Entry, DatasetSummary]:
    """The charge this model was paid with, and what it left of the account."""
    charge = next(entry for entry in book.history(rows) if entry.hash == model.provenance.ledger_head)
    return charge, next(one for one in book.datasets() if one.dataset.id == charge.dataset.id)


def _files(out: Path) -> list[str]:
    return sorted(entry.name for entry in out.iterdir())
