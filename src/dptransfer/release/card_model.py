"""The card's sections on the model: how it was made, how useful it is, and how to check it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dptransfer.privacy import plain_exponents
from dptransfer.release.card import (
    NOT_SHOWN,
    Block,
    Bullets,
    Command,
    Paragraph,
    RecallBars,
    Section,
    Table,
    clean,
    some,
)
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.evaluation import Evaluation

_MOST_BARS = 50


def model_sections(model: PrivateClassifier, evaluation: Evaluation | None) -> tuple[Section, ...]:
    """Method, data, utility, use, and the record."""
    return (_method(model), _provenance(model), _utility(evaluation), _use(model), _record(model))


def about_lines(model: PrivateClassifier, evaluation: Evaluation | None) -> tuple[tuple[str, str], ...]:
    """The head of the card; the name of the data set in the owner's ledger is not public and not here."""
    provenance = model.provenance
    tested = "not measured"
    if evaluation is not None:
        reached = _with_interval(evaluation.balanced_accuracy, evaluation.balanced_interval)
        tested = f"{reached} on {evaluation.size} test rows"
    return (
        ("Data", clean(provenance.title) or "not named by their owner"),
        ("Method", f"{clean(provenance.method)}, {len(model.classes)} classes"),
        ("Balanced accuracy", tested),
        ("Made", clean(provenance.created)[:10] or "not recorded"),
        ("With", f"dptransfer {clean(provenance.versions.get('dptransfer', 'of unknown version'))}"),
        ("Contact", clean(provenance.contact) or "none given"),
    )


def _method(model: PrivateClassifier) -> Section:
    provenance = model.provenance
    summary = clean(provenance.summary) or (
        f"The method named '{clean(provenance.method)}'. The accounting section lists every step that saw "
        "private rows."
    )
    blocks: list[Block] = [Paragraph(summary)]
    blocks += [Paragraph(f"Reference: {clean(provenance.reference)}")] if provenance.reference else []
    blocks += (
        [Table(("Setting", "Value"), _pairs(provenance.configuration))] if provenance.configuration else []
    )
    if provenance.notes:
        blocks += [
            Paragraph("Choices, made from public facts and released values:"),
            Bullets(tuple(clean(note) for note in provenance.notes)),
        ]
    return Section("Method", tuple(blocks))


def _provenance(model: PrivateClassifier) -> Section:
    provenance = model.provenance
    blocks: list[Block] = [
        Paragraph(
            "The private rows are embeddings from a frozen encoder trained on other data; its training "
            "data are not protected here."
            if model.facts.encoder
            else "No encoder is on record: the private rows were given as numbers."
        )
    ]
    if provenance.public is None:
        blocks.append(Paragraph("No public rows were used."))
    else:
        blocks += [
            Paragraph("Public rows were used. They are not protected:"),
            Table(("Public rows", "Value"), _pairs(provenance.public)),
        ]
    if provenance.prototypes is not None:
        blocks.append(Paragraph("The prototypes are public examples; release.json lists which."))
    return Section("Data and encoder", tuple(blocks))


def _utility(evaluation: Evaluation | None) -> Section:
    if evaluation is None:
        return Section(
            "Utility",
            (
                Paragraph(
                    "Not measured for this card. With labelled test rows that nobody needs to keep secret, "
                    "and never with the rows it was fitted on, this adds it:"
                ),
                Command("dptransfer evaluate DIR TEST --add-to-card"),
            ),
        )
    rows = [
        ("balanced accuracy", _with_interval(evaluation.balanced_accuracy, evaluation.balanced_interval)),
        ("accuracy", _with_interval(evaluation.accuracy, evaluation.accuracy_interval)),
    ]
    if evaluation.minority_accuracy is not None and evaluation.minority_interval is not None:
        label = f"smallest quarter of classes (by {evaluation.minority_source})"
        rows.append((label, _with_interval(evaluation.minority_accuracy, evaluation.minority_interval)))
    rows += [
        ("macro F1", f"{evaluation.macro_f1:.3f}"),
        ("worst class", clean(evaluation.worst_class)),
        ("expected calibration error", f"{evaluation.calibration_error:.3f}"),
    ]
    bars = tuple(
        (clean(name), recall, *interval)
        for name, recall, interval in zip(
            evaluation.classes, evaluation.recall, evaluation.recall_intervals, strict=True
        )
        if recall is not None and interval is not None
    )
    few = sorted(bars, key=lambda bar: bar[1])[:_MOST_BARS] if len(bars) > _MOST_BARS else bars
    whose = clean(evaluation.name) or "test rows that were not named"
    return Section(
        "Utility",
        (
            Paragraph(f"Measured on {evaluation.size} examples ({whose}), with 95% intervals."),
            Paragraph(evaluation.statement),
            Table(("Measure", "Value"), tuple(rows)),
            *([Paragraph(f"The {_MOST_BARS} classes of lowest recall:")] if few != bars else []),
            RecallBars(tuple(few)),
        ),
    )


def _use(model: PrivateClassifier) -> Section:
    return Section(
        "Intended use and limits",
        (
            Bullets(
                (
                    f"It sorts rows from the same encoder into the {len(model.classes)} declared classes, "
                    "and always answers with one of them.",
                    "Rare classes suffer most from noise; look at recall per class before use.",
                    "Its probabilities are a ranking, not calibrated chances.",
                    "Privacy says nothing about fairness, robustness or fitness for decisions about people.",
                )
            ),
        ),
    )


def _record(model: PrivateClassifier) -> Section:
    provenance = model.provenance
    rows = [("created", clean(provenance.created) or "not recorded")]
    rows.append(("ledger head", clean(provenance.ledger_head) if provenance.ledger_head else "no ledger"))
    rows += [
        (f"version of {clean(name)}", clean(value)) for name, value in sorted(provenance.versions.items())
    ]
    return Section(
        "Record, and how to check it",
        (
            Table(("Record", "Value"), tuple(rows)),
            Paragraph("This recomputes the guarantee, plans the steps again and checks every file:"),
            Command("dptransfer verify DIR"),
            Paragraph(NOT_SHOWN),
        ),
    )


def _pairs(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((clean(name), _short(value)) for name, value in values.items())


def _short(value: object) -> str:
    if isinstance(value, Mapping):
        return some([f"{clean(name)}: {_short(item)}" for name, item in value.items()])
    if isinstance(value, list | tuple):
        return some([_short(item) for item in value])
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return plain_exponents(repr(value)) if isinstance(value, float) else clean(value)


def _with_interval(value: float, interval: tuple[float, float]) -> str:
    return f"{value:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"
