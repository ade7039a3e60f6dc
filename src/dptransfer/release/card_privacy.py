"""The card's sections on privacy: what is promised, what an attacker can learn, and on what grounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from importlib.resources import files

from dptransfer import privacy
from dptransfer.accounting import composition_words, epsilon_of, membership_advantage, rate_ceilings
from dptransfer.accounting.steps import all_steps, plain_steps
from dptransfer.base import document as doc
from dptransfer.errors import RelationMismatch
from dptransfer.release.classifier import PrivateClassifier

_MOST_EVENTS = 50  # rows in the accounting table
_RATES = (0.0, 1e-3, 3e-3, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
ONE = {privacy.Unit.ROW: "example", privacy.Unit.PERSON: "person"}
_A = {privacy.Unit.ROW: "an example", privacy.Unit.PERSON: "a person"}
MANY = {privacy.Unit.ROW: "examples", privacy.Unit.PERSON: "people"}


def privacy_sections(model: PrivateClassifier) -> dict[str, Iterable[doc.Block]]:
    """What is promised, and on what grounds: blocks by the title of their section."""
    return {
        "Guarantee": _guarantee(model),
        "What an attacker can learn": _attacker(model),
        "What is covered, and what is not": _covered(model),
        "Declared public": _public_facts(model),
        "Accounting": _accounting(model),
        "Numerics": [_numerics(model)],
    }


def up(amount: float, digits: int = 7) -> str:
    """An amount of privacy loss as it is printed, never below what it is."""
    return privacy.typeset(privacy.rounded_up(amount, digits))


def example_word(model: PrivateClassifier) -> str:
    """What the private examples were: 'picture' or 'row'."""
    return "row" if len(model.facts.shape) == 1 else "picture"


def percent_up(share: float) -> str:
    """An attacker's rate, never below what it is."""
    return f"{privacy.rounded_up(100 * min(1.0, max(0.0, share)), 3)}%"


def factor(guarantee: privacy.Guarantee) -> tuple[str | doc.Superscript, ...]:
    """By how much one example can change the probability of an outcome."""
    epsilon = guarantee.epsilon
    return "e", doc.Superscript("ε"), f" = {up(math.exp(epsilon) if epsilon < 700 else math.inf, 3)}"


def plus_delta(guarantee: privacy.Guarantee) -> str:
    """What is added to that factor where δ is not 0."""
    return f", plus δ = {up(guarantee.delta)}" if guarantee.delta else ""


def counted_as(person_bound: float) -> str:
    """How much one person, with all their examples, counts.

    >>> counted_as(1.0), counted_as(2.5)
    ('at most one example in every answer', 'at most 2.5 examples in every answer')
    """
    most = "one example" if person_bound == 1 else f"{privacy.number(person_bound)} examples"
    return f"at most {most} in every answer"


def _guarantee(model: PrivateClassifier) -> Iterator[doc.Block]:
    guarantee, unit = model.guarantee, model.guarantee.unit
    changes = f"No single {ONE[unit]} changes the probability of any outcome, this model included, by more"
    most = (" than a factor of ", *factor(guarantee), f"{plus_delta(guarantee)}.")
    yield doc.Paragraph(doc.Words((changes, *most)))
    label_kept = privacy.LABEL_KEPT in guarantee.assumptions
    if guarantee.relation is privacy.Relation.ADD_REMOVE:
        declared = ", beyond what is declared below" * (model.facts.declared_size is not None)
        yield doc.Paragraph(
            f"Two data sets are neighbours if one has one {unit.words} more than the other, and they are "
            f"equal otherwise. The guarantee protects whether {_A[unit]} is present, and the number of "
            f"{MANY[unit]}{declared}."
        )
    else:
        label = "with the same label in both" if label_kept else "label included"
        all_of_it = label if unit is privacy.Unit.ROW else "with all their examples"
        yield doc.Paragraph(
            f"Two data sets are neighbours if they have equally many {MANY[unit]} and differ in one of "
            f"them, {all_of_it}. The guarantee protects what {_A[unit]} contributes; the number of "
            f"{MANY[unit]} is public."
        )
    of_row = f" (one {example_word(model)}{', and not its label' if label_kept else ' and its label'})"
    rows = [
        ("epsilon", up(guarantee.epsilon)),
        ("delta", up(guarantee.delta)),
        ("relation", guarantee.relation.value),
        ("privacy unit", f"one {unit.words}" + of_row * (unit is privacy.Unit.ROW)),
    ]
    if unit is privacy.Unit.PERSON:
        rows.append(("a person counts as", counted_as(model.facts.person_bound)))
    sampled = any(steps.sampled for steps in all_steps(model.events))
    for name, amount in (("zCDP ρ", guarantee.rho), ("GDP μ", guarantee.mu)):
        if amount is not None:
            rows.append((name, up(amount) + " (sampling not counted)" * sampled))
    yield doc.Table.of("Quantity | Value", rows)
    if guarantee.assumptions:
        yield doc.Paragraph("This holds assuming:")
        yield doc.Bullets(guarantee.assumptions)


