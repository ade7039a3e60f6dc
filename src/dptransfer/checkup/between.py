"""What is in two places, in one set or in two, and whether two sets can be used together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dptransfer.arrays import AnyArray, Floats32, Integers
from dptransfer.checkup.examples import Examples
from dptransfer.checkup.findings import Finding, few
from dptransfer.checkup.person_ids import in_both
from dptransfer.checkup.picture_looks import SIDE, Look
from dptransfer.checkup.twins import NOBODY, equal_twins, near_twins

SAME_PICTURE = 3.0
"""Levels of 255 by which two small copies differ, root mean square, if they show the same picture.

Measured on 150 photos of 160 pixels (clothing-dataset-small): saved again as JPEG of quality 95, 75, 50 and 30 the
worst was 1.0, 1.8, 1.8 and 3.0, at half the size 3.1, as WebP 1.3. Of 3,781 such photos one pair is as near, and of
2,500 of Caltech-101 five; all are the same photo twice. At 6 levels it is the same pair, and one more of the five.
"""

SAME_ROW = 1e-3
"""Share of a usual norm by which two rows differ if they are the same, stored or computed in another way.

Half precision moves an entry by at most 2⁻¹¹ of it, so a row by at most 0.0005 of its norm; batch size and hardware
move it by far less.
"""

_USUAL_CONTRAST = 30.0  # levels; fainter pictures are compared as if they had it, or they would all be alike
_MOST_NUMBERS = 2 * 10**8  # of all points that are compared for nearness: under a gigabyte
_CHUNK = 4096


@dataclass(frozen=True, eq=False, repr=False)
class Content:
    """What the examples of a set are compared by.

    Attributes:
        examples: the set.
        equal: a digest each: of decoded pixels, of a row's numbers, of a text; empty where there is nothing.
        near: a point each, close for examples that are nearly the same; or for texts a second digest, of the
            words without case and blanks.
    """

    examples: Examples
    equal: Sequence[bytes]
    near: AnyArray | Sequence[bytes]


def content_of(examples: Examples, looks: Sequence[Look]) -> Content:
    """What to compare a set's examples by; those without content, such as black pictures, have none."""
    if examples.rows is not None:
        return Content(examples, _row_digests(examples.rows), examples.rows)
    if examples.kind == "texts":
        plain = [" ".join(text.split()).casefold() for text in examples.texts]
        return Content(
            examples, *([_digest(one.encode()) for one in texts] for texts in (examples.texts, plain))
        )
    return Content(
        examples,
        [b"" if look.flat else look.digest for look in looks],
        np.array([_point(look) for look in looks], dtype=np.float32).reshape(len(looks), 3 * SIDE**2),
    )


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest() if content else b""


def _row_digests(rows: AnyArray) -> list[bytes]:
    found: list[bytes] = []
    for start in range(0, len(rows), _CHUNK):
        with np.errstate(all="ignore"):
            some = np.ascontiguousarray(rows[start : start + _CHUNK], dtype=np.float32)
        some = some + np.float32(0)  # −0 is 0
        tells = np.isfinite(some).all(axis=1) & some.any(axis=1)
        found += [_digest(row.tobytes()) if told else b"" for row, told in zip(some, tells, strict=True)]
    return found


def _point(look: Look) -> Floats32:
    if look.small is None:
        return np.zeros(3 * SIDE**2, dtype=np.float32)
    small = look.small.ravel().astype(np.float32)
    mean, contrast = small.mean(), max(float(small.std()), 1.0)
    return mean + (small - mean) * max(1.0, _USUAL_CONTRAST / contrast)


def twins_in(mine: Content, theirs: Content | None = None) -> tuple[Integers, Integers] | None:
    """For each example a place of its equal, and of its near twin if it has no equal; None if not comparable.

    Among the examples of one set, the twin is the one that comes first.
    """
    if theirs is not None and not _comparable(mine, theirs):
        return None
    equal = equal_twins(mine.equal, None if theirs is None else theirs.equal)
    near = _near(mine, theirs)
    return equal, np.where(equal == NOBODY, near, NOBODY)


def not_compared(mine: Content, theirs: Content | None = None) -> Iterator[str]:
    """What could not be compared, or not cheaply."""
    which = (
        "within the private set"
        if theirs is None
        else f"between the private and the {theirs.examples.role} set"
    )
    if theirs is not None and not _comparable(mine, theirs):
        forms = f"{_form(mine.examples)} and {_form(theirs.examples)}"
        yield f"Duplicates {which}: these are {forms}. Check again when both are the same."
    elif not _near_is_cheap(mine, theirs):
        yield f"Near duplicates {which}: too many for a quick look. Equal ones were looked for."


def _form(examples: Examples) -> str:
    return examples.kind if examples.rows is None else f"rows of width {examples.rows.shape[1]}"


def _comparable(mine: Content, theirs: Content) -> bool:
    return _form(mine.examples) == _form(theirs.examples)


def _near_is_cheap(mine: Content, theirs: Content | None = None) -> bool:
    return sum(getattr(one.near, "size", 0) for one in (mine, theirs) if one is not None) <= _MOST_NUMBERS


def _near(mine: Content, theirs: Content | None) -> Integers:
    found: Integers = np.full(len(mine.equal), NOBODY, dtype=np.int64)
    if not _near_is_cheap(mine, theirs):
        return found
    if not isinstance(mine.near, np.ndarray):
        others = None if theirs is None else theirs.near
        assert not isinstance(others, np.ndarray)
        return equal_twins(mine.near, others)
    # One of each content, and only of those that have some.
    own = _once(mine.equal)
    other = own if theirs is None else _once(theirs.equal)
    points = _usable(mine.near, own)
    if theirs is None:
        twins = near_twins(points, _reach(mine, points))
    else:
        assert isinstance(theirs.near, np.ndarray)
        twins = near_twins(points, _reach(mine, points), _usable(theirs.near, other))
    found[own] = np.where(twins == NOBODY, NOBODY, other[twins] if len(other) else NOBODY)
    return found


