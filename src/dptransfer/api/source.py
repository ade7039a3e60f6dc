"""`Source`: examples as a user names them, read on request as private, public or test data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptransfer.base.types import EncodedRows
from dptransfer.data import Facts, Labelled, PrivateData, PrivateEmbeddings, PublicData, PublicEmbeddings
from dptransfer.data.embeddings import PoolOutline
from dptransfer.data.examples import file_digests, picture_digests, text_digests
from dptransfer.data.facts import DeclaredSizes, require_same_space
from dptransfer.data.labels import Classes, declared_classes, person_positions
from dptransfer.data.tables import NOBODY, STORED, USUAL_COLUMNS, Columns, require
from dptransfer.encoders import encoding, in_memory
from dptransfer.encoders.encoder import Encoder, Kind
from dptransfer.encoders.registry import Reading
from dptransfer.errors import ArgumentError, DataError
from dptransfer.privacy.relation import Unit
from dptransfer.sources import read_private, read_public
from dptransfer.sources.listings import IMAGE_ENDINGS, ImageList, TextList
from dptransfer.sources.readers import Contents, contents_of

Given: TypeAlias = "ArrayLike | str | Path | Sequence[str] | Sequence[Path] | PrivateData | PublicData"
"""An array of rows or pixels; a path; a list of texts; a list of picture files; or data made already."""

_BATCH = 32
_ENCODING_OPTIONS = {"grey_range": "--grey-range", "size": "--image-size", "encoder": "--encoder"}


class EncodedBeside(ExitStack):
    """Encoded rows of one request: kept beside their source until it is done, so that a killed run goes on.

    Args:
        out: what the rows are for; its name is part of the name of the kept rows.
    """

    def __init__(self, out: Path) -> None:
        super().__init__()
        self._out = out

    def private(self, found: ImageList | TextList, encoder: Encoder, path: Path) -> Path:
        """An `.emb` folder of private rows that only the owner can read."""
        return self.enter_context(encoding.kept_rows(found, encoder, path, self._out))

    def public(self, found: ImageList | TextList, encoder: Encoder, path: Path) -> Path:
        """An `.emb` folder of public rows, from the cache where the same pool was encoded before."""
        return self.enter_context(encoding.pool_rows(found, encoder, path, self._out))


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """Examples as a user names them: private ones, a public pool, labelled shots or a test set.

    >>> import numpy as np
    >>> source = Source(np.eye(2), ["cat", "dog"], classes=["cat", "dog"], name="pets")
    >>> source.form, source.private().facts.classes
    ('rows', ('cat', 'dog'))

    Attributes:
        x: an array of rows, or of images as bytes (examples, height, width, 3); a path to rows (.emb, .npz,
            .parquet, .csv, ...), to images (a folder, an archive, a table) or to texts; a list of strings,
            which are texts; a list of `Path`s, which are images; or data that are made already.
        y: class of each example, or an .npy file of classes, where `x` does not tell.
        classes: the full public list of classes, or a number n for 0 to n - 1. It is never inferred from
            private labels. Class folders and files that declare a list need none.
        people: whose each example is: ids; or for a path a column, 'folder', 'dicom' or a file. None for
            what an `.emb` folder keeps, 'none' to protect single examples, whoever has several.
        name: what the ledger files the data set under.
        columns: names of the columns of a table.
        reading: how images and texts become rows.
        declared: what else the owner declares public: `size`, `class_counts`, `person_bound` and
            `rows_per_person`, as for `PrivateEmbeddings`.
    """

    x: Given
    y: ArrayLike | str | Path | None = None
    classes: Classes | None = None
    people: str | Path | ArrayLike | None = None
    name: str | None = None
    columns: Columns = USUAL_COLUMNS
    reading: Reading = field(default_factory=Reading)
    declared: DeclaredSizes = field(default_factory=DeclaredSizes)
    _pools: dict[Kind, ImageList | TextList] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.classes is not None:
            object.__setattr__(self, "classes", declared_classes(self.classes))
        if self.people is None:  # as the column of people, it is one of the columns
            object.__setattr__(self, "people", self.columns.person)
        if odd := ", ".join(self.declared.keys() - DeclaredSizes.__annotations__.keys()):
            known = ", ".join(DeclaredSizes.__annotations__)
            raise ArgumentError(f"declared has sizes by name, such as size=5000; got {odd}. Use {known}.")

    @staticmethod
    def of(x: Source | Given) -> Source:
        """The source itself, or one of these examples."""
        return x if isinstance(x, Source) else Source(x)

    def __repr__(self) -> str:
        return f"Source({'examples in memory' if self.path is None else repr(str(self.path))})"

    @property
    def path(self) -> Path | None:
        """Where the examples are, if they are at a path."""
        return Path(self.x) if isinstance(self.x, str | Path) else None

    @property
    def data(self) -> PrivateData | PublicData | None:
        """Private or public data that are made already."""
        return self.x if isinstance(self.x, PrivateData | PublicData) else None

    @property
    def labels(self) -> ArrayLike | None:
        """Labels that were given in memory."""
        return None if isinstance(self.y, str | Path) else self.y

    @property
    def in_memory(self) -> ArrayLike:
        """Examples that are at no path, as they were given."""
        return cast(ArrayLike, self.x)

    def at_path(self, what: str) -> Path:
        """Where the examples are; an error that calls them `what` for examples in memory."""
        if self.path is None:
            raise ArgumentError(f"{what} must be at a path; these are in memory. Pass a folder or a file.")
        return self.path

    @cached_property
    def form(self) -> Contents:
        """Whether these are rows, images or texts; names and types alone decide, and no example."""
        x = self.x
        if self.data is not None:
            return "images" if hasattr(x, "pixels") else "rows"
        if self.path is not None:
            return contents_of(self.path, self.columns)
        if texts := _list_of(x, str):
            if all(Path(one).suffix.lower() in IMAGE_ENDINGS for one in texts):
                raise DataError(
                    "These texts end like names of images. Pass files as paths: [Path(one) for one in files]."
                )
            return "texts"
        pixels = isinstance(x, np.ndarray) and x.dtype == np.uint8 and x.ndim == 4
        if isinstance(x, np.ndarray) and x.ndim > 2 and not pixels:
            raise DataError(
                "An array holds rows, (examples, features), or images as bytes (uint8), (examples, height, "
                f"width, 3); got {x.ndim} dimensions of {x.dtype}. Convert it."
            )
        return "images" if pixels or _list_of(x, Path) else "rows"

    @property
    def class_list(self) -> tuple[str | int, ...] | None:
        """The declared classes as a list, also where a number of them was given."""
        return None if self.classes is None else declared_classes(self.classes)

    @property
    def told_people(self) -> str | Path | ArrayLike | None:
        """Whose each example is, if something was said; None for 'none' too."""
        nobody = isinstance(self.people, str) and self.people == NOBODY
        return None if nobody else self.people

    @property
    def is_encoded(self) -> bool:
        """Whether these are rows of numbers, or data that are made already."""
        return self.data is not None or self.form == "rows"

    def require_there(self) -> None:
        """Raise for a path at which there is nothing, or a type of file that nothing reads."""
        if self.path is not None:
            there = encoding.held_in(self.path).exists()
            require(there, self.path, "the file or folder must exist; it does not.", "Check the path.")
        _ = self.form

    def require_other_than(self, private: Source, option: str) -> None:
        """Raise if these are the private examples, a part of them, or hold them.

        Args:
            private: the private examples.
            option: what these were given as.
        """
        mine, theirs = self.path, private.path
        one_place = mine is not None and theirs is not None and encoding.same_place(mine, theirs)
        if self.x is private.x or one_place:
            shown = "both are" if mine is None else f"'{mine}' is"
            raise ArgumentError(
                f"{option} must name other data than the private ones, which would be taken for public and "
                f"published; {shown} the same, or one holds the other. Give a place of its own."
            )

    def require_rows(self) -> None:
        """Raise for images and texts."""
        if not self.is_encoded:
            raise ArgumentError(
                f"Rows of numbers are needed; '{self.path or 'the examples'}' holds images or texts. Encode "
                "them first with 'dptransfer encode'."
            )

    # Private examples

    @cached_property
    def encoder(self) -> Encoder | None:
        """The encoder of images and texts, loaded; None for rows.

        Mistakes in files are found before minutes of loading.
        """
        if self.data is not None:
            self.require_bare()
            return None
        self._require_fitting_options()
        if self.is_encoded:
            return None
        if self.reading.encoder is None:
            _ = self.private_list
        return self.reading.load(self.form)

    @cached_property
    def private_list(self) -> ImageList | TextList | None:
        """Private images or texts at a path, with a label each; None for rows and for examples in memory."""
        if self.path is None or self.is_encoded:
            return None
        encoder = None if self.reading.encoder is None else self.encoder
        found = self.find(encoder or _KINDS[self.form], labelled=self.y is None)
        if self.y is not None:
            classes = found.classes if self.classes is None else self.class_list
            found = replace(found, labelled=Labelled.of(self._given_labels(), classes))
        if self.people is not None and not isinstance(self.people, str | Path):
            found = replace(found, people=person_positions(self.people, len(found)))
        encoding.labels_of(found, self.path, "private examples")
        return found

    def find(self, by: Encoder | Kind, *, labelled: bool = False) -> ImageList | TextList:
        """Images or texts at the path, as an encoder takes them; texts are refused for one of images.

        Args:
            by: the encoder, or the kind of encoder.
            labelled: whether they come with labels; otherwise no column of labels is looked at.
        """
        path, classes = self.at_path("Images and texts"), self.class_list if labelled else None
        columns = replace(self.columns, person=self.people if isinstance(self.people, str | Path) else None)
        return encoding.examples_in(path, by, columns, classes=classes, labelled=labelled)

    @property
    def source_digests(self) -> NDArray[np.uint64] | None:
        """Digests of private files or texts at a path that are still to be encoded."""
        return None if self.encoder is None or self.private_list is None else self.private_list.source_digests

    def facts(self) -> Facts | None:
        """What is public about examples that are still to be encoded; None for rows."""
        found = self.private_list
        classes = self.class_list if found is None else found.classes
        if self.encoder is None or classes is None:
            return None
        people = self.told_people if found is None else found.people
        unit = Unit.ROW if people is None else Unit.PERSON
        shape = (self.encoder.dimension,)
        return Facts(classes, shape, encoder=self.encoder.identity, unit=unit, **self.declared)

    def private(self, beside: EncodedBeside | None = None, *, of: Facts | None = None) -> PrivateEmbeddings:
        """The private rows, labelled; images and texts are encoded.

        Args:
            beside: where encoded rows of a path are kept meanwhile; not needed for rows.
            of: the facts of a model that the rows are for. They give the classes, and must fit.
        """
        if self.data is not None:
            self.require_bare()
            return cast(PrivateEmbeddings, self.data)  # the method says which kind it takes
        if of is None:
            return self._private(beside)
        features = self.columns.features or (of.columns if self.is_encoded else None)
        source = replace(self, classes=of.classes, columns=replace(self.columns, features=features))
        rows = source._private(beside)
        require_same_space(of, rows.facts, names=("The release", f"'{self.path}'"))
        return rows

    def _private(self, beside: EncodedBeside | None) -> PrivateEmbeddings:
        encoder, found = self.encoder, self.private_list
        if found is not None and encoder is not None and beside is not None:
            rows = beside.private(found, encoder, self.at_path("Private examples"))
            return read_private(rows, name=self.name, **self.declared)  # the folder keeps classes and people
        own: dict[str, Any] = {"classes": self.classes, "name": self.name, **self.declared}
        if self.path is not None:
            people = STORED if self.people is None else self.told_people
            return read_private(self.path, self.columns, people=people, labels=self.y, **own)
        if encoder is None:
            return PrivateEmbeddings(self.in_memory, self._given_labels(), people=self.ids(), **own)
        encoded, own["source_digests"] = _encode_in_memory(self.x, encoder), _digests(self.x)
        own |= {"encoder": encoder.identity, "people": self.ids()}
        return PrivateEmbeddings(encoded, self._given_labels(), **own)

    def require_bare(self) -> None:
        """Raise for what data that are made already say themselves."""
        given = any(one is not None for one in (self.y, self.classes, self.people, self.name))
        if given or (self.columns, self.reading, self.declared) != (USUAL_COLUMNS, Reading(), {}):
            raise ArgumentError(
                f"{type(self.x).__name__} says its labels, classes, name and people. Leave them out."
            )

    # Public examples

    def outline(self, private: Source) -> PoolOutline | None:
        """A stand-in for public examples that are still to be encoded; None where there are rows.

        It has labels where a method may use them: class folders of the private classes.
        """
        from dptransfer.encoders import known_vocabulary

        if private.encoder is None or self.path is None or self.is_encoded:
            return None
        found, words = self._pool(private.encoder), known_vocabulary(private.encoder.identity)
        own = private.class_list if private.private_list is None else private.private_list.classes
        known = () if found.classes is None or not set(found.classes) <= set(own or ()) else found.classes
        return PoolOutline(len(found), None if words is None else len(words), classes=known)

    def public(
        self,
        encoder: Encoder | None = None,
        beside: EncodedBeside | None = None,
        *,
        classes: Classes | None = None,
        verify: bool = True,
    ) -> PublicEmbeddings:
        """The public rows; images and texts go through the encoder of the private ones.

        Args:
            encoder: that encoder; None where the private examples are rows.
            beside: where encoded rows of a path are kept meanwhile.
            classes: the list that labels refer to, if it is known.
            verify: whether rows in many files are read and checked now.
        """
        if self.data is not None:
            return cast(PublicEmbeddings, self.data)
        if self.is_encoded:
            if self.path is None:
                return PublicEmbeddings(self.in_memory, self.labels, classes=self.classes)
            return read_public(self.path, self.columns, classes=classes, labels=self.y, verify=verify)
        self.require_there()
        if encoder is None:
            raise ArgumentError(
                "Public images and texts need the encoder of private ones, which are rows. Pass public rows."
            )
        if self.path is not None and beside is not None:
            return read_public(beside.public(self._pool(encoder), encoder, self.path), name=self.path.name)
        rows, digests = _encode_in_memory(self.x, encoder), _digests(self.x)
        return PublicEmbeddings(rows, encoder=encoder.identity, source_digests=digests)

    def _pool(self, encoder: Encoder) -> ImageList | TextList:
        """Public images or texts at the path, which is listed or unpacked once."""
        if encoder.kind not in self._pools:
            self._pools[encoder.kind] = self.find(encoder)
        return self._pools[encoder.kind]

    def test(self, facts: Facts, encoder: Encoder | None) -> tuple[PublicEmbeddings, Labelled, str]:
        """Test rows that are not protected, their labels, and a name for the card.

        The name is that of the file: what the ledger calls the rows is their owner's alone.

        Args:
            facts: of the model.
            encoder: of the model, for images and texts.
        """
        from dptransfer.encoders.model_inputs import encoded_here

        name = "" if self.path is None else self.path.name
        if not self.is_encoded and encoder is not None:
            found = replace(self, classes=facts.classes).find(encoder, labelled=True)
            labelled = encoding.labels_of(found, self.at_path("Test examples"), "test examples")
            rows, digests = encoded_here(found, encoder, _BATCH), found.source_digests
            return PublicEmbeddings(rows, encoder=encoder.identity, source_digests=digests), labelled, name
        self.require_rows()
        if self.path is None:
            tested = PublicEmbeddings(self.in_memory, self._given_labels(), classes=facts.classes)
        else:
            columns = replace(self.columns, features=self.columns.features or facts.columns)
            tested = read_public(self.path, columns, classes=facts.classes, labels=self.y, private_too=True)
        if tested.labelled is None:
            raise DataError(
                f"'{self.path}': test rows must have labels; these have none. Name them: --label-column."
            )
        tested.require_match(facts, names=("The model", f"'{self.path or 'the test set'}'"))
        return tested, tested.labelled, name

    # What a source says about itself must fit its form

    def require_fitting_columns(self) -> None:
        """Raise for columns of texts or paths that these examples do not have."""
        columns = self.columns
        for option, what, given, fits in (
            ("text_column (--text-column)", "texts", columns.text, not self.is_encoded),
            ("path_column (--path-column)", "paths of images", columns.path, self.form == "images"),
        ):
            if given is not None and not fits:
                raise ArgumentError(
                    f"{option} must name a column of {what}; the private examples are {self.form}, without "
                    f"{what} in '{given}'. Check the name, or leave it out."
                )

    def _require_fitting_options(self) -> None:
        self.require_fitting_columns()
        for name, option in _ENCODING_OPTIONS.items():
            if self.is_encoded and getattr(self.reading, name) is not None:
                raise ArgumentError(
                    f"{name} ({option}) is for images and texts; these are rows. Leave it out."
                )

    def _given_labels(self) -> ArrayLike:
        if self.y is None:
            raise DataError("Private examples need classes; there is no y. Pass y=... and classes=[...].")
        return cast(ArrayLike, self.y)

    def ids(self) -> ArrayLike | None:
        """Ids as they are; a word has no file here that it could name a column of."""
        if not isinstance(self.told_people, str | Path):
            return self.told_people
        raise ArgumentError(
            f"people must be ids, one for each example; got '{self.people}'. Pass ids, or a path of examples."
        )


_KINDS: Mapping[Contents, Kind] = {"images": "image", "texts": "text"}
_Item = TypeVar("_Item", str, Path)


def _list_of(x: object, kind: type[_Item]) -> list[_Item]:
    """The entries of a list, an array or a column of pandas that holds this kind alone."""
    entries = [one for one in in_memory.items_of(x) if isinstance(one, kind)]
    return entries if len(entries) == len(in_memory.items_of(x)) else []


def _encode_in_memory(x: object, encoder: Encoder) -> EncodedRows:
    """Rows of examples that are in memory, or of a list of files; nothing is written."""
    if texts := _list_of(x, str):
        return in_memory.encode_texts_in_memory(texts, encoder, batch=_BATCH)
    if isinstance(x, np.ndarray):
        return in_memory.encode_pixels(x, encoder, batch=_BATCH)
    rows, unreadable = in_memory.encode_images_in_memory(_list_of(x, Path), encoder, batch=_BATCH)
    if unreadable:  # before a charge the message says that there are some, and not which
        raise DataError("Images must be readable; some are not. Repair them, or leave them out.")
    return rows


def _digests(x: object) -> NDArray[np.uint64]:
    """Digests of examples that are in memory, or of a list of files."""
    if texts := _list_of(x, str):
        return text_digests(texts)
    return picture_digests(x) if isinstance(x, np.ndarray) else file_digests(_list_of(x, Path))
