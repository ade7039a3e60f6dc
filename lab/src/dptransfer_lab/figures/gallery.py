"""The public pictures that were chosen as prototypes; a pool whose rows are not pictures has no gallery."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from dptransfer.base.types import JsonObject
from dptransfer.errors import DataError
from dptransfer_lab.figures.drawing import Drawing, finish_figure
from dptransfer_lab.figures.style import QUIET, Style, plot_style
from dptransfer_lab.points import brief, caption, cells_with, figure_name, split, thin_ticks

Picture = NDArray[np.uint8]
Pictures = Callable[[str, str, int, int], Picture | None]
"""From a pool's name, an encoder, the number of its rows and one of them to a picture, if there is one."""

_MOST_CLASSES = 10
_MOST_BUDGETS = 4
_SIDE = 96


@plot_style()
def gallery(frame: pd.DataFrame, styles: Mapping[str, Style], pictures: Pictures) -> list[Drawing]:
    """A row of pictures per ε, a column per class: what the first seed chose, as its cells name the rows."""
    usable = cells_with(frame[frame["pool"].notna()], "prototypes")
    found = (
        _figure(cells, label, pictures)
        for label in styles
        for cells in split(usable[usable["label"] == label])
    )
    return [drawing for drawing in found if drawing is not None]


def _figure(cells: pd.DataFrame, label: str, pictures: Pictures) -> Drawing | None:
    cells = cells[cells["seed"] == cells["seed"].min()]
    chosen = cells.drop_duplicates("at_epsilon").set_index("at_epsilon")
    budgets = thin_ticks(chosen.index, most=_MOST_BUDGETS)
    rows = [_row(chosen.loc[epsilon], pictures) for epsilon in budgets]
    if all(picture is None for row in rows for picture in row.values()):
        return None
    names = list(rows[0])
    size = 0.82 * len(names) + 0.3, 0.86 * len(rows) + 0.25
    figure, grid = plt.subplots(len(rows), len(names), squeeze=False, figsize=size)
    for line, epsilon, row in zip(grid, budgets, rows, strict=True):
        for axes, name in zip(line, names, strict=True):
            _show(axes, row.get(name))
        line[0].set_ylabel(f"ε = {epsilon:.3g}", fontsize=8, color=QUIET)
    for axes, name in zip(grid[0], names, strict=True):
        axes.set_title(brief(name, most=9), fontsize=8, loc="center")
    first = cells.iloc[0]
    count = first["classes"]
    shown = f"the first {len(names)} of {count} classes" if count > len(names) else f"all {count} classes"
    what = (
        f"Public pictures that '{label}' chose as prototypes for {shown} of {first['data']}, by ε; "
        f"seed {first['seed']} alone, and the first prototype where a class has several. No private picture "
        "is shown"
    )
    file_name, note = figure_name("gallery", label, cells=cells), caption(what, cells)
    return finish_figure(figure, [], file_name, f"Prototypes chosen by {label}: {first['data']}", note)


def _row(cell: pd.Series, pictures: Pictures) -> dict[str, Picture | None]:
    rows = list(cell["extra"]["prototypes"].items())[:_MOST_CLASSES]
    pool = cell["pool"], cell["encoder"], int(cell["pool_rows"])
    return {str(name): pictures(*pool, int(places[0])) if places else None for name, places in rows}


def _show(axes: Axes, picture: Picture | None) -> None:
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    if picture is None:
        axes.text(0.5, 0.5, "–", ha="center", va="center", color=QUIET, transform=axes.transAxes)
    else:
        axes.imshow(picture, cmap="gray", interpolation="nearest")


def pictures_of(study: JsonObject, folders: Sequence[Path]) -> Pictures:
    """The pictures behind the study's pools: drawn glyphs, or files that the pool names; otherwise none."""
    sources = {pool["name"]: pool["source"] for pool in study.get("pool", ())}
    rows_of = cache(lambda pool, encoder: _rows(sources.get(pool, {}).get(encoder), folders))

    def look(pool: str, encoder: str, size: int, row: int) -> Picture | None:
        rows = rows_of(pool, encoder)
        if rows is None or len(rows) != size:  # of a part of a pool, row 3 is not row 3 of the pool
            return None
        return picture_file(rows[row]) if isinstance(rows[row], str) else rows[row]

    return look


def _rows(source: JsonObject | str | None, folders: Sequence[Path]) -> Sequence[Any] | None:
    """A picture or a file name for each row of the pool."""
    name = source.get("train") if isinstance(source, Mapping) else source
    if name == "demo":
        from dptransfer_lab.demo.digits import demo_glyphs

        rows = demo_glyphs("pixels").rows
        side = round(rows.shape[1] ** 0.5)
        glyphs: Picture = (255 * rows).astype(np.uint8).reshape(len(rows), side, side)
        return list(glyphs)
    if not isinstance(name, str):
        return None
    from dptransfer.sources import read_public

    path = next((folder / name for folder in folders if (folder / name).exists()), None)
    try:
        return None if path is None else read_public(path).sources
    except DataError:
        return None


def picture_file(source: str) -> Picture | None:
    """The picture in a file, small; None where the source is no picture or is not there."""
    from dptransfer.sources import open_image

    try:
        small = open_image(source)
    except Exception:  # readers of damaged files raise whatever there is
        return None
    small.thumbnail((_SIDE, _SIDE))
    return np.asarray(small)
