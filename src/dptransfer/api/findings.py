"""Find problems in one data set by looking at each example."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from dptransfer.api.checked_examples import UNKNOWN, Examples, Role
from dptransfer.base.types import AnyArray, Integers

FEW = 30
"""Examples of a class below which noise of ε = 1 is larger than they are.

Gaussian noise for ε = 1, δ = 1e-5 and a sensitivity of 1 has a standard deviation of 3.73, so in the 64 axes
that a small public map keeps, its norm is about 8 · 3.73 = 30; n rows of norm 1 add up to n at most.
"""

DARK = 16
"""Of 255: twelve bits that were written as if they were sixteen end at 4095 ÷ 257, which is below."""

MANY_TIMES = 10
"""A person has many examples with more than so many times what is usual in the set."""


@dataclass(frozen=True)
class Advice:
    """What is said about a finding, beside how many and which.

    Attributes:
        title: what was found, in a few words.
        why: why it matters.
        remedy: what to do.
    """

    title: str
    why: str
    remedy: str


@cache
def advice() -> dict[str, Advice]:
    """Advice by the key of a finding; the order is that of a report, the worst first."""
    text = files("dptransfer.api").joinpath("findings.toml").read_text("utf-8")
    for word, number in (("FEW", FEW), ("DARKEST", DARK - 1), ("MANY", MANY_TIMES)):
        text = text.replace(word, str(number))
    return {key: Advice(**said) for key, said in tomllib.loads(text).items()}


@dataclass(frozen=True)
class Finding:
    """Something that its owner should look at before anything is spent.

    Attributes:
        key: what it is, in `advice()`.
        role: the set it is about.
        count: how many examples, classes, people, types or sets.
        examples: some of them.
        pictures: for each of these, the files that it is about, where they are pictures.
    """

    key: str
    role: Role
    count: int
    examples: tuple[str, ...] = ()
    pictures: tuple[tuple[Path, ...], ...] = ()

    @property
    def advice(self) -> Advice:
        """What it means and what to do."""
        return advice()[self.key]


_NAMED = 5
_CHUNK = 4096


def findings_in(examples: Examples) -> Iterator[Finding]:
    """All that is found in one set."""
    yield from _pictures(examples)
    empty = [place for place, text in enumerate(examples.texts) if not text.strip()]
    yield from report_places("empty-texts", examples, empty)
    if examples.rows is not None:
        wild, zeros = _odd_rows(examples.rows)
        yield from report_places("non-finite", examples, wild)
        yield from report_places("zeros", examples, zeros)
    if examples.role != "public":  # a pool may have labels of its own, of other classes
        yield from _labels(examples)
    if examples.role == "private":
        yield from _class_sizes(examples)
        yield from _people(examples)


def report(
    key: str, examples: Examples, names: Iterable[str], pictures: Sequence[tuple[Path, ...]] = ()
) -> Iterator[Finding]:
    """A finding with so many names, the first few of them shown, perhaps with files; none without names."""
    listed = list(names)
    if listed:
        rest = len(listed) - _NAMED
        shown = (*listed[:_NAMED], *([f"and {rest:,} more"] if rest > 0 else ()))
        yield Finding(key, examples.role, len(listed), shown, tuple(pictures[:_NAMED]))


def report_places(key: str, examples: Examples, places: Iterable[int]) -> Iterator[Finding]:
    """A finding about the examples at these places; none without places."""
    listed = [int(place) for place in places]
    files = [(examples.images[place],) for place in listed if examples.images]
    return report(key, examples, [examples.name(place) for place in listed], files)


def _pictures(examples: Examples) -> Iterator[Finding]:
    looks = examples.looks
    seen = [(place, look) for place, look in enumerate(looks) if look.digest]
    yield from report_places("unreadable", examples, [p for p, look in enumerate(looks) if not look.form])
    refused = [f"{examples.name(p)}: {look.refused}" for p, look in enumerate(looks) if look.refused]
    yield from report("refused", examples, refused)
    yield from report_places("flat", examples, [p for p, look in seen if look.flat])
    dark = [p for p, look in seen if look.brightest < DARK and not look.flat]
    yield from report_places("dark", examples, dark)
    depths = Counter(look.bits for look in looks if look.form)
    if len(depths) > 1:
        yield from report("depths", examples, [f"{bits} bits: {n:,}" for bits, n in depths.most_common()])


def _odd_rows(rows: AnyArray) -> tuple[Integers, Integers]:
    """Where rows are not finite, and where they are all zeros; read in chunks, for they may be on disk."""
    wild, zeros = np.zeros((2, len(rows)), dtype=bool)
    for start in range(0, len(rows), _CHUNK):
        some = np.asarray(rows[start : start + _CHUNK])
        wild[start : start + _CHUNK] = ~np.isfinite(some).all(axis=1)
        zeros[start : start + _CHUNK] = ~some.any(axis=1)
    return np.flatnonzero(wild), np.flatnonzero(zeros)


def _labels(examples: Examples) -> Iterator[Finding]:
    labels = examples.labels
    if labels is None:
        yield Finding("no-labels", examples.role, examples.count)
        return
    kinds = Counter(map(_kind, labels))
    if len(kinds) > 1:
        yield from report("label-types", examples, [f"{kind}: {n:,}" for kind, n in kinds.most_common()])
    elif "fraction" in kinds:
        yield from report_places("fractions", examples, range(len(labels)))
    if examples.positions is None:
        each = Counter(map(str, labels)).most_common()
        yield from report("undeclared", examples, [f"{label} ({n:,})" for label, n in each])
        return
    unknown = [label for label, place in zip(labels, examples.positions, strict=True) if place == UNKNOWN]
    counts = Counter(map(str, unknown)).most_common()
    told = [_suggested(label, n, examples.classes or ()) for label, n in counts]
    for one in report("unknown-labels", examples, told):
        yield Finding(one.key, one.role, len(unknown), one.examples)


def _kind(label: object) -> str:
    """What type of label it is, in a word; a whole number is one however it is stored."""
    if label is None or label != label or (isinstance(label, str) and not label.strip()):
        return "missing"
    if isinstance(label, str):
        return "word"
    if isinstance(label, float) and not label.is_integer():
        return "fraction"
    return "yes or no" if isinstance(label, bool) else "whole number"


def _suggested(label: str, count: int, classes: Sequence[str | int]) -> str:
    """A label, how often it occurs, and the class that may be meant: but for blanks or case it is that."""
    meant = next((name for name in classes if _plain(name) == _plain(label)), None)
    return f"'{label}' ({count:,})" + ("" if meant is None else f", perhaps '{meant}'")


def _plain(name: str | int) -> str:
    return str(name).strip().casefold()


def class_sizes(examples: Examples) -> dict[str, int]:
    """How many examples each class has: the declared ones in their order, or those that occur."""
    if examples.labels is None:
        return {}
    if examples.positions is None or examples.classes is None:
        return dict(Counter(map(str, examples.labels)).most_common())
    known = examples.positions[examples.positions != UNKNOWN]
    counts = np.bincount(known, minlength=len(examples.classes)).tolist()
    return {str(name): count for name, count in zip(examples.classes, counts, strict=True)}


def _class_sizes(examples: Examples) -> Iterator[Finding]:
    sizes = class_sizes(examples).items()
    yield from report("empty-classes", examples, [name for name, count in sizes if not count])
    small = [f"{name} ({count})" for name, count in sizes if 0 < count < FEW]
    yield from report("small-classes", examples, small)


def _people(examples: Examples) -> Iterator[Finding]:
    if examples.people is None:
        inner = {name.split("/")[1] for name in examples.names or () if name.count("/") > 1}
        yield from report("folders", examples, sorted(inner) if examples.labels is not None else ())
        return
    if not len(examples.people):
        return
    _, first, each = np.unique(examples.people, return_index=True, return_counts=True)
    many = np.flatnonzero(each > MANY_TIMES * np.median(each))
    many = many[np.argsort(-each[many], kind="stable")]
    told = [f"who has {examples.name(int(first[one]))}: {each[one]:,} examples" for one in many]
    yield from report("many-examples", examples, told)
    nobody = [place for place, one in enumerate(examples.ids or ()) if _kind(one) == "missing"]
    yield from report_places("no-person", examples, nobody)
