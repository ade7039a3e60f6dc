"""The privacy and model card: what is promised, to whom, on what grounds, and how useful the model is.

A card is a function of the classifier and an optional evaluation alone. It is a `Document`, which is rendered
as HTML, Markdown, terminal text or JSON; so are a few lines of a model or of test results for notebooks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import numpy as np

from dptransfer.accounting import membership_advantage
from dptransfer.base import document as doc
from dptransfer.base.document_html import escape_html
from dptransfer.base.types import Floats
from dptransfer.exact.feature_map import STRETCHES, FittedFeatures, FittedSideBySide
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
from dptransfer.privacy import Guarantee, Relation, Unit, number, typeset
from dptransfer.release import card_privacy as terms
from dptransfer.release.charged_evaluation import ChargedEvaluation, Estimate, Z
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.evaluation import Evaluation
from dptransfer.release.heads import AverageHead, LinearHead, QuadraticHead
from dptransfer.release.owners import owners_blocks

Card = doc.Document
Results: TypeAlias = Evaluation | ChargedEvaluation
Labels: TypeAlias = tuple[tuple[str, float], ...]
"""Labels of an encoder with their shares, the largest first."""

NOT_PRIVATE = "NOT PRIVATE, DO NOT PUBLISH."
NOT_SHOWN = (
    "No check of files can show that the noise was really drawn and added, that the private rows were read "
    "nowhere else, or that the ledger has every charge. For that you must trust whoever made the release."
)
"""Shown beside the outcome of every verification: 'verified' must not be taken for 'noise was added'."""

_SEEDED_SENTENCE = "If the noise were secure, which it is not, this would hold: "
_SEEDED_WARNING = (
    f"{NOT_PRIVATE} The noise came from a seed: anyone who knows or guesses it can remove the noise. The "
    "numbers below would hold for secure noise; they do not hold for this file."
)
_MOST_BARS = 50
_MOST_IN_NOTEBOOK, _WIDEST_BAR = 8, 24
_MOST_LABELS = 5
_LEAST_SHARE = 0.02  # below, and in a vocabulary of a thousand, a label says little
_MOST_CLASSES = 50
_LEFT, _SPAN, _BAR = 136, 220, 22  # where bars of `recall_bar.svg` begin, how long and how far apart they are
_LONGEST = 20  # letters of a name beside a bar


def card_of(model: PrivateClassifier, evaluation: Evaluation | None = None) -> Card:
    """The card of a classifier; with an `evaluation`, it also says how useful the classifier is."""
    evaluation = None if evaluation is None else evaluation.for_release()
    guarantee, provenance, best = model.guarantee, model.provenance, best_results(model, evaluation)
    sections: dict[str, Iterable[doc.Block]] = {
        "Benefit and cost": [_benefit_and_cost(model, best)],
        **terms.privacy_sections(model),
        "Owners": owners_blocks(provenance.owners, model.events, guarantee),
        "Method": _method(model),
        "Data and encoder": _data(model),
        "Utility": _utility(model, evaluation),
        "Classes in the encoder's labels": _encoder_labels(model),
        "Intended use and limits": [_use(model)],
        "Record and verification": _record(model),
    }
    filled = ((title, tuple(blocks)) for title, blocks in sections.items())
    return doc.Document(
        title=f"Privacy and model card: {provenance.title or provenance.method}",
        sentence=_SEEDED_SENTENCE * model.seeded + typeset(str(guarantee)),
        warning=_SEEDED_WARNING if model.seeded else None,
        highlights=(_highlight(best, len(model.classes)), *_promise(guarantee)),
        about=_about(model),
        sections=tuple(doc.Section(title, blocks) for title, blocks in filled if blocks),
        footer="Written by dptransfer. The card describes release.json and model.safetensors beside it.",
    )


def model_summary(model: PrivateClassifier) -> doc.Document:
    """A classifier in a few lines, for notebooks: what it promises, and what it is."""
    encoder = "" if model.encoder is None else f" of the encoder {model.encoder.name}"
    about: list[tuple[str, doc.Text]] = [
        ("Method", model.provenance.method),
        ("Classes", doc.name_list(model.classes)),
        ("Input", f"rows of dimension {model.dimension}{encoder}"),
    ]
    if model.charged is not None:
        about.append(("Accuracy on private rows", model.charged.accuracy.words))
    if model.calibration is not None:
        about.append(("Probabilities", f"{model.calibration.words}."))
    return doc.Document(
        model.provenance.title or "Private classifier",
        model.guarantee.in_short,
        warning=f"{NOT_PRIVATE} The noise came from a seed." if model.seeded else None,
        about=tuple(about),
    )


def _promise(guarantee: Guarantee) -> tuple[doc.Highlight, ...]:
    odds = doc.Words(("no outcome is more than ", *terms.factor(guarantee), " times as likely"))
    slack = "added to the probability of an outcome" if guarantee.delta else "pure differential privacy"
    relation = guarantee.relation.value
    return (
        doc.Highlight("ε", terms.up(guarantee.epsilon), odds, "epsilon", guarantee.epsilon),
        doc.Highlight("δ", terms.up(guarantee.delta), slack, "delta", guarantee.delta),
        doc.Highlight("neighbours", relation, f"of one {guarantee.unit.words}", "relation", relation),
    )


def _about(model: PrivateClassifier) -> tuple[tuple[str, doc.Text], ...]:
    """The head of the card; the name of the data set in the owner's ledger is not public and not here."""
    provenance = model.provenance
    return (
        ("Data", provenance.title or "not named by the owner"),
        ("Method", f"{provenance.method}, {len(model.classes)} classes"),
        ("Created", provenance.created[:10] or "not recorded"),
        ("Software", f"dptransfer {provenance.versions.get('dptransfer', 'of unknown version')}"),
        ("Contact", provenance.contact or "none given"),
        *([("License", provenance.license)] if provenance.license else []),
    )