def _once(contents: Sequence[bytes]) -> Integers:
    """Places of contents that occur there first; empty ones are none."""
    first: dict[bytes, int] = {}
    for place, content in enumerate(contents):
        first.setdefault(content, place)
    first.pop(b"", None)
    return np.fromiter(first.values(), np.int64, len(first))


def _usable(points: AnyArray, places: Integers) -> Floats32:
    with np.errstate(all="ignore"):
        return np.asarray(points[places], dtype=np.float32)


def _reach(content: Content, points: Floats32) -> float:
    if content.examples.kind == "pictures":
        return SAME_PICTURE * float(np.sqrt(points.shape[1]))
    return SAME_ROW * float(np.median(np.linalg.norm(points, axis=1))) if len(points) else 0.0


_NEARLY = {
    "pictures": "small copies differ by less than a scaling or saving again changes",
    "rows": "numbers differ in the third place or later",
    "texts": "words differ in case and blanks alone",
}


def duplicates_within(content: Content) -> Iterator[Finding]:
    """Contents that occur twice in a set, and those of them that have two labels."""
    examples = content.examples
    equal, near = twins_in(content) or ((), ())
    why = {
        "private": "Who is in the set twice has two voices, and a promise about one example covers them half.",
        "public": "They count twice as public knowledge; no harm but the time.",
        "test": "They count twice in the accuracy.",
    }[examples.role]
    fix = "Keep one of each; or, if they are several examples of one person, tell people with --person."
    fix = fix if examples.role == "private" else "Keep one of each."
    yield from _found("duplicates", f"{examples.kind} that occur before", content, content, equal, why, fix)
    nearly = f"{why} (Their {_NEARLY[examples.kind]}.)"
    yield from _found(
        "near-duplicates", f"{examples.kind} nearly as before", content, content, near, nearly, fix
    )
    labels = examples.labels
    if labels is not None and examples.role != "public":
        two = [p for p, twin in enumerate(equal) if twin != NOBODY and labels[p] != labels[twin]]
        if two:
            told = few([f"{_pair(content, content, p, equal)}: {labels[p]}, {labels[equal[p]]}" for p in two])
            why = "One content with two classes is wrong in at least one of them."
            fix = "Look at them, and correct the labels."
            yield Finding("two-labels", examples.role, "contents with two labels", len(two), told, why, fix)


def duplicates_between(private: Content, other: Content) -> Iterator[Finding]:
    """Private examples that are in the pool or in the test too."""
    found = twins_in(private, other)
    if found is None:
        return
    role, kind = other.examples.role, private.examples.kind
    if role == "public":
        why = "Whatever is in the pool is taken for public: it is used without noise, and prototypes may show it."
        fix = "Take them out of the pool; it must hold nobody's secret."
    else:
        why = "A model that has seen its test scores too well; and test examples are not protected."
        fix = "Take them out of one of the two, with all other examples of the same people."
    for key, nearly, twins in zip(("in-{}", "nearly-in-{}"), ("", "nearly "), found, strict=True):
        note = why if not nearly else f"{why} (Their {_NEARLY[kind]}.)"
        title = f"private {kind} that are {nearly}in the {role} set"
        yield from _found(key.format(role), title, private, other, twins, note, fix)


def _found(
    key: str, title: str, mine: Content, theirs: Content, twins: Sequence[int] | Integers, why: str, fix: str
) -> Iterator[Finding]:
    places = [place for place, twin in enumerate(twins) if twin != NOBODY]
    if places:
        told = few([_pair(mine, theirs, place, twins) for place in places])
        yield Finding(key, mine.examples.role, title, len(places), told, why, fix)


def _pair(mine: Content, theirs: Content, place: int, twins: Sequence[int] | Integers) -> str:
    return f"{mine.examples.name(place)} and {theirs.examples.name(int(twins[place]))}"


def people_in_both(private: Examples, test: Examples) -> Iterator[Finding]:
    """People of the private set who are in the test as well, where both tell ids."""
    if private.ids is None or test.ids is None or private.people is None:
        return
    places = in_both(private.ids, test.ids)
    whose = {int(private.people[place]): place for place in reversed(places)}
    if whose:
        told = few([f"whose is {private.name(place)}" for place in sorted(whose.values())])
        why = "A model that knows a person scores too well on their other examples; and these are not protected."
        fix = "Split by person: take each out of one of the two sets, with all their examples."
        yield Finding(
            "people-in-test", "private", "people who are in the test too", len(whose), told, why, fix
        )


def mismatches(private: Examples, other: Examples) -> Iterator[Finding]:
    """Rows that do not live in one space, by what is on record."""
    if private.encoder is not None and other.encoder is not None and private.encoder != other.encoder:
        told = tuple(f"{one.role}: {one.encoder}" for one in (private, other))
        why = "Rows of two encoders, or of one with two transforms, are numbers that have nothing in common. A fit refuses."
        fix = "Encode both sets with one encoder and one transform."
        yield Finding(
            "encoders", other.role, "rows of another encoder than the private ones", 1, told, why, fix
        )
    if private.rows is not None and other.rows is not None and private.rows.shape[1] != other.rows.shape[1]:
        told = tuple(f"{one.role}: {one.rows.shape[1]}" for one in (private, other) if one.rows is not None)
        fix = "Encode both sets with one encoder."
        yield Finding(
            "widths",
            other.role,
            "rows of another width than the private ones",
            1,
            told,
            "A fit refuses.",
            fix,
        )
