"""Time and memory of a fit against the sizes of the task, on log axes, with the slope of each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dptransfer_lab.figures.curves import columns_for, thinned
from dptransfer_lab.figures.drawing import Drawing, labelled, legend, sheet
from dptransfer_lab.figures.points import (
    FACTORS,
    by_label,
    caption,
    done,
    line,
    opening,
    slug,
    split,
    value_of,
)
from dptransfer_lab.figures.style import Style
from dptransfer_lab.results import Record

SIZES = {"rows": "private rows", "dimension": "dimensions", "classes": "classes", "pool_rows": "public rows"}
COSTS = {"fit_seconds": "seconds per fit", "peak_mib": "peak memory of a fit, MiB"}
_BANDS = "the line is the median, the band reaches from the 25 % to the 75 % quantile over seeds and budgets"
_LEAST = {"fit_seconds": 1e-5, "peak_mib": 0.01}


def cost(
    records: Sequence[Record], styles: Mapping[str, Style], *, cost: str = "fit_seconds"
) -> list[Drawing]:
    """Cost against private rows, dimensions, classes and public rows: a panel for each that varies alone.

    Args:
        records: any records.
        styles: how each label is drawn.
        cost: 'fit_seconds' or 'peak_mib'.
    """
    usable = [record for record in done(records) if (value_of(record, cost) or 0.0) > 0.0]
    panels = {size: found for size in SIZES if (found := _varied(usable, size))}
    if not panels:
        return []
    columns = columns_for(len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = sheet(rows, columns, width=3.6, height=2.8)
    cells = [axes for row in grid for axes in row]
    slopes = {
        size: _panel(cells[place], found, styles, size, cost)
        for place, (size, found) in enumerate(panels.items())
    }
    for place, axes in enumerate(cells):
        labelled(axes, y=COSTS[cost] if place % columns == 0 else None)
        axes.set_visible(place < len(panels))
    shown = {record["label"] for found in panels.values() for record in found}
    legend(figure, [style for label, style in styles.items() if label in shown])
    everything = [record for found in panels.values() for record in found]
    told = "; ".join(f"{SIZES[size]}: {_told(found)}" for size, found in slopes.items() if found)
    cores = sorted({record["made"]["host_cores"] for record in everything})
    what = (
        f"{opening(COSTS[cost])} against {', '.join(SIZES[size] for size in panels)}, both axes logarithmic. "
        "Slopes of a straight line through the medians (1 is proportional): "
        f"{told or 'none, with fewer than three sizes'}. "
        f"Machine with {' or '.join(map(str, cores))} usable cores"
    )
    return [
        Drawing(
            name=slug("cost", cost, everything[0]["budget"]["flavour"]),
            title=f"{opening(COSTS[cost])} against size",
            caption=caption(what, everything, bands=_BANDS, vary=FACTORS),
            figure=figure,
        )
    ]


def _varied(records: Sequence[Record], size: str) -> list[Record]:
    """The largest set of records that differ in this size and in nothing else."""
    groups = [members for members in split(records, over=(size,)) if len({r[size] for r in members}) > 1]
    return max(groups, key=len, default=[])


def _panel(
    axes: object, records: Sequence[Record], styles: Mapping[str, Style], size: str, cost: str
) -> dict[str, float]:
    from matplotlib.axes import Axes
    from matplotlib.ticker import LogLocator, NullLocator

    assert isinstance(axes, Axes)
    slopes: dict[str, float] = {}
    lines = by_label(records)
    for label, style in styles.items():
        points = line(lines.get(label, []), cost, lambda record: float(record[size]))
        if not points:
            continue
        x = [place for place, _ in points]
        least = _LEAST[cost]
        middle, low, high = (
            [max(least, value) for value in column]
            for column in (
                [point["median"] for _, point in points],
                [point["quantiles"]["0.25"] for _, point in points],
                [point["quantiles"]["0.75"] for _, point in points],
            )
        )
        axes.fill_between(x, low, high, color=style.colour.light, alpha=0.16, linewidth=0)
        axes.plot(x, middle, gid=slug("line", label), **style.line())
        if len(x) > 2:
            slopes[label] = slope(x, middle)
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = thinned(sorted({float(record[size]) for record in records}), most=6)
    axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    labelled(axes, x=SIZES[size])
    return slopes


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of the least-squares line through log y against log x: the power of x that y grows with.

    >>> round(slope([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _told(slopes: Mapping[str, float]) -> str:
    return ", ".join(f"{label} {value:.2f}" for label, value in slopes.items())
