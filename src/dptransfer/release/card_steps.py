"""The card's sections on the noisy steps: what ran, how it adds up, and on what numbers."""

from __future__ import annotations

import math

from dptransfer.privacy import (
    BestOfManyEvent,
    Event,
    GaussianEvent,
    SampledGaussianEvent,
    SelectionEvent,
    event_words,
    number,
    numeric_delta_of,
    numeric_epsilon_of,
    rounded_up,
)
from dptransfer.release.card import Block, Bullets, Paragraph, Section, Table, clean
from dptransfer.release.classifier import PrivateClassifier

_MOST_EVENTS = 50  # rows in the accounting table
_MOST_CANDIDATES = 5  # of a tuned step, in its row


def step_sections(model: PrivateClassifier) -> tuple[Section, ...]:
    """Accounting and numerics."""
    return _accounting(model), _numerics(model)


def _accounting(model: PrivateClassifier) -> Section:
    if not model.events:
        return Section(
            "Accounting",
            (
                Paragraph(
                    "No private row was used: no noisy step ran, and this model would be the same without "
                    "the data. It cost nothing."
                ),
            ),
        )
    rows = tuple(
        (str(place), clean(event.label) or "(no label)", *_step(event))
        for place, event in enumerate(model.events[:_MOST_EVENTS], start=1)
    )
    blocks: list[Block] = [
        Paragraph(
            f"{len(model.events)} noisy step{'s' * (len(model.events) != 1)} saw private rows, all under the "
            f"{model.guarantee.relation.value} relation:"
        ),
        Table(("#", "Step", "Noise", "Detail"), rows),
    ]
    if len(model.events) > _MOST_EVENTS:
        blocks.append(Paragraph(f"The first {_MOST_EVENTS} are shown; release.json lists all."))
    return Section("Accounting", (*blocks, Paragraph(_composition(model.events))))


def _step(event: Event) -> tuple[str, str]:
    """The noise and a detail, for the table."""
    if isinstance(event, SelectionEvent):
        detail = "bounded range" if event.bounded_range else "pure epsilon"
        return f"{clean(event.mechanism)}, epsilon {rounded_up(event.epsilon)}", detail
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
        how = "Gaussian steps compose exactly; epsilon is read off the exact Gaussian curve at delta."
    elif kinds == {SelectionEvent.kind}:
        how = (
            "Selections compose by the smallest of several valid bounds: the sum of epsilons, and at delta "
            "Rényi divergences and privacy loss distributions."
        )
    else:
        how = (
            "Gaussian steps compose exactly; with selections, by the smallest of several valid bounds: "
            "Gaussian DP, Rényi divergences and privacy loss distributions."
        )
    return f"{how} The reported epsilon is rounded up."


def _numerics(model: PrivateClassifier) -> Section:
    if not model.events:
        return Section("Numerics", (Bullets(("No noise was drawn.",)),))
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
        f"What the integer grid itself costs, epsilon {rounded_up(numeric, 3)}, is included above.",
    ]
    if cut:
        items.append(
            "The sampler cuts the far tails of the noise off. With probability at most "
            f"{rounded_up(cut, 3)} that made a difference; epsilon and delta include it, rho and mu are "
            "those of noise with whole tails."
        )
    return Section("Numerics", (Bullets(tuple(items)),))
