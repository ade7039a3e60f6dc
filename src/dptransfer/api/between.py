"""Find duplicates within and between data sets (for deduplication), and sets that do not fit together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dptransfer.api.checked_examples import Examples, in_both
from dptransfer.api.findings import Finding, report
from dptransfer.base.types import AnyArray, Floats32, Integers

NOBODY = -1
"""Where an example has no twin."""

_TWIN_CHUNK = 512


def equal_twins(contents: Sequence[bytes], others: Sequence[bytes] | None = None) -> Integers:
    """For each content, where it stands among the others first; among themselves, where it stood before.

    An empty content is that of an example without any, such as an unreadable one, and has no twin.

    >>> equal_twins([b"a", b"b", b"a"]).tolist(), equal_twins([b"a", b"b"], [b"c", b"b"]).tolist()
    ([-1, -1, 0], [-1, 1])
    """
    first = _first_places(contents if others is None else others)
    found = np.array([first.get(content, NOBODY) for content in contents], np.int64)
    return found if others is not None else np.where(found == np.arange(len(found)), NOBODY, found)


def _first_places(contents: Sequence[bytes]) -> dict[bytes, int]:
    """Where each content occurs first; an empty one is none."""
    first: dict[bytes, int] = {}
    for place, content in enumerate(contents):
        first.setdefault(content, place)
    first.pop(b"", None)
    return first


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
            near, far = mine[some], theirs[window]
            between = np.einsum("ij,ij->i", near, near)[:, None] + squares[window] - 2 * (near @ far.T)
            close = between <= reach * reach
            if others is None:
                close &= window[None, :] < some[:, None]
            hit = close.any(axis=1)
            first = window[close.argmax(axis=1)]
            better = hit & ((found[some] == NOBODY) | (first < found[some]))
            found[some[better]] = first[better]
    return found


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


SAME_PICTURE = 3.0
"""Levels of 255 by which small copies of the same picture differ, root mean square.

Measured on 150 photos of 160 pixels (clothing-dataset-small): saved again as JPEG of quality 95, 75, 50 and
30, the worst differed by 1.0, 1.8, 1.8 and 3.0; as WebP by 1.3; at half the size by 3.1. Of 3,781 such photos
one other pair is as near, and of 2,500 of Caltech-101 five. With twice the levels there is one more.
"""

SAME_ROW = 1e-3
"""Share of a usual norm by which rows of the same example differ, stored or computed in another way.

Half precision moves an entry by at most 2⁻¹¹ of it, so a row by at most 0.0005 of its norm; batch size and
hardware move it by far less.
"""

_MOST_NUMBERS = 2 * 10**8  # of all points that are compared for nearness: under a gigabyte


def duplicates_within(examples: Examples) -> Iterator[Finding]:
    """Exampless that occur twice in a set, and those of them that have two labels."""
    equal, near = _twins(examples)
    yield from _pairs("duplicates", examples, examples, equal)
    yield from _pairs("near-duplicates", examples, examples, near)
    labels = examples.labels
    if labels is not None and examples.role != "public":
        twins = np.where(equal == NOBODY, near, equal)
        other = [twin != NOBODY and labels[place] != labels[twin] for place, twin in enumerate(twins)]
        yield from _pairs("two-labels", examples, examples, np.where(other, twins, NOBODY))


def duplicates_between(private: Examples, other: Examples) -> Iterator[Finding]:
    """Private examples that are in the pool or in the test too."""
    if private.form == other.form:
        equal, near = _twins(private, other)
        yield from _pairs(f"in-{other.role}", private, other, equal)
        yield from _pairs(f"nearly-in-{other.role}", private, other, near)


def _pairs(key: str, mine: Examples, theirs: Examples, twins: Integers) -> Iterator[Finding]:
    pairs = [(place, int(twins[place])) for place in np.flatnonzero(twins != NOBODY).tolist()]
    files = [(mine.images[one], theirs.images[other]) for one, other in pairs if mine.images]
    return report(key, mine, [f"{mine.name(one)} = {theirs.name(other)}" for one, other in pairs], files)


def not_compared(mine: Examples, theirs: Examples | None = None) -> Iterator[str]:
    """What could not be compared, or not cheaply."""
    among = "within the private set"
    which = among if theirs is None else f"between the private and the {theirs.role} set"
    if theirs is not None and mine.form != theirs.form:
        yield f"Duplicates {which}: they are {mine.form} and {theirs.form}. Check them when both are alike."
    elif not _near_is_cheap(mine, theirs):
        yield f"Near duplicates {which}: too many for a quick look. Equal ones were looked for."


def _near_is_cheap(mine: Examples, theirs: Examples | None) -> bool:
    sets = (mine,) if theirs is None else (mine, theirs)
    return sum(math.prod(one.points.shape) for one in sets if one.points is not None) <= _MOST_NUMBERS


def _twins(mine: Examples, theirs: Examples | None = None) -> tuple[Integers, Integers]:
    """For each example a place of its equal, and of its near twin where it has no equal.

    Among the examples of one set, twins are those that come first.
    """
    equal = equal_twins(mine.digests, None if theirs is None else theirs.digests)
    near: Integers = np.full(len(equal), NOBODY, dtype=np.int64)
    if mine.loose_digests is not None:
        near = equal_twins(mine.loose_digests, None if theirs is None else theirs.loose_digests)
    elif mine.points is not None and _near_is_cheap(mine, theirs):
        own = other = np.array([*_first_places(mine.digests).values()], np.int64)
        points, others = mine.points[own], None
        if theirs is not None and theirs.points is not None:
            other = np.array([*_first_places(theirs.digests).values()], np.int64)
            others = theirs.points[other]
        twins = near_twins(points, _reach(mine, points), others)
        has = twins != NOBODY
        near[own[has]] = other[twins[has]]
        before = equal_twins(mine.digests)
        near = np.where(before == NOBODY, near, near[before])  # what is equal is near to the same
    return equal, np.where(equal == NOBODY, near, NOBODY)


def _reach(examples: Examples, points: AnyArray) -> float:
    if examples.kind == "images":
        return SAME_PICTURE * float(np.sqrt(points.shape[1]))
    norms = np.linalg.norm(points.astype(np.float64), axis=1)
    return SAME_ROW * float(np.median(norms)) if len(norms) else 0.0


def people_in_both(private: Examples, test: Examples) -> Iterator[Finding]:
    """People of the private set who are in the test as well, where both tell ids."""
    if private.ids is None or test.ids is None or private.people is None:
        return
    first = {int(private.people[place]): place for place in reversed(in_both(private.ids, test.ids))}
    told = [f"who has {private.name(place)}" for place in sorted(first.values())]
    yield from report("people-in-test", private, told)


def mismatches(private: Examples, other: Examples) -> Iterator[Finding]:
    """Sets that do not go together: of two encoders, of two widths, or pictures of another depth."""
    both = private, other
    told = tuple(f"{one.role}: {one.encoder}" for one in both if one.encoder is not None)
    if len(told) == 2 and private.encoder != other.encoder:
        yield Finding("encoders", other.role, 1, told)
    widths = {one.role: one.rows.shape[1] for one in both if one.rows is not None}
    if len(set(widths.values())) > 1:
        yield Finding("widths", other.role, 1, tuple(f"{role}: {width}" for role, width in widths.items()))
    if private.looks:
        new = {look.bits for look in other.looks} - {look.bits for look in private.looks} - {0}
        yield from report("forms", other, [f"{bits} bits" for bits in sorted(new)])