def _benefit_and_cost(model: PrivateClassifier, best: Results | None) -> doc.Table:
    useful, guarantee = _highlight(best, len(model.classes)), model.guarantee
    delta = f", δ = {terms.up(guarantee.delta)}" if guarantee.delta else ""
    right = terms.percent_up((1 + membership_advantage(model.events)) / 2)
    classes = doc.first_few([str(name) for name in model.classes])
    one = terms.ONE[guarantee.unit]
    either, guess = f"With or without one {one}", f"whether one {one} was used"
    if guarantee.relation is Relation.REPLACE_ONE:
        either, guess = f"With one {one} or another", f"which of two {terms.MANY[guarantee.unit]} was used"
    likely = (f"{either}, no outcome is more than ", *terms.factor(guarantee), " times as likely")
    gives = (
        f"It classifies {_inputs(model)} into {len(model.classes)} classes: {classes}.",
        f"{str(useful.name).capitalize()}: {useful.shown} ({useful.note}).",
        weakest_class(best),
    )
    costs: tuple[doc.Text, ...] = (
        f"ε = {terms.up(guarantee.epsilon)}{delta}, for {guarantee.relation.sentence(guarantee.unit)}.",
        doc.Words((*likely, f"{terms.plus_delta(guarantee)}.")),
        f"An attacker who guesses {guess} is right at most {right} of the time; a coin flip, 50%.",
    )
    return doc.Table.of("What it gives | What it costs in privacy", zip(gives, costs, strict=True))


def _inputs(model: PrivateClassifier) -> str:
    if model.encoder is None:
        return "rows of numbers"
    if terms.example_word(model) == "row":
        return f"rows of the encoder {model.encoder.name}"
    delta = model.encoder_delta
    name = model.encoder.name if delta is None else f"{delta.base.name}, fine-tuned here,"
    return f"pictures, as the encoder {name} embeds them,"


def _method(model: PrivateClassifier) -> Iterator[doc.Block]:
    provenance = model.provenance
    unknown = f"The method is named '{provenance.method}'."
    steps = f"The section Accounting lists every step that read private {terms.example_word(model)}s."
    yield doc.Paragraph(provenance.summary or f"{unknown} {steps}")
    if provenance.reference:
        yield doc.Paragraph(f"Reference: {provenance.reference}")
    if provenance.configuration:
        yield doc.Table.of("Setting | Value", _pairs(provenance.configuration))
    if provenance.notes:
        yield doc.Paragraph("Decisions, made from public facts and released values:")
        yield doc.Bullets(tuple(map(typeset, provenance.notes)))


