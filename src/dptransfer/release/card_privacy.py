"""The card's sections on privacy: what is promised, and on what grounds."""

from __future__ import annotations

import math

from dptransfer.privacy import (
    BestOfManyEvent,
    Event,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    for_group,
    rounded_up,
)
from dptransfer.release.card import (
    AttackCurve,
    Block,
    Bullets,
    Paragraph,
    Section,
    Table,
    clean,
    some,
)
from dptransfer.release.card_steps import step_sections
from dptransfer.release.classifier import PrivateClassifier

_RATES = (0.0, 1e-3, 3e-3, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_NEIGHBOURS = {
    Relation.ADD_REMOVE: "Two data sets are neighbours if one has one labelled example that the other lacks. "
    "Whether an example is there at all is protected, and so is the number of examples.",
    Relation.REPLACE_ONE: "Two data sets are neighbours if they have equally many examples and differ in "
    "one of them, label included. The content of an example is protected; the number of examples is public.",
}


def privacy_sections(model: PrivateClassifier) -> tuple[Section, ...]:
    """What is promised, and on what grounds."""
    return (
        _guarantee(model),
        _attacker(model),
        _covered(model),
        _public_facts(model),
        *step_sections(model),
    )


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


def _guarantee(model: PrivateClassifier) -> Section:
    guarantee = model.guarantee
    rows = [
        ("epsilon", rounded_up(guarantee.epsilon)),
        ("delta", rounded_up(guarantee.delta)),
        ("relation", guarantee.relation.value),
        ("privacy unit", "one labelled example (one row and its label)"),
    ]
    sampled = any(isinstance(event, SampledGaussianEvent) for event in model.events)
    for name, amount in (("zCDP rho", guarantee.rho), ("GDP mu", guarantee.mu)):
        if amount is not None:
            rows.append((name, rounded_up(amount) + " (sampling not counted)" * sampled))
    blocks: list[Block] = [
        Paragraph(
            "No single example changes the probability of any outcome, this model included, by more than "
            f"a factor of {rounded_up(_factor(guarantee.epsilon), 3)} (e to the power epsilon)"
            + (f", give or take {rounded_up(guarantee.delta)} (delta)." if guarantee.delta else ".")
        ),
        Paragraph(_NEIGHBOURS[guarantee.relation]),
        Table(("Quantity", "Value"), tuple(rows)),
    ]
    if guarantee.assumptions:
        blocks += [
            Paragraph("This holds assuming:"),
            Bullets(tuple(clean(item) for item in guarantee.assumptions)),
        ]
    return Section("Guarantee", tuple(blocks))


def _attacker(model: PrivateClassifier) -> Section:
    from dptransfer.accounting import membership_advantage, true_positive_rate

    events = model.events
    advantage = membership_advantage(events)
    rates = {rate: _rate(true_positive_rate(events, rate)) for rate in (0.01, 0.001)}
    return Section(
        "What an attacker can learn",
        (
            Paragraph(
                "Suppose an attacker knows every example but one, has this file, and wants to know "
                "whether that one was used. These are upper limits on how well any attack can do, "
                + ("computed from the steps below." if events else "and they are those of a blind guess.")
            ),
            Table(
                ("Attack", "At most"),
                (
                    ("members found, at 1% false alarms", _percent_up(rates[0.01])),
                    ("members found, at 0.1% false alarms", _percent_up(rates[0.001])),
                    ("membership advantage (hits minus false alarms)", _percent_up(advantage)),
                    ("right guesses, where a coin flip gets 50%", _percent_up((1 + advantage) / 2)),
                ),
            ),
            AttackCurve(attack_points(events)),
        ),
    )


def _covered(model: PrivateClassifier) -> Section:
    from dptransfer.accounting import epsilon_of

    delta = model.guarantee.delta
    groups = tuple(
        (
            str(size),
            rounded_up(epsilon_of([for_group(event, size) for event in model.events], delta)),
            rounded_up(delta),
        )
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
                    "several examples of one person or correlated examples, beyond these numbers:",
                )
            ),
            Table(("Examples in the group", "epsilon", "at delta"), groups),
        ),
    )


def _public_facts(model: PrivateClassifier) -> Section:
    facts = model.facts
    counts = "not declared"
    if facts.class_counts is not None:
        counts = some([str(count) for count in facts.class_counts])
    return Section(
        "Public by declaration",
        (
            Paragraph("The data owner made these public; the guarantee does not protect them."),
            Table(
                ("Fact", "Value"),
                (
                    (f"classes ({len(facts.classes)})", some([clean(name) for name in facts.classes])),
                    ("examples", facts.form),
                    ("number of examples", "not declared" if facts.size is None else f"about {facts.size}"),
                    ("class sizes", counts),
                    ("encoder", "not on record" if model.encoder is None else clean(model.encoder)),
                    ("hyper-parameters", _settings(model)),
                ),
            ),
        ),
    )


def _settings(model: PrivateClassifier) -> str:
    tuned = [event for event in model.events if isinstance(event, BestOfManyEvent)]
    if not tuned:
        return "public; none was chosen on private data"
    counts = " and ".join(str(len(event.candidates)) for event in tuned)
    return f"chosen on private data among {counts} public candidates; the choice is paid for"


def _factor(epsilon: float) -> float:
    return math.exp(epsilon) if epsilon < 700 else math.inf


def _rate(value: float) -> float:
    return min(1.0, max(0.0, float(value)))


def _percent_up(share: float) -> str:
    return f"{rounded_up(100 * _rate(share), 3)}%"
