"""The card's sections on privacy: what is promised, what an attacker can learn, and on what grounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dptransfer.base.document import Block, Bullets, Paragraph, Section, Superscript, Table, Words
from dptransfer.errors import RelationMismatch
from dptransfer.privacy import (
    LABEL_KEPT,
    Event,
    Guarantee,
    Relation,
    Unit,
    for_group,
    for_rows,
    number,
    rounded_up,
    typeset,
)
from dptransfer.release.card_figures import attack_curve
from dptransfer.release.classifier import PrivateClassifier

_MOST_EVENTS = 50  # rows in the accounting table
_MOST_LISTED = 20
_RATES = (0.0, 1e-3, 3e-3, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
ONE = {Unit.ROW: "example", Unit.PERSON: "person"}
_A = {Unit.ROW: "an example", Unit.PERSON: "a person"}
MANY = {Unit.ROW: "examples", Unit.PERSON: "people"}


def privacy_sections(model: PrivateClassifier) -> tuple[Section, ...]:
    """What is promised, and on what grounds."""
    written = {
        "Guarantee": _guarantee,
        "What an attacker can learn": _attacker,
        "What is covered, and what is not": _covered,
        "Public by declaration": _public_facts,
        "Accounting": _accounting,
        "Numerics": _numerics,
    }
    return tuple(Section(title, tuple(blocks(model))) for title, blocks in written.items())


def up(amount: float, digits: int = 7) -> str:
    """An amount of privacy loss as it is printed, never below what it is."""
    return typeset(rounded_up(amount, digits))


def seen(model: PrivateClassifier) -> str:
    """What the private examples were: 'picture' or 'row'."""
    return "row" if len(model.facts.shape) == 1 else "picture"


def percent_up(share: float) -> str:
    """An attacker's rate, never below what it is."""
    return f"{rounded_up(100 * min(1.0, max(0.0, share)), 3)}%"


def factor(guarantee: Guarantee) -> tuple[str | Superscript, ...]:
    """By how much one example can change the probability of an outcome."""
    epsilon = guarantee.epsilon
    return "e", Superscript("ε"), f" = {up(math.exp(epsilon) if epsilon < 700 else math.inf, 3)}"


def counted_as(person_bound: float) -> str:
    """How much one person, with all their examples, counts.

    >>> counted_as(1.0), counted_as(2.5)
    ('at most one example in every answer', 'at most 2.5 examples in every answer')
    """
    most = "one example" if person_bound == 1 else f"{number(person_bound)} examples"
    return f"at most {most} in every answer"


def give_or_take(guarantee: Guarantee) -> str:
    """What is added to that factor where δ is not 0."""
    return f", give or take δ = {up(guarantee.delta)}" if guarantee.delta else ""


def first_few(words: Sequence[str]) -> str:
    """The first twenty, and how many more there are."""
    rest = len(words) - _MOST_LISTED
    return ", ".join(words[:_MOST_LISTED]) + (f" and {rest} more" if rest > 0 else "")


def attack_points(events: tuple[Event, ...]) -> tuple[tuple[float, float], ...]:
    """False positive rates from 0 to 1, with the largest true positive rate at each.

    >>> from dptransfer.privacy import GaussianEvent
    >>> attack_points((GaussianEvent(1.0, Relation.ADD_REMOVE),))[-1]
    (1.0, 1.0)
    """
    from dptransfer.accounting import rate_ceilings

    return (*zip(_RATES, rate_ceilings(events, _RATES).tolist(), strict=True), (1.0, 1.0))


