"""The privacy and model card: what is promised, to whom, on what grounds, and how useful the model is.

A card is a function of the classifier and an optional evaluation alone. It is a `Document`, which is rendered
as HTML, Markdown, terminal text or JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
    first_few,
    name_list,
)
from dptransfer.privacy import Guarantee, Relation, number, typeset
from dptransfer.release.card_privacy import (
    MANY,
    ONE,
    factor,
    percent_up,
    plus_delta,
    privacy_sections,
    seen,
    up,
)
from dptransfer.release.card_utility import (
    NOT_PRIVATE,
    Results,
    best_results,
    highlight,
    utility_blocks,
    weakest_class,
    word_sections,
)
from dptransfer.release.charged_evaluation import percent
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.evaluation import Evaluation

Card = Document

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


def card_of(model: PrivateClassifier, evaluation: Evaluation | None = None) -> Card:
    """The card of a classifier; with an `evaluation`, it also says how useful the classifier is."""
    evaluation = None if evaluation is None else evaluation.for_release()
    guarantee, provenance, best = model.guarantee, model.provenance, best_results(model, evaluation)
    return Document(
        title=f"Privacy and model card: {provenance.title or provenance.method}",
        sentence=_SEEDED_SENTENCE * model.seeded + typeset(str(guarantee)),
        warning=_SEEDED_WARNING if model.seeded else None,
        highlights=(highlight(best, len(model.classes)), *_promise(guarantee)),
        about=_about(model),
        sections=(
            Section("Benefit and cost", (_benefit_and_cost(model, best),)),
            *privacy_sections(model),
            Section("Method", tuple(_method(model))),
            Section("Data and encoder", tuple(_data(model))),
            Section("Utility", tuple(utility_blocks(model, evaluation))),
            *word_sections(model),
            Section("Intended use and limits", (_use(model),)),
            Section("Record and verification", tuple(_record(model))),
        ),
        footer="Written by dptransfer. The card describes release.json and model.safetensors beside it.",
    )


def model_summary(model: PrivateClassifier) -> Document:
    """A classifier in a few lines, for notebooks: what it promises, and what it is."""
    encoder = "" if model.encoder is None else f" of the encoder {model.encoder.name}"
    about: list[tuple[str, Text]] = [
        ("Method", model.provenance.method),
        ("Classes", name_list(model.classes)),
        ("Input", f"rows of dimension {model.dimension}{encoder}"),
    ]
    if model.charged is not None:
        about.append(("Accuracy on private rows", percent(model.charged.accuracy)))
    if model.calibration is not None:
        about.append(("Probabilities", f"{model.calibration.words}."))
    return Document(
        model.provenance.title or "Private classifier",
        model.guarantee.in_short,
        warning=f"{NOT_PRIVATE} The noise came from a seed." if model.seeded else None,
        about=tuple(about),
    )


def _promise(guarantee: Guarantee) -> tuple[Highlight, ...]:
    odds = Words(("no outcome is more than ", *factor(guarantee), " times as likely"))
    slack = "added to the probability of an outcome" if guarantee.delta else "pure differential privacy"
    relation = guarantee.relation.value
    return (
        Highlight("ε", up(guarantee.epsilon), odds, "epsilon", guarantee.epsilon),
        Highlight("δ", up(guarantee.delta), slack, "delta", guarantee.delta),
        Highlight("neighbours", relation, f"of one {guarantee.unit.words}", "relation", relation),
    )


def _about(model: PrivateClassifier) -> tuple[tuple[str, Text], ...]:
    """The head of the card; the name of the data set in the owner's ledger is not public and not here."""
    provenance = model.provenance
    return (
        ("Data", provenance.title or "not named by the owner"),
        ("Method", f"{provenance.method}, {len(model.classes)} classes"),
        ("Created", provenance.created[:10] or "not recorded"),
        ("Software", f"dptransfer {provenance.versions.get('dptransfer', 'of unknown version')}"),
        ("Contact", provenance.contact or "none given"),
    )


def _benefit_and_cost(model: PrivateClassifier, best: Results | None) -> Table:
    from dptransfer.accounting import membership_advantage

    useful, guarantee = highlight(best, len(model.classes)), model.guarantee
    delta = f", δ = {up(guarantee.delta)}" if guarantee.delta else ""
    right = percent_up((1 + membership_advantage(model.events)) / 2)
    classes = first_few([str(name) for name in model.classes])
    one = ONE[guarantee.unit]
    either, guess = f"With or without one {one}", f"whether one {one} was used"
    if guarantee.relation is Relation.REPLACE_ONE:
        either, guess = f"With one {one} or another", f"which of two {MANY[guarantee.unit]} was used"
    likely = (f"{either}, no outcome is more than ", *factor(guarantee), " times as likely")
    gives = (
        f"It classifies {_inputs(model)} into {len(model.classes)} classes: {classes}.",
        f"{str(useful.name).capitalize()}: {useful.shown} ({useful.note}).",
        weakest_class(best),
    )
    costs: tuple[Text, ...] = (
        f"ε = {up(guarantee.epsilon)}{delta}, for {guarantee.relation.sentence(guarantee.unit)}.",
        Words((*likely, f"{plus_delta(guarantee)}.")),
        f"An attacker who guesses {guess} is right at most {right} of the time; a coin flip, 50%.",
    )
    return Table(("What it gives", "What it costs in privacy"), tuple(zip(gives, costs, strict=True)))


