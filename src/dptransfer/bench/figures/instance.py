"""Per-instance privacy loss: how much of the promised ε each example really uses, sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dptransfer.bench.figures.drawing import Drawing, labelled, legend, sheet
from dptransfer.bench.figures.points import slug
from dptransfer.bench.figures.style import INK, QUIET, Style

if TYPE_CHECKING:
    from dptransfer.audit.instance_loss import InstanceLosses


def loss_curves(
    losses: Mapping[str, Sequence[InstanceLosses]],
    styles: Mapping[str, Style],
    *,
    data: str,
    held_fixed: str,
) -> Drawing:
    """Sorted ε of each example, one line per label, with the promised ε as a level line.

    Args:
        losses: for each label, what `audit.instance_losses` gave for each seed.
        styles: how each label is drawn.
        data: the data set's name.
        held_fixed: what is the same for all of them, in words.
    """
    promises = [one.guarantee for seeds in losses.values() for one in seeds]
    epsilon, delta = max(promise.epsilon for promise in promises), promises[0].delta
    figure, [[axes]] = sheet(width=5.4, height=3.1)
    shown = [style for label, style in styles.items() if label in losses]
    means = []
    for style in shown:
        whole = np.sort(np.concatenate([one.epsilons for one in losses[style.label]]))
        share = (np.arange(len(whole)) + 0.5) / len(whole)
        every = max(1, len(whole) // 10)
        axes.plot(100 * share, whole, gid=slug("line", style.label), **{**style.line(), "markevery": every})
        means.append(f"{style.words} {whole.mean():.3g}")
    axes.axhline(epsilon, color=INK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
    axes.annotate(
        f"promised: ε = {epsilon:.3g}",
        (0, epsilon),
        xytext=(3, 3),
        textcoords="offset points",
        fontsize=8,
        color=QUIET,
    )
    axes.set_xlim(0, 100)
    axes.set_ylim(0, None)
    axes.margins(y=0.12)
    labelled(axes, x="examples, from the least to the most exposed, %", y=f"privacy loss ε at δ = {delta:g}")
    legend(figure, shown)
    counts = {len(one.epsilons) for seeds in losses.values() for one in seeds}
    seeds = sorted({len(one) for one in losses.values()})
    number = f"{seeds[0]}" if seeds[0] == seeds[-1] else f"{seeds[0]} to {seeds[-1]}"
    caption = (
        f"Privacy loss of each example of {data} under the model that was fitted with it, sorted; dashed is "
        f"what was promised to all. Means: {', '.join(means)}. {number} seed{'' if number == '1' else 's'} "
        f"per line, {' or '.join(f'{count:,}' for count in sorted(counts))} examples each; no interval is "
        f"drawn, each line is all of its examples. Held fixed: {held_fixed}. The losses themselves are "
        "private: they are computed from the rows and may not be released."
    )
    return Drawing(
        slug("instance-loss", data, epsilon), f"Per-instance privacy loss: {data}", caption, figure
    )
