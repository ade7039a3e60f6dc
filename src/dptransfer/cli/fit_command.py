"""`dptransfer fit`: private rows to a release, and what is said about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dptransfer.base.progress import reported_to
from dptransfer.cli import options
from dptransfer.cli.evaluate import with_interval
from dptransfer.cli.inputs import note_open_folder
from dptransfer.cli.ledger_commands import open_ledger, summary_json
from dptransfer.cli.methods import method_from
from dptransfer.cli.option_groups import expand_groups
from dptransfer.cli.options import (
    ABOUT_DATA,
    ABOUT_TEST,
    class_list,
    declared_from,
    note_if_idle,
    settings_of,
)
from dptransfer.cli.privacy_view import privacy_json, show_events
from dptransfer.cli.screen import progress_bar, say, show_facts, show_json
from dptransfer.cli.spending import (
    claimed_release,
    require_writable,
    room_for,
    save_or_rescue,
    told_if_interrupted,
)
from dptransfer.errors import DPTransferError, UnsafeRelease

if TYPE_CHECKING:
    from dptransfer.api.fit import OpenFit
    from dptransfer.data import PrivateData
    from dptransfer.ledger import Ledger
    from dptransfer.release import Evaluation, PrivateClassifier


@expand_groups
def fit(
    private: Annotated[
        Path,
        typer.Argument(help="Private examples: rows, images or texts, as a file, folder or archive."),
    ],
    columns: options.ColumnOptions,
    budget: options.BudgetOptions,
    method: options.MethodOptions,
    reading: options.ReadingOptions,
    workers: options.WorkerOptions,
    out: Annotated[Path, typer.Option("--out", "-o", help="The release directory to write.")] = Path("model"),
    public: options.PublicPool = None,
    shots: options.LabelledShots = None,
    test: Annotated[
        Path | None, options.data_option(help="Labelled test examples for the card; not protected.")
    ] = None,
    holdout: options.Holdout = None,
    classes: options.Classes = None,
    person: options.Person = None,
    name: options.DataSetName = None,
    ledger: options.LedgerFile = None,
    title: options.Title = None,
    contact: options.Contact = None,
    workspace: Annotated[Path | None, typer.Option(help="A folder from which a killed fit goes on.")] = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
    seed: Annotated[int | None, typer.Option(help="Repeatable noise, for tests only.")] = None,
    unsafe: options.Unsafe = False,
) -> None:
    """Charge the ledger, fit a classifier, write a release.

    Images and texts are encoded first, by default with efficientnet-lite0 and minilm; killed, the same
    command goes on where it stopped.
    Two fits are two charges, but for one that goes on in its --workspace. What can fail is checked first.

    Fields of --set data.FIELD=VALUE: size, class_counts and rows_per_person (declared public);
    person_bound (how many examples a person counts as); split and labels (of the file);
    vocabulary (labels of the public rows' encoder: a file of Vocabulary.save, or an encoder's name);
    new_data_set and strict_names (for the ledger); test_is_public (the card shows the sizes of the test).

    A method on images takes folders of them; --encoder then names the network that it works with.

    Example: dptransfer fit photos/ --public pool/ --epsilon 1 --delta 1e-5 --out model/
    """
    # Everything that can fail on public grounds fails here, before the ledger is charged.
    allowed = budget.budget()
    if seed is not None and not unsafe:
        raise UnsafeRelease(
            "A release must have noise that nobody can repeat; --seed makes it repeatable. "
            "Leave --seed out, or pass --unsafe-for-publication too, for tests."
        )

    from dptransfer.api.fit import Fit
    from dptransfer.api.source import Source
    from dptransfer.data import PublicEmbeddings
    from dptransfer.noise import SecureNoise, SeededNoise

    of_method, about = settings_of(method.settings, {**ABOUT_DATA, "vocabulary": str, **ABOUT_TEST})
    how = reading.reading(method.device)
    source = Source(
        private,
        about.get("labels"),
        None if classes is None else class_list(classes),
        person,
        name,
        columns.columns(split=about.get("split")),
        how,
        declared_from(about),
    )
    others = columns.columns()
    hands = workers.start()
    request = Fit(
        source,
        allowed,
        method_from(
            method.method,
            of_method,
            method.tune,
            device=method.device,
            encoder=reading.encoder,
            image_size=reading.image_size,
            grey_range=how.grey_range,
        ),
        None if public is None else Source(public, columns=others),
        shots=None if shots is None else Source(shots, columns=others),
        test=None if test is None else Source(test, columns=others),
        vocabulary=about.get("vocabulary"),
        holdout=holdout,
        workers=hands,
        new_data_set=about.get("new_data_set", False),
        workspace=workspace,
    )
    book = open_ledger(ledger, strict_names=about.get("strict_names", False))

    def ready_to_write() -> None:
        require_writable(out, overwrite=overwrite)

    with request.open(book, out=out, before_encoding=ready_to_write) as ready:
        note_open_folder(private)
        note_if_idle(hands, public_rows=isinstance(ready.public, PublicEmbeddings))
        room = room_for(ready.private.facts, ready.method, ready.network)
        name_held = claimed_release(out, overwrite=overwrite, room=room, workspace=workspace)
        with name_held, told_if_interrupted(book, workspace):
            with progress_bar(f"Fitting '{ready.method.name}'") as step, reported_to(step):
                model = ready.run(SecureNoise() if seed is None else SeededNoise(seed))
            scores = _evaluate(ready, model, public=about.get("test_is_public", False))
            ready.remove_rows()
            written = save_or_rescue(
                model,
                out,
                evaluation=scores,
                title=title,
                contact=contact,
                overwrite=overwrite,
                unsafe_for_publication=unsafe,
            )
        _show(model, ready.private, book, written, scores, as_json=as_json)
    if workspace is not None and not as_json:
        say(f"Hint: workspace '{workspace}' is as private as the rows; delete it when the release is safe.")


def _evaluate(ready: OpenFit, model: PrivateClassifier, *, public: bool) -> Evaluation | None:
    """What the test says; the model is paid for, and is not lost where its test fails."""
    if ready.evaluate is None:
        return None
    try:
        return replace(ready.evaluate(model), public=public)
    except DPTransferError as problem:
        say(f"Note: the test failed, so that the card has no numbers of it. {problem}", err=True)
        return None


def _show(
    model: PrivateClassifier,
    rows: PrivateData,
    book: Ledger,
    out: Path,
    scores: Evaluation | None,
    *,
    as_json: bool,
) -> None:
    """What was charged to which ledger, the promise and the files."""
    from dptransfer.base.document import name_list
    from dptransfer.release.charged_evaluation import TOO_NOISY

    made = model.provenance
    files = sorted(entry.name for entry in out.iterdir())
    charge, account = book.charge_of(made.ledger_head)
    if as_json:
        return show_json(
            {
                **privacy_json(made.method, model.guarantee, model.events),
                "configuration": dict(made.configuration),
                "notes": list(made.notes),
                "seeded": made.seeded,
                "calibration": None if model.calibration is None else model.calibration.to_dict(),
                "ledger": {"path": str(book.path), "entry": charge.number, "head": charge.hash},
                "account": summary_json(account),
                "out": str(out),
                "files": files,
                "evaluation": None if scores is None else scores.to_dict(),
                "charged_evaluation": None if model.charged is None else model.charged.figures(),
            }
        )
    show_events(model.events)
    say()
    facts: dict[str, object] = {
        "Charged": f"{account.dataset}, entry {charge.number} of the ledger {book.path}",
        "Account": account.sentence,
        "Guarantee": model.guarantee,
        "Classes": f"{name_list(model.classes)}. Their names are public, and in the release",
    }
    next_step = f"dptransfer card {out}"
    if model.charged is not None:
        figures = {"accuracy": model.charged.accuracy, "balanced accuracy": model.charged.balanced_accuracy}
        told = [f"{name} {found.words}" for name, found in figures.items() if found.is_narrow]
        facts["Hold-out"] = ", ".join(told) or f"{TOO_NOISY}: no accuracy can be reported"
    if model.calibration is not None:
        facts["Probabilities"] = f"{model.calibration.words}."
    if scores is None:
        next_step += (
            ""
            if model.charged
            else f"; with test rows: dptransfer evaluate {out} TEST --private -e 0.2 -d 1e-5"
        )
    else:
        tested = with_interval(scores.balanced_accuracy, scores.balanced_interval)
        facts["Tested"] = f"balanced accuracy {tested} on {scores.words}. {scores.statement}"
    show_facts({**facts, "Written": f"{out}: {', '.join(files)}", "Next": next_step})
    for note in made.notes:
        say(f"Note: {note}")
    if rows.name is None:
        say("Hint: with --name NAME every version of this data set shares one account in the ledger.")
    if made.seeded:
        say("NOT PRIVATE, DO NOT PUBLISH: the noise came from a seed.", style="bold red")
