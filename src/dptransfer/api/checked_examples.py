"""Examples as their owner has them, read for a check: lenient about what a fit would refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.api.source import Source
from dptransfer.base.types import AnyArray, Labels, People
from dptransfer.data import Columns, EncoderIdentity, PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.columns import read_label_words
from dptransfer.data.labels import person_positions, places, whole_word
from dptransfer.data.tables import require
from dptransfer.encoders.encoding import NOBODY
from dptransfer.errors import ArgumentError
from dptransfer.sources import STORED, find_images, find_texts, read_table
from dptransfer.sources.contents import Contents
from dptransfer.sources.decode import without_warnings
from dptransfer.sources.dicom import patient_of
from dptransfer.sources.open_columns import has_columns, open_columns
from dptransfer.sources.person_files import DICOM, FOLDER
from dptransfer.sources.readers import column_of, people_of, read_labels


def ids_of(path: Path, people: str | Path, found: Examples, split: str | None) -> list[Any] | None:
    """The id of each example, None for a missing one; None where there are numbers alone, as in a store.

    Args:
        path: the file or folder.
        people: what tells them.
        found: the examples.
        split: which part of a file that has several.
    """
    if people == FOLDER:
        parts = [name.split("/") for name in found.names or ()]
        return [own[1] if len(own) > 2 else None for own in parts]
    if people == DICOM:
        with without_warnings():
            return [patient_of(file) for file in found.images]
    column, ids = column_of(people), None
    if column is None:
        return None
    if has_columns(path):
        with open_columns(path, split) as table:
            ids = table.values(column)
    return ids if ids is not None and len(ids) == found.count else None


def in_both(first: Sequence[Any], second: Sequence[Any]) -> list[int]:
    """Positions in `first` of examples whose person is in `second` too; a missing id is nobody else's.

    >>> in_both(["ann", "bob", None], [" bob", None])
    [1]
    """
    numbers = person_positions([*first, *second], len(first) + len(second))
    there = set(numbers[len(first) :].tolist())
    return [place for place, number in enumerate(numbers[: len(first)].tolist()) if number in there]


Role: TypeAlias = Literal["private", "public", "test"]
Whose: TypeAlias = str | Path | ArrayLike | None
_Classes: TypeAlias = tuple[str | int, ...] | None

UNKNOWN = -1
"""The position of a label that is none of the declared classes."""


@dataclass(frozen=True, eq=False, repr=False)
class Examples:
    """One set: every example by name, with its label and person; printing it shows none of them.

    Attributes:
        role: private, public or test.
        source: where it is, as its owner named it.
        kind: what the examples are; they are in the attribute of that name.
        count: how many there are.
        labels: of each, as a class where it is one and as the source has it where it is none; or None.
        classes: the declared list, or what the source itself declares, or None.
        people: whose each is, as a number from 0, or None.
        ids: the same as the source writes it, where it can be compared with another set's.
        names: what to call each example; without them, they are called by number.
        encoder: behind the rows, if on record.
        rows: (examples, width), for rows.
        images: the files, for images.
        texts: the texts, for texts.
        held: what the files go with, such as a temporary folder.
    """

    role: Role
    source: str
    kind: Contents
    count: int
    labels: list[Any] | None = None
    classes: _Classes = None
    people: People | None = None
    ids: list[Any] | None = None
    names: Sequence[str] | None = None
    encoder: EncoderIdentity | None = None
    rows: AnyArray | None = None
    images: tuple[Path, ...] = ()
    texts: tuple[str, ...] = ()
    held: object = None

    @cached_property
    def positions(self) -> Labels | None:
        """Each label's place among the classes, `UNKNOWN` where it has none; None without labels or list."""
        return None if self.labels is None or self.classes is None else places(self.labels, self.classes)

    def name(self, position: int) -> str:
        """What the example is called: its file, or its number from 0."""
        return f"{self.kind[:-1]} {position}" if self.names is None else self.names[position]

    def __repr__(self) -> str:
        return f"Examples({self.role} {self.kind})"


def read_examples(source: Source, role: Role) -> Examples:
    """Read a set, whatever a fit or an encoding takes, and refuse only what cannot be read at all.

    Args:
        source: what its owner names; without a list of classes, what the data declare.
        role: what the set is for.
    """
    listed = source.class_list
    if isinstance(source.x, PrivateEmbeddings | PublicEmbeddings):
        return _given(source.x, role, listed)
    path, columns, people = source.path, source.columns, source.people
    if path is None:
        return _in_memory(source, role)
    source.require_there()
    if source.form == "rows" and columns.text is not None and role == "private":
        raise ArgumentError(
            f"text_column (--text-column) must name a column of texts; '{path}' holds rows of numbers, "
            f"without texts in '{columns.text}'. Check the name, or leave it out."
        )
    by_reader = people if isinstance(people, str | Path) and people != NOBODY else None
    if source.form == "rows":
        stored = STORED if people is None else by_reader
        found = _rows(path, role, listed, replace(columns, person=stored), source.y)
    elif source.form == "images":
        found = _images(path, role, listed, replace(columns, person=by_reader))
    else:
        found = _texts(path, role, listed, replace(columns, person=by_reader))
    if people is None:
        return found
    if isinstance(people, str | Path):
        if by_reader is None:
            return replace(found, people=None)
        return replace(found, ids=ids_of(path, by_reader, found, columns.split))
    return replace(found, people=person_positions(people, found.count), ids=np.asarray(people).tolist())