def _data(model: PrivateClassifier) -> Iterator[doc.Block]:
    provenance, delta, one = model.provenance, model.encoder_delta, terms.example_word(model)
    trained = "The guarantee does not protect the data that the encoder was trained on"
    said = "No encoder is on record: the private rows were given as numbers."
    if delta is not None:
        changed = sum(array.size for array in delta.arrays.values())
        changes = f"The fit changed {changed} numbers of the encoder {delta.base}, under the guarantee above."
        said = f"The private examples are pictures. {changes} {trained}."
    elif model.encoder is not None and one == "picture":
        said = f"The private examples are pictures. The encoder {model.encoder.name} is unchanged. {trained}."
    elif model.facts.encoder is not None:
        rows = "The private rows are embeddings from a frozen encoder."
        said = f"{rows} {trained}, which should not include the private examples."
    yield doc.Paragraph(said)
    if provenance.public is None:
        yield doc.Paragraph(f"The fit used no public {one}s.")
    else:
        yield doc.Paragraph(f"The fit also used public {one}s, which are not protected:")
        yield doc.Table.of(f"Public {one}s | Value", _pairs(provenance.public))
    if provenance.prototypes is not None:
        yield doc.Paragraph("The prototypes are public examples; release.json lists them.")
    if provenance.answers is not None:
        yield doc.Paragraph("Public examples were labelled under the guarantee; release.json lists them.")


def _use(model: PrivateClassifier) -> doc.Bullets:
    what = f"rows of {model.dimension} numbers, made as the private ones were"
    if model.encoder is not None:
        what = "pictures" if terms.example_word(model) == "picture" else "rows from the same encoder"
    calibrated, calibration = "a ranking and not calibrated", model.calibration
    if calibration is not None:
        times = f" (temperature × {calibration.temperature:.3g})" * (calibration.temperature != 1)
        calibrated = f"{calibration.words}{times}"
    return doc.Bullets(
        (
            f"Its inputs are {what}. It always answers with one of its {len(model.classes)} classes.",
            "Noise hurts rare classes most: check the recall of each class before use.",
            f"Its probabilities are {calibrated}.",
            "Privacy says nothing about fairness, robustness or fitness for decisions about people.",
        )
    )


def _record(model: PrivateClassifier) -> Iterator[doc.Block]:
    provenance = model.provenance
    rows = {"created": provenance.created or "not recorded"}
    rows["ledger head"] = provenance.ledger_head or ("see Owners" if provenance.owners else "no ledger")
    rows |= {f"version of {name}": value for name, value in sorted(provenance.versions.items())}
    yield doc.Table.of("Record | Value", rows.items())
    yield doc.Paragraph("This command recomputes the guarantee, plans the steps again and checks every file:")
    yield doc.Code("dptransfer verify DIR")
    yield doc.Paragraph(NOT_SHOWN)


def _pairs(values: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), _short(value)) for name, value in values.items())


def _short(value: object) -> str:
    if isinstance(value, Mapping):
        return doc.first_few([f"{name}: {_short(item)}" for name, item in value.items()])
    if isinstance(value, list | tuple):
        return doc.first_few([_short(item) for item in value])
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return typeset(number(value, 10)) if isinstance(value, float) else str(value)


def best_results(model: PrivateClassifier, evaluation: Evaluation | None) -> Results | None:
    """Of charged results and those on unprotected rows, the ones with the narrower interval."""
    both: tuple[Results | None, ...] = (model.charged, evaluation)
    return min((found for found in both if found is not None), key=_width, default=None)


def _width(found: Results) -> float:
    return next((own.high - own.low for own in found.estimates.values()), math.inf)


def _highlight(found: Results | None, classes: int) -> doc.Highlight:
    """The most telling number with its interval, or why there is none."""
    blind = f"blind guessing gets {1 / classes:.1%}"
    if found is None:
        return doc.Highlight("balanced accuracy", "not measured", blind)
    for name, (value, low, high) in found.estimates.items():
        rows = found.count if isinstance(found, Evaluation) else "protected test rows"
        said = f"{low:.1%} to {high:.1%} on {rows}; {blind}"
        return doc.Highlight(name, f"{value:.1%}", said, name.replace(" ", "_"), value or 0.0)
    said = f"too few protected test rows for this budget: no accuracy can be reported; {blind}"
    return doc.Highlight("accuracy", "not reported", said)


def weakest_class(found: Results | None) -> str:
    """The class of lowest recall, in a sentence."""
    if found is None:
        return "Accuracy has not been measured for this card: see Utility."
    recalls, all_of_them = _lowest_first(found), len(found.classes)
    if not recalls:
        return "Too few test rows for this budget: no recall of a single class can be reported."
    name, value = recalls[0][0], recalls[0][1].value
    about = "about " * isinstance(found, ChargedEvaluation)
    found_of = f"{name}: the model finds {about}{value:.1%} of its examples."
    if len(recalls) == all_of_them:
        return f"The worst class is {found_of}"
    if len(recalls) == 1:
        return f"Only one of {all_of_them} classes has enough test rows to tell, {found_of}"
    return f"Among the {len(recalls)} of {all_of_them} classes with enough test rows, the worst is {found_of}"


