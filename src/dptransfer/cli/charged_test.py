"""`dptransfer evaluate --private`: charge the test rows, ask once, write the card, and say what it cost."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from dptransfer.cli.ledger import summary_json, summary_of
from dptransfer.cli.privacy_view import privacy_json, show_events
from dptransfer.cli.screen import say, show_facts, show_json, show_table
from dptransfer.cli.spending import require_writable, told_if_interrupted
from dptransfer.errors import ReleaseError

if TYPE_CHECKING:
    from dptransfer.data import PrivateEmbeddings
    from dptransfer.ledger import Ledger
    from dptransfer.privacy import Budget
    from dptransfer.release import PrivateClassifier
    from dptransfer.release.charged_evaluation import ChargedEvaluation


def charged_test(
    path: Path,
    model: PrivateClassifier,
    rows: PrivateEmbeddings,
    budget: Budget,
    book: Ledger,
    *,
    new_data_set: bool,
    as_json: bool,
) -> None:
    """What can fail on public grounds fails before the charge; after it, numbers are shown in any case."""
    from dptransfer.methods.private_evaluation import PrivateEvaluation
    from dptransfer.release.amend import amend_release, require_room_for_results

    require_room_for_results(model)
    require_writable(path, overwrite=True)
    with told_if_interrupted(book):
        found = PrivateEvaluation(model).evaluate(rows, budget=budget, ledger=book, new_data_set=new_data_set)
    problem = None
    try:
        amend_release(path, charged=found)
    except ReleaseError as caught:
        problem = caught
    charge = next(entry for entry in book.history(rows) if entry.hash == found.ledger_head)
    account = summary_of(book, charge.dataset)
    if as_json:
        show_json(
            {
                **privacy_json("evaluation", found.guarantee, found.events),
                "test_data_protected": True,
                "statement": found.statement,
                **found.figures(),
                "ledger": {"path": str(book.path), "entry": charge.number, "head": charge.hash},
                "account": summary_json(account),
                "added_to_card": problem is None,
            }
        )
    else:
        show_events(found.events)
        say()
        _show_figures(found)
        written = f"{path}: its card and release.json" if problem is None else "nothing"
        show_facts(
            {
                "Charged": f"{account.dataset}, entry {charge.number} of the ledger {book.path}",
                "Account": account.sentence,
                "Written": written,
            }
        )
        say(found.statement)
    if problem is not None:
        raise ReleaseError(f"{problem} The charge stands: keep the numbers that were shown.")


def _show_figures(found: ChargedEvaluation) -> None:
    from dptransfer.release.charged_evaluation import percent
    from dptransfer.release.noisy_shares import Z

    size, give = max(0.0, found.size.count), Z * math.sqrt(found.size.variance)
    show_facts(
        {
            "Balanced accuracy": percent(found.balanced_accuracy),
            "Accuracy": percent(found.accuracy),
            "Calibration error": percent(found.calibration_error),
            "Measured on": f"{found.whose}; about {size:.0f}, give or take {give:.0f}",
        }
    )
    say()
    both = zip(found.classes, found.recall, found.precision, strict=True)
    told = [(name, percent(recall), percent(precision)) for name, recall, precision in both]
    show_table(("Class", "Recall", "Precision"), told)
    say("Intervals are 95%, for sampling and noise together.")
    say()
