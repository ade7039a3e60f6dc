"""What a card says of charged test results: the figures, how the rows were drawn, and what it cost them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dptransfer.document import Block, Highlight, Paragraph, Table
from dptransfer.privacy import typeset
from dptransfer.release.card_figures import recall_bars
from dptransfer.release.charged_evaluation import ChargedEvaluation, percent
from dptransfer.release.noisy_shares import Z

_MOST_BARS = 50


def charged_highlight(charged: ChargedEvaluation, blind: str) -> Highlight:
    """Balanced accuracy, or accuracy where nothing can be said of any class."""
    name, found = "balanced accuracy", charged.balanced_accuracy
    if found.value is None:
        name, found = "accuracy", charged.accuracy
    if found.value is None:
        return Highlight(name, "nothing can be said", f"the test rows were too few for this budget; {blind}")
    said = f"{found.low:.1%} to {found.high:.1%} on protected test rows; {blind}"
    return Highlight(name, f"{found.value:.1%}", said, name.replace(" ", "_"), found.value)


def charged_weakest(charged: ChargedEvaluation) -> str:
    """The class of lowest recall, of those of which something can be said."""
    known = [(own.value, name) for own, name in zip(charged.recall, charged.classes, strict=True)]
    measured = [(value, name) for value, name in known if value is not None]
    if not measured:
        return "Of no class can its recall be said: there were too few test rows for this budget."
    value, name = min(measured, key=lambda one: one[0])
    return f"Its worst class is {name}, of which it finds about {value:.1%}."


def charged_blocks(charged: ChargedEvaluation) -> Iterator[Block]:
    """The section's text, table and bars."""
    size, give = charged.size.count, Z * math.sqrt(charged.size.variance)
    them = "of them" if charged.counts.bound.examples == 1 else "voices"
    yield Paragraph(
        f"Measured on {charged.whose}. There were about {max(0.0, size):.0f} {them}, give or take "
        f"{give:.0f}, as far as noise lets one say. Intervals are 95%, for sampling and noise together."
    )
    twice = " Of somebody who is in the rows of the fit too, both losses add up."
    yield Paragraph(typeset(charged.statement) + twice * (charged.holdout is None))
    rows = {
        "balanced accuracy": charged.balanced_accuracy,
        "accuracy": charged.accuracy,
        "expected calibration error": charged.calibration_error,
    }
    yield Table(("Measure, test rows protected", "Value"), tuple((k, percent(v)) for k, v in rows.items()))
    both = zip(charged.classes, charged.recall, charged.precision, strict=True)
    known = [(str(name), recall, precision) for name, recall, precision in both if recall.value is not None]
    if len(known) < len(charged.classes):
        few = f"{len(known)} of the {len(charged.classes)} classes"
        yield Paragraph(f"Recall can be told of {few}; the others had too few test rows for this budget.")
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
