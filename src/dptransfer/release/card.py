"""The privacy and model card: what is promised, to whom, on what grounds, and how useful the model is.

It is a function of the classifier and an optional evaluation alone, and a `Document`: a page, Markdown, text
for a terminal, or JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from dptransfer.base.document import (
    Block,
    Bullets,
    Code,
    Document,
    Highlight,
    Paragraph,
    Section,
    Table,
    Text,
    Words,
)
from dptransfer.privacy import Guarantee, Relation, number, typeset
from dptransfer.release.calibration import Calibration
from dptransfer.release.card_figures import recall_bars
from dptransfer.release.card_privacy import (
    MANY,
    ONE,
    factor,
    first_few,
    give_or_take,
    percent_up,
    privacy_sections,
    seen,
    up,
)
from dptransfer.release.charged_evaluation import ChargedEvaluation, percent, tells_something
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.evaluation import Evaluation
from dptransfer.release.noisy_counts import Estimate, Z
from dptransfer.release.words import word_blocks


def charged_figure(charged: ChargedEvaluation) -> tuple[str, Estimate] | None:
    """Balanced accuracy, or accuracy where that tells nothing; None where neither tells anything."""
    figures = {"balanced accuracy": charged.balanced_accuracy, "accuracy": charged.accuracy}
    return next(((name, found) for name, found in figures.items() if tells_something(found)), None)


def charged_highlight(charged: ChargedEvaluation, blind: str) -> Highlight:
    """That figure with its interval, or words where there is none."""
    figure = charged_figure(charged)
    if figure is None:
        said = f"too few protected test rows for this budget: no accuracy can be reported; {blind}"
        return Highlight("accuracy", "not reported", said)
    name, found = figure
    assert found.value is not None  # or it would tell nothing
    said = f"{found.low:.1%} to {found.high:.1%} on protected test rows; {blind}"
    return Highlight(name, f"{found.value:.1%}", said, name.replace(" ", "_"), found.value)


def charged_weakest(charged: ChargedEvaluation) -> str:
    """The class of lowest recall, of those whose interval tells something."""
    known = zip(charged.recall, charged.classes, strict=True)
    measured = [(own.value, name) for own, name in known if own.value is not None and tells_something(own)]
    if not measured:
        return "Too few test rows for this budget: no recall of a single class can be reported."
    value, name = min(measured, key=lambda one: one[0])
    few = len(charged.classes) - len(measured)
    rest = f" ({few} of {len(charged.classes)} classes have too few test rows to tell)" if few else ""
    return f"The worst class is {name}: the model finds about {value:.1%} of its examples{rest}."


def charged_blocks(charged: ChargedEvaluation) -> Iterator[Block]:
    """The section's text, table and bars."""
    size, give = charged.size.count, Z * math.sqrt(charged.size.variance)
    them = "of them" if charged.counts.bound.examples == 1 else "voices"
    yield Paragraph(
        f"Measured on {charged.whose}. There were about {max(0.0, size):.0f} {them}, give or take "
        f"{give:.0f}: the number has noise, too. Intervals are 95%, for sampling and noise together."
    )
    twice = " For people who are also in the training data, the two losses add up."
    yield Paragraph(typeset(charged.statement) + twice * (charged.holdout is None))
    rows = {
        "balanced accuracy": charged.balanced_accuracy,
        "accuracy": charged.accuracy,
        "expected calibration error": charged.calibration_error,
    }
    yield Table(("Measure, test rows protected", "Value"), tuple((k, percent(v)) for k, v in rows.items()))
    both = zip(charged.classes, charged.recall, charged.precision, strict=True)
    known = [(str(name), recall, precision) for name, recall, precision in both if tells_something(recall)]
    if len(known) < len(charged.classes):
        few = f"{len(known)} of the {len(charged.classes)} classes"
        yield Paragraph(f"Recall is reported for {few}; the others had too few test rows for this budget.")
    known.sort(key=lambda one: one[1].value or 0.0)
    if len(known) > _MOST_BARS:
        yield Paragraph(f"The {_MOST_BARS} classes of lowest recall:")
    shown = {name: (recall, precision) for name, recall, precision in known[:_MOST_BARS]}
    ordered = [str(name) for name in charged.classes if str(name) in shown]
    if ordered:
        yield recall_bars(tuple((name, *_ends(shown[name][0])) for name in ordered))
        yield Table(("Class", "Precision"), tuple((name, percent(shown[name][1])) for name in ordered))


