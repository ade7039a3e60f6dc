"""The tables of a report: every number with its seeds and its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dptransfer_lab.figures.points import (
    AXIS_WORDS,
    METRIC_WORDS,
    axis_epsilon,
    by,
    by_label,
    done,
    held_fixed,
    split,
    spread,
)
from dptransfer_lab.figures.points import opening as _opening
from dptransfer_lab.figures.style import Style
from dptransfer_lab.page import Table
from dptransfer_lab.results import Record

_VARIED = ("imbalance",)
_OTHER = ("accuracy", "worst_class", "macro_f1", "calibration_error", "attack_auc")


def accuracy_tables(
    records: Sequence[Record], styles: Mapping[str, Style], metric: str = "balanced_accuracy"
) -> list[Table]:
    """One table per setting: a line per ratio and label, a column per ε."""
    tables = []
    for members in split(done(records), over=_VARIED):
        lines, budgets = [], sorted({axis_epsilon(record["budget"]) for record in members})
        ratios = by(members, lambda record: record["imbalance"])
        for ratio, some in ratios.items():
            labels = by_label(some)
            for label, style in styles.items():
                cells = by(labels.get(label, []), lambda record: axis_epsilon(record["budget"]))
                points = [spread(cells.get(budget, []), metric) for budget in budgets]
                if any(points):
                    first = [_ratio(ratio)] if len(ratios) > 1 else []
                    lines.append([*first, style.words, *(shown(point) for point in points)])
        if lines:
            words = 2 if len(ratios) > 1 else 1
            header = [
                *(["ratio"] if words == 2 else []),
                "method",
                *(f"ε = {budget:.3g}" for budget in budgets),
            ]
            tables.append(Table(_caption(members, metric), header, lines, words))
    return tables


def _caption(records: list[Record], metric: str) -> str:
    return (
        f"{_opening(METRIC_WORDS[metric])} in percent: mean over seeds, in brackets its 95 % interval "
        "(Student's t over "
        f"seeds), then the number of seeds. Held fixed: {held_fixed(records, vary=('imbalance', 'rows'))}."
    )


def shown(point: Mapping[str, Any] | None, *, scale: float = 100.0, digits: int = 1) -> str:
    """A mean with its interval and its number of seeds.

    >>> shown({"n": 3, "mean": 0.5, "low": 0.45, "high": 0.55})
    '50.0 [45.0, 55.0] n=3'
    >>> shown({"n": 1, "mean": 0.5, "low": None, "high": None})
    '50.0 n=1'
    """
    if point is None:
        return "–"
    mean = f"{scale * point['mean']:.{digits}f}"
    if point["low"] is None:
        return f"{mean} n={point['n']}"
    return f"{mean} [{scale * point['low']:.{digits}f}, {scale * point['high']:.{digits}f}] n={point['n']}"


def other_metrics(records: Sequence[Record], styles: Mapping[str, Style]) -> list[Table]:
    """Every other metric that was measured, by label, at the smallest and largest budget of each setting."""
    tables = []
    for members in split(done(records)):
        names = [name for name in _OTHER if spread(members, name) is not None]
        budgets = by(members, lambda record: axis_epsilon(record["budget"]))
        lines = []
        for budget in sorted({min(budgets), max(budgets)}):
            labels = by_label(budgets[budget])
            for label, style in styles.items():
                if label in labels:
                    values = [_other(labels[label], name) for name in names]
                    lines.append([f"{budget:.3g}", style.words, *values])
        header = ["ε", "method", *(AXIS_WORDS[name] for name in names)]
        area = " but for the area under the attack's curve (0.5 is a coin toss)"
        caption = (
            "Other measures at the smallest and the largest budget, in percent"
            f"{area if 'attack_auc' in names else ''}: mean over seeds [95 % interval] n = number of seeds. "
            f"Held fixed: {held_fixed(members)}."
        )
        tables.append(Table(caption, header, lines, 2))
    return tables


def _other(records: Sequence[Record], name: str) -> str:
    area = name == "attack_auc"
    return shown(spread(records, name), scale=1.0 if area else 100.0, digits=3 if area else 1)


def cost_table(records: Sequence[Record], styles: Mapping[str, Style]) -> Table | None:
    """Time and memory by data set and label, over everything else."""
    lines = []
    for (data, encoder), members in by(done(records), lambda r: (r["data"], r["encoder"])).items():
        labels = by_label(members)
        for label, style in styles.items():
            if label in labels:
                some = labels[label]
                sizes = sorted({record["rows"] for record in some})
                span = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
                seconds, overhead = (spread(some, name) for name in ("fit_seconds", "overhead_seconds"))
                memory = spread(some, "peak_mib")
                lines.append(
                    [
                        f"{data} ({encoder})",
                        style.words,
                        span,
                        _cost(seconds, 1.0, 3),
                        _cost(memory, 1.0, 1),
                        _cost(overhead, 1000.0, 1),
                    ]
                )
    if not lines:
        return None
    cores = sorted({record["made"]["host_cores"] for record in done(records)})
    caption = (
        "Cost over all cells of a method, seeds, ratios and budgets together: median, in brackets the 25 % "
        "and 75 % quantiles, then the number of cells. Overhead is what the laboratory adds to a cell "
        f"beyond fit, test and attack. Machine with {' or '.join(map(str, cores))} usable cores."
    )
    header = ["data", "method", "private rows", "fit, seconds", "peak memory, MiB", "overhead, ms"]
    return Table(caption, header, lines, 2)


def _cost(point: Mapping[str, Any] | None, scale: float, digits: int) -> str:
    if point is None:
        return "–"
    low, high = (scale * point["quantiles"][name] for name in ("0.25", "0.75"))
    return f"{scale * point['median']:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}] n={point['n']}"


def unfinished_table(records: Sequence[Record], styles: Mapping[str, Style]) -> Table | None:
    """Refused and failed cells, by reason."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record["status"] != "done":
            reason = str(record["message"] or "no reason was recorded")
            groups.setdefault((record["status"], record["label"], reason), []).append(record)
    if not groups:
        return None
    lines = []
    for (status, label, reason), members in sorted(groups.items(), key=lambda item: item[0]):
        places = sorted({record["data"] for record in members})
        budgets = sorted({axis_epsilon(record["budget"]) for record in members})
        span = f"{budgets[0]:.3g}" if len(budgets) == 1 else f"{budgets[0]:.3g} to {budgets[-1]:.3g}"
        name = styles[label].words if label in styles else label
        lines.append([status, name, ", ".join(places), span, reason, str(len(members))])
    caption = (
        "Cells without a result. Refused: the library said no, which is a result; failed: something went "
        "wrong twice. None of them is in any mean above."
    )
    return Table(caption, ["status", "method", "data", "ε", "reason", "cells"], lines, 5)


def settings_table(records: Sequence[Record], styles: Mapping[str, Style]) -> Table:
    """What each label is: its method, settings and marks."""
    lines = []
    seen = {record["label"]: record for record in reversed(records)}
    for label in styles:
        record = seen[label]
        settings = ", ".join(f"{name} = {_plain(value)}" for name, value in record["settings"].items())
        marks = [
            name.replace("_", " ").replace("not private", "NOT PRIVATE")
            for name, on in record["marks"].items()
            if on
        ]
        lines.append([label, record["method"], settings or "–", ", ".join(marks) or "–"])
    caption = "Every label: the method behind it, all of its settings, defaults included, and its marks."
    return Table(caption, ["label", "method", "settings", "marks"], lines, 4)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{name} {_plain(item)}" for name, item in value.items() if name != "type")
        return f"{value.get('type', '')}({inner})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _ratio(value: float) -> str:
    return "as they are" if value == 0 else f"{value:g}"
