"""`dptransfer fit`: private rows to a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dptransfer.cli import budgets, options
from dptransfer.cli.declared import class_list
from dptransfer.cli.fit_view import fit_json, show_fit
from dptransfer.cli.inputs import (
    Declaration,
    Encoding,
    beside,
    labelled_shots,
    private_rows,
    require_other_than,
)
from dptransfer.cli.interruption import told_if_interrupted
from dptransfer.cli.labelled import labelled_rows
from dptransfer.cli.ledger_view import open_ledger
from dptransfer.cli.screen import show_json
from dptransfer.cli.settings import method_from
from dptransfer.cli.step_bar import step_bar
from dptransfer.cli.target import require_writable, room_for, save_or_rescue
from dptransfer.cli.tuning import Tuning
from dptransfer.errors import UnsafeRelease
from dptransfer.privacy import Relation


def fit(
    private: Annotated[
        Path,
        typer.Argument(help="Private rows (.emb, .npz, ...), or images with --encoder.", show_default=False),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The release directory to write.", show_default=False)
    ],
    public: options.PublicPool = None,
    shots: options.LabelledShots = None,
    test: Annotated[
        Path | None,
        typer.Option("--test", help="Labelled test rows for the card; not protected.", show_default=False),
    ] = None,
    title: options.Title = None,
    contact: options.Contact = None,
    ledger: options.LedgerFile = None,
    name: options.DataSetName = None,
    new_data_set: options.NewDataSet = False,
    strict_names: options.StrictNames = False,
    split: options.Split = None,
    labels: options.LabelFile = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Repeatable noise, for tests only.")] = None,
    unsafe: options.Unsafe = False,
    epsilon: budgets.Epsilon = None,
    delta: budgets.Delta = None,
    rho: budgets.Rho = None,
    mu: budgets.Mu = None,
    relation: budgets.Neighbours = Relation.ADD_REMOVE,
    method: options.MethodName = "auto",
    axes: options.Axes = None,
    pool: options.Pool = None,
    k: options.Prototypes = None,
    mechanism: options.Mechanism = None,
    lowest: options.Lowest = None,
    highest: options.Highest = None,
    noise_multiplier: options.NoiseMultiplier = None,
    steps: options.Steps = None,
    clip: options.Clip = None,
    sampling_rate: options.SamplingRate = None,
    start: options.Start = None,
    assignments: options.Assignments = None,
    tune: options.Tune = None,
    tune_on_public: options.TuneOnPublic = False,
    mean_trials: options.MeanTrials = None,
    device: options.FitDevice = None,
    classes: options.Classes = None,
    size: options.DeclaredSize = None,
    class_counts: options.ClassCounts = None,
    encoder: options.EncoderName = None,
    image_size: options.ImageSize = None,
    batch: options.Batch = 32,
    allow_unreadable: options.AllowUnreadable = False,
) -> None:
    """Charge the ledger, fit a classifier, write a release.

    Two fits are two charges. What can fail is checked before anything is charged.

    Example: dptransfer fit photos.emb --public pool.emb --epsilon 1 --delta 1e-5 --out model/
    """
    # Everything that can fail on public grounds fails here, before the ledger is charged.
    budget = budgets.budget_from(epsilon, delta, rho, mu, relation)
    if seed is not None and not unsafe:
        raise UnsafeRelease(
            "A release must have noise that nobody can repeat; --seed makes it repeatable. "
            "Leave --seed out, or pass --unsafe-for-publication too, for tests."
        )

    from dptransfer.data import read_public
    from dptransfer.noise import SecureNoise, SeededNoise
    from dptransfer.release import evaluate

    require_writable(out, overwrite=overwrite)
    require_other_than(private, public, "--public", "Its rows would be taken for public and published.")
    require_other_than(private, shots, "--shots", "Its rows would be taken for public and published.")
    require_other_than(private, test, "--test", "The card would tell how private rows were classified.")
    shortcuts = {
        "axes": axes, "pool": pool, "k": k, "mechanism": mechanism, "lowest": lowest, "highest": highest,
        "noise_multiplier": noise_multiplier, "steps": steps, "clip": clip, "sampling_rate": sampling_rate,
        "start": start,
    }  # fmt: skip
    tuning = Tuning(tune or (), tune_on_public, mean_trials)
    chosen = method_from(
        method, shortcuts, assignments, tuning=tuning, device=device, encodes=encoder is not None
    )
    pool_rows = None if public is None else read_public(public)
    if shots is not None:
        beside(pool_rows, labelled_shots(shots, None if classes is None else class_list(classes)))
    book = open_ledger(ledger, strict_names=strict_names)  # like all of the above, before minutes of encoding
    told = Declaration(classes, name, size, class_counts, split, labels)
    rows = private_rows(
        private, told, Encoding(encoder, image_size, device or "cpu", batch, allow_unreadable)
    )
    shown = None if shots is None else labelled_shots(shots, rows.facts.classes)
    tested = None if test is None else labelled_rows(test, rows.facts)
    require_writable(out, overwrite=overwrite, room=room_for(rows.facts, chosen))

    noise = SecureNoise() if seed is None else SeededNoise(seed)
    with told_if_interrupted(book):
        with step_bar(f"Fitting '{chosen.name}'"):
            model = chosen.fit(
                rows,
                beside(pool_rows, shown),
                budget=budget,
                ledger=book,
                noise=noise,
                new_data_set=new_data_set,
            )
        scores = None
        if tested is not None:
            scores = evaluate(model, tested[0].rows, tested[1], name=tested[0].name or Path(str(test)).name)
        written = save_or_rescue(
            model,
            out,
            evaluation=scores,
            title=title,
            contact=contact,
            overwrite=overwrite,
            unsafe_for_publication=unsafe,
        )
    if as_json:
        show_json(fit_json(model, rows, book, written, scores))
    else:
        show_fit(model, rows, book, written, scores)