def _ends(found: tuple[float | None, float, float]) -> tuple[float, float, float]:
    value, low, high = found
    assert value is not None  # of the others there is no bar
    return value, low, high


Card = Document

NOT_SHOWN = (
    "No check of files can show that the noise was really drawn and added, that the private rows were read "
    "nowhere else, or that every charge is in the ledger: for that, whoever made the release must be trusted."
)
"""Said wherever the outcome of a verification is read: 'verified' must not be taken for 'noise was added'."""

_SEEDED_SENTENCE = "With secure noise, and not as it is, it would hold that: "
_SEEDED_WARNING = (
    "NOT PRIVATE, DO NOT PUBLISH. The noise came from a seed: anyone who knows or guesses it can take the "
    "noise off again. The numbers below would hold for secure noise; they do not hold for this file."
)
_MOST_BARS = 50


def card_of(model: PrivateClassifier, evaluation: Evaluation | None = None) -> Card:
    """The card of a classifier; with an `evaluation`, it also says how useful the classifier is."""
    evaluation = None if evaluation is None else evaluation.for_release()
    guarantee, provenance = model.guarantee, model.provenance
    return Document(
        title=f"Privacy and model card: {provenance.title or provenance.method}",
        sentence=_SEEDED_SENTENCE * model.seeded + typeset(str(guarantee)),
        warning=_SEEDED_WARNING if model.seeded else None,
        highlights=(_usefulness(model, evaluation), *_promise(guarantee)),
        about=_about(model),
        sections=(
            Section("Benefit and cost", (_benefit_and_cost(model, evaluation),)),
            *privacy_sections(model),
            Section("Method", tuple(_method(model))),
            Section("Data and encoder", tuple(_data(model))),
            Section("Utility", tuple(_utility(model, evaluation))),
            *(Section("Classes in the encoder's labels", words) for words in [word_blocks(model)] if words),
            Section("Intended use and limits", (_use(model),)),
            Section("Record, and how to check it", tuple(_record(model))),
        ),
        footer="Written by dptransfer. The card describes release.json and model.safetensors beside it.",
    )


def _promise(guarantee: Guarantee) -> tuple[Highlight, ...]:
    odds = Words(("no outcome is more than ", *factor(guarantee), " times as likely"))
    slack = "give or take this probability" if guarantee.delta else "without exception"
    relation = guarantee.relation.value
    return (
        Highlight("ε", up(guarantee.epsilon), odds, "epsilon", guarantee.epsilon),
        Highlight("δ", up(guarantee.delta), slack, "delta", guarantee.delta),
        Highlight("neighbours", relation, f"of one {guarantee.unit.words}", "relation", relation),
    )


def _usefulness(model: PrivateClassifier, evaluation: Evaluation | None) -> Highlight:
    """The most precise figure that there is."""
    blind = f"blind guessing gets {1 / len(model.classes):.1%}"
    if model.charged is not None and not _is_more_precise(evaluation, model.charged):
        return charged_highlight(model.charged, blind)
    if evaluation is None:
        return Highlight("balanced accuracy", "not measured", blind)
    low, high = evaluation.balanced_interval
    return Highlight(
        "balanced accuracy",
        f"{evaluation.balanced_accuracy:.1%}",
        f"{low:.1%} to {high:.1%} on {evaluation.count}; {blind}",
        "balanced_accuracy",
        evaluation.balanced_accuracy,
    )


def _is_more_precise(evaluation: Evaluation | None, charged: ChargedEvaluation) -> bool:
    """Whether the results on test rows that are not protected have the narrower interval."""
    if evaluation is None:
        return False
    figure, (low, high) = charged_figure(charged), evaluation.balanced_interval
    return figure is None or high - low < figure[1].high - figure[1].low


def _about(model: PrivateClassifier) -> tuple[tuple[str, Text], ...]:
    """The head of the card; the name of the data set in the owner's ledger is not public and not here."""
    provenance = model.provenance
    return (
        ("Data", provenance.title or "not named by their owner"),
        ("Method", f"{provenance.method}, {len(model.classes)} classes"),
        ("Made", provenance.created[:10] or "not recorded"),
        ("With", f"dptransfer {provenance.versions.get('dptransfer', 'of unknown version')}"),
        ("Contact", provenance.contact or "none given"),
    )