def _attacker(model: PrivateClassifier) -> Iterator[doc.Block]:
    points, advantage = attack_points(model.events), membership_advantage(model.events)
    limits = {
        "true positive rate at 1% false positives": dict(points)[0.01],
        "true positive rate at 0.1% false positives": dict(points)[0.001],
        "membership advantage (true minus false positive rate)": advantage,
        "share of right guesses (a coin flip: 50%)": (1 + advantage) / 2,
    }
    wanted, best = "whether that one was used", "No attack does better than a blind guess."
    if model.guarantee.relation is privacy.Relation.REPLACE_ONE:
        wanted = "which of two candidates that one is; the one that was used is the member"
    if model.events:
        best = "No attack can exceed these limits, which follow from the steps below."
    known = f"Suppose an attacker knows all {MANY[model.guarantee.unit]} but one, has this file,"
    yield doc.Paragraph(f"{known} and wants to know {wanted}. {best}")
    rows = ((name, percent_up(limit)) for name, limit in limits.items())
    yield doc.Table.of("Membership inference | At most", rows, "lr")
    yield attack_curve(points)


def attack_points(events: tuple[privacy.Event, ...]) -> tuple[tuple[float, float], ...]:
    """False positive rates from 0 to 1, with the largest true positive rate at each.

    >>> from dptransfer.privacy import GaussianEvent
    >>> attack_points((GaussianEvent(1.0, privacy.Relation.ADD_REMOVE),))[-1]
    (1.0, 1.0)
    """
    return (*zip(_RATES, rate_ceilings(events, _RATES).tolist(), strict=True), (1.0, 1.0))


def attack_curve(points: tuple[tuple[float, float], ...]) -> doc.Figure:
    """True against false positive rate, both from 0 to 1, with the diagonal of pure guessing."""
    # The square of `attack_curve.svg` has its corner at (46, 270) and sides of 260.
    line = " ".join(f"{46 + 260 * alarm:.1f},{270 - 260 * found:.1f}" for alarm, found in points)
    rows = [(f"{100 * alarm:.3g}%", percent_up(found)) for alarm, found in (*points[:-1:4], points[-1])]
    return doc.Figure(
        "attack-curve",
        read_drawing("attack_curve.svg").format(points=line),
        alt="Largest true positive rate of an attack, by false positive rate",
        caption="The best possible attack (line) against guessing (dashes): the closer, the less it learns.",
        instead=doc.Table.of("False positive rate | True positive rate, at most", rows, "rr"),
    )


def read_drawing(name: str) -> str:
    """A drawing of this package, to be filled in."""
    return files("dptransfer.release").joinpath(name).read_text(encoding="utf-8")


def _covered(model: PrivateClassifier) -> Iterator[doc.Block]:
    delta, unit = model.guarantee.delta, model.guarantee.unit
    groups = [
        (str(size), epsilon_of([privacy.for_group(event, size) for event in model.events], delta))
        for size in (1, 2, 5)
    ]
    if (single := _of_one_example(model)) is not None:
        groups.insert(1, ("one example of a person whose others stay", single))
    yield doc.Paragraph("The guarantee covers, for ever and against any other knowledge:")
    covered = "the weights in this release;", "every prediction made from them;"
    yield doc.Bullets((*covered, "any further processing of either."))
    yield doc.Paragraph("It does not cover:")
    tests, theirs = "test data used for an evaluation;", "their examples"
    if model.charged is not None:
        tests = "test data, except those of the protected results under Utility;"
    several = "several people,"
    if unit is privacy.Unit.ROW:
        theirs, several = "their example", "several examples of one person, or correlated ones,"
    yield doc.Bullets(
        (
            tests,
            "the public pool, and the data the encoder was trained on;",
            "facts declared public, such as a declared number of examples, which includes the person;",
            f"conclusions about a person from patterns that hold without {theirs};",
            "other releases from the same data, whose privacy losses add up (see the ledger);",
            f"{several} beyond these limits:",
        )
    )
    rows = ((name, up(own), up(delta)) for name, own in groups)
    yield doc.Table.of(f"{MANY[unit].capitalize()} in the group | ε | at δ", rows, "lrr")


