"""The card's sections on privacy: what is promised, what an attacker can learn, and on what grounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dptransfer.document import Block, Bullets, Paragraph, Section, Superscript, Table, Text, Words
from dptransfer.privacy import (
    BestOfManyEvent,
    Event,
    GaussianEvent,
    Guarantee,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    Unit,
    event_words,
    for_group,
    number,
    numeric_delta_of,
    numeric_epsilon_of,
    rounded_up,
    typeset,
)
from dptransfer.release.card_figures import attack_curve
from dptransfer.release.classifier import PrivateClassifier

_MOST_EVENTS = 50  # rows in the accounting table
_MOST_CANDIDATES = 5  # of a tuned step, in its row
_MOST_LISTED = 20
_RATES = (0.0, 1e-3, 3e-3, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
ONE = {Unit.ROW: "example", Unit.PERSON: "person"}
_A = {Unit.ROW: "an example", Unit.PERSON: "a person"}
_MANY = {Unit.ROW: "examples", Unit.PERSON: "people"}


def privacy_sections(model: PrivateClassifier) -> tuple[Section, ...]:
    """What is promised, and on what grounds."""
    return (
        _guarantee(model),
        _attacker(model),
        _covered(model),
        _public_facts(model),
        _accounting(model),
        _numerics(model),
    )


def up(amount: float, digits: int = 7) -> str:
    """An amount of privacy loss as it is printed, never below what it is."""
    return typeset(rounded_up(amount, digits))


def percent_up(share: float) -> str:
    """An attacker's rate, never below what it is."""
    return f"{rounded_up(100 * _rate(share), 3)}%"


def factor(guarantee: Guarantee) -> tuple[str | Superscript, ...]:
    """By how much one example can change the probability of an outcome."""
    epsilon = guarantee.epsilon
    return "e", Superscript("ε"), f" = {up(math.exp(epsilon) if epsilon < 700 else math.inf, 3)}"


def give_or_take(guarantee: Guarantee) -> str:
    """What is added to that factor where δ is not 0."""
    return f", give or take δ = {up(guarantee.delta)}" if guarantee.delta else ""


def first_few(words: Sequence[str]) -> str:
    """The first twenty, and how many more there are."""
    rest = len(words) - _MOST_LISTED
    return ", ".join(words[:_MOST_LISTED]) + (f" and {rest} more" if rest > 0 else "")


def attack_points(events: tuple[Event, ...]) -> tuple[tuple[float, float], ...]:
    """False positive rates from 0 to 1, with the largest true positive rate at each.

    With other than Gaussian steps the privacy curve δ(ε) costs milliseconds a point, so it is computed
    once, and every rate takes the best of the limits it sets: τ ≤ e^ε α + δ and 1 − α ≤ e^ε (1 − τ) + δ,
    for every ε.

    >>> attack_points((GaussianEvent(1.0, Relation.ADD_REMOVE),))[-1]
    (1.0, 1.0)
    """
    from dptransfer.accounting import delta_of, epsilon_of, true_positive_rate

    if all(isinstance(event, GaussianEvent) for event in events):
        return (*((rate, _rate(true_positive_rate(events, rate))) for rate in _RATES), (1.0, 1.0))
    top = min(epsilon_of(events, 1e-6), 50.0)
    curve = [(top * step / 48, delta_of(events, top * step / 48)) for step in range(49)]
    return (*((rate, min(_limit(rate, e, d) for e, d in curve)) for rate in _RATES), (1.0, 1.0))


def _limit(rate: float, epsilon: float, delta: float) -> float:
    by_alarm = math.exp(epsilon) * rate + delta
    by_miss = 1 - math.exp(-epsilon) * max(0.0, 1 - rate - delta)
    return _rate(min(by_alarm, by_miss) + 1e-12)  # a hair for rounding


def _rate(value: float) -> float:
    return min(1.0, max(0.0, float(value)))


def _guarantee(model: PrivateClassifier) -> Section:
    guarantee = model.guarantee
    rows = [
        ("epsilon", up(guarantee.epsilon)),
        ("delta", up(guarantee.delta)),
        ("relation", guarantee.relation.value),
        (
            "privacy unit",
            f"one {guarantee.unit.words}" + " (one row and its label)" * (guarantee.unit is Unit.ROW),
        ),
    ]
    sampled = any(isinstance(event, SampledGaussianEvent) for event in model.events)
    for name, amount in (("zCDP ρ", guarantee.rho), ("GDP μ", guarantee.mu)):
        if amount is not None:
            rows.append((name, up(amount) + " (sampling not counted)" * sampled))
    promise = (
        f"No single {ONE[guarantee.unit]} changes the probability of any outcome, this model included, ",
        "by more than a factor of ",
        *factor(guarantee),
        f"{give_or_take(guarantee)}.",
    )
    blocks: list[Block] = [
        Paragraph(Words(promise)),
        Paragraph(_neighbours(guarantee)),
        Table(("Quantity", "Value"), tuple(rows)),
    ]
    if guarantee.assumptions:
        blocks += [Paragraph("This holds assuming:"), Bullets(guarantee.assumptions)]
    return Section("Guarantee", tuple(blocks))


