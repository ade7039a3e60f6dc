"""`dptransfer evaluate`: how well does a release do on labelled rows?"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.inputs import note_open_folder
from dptransfer.cli.ledger_commands import open_ledger, summary_json
from dptransfer.cli.option_groups import expand_groups
from dptransfer.cli.options import ABOUT_DATA, ABOUT_TEST, declared_from, settings_of
from dptransfer.cli.privacy_view import privacy_json, show_events
from dptransfer.cli.screen import say, show_facts, show_json, show_table
from dptransfer.cli.spending import require_writable, told_if_interrupted
from dptransfer.errors import ArgumentError, ReleaseError

if TYPE_CHECKING:
    from dptransfer.data import PrivateEmbeddings
    from dptransfer.ledger import Ledger
    from dptransfer.privacy import Budget
    from dptransfer.release import Evaluation, PrivateClassifier
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
    from dptransfer.release.bundle import amend_release, require_room_for_results

    require_room_for_results(model)
    require_writable(path, overwrite=True)
    with told_if_interrupted(book):
        found = PrivateEvaluation(model).evaluate(rows, budget=budget, ledger=book, new_data_set=new_data_set)
    problem = None
    try:
        amend_release(path, charged=found)
    except ReleaseError as caught:
        problem = caught
    charge, account = book.charge_of(found.ledger_head)
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
    from dptransfer.release.charged_evaluation import Z

    size, give = max(0.0, found.size.count), Z * math.sqrt(found.size.variance)
    show_facts(
        {
            "Balanced accuracy": found.balanced_accuracy.words,
            "Accuracy": found.accuracy.words,
            "Calibration error": found.calibration_error.words,
            "Measured on": f"{found.whose}; about {size:.0f}, give or take {give:.0f}",
        }
    )
    say()
    both = zip(found.classes, found.recall, found.precision, strict=True)
    told = [(name, recall.words, precision.words) for name, recall, precision in both]
    show_table(("Class", "Recall", "Precision"), told)
    say("Intervals are 95%, for sampling and noise together.")
    say()


_MOST_CONFUSIONS = 10
_WIDEST = 12
_BAR = 24
_private = partial(typer.Option, rich_help_panel="Tests that protect their rows")


@expand_groups
def evaluate(
    model: options.Release,
    test: Annotated[Path, typer.Argument(help="Labelled rows (.emb, .npz, ...), images or texts.")],
    columns: options.ColumnOptions,
    budget: options.BudgetOptions,
    split: Annotated[str | None, options.data_option(help="Part of a file that has several.")] = None,
    labels: Annotated[Path | None, options.data_option(help="An .npy of labels, for rows without.")] = None,
    device: Annotated[str, typer.Option(help="Where rows are scored and the rest encoded.")] = "cpu",
    encoder: options.EncoderName = None,
    add_to_card: Annotated[
        bool, typer.Option("--add-to-card", help="Write the numbers on the card; test rows stay unprotected.")
    ] = False,
    as_json: options.AsJson = False,
    private: Annotated[
        bool, _private("--private", help="Protect the test rows: noisy numbers, charged, on the card.")
    ] = False,
    person: options.Person = None,
    name: options.DataSetName = None,
    ledger: options.LedgerFile = None,
    settings: Annotated[
        list[str] | None,
        _private("--set", metavar="data.FIELD=VALUE", help="About the rows, as for dptransfer fit."),
    ] = None,
) -> None:
    """Test a release on labelled rows, which stay unprotected unless the test is --private.

    A private test charges the rows' account in the ledger once, and writes its numbers on the card with
    intervals for sampling and noise together; dptransfer verify recomputes what it cost.
    Its delta is that of the release unless given, or 1e-5 where that has none.
    Otherwise rows that your ledger has on record as private, such as those the release was fitted on, are
    refused, and so are other rows of the same pictures or texts. The card tells the sizes of the test set
    only with --set data.test_is_public=true.

    Example: dptransfer evaluate model/ test.emb --private --epsilon 0.2
    """
    from dptransfer.api.requests import evaluate as evaluate_release
    from dptransfer.api.source import EncodedBeside, Reading, Source
    from dptransfer.encoders.model_inputs import encoder_behind
    from dptransfer.exact.cuda import DEVICES
    from dptransfer.ledger import Ledger
    from dptransfer.release import amend_release, read_release

    released = read_release(model)
    source = Source(test, labels, columns=columns.columns(split=split))
    if private:
        # Gaussian noise needs a delta; what was fit to publish will do.
        allowed = budget.budget(released.guarantee.delta or options.DELTA)
        if add_to_card or (device != "cpu" and source.is_encoded):
            odd = "--add-to-card" if add_to_card else "--device"
            raise ArgumentError(
                f"{odd} is for unprotected rows; a private test is counted on the CPU and always goes on the "
                "card. Leave it out."
            )
        of_method, about = settings_of(settings, ABOUT_DATA)
        if of_method:
            raise ArgumentError("--set takes data.FIELD=VALUE here; got another field. See --help.")
        book = open_ledger(ledger, strict_names=about.get("strict_names", False))
        reading = Reading()
        if source.is_encoded:
            note_open_folder(test)
        else:
            reading = Reading(encoder_behind(released, encoder, device))
        source = replace(
            source,
            y=about.get("labels") if labels is None else labels,
            people=person,
            name=name,
            columns=replace(source.columns, split=about.get("split") if split is None else split),
            reading=reading,
            declared=declared_from(about),
        )
        with EncodedBeside(model) as beside:
            own = source.private(beside, of=released.row_facts)
            new_data_set = about.get("new_data_set", False)
            return charged_test(
                model, released, own, allowed, book, new_data_set=new_data_set, as_json=as_json
            )
    of_method, about = settings_of(settings, {"new_data_set": bool, **ABOUT_TEST})
    if of_method or budget.given or any(given is not None for given in (person, name)):
        raise ArgumentError(
            "A budget, --person, --name and --set are for tests that protect their rows; this one does not. "
            "Add --private."
        )
    source.require_there()
    seen_by = None if source.is_encoded else encoder_behind(released, encoder, device)
    rows, truth, whose = source.test(released.row_facts, seen_by)
    where = device if device in DEVICES else "cpu"  # scores know these two; an encoder may run on others
    known = open_ledger(ledger, must_exist=True) if ledger is not None else Ledger.default_if_there()
    found = evaluate_release(
        released,
        rows,
        truth,
        name=whose,
        device=where,
        public=about.get("test_is_public", False),
        ledger=known,
        new_data_set=about.get("new_data_set", False),
    )
    if add_to_card:
        amend_release(model, evaluation=found)
    if as_json:
        show_json({**found.to_dict(), "statement": found.statement, "added_to_card": add_to_card})
        return
    _show(found)
    if add_to_card:
        say(f"The card in '{model}' has these numbers now, and release.json the new checksums.")


def _show(found: Evaluation) -> None:
    facts: dict[str, object] = {
        "Balanced accuracy": with_interval(found.balanced_accuracy, found.balanced_interval),
        "Accuracy": with_interval(found.accuracy, found.accuracy_interval),
    }
    if found.minority_accuracy is not None and found.minority_interval is not None:
        share = with_interval(found.minority_accuracy, found.minority_interval)
        smallest = ", ".join(str(name) for name in found.minority_classes[:8])
        facts["Smallest quarter"] = f"{share}, by {found.minority_source}: {smallest}"
    facts |= {"Macro F1": f"{found.macro_f1:.3f}", "Measured on": found.words}
    show_facts(facts)
    say()
    rows = [
        (name, support, "-" if recall is None else f"{recall:.3f}", "█" * round(_BAR * (recall or 0.0)))
        for name, support, recall in zip(found.classes, found.support, found.recall, strict=True)
    ]
    show_table(("Class", "Rows", "Recall", ""), rows, numbers=(1, 2))
    say()
    _show_confusion(found)
    say(f"{found.statement} With --private they are.", style="yellow")


def _show_confusion(found: Evaluation) -> None:
    """The whole matrix where it fits; the most frequent mistakes otherwise."""
    confusion = found.confusion or ()  # of a fresh evaluation it is always there
    if len(found.classes) <= _WIDEST:
        rows = [(name, *counts) for name, counts in zip(found.classes, confusion, strict=True)]
        header = ("True \\ predicted", *(str(name) for name in found.classes))
        show_table(header, rows, numbers=range(1, len(header)))
        return
    mistakes = [
        (count, found.classes[true], found.classes[guess])
        for true, counts in enumerate(confusion)
        for guess, count in enumerate(counts)
        if count and guess != true
    ]
    worst = sorted(mistakes, key=lambda mistake: -mistake[0])[:_MOST_CONFUSIONS]
    show_table(("Rows", "True", "Predicted"), worst, numbers=(0,))


def with_interval(value: float, interval: tuple[float, float]) -> str:
    """A share with the ends of its interval."""
    return f"{value:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"