def _guarantee(model: PrivateClassifier) -> Iterator[Block]:
    from dptransfer.accounting.steps import all_steps

    guarantee = model.guarantee
    unit = guarantee.unit
    yield Paragraph(
        Words(
            (
                f"No single {ONE[unit]} changes the probability of any outcome, this model included, ",
                "by more than a factor of ",
                *factor(guarantee),
                f"{give_or_take(guarantee)}.",
            )
        )
    )
    if guarantee.relation is Relation.ADD_REMOVE:
        yield Paragraph(
            f"Two data sets are neighbours if they are equal but for one {unit.words}, there in only one of "
            f"them. Whether {_A[unit]} is there at all is protected, and so is the number of {MANY[unit]}"
            f"{', beyond what is declared below' * (model.facts.declared_size is not None)}."
        )
    else:
        label = "with the same label in both" if LABEL_KEPT in guarantee.assumptions else "label included"
        all_of_it = label if unit is Unit.ROW else "with all their examples"
        yield Paragraph(
            f"Two data sets are neighbours if they have equally many {MANY[unit]} and differ in one of "
            f"them, {all_of_it}. What {_A[unit]} contributes is protected; the number of "
            f"{MANY[unit]} is public."
        )
    rows = [
        ("epsilon", up(guarantee.epsilon)),
        ("delta", up(guarantee.delta)),
        ("relation", guarantee.relation.value),
        ("privacy unit", f"one {unit.words}" + f" (one {seen(model)} and its label)" * (unit is Unit.ROW)),
    ]
    if unit is Unit.PERSON:
        rows.append(("a person counts as", counted_as(model.facts.person_bound)))
    if LABEL_KEPT in guarantee.assumptions:
        rows[-1] = ("privacy unit", f"one example (one {seen(model)}, and not its label)")
    sampled = any(steps.sampled for steps in all_steps(model.events))
    for name, amount in (("zCDP ρ", guarantee.rho), ("GDP μ", guarantee.mu)):
        if amount is not None:
            rows.append((name, up(amount) + " (sampling not counted)" * sampled))
    yield Table(("Quantity", "Value"), tuple(rows))
    if guarantee.assumptions:
        yield Paragraph("This holds assuming:")
        yield Bullets(guarantee.assumptions)


def _attacker(model: PrivateClassifier) -> Iterator[Block]:
    from dptransfer.accounting import membership_advantage

    events = model.events
    points, advantage = attack_points(events), membership_advantage(events)
    found = dict(points)
    limits = {
        "members found, at 1% false alarms": found[0.01],
        "members found, at 0.1% false alarms": found[0.001],
        "membership advantage (hits minus false alarms)": advantage,
        "right guesses, where a coin flip gets 50%": (1 + advantage) / 2,
    }
    asked = (
        "whether that one was used"
        if model.guarantee.relation is Relation.ADD_REMOVE
        else "which of two candidates that one is; the one that was used is a member"
    )
    yield Paragraph(
        f"Suppose an attacker knows all {MANY[model.guarantee.unit]} but one, has this file, and "
        f"wants to know {asked}. No attack can do better than this, "
        + ("as computed from the steps below." if events else "which is what a blind guess does.")
    )
    rows = tuple((name, percent_up(limit)) for name, limit in limits.items())
    yield Table(("Attack", "At most"), rows, align="lr")
    yield attack_curve(points)


def _covered(model: PrivateClassifier) -> Iterator[Block]:
    from dptransfer.accounting import epsilon_of

    delta, unit = model.guarantee.delta, model.guarantee.unit
    group = "several examples of one person or correlated ones" if unit is Unit.ROW else "several people"
    groups = tuple(
        (str(size), up(epsilon_of([for_group(event, size) for event in model.events], delta)), up(delta))
        for size in (1, 2, 5)
    )
    single = _of_one_example(model)
    if single is not None:
        groups = (
            groups[0],
            ("one example of a person whose others stay", up(single), up(delta)),
            *groups[1:],
        )
    covered = (
        "the weights in this release;",
        "every prediction made from them;",
        "any further processing of either.",
    )
    others = (
        "test data used for an evaluation;"
        if model.charged is None
        else "test data, but for those of the protected results under Utility;",
        "the public pool, and the data the encoder was trained on;",
        "facts declared public, and having been counted in them;",
        "what follows about a person from patterns that hold without "
        + ("their example;" if unit is Unit.ROW else "their examples;"),
        "other releases from the same data: their losses add, see the ledger;",
        f"{group}, beyond these numbers:",
    )
    yield Paragraph("Covered, for ever and whatever else becomes known:")
    yield Bullets(covered)
    yield Paragraph("Not covered:")
    yield Bullets(others)
    yield Table((f"{MANY[unit].capitalize()} in the group", "ε", "at δ"), groups, align="lrr")


def _of_one_example(model: PrivateClassifier) -> float | None:
    """ε for one example of a person whose others are known to be there; None where that is no more.

    Where persons are added and removed it is: with and without the example a person counts differently, and
    the two are twice as far apart as with and without the person (`privacy.restate`).
    """
    from dptransfer.accounting import epsilon_of

    guarantee = model.guarantee
    if guarantee.unit is Unit.ROW or guarantee.relation is Relation.REPLACE_ONE:
        return None
    try:
        return epsilon_of([for_rows(event, guarantee.relation) for event in model.events], guarantee.delta)
    except RelationMismatch:  # samples of persons
        return None


