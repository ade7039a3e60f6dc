"""How useful a classifier is, for its card and for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from dptransfer.base.document import (
    Block,
    Code,
    Document,
    Figure,
    Highlight,
    Paragraph,
    Section,
    Table,
)
from dptransfer.base.document_html import escape_html, svg
from dptransfer.base.types import Floats
from dptransfer.exact.feature_map import STRETCHES, FittedSideBySide
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
from dptransfer.privacy import typeset
from dptransfer.release.charged_evaluation import ChargedEvaluation, percent, tells_something
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.evaluation import Evaluation
from dptransfer.release.heads import AverageHead, LinearHead, QuadraticHead, quadratic_form
from dptransfer.release.noisy_counts import Estimate, Z

Results: TypeAlias = Evaluation | ChargedEvaluation
Measure: TypeAlias = tuple[str, float, float, float]
"""A share by its name, its value, and the ends of its interval."""

NOT_PRIVATE = "NOT PRIVATE, DO NOT PUBLISH."
_MOST_BARS = 50
_MOST_IN_NOTEBOOK = 8


def best_results(model: PrivateClassifier, evaluation: Evaluation | None) -> Results | None:
    """Of charged results and those on unprotected rows, the ones with the narrower interval."""
    both: tuple[Results | None, ...] = (model.charged, evaluation)
    return min((found for found in both if found is not None), key=_width, default=None)


def _width(found: Results) -> float:
    figure = headline(found)
    return math.inf if figure is None else figure[3] - figure[2]


def headline(found: Results) -> Measure | None:
    """Balanced accuracy, or accuracy where that is too uncertain; None where both are."""
    if isinstance(found, Evaluation):
        return "balanced accuracy", found.balanced_accuracy, *found.balanced_interval
    figures = {"balanced accuracy": found.balanced_accuracy, "accuracy": found.accuracy}
    return next(_reported(figures.items()), None)


def _reported(estimates: Iterable[tuple[str, Estimate]]) -> Iterator[Measure]:
    for name, own in estimates:
        if own.value is not None and tells_something(own):
            yield name, own.value, own.low, own.high


def recalls(found: Results) -> list[Measure]:
    """The recall of each class for which one can be reported."""
    if isinstance(found, Evaluation):
        each = zip(found.classes, found.recall, found.recall_intervals, strict=True)
        return [(str(name), own, *ends) for name, own, ends in each if own is not None and ends is not None]
    return list(_reported(zip(map(str, found.classes), found.recall, strict=True)))


def highlight(found: Results | None, classes: int) -> Highlight:
    """The most telling number with its interval, or why there is none."""
    blind = f"blind guessing gets {1 / classes:.1%}"
    if found is None:
        return Highlight("balanced accuracy", "not measured", blind)
    figure = headline(found)
    if figure is None:
        said = f"too few protected test rows for this budget: no accuracy can be reported; {blind}"
        return Highlight("accuracy", "not reported", said)
    name, value, low, high = figure
    rows = found.count if isinstance(found, Evaluation) else "protected test rows"
    said = f"{low:.1%} to {high:.1%} on {rows}; {blind}"
    return Highlight(name, f"{value:.1%}", said, name.replace(" ", "_"), value)


def weakest_class(found: Results | None) -> str:
    """The class of lowest recall, in a sentence."""
    if found is None:
        return "Accuracy has not been measured for this card: see Utility."
    measured = recalls(found)
    if not measured:
        return "Too few test rows for this budget: no recall of a single class can be reported."
    name, value, *_ = min(measured, key=lambda one: one[1])
    few = len(found.classes) - len(measured)
    about = "about " * isinstance(found, ChargedEvaluation)
    rest = f" ({few} of {len(found.classes)} classes have too few test rows to tell)" if few else ""
    return f"The worst class is {name}: the model finds {about}{value:.1%} of its examples{rest}."


def utility_blocks(model: PrivateClassifier, evaluation: Evaluation | None) -> Iterator[Block]:
    """The section on utility: both kinds of results, or how to get them."""
    if model.charged is not None:
        yield from _charged_blocks(model.charged)
    elif evaluation is None:
        yield Paragraph(
            "Accuracy has not been measured for this card. To measure it on labelled test rows that are "
            "protected too, at a privacy cost of their own:"
        )
        yield Code("dptransfer evaluate DIR TEST --private --epsilon 0.2 --delta 0.00001")
        yield Paragraph("To measure it on test rows that need no protection, never on training data:")
        yield Code("dptransfer evaluate DIR TEST --add-to-card")
    if evaluation is not None:
        yield Paragraph(f"Measured on {evaluation.words}, with 95% intervals.")
        yield Paragraph(evaluation.statement)
        yield Table(("Measure", "Value"), tuple(_measures(evaluation).items()))
        yield from _recall_blocks(evaluation)


def _charged_blocks(found: ChargedEvaluation) -> Iterator[Block]:
    size, give = found.size.count, Z * math.sqrt(found.size.variance)
    what = "examples" if found.counts.bound.examples == 1 else "votes"
    yield Paragraph(
        f"Measured on {found.whose}. The noisy number of {what} is {max(0.0, size):.0f} ± {give:.0f}. "
        "Intervals are 95% and cover sampling and noise together."
    )
    twice = " For people who are also in the training data, the two privacy costs add up."
    yield Paragraph(typeset(found.statement) + twice * (found.holdout is None))
    yield Table(("Measure, test rows protected", "Value"), tuple(_measures(found).items()))
    known = len(recalls(found))
    if known < len(found.classes):
        few = f"{known} of the {len(found.classes)} classes"
        yield Paragraph(f"Recall is reported for {few}; the others had too few test rows for this budget.")
    yield from _recall_blocks(found)


def _measures(found: Results) -> dict[str, str]:
    if isinstance(found, ChargedEvaluation):
        return {
            "balanced accuracy": percent(found.balanced_accuracy),
            "accuracy": percent(found.accuracy),
            "expected calibration error": percent(found.calibration_error),
        }
    rows = {
        "balanced accuracy": share(found.balanced_accuracy, found.balanced_interval),
        "accuracy": share(found.accuracy, found.accuracy_interval),
    }
    if found.minority_accuracy is not None and found.minority_interval is not None:
        label = f"smallest quarter of classes (by {found.minority_source})"
        rows[label] = share(found.minority_accuracy, found.minority_interval)
    rows["macro F1"] = f"{found.macro_f1:.3f}"
    rows["worst class"] = str(found.worst_class)
    rows["expected calibration error"] = f"{found.calibration_error:.3f}"
    return rows


def _recall_blocks(found: Results) -> Iterator[Block]:
    bars = sorted(recalls(found), key=lambda bar: bar[1])
    if len(bars) > _MOST_BARS:
        yield Paragraph(f"The {_MOST_BARS} classes of lowest recall:")
        bars = bars[:_MOST_BARS]
    if bars:
        yield recall_bars(tuple(bars))
    if bars and isinstance(found, ChargedEvaluation):
        precision = {str(name): own for name, own in zip(found.classes, found.precision, strict=True)}
        yield Table(("Class", "Precision"), tuple((name, percent(precision[name])) for name, *_ in bars))


def recall_bars(bars: tuple[Measure, ...]) -> Figure:
    """One horizontal bar per class, with the interval of its recall."""
    left, span, step, longest, text = 136.0, 220.0, 22.0, 20, 'fill="var(--soft)"'
    parts = []
    for row, (name, value, low, high) in enumerate(bars):
        top = 4 + row * step
        middle = top + 7
        shown = escape_html(name if len(name) <= longest else name[: longest - 1] + "…")
        box = f'x="{left:.0f}" y="{top:.0f}" height="14" rx="3"'
        parts.append(
            f"<g><title>{escape_html(name)}</title>"
            f'<text {text} x="{left - 8:.0f}" y="{middle + 4:.0f}" text-anchor="end">{shown}</text>'
            f'<rect fill="var(--tint)" {box} width="{span:.0f}"/>'
            f'<rect fill="var(--accent)" {box} width="{span * value:.1f}"/>'
            f'<line stroke="var(--ink)" stroke-width="1.3" x1="{left + span * low:.1f}" '
            f'x2="{left + span * high:.1f}" y1="{middle:.0f}" y2="{middle:.0f}"/>'
            f'<text {text} x="{left + span + 8:.0f}" y="{middle + 4:.0f}">{value:.1%}</text></g>'
        )
    return Figure(
        "recall",
        svg(left + span + 52, 8 + len(bars) * step, "".join(parts)),
        alt="Recall of each class",
        caption="Recall of each class, with its 95% interval.",
        instead=Table(
            ("Class", "Recall", "95% interval", ""),
            tuple(
                (name, f"{value:.1%}", f"{low:.1%} to {high:.1%}", "█" * round(30 * value))
                for name, value, low, high in bars
            ),
            align="lrr",
        ),
    )


def results_summary(found: Results) -> Document:
    """Test results in a few lines, with the sentence that belongs to them."""
    support = found.support if isinstance(found, Evaluation) else ()
    counts = {str(name): str(count) for name, count in zip(found.classes, support, strict=False)}
    known = {name: share(value, (low, high)) for name, value, low, high in recalls(found)}
    named = [str(name) for name in found.classes[:_MOST_IN_NOTEBOOK]]
    rows = tuple((name, counts.get(name, "–"), known.get(name, "–")) for name in named)
    caption = f"The first {len(rows)} of {len(found.classes)} classes." * (len(rows) < len(found.classes))
    about = (("Worst class", str(found.worst_class)),) if isinstance(found, Evaluation) else ()
    of_measures = _measures(found)
    return Document(
        f"Test on {found.words if isinstance(found, Evaluation) else found.whose}",
        found.statement,
        warning=NOT_PRIVATE if isinstance(found, ChargedEvaluation) and found.seeded else None,
        highlights=tuple(
            Highlight(name.capitalize(), of_measures[name]) for name in ("balanced accuracy", "accuracy")
        ),
        about=about,
        sections=(Section("Recall", (Table(("Class", "Test rows", "Recall"), rows, caption, "lrr"),)),),
    )


def share(value: float, interval: tuple[float, float]) -> str:
    """A share with its interval, as people read it.

    >>> share(0.5, (0.25, 0.75))
    '50.0% (25.0% to 75.0%)'
    """
    return f"{value:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"


Words: TypeAlias = tuple[tuple[str, float], ...]
"""Labels of an encoder with their shares, the largest first."""

_MOST_WORDS = 5
_LEAST_SHARE = 0.02  # below, and in a vocabulary of a thousand, a label says little
_MOST_CLASSES = 50


def top_words(shares: Floats, names: Sequence[str], most: int = _MOST_WORDS) -> tuple[Words, ...]:
    """For each class the labels of largest share, by name; negligible ones are left out.

    Args:
        shares: (classes, labels), such as `SparsePosterior.shares`; each row adds up to 1.
        names: of the labels; of several names, separated by commas, the first is shown.
        most: labels per class.

    >>> top_words(np.array([[0.7, 0.29, 0.01], [0.0, 0.5, 0.5]]), ["cat", "dog", "car"], most=2)
    ((('cat', 0.7), ('dog', 0.29)), (('dog', 0.5), ('car', 0.5)))
    """
    order = np.argsort(-shares, axis=1, kind="stable")[:, :most]
    return tuple(
        tuple((names[word].partition(",")[0], float(own[word])) for word in best if own[word] >= _LEAST_SHARE)
        for own, best in zip(shares, order, strict=True)
    )


def words_of(model: PrivateClassifier, most: int = _MOST_WORDS) -> tuple[Words, ...] | None:
    """The encoder's labels that each class maps to, read off the released arrays; None without such a map.

    Linear weights are logarithms of shares up to a constant for each class, prototypes shares themselves.
    """
    features, head = model.features, model.head
    if isinstance(head, AverageHead) or not isinstance(features, FittedVocabularyMap | FittedSideBySide):
        return None
    weights = quadratic_form(head)[0]
    if isinstance(features, FittedSideBySide):
        split = features.first.dimension
        sides = (features.first, features.second), (weights[:, :split], weights[:, split:]), STRETCHES
        found = [
            (part, own / stretch)
            for part, own, stretch in zip(*sides, strict=True)
            if isinstance(part, FittedVocabularyMap)
        ]
    else:
        found = [(features, weights)]
    if not found:
        return None
    vocabulary, weights = found[0]
    if isinstance(head, LinearHead | QuadraticHead):
        shares = np.exp(weights - weights.max(axis=1, keepdims=True))
    else:
        shares = np.maximum(weights, 0.0)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    return top_words(shares, vocabulary.names, most)


def word_sections(model: PrivateClassifier) -> tuple[Section, ...]:
    """The section on the encoder's labels of each class; none for a model without such labels."""
    found = words_of(model)
    if found is None:
        return ()
    rows = tuple(
        (str(name), ", ".join(f"{word} {part:.0%}" for word, part in words) or "nothing in particular")
        for name, words in zip(model.classes, found, strict=True)
    )
    blocks: list[Block] = [
        Paragraph(
            "The encoder was trained to recognise labels of its own, and the method used them. The table "
            "shows which of them the released model takes as evidence for each class. It is read from the "
            "released weights, at no further privacy cost. Classes the encoder has no label for map to "
            "similar-looking labels; classes drowned by noise map to arbitrary ones."
        ),
        Table(("Class", "Labels of the encoder"), rows[:_MOST_CLASSES]),
    ]
    if len(rows) > _MOST_CLASSES:
        blocks.append(Paragraph(f"And {len(rows) - _MOST_CLASSES} classes more."))
    return (Section("Classes in the encoder's labels", tuple(blocks)),)
