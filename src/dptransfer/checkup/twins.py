"""Examples that are in two places: the same content, or nearly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dptransfer.arrays import AnyArray, Floats32, Integers

NOBODY = -1
"""Where an example has no twin."""

_TWIN_CHUNK = 512


def equal_twins(contents: Sequence[bytes], others: Sequence[bytes] | None = None) -> Integers:
    """For each content, where it stands among the others first; among themselves, where it stood before.

    An empty content is that of an example without any, such as an unreadable one, and has no twin.

    >>> equal_twins([b"a", b"b", b"a"]).tolist(), equal_twins([b"a", b"b"], [b"c", b"b"]).tolist()
    ([-1, -1, 0], [-1, 1])
    """
    first: dict[bytes, int] = {}
    for place, content in enumerate(contents if others is None else others):
        first.setdefault(content, place)
    found = np.array([first.get(content, NOBODY) if content else NOBODY for content in contents], np.int64)
    return found if others is not None else np.where(found == np.arange(len(found)), NOBODY, found)


@np.errstate(all="ignore")  # numbers that are too large are near nobody, and nobody need hear of them
def near_twins(points: AnyArray, reach: float, others: AnyArray | None = None) -> Integers:
    """For each point, the first of the others within `reach` of it; among themselves, the first before it.

    Exact, and far cheaper than all pairs: points within reach of one another are within reach of one another
    in any one direction, too. So they are sorted along the direction in which they spread most, and only
    those in a window of that width are compared.

    >>> near_twins(np.array([[0.0, 0], [5, 5], [0, 0.1]]), 0.5).tolist()
    [-1, -1, 0]
    """
    mine = np.asarray(points, dtype=np.float32)
    theirs = mine if others is None else np.asarray(others, dtype=np.float32)
    found: Integers = np.full(len(mine), NOBODY, dtype=np.int64)
    if not len(mine) or not len(theirs):
        return found
    centre = theirs.mean(axis=0)
    mine, theirs = mine - centre, theirs - centre
    direction = _widest(theirs)
    here, there = mine @ direction, theirs @ direction
    along, order = np.argsort(there, kind="stable"), np.argsort(here, kind="stable")
    sorted_there, squares = there[along], np.einsum("ij,ij->i", theirs, theirs)
    slack = reach * 1.001 + 1e-6 * float(np.abs(there).max())  # of the products' rounding
    for start in range(0, len(order), _TWIN_CHUNK):
        some = order[start : start + _TWIN_CHUNK]
        low, high = np.searchsorted(sorted_there, (here[some[0]] - slack, here[some[-1]] + slack))
        for begin in range(low, high, _TWIN_CHUNK * 8):
            window = np.sort(along[begin : min(begin + _TWIN_CHUNK * 8, high)])
            between = _squared(mine[some], theirs[window], squares[window])
            close = between <= reach * reach
            if others is None:
                close &= window[None, :] < some[:, None]
            hit = close.any(axis=1)
            first = window[close.argmax(axis=1)]
            better = hit & ((found[some] == NOBODY) | (first < found[some]))
            found[some[better]] = first[better]
    return found


def _squared(some: Floats32, others: Floats32, squares: Floats32) -> Floats32:
    result: Floats32 = np.einsum("ij,ij->i", some, some)[:, None] + squares - 2 * (some @ others.T)
    return result


def _widest(points: Floats32) -> Floats32:
    """A unit vector near the direction of largest spread: the power method, from the widest axis."""
    few = points[:: max(1, len(points) // 2000)]
    direction = np.zeros(points.shape[1], dtype=np.float32)
    direction[few.std(axis=0).argmax()] = 1
    for _ in range(3):
        turned = few.T @ (few @ direction)
        length = float(np.linalg.norm(turned))
        if length > 0:
            direction = (turned / length).astype(np.float32)
    return direction
