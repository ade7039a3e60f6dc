"""How well members are told from non-members, against how well the model does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dptransfer_lab.figures.drawing import Drawing, labelled, legend, sheet
from dptransfer_lab.figures.points import (
    axis_epsilon,
    by,
    by_label,
    caption,
    done,
    figure_name,
    slug,
    split,
    value_of,
)
from dptransfer_lab.figures.style import QUIET, Style
from dptransfer_lab.results import Record
from dptransfer_lab.summary import over_seeds


def attack_trade(records: Sequence[Record], styles: Mapping[str, Style]) -> list[Drawing]:
    """Membership-attack AUC against test error, one line per label through its budgets."""
    usable = [record for record in done(records) if value_of(record, "attack_auc") is not None]
    figures = []
    for members in split(usable):
        if len({axis_epsilon(record["budget"]) for record in members}) > 1:
            figures.append(_trade(members, styles))
    return figures


def _trade(records: list[Record], styles: Mapping[str, Style]) -> Drawing:
    figure, [[axes]] = sheet(width=5.6, height=3.4)
    lines = by_label(records)
    shown = [style for label, style in styles.items() if label in lines]
    for style in shown:
        x, y, names = [], [], []
        for epsilon, members in by(lines[style.label], lambda record: axis_epsilon(record["budget"])).items():
            errors = over_seeds([1 - float(record["metrics"]["accuracy"]) for record in members])
            areas = over_seeds([float(record["metrics"]["attack_auc"]) for record in members])
            x.append(100 * errors["mean"])
            y.append(areas["mean"])
            names.append(f"{epsilon:.3g}")
        axes.plot(x, y, gid=slug("line", style.label), **style.line())
        width = max(x) - min(x)
        for place in {0, len(x) - 1} if width > 0.5 else ():  # the ends: all of them would hide each other
            axes.annotate(
                f"ε {names[place]}", (x[place], y[place]), xytext=(4, 4), textcoords="offset points",
                fontsize=6.5, color=QUIET,
            )  # fmt: skip
    axes.axhline(0.5, color=QUIET, linewidth=0.9, linestyle=":", zorder=1)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.49), max(high, 0.52))
    labelled(axes, x="test error, %", y="membership-attack AUC")
    legend(figure, shown)
    first = records[0]
    what = (
        f"How well members are told from non-members against the test error on {first['data']}; lower "
        "left is better, "
        "0.5 (dotted) is a coin toss; the ends of a line say its smallest and largest ε, where they are apart"
    )
    return Drawing(
        name=figure_name(("attack",), records),
        title=f"Attack against error: {first['data']}",
        caption=caption(what, records, bands="points are means over seeds"),
        figure=figure,
    )
