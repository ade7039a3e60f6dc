"""`dptransfer fit`: private rows to a release, and what is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptransfer.cli import options
from dptransfer.cli.declared import AboutData, class_list, settings_of
from dptransfer.cli.encoding import encoded_beside, is_table
from dptransfer.cli.inputs import (
    beside,
    labelled_rows,
    labelled_shots,
    note_open_folder,
    require_other_than,
    require_rows,
)
from dptransfer.cli.ledger import open_ledger, summary_json
from dptransfer.cli.method import method_from
from dptransfer.cli.privacy_view import privacy_json, show_events
from dptransfer.cli.screen import progress_bar, say, show_facts, show_json
from dptransfer.cli.spending import require_writable, room_for, save_or_rescue, told_if_interrupted
from dptransfer.errors import ArgumentError, UnsafeRelease
from dptransfer.privacy import Relation
from dptransfer.progress import reported_to

if TYPE_CHECKING:
    from dptransfer.data import PrivateEmbeddings
    from dptransfer.ledger import Ledger
    from dptransfer.release import Evaluation, PrivateClassifier


def fit(
    private: Annotated[
        Path, typer.Argument(help="Private rows (.emb, .npz, ...), or images with --encoder.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The release directory to write.")],
    public: options.PublicPool = None,
    shots: options.LabelledShots = None,
    test: Annotated[Path | None, typer.Option(help="Labelled test rows for the card; not protected.")] = None,
    classes: options.Classes = None,
    name: options.DataSetName = None,
    ledger: options.LedgerFile = None,
    title: options.Title = None,
    contact: options.Contact = None,
    workspace: Annotated[
        Path | None, typer.Option(help="A folder of your own, from which a killed fit goes on.")
    ] = None,
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
) -> None:
    """Charge the ledger, fit a classifier, write a release.

    Two fits are two charges, but for one that goes on in its --workspace. What can fail is checked first.

    Fields of --set data.FIELD=VALUE: size and class_counts (declared public);
    split and labels (of the file); new_data_set and strict_names (for the ledger).

    Example: dptransfer fit photos.emb --public pool.emb --epsilon 1 --delta 1e-5 --out model/
    """
    # Everything that can fail on public grounds fails here, before the ledger is charged.
    budget = options.budget_from(epsilon, delta, other_budget, relation)
    if seed is not None and not unsafe:
        raise UnsafeRelease(
            "A release must have noise that nobody can repeat; --seed makes it repeatable. "
            "Leave --seed out, or pass --unsafe-for-publication too, for tests."
        )

    from dptransfer.data import read_private, read_public
    from dptransfer.noise import SecureNoise, SeededNoise
    from dptransfer.release import evaluate

    require_writable(out, overwrite=overwrite)
    require_other_than(private, public, "--public", "Its rows would be taken for public and published.")
    require_other_than(private, shots, "--shots", "Its rows would be taken for public and published.")
    require_other_than(private, test, "--test", "The card would tell how private rows were classified.")
    of_method, about = settings_of(settings, AboutData)
    chosen = method_from(method, of_method, tune, device=device, encodes=encoder is not None)
    pool_rows = None if public is None else read_public(public)
    declared = None if classes is None else class_list(classes)
    if shots is not None:
        beside(pool_rows, labelled_shots(shots, declared))
    book = open_ledger(ledger, strict_names=about.strict_names)  # like the above, before minutes of encoding
    with _table(private, encoder, image_size, device, declared, out) as table:
        rows = read_private(
            table,
            classes=declared,
            name=name,
            size=about.size,
            class_counts=about.class_counts,
            labels=about.labels,
            split=about.split,
        )
        shown = None if shots is None else labelled_shots(shots, rows.facts.classes)
        tested = None if test is None else labelled_rows(test, rows.facts)
        require_writable(out, overwrite=overwrite, room=room_for(rows.facts, chosen))
        with told_if_interrupted(book, workspace):
            with progress_bar(f"Fitting '{chosen.name}'") as step, reported_to(step):
                model = chosen.fit(
                    rows,
                    beside(pool_rows, shown),
                    budget=budget,
                    ledger=book,
                    noise=SecureNoise() if seed is None else SeededNoise(seed),
                    new_data_set=about.new_data_set,
                    workspace=workspace,
                )
            scores = None
            if tested is not None:
                known_as = tested[0].name or Path(str(test)).name
                scores = evaluate(model, tested[0].rows, tested[1], name=known_as)
            written = save_or_rescue(
                model,
                out,
                evaluation=scores,
                title=title,
                contact=contact,
                overwrite=overwrite,
                unsafe_for_publication=unsafe,
            )
        (_show_json if as_json else _show)(model, rows, book, written, scores)
    if workspace is not None and not as_json:
        say(f"Hint: workspace '{workspace}' is as private as the rows; delete it when the release is safe.")


def _table(
    private: Path,
    encoder: str | None,
    image_size: int | None,
    device: str | None,
    classes: Sequence[str | int] | None,
    out: Path,
) -> AbstractContextManager[Path]:
    """Where the rows are: at `private`, or, of images and texts, beside them while the release is made."""
    from dptransfer.encoders import get_encoder

    if encoder is None:
        require_rows(private)
        note_open_folder(private)
        return nullcontext(private)
    if is_table(private):
        raise ArgumentError(
            f"--encoder is for images and texts; '{private}' holds rows already. Leave it out."
        )
    loaded = get_encoder(encoder, size=image_size, device=device or "cpu")
    return encoded_beside(private, loaded, classes, out)


def _show_json(
    model: PrivateClassifier, rows: PrivateEmbeddings, book: Ledger, out: Path, scores: Evaluation | None
) -> None:
    """What was charged to which ledger, the promise and the files, as one JSON object."""
    charge, summary = _account(model, rows, book)
    show_json(
        {
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
    )


def _show(
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
    next_step = f"dptransfer card {out}"
    if scores is None:
        next_step += f"; with test rows: dptransfer evaluate {out} TEST --add-to-card"
    else:
        low, high = scores.balanced_interval
        facts["Tested"] = (
            f"balanced accuracy {scores.balanced_accuracy:.3f} ({low:.3f} to {high:.3f}) "
            f"on {scores.size} rows. {scores.statement}"
        )
    show_facts({**facts, "Written": f"{out}: {', '.join(_files(out))}", "Next": next_step})
    for note in model.provenance.notes:
        say(f"Note: {note}")
    if rows.name is None:
        say("Hint: with --name NAME every version of this data set shares one account in the ledger.")
    if model.provenance.seeded:
        say("NOT PRIVATE, DO NOT PUBLISH: the noise came from a seed.", style="bold red")


def _account(model: PrivateClassifier, rows: PrivateEmbeddings, book: Ledger) -> Any:
    """The charge this model was paid with, and what it left of the account."""
    charge = next(entry for entry in book.history(rows) if entry.hash == model.provenance.ledger_head)
    return charge, next(one for one in book.datasets() if one.dataset.id == charge.dataset.id)


def _files(out: Path) -> list[str]:
    return sorted(entry.name for entry in out.iterdir())
