"""What a card says of charged test results: the figures, how the rows were drawn, and what it cost them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dptransfer.document import Block, Highlight, Paragraph, Table
from dptransfer.privacy import typeset
from dptransfer.release.card_figures import recall_bars
from dptransfer.release.charged_evaluation import ChargedEvaluation, percent, tells_something
from dptransfer.release.noisy_shares import Estimate, Z


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
