"""Examples as their owner has them, read for a check: lenient about what a fit would refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.api.source import Source
from dptransfer.base.types import AnyArray, Labels, People
from dptransfer.data import Columns, EncoderIdentity, Labelled, PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.labels import label_positions, person_positions, places, word_positions
from dptransfer.data.table_files import has_columns, open_columns
from dptransfer.data.tables import DICOM, FOLDER, STORED, column_of, read_label_words, require
from dptransfer.errors import ArgumentError
from dptransfer.sources import TextList, find_images, find_texts, read_table
from dptransfer.sources.decode import without_warnings
from dptransfer.sources.dicom import patient_of
from dptransfer.sources.readers import Contents, people_of, with_labels


def _ids_of(path: Path, people: str | Path, found: Examples, split: str | None) -> list[object] | None:
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
    column = column_of(people)
    if column is None or not has_columns(path):
        return None
    cells = open_columns(path, split).read([column])[1][column]
    ids = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
    return ids if len(ids) == found.count else None


def in_both(first: Sequence[object], second: Sequence[object]) -> list[int]:
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
    labels: Sequence[object] | None = None
    classes: _Classes = None
    people: People | None = None
    ids: list[object] | None = None
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
    if isinstance(source.x, PrivateEmbeddings | PublicEmbeddings):
        return _of_embeddings(source.x, role, source.class_list)
    people, columns = source.told_people, source.columns
    if source.path is None:
        return _with_people(_in_memory(source, role), source.ids())
    source.require_there()
    if role == "private":  # one name is given for all tables, and others need not have it
        source.require_fitting_columns()
    if source.form == "rows":
        stored = STORED if source.people is None else people
        found = _rows(source, role, stored if isinstance(stored, str | Path) else None)
    else:
        by_reader = people if isinstance(people, str | Path) else None
        found = _listed(source, role, replace(columns, person=by_reader))
    if not isinstance(people, str | Path):
        return _with_people(found, people)
    return replace(found, ids=_ids_of(source.path, people, found, columns.split))


def _with_people(found: Examples, people: ArrayLike | None) -> Examples:
    """The examples, with ids that were given in memory."""
    if people is None:
        return found
    return replace(found, people=person_positions(people, found.count), ids=np.asarray(people).tolist())


def _in_memory(source: Source, role: Role) -> Examples:
    """Rows, texts or files of images that are not at one path."""
    examples = cast(Sequence[object], source.x)
    if source.form == "images" and not isinstance(examples[0], Path):
        raise ArgumentError(f"Images are checked in their files; the {role} set is an array. Pass paths.")
    return Examples(
        role,
        f"{source.form} in memory",
        source.form,
        len(examples),
        labels=None if source.y is None else _named(np.asarray(source.labels), source.class_list),
        classes=source.class_list,
        rows=np.asarray(examples) if source.form == "rows" else None,
        images=cast("tuple[Path, ...]", tuple(examples)) if source.form == "images" else (),
        texts=tuple(map(str, examples)) if source.form == "texts" else (),
    )


def _of_embeddings(source: PrivateEmbeddings | PublicEmbeddings, role: Role, classes: _Classes) -> Examples:
    """Embeddings, whose labels were found among their classes before."""
    found = Examples(role, "embeddings", "rows", len(source.rows), classes=classes, rows=source.rows)
    labelled: Labelled | None
    if isinstance(source, PrivateEmbeddings):
        labelled, encoder = Labelled(source.labels, source.facts.classes), source.facts.encoder
        found = replace(found, people=source.people, encoder=encoder)
    else:
        labelled = source.labelled
        found = replace(found, names=source.sources, encoder=source.encoder)
    if labelled is None:
        return found
    return replace(found, labels=labelled.names.tolist(), classes=classes or labelled.classes)


def _rows(source: Source, role: Role, people: str | Path | None) -> Examples:
    path = source.at_path("Rows")
    table = read_table(path, replace(source.columns, person=column_of(people)))
    table = with_labels(path, source.y, table)
    count, labels = len(table.rows), table.labels
    one_each = "labels must be one for each row; they are not."
    require(labels is None or labels.shape == (count,), path, one_each, "Check them.")
    classes = source.class_list or table.classes
    listed = table.classes if table.labels_are_positions else classes
    return Examples(
        role,
        str(path),
        "rows",
        count,
        labels=None if labels is None else _named(labels, listed),
        classes=classes,
        people=people_of(path, table, people),
        names=table.sources,
        encoder=table.encoder,
        rows=table.rows,
    )


def _listed(source: Source, role: Role, columns: Columns) -> Examples:
    """Images or texts, with their labels as words."""
    path, form = source.at_path("Images and texts"), source.form
    found = (find_images if form == "images" else find_texts)(path, columns, labelled=False)
    words: Sequence[str] | None = None if found.labelled is None else found.labelled.names.tolist()
    own = found.classes
    if has_columns(path):
        words, own = read_label_words(open_columns(path), columns.label)
    classes = source.class_list or own
    listed = Examples(
        role,
        str(path),
        form,
        len(found),
        labels=_chosen(words, word_positions(words, classes), classes) if words and classes else words,
        classes=classes,
        people=found.people,
    )
    if isinstance(found, TextList):
        return replace(listed, texts=found.texts)
    return replace(listed, names=found.sources(), images=found.paths, held=found.held)


def _named(labels: AnyArray, classes: _Classes) -> Sequence[object]:
    """Labels as classes, by the rules of a fit; one that is none stays as it is."""
    found = labels.tolist()
    return _chosen(found, label_positions(labels, classes), classes) if classes else found


def _chosen(labels: Sequence[object], at: Labels, classes: tuple[str | int, ...]) -> list[object]:
    return [label if place == UNKNOWN else classes[place] for label, place in zip(labels, at, strict=True)]
