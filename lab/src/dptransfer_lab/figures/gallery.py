"""The public pictures that were chosen as prototypes; a pool whose rows are not pictures has no gallery."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer_lab.figures.curves import thinned
from dptransfer_lab.figures.drawing import Drawing, sheet
from dptransfer_lab.figures.points import axis_epsilon, by, caption, done, figure_name, split
from dptransfer_lab.figures.style import INK, QUIET, Style
from dptransfer_lab.results import Record

Picture = NDArray[np.uint8]
Pictures = Callable[[str, str, int, int], Picture | None]
"""From a pool's name, an encoder, the number of its rows and one of them to a picture, if there is one."""

_MOST_CLASSES = 10
_MOST_BUDGETS = 4
_SIDE = 96
_IMAGES = {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff"}


def picture_file(source: str) -> Picture | None:
    """The picture in a file, small; None where the source is no picture or is not there."""
    path = Path(source)
    if path.suffix.lower() not in _IMAGES or not path.is_file():
        return None
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            small = image.convert("RGB")
            small.thumbnail((_SIDE, _SIDE))
            return np.asarray(small)
    except (OSError, UnidentifiedImageError):
        return None


def gallery(records: Sequence[Record], styles: Mapping[str, Style], pictures: Pictures) -> list[Drawing]:
    """A row of pictures per ε, a column per class: what the first seed chose.

    Args:
        records: any records; those of methods that choose from the pool name the rows they chose.
        styles: which labels there are.
        pictures: where pictures come from.
    """
    usable = [record for record in done(records) if record["extra"].get("prototypes") and record["pool"]]
    figures = []
    for label in styles:
        own = [record for record in usable if record["label"] == label]
        for members in split(own):
            if (figure := _figure(members, label, pictures)) is not None:
                figures.append(figure)
    return figures


def _figure(records: list[Record], label: str, pictures: Pictures) -> Drawing | None:
    first_seed = min(record["seed"] for record in records)
    chosen = by(
        (r for r in records if r["seed"] == first_seed), lambda record: axis_epsilon(record["budget"])
    )
    budgets = thinned(list(chosen), most=_MOST_BUDGETS)
    rows: dict[float, dict[str, Picture | None]] = {
        epsilon: _row(chosen[epsilon][0], pictures) for epsilon in budgets
    }
    if not any(picture is not None for row in rows.values() for picture in row.values()):
        return None
    names = list(next(iter(rows.values())))
    figure, grid = sheet(len(rows), len(names), width=0.82, height=0.92, share_y=False)
    for line, (epsilon, row) in zip(grid, rows.items(), strict=True):
        for axes, name in zip(line, names, strict=True):
            _show(axes, row.get(name))
            if line is grid[0]:
                axes.set_title(_short(name), fontsize=8, color=INK)
        line[0].set_ylabel(f"ε = {epsilon:.3g}", fontsize=8, color=QUIET)
    first = records[0]
    classes = first["classes"]
    shown = (
        f"the first {len(names)} of {classes} classes" if classes > len(names) else f"all {classes} classes"
    )
    what = (
        f"Public pictures that '{label}' chose as prototypes for {shown} of {first['data']}, by ε; seed "
        f"{first_seed} alone, and the first prototype where a class has several. No private picture is shown"
    )
    return Drawing(
        name=figure_name(("gallery", label), records),
        title=f"Prototypes chosen by {label}: {first['data']}",
        caption=caption(what, [record for some in chosen.values() for record in some]),
        figure=figure,
    )


def _row(record: Record, pictures: Pictures) -> dict[str, Picture | None]:
    rows: dict[str, list[int]] = record["extra"]["prototypes"]
    some = list(rows.items())[:_MOST_CLASSES]
    return {
        str(name): pictures(record["pool"], record["encoder"], record["pool_rows"], int(places[0]))
        if places
        else None
        for name, places in some
    }


def _show(axes: Any, picture: Picture | None) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if picture is None:
        axes.text(0.5, 0.5, "–", ha="center", va="center", color=QUIET, transform=axes.transAxes)
    else:
        axes.imshow(picture, cmap="gray", interpolation="nearest")


def _short(name: str) -> str:
    """A class name that fits above a small picture.

    >>> _short("forget-me-not"), _short("cat")
    ('forget-m…', 'cat')
    """
    return name if len(name) <= 9 else f"{name[:8]}…"