def _benefit_and_cost(model: PrivateClassifier, evaluation: Evaluation | None) -> Table:
    from dptransfer.accounting import membership_advantage

    useful, guarantee = _usefulness(model, evaluation), model.guarantee
    delta = f", δ = {up(guarantee.delta)}" if guarantee.delta else ""
    right = percent_up((1 + membership_advantage(model.events)) / 2)
    classes = first_few([str(name) for name in model.classes])
    one = ONE[guarantee.unit]
    either, guess = f"With or without one {one}", f"whether one {one} was used"
    if guarantee.relation is Relation.REPLACE_ONE:
        either, guess = f"With one {one} or another instead", f"which of two {MANY[guarantee.unit]} was used"
    likely = (f"{either}, no outcome is more than ", *factor(guarantee), " times as likely")
    gives = (
        f"It sorts {_taken(model)} into {len(model.classes)} classes: {classes}.",
        f"{str(useful.name).capitalize()}: {useful.shown} ({useful.note}).",
        _weakest(model, evaluation),
    )
    costs: tuple[Text, ...] = (
        f"ε = {up(guarantee.epsilon)}{delta}, for {guarantee.relation.sentence(guarantee.unit)}.",
        Words((*likely, f"{give_or_take(guarantee)}.")),
        f"A guess {guess} is right at most {right} of the time; a coin flip, 50%.",
    )
    return Table(("What it gives", "What it costs in privacy"), tuple(zip(gives, costs, strict=True)))


def _taken(model: PrivateClassifier) -> str:
    """What it is given to sort."""
    if seen(model) == "row" or model.encoder is None:
        return "rows of numbers" if model.encoder is None else f"what the encoder {model.encoder.name} sees"
    if model.encoder_delta is None:
        return f"pictures, as the encoder {model.encoder.name} sees them,"
    return f"pictures, as the encoder {model.encoder_delta.base.name} sees them since it was changed here,"


def _weakest(model: PrivateClassifier, evaluation: Evaluation | None) -> str:
    if model.charged is not None and not _is_more_precise(evaluation, model.charged):
        return charged_weakest(model.charged)
    if evaluation is None:
        return "Nobody has measured it for this card: see Utility."
    recall = dict(zip(evaluation.classes, evaluation.recall, strict=True)).get(evaluation.worst_class)
    found = "" if recall is None else f": the model finds {recall:.1%} of its examples"
    return f"The worst class is {evaluation.worst_class}{found}."


def _method(model: PrivateClassifier) -> Iterator[Block]:
    provenance = model.provenance
    steps = f"Accounting lists every step that saw private {seen(model)}s."
    unknown = f"The method named '{provenance.method}'. {steps}"
    yield Paragraph(provenance.summary or unknown)
    if provenance.reference:
        yield Paragraph(f"Reference: {provenance.reference}")
    if provenance.configuration:
        yield Table(("Setting", "Value"), _pairs(provenance.configuration))
    if provenance.notes:
        yield Paragraph("Choices, made from public facts and released values:")
        yield Bullets(tuple(map(typeset, provenance.notes)))


def _data(model: PrivateClassifier) -> Iterator[Block]:
    provenance, delta = model.provenance, model.encoder_delta
    if delta is not None:
        changed = sum(array.size for array in delta.arrays.values())
        yield Paragraph(
            f"The private examples are pictures. Parts of the encoder {delta.base} were changed, {changed} "
            "numbers, under the guarantee above; the data that it was trained on are not protected here."
        )
    elif model.encoder is not None and seen(model) == "picture":
        yield Paragraph(
            f"The private examples are pictures. The encoder {model.encoder.name} is as it was; the data "
            "that it was trained on are not protected here."
        )
    elif model.facts.encoder is not None:
        yield Paragraph(
            "The private rows are embeddings from a frozen encoder. The data that it was trained on are not "
            "protected here, and should not hold the private examples."
        )
    else:
        yield Paragraph("No encoder is on record: the private rows were given as numbers.")
    if provenance.public is None:
        yield Paragraph(f"No public {seen(model)}s were used.")
    else:
        yield Paragraph(f"Public {seen(model)}s were given. They are not protected:")
        yield Table((f"Public {seen(model)}s", "Value"), _pairs(provenance.public))
    if provenance.prototypes is not None:
        yield Paragraph("The prototypes are public examples; release.json lists which.")
    if provenance.answers is not None:
        yield Paragraph(
            "Public examples were labelled under the guarantee above; release.json lists the answers."
        )


