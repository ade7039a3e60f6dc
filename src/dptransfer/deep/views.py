"""A fixed public list of views of a picture: itself, its mirror image, and both moved a little.

Views that are the same for everyone keep a picture's gradient a function of the picture: an average over
views inside one clip costs no privacy (De et al. 2022), and what frozen stages make of each is computed once.
"""

from __future__ import annotations

from typing import Any

_MOVED = 16
"""A picture is moved by a sixteenth of its side: half of what crops of padded pictures move it at most."""

# Mirrored or not, and how far down and to the right.
_VIEWS = [(mirrored, 0, 0) for mirrored in (False, True)]
_VIEWS += [(m, down, right) for down, right in ((1, 1), (-1, -1), (1, -1), (-1, 1)) for m in (False, True)]

MOST_VIEWS = len(_VIEWS)


def views_of(pictures: Any, count: int) -> Any:
    """The first `count` views of each, (pictures · count, height, width, 3), those of one next to each other.

    What a moved picture uncovers shows its border again.

    Args:
        pictures: a tensor (pictures, height, width, 3), of bytes or floats.
        count: from 1 to `MOST_VIEWS`.
    """
    import torch

    found = []
    for mirrored, down, right in _VIEWS[:count]:
        view = pictures.flip(2) if mirrored else pictures
        for axis, steps in ((1, down), (2, right)):
            if steps:
                side = view.shape[axis]
                come_from = torch.arange(side, device=view.device) - steps * max(1, side // _MOVED)
                view = view.index_select(axis, come_from.clamp(0, side - 1))
        found.append(view)
    return torch.stack(found, dim=1).flatten(0, 1)