def _public_facts(model: PrivateClassifier) -> Iterator[Block]:
    facts, delta = model.facts, model.encoder_delta
    encoder = model.encoder if delta is None else delta.base  # what was changed in it is under the guarantee
    counts = None if facts.class_counts is None else first_few([str(count) for count in facts.class_counts])
    yield Paragraph("The data owner made these public; the guarantee does not protect them.")
    rows = (
        (f"classes ({len(facts.classes)})", first_few([str(name) for name in facts.classes])),
        ("examples", facts.form),
        *(() if facts.columns is None else (("columns", first_few(facts.columns)),)),
        ("number of examples", "not declared" if facts.size is None else f"about {facts.size}"),
        ("class sizes", counts or "not declared"),
        *_about_people(model),
        ("encoder", "not on record" if encoder is None else str(encoder)),
        ("hyper-parameters", _settings(model)),
    )
    yield Table(("Fact", "Value"), rows)


def _about_people(model: PrivateClassifier) -> tuple[tuple[str, str], ...]:
    """What is declared about people; never how many there are."""
    facts = model.facts
    if facts.unit is Unit.ROW:
        return ()
    each = facts.rows_per_person
    return (("examples of one person", "not declared" if each is None else f"about {number(each)}"),)


def _settings(model: PrivateClassifier) -> str:
    from dptransfer.accounting.branches import plain_steps

    tuned = [event.trials() for event in plain_steps(model.events) if event.trials()]
    if not tuned:
        return "public; none was chosen on private data"
    counts = " and ".join(str(len(candidates)) for candidates in tuned)
    return f"chosen on private data among {counts} public candidates; the choice is paid for"


def _accounting(model: PrivateClassifier) -> Iterator[Block]:
    from dptransfer.accounting import composition_words

    count = len(model.events)
    if not count:
        yield Paragraph(
            "No private row was used: no noisy step ran, and this model would be the same without the data. "
            "It cost nothing."
        )
        return
    relation = model.guarantee.relation.words(model.guarantee.unit)
    yield Paragraph(f"Private {seen(model)}s were seen by these noisy steps alone, all {relation}:")
    rows = tuple(
        (str(place), event.label or "(no label)", *map(typeset, event.table_row()))
        for place, event in enumerate(model.events[:_MOST_EVENTS], start=1)
    )
    yield Table(("#", "Step", "Noise", "Detail"), rows, align="r")
    if count > _MOST_EVENTS:
        yield Paragraph(f"The first {_MOST_EVENTS} of {count} are shown; release.json lists all.")
    yield Paragraph(f"{composition_words(model.events)} The reported ε is rounded up.")


def _numerics(model: PrivateClassifier) -> Iterator[Block]:
    from dptransfer.accounting.branches import plain_steps

    if not model.events:
        yield Paragraph("No noise was drawn.")
        return
    # What it costs a tuned release is inside of the trials, which are not added up.
    tuned = any(event.trials() for event in plain_steps(model.events))
    costs = f", ε = {up(math.fsum(event.numeric_epsilon for event in model.events), 3)}," * (not tuned)
    cut = math.fsum(event.numeric_delta for event in model.events)
    source = (
        "SEEDED: the noise can be repeated by anyone who has the seed. This file is for tests and benchmarks."
        if model.provenance.seeded
        else "Noise comes from exact samplers on integers, and selections from an exact race on integer "
        "scores. Both are fed by the operating system's cryptographic generator, or by AES-256 with a fresh "
        "key from it; no seed exists."
    )
    odd = (
        "A row with a NaN or an infinity counts as a row of zeros"
        if seen(model) == "row"
        else "A picture that cannot be read counts as a black one"
    )
    items = [
        f"{_summed(model)}, so sums and sensitivities are exact. {odd}; whether there was one is not told.",
        source,
        f"What the integer grid itself costs{costs} is included above.",
    ]
    if cut:
        items.append(
            f"The sampler cuts the far tails of the noise off. With probability at most {up(cut, 3)} that "
            "made a difference; ε and δ include it, ρ and μ are those of noise with whole tails."
        )
    yield Bullets(tuple(items))


def _summed(model: PrivateClassifier) -> str:
    """What is exact before noise is added to it."""
    if model.provenance.answers is not None:
        return "Votes of teachers are whole numbers"
    if seen(model) == "picture":
        return "What a private picture adds becomes integers before anything is summed"
    return "Private rows become integers before anything is summed"