def _utility(model: PrivateClassifier, evaluation: Evaluation | None) -> Iterator[Block]:
    if model.charged is not None:
        yield from charged_blocks(model.charged)
    elif evaluation is None:
        yield Paragraph(
            "Not measured for this card. This adds it, with labelled test rows that are protected too, for a "
            "budget of theirs:"
        )
        yield Code("dptransfer evaluate DIR TEST --private --epsilon 0.2 --delta 0.00001")
        yield Paragraph(
            "And this with test rows that nobody needs to keep secret, never those it was fitted on:"
        )
        yield Code("dptransfer evaluate DIR TEST --add-to-card")
    if evaluation is None:
        return
    yield Paragraph(f"Measured on {evaluation.words}, with 95% intervals.")
    yield Paragraph(evaluation.statement)
    rows = {
        "balanced accuracy": _with_interval(evaluation.balanced_accuracy, evaluation.balanced_interval),
        "accuracy": _with_interval(evaluation.accuracy, evaluation.accuracy_interval),
    }
    if evaluation.minority_accuracy is not None and evaluation.minority_interval is not None:
        label = f"smallest quarter of classes (by {evaluation.minority_source})"
        rows[label] = _with_interval(evaluation.minority_accuracy, evaluation.minority_interval)
    rows["macro F1"] = f"{evaluation.macro_f1:.3f}"
    rows["worst class"] = str(evaluation.worst_class)
    rows["expected calibration error"] = f"{evaluation.calibration_error:.3f}"
    yield Table(("Measure", "Value"), tuple(rows.items()))
    measured = zip(evaluation.classes, evaluation.recall, evaluation.recall_intervals, strict=True)
    bars = [(str(name), recall, *ends) for name, recall, ends in measured if recall is not None and ends]
    if len(bars) > _MOST_BARS:
        yield Paragraph(f"The {_MOST_BARS} classes of lowest recall:")
        bars = sorted(bars, key=lambda bar: bar[1])[:_MOST_BARS]
    yield recall_bars(tuple(bars))


def _use(model: PrivateClassifier) -> Bullets:
    what = "pictures" if seen(model) == "picture" else "rows from the same encoder"
    return Bullets(
        (
            f"It sorts {what} into the {len(model.classes)} declared classes, and always answers with one of "
            "them.",
            "Rare classes suffer most from noise; look at recall per class before use.",
            _of_probabilities(model.calibration),
            "Privacy says nothing about fairness, robustness or fitness for decisions about people.",
        )
    )


def _of_probabilities(calibration: Calibration | None) -> str:
    if calibration is None:
        return "Its probabilities are a ranking, not calibrated chances."
    changed = f" (temperature × {calibration.temperature:.3g})" * (calibration.temperature != 1)
    return f"Its probabilities are {calibration.words}{changed}."


def _record(model: PrivateClassifier) -> Iterator[Block]:
    provenance = model.provenance
    head = (
        ("created", provenance.created or "not recorded"),
        ("ledger head", provenance.ledger_head or "no ledger"),
    )
    versions = ((f"version of {name}", value) for name, value in sorted(provenance.versions.items()))
    yield Table(("Record", "Value"), (*head, *versions))
    yield Paragraph("This recomputes the guarantee, plans the steps again and checks every file:")
    yield Code("dptransfer verify DIR")
    yield Paragraph(NOT_SHOWN)


def _pairs(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), _short(value)) for name, value in values.items())


def _short(value: object) -> str:
    if isinstance(value, Mapping):
        return first_few([f"{name}: {_short(item)}" for name, item in value.items()])
    if isinstance(value, list | tuple):
        return first_few([_short(item) for item in value])
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return typeset(number(value, 10)) if isinstance(value, float) else str(value)


def _with_interval(value: float, interval: tuple[float, float]) -> str:
    return f"{value:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"
