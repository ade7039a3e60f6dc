"""What notebooks show of a classifier and of test results: a few lines, made from a `Document`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dptransfer.base.document import Document, Highlight, Section, Table, Text
from dptransfer.release.charged_evaluation import percent

if TYPE_CHECKING:
    from dptransfer.release.charged_evaluation import ChargedEvaluation
    from dptransfer.release.classifier import PrivateClassifier
    from dptransfer.release.evaluation import Evaluation, Interval

_NAMED = 8  # classes that are listed before the rest is counted
_NOT_PRIVATE = "NOT PRIVATE, DO NOT PUBLISH: the noise came from a seed."


def model_summary(model: PrivateClassifier) -> Document:
    """A classifier in a few lines: what it promises, and what it is."""
    encoder = "" if model.encoder is None else f", of the encoder {model.encoder.name}"
    about: list[tuple[str, Text]] = [
        ("Method", model.provenance.method),
        ("Classes", listed(model.classes)),
        ("Takes", f"rows of dimension {model.dimension}{encoder}"),
    ]
    if model.charged is not None:
        about.append(("Accuracy on private rows", percent(model.charged.accuracy)))
    if model.calibration is not None:
        about.append(("Probabilities", f"{model.calibration.words}."))
    return Document(
        model.provenance.title or "Private classifier",
        model.guarantee.in_short,
        warning=_NOT_PRIVATE if model.seeded else None,
        about=tuple(about),
    )


def evaluation_summary(found: Evaluation) -> Document:
    """Test results in a few lines, with the sentence that belongs to them, and the recall of each class."""
    support = found.support or ("–",) * len(found.classes)
    each = zip(found.classes, support, found.recall, found.recall_intervals, strict=True)
    rows = tuple(
        (str(name), str(count), "–" if recall is None else share(recall, interval))
        for name, count, recall, interval in list(each)[:_NAMED]
    )
    rest = len(found.classes) - len(rows)
    caption = f"The first {len(rows)} of {len(found.classes)} classes." if rest else ""
    return Document(
        f"Test on {found.words}",
        found.statement,
        highlights=(
            Highlight("Balanced accuracy", share(found.balanced_accuracy, found.balanced_interval)),
            Highlight("Accuracy", share(found.accuracy, found.accuracy_interval)),
            Highlight("Worst class", str(found.worst_class)),
        ),
        sections=(Section("Recall", (Table(("Class", "Test rows", "Recall"), rows, caption, "lrr"),)),),
    )


def charged_summary(found: ChargedEvaluation) -> Document:
    """Test results that protect the test rows, in a few lines."""
    return Document(
        "Charged evaluation",
        found.statement,
        warning=_NOT_PRIVATE if found.seeded else None,
        highlights=(
            Highlight("Balanced accuracy", percent(found.balanced_accuracy)),
            Highlight("Accuracy", percent(found.accuracy)),
        ),
        about=(("Averaged over", f"{found.whose}."),),
    )


def share(value: float, interval: Interval | None) -> str:
    """A share with its interval, as people read it.

    >>> share(0.5, (0.25, 0.75))
    '50.0% (25.0% to 75.0%)'
    """
    return f"{value:.1%}" if interval is None else f"{value:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"


def listed(classes: Iterable[str | int]) -> str:
    """How many, and the first of them by name."""
    names = [str(name) for name in classes]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)}: {', '.join(names[:_NAMED])}{more}"