def _inputs(model: PrivateClassifier) -> str:
    if model.encoder is None:
        return "rows of numbers"
    if seen(model) == "row":
        return f"rows of the encoder {model.encoder.name}"
    if model.encoder_delta is None:
        return f"pictures, as the encoder {model.encoder.name} embeds them,"
    return f"pictures, as the encoder {model.encoder_delta.base.name}, fine-tuned here, embeds them,"


def _method(model: PrivateClassifier) -> Iterator[Block]:
    provenance = model.provenance
    unknown = f"The method is named '{provenance.method}'."
    steps = f"The section Accounting lists every step that read private {seen(model)}s."
    yield Paragraph(provenance.summary or f"{unknown} {steps}")
    if provenance.reference:
        yield Paragraph(f"Reference: {provenance.reference}")
    if provenance.configuration:
        yield Table(("Setting", "Value"), _pairs(provenance.configuration))
    if provenance.notes:
        yield Paragraph("Decisions, made from public facts and released values:")
        yield Bullets(tuple(map(typeset, provenance.notes)))


def _data(model: PrivateClassifier) -> Iterator[Block]:
    provenance, delta = model.provenance, model.encoder_delta
    if delta is not None:
        changed = sum(array.size for array in delta.arrays.values())
        yield Paragraph(
            f"The private examples are pictures. The fit changed {changed} numbers of the encoder "
            f"{delta.base}, under the guarantee above. The guarantee does not protect the data that the "
            "encoder was trained on."
        )
    elif model.encoder is not None and seen(model) == "picture":
        yield Paragraph(
            f"The private examples are pictures. The encoder {model.encoder.name} is unchanged. The "
            "guarantee does not protect the data that it was trained on."
        )
    elif model.facts.encoder is not None:
        yield Paragraph(
            "The private rows are embeddings from a frozen encoder. The guarantee does not protect the data "
            "that it was trained on, which should not include the private examples."
        )
    else:
        yield Paragraph("No encoder is on record: the private rows were given as numbers.")
    if provenance.public is None:
        yield Paragraph(f"The fit used no public {seen(model)}s.")
    else:
        yield Paragraph(f"The fit also used public {seen(model)}s, which are not protected:")
        yield Table((f"Public {seen(model)}s", "Value"), _pairs(provenance.public))
    if provenance.prototypes is not None:
        yield Paragraph("The prototypes are public examples; release.json lists them.")
    if provenance.answers is not None:
        yield Paragraph(
            "Public examples were labelled under the guarantee above; release.json lists the answers."
        )


def _use(model: PrivateClassifier) -> Bullets:
    what = "pictures" if seen(model) == "picture" else "rows from the same encoder"
    if model.calibration is None:
        calibrated = "a ranking and not calibrated"
    else:
        factor = model.calibration.temperature
        calibrated = model.calibration.words + f" (temperature × {factor:.3g})" * (factor != 1)
    return Bullets(
        (
            f"Its inputs are {what}. It always answers with one of its {len(model.classes)} classes.",
            "Noise hurts rare classes most: check the recall of each class before use.",
            f"Its probabilities are {calibrated}.",
            "Privacy says nothing about fairness, robustness or fitness for decisions about people.",
        )
    )


def _record(model: PrivateClassifier) -> Iterator[Block]:
    provenance = model.provenance
    head = (
        ("created", provenance.created or "not recorded"),
        ("ledger head", provenance.ledger_head or "no ledger"),
    )
    versions = ((f"version of {name}", value) for name, value in sorted(provenance.versions.items()))
    yield Table(("Record", "Value"), (*head, *versions))
    yield Paragraph("This command recomputes the guarantee, plans the steps again and checks every file:")
    yield Code("dptransfer verify DIR")
    yield Paragraph(NOT_SHOWN)


def _pairs(values: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), _short(value)) for name, value in values.items())


def _short(value: object) -> str:
    if isinstance(value, Mapping):
        return first_few([f"{name}: {_short(item)}" for name, item in value.items()])
    if isinstance(value, list | tuple):
        return first_few([_short(item) for item in value])
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return typeset(number(value, 10)) if isinstance(value, float) else str(value)