def _neighbours(guarantee: Guarantee) -> str:
    unit = guarantee.unit
    if guarantee.relation is Relation.ADD_REMOVE:
        return (
            f"Two data sets are neighbours if they are equal but for one {unit.words}, there in only one of "
            f"them. Whether {_A[unit]} is there at all is protected, and so is the number of {_MANY[unit]}."
        )
    return (
        f"Two data sets are neighbours if they have equally many {_MANY[unit]} and differ in one of them, "
        f"label included. What {_A[unit]} contributes is protected; the number of {_MANY[unit]} is public."
    )


def _attacker(model: PrivateClassifier) -> Section:
    from dptransfer.accounting import membership_advantage, true_positive_rate

    events = model.events
    advantage = membership_advantage(events)
    limits = (
        ("members found, at 1% false alarms", true_positive_rate(events, 0.01)),
        ("members found, at 0.1% false alarms", true_positive_rate(events, 0.001)),
        ("membership advantage (hits minus false alarms)", advantage),
        ("right guesses, where a coin flip gets 50%", (1 + advantage) / 2),
    )
    return Section(
        "What an attacker can learn",
        (
            Paragraph(
                f"Suppose an attacker knows all {_MANY[model.guarantee.unit]} but one, has this file, and "
                "wants to know whether that one was used. No attack can do better than this, "
                + ("as computed from the steps below." if events else "which is what a blind guess does.")
            ),
            Table(
                ("Attack", "At most"), tuple((name, percent_up(limit)) for name, limit in limits), align="lr"
            ),
            attack_curve(attack_points(events)),
        ),
    )


def _covered(model: PrivateClassifier) -> Section:
    from dptransfer.accounting import epsilon_of

    delta, unit = model.guarantee.delta, model.guarantee.unit
    person = (
        "several examples of one person or correlated examples" if unit is Unit.ROW else "people together"
    )
    groups = tuple(
        (str(size), up(epsilon_of([for_group(event, size) for event in model.events], delta)), up(delta))
        for size in (1, 2, 5)
    )
    return Section(
        "What is covered, and what is not",
        (
            Paragraph("Covered, for ever and whatever else becomes known:"),
            Bullets(
                (
                    "the weights in this release;",
                    "every prediction made from them;",
                    "any further processing of either.",
                )
            ),
            Paragraph("Not covered:"),
            Bullets(
                (
                    "test data used for an evaluation;",
                    "the public pool, and the data the encoder was trained on;",
                    "facts declared public, and having been counted in them;",
                    "what follows about a person from patterns that hold without their example;",
                    "other releases from the same data: their losses add, see the ledger;",
                    f"{person}, beyond these numbers:",
                )
            ),
            Table((f"{_MANY[unit].capitalize()} in the group", "ε", "at δ"), groups, align="lrr"),
        ),
    )


def _public_facts(model: PrivateClassifier) -> Section:
    facts = model.facts
    counts = None if facts.class_counts is None else first_few([str(count) for count in facts.class_counts])
    rows: tuple[tuple[Text, Text], ...] = (
        (f"classes ({len(facts.classes)})", first_few([str(name) for name in facts.classes])),
        ("examples", facts.form),
        ("number of examples", "not declared" if facts.size is None else f"about {facts.size}"),
        ("class sizes", counts or "not declared"),
        ("encoder", "not on record" if model.encoder is None else str(model.encoder)),
        ("hyper-parameters", _settings(model)),
    )
    return Section(
        "Public by declaration",
        (
            Paragraph("The data owner made these public; the guarantee does not protect them."),
            Table(("Fact", "Value"), rows),
        ),
    )


def _settings(model: PrivateClassifier) -> str:
    tuned = [event for event in model.events if isinstance(event, BestOfManyEvent)]
    if not tuned:
        return "public; none was chosen on private data"
    counts = " and ".join(str(len(event.candidates)) for event in tuned)
    return f"chosen on private data among {counts} public candidates; the choice is paid for"