def _in_memory(source: Source, role: Role) -> Examples:
    """Rows, texts or files of images that are not at one path."""
    listed = cast(Sequence[Any], source.x)
    if source.form == "images" and not isinstance(listed[0], Path):
        raise ArgumentError(
            f"Images are checked in their files; the {role} set is an array. Pass a folder, or paths."
        )
    words = None if source.y is None else np.asarray(source.labels)
    found = Examples(
        role,
        f"{source.form} in memory",
        source.form,
        len(listed),
        labels=None if words is None else _named(words, source.class_list),
        classes=source.class_list,
        rows=np.asarray(listed) if source.form == "rows" else None,
        images=tuple(listed) if source.form == "images" else (),
        texts=tuple(listed) if source.form == "texts" else (),
    )
    people = source.told_people
    if people is None:
        return found
    return replace(found, people=person_positions(people, found.count), ids=np.asarray(people).tolist())


def _given(source: PrivateEmbeddings | PublicEmbeddings, role: Role, classes: _Classes) -> Examples:
    """Embeddings, whose labels were found among their classes before."""
    found = Examples(role, "embeddings", "rows", len(source.rows), classes=classes, rows=source.rows)
    if isinstance(source, PrivateEmbeddings):
        facts, labels = source.facts, [source.facts.classes[place] for place in source.labels]
        listed = classes or facts.classes
        return replace(found, labels=labels, classes=listed, people=source.people, encoder=facts.encoder)
    found = replace(found, names=source.sources, encoder=source.encoder)
    if source.labelled is None:
        return found
    return replace(found, labels=source.labelled.names.tolist(), classes=classes or source.labelled.classes)


def _rows(path: Path, role: Role, classes: _Classes, columns: Columns, labels: Any) -> Examples:
    people = columns.person
    table = read_table(path, replace(columns, person=column_of(people)))
    count, found = len(table.rows), table.labels
    if labels is not None:
        require(found is None, path, "labels were given, and the file has its own.", "Leave labels out.")
        found = read_labels(labels) if isinstance(labels, str | Path) else np.asarray(labels)
        one_each = "labels must be one for each row; they are not."
        require(found.shape == (count,), path, one_each, "Check them.")
    listed = classes or table.classes
    own = table.classes if table.labels_are_positions else listed
    return Examples(
        role,
        str(path),
        "rows",
        count,
        labels=None if found is None else _named(found, own),
        classes=listed,
        people=people_of(path, table, people),
        names=table.sources,
        encoder=table.encoder,
        rows=table.rows,
    )


def _named(labels: AnyArray, classes: _Classes) -> list[Any]:
    """Labels as classes, by the rules of `class_positions`; one that is none stays as it is."""
    found: list[Any] = labels.tolist()
    if not classes:
        return found
    if isinstance(classes[0], str) and labels.dtype.kind in "iuf":
        by_place = dict(enumerate(classes))  # where 1.0 is 1
        return [by_place.get(place, place) for place in found]
    return _written(found, classes) if labels.dtype.kind == "U" else found


def _written(words: Sequence[str], classes: _Classes) -> list[Any]:
    """Label words as classes, which may be whole numbers; a word that is none stays as it is."""
    listed = {str(name): name for name in classes or ()}
    return [listed.get(word.strip(), listed.get(whole_word(word), word)) for word in words]


def _images(path: Path, role: Role, classes: _Classes, columns: Columns) -> Examples:
    found = find_images(path, columns, labelled=False)
    words: Sequence[str] | None = None if found.labelled is None else found.labelled.names.tolist()
    own = found.classes
    if has_columns(path):
        with open_columns(path) as table:
            words, own = read_label_words(table, columns.label)
    return Examples(
        role,
        str(path),
        "images",
        len(found),
        labels=None if words is None else _written(words, classes or own),
        classes=classes or own,
        people=found.people,
        names=found.sources(),
        images=found.paths,
        held=found.held,
    )


def _texts(path: Path, role: Role, classes: _Classes, columns: Columns) -> Examples:
    found = find_texts(path, columns, labelled=False)
    words, own = None, None
    if has_columns(path):
        with open_columns(path) as table:
            words, own = read_label_words(table, columns.label)
    return Examples(
        role,
        str(path),
        "texts",
        len(found),
        labels=None if words is None else _written(words, classes or own),
        classes=classes or own,
        people=found.people,
        texts=found.texts,
    )
