"""`dptransfer fit`: private rows to a release, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import dptransfer as dpt
from dptransfer.cli import charges, lib, options
from dptransfer.cli.methods_command import method_from
from dptransfer.cli.screen import say, show_progress
from dptransfer.errors import DPTransferError

_OF_REQUEST = ("vocabulary", "new_data_set", "witnesses")  # of what `--set data.FIELD` says


@dataclass(frozen=True)
class ReleaseOptions:
    """Where the release goes, what its card says, and which account is charged."""

    noise: options.NoiseOptions
    out: Annotated[Path, Option("--out", "-o", help="The release directory to write.")] = Path("model")
    test: Annotated[Path | None, options.data(help="Labelled examples for the card; not protected.")] = None
    name: options.DataSetName = None
    ledger: options.LedgerFile = None
    title: options.Title = None
    contact: options.Contact = None
    workspace: Annotated[Path | None, Option(help="Folder of checkpoints: a killed fit resumes.")] = None
    overwrite: options.Overwrite = False
    as_json: options.AsJson = False


def fit(
    private: Annotated[Path, Argument(help="Private rows, images or texts: a file, folder or archive.")],
    examples: options.PrivateExamples,
    budget: options.BudgetOptions,
    method: options.MethodOptions,
    pool: options.PublicOptions,
    release: ReleaseOptions,
) -> None:
    """Charge the ledger, fit a classifier, write a release.

    Images and texts are encoded first, by default with efficientnet-lite0 and minilm.
    If the command is killed, run it again to resume the encoding. Every fit is a charge of its own, unless it
    resumes from its --workspace. Inputs and options are checked before the charge.

    Fields of --set data.FIELD=VALUE: size, class_counts and rows_per_person (declared public);
    person_bound (how many examples a person counts as); split and labels (of the file);
    vocabulary (labels of the public rows' encoder: a file of Vocabulary.save, or an encoder's name);
    new_data_set and strict_names (for the ledger); test_is_public (the card shows the sizes of the test);
    witnesses=false (no noise is drawn beside the answers to check it by).

    Methods on images take folders of images; --encoder then names the network to train.

    Example: dptransfer fit photos/ --public pool/ --epsilon 1 --delta 1e-5 --out model/
    """
    # Everything that can fail on public grounds fails here, before the ledger is charged.
    noise = release.noise.noise()
    request = request_of(private, examples, budget, method, pool, release)
    _, about = options.settings_of(method.settings, options.ABOUT_FIT)
    out, workspace = release.out, release.workspace
    book = charges.open_ledger(release.ledger, strict_names=about.get("strict_names", False))

    check_target = partial(charges.require_writable, out, overwrite=release.overwrite)
    with request.open(book, out=out, before_encoding=check_target) as ready:
        options.note_open_folder(private)
        options.note_if_idle(request.workers, public_rows=isinstance(ready.public, dpt.PublicEmbeddings))
        room = charges.room_for(ready.private.facts, ready.method, ready.network)
        name_held = charges.claim_release(out, overwrite=release.overwrite, room=room, workspace=workspace)
        with name_held, charges.explain_interruption(book, workspace):
            with show_progress(f"Fitting '{ready.method.name}'", count_is_private=False):
                model = ready.run(noise)
            scores = _evaluate(ready, model, public=about.get("test_is_public", False))
            ready.remove_rows()
            words = {name: getattr(release, name) for name in ("title", "contact", "overwrite")}
            unsafe = release.noise.unsafe
            save = partial(model.save, evaluation=scores, unsafe_for_publication=unsafe, **words)
            charges.write_or_rescue(save, out, "model")
        _show(model, book, release, scores)
    if release.as_json:
        return
    if ready.private.name is None:
        say("Hint: pass --name NAME so that all versions of this data set share one account in the ledger.")
    if workspace is not None:
        say(f"Hint: workspace '{workspace}' is as private as the rows; delete it when the release is safe.")


def request_of(
    private: Path,
    examples: options.PrivateExamples,
    budget: options.BudgetOptions,
    method: options.MethodOptions,
    pool: options.PublicOptions,
    release: ReleaseOptions,
) -> dpt.Fit:
    """The request that the command's options make."""
    of_method, about = options.settings_of(method.settings, options.ABOUT_FIT)
    source = examples.source(private, about, method.device, name=release.name)
    others, given = examples.columns.columns(), (pool.public, pool.shots, release.test)
    public, shots, test = (None if path is None else dpt.Source(path, columns=others) for path in given)
    allowed, chosen = budget.budget(), method_from(method.method, of_method, method.tune, source.reading)
    how: dict[str, Any] = {name: value for name, value in about.items() if name in _OF_REQUEST}
    how |= {"holdout": pool.holdout, "workers": pool.workers.start(), "workspace": release.workspace}
    return dpt.Fit(source, allowed, chosen, public, shots=shots, test=test, **how)


def _evaluate(ready: lib.OpenFit, model: dpt.PrivateClassifier, *, public: bool) -> lib.Evaluation | None:
    """What the test says; the model is paid for, and is not lost where its test fails."""
    if ready.evaluate is None:
        return None
    try:
        return replace(ready.evaluate(model), public=public)
    except DPTransferError as problem:
        say(f"Note: the test failed, so the card has no test results. {problem}", err=True)
        return None


def _show(
    model: dpt.PrivateClassifier, book: dpt.Ledger, release: ReleaseOptions, scores: lib.Evaluation | None
) -> None:
    """What was charged to which ledger, the promise and the files."""
    made, charged, calibration, out = model.provenance, model.charged, model.calibration, release.out
    files = sorted(entry.name for entry in out.iterdir())
    told: lib.JsonObject = {name: getattr(made, name) for name in ("configuration", "notes", "seeded")}
    told |= {"calibration": calibration, "evaluation": scores, "out": out, "files": files}
    told["charged_evaluation"] = None if charged is None else charged.figures()
    names = f"{lib.name_list(model.classes)}. The release publishes these names"
    facts: dict[str, object] = {"Guarantee": model.guarantee, "Classes": names}
    next_step = f"dptransfer card {out}"
    if charged is not None:
        figures = {"accuracy": charged.accuracy, "balanced accuracy": charged.balanced_accuracy}
        narrow = [f"{name} {found.words}" for name, found in figures.items() if found.is_narrow]
        facts["Hold-out"] = ", ".join(narrow) or f"{lib.TOO_NOISY}: no accuracy can be reported"
    if calibration is not None:
        facts["Probabilities"] = f"{calibration.words}."
    if scores is not None:
        tested = scores.estimates["balanced accuracy"].percent
        facts["Tested"] = f"balanced accuracy {tested} on {scores.words}. {scores.statement}"
    elif charged is None:
        next_step += f"; with test rows: dptransfer evaluate {out} TEST --private -e 0.2 -d 1e-5"
    facts |= {"Written": f"{out}: {', '.join(files)}", "Next": next_step}
    promise = made.method, model.guarantee, model.events
    charges.show_charge(book, made.ledger_head, promise, told, facts, as_json=release.as_json)
    for note in () if release.as_json else made.notes:
        say(f"Note: {note}")