def _accounting(model: PrivateClassifier) -> Section:
    count = len(model.events)
    if not count:
        unused = (
            "No private row was used: no noisy step ran, and this model would be the same without the data."
        )
        return Section("Accounting", (Paragraph(f"{unused} It cost nothing."),))
    rows = tuple(
        (str(place), event.label or "(no label)", *map(typeset, _step(event)))
        for place, event in enumerate(model.events[:_MOST_EVENTS], start=1)
    )
    relation = model.guarantee.relation.value
    blocks: list[Block] = [
        Paragraph(
            f"{count} noisy step{'s' * (count != 1)} saw private rows, all under the {relation} relation:"
        ),
        Table(("#", "Step", "Noise", "Detail"), rows, align="r"),
    ]
    if count > _MOST_EVENTS:
        blocks.append(Paragraph(f"The first {_MOST_EVENTS} are shown; release.json lists all."))
    return Section("Accounting", (*blocks, Paragraph(_composition(model.events))))


def _step(event: Event) -> tuple[str, str]:
    """The noise and a detail, for the table."""
    if isinstance(event, SelectionEvent):
        detail = "bounded range" if event.bounded_range else "pure ε"
        return f"{event.mechanism}, ε = {rounded_up(event.epsilon)}", detail
    if isinstance(event, BestOfManyEvent):
        trials = [" and ".join(event_words(one) for one in trial) for trial in event.candidates]
        shown = [f"({n}) {words}" for n, words in enumerate(trials[:_MOST_CANDIDATES], start=1)]
        more = len(trials) - len(shown)
        return event_words(event, 6), "; ".join(shown) + (f"; and {more} more" if more else "")
    law = f"Gaussian noise, multiplier {number(event.noise_multiplier)}"
    if isinstance(event, SampledGaussianEvent):
        law += f", on {event.times} Poisson sample{'s' * (event.times != 1)}"
        law += f" at rate {number(event.sampling_rate)}"
        return law, f"a row contributes at most {number(event.sensitivity)}, scale {number(event.scale)}"
    law += f", {event.times} times" if event.times > 1 else ""
    return law, f"sensitivity {number(event.sensitivity)}, scale {number(event.scale)}"


def _composition(events: tuple[Event, ...]) -> str:
    kinds = {event.kind for event in events}
    if BestOfManyEvent.kind in kinds:
        how = (
            "Of the trials of a tuned step only the best was released; the number of trials was random. Its "
            "Rényi divergences follow from those of one trial (Papernot and Steinke 2022), and those of all "
            "steps are added."
        )
    elif SampledGaussianEvent.kind in kinds:
        how = (
            "Steps on random samples compose by the exact distribution of their privacy loss, on a grid that "
            "is rounded to the safe side. That nobody learns who was in a sample is part of the guarantee."
        )
    elif kinds == {GaussianEvent.kind}:
        how = "Gaussian steps compose exactly; ε is read off the exact Gaussian curve at δ."
    elif kinds == {SelectionEvent.kind}:
        how = (
            "Selections compose by the smallest of several valid bounds: the sum of their ε, and at δ "
            "Rényi divergences and privacy loss distributions."
        )
    else:
        how = (
            "Gaussian steps compose exactly; with selections, by the smallest of several valid bounds: "
            "Gaussian DP, Rényi divergences and privacy loss distributions."
        )
    return f"{how} The reported ε is rounded up."


def _numerics(model: PrivateClassifier) -> Section:
    if not model.events:
        return Section("Numerics", (Paragraph("No noise was drawn."),))
    numeric = math.fsum(map(numeric_epsilon_of, model.events))
    cut = math.fsum(map(numeric_delta_of, model.events))
    source = (
        "SEEDED: the noise can be repeated by anyone who has the seed. This file is for tests and benchmarks."
        if model.provenance.seeded
        else "Noise comes from exact samplers on integers, and selections from an exact race on integer "
        "scores. Both are fed by the operating system's cryptographic generator, or by AES-256 with a fresh "
        "key from it; no seed exists."
    )
    items = [
        "Private rows become integers before anything is summed, so sums and sensitivities are exact. A row "
        "with a NaN or an infinity counts as a row of zeros; whether there was one is not told.",
        source,
        f"What the integer grid itself costs, ε = {up(numeric, 3)}, is included above.",
    ]
    if cut:
        items.append(
            "The sampler cuts the far tails of the noise off. With probability at most "
            f"{up(cut, 3)} that made a difference; ε and δ include it, ρ and μ are "
            "those of noise with whole tails."
        )
    return Section("Numerics", (Bullets(tuple(items)),))