def _of_one_example(model: PrivateClassifier) -> float | None:
    """ε for one example of a person whose others are known to be there; None where that is no more.

    Where persons are added and removed it is: with and without the example a person counts differently, and
    the two are twice as far apart as with and without the person (`privacy.event`).
    """
    guarantee = model.guarantee
    if guarantee.unit is privacy.Unit.ROW or guarantee.relation is privacy.Relation.REPLACE_ONE:
        return None
    try:
        rows = [privacy.for_rows(event, guarantee.relation) for event in model.events]
        return epsilon_of(rows, guarantee.delta)
    except RelationMismatch:  # samples of persons
        return None


def _public_facts(model: PrivateClassifier) -> Iterator[doc.Block]:
    facts, delta = model.facts, model.encoder_delta
    encoder = model.encoder if delta is None else delta.base  # what was changed in it is under the guarantee
    counts = doc.first_few([str(count) for count in facts.class_counts or ()])
    each = f"about {privacy.number(facts.rows_per_person)}" if facts.rows_per_person else ""  # never how many
    tuned = " and ".join(str(len(own)) for event in plain_steps(model.events) if (own := event.trials()))
    settings = f"tuned on private data among {tuned} public candidates, within the guarantee"
    rows = {
        f"classes ({len(facts.classes)})": doc.first_few([str(name) for name in facts.classes]),
        "examples": facts.form,
        "columns": None if facts.columns is None else doc.first_few(facts.columns),
        "number of examples": "not declared" if facts.size is None else f"about {facts.size}",
        "class sizes": counts or "not declared",
        "examples of one person": None if facts.unit is privacy.Unit.ROW else each or "not declared",
        "encoder": "not on record" if encoder is None else str(encoder),
        "hyper-parameters": settings if tuned else "public; none was tuned on private data",
    }
    yield doc.Paragraph("The data owner declared these facts public; the guarantee does not protect them.")
    yield doc.Table.of("Fact | Value", ((name, said) for name, said in rows.items() if said is not None))


def _accounting(model: PrivateClassifier) -> Iterator[doc.Block]:
    count = len(model.events)
    if not count:
        yield doc.Paragraph(
            "No private row was used: no noisy step ran, and this model would be the same without the data. "
            "Its privacy cost is zero."
        )
        return
    relation = model.guarantee.relation.words(model.guarantee.unit)
    yield doc.Paragraph(f"Only these noisy steps read private {example_word(model)}s ({relation}):")
    rows = (
        (str(place), event.label or "(no label)", *map(privacy.typeset, event.table_row()))
        for place, event in enumerate(model.events[:_MOST_EVENTS], start=1)
    )
    yield doc.Table.of("# | Step | Noise | Detail", rows, "r")
    if count > _MOST_EVENTS:
        yield doc.Paragraph(f"The first {_MOST_EVENTS} of {count} are shown; release.json lists all.")
    yield doc.Paragraph(f"{composition_words(model.events)} The reported ε is rounded up.")


def _numerics(model: PrivateClassifier) -> doc.Block:
    if not model.events:
        return doc.Paragraph("No noise was drawn.")
    exact = f"What a private {example_word(model)} adds is converted to integers before it is summed"
    odd = "A picture that cannot be read counts as a black one"
    if example_word(model) == "row":
        odd = "A row with a NaN or an infinity counts as a row of zeros"
    if model.provenance.answers is not None:
        exact = "Votes of teachers are whole numbers"
    source = (
        "Noise comes from exact samplers on integers, and selections from exact draws on integer scores. "
        "Their randomness comes from the operating system's cryptographic generator, or from AES-256 with a "
        "fresh key from it; no seed exists."
    )
    if model.provenance.seeded:
        source = (
            "SEEDED: anyone who has the seed can repeat the noise. This file is for tests and benchmarks."
        )
    # What it costs a tuned release is inside of the trials, which are not added up.
    tuned = any(event.trials() for event in plain_steps(model.events))
    cost = f", ε = {up(math.fsum(event.numeric_epsilon for event in model.events), 3)}" * (not tuned)
    cut = math.fsum(event.numeric_delta for event in model.events)
    tails = (
        "The sampler truncates the far tails of the noise, which makes a difference with probability at most "
        f"{up(cut, 3)}. ε and δ include this; ρ and μ are those of noise with whole tails."
    )
    sums = f"{exact}, so sums and sensitivities are exact."
    odd = f"{odd}; the release does not reveal whether there was one."
    grid = f"The guarantee includes the cost of the integer grid{cost}."
    return doc.Bullets((f"{sums} {odd}", source, grid, *([tails] if cut else [])))
