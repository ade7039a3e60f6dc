"""The demo's figures: recall by class, private against not, and the public pictures chosen for classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure  # without pyplot: no window, no global state

from dptransfer.base.types import PixelArray
from dptransfer_lab.demo.sets import Result

_INK = "#1b2631"
_QUIET = "#8a949e"
_PRIVATE = "#0b6e99"
_OPEN = "#c9d1d6"
_DOTS = 160


def draw_recall(
    path: Path, results: Sequence[Result], classes: Sequence[str], sizes: Sequence[int], note: str
) -> Path:
    """Bars of recall by class, commonest class first; the first result is private, the second is not."""
    order = np.argsort(-np.asarray(sizes), kind="stable")
    figure, axes = _figure(8.0, 3.6)
    places = np.arange(len(order))
    for result, shift, colour in zip(results[:2], (-0.2, 0.2), (_PRIVATE, _OPEN), strict=True):
        label = f"{result.name} ({result.promise}): {result.tested.balanced_accuracy:.0%} balanced"
        axes.bar(
            places + shift, [result.tested.recall[c] or 0.0 for c in order], 0.38, color=colour, label=label
        )
    axes.set_xticks(places, [f"{classes[c]}\n{sizes[c]}" for c in order])
    axes.set_ylabel("recall", color=_INK)
    axes.set_xlabel("class, and how many private pictures of it there are", color=_INK)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, frameon=False, fontsize=8, borderpad=0)
    _footnote(figure, note)
    return _save(figure, path)


def draw_curve(path: Path, curve: Mapping[float, Sequence[float]], results: Sequence[Result]) -> Path:
    """Balanced accuracies by ε, with the results that have no ε as level lines."""
    figure, axes = _figure(6.0, 3.4)
    epsilons, found = list(curve), np.array(list(curve.values()))
    axes.fill_between(epsilons, found.min(axis=1), found.max(axis=1), color=_PRIVATE, alpha=0.15)
    axes.plot(epsilons, found.mean(axis=1), "o-", color=_PRIVATE, label=results[0].name)
    for result, style in zip(results[1:], ("-", ":"), strict=False):
        label = f"{result.name} ({result.promise})"
        axes.axhline(result.tested.balanced_accuracy, color=_QUIET, linestyle=style, label=label, zorder=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.set_ylabel("balanced accuracy", color=_INK)
    axes.set_xlabel("ε (smaller promises more)", color=_INK)
    axes.legend(loc="lower right", frameon=False, fontsize=8)
    _footnote(
        figure, "For teaching: on secret data each dot would cost its ε. Shaded: lowest to highest of three."
    )
    return _save(figure, path)


def draw_prototypes(
    path: Path,
    prototypes: Mapping[str, PixelArray],
    examples: Mapping[str, PixelArray],
    titles: tuple[str, str],
    note: str,
) -> Path:
    """A sheet with a column per class: the public picture chosen for it above a test picture of the class.

    Args:
        path: where to.
        prototypes: the chosen public picture by class.
        examples: a test picture by class; test pictures are not protected, private ones are never shown.
        titles: what the two rows are.
        note: a line underneath.
    """
    count = len(prototypes)
    figure = Figure(figsize=(max(6.0, 0.95 * count), 2.55), layout="constrained")
    grid: Any = figure.subplots(2, count, squeeze=False)
    for row, (pictures, title) in enumerate(zip((prototypes, examples), titles, strict=True)):
        for column, (name, pixels) in enumerate(pictures.items()):
            axes = grid[row][column]
            axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            if row == 0:
                axes.set_title(name, color=_INK, fontsize=10)
        grid[row][0].set_ylabel(title, color=_PRIVATE if row == 0 else _QUIET, fontsize=9)
    _footnote(figure, note)
    return _save(figure, path)


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A plot of shares: from 0 to 100 % upwards, without a box around it."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1], ["0", "50%", "100%"])
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_QUIET)
    axes.tick_params(colors=_INK, length=0, labelsize=9)
    return figure, axes


def _footnote(figure: Figure, text: str) -> None:
    figure.supxlabel(text, color=_QUIET, fontsize=7.5, x=0.01, ha="left")


def _save(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DOTS, facecolor="white", metadata={"Software": "dptransfer demo"})
    return path
