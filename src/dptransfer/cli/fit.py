"""`dptransfer fit`: private rows to a release, and what is said about it."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptransfer.base.progress import reported_to
from dptransfer.cli import options
from dptransfer.cli.evaluate import with_interval
from dptransfer.cli.given import Given, Test, given_pictures, given_rows
from dptransfer.cli.inputs import require_other_than
from dptransfer.cli.ledger import open_ledger, summary_json
from dptransfer.cli.methods import method_from
from dptransfer.cli.options import (
    ABOUT_DATA,
    ABOUT_TEST,
    class_list,
    grey_ends,
    note_if_idle,
    settings_of,
    workers_from,
)
from dptransfer.cli.pictures import pixels_where_they_pay
from dptransfer.cli.privacy_view import privacy_json, show_events
from dptransfer.cli.screen import progress_bar, say, show_facts, show_json
from dptransfer.cli.spending import claimed_release, require_writable, save_or_rescue, told_if_interrupted
from dptransfer.errors import DPTransferError, UnsafeRelease
from dptransfer.privacy import Relation

if TYPE_CHECKING:
    from dptransfer.data import PrivateData
    from dptransfer.ledger import Ledger
    from dptransfer.release import Evaluation, PrivateClassifier


def fit(
    private: Annotated[
        Path,
        typer.Argument(help="Private examples: rows, images or texts, as a file, folder or archive."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The release directory to write.")] = Path("model"),
    public: options.PublicPool = None,
    shots: options.LabelledShots = None,
    test: Annotated[
        Path | None, options.data_option(help="Labelled test examples for the card; not protected.")
    ] = None,
    holdout: options.Holdout = None,
    classes: options.Classes = None,
    label_column: options.LabelColumn = None,
    text_column: options.TextColumn = None,
    path_column: options.PathColumn = None,
    feature_columns: options.FeatureColumns = None,
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
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    other_budget: options.OtherBudget = None,
    relation: options.Neighbours = Relation.ADD_REMOVE,
    method: options.MethodName = "auto",
    settings: options.Settings = None,
    tune: options.Tune = None,
    device: options.MethodDevice = None,
    encoder: options.EncoderName = None,
    image_size: options.ImageSize = None,
    grey_range: options.GreyRange = None,
    engine: options.EngineName = None,
    workers: options.WorkerCount = None,
    address: options.ClusterAddress = None,
) -> None:
    """Charge the ledger, fit a classifier, write a release.

    Images and texts are encoded first, by default with efficientnet-lite0 and minilm; killed, the same
    command goes on where it stopped.
    Two fits are two charges, but for one that goes on in its --workspace. What can fail is checked first.

    Fields of --set data.FIELD=VALUE: size, class_counts and rows_per_person (declared public);
    person_bound (how many examples a person counts as); split and labels (of the file);
    vocabulary (words of the public rows' encoder: a file of Vocabulary.save, or an encoder's name);
    new_data_set and strict_names (for the ledger); test_is_public (the card tells the sizes of the test).

    A method on pictures takes folders of them; --encoder then names the network that it works with.

    Example: dptransfer fit photos/ --public pool/ --epsilon 1 --delta 1e-5 --out model/
    """
    # Everything that can fail on public grounds fails here, before the ledger is charged.
    budget = options.budget_from(epsilon, delta, other_budget, relation)
    if seed is not None and not unsafe:
        raise UnsafeRelease(
            "A release must have noise that nobody can repeat; --seed makes it repeatable. "
            "Leave --seed out, or pass --unsafe-for-publication too, for tests."
        )

    from dptransfer.data import PublicEmbeddings
    from dptransfer.methods import ImageMethod
    from dptransfer.methods.calibrate import calibrated_on_public
    from dptransfer.methods.charging import require_room
    from dptransfer.noise import SecureNoise, SeededNoise

    require_other_than(private, public, "--public", "Its rows would be taken for public and published.")
    require_other_than(private, shots, "--shots", "Its rows would be taken for public and published.")
    require_other_than(private, test, "--test", "The card would tell how private rows were classified.")
    of_method, about = settings_of(settings, {**ABOUT_DATA, "vocabulary": str, **ABOUT_TEST})
    test_is_public = about.pop("test_is_public", False)
    strict_names, new_data_set = about.pop("strict_names", False), about.pop("new_data_set", False)
    greys = grey_ends(grey_range)
    hands = workers_from(engine, workers, address)
    how: dict[str, Any] = {"encoder": encoder, "image_size": image_size, "grey_range": greys}
    chosen = method_from(method, of_method, tune, device=device, **how)
    about |= {"classes": None if classes is None else class_list(classes), "person": person, "name": name}
    book = open_ledger(ledger, strict_names=strict_names)  # like the above, before minutes of encoding
    about |= {"text_column": text_column, "path_column": path_column}
    about |= {"features": feature_columns, "label_column": label_column}

    def ready(digests: Any) -> None:
        require_writable(out, overwrite=overwrite)
        book.require_new_sources(digests, name, new_data_set=new_data_set)

    about["ready"] = ready
    paths = private, public, shots, test
    chosen = pixels_where_they_pay(chosen, *paths, about=about, budget=budget, device=device, **how)
    source: AbstractContextManager[Given]
    if isinstance(chosen, ImageMethod):
        source = given_pictures(chosen, *paths, **about)
    else:
        about |= {**how, "device": device, "out": out}
        if name is not None and workspace is None:  # which may have its charge already
            about["ask"] = partial(
                require_room, chosen, budget=budget, ledger=book, name=name, holdout=holdout
            )
        source = given_rows(chosen, *paths, **about)
    with source as given:
        pool = given.public
        note_if_idle(hands, public_rows=isinstance(pool, PublicEmbeddings))
        if isinstance(pool, PublicEmbeddings):
            pool = pool.with_workers(hands)
        name_held = claimed_release(out, overwrite=overwrite, room=given.room, workspace=workspace)
        if given.tested is not None:  # after the charge nothing may depend on private examples
            book.require_unrelated(given.tested, private=given.private, new_data_set=new_data_set)
        with name_held, told_if_interrupted(book, workspace):
            with progress_bar(f"Fitting '{chosen.name}'") as step, reported_to(step):
                model = chosen.fit(
                    given.private,
                    pool,
                    budget=budget,
                    ledger=book,
                    noise=SecureNoise() if seed is None else SeededNoise(seed),
                    new_data_set=new_data_set,
                    workspace=workspace,
                    holdout=holdout,
                )
                with suppress(KeyboardInterrupt):  # who has no time for it keeps the model, which is paid for
                    model = calibrated_on_public(model, pool, budget=budget)
            scores = None if given.test is None else _tested(given.test, model, public=test_is_public)
            given.forget()
            written = save_or_rescue(
                model,
                out,
                evaluation=scores,
                title=title,
                contact=contact,
                overwrite=overwrite,
                unsafe_for_publication=unsafe,
            )
        _show(model, given.private, book, written, scores, as_json=as_json)
    if workspace is not None and not as_json:
        say(f"Hint: workspace '{workspace}' is as private as the rows; delete it when the release is safe.")


def _tested(test: Test, model: PrivateClassifier, *, public: bool) -> Evaluation | None:
    """What the test says; the model is paid for, and is not lost where its test fails."""
    try:
        return replace(test(model), public=public)
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
    from dptransfer.release.charged_evaluation import TOO_NOISY, percent, tells_something

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
        told = [f"{name} {percent(found)}" for name, found in figures.items() if tells_something(found)]
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
