"""What may be wrong with one set: each finding with how many, which, why it matters and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dptransfer.arrays import AnyArray, Integers
from dptransfer.checkup.examples import UNKNOWN, Examples, Role
from dptransfer.checkup.picture_looks import Look

FEW = 30
"""Examples of a class below which noise of ε = 1 is larger than they are.

Gaussian noise for ε = 1, δ = 1e-5 and a sensitivity of 1 has a standard deviation of 3.73, so in the 64 axes that
a small public map keeps its norm is about 8 · 3.73 = 30; n rows of norm 1 add up to n at most.
"""

DARK = 16
"""Of 255: twelve bits stored as sixteen and read as such end at 4095 ÷ 257, which is below."""

MANY_TIMES = 10
"""A person has many examples with more than so many times what is usual in the set."""

_NAMED = 5
_CHUNK = 4096


@dataclass(frozen=True)
class Finding:
    """Something that its owner should look at before anything is spent.

    Attributes:
        key: what programs call it.
        role: the set it is about.
        title: what it is, in a few words.
        count: how many examples, classes or people.
        examples: some of them, by name.
        why: why it matters.
        remedy: what to do.
    """

    key: str
    role: Role
    title: str
    count: int
    examples: tuple[str, ...]
    why: str
    remedy: str


def few(names: Sequence[str]) -> tuple[str, ...]:
    """The first few names, and how many more there are."""
    rest = len(names) - _NAMED
    return (*names[:_NAMED], f"and {rest} more") if rest > 0 else tuple(names)


def at(examples: Examples, places: Integers | Sequence[int]) -> tuple[str, ...]:
    """Some of the examples at these places, by name."""
    return few([examples.name(int(place)) for place in places])


def findings_in(examples: Examples, looks: Sequence[Look]) -> Iterator[Finding]:
    """All that is found in one set; `looks` are those at its pictures, if it has some."""
    yield from _pictures(examples, looks)
    yield from _texts(examples)
    yield from _rows(examples)
    if examples.role != "public":  # a pool may have labels of its own, and nobody relies on them
        yield from _labels(examples)
    if examples.role == "private":
        yield from _class_sizes(examples)
        yield from _people(examples)


def _pictures(examples: Examples, looks: Sequence[Look]) -> Iterator[Finding]:
    broken = [place for place, look in enumerate(looks) if not look.digest]
    flat = [place for place, look in enumerate(looks) if look.digest and look.flat]
    dark = [
        place for place, look in enumerate(looks) if look.digest and not look.flat and look.brightest < DARK
    ]
    role = examples.role
    if broken:
        why = {
            "private": "Each counts as a row of zeros: it takes part, and tells nothing.",
            "public": "An encoding leaves them out; a method on pictures refuses them.",
            "test": "A test refuses them.",
        }[role]
        fix = "Open one in a viewer; save them again, or take them out of the set."
        yield Finding("unreadable", role, "unreadable pictures", len(broken), at(examples, broken), why, fix)
    if flat:
        why = "Every pixel has one colour, so there is nothing to learn from: often a failed export or a blank page."
        fix = "Look at the originals; export them again, or take them out."
        yield Finding("flat", role, "pictures of one colour", len(flat), at(examples, flat), why, fix)
    if dark:
        why = (
            f"Nothing in them is brighter than {DARK - 1} of 255. Twelve bits that are read as sixteen look like this, "
            "and noise is learned from them at full price."
        )
        fix = "If they have a depth that the file does not tell, export them with eight bits or say their range."
        yield Finding("dark", role, "pictures that are almost black", len(dark), at(examples, dark), why, fix)


def _texts(examples: Examples) -> Iterator[Finding]:
    empty = [place for place, text in enumerate(examples.texts) if not text.strip()]
    if empty:
        yield Finding(
            "empty-text",
            examples.role,
            "empty texts",
            len(empty),
            at(examples, empty),
            "All empty texts have one and the same row, whatever their class.",
            "Fill them, or take them out.",
        )


def _rows(examples: Examples) -> Iterator[Finding]:
    if examples.rows is None:
        return
    wild, zero = _odd_rows(examples.rows)
    role = examples.role
    if len(wild):
        why = (
            "Each counts as a row of zeros."
            if role == "private"
            else "A fit refuses public and test rows like these."
        )
        fix = "Find what made them, often a division by zero or a blank picture, and encode them again."
        yield Finding(
            "non-finite", role, "rows with NaN or infinity", len(wild), at(examples, wild), why, fix
        )
    if len(zero):
        why = "A row of zeros has no direction and tells nothing; an encoding writes one for a picture that it cannot read."
        fix = "Look at the pictures behind them, and encode again."
        yield Finding("zero", role, "rows of zeros", len(zero), at(examples, zero), why, fix)


def _odd_rows(rows: AnyArray) -> tuple[Integers, Integers]:
    """Where rows are not finite, and where they are all zeros; read in chunks, for they may be on disk."""
    wild = np.zeros(len(rows), dtype=bool)
    zero = np.zeros(len(rows), dtype=bool)
    for start in range(0, len(rows), _CHUNK):
        some = np.asarray(rows[start : start + _CHUNK])
        wild[start : start + _CHUNK] = ~np.isfinite(some).all(axis=1)
        zero[start : start + _CHUNK] = ~some.any(axis=1)
    return np.flatnonzero(wild), np.flatnonzero(zero)


def _labels(examples: Examples) -> Iterator[Finding]:
    role, labels = examples.role, examples.labels
    if labels is None:
        why = "A fit learns from labels." if role == "private" else "An accuracy needs labels."
        fix = "Use a folder per class, a column 'label', or labels in a file of their own."
        yield Finding("no-labels", role, "no labels", examples.count, (), why, fix)
        return
    kinds = Counter(_kind(label) for label in labels)
    if len(kinds) > 1:
        told = tuple(f"{count} × {kind}" for kind, count in kinds.most_common())
        why = "A class list is all words or all whole numbers, so that some of these match no class."
        fix = "Write them all in one way; fill those that are missing, or take them out."
        yield Finding("label-types", role, "labels of several types", len(kinds), told, why, fix)
    elif "fraction" in kinds:
        why = "Labels are class names or whole numbers."
        fix = "Convert them; if they are measurements, choose borders between classes that are public."
        yield Finding("label-types", role, "labels that are fractions", kinds["fraction"], (), why, fix)
    if examples.positions is None:
        found = Counter(map(str, labels))
        told = few([f"{label} ({count})" for label, count in found.most_common()])
        why = "Classes are declared, never read off private labels: that a class occurs would be known from the release."
        fix = "Pass the full list of classes, also of those that nobody has: --classes cat,dog"
        yield Finding("no-classes", role, "no class list is declared", len(found), told, why, fix)
        return
    unknown = Counter(
        str(label) for label, place in zip(labels, examples.positions, strict=True) if place == UNKNOWN
    )
    if unknown:
        told = few(
            [_suggested(label, count, examples.classes or ()) for label, count in unknown.most_common()]
        )
        why = "A fit refuses the whole set over one label that is not declared."
        fix = "Correct the labels, declare the missing classes, or take these examples out."
        yield Finding(
            "unknown-labels", role, "labels that are no declared class", unknown.total(), told, why, fix
        )


def _kind(label: Any) -> str:
    """What type of label it is, in a word; a whole number is one however it is stored."""
    if label is None or label != label or (isinstance(label, str) and not label.strip()):
        return "missing"
    if isinstance(label, str):
        return "word"
    if isinstance(label, bool):
        return "yes or no"
    whole = isinstance(label, int) or (isinstance(label, float) and label.is_integer())
    return "whole number" if whole else "fraction" if isinstance(label, float) else type(label).__name__


def _suggested(label: str, count: int, classes: Sequence[str | int]) -> str:
    """A label, how often it occurs, and the class that may be meant: one that differs in blanks or case alone."""
    meant = next((name for name in classes if str(name).strip().casefold() == label.strip().casefold()), None)
    return f"{label!r} ({count})" + ("" if meant is None else f", perhaps '{meant}'")


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
    sizes = class_sizes(examples)
    empty = [name for name, count in sizes.items() if not count]
    small = [f"{name} ({count})" for name, count in sizes.items() if 0 < count < FEW]
    if empty:
        why = "Declared, and without an example: it gets noise alone, and takes predictions from the others."
        fix = "Fine if it is meant. Otherwise look for its examples, perhaps under another spelling; or declare it no longer."
        yield Finding(
            "empty-classes", examples.role, "classes without examples", len(empty), few(empty), why, fix
        )
    if small:
        why = f"At ε = 1 the noise weighs about as much as {FEW} examples, so that smaller classes are mostly guessed."
        fix = "Collect more, join classes that may be joined, or expect little of them. Do it before a fit, not after."
        yield Finding(
            "small-classes", examples.role, f"classes of fewer than {FEW}", len(small), few(small), why, fix
        )


def _people(examples: Examples) -> Iterator[Finding]:
    if examples.people is None:
        if any(name.count("/") > 1 for name in examples.names or ()) and examples.labels is not None:
            why = "If these folders are people, a person with ten pictures is protected ten times worse than one with one."
            fix = "If they are, pass --person folder; if not, all is well."
            deep = sorted({name.split("/")[1] for name in examples.names or () if name.count("/") > 1})
            yield Finding(
                "folders", examples.role, "folders within those of classes", len(deep), few(deep), why, fix
            )
        return
    each = np.bincount(examples.people)
    usual = float(np.median(each))
    many = np.flatnonzero(each > MANY_TIMES * usual)
    if len(many):
        most = many[np.argsort(-each[many], kind="stable")]
        first = {int(person): place for place, person in reversed(list(enumerate(examples.people)))}
        told = few([f"whose is {examples.name(first[int(one)])}: {each[one]} examples" for one in most])
        why = (
            f"A person counts as one example, however many they have (usual here: {usual:g}), so that most of "
            "what these give is scaled away; and an id that stands for many people is no person."
        )
        fix = "See that the id is a person's, and not a default, a device or a ward."
        yield Finding("many-rows", examples.role, "people with many examples", len(many), told, why, fix)
    missing = 0 if examples.ids is None else sum(_kind(one) == "missing" for one in examples.ids)
    if missing:
        places = [place for place, one in enumerate(examples.ids or ()) if _kind(one) == "missing"]
        why = "An example without an id is taken for a person of its own: who has several of these is protected less."
        fix = "Fill the ids."
        yield Finding(
            "no-person", examples.role, "examples without a person", missing, at(examples, places), why, fix
        )
