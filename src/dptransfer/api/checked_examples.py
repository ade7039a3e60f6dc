"""Examples as their owner has them, read and looked at for a check, which is lenient where a fit refuses."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.api.source import Source
from dptransfer.base.progress import tell
from dptransfer.base.types import AnyArray, Floats32, Labels, People
from dptransfer.data import Columns, EncoderIdentity, Labelled, PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.grey_levels import GreyRange
from dptransfer.data.labels import label_positions, person_positions, places, word_positions
from dptransfer.data.table_files import has_columns, open_columns
from dptransfer.data.tables import DICOM, FOLDER, STORED, column_of, read_label_words, require
from dptransfer.errors import ArgumentError, DataError
from dptransfer.sources import TextList, find_images, find_texts, read_table
from dptransfer.sources.decode import open_image, without_warnings
from dptransfer.sources.dicom import is_dicom, patient_of
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


SIDE = 16
"""Of the small copy by which pictures that were saved again are known."""

_THREADS = 4


@dataclass(frozen=True, eq=False, repr=False)
class Look:
    """What was seen of a picture.

    Attributes:
        form: how its file has it, such as 'RGB, 8 bits'; empty if it cannot be opened.
        bits: of a value of that form.
        digest: of its decoded pixels; empty if there are none.
        small: SIDE × SIDE × 3 means of its pixels.
        brightest: its highest value of 255, over all colours.
        flat: whether every pixel has one colour.
        refused: why it can be opened and yet not be interpreted, if so.
    """

    form: str = ""
    bits: int = 0
    digest: bytes = b""
    small: AnyArray | None = None
    brightest: int = 0
    flat: bool = False
    refused: str = ""


def looks_of(paths: Sequence[Path], what: str, grey_range: GreyRange | None = None) -> list[Look]:
    """A look at each, in order; nothing is written or kept.

    Args:
        paths: the files.
        what: a picture is called when progress is told.
        grey_range: black and white, as `open_image` takes it.
    """
    found: list[Look] = []
    with without_warnings(), ThreadPoolExecutor(_THREADS, thread_name_prefix="pictures") as threads:
        for look in threads.map(look_at, paths, repeat(grey_range)):
            found.append(look)
            tell(len(found), len(paths), what)
    return found


def look_at(path: Path, grey_range: GreyRange | None = None) -> Look:
    """Open a picture as an encoding does, and look at it."""
    from PIL import Image

    try:
        colours, bits = _form(path)
    except Exception:  # readers raise many types on damaged files
        return Look()
    form = f"{colours}, {bits} bits"
    try:
        image = open_image(path, grey_range)
        small = image.resize((SIDE, SIDE), Image.Resampling.BOX)
        pixels = np.asarray(image)
    except DataError as problem:
        return Look(form, bits, refused=str(problem))
    except Exception:  # as above
        return Look()
    content = hashlib.blake2b(str(pixels.shape).encode(), digest_size=16)
    content.update(np.ascontiguousarray(pixels).data)
    low, high = pixels.min(axis=(0, 1)), pixels.max(axis=(0, 1))
    flat = bool((low == high).all())
    return Look(form, bits, content.digest(), np.asarray(small), int(high.max()), flat)


def _form(path: Path) -> tuple[str, int]:
    """How the file has its pixels: the colours, and the bits of each value."""
    from PIL import Image

    if is_dicom(path):
        from pydicom import dcmread

        header = dcmread(path, specific_tags=["BitsStored", "PhotometricInterpretation"])
        return f"DICOM {header.PhotometricInterpretation}", int(header.BitsStored)
    with Image.open(path) as opened:
        mode, colours = opened.mode, _COLOURS.get(opened.mode.split(";")[0], opened.mode)
        tagged = getattr(opened, "tag_v2", {}).get(_BITS_PER_SAMPLE)
        if tagged is not None:
            return colours, int(tagged[0] if isinstance(tagged, tuple) else tagged)
        if ";16" in mode or ";16" in str(opened.tile) or (mode == "I" and opened.format == "PNG"):
            return colours, 16
    return colours, {"1": 1, "I": 32, "F": 32}.get(mode, 8)


_BITS_PER_SAMPLE = 258  # a tag of TIFF
_COLOURS = {"1": "black and white", "L": "grey", "I": "grey", "F": "grey", "P": "palette"}


_USUAL_CONTRAST = 30.0  # levels; fainter pictures are compared as if they had it, or all would be alike
_CHUNK = 4096


def _digest(content: str | bytes) -> bytes:
    """A digest of a text or of bytes; of nothing there is none."""
    content = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.blake2b(content, digest_size=16).digest() if content else b""


def _row_digests(rows: AnyArray) -> list[bytes]:
    """A digest of each row's numbers; none of rows that are not finite, or all zeros."""
    digests: list[bytes] = []
    for start in range(0, len(rows), _CHUNK):
        with np.errstate(all="ignore"):
            some = np.asarray(rows[start : start + _CHUNK], dtype=np.float32) + np.float32(0)  # −0 is 0
        tells = (np.isfinite(some).all(axis=1) & some.any(axis=1)).tolist()
        digests += [_digest(row.tobytes()) if told else b"" for row, told in zip(some, tells, strict=True)]
    return digests