def _lowest_first(found: Results) -> list[tuple[str, Estimate]]:
    return sorted(found.recalls.items(), key=lambda one: one[1].value or 0.0)


def _utility(model: PrivateClassifier, evaluation: Evaluation | None) -> Iterator[doc.Block]:
    """Both kinds of results, or how to get them."""
    if model.charged is not None:
        yield from _charged(model.charged)
    elif evaluation is None:
        yield doc.Paragraph(
            "Accuracy has not been measured for this card. To measure it on labelled test rows that are "
            "protected too, at a privacy cost of their own:"
        )
        yield doc.Code("dptransfer evaluate DIR TEST --private --epsilon 0.2 --delta 0.00001")
        yield doc.Paragraph("To measure it on test rows that need no protection, never on training data:")
        yield doc.Code("dptransfer evaluate DIR TEST --add-to-card")
    if evaluation is not None:
        yield doc.Paragraph(f"Measured on {evaluation.words}, with 95% intervals.")
        yield doc.Paragraph(evaluation.statement)
        yield doc.Table.of("Measure | Value", _measures(evaluation).items())
        yield from _recalls(evaluation)


def _charged(found: ChargedEvaluation) -> Iterator[doc.Block]:
    what = "examples" if found.counts.bound.unit is Unit.ROW else "votes"
    yield doc.Paragraph(
        f"Measured on {found.whose}. The noisy number of {what} is {_noisy_size(found)}. "
        "Intervals are 95% and cover sampling and noise together."
    )
    twice = " For people who are also in the training data, the two privacy costs add up."
    yield doc.Paragraph(typeset(found.statement) + twice * (found.holdout is None))
    yield doc.Table.of("Measure, test rows protected | Value", _measures(found).items())
    known = len(found.recalls)
    if known < len(found.classes):
        said = f"Recall is reported for {known} of the {len(found.classes)} classes; the rest had"
        said = said if known else "No recall of a single class is reported: all classes had"
        yield doc.Paragraph(f"{said} too few test rows for this budget.")
    yield from _recalls(found)


def _measures(found: Results) -> dict[str, str]:
    if isinstance(found, ChargedEvaluation):
        return {
            "balanced accuracy": found.balanced_accuracy.words,
            "accuracy": found.accuracy.words,
            "expected calibration error": found.calibration_error.words,
        }
    rows = {name: own.percent for name, own in found.estimates.items()}
    if found.minority_accuracy is not None and found.minority_interval is not None:
        label = f"smallest quarter of classes (by {found.minority_source})"
        rows[label] = Estimate(found.minority_accuracy, *found.minority_interval).percent
    return rows | {
        "macro F1": f"{found.macro_f1:.3f}",
        "worst class": str(found.worst_class),
        "expected calibration error": f"{found.calibration_error:.3f}",
    }


def _recalls(found: Results) -> Iterator[doc.Block]:
    recalls = _lowest_first(found)
    if len(recalls) > _MOST_BARS:
        yield doc.Paragraph(f"The {_MOST_BARS} classes of lowest recall:")
        recalls = recalls[:_MOST_BARS]
    if recalls:
        yield _recall_bars(recalls)
    if recalls and isinstance(found, ChargedEvaluation):
        precision = {str(name): own.words for name, own in zip(found.classes, found.precision, strict=True)}
        yield doc.Table.of("Class | Precision", ((name, precision[name]) for name, _ in recalls))


def _recall_bars(recalls: list[tuple[str, Estimate]]) -> doc.Figure:
    """One horizontal bar per class, with the interval of its recall."""
    bar, bars, rows = terms.read_drawing("recall_bar.svg"), "", []
    for place, (name, (value, low, high)) in enumerate(recalls):
        share, percent = value or 0.0, f"{value:.1%}"
        shown = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
        shape = {"top": 4 + _BAR * place, "width": _SPAN * share, "percent": percent}
        ends = {"start": _LEFT + _SPAN * low, "end": _LEFT + _SPAN * high}
        bars += bar.format(name=escape_html(name), shown=escape_html(shown), **shape, **ends)
        rows.append((name, percent, f"{low:.1%} to {high:.1%}", "█" * round(30 * share)))
    size = f'viewBox="0 0 408 {8 + _BAR * len(recalls)}" width="490" font-size="11"'
    caption = "Recall of each class, with its 95% interval."
    table = doc.Table.of("Class | Recall | 95% interval | ", rows, "lrr")
    return doc.Figure("recall", f"<svg {size}>{bars}</svg>", "Recall of each class", caption, instead=table)


