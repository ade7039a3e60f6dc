"""Do the figures of test results follow from their own table? What the table says is the publisher's word."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dptransfer.release.evaluation import Evaluation, Interval, mean_interval, wilson

_ROUNDING = 1e-9


def wrong_figure(told: Evaluation) -> str | None:
    """The first figure that is not that of the table of right and wrong predictions; None if all are."""
    for name, recorded, implied in _figures(told):
        if not _same(recorded, implied):
            return name.replace("_", " ")
    return None


def _figures(told: Evaluation) -> Iterator[tuple[str, object, object]]:
    """Name, recorded and implied value of each figure; counts are told of public test sets alone."""
    shares = [recall for recall in told.recall if recall is not None]
    intervals = [interval for interval in told.recall_intervals if interval is not None]
    absent = [recall is None for recall in told.recall]
    yield "recall_intervals", [one is None for one in told.recall_intervals], absent
    if told.public and told.size is not None:
        yield from _from_counts(told, told.size, shares, intervals)
    else:
        yield "public", (told.size, list(told.support), list(told.confusion)), (None, [], [])
    yield "balanced_accuracy", told.balanced_accuracy, math.fsum(shares) / max(1, len(shares))
    yield "balanced_interval", told.balanced_interval, mean_interval(shares, intervals)
    known = dict(zip(told.classes, told.recall, strict=True))
    yield "worst_class", known.get(told.worst_class), min(shares, default=None)
    yield from _minority(told, known, dict(zip(told.classes, told.recall_intervals, strict=True)))


def _from_counts(
    told: Evaluation, size: int, shares: list[float], intervals: list[Interval]
) -> Iterator[tuple[str, object, object]]:
    support = told.support
    yield "size", size, sum(support)
    yield "recall", [recall is None for recall in told.recall], [rows == 0 for rows in support]
    hits = [round((recall or 0.0) * rows) for recall, rows in zip(told.recall, support, strict=True)]
    pairs = [(right, rows) for right, rows in zip(hits, support, strict=True) if rows]
    yield "recall", shares, [right / rows for right, rows in pairs]
    if told.confusion:
        table = np.array(told.confusion)
        yield "support", list(support), table.sum(axis=1).tolist()
        yield "recall", hits, table.diagonal().tolist()
        both = (table.sum(axis=0) + table.sum(axis=1))[table.sum(axis=1) > 0]
        yield "macro_f1", told.macro_f1, float((2 * table.diagonal()[table.sum(axis=1) > 0] / both).mean())
    yield "recall_intervals", intervals, [wilson(*pair) for pair in pairs]
    yield "accuracy", told.accuracy, sum(hits) / max(1, size)
    yield "accuracy_interval", told.accuracy_interval, wilson(sum(hits), max(1, size))


def _minority(
    told: Evaluation, recall: dict[str | int, float | None], intervals: dict[str | int, Interval | None]
) -> Iterator[tuple[str, object, object]]:
    seen = [name for name in told.minority_classes if recall.get(name) is not None]
    known = [(recall[name], intervals[name]) for name in seen]
    shares = [share for share, _ in known if share is not None]
    own = [interval for _, interval in known if interval is not None]
    yield "minority_accuracy", told.minority_accuracy, math.fsum(shares) / len(shares) if shares else None
    yield "minority_interval", told.minority_interval, mean_interval(shares, own) if shares else None


def _same(recorded: object, implied: object) -> bool:
    if isinstance(recorded, float) and isinstance(implied, float):
        return math.isclose(recorded, implied, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    if isinstance(recorded, list | tuple) and isinstance(implied, list | tuple):
        return len(recorded) == len(implied) and all(map(_same, recorded, implied))
    return recorded == implied
