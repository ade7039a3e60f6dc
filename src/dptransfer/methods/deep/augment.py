"""Augment public images: weakly, strongly, and in a fixed list of views.

Views that are the same for everyone keep a picture's gradient a function of the picture: an average over
views inside one clip costs no privacy (De et al. 2022), and what frozen stages make of each is computed once.

What FixMatch and its kin train a student with, in torch alone: a whole batch at once, each picture with its
own draws. Draws come from a generator of the CPU, so that they are the same on every device; and pictures are
(pictures, side, side, 3) bytes before and after, as everywhere. Public pictures only: nothing here is paid
for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import Tensor

View: TypeAlias = "Callable[[Tensor, torch.Generator], Tensor]"
"""From pictures and draws to a view of each."""
Change: TypeAlias = "Callable[[Tensor, Tensor], Tensor]"

_MOVED = 16
"""A picture is moved by a sixteenth of its side: half of what crops of padded pictures move it at most."""

# Mirrored or not, and how far down and to the right.
VIEWS = [(mirrored, 0, 0) for mirrored in (False, True)]
VIEWS += [(m, down, right) for down, right in ((1, 1), (-1, -1), (1, -1), (-1, 1)) for m in (False, True)]


def views_of(pictures: Tensor, count: int) -> Tensor:
    """The first `count` views of each, (pictures · count, height, width, 3), those of one next to each other.

    What a moved picture uncovers shows its border again.

    Args:
        pictures: a tensor (pictures, height, width, 3), of bytes or floats.
        count: from 1 to the length of that list.
    """
    found = []
    for mirrored, down, right in VIEWS[:count]:
        view = pictures.flip(2) if mirrored else pictures
        for axis, steps in ((1, down), (2, right)):
            if steps:
                side = view.shape[axis]
                come_from = torch.arange(side, device=view.device) - steps * max(1, side // _MOVED)
                view = view.index_select(axis, come_from.clamp(0, side - 1))
        found.append(view)
    return torch.stack(found, dim=1).flatten(0, 1)


_SHIFT = 0.125
"""A weak view is shifted by at most this share of the side, as in FixMatch."""

_OPERATIONS = 2
"""So many changes, drawn for each picture, make a strong view of a weak one (RandAugment's N)."""

_HOLE = 0.5
"""A square of this share of the side is cut out of a strong view."""

_GREY = 127.0
"""What is behind a picture: holes, and what was turned or moved in from outside."""

_LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in a grey picture (ITU-R BT.601)."""

# Changes go no farther than RandAugment's: degrees as they are, lengths as shares of the side.
_TURN, _SHEAR, _MOVE = 30.0, 0.3, 0.3
_FACTOR = 0.95  # brightness and its like are multiplied by 1 plus or minus so much
_FEWEST_BITS = 4


def weak(pictures: Tensor, draws: torch.Generator) -> Tensor:
    """Mirrored or not, and shifted; what comes in from outside is the picture's own mirror image.

    Args:
        pictures: (pictures, height, width, 3) bytes.
        draws: a `torch.Generator` of the CPU.
    """
    count, height, width, _ = pictures.shape
    mirrored = torch.rand(count, generator=draws) < 0.5
    rows, columns = (_shifted(side, count, draws) for side in (height, width))
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    rows, columns = rows.to(pictures.device), columns.to(pictures.device)
    every = torch.arange(count, device=pictures.device)[:, None, None]
    return pictures[every, rows[:, :, None], columns[:, None, :]]


def strong(pictures: Tensor, draws: torch.Generator) -> Tensor:
    """A weak view, changed twice in ways that are drawn for each picture, with a square cut out.

    Args:
        pictures: (pictures, height, width, 3) bytes.
        draws: a `torch.Generator` of the CPU.
    """
    seen = weak(pictures, draws).permute(0, 3, 1, 2).float()
    for _ in range(_OPERATIONS):
        chosen = torch.randint(len(CHANGES), (len(seen),), generator=draws)
        strengths = torch.rand(len(seen), generator=draws) * 2 - 1
        for number, change in enumerate(CHANGES.values()):
            mine = torch.nonzero(chosen == number)[:, 0]
            if len(mine):
                place = mine.to(seen.device)
                seen[place] = change(seen[place], strengths[mine].to(seen.device)).clamp(0, 255).round()
    return _with_hole(seen, draws).permute(0, 2, 3, 1).to(torch.uint8)


def _shifted(side: int, count: int, draws: torch.Generator) -> Tensor:
    """(count, side) positions along an axis, moved by up to a share of it and reflected at both ends."""
    most = int(_SHIFT * side)
    moved = torch.arange(side) + torch.randint(-most, most + 1, (count, 1), generator=draws)
    return (side - 1) - ((side - 1) - moved.abs()).abs()


def _with_hole(pictures: Tensor, draws: torch.Generator) -> Tensor:
    """A grey square, which may reach over the edge, as large as `_HOLE` says at most."""
    count, _, *sides = pictures.shape
    middles = torch.rand(count, 2, generator=draws).to(pictures.device)
    halves = (torch.rand(count, generator=draws) * _HOLE / 2).to(pictures.device)
    rows, columns = (
        ((torch.arange(side, device=pictures.device) + 0.5) / side - middle[:, None]).abs() < halves[:, None]
        for side, middle in zip(sides, middles.unbind(1), strict=True)
    )
    hole = (rows[:, :, None] & columns[:, None, :])[:, None]
    return torch.where(hole, torch.full_like(pictures, _GREY), pictures)


# Every change takes (pictures, 3, height, width) floats from 0 to 255 and a strength in [−1, 1] for each.


def _away_from(plain: Callable[[Tensor], Tensor]) -> Change:
    """Away from a plainer picture, or toward it: multiplied, above 0 and below 2, with 1 for no change."""

    def change(pictures: Tensor, strengths: Tensor) -> Tensor:
        seen = plain(pictures)
        return seen + (pictures - seen) * (1 + _FACTOR * strengths)[:, None, None, None]

    return change


def _grey(pictures: Tensor) -> Tensor:
    return (pictures * pictures.new_tensor(_LUMA)[None, :, None, None]).sum(1, keepdim=True)


def _blurred(pictures: Tensor) -> Tensor:
    """As PIL does it: weights 1, and 5 in the middle."""
    blur = pictures.new_ones(3, 1, 3, 3)
    blur[:, :, 1, 1] = 5
    padded = torch.nn.functional.pad(pictures, (1, 1, 1, 1), mode="replicate")
    return torch.nn.functional.conv2d(padded, blur / 13, groups=3)


def _posterise(pictures: Tensor, strengths: Tensor) -> Tensor:
    """The lowest bits, up to half of the eight, become zeros."""
    dropped = (strengths.abs() * (8 - _FEWEST_BITS)).ceil()
    step = (2.0**dropped)[:, None, None, None]
    return (pictures / step).floor() * step


def _solarise(pictures: Tensor, strengths: Tensor) -> Tensor:
    """What is brighter than a threshold is inverted."""
    threshold = (255 * (1 - strengths.abs()))[:, None, None, None]
    return pictures.where(pictures <= threshold, 255 - pictures)


def _equalise(pictures: Tensor, strengths: Tensor) -> Tensor:
    """Each channel's bytes spread evenly: a byte becomes the share of pixels up to it, less the darkest."""
    values = pictures.flatten(2).flatten(0, 1).long()
    tally = values.new_zeros(len(values), 256).scatter_add_(1, values, values.new_ones(values.shape))
    upto = tally.cumsum(1)
    darkest = tally.gather(1, values.min(1, keepdim=True).values)
    others = values.shape[1] - darkest
    spread = (upto - darkest).clamp(min=0) * 255.0 / others.clamp(min=1)
    even = spread.gather(1, values).where(others > 0, values.float())
    return even.reshape(pictures.shape)


def _rotate(pictures: Tensor, strengths: Tensor) -> Tensor:
    angle = strengths * math.radians(_TURN)
    return _mapped(pictures, [[angle.cos(), -angle.sin(), 0], [angle.sin(), angle.cos(), 0]])


def _mapped(pictures: Tensor, entries: list[list[Tensor | float]]) -> Tensor:
    """Pictures seen through an affine map each, with grey around them."""
    one = pictures.new_ones(len(pictures))
    matrix = torch.stack([torch.stack([entry * one for entry in row], 1) for row in entries], 1)
    grid = torch.nn.functional.affine_grid(matrix, list(pictures.shape), align_corners=False)
    return torch.nn.functional.grid_sample(pictures - _GREY, grid, align_corners=False) + _GREY


CHANGES: dict[str, Change] = {
    "same": lambda pictures, _: pictures,
    "brightness": _away_from(lambda pictures: torch.zeros_like(pictures)),
    "contrast": _away_from(lambda pictures: _grey(pictures).mean((2, 3), keepdim=True)),
    "saturation": _away_from(_grey),
    "sharpness": _away_from(_blurred),
    "posterise": _posterise,
    "solarise": _solarise,
    "equalise": _equalise,
    "rotate": _rotate,
    "shear x": lambda pictures, strengths: _mapped(pictures, [[1, _SHEAR * strengths, 0], [0, 1, 0]]),
    "shear y": lambda pictures, strengths: _mapped(pictures, [[1, 0, 0], [_SHEAR * strengths, 1, 0]]),
    # The side is 2 long in a grid.
    "translate x": lambda pictures, strengths: _mapped(pictures, [[1, 0, 2 * _MOVE * strengths], [0, 1, 0]]),
    "translate y": lambda pictures, strengths: _mapped(pictures, [[1, 0, 0], [0, 1, 2 * _MOVE * strengths]]),
}
"""What a strong view may do to a picture; each is as likely."""
