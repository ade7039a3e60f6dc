"""Performance boost against public shots: how much of the gap to no privacy the private data close."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dptransfer_lab.figures.curves import columns_for, thinned
from dptransfer_lab.figures.drawing import Drawing, labelled, legend, sheet, titled
from dptransfer_lab.figures.points import axis_epsilon, caption, done, figure_name, slug, split, value_of
from dptransfer_lab.figures.style import QUIET, Style
from dptransfer_lab.results import Record
from dptransfer_lab.summary import over_seeds

ONLY_PUBLIC = "only-public"
PARAGON = "as-published-paragon"
_VARIED = ("shots",)
_BANDS = "the line is the median, the band reaches from the 25 % to the 75 % quantile over seeds"


def boost_of(public: float, paragon: float, private: float) -> float | None:
    """PB = (err_public − err_paragon) ÷ (err_private − err_paragon); None where the last is not above 0.

    1 is no better than the public shots alone; more is better.

    >>> boost_of(public=0.4, paragon=0.2, private=0.25)
    4.0
    """
    gap = private - paragon
    return round((public - paragon) / gap, 12) if gap > 0 else None


def boosts(records: Sequence[Record]) -> dict[tuple[str, int, float], dict[str, Any]]:
    """Boost by label, shots and ε, over seeds; each seed is compared with its own two references.

    An entry is what `over_seeds` gives, with `dropped`: seeds whose private error did not exceed the
    paragon's.
    """
    usable = [record for record in done(records) if value_of(record, "accuracy") is not None]
    public = {_key(record): _error(record) for record in usable if record["method"] == ONLY_PUBLIC}
    paragon = {_key(record): _error(record) for record in usable if record["method"] == PARAGON}
    found: dict[tuple[str, int, float], list[float | None]] = {}
    for record in usable:
        key = _key(record)
        if record["method"] in (ONLY_PUBLIC, PARAGON) or key not in public or key not in paragon:
            continue
        place = record["label"], record["shots"], axis_epsilon(record["budget"])
        found.setdefault(place, []).append(boost_of(public[key], paragon[key], _error(record)))
    return {
        place: {**over_seeds(known), "dropped": len(values) - len(known)}
        for place, values in found.items()
        if (known := [value for value in values if value is not None])
    }


def performance_boost(records: Sequence[Record], styles: Mapping[str, Style]) -> list[Drawing]:
    """Boost against shots, one panel per ε (at most three); a figure per data set with both references."""
    figures = []
    for members in split(done(records), over=_VARIED):
        found = boosts(members)
        if len({shots for _, shots, _ in found}) > 1:
            figures.append(_figure(members, found, styles))
    return figures


def _figure(
    records: list[Record], found: Mapping[tuple[str, int, float], dict[str, Any]], styles: Mapping[str, Style]
) -> Drawing:
    budgets = thinned(sorted({epsilon for _, _, epsilon in found}), most=3)
    shots = sorted({count for _, count, _ in found})
    figure, [panels] = sheet(
        1, columns_for(len(budgets)), width=5.2 if len(budgets) == 1 else 3.1, height=2.9
    )
    for axes, epsilon in zip(panels, budgets, strict=True):
        for label, style in styles.items():
            points = [
                (count, found[label, count, epsilon]) for count in shots if (label, count, epsilon) in found
            ]
            if points:
                x = [count for count, _ in points]
                low = [point["quantiles"]["0.25"] for _, point in points]
                high = [point["quantiles"]["0.75"] for _, point in points]
                axes.fill_between(x, low, high, color=style.colour.light, alpha=0.16, linewidth=0)
                axes.plot(
                    x, [point["median"] for _, point in points], gid=slug("line", label), **style.line()
                )
        axes.axhline(1.0, color=QUIET, linewidth=0.9, linestyle=":", zorder=1)
        axes.set_xscale("log", base=2)
        axes.set_xticks(shots, [str(count) for count in shots])
        axes.minorticks_off()
        titled(axes, f"ε = {epsilon:.3g}")
        labelled(axes, x="public shots per class")
    labelled(panels[0], y="performance boost")
    legend(figure, [style for label, style in styles.items() if label in {name for name, _, _ in found}])
    dropped = sum(point["dropped"] for point in found.values())
    first = records[0]
    what = (
        f"Performance boost on {first['data']}: (error of the public shots alone − error without privacy) ÷ "
        "(error of the private model − error without privacy); 1, the dotted line, is no better than the "
        "public shots alone"
    )
    if dropped:
        what += f". Left out: {dropped} fits as good as without privacy, for which the boost has no value"
    return Drawing(
        name=figure_name(("boost",), records, over=_VARIED),
        title=f"Performance boost against public shots: {first['data']}",
        caption=caption(what, records, bands=_BANDS, vary=("shots", "rows")),
        figure=figure,
    )


def _key(record: Record) -> tuple[Any, ...]:
    """Which rows a record was fitted and tested on; references do not depend on the budget."""
    names = ("data", "encoder", "shots", "imbalance", "rows", "classes", "dimension", "seed")
    return tuple(record[name] for name in names)


def _error(record: Record) -> float:
    value = value_of(record, "accuracy")
    assert value is not None
    return 1 - value
