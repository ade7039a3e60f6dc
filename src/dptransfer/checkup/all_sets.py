"""One call that looks at private data, and at what they are to be used with, before anything is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from numpy.typing import ArrayLike

from dptransfer.checkup.advice import ADVICE, Finding
from dptransfer.checkup.between import (
    Content,
    content_of,
    duplicates_between,
    duplicates_within,
    mismatches,
    not_compared,
    people_in_both,
)
from dptransfer.checkup.examples import Examples, Role, Source, Whose, read_examples
from dptransfer.checkup.findings import findings_in
from dptransfer.checkup.forecast import (
    ALMOST_NO_NOISE,
    EncodingTime,
    expected_accuracy,
    public_rows,
    why_no_forecast,
)
from dptransfer.checkup.picture_looks import Look, looks_of
from dptransfer.checkup.report import Checkup
from dptransfer.data import STORED, Facts
from dptransfer.data.class_names import Classes
from dptransfer.data.grey_levels import GreyRange
from dptransfer.encoders.base import Encoder
from dptransfer.errors import DataError
from dptransfer.privacy import Budget, Unit
from dptransfer.workers import Workers


def check(
    private: Source,
    public: Source | None = None,
    test: Source | None = None,
    *,
    classes: Classes | None = None,
    people: Whose = STORED,
    labels: str | Path | ArrayLike | None = None,
    split: str | None = None,
    text_column: str | None = None,
    path_column: str | None = None,
    features: str | None = None,
    label_column: str | None = None,
    grey_range: GreyRange | None = None,
    epsilons: float | Sequence[float] = (1.0, 4.0),
    delta: float = 1e-5,
    size: int | None = None,
    person_bound: float = 1.0,
    rows_per_person: float | None = None,
    encoder: Encoder | None = None,
    workers: Workers | None = None,
) -> Checkup:
    """Look for what is wrong with data before a fit is paid for; the answer is as private as the data.

    It charges nothing, releases nothing, opens no ledger and writes no file about the data. Correct what it
    finds in them; but choose neither ε nor classes, a method or settings by it, for a release would then
    depend on private rows in a way that no budget covers. The accuracies to expect are made from public
    rows and declared facts alone, so those may guide a choice.

    >>> import numpy as np, dptransfer as dpt
    >>> rows = np.random.default_rng(0).normal(size=(80, 4))
    >>> rows[7] = np.nan
    >>> found = check(dpt.PrivateEmbeddings(rows, [0, 1] * 40, classes=[0, 1]))
    >>> [(one.key, one.count, one.examples) for one in found.findings]
    [('non-finite', 1, ('row 7',))]

    Args:
        private: what a fit or an encoding takes: a folder of pictures, a file of rows or texts, embeddings.
        public: the public pool, likewise.
        test: the labelled test, likewise.
        classes: the full public list of classes; without one, what the data declare.
        people: whose each private example is, as `read_private` takes it.
        labels: of private rows that come without, as `read_private` takes them.
        split: which part of the private file, if it has several.
        text_column: the column of texts, if it is not 'text'.
        path_column: the column of the paths of pictures in a CSV, if it is not 'path'.
        features: the columns of features in tables, as patterns such as 'f*'.
        label_column: the column of labels in tables, if it is not 'label'.
        grey_range: black and white of greys of more than bytes, as `open_image` takes it.
        epsilons: for which an accuracy is wanted, one or several.
        delta: that goes with them.
        size: about how many private examples there are, only if declared public; for the accuracies.
        person_bound: as how many examples a person counts, at most.
        rows_per_person: about how many examples a person has, only if declared public; for the accuracies.
        encoder: what would encode pictures or texts, for the time that takes; rows on disk should be its.
        workers: who goes through public rows, such as `Processes(4)`; this process if None.
    """
    wanted = (epsilons,) if isinstance(epsilons, int | float) else epsilons
    budgets = [Budget(epsilon=one, delta=delta) for one in (*wanted, ALMOST_NO_NOISE)]
    how = partial(
        read_examples,
        text_column=text_column,
        path_column=path_column,
        features=features,
        label_column=label_column,
    )
    mine = how(private, "private", classes=classes, people=people, labels=labels, split=split)
    sets: dict[Role, Examples] = {"private": mine}
    if test is not None:
        sets["test"] = _read_test(partial(how, test, "test", classes=mine.classes), people)
    if public is not None:
        sets["public"] = how(public, "public", people=None)
    why_not, pool, facts = why_no_forecast(sets.get("public"), mine.classes), None, None
    if not why_not and mine.classes is not None:
        pool = public_rows(sets["public"])
        pool = pool if workers is None else pool.with_workers(workers)
        unit = Unit.ROW if mine.people is None else Unit.PERSON
        facts = Facts(
            mine.classes, (pool.dimension,), size, None, pool.encoder, unit, person_bound, rows_per_person
        )
    started = time.perf_counter()
    looks = {role: looks_of(one.images, f"{role} picture", grey_range) for role, one in sets.items()}
    opening = time.perf_counter() - started
    contents = {role: content_of(one, looks[role]) for role, one in sets.items()}
    findings = list(_between(contents, looks, encoder))
    for role, one in sets.items():
        findings += findings_in(one, looks[role])
        findings += duplicates_within(contents[role])
    worst_first = list(ADVICE)
    unchecked = list(_unchecked(contents, encoder))
    if why_not:
        unchecked.append(f"Accuracy to expect: {why_not}.")
    to_encode = sum(one.count for one in sets.values() if one.rows is None)
    return Checkup(
        findings=tuple(sorted(findings, key=lambda one: worst_first.index(one.key))),
        expected=() if facts is None or pool is None else expected_accuracy(facts, pool, budgets),
        encoding=EncodingTime.of(encoder, to_encode, opening) if encoder is not None and to_encode else None,
        unchecked=tuple(unchecked),
        facts=facts,
        sets=tuple(sets.values()),
        looks=looks,
    )


def _read_test(read: Callable[..., Examples], people: Whose) -> Examples:
    """The test, with whose each example is if it tells that in the same way."""
    if isinstance(people, str):
        with suppress(DataError):  # it has no such column; if the rest cannot be read, the next line says so
            return read(people=people)
    return read(people=None)


def _between(
    contents: Mapping[Role, Content], looks: Mapping[Role, Sequence[Look]], encoder: Encoder | None
) -> Iterator[Finding]:
    """What is found of two sets, the private and another."""
    private = contents["private"]
    for role, other in contents.items():
        if role == "private":
            continue
        yield from duplicates_between(private, other)
        if role == "test":
            yield from people_in_both(private.examples, other.examples)
        mine, theirs = _encoded(private.examples, encoder), _encoded(other.examples, encoder)
        yield from mismatches(mine, theirs, looks["private"], looks[role])


def _encoded(examples: Examples, encoder: Encoder | None) -> Examples:
    """The set as it will be: pictures and texts will be rows of this encoder."""
    if encoder is None or examples.rows is not None:
        return examples
    return replace(examples, encoder=encoder.identity)


def _unchecked(contents: Mapping[Role, Content], encoder: Encoder | None) -> Iterator[str]:
    """What was not looked at, and why."""
    private = contents["private"]
    for role in ("public", "test"):
        if role not in contents:
            yield f"Duplicates between the private and a {role} set: no {role} set was given."
    yield from not_compared(private)
    for role, other in contents.items():
        if role != "private":
            yield from not_compared(private, other)
    mine, test = private.examples, contents.get("test")
    if mine.people is None:
        yield "Examples of a person: nothing tells whose each is. Pass --person, if people have several."
    elif test is not None and (mine.ids is None or test.examples.ids is None):
        yield "People in both the private and the test set: ids are not on record in both, or not in one way."
    if encoder is None and any(one.examples.rows is None for one in contents.values()):
        yield "Time to encode: no encoder was named, or the default one is not installed."
