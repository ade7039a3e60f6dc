"""The number of prototypes per class that does best, against the budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dptransfer_lab.figures.curves import panel_words, thinned
from dptransfer_lab.figures.drawing import Drawing, labelled, sheet
from dptransfer_lab.figures.points import (
    METRIC_WORDS,
    axis_epsilon,
    by,
    caption,
    done,
    figure_name,
    slug,
    split,
    spread,
)
from dptransfer_lab.figures.style import COLOURS, INK
from dptransfer_lab.results import Record

_MARKERS = "os^DvPh<>pd"


def best_k(records: Sequence[Record], *, metric: str = "balanced_accuracy") -> dict[float, tuple[int, float]]:
    """For each ε the K with the largest mean over seeds, and that mean; ties go to the smaller K."""
    found: dict[float, tuple[int, float]] = {}
    tried = [record for record in done(records) if isinstance(record["settings"].get("k"), int)]
    for epsilon, members in by(tried, lambda record: axis_epsilon(record["budget"])).items():
        for k, some in by(members, lambda record: record["settings"]["k"]).items():
            point = spread(some, metric)
            if point is not None and (epsilon not in found or point["mean"] > found[epsilon][1]):
                found[epsilon] = (k, point["mean"])
    return found


def optimal_k(records: Sequence[Record], *, metric: str = "balanced_accuracy") -> list[Drawing]:
    """The best K against ε, a line per imbalance ratio; a figure per data set where several K were tried."""
    tried = [record for record in done(records) if isinstance(record["settings"].get("k"), int)]
    figures = []
    for members in split(tried, over=("imbalance",)):
        several = len({record["settings"]["k"] for record in members}) > 1
        if several and len({axis_epsilon(record["budget"]) for record in members}) > 1:
            figures.append(_figure(members, metric))
    return figures


def _figure(records: list[Record], metric: str) -> Drawing:
    figure, [[axes]] = sheet(width=5.2, height=3.0)
    known = sorted({record["settings"]["k"] for record in records})
    lines: dict[Any, list[Record]] = by(records, lambda record: record["imbalance"])
    for place, (imbalance, members) in enumerate(lines.items()):
        found = best_k(members, metric=metric)
        shift = 1 + 0.05 * (place - (len(lines) - 1) / 2)  # lines that agree stay visible side by side
        axes.plot(
            list(found),
            [k * shift for k, _ in found.values()],
            color=COLOURS[place % len(COLOURS)].light,
            marker=_MARKERS[place % len(_MARKERS)],
            markersize=6,
            linewidth=1.5,
            label=panel_words("imbalance", imbalance),
            gid=slug("line", imbalance),
        )
    budgets = thinned(sorted({axis_epsilon(record["budget"]) for record in records}))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(budgets, [f"{value:.3g}" for value in budgets])
    axes.set_yticks(known, [str(k) for k in known])
    axes.minorticks_off()
    axes.set_ylim(known[0] / 1.25, known[-1] * 1.25)
    labelled(axes, x="ε (smaller promises more)", y="best K")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8, labelcolor=INK)
    first = records[0]
    what = (
        f"The K, of {', '.join(map(str, known))}, with the largest mean {METRIC_WORDS[metric]} at each ε on "
        f"{first['data']}; lines are moved apart by a few percent where they agree. The choice looks at test "
        "results, so it is oracle-tuned: no release may use it without paying"
    )
    return Drawing(
        name=figure_name(("best-k", metric), records, over=("imbalance",)),
        title=f"Best number of prototypes against ε: {first['data']}",
        caption=caption(what, records, bands="means over seeds", vary=("imbalance", "rows")),
        figure=figure,
    )