def _picture_point(look: Look) -> Floats32:
    """A point that is close for pictures which are nearly the same."""
    if look.small is None:
        return np.zeros(3 * SIDE**2, dtype=np.float32)
    small: Floats32 = look.small.ravel().astype(np.float32)
    mean, contrast = small.mean(), max(float(small.std()), 1.0)
    stretched: Floats32 = mean + (small - mean) * np.float32(max(1.0, _USUAL_CONTRAST / contrast))
    return stretched


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
        looks: what was seen of the images.
    """

    role: Role
    source: str
    kind: Contents
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
    looks: Sequence[Look] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.rows if self.rows is not None else self.images or self.texts)

    @property
    def form(self) -> str:
        """What kind of contents these are; only those of one form can be compared."""
        return self.kind if self.rows is None else f"rows of width {self.rows.shape[1]}"

    @cached_property
    def digests(self) -> list[bytes]:
        """Of decoded pixels, of a row's numbers, of a text; empty where there is no content."""
        if self.rows is not None:
            return _row_digests(self.rows)
        if self.kind == "texts":
            return [_digest(text) for text in self.texts]
        return [b"" if look.flat else look.digest for look in self.looks]

    @cached_property
    def loose_digests(self) -> list[bytes] | None:
        """For texts a second digest, of their words without case and blanks."""
        words = (" ".join(text.split()).casefold() for text in self.texts)
        return list(map(_digest, words)) if self.kind == "texts" else None

    @cached_property
    def points(self) -> AnyArray | None:
        """A point each, close for examples that are nearly the same; None for texts."""
        if self.kind == "images":
            points = [_picture_point(look) for look in self.looks]
            return np.array(points, dtype=np.float32).reshape(len(points), 3 * SIDE**2)
        return self.rows

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
    people: Whose = source.told_people
    if source.path is None:
        people, found = source.ids(), _in_memory(source, role)
    else:
        source.require_there()
        if role == "private":  # one name is given for all tables, and others need not have it
            source.require_fitting_columns()
        by_reader = people if isinstance(people, str | Path) else None
        if source.form == "rows":
            found = _rows(source, role, STORED if source.people is None else by_reader)
        else:
            found = _listed(source, role, replace(source.columns, person=by_reader))
        if by_reader is not None:
            return replace(found, ids=_ids_of(source.path, by_reader, found, source.columns.split))
    if people is None:
        return found
    return replace(found, people=person_positions(people, found.count), ids=np.asarray(people).tolist())


def _in_memory(source: Source, role: Role) -> Examples:
    """Rows, texts or files of images that are not at one path."""
    examples = cast(Sequence[object], source.x)
    if source.form == "images" and not isinstance(examples[0], Path):
        raise ArgumentError(f"Images are checked in their files; the {role} set is an array. Pass paths.")
    labels = None if source.y is None else _named(np.asarray(source.labels), source.class_list)
    found = Examples(role, f"{source.form} in memory", source.form, labels, source.class_list)
    if source.form == "rows":
        return replace(found, rows=np.asarray(examples))
    if source.form == "texts":
        return replace(found, texts=tuple(map(str, examples)))
    return replace(found, images=cast("tuple[Path, ...]", tuple(examples)))


def _of_embeddings(source: PrivateEmbeddings | PublicEmbeddings, role: Role, classes: _Classes) -> Examples:
    """Embeddings, whose labels were found among their classes before."""
    found = Examples(role, "embeddings", "rows", classes=classes, rows=source.rows)
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
    labels, one_each = table.labels, "labels must be one for each row; they are not."
    require(labels is None or labels.shape == (len(table.rows),), path, one_each, "Check them.")
    classes = source.class_list or table.classes
    listed = table.classes if table.labels_are_positions else classes
    named = None if labels is None else _named(labels, listed)
    found = Examples(role, str(path), "rows", named, classes, people_of(path, table, people))
    return replace(found, names=table.sources, encoder=table.encoder, rows=table.rows)


def _listed(source: Source, role: Role, columns: Columns) -> Examples:
    """Images or texts, with their labels as words."""
    path, form = source.at_path("Images and texts"), source.form
    found = (find_images if form == "images" else find_texts)(path, columns, labelled=False)
    words: Sequence[str] | None = None if found.labelled is None else found.labelled.names.tolist()
    own = found.classes
    if has_columns(path):
        words, own = read_label_words(open_columns(path), columns.label)
    classes = source.class_list or own
    labels = _chosen(words, word_positions(words, classes), classes) if words and classes else words
    listed = Examples(role, str(path), form, labels, classes, found.people)
    if isinstance(found, TextList):
        return replace(listed, texts=found.texts)
    return replace(listed, names=found.sources(), images=found.paths, held=found.held)


def _named(labels: AnyArray, classes: _Classes) -> Sequence[object]:
    """Labels as classes, by the rules of a fit; one that is none stays as it is."""
    found = labels.tolist()
    return _chosen(found, label_positions(labels, classes), classes) if classes else found


def _chosen(labels: Sequence[object], at: Labels, classes: tuple[str | int, ...]) -> list[object]:
    return [label if place == UNKNOWN else classes[place] for label, place in zip(labels, at, strict=True)]