def results_summary(found: Results, most: int | None = _MOST_IN_NOTEBOOK) -> doc.Document:
    """Test results: all measures with their intervals, and those of each class.

    Args:
        found: the results.
        most: how many classes are listed; None for all.
    """
    about = [(name[0].upper() + name[1:], value) for name, value in _measures(found).items()]
    if isinstance(found, Evaluation):
        whose, seeded, together, recalls = found.words, False, "", found.recalls
        shown = [recalls[str(name)].percent if str(name) in recalls else "–" for name in found.classes]
        bars = ["█" * round(_WIDEST_BAR * (recall or 0.0)) for recall in found.recall]
        header, align = "Class | Test rows | Recall | ", "lrl"
        columns: tuple[Iterable[object], ...] = (found.support or ["–"] * len(shown), shown, bars)
    else:
        whose, seeded, together = found.whose, found.seeded, ", for sampling and noise together"
        about.append(("Test rows", _noisy_size(found)))
        header, align = "Class | Recall | Precision", ""
        columns = tuple([own.words for own in column] for column in (found.recall, found.precision))
    rows = [tuple(map(str, row)) for row in zip(found.classes, *columns, strict=True)][:most]
    caption = f"The first {len(rows)} of {len(found.classes)} classes." * (len(rows) < len(found.classes))
    return doc.Document(
        f"Test on {whose}",
        found.statement,
        warning=NOT_PRIVATE if seeded else None,
        about=tuple(about),
        sections=(doc.Section("Classes", (doc.Table.of(header, rows, align, caption),)),),
        footer=f"Intervals are 95%{together}.",
    )


def _noisy_size(found: ChargedEvaluation) -> str:
    size, give = max(0.0, found.size.count), Z * math.sqrt(found.size.variance)
    return f"{size:.0f} ± {give:.0f}"


def words_of(model: PrivateClassifier) -> tuple[Labels, ...] | None:
    """The encoder's labels that each class maps to, read off the released arrays; None without such a map.

    Of each class the labels of largest share, without negligible ones.

    Linear weights are logarithms of shares up to a constant for each class, prototypes shares themselves.
    """
    features, head = model.features, model.head
    if isinstance(head, AverageHead) or not isinstance(features, FittedVocabularyMap | FittedSideBySide):
        return None
    parts: list[tuple[FittedFeatures, Floats]] = [(features, head.form[0])]
    if isinstance(features, FittedSideBySide):
        sides = np.split(head.form[0], [features.first.dimension], axis=1)
        stretched = [side / stretch for side, stretch in zip(sides, STRETCHES, strict=True)]
        parts = list(zip((features.first, features.second), stretched, strict=True))
    found = [(part, own) for part, own in parts if isinstance(part, FittedVocabularyMap)]
    if not found:
        return None
    vocabulary, weights = found[0]
    if isinstance(head, LinearHead | QuadraticHead):
        shares = np.exp(weights - weights.max(axis=1, keepdims=True))
    else:
        shares = np.maximum(weights, 0.0)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    names = [name.partition(",")[0] for name in vocabulary.names]  # of several names, the first
    order = np.argsort(-shares, axis=1, kind="stable")[:, :_MOST_LABELS]
    return tuple(
        tuple((names[word], float(own[word])) for word in best if own[word] >= _LEAST_SHARE)
        for own, best in zip(shares, order, strict=True)
    )


def _encoder_labels(model: PrivateClassifier) -> Iterator[doc.Block]:
    """What the encoder's labels say of each class; nothing for a model without such labels."""
    found = words_of(model)
    if found is None:
        return
    yield doc.Paragraph(
        "The encoder was trained to recognise labels of its own, and the method used them. The table "
        "shows which of them the released model takes as evidence for each class. It is read from the "
        "released weights, at no further privacy cost. Classes the encoder has no label for map to "
        "similar-looking labels; classes drowned by noise map to arbitrary ones."
    )
    said = [
        ", ".join(f"{word} {part:.0%}" for word, part in words) or "nothing in particular" for words in found
    ]
    rows = list(zip(map(str, model.classes), said, strict=True))
    yield doc.Table.of("Class | Labels of the encoder", rows[:_MOST_CLASSES])
    if len(rows) > _MOST_CLASSES:
        yield doc.Paragraph(f"And {len(rows) - _MOST_CLASSES} classes more.")
