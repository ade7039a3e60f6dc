"""Examples in any form as rows: arrays, texts, pictures and paths, read or encoded, for one fit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.data import Columns, Facts, Labelled, PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.embeddings import PoolOutline
from dptransfer.data.labels import Classes, declared_classes
from dptransfer.data.people import person_positions
from dptransfer.data.tables import require
from dptransfer.encoders.encoding import NOBODY, examples_at, examples_in, held_in, kept_rows, labels_of
from dptransfer.errors import ArgumentError, DataError
from dptransfer.ledger.overlap import private_here, shared_sources
from dptransfer.privacy.relation import Unit
from dptransfer.sources import STORED, read_private, read_public
from dptransfer.sources.contents import Contents, contents_of
from dptransfer.sources.digests import file_digests, picture_digests, text_digests
from dptransfer.sources.file_types import IMAGE_ENDINGS

if TYPE_CHECKING:
    from dptransfer.base.arrays import EncodedRows
    from dptransfer.encoders import Encoder
    from dptransfer.encoders.base import Kind
    from dptransfer.sources import ImageList, TextList

DEFAULT_ENCODERS = {"images": "efficientnet-lite0", "texts": "minilm"}
"""The encoder that is taken where none is named, by what is to be encoded."""

PATHS = (str, Path)
_BATCH = 32
_SIZES = ("size", "class_counts", "person_bound", "rows_per_person")  # what is declared of them
_OF_IMAGES = {"grey_range": "--grey-range", "size": "--image-size"}


class Intake:
    """The examples of one fit: private ones are found first, then encoded after the public ones.

    So what is wrong with files is told before minutes of encoding. Rows of what lies at a path are kept
    beside it until `kept` is closed, and a killed fit goes on from there; those of arrays and lists are in
    memory alone.

    Args:
        x: the private examples: an array of rows, or of pictures as bytes (examples, height, width, 3); a
            path; a list of words, which are texts; a list of `Path`s, which are pictures.
        y: class of each, where `x` does not tell.
        classes: the declared list.
        people: whose each is: ids; or for a path, what `--person` says.
        encoder: one that is loaded, the name of one, or None for the default; rows take none.
        text_column: the column of the texts in a table.
        path_column: the column of the paths of pictures in a CSV, if it is not 'path'.
        features: the columns of features in a table.
        label_column: the column of labels in a table.
        purpose: what the rows are for; its name is part of that of kept rows.
        kept: holds on to rows as long as they are needed.
        how: size, device, grey range of an encoder that is named, as `get_encoder` takes them.
    """

    def __init__(
        self,
        x: Any,
        y: Any = None,
        *,
        classes: Classes | None,
        people: Any,
        encoder: str | Encoder | None,
        text_column: str | None,
        path_column: str | None = None,
        features: str | None,
        label_column: str | None,
        purpose: Path,
        kept: ExitStack,
        **how: Any,
    ) -> None:
        self._x, self._y, self._people = x, y, people
        self._classes = None if classes is None else declared_classes(classes)
        self._text_column, self._features, self._label_column = text_column, features, label_column
        self._path_column = path_column
        self._purpose, self._kept = purpose, kept
        self._found: ImageList | TextList | None = None
        self._pools: dict[str | Path, ImageList | TextList] = {}
        self.form: Contents = self._form(x)
        if text_column is not None and self.form == "rows":
            raise ArgumentError(
                f"text_column (--text-column) must name a column of texts; the private examples are rows of "
                f"numbers, without texts in '{text_column}'. Check the name, or leave it out."
            )
        if path_column is not None and self.form != "images":
            raise ArgumentError(
                "path_column (--path-column) must name a column with paths of pictures; the private examples "
                f"are {self.form}, without paths in '{path_column}'. Check the name, or leave it out."
            )
        self.encoder = self._loaded(encoder, how)
        if self.encoder is not None and isinstance(x, PATHS) and self._found is None:
            self._found = self._labelled(examples_in(Path(x), self.encoder, classes, **self._ways()))

    @property
    def source_digests(self) -> NDArray[np.uint64] | None:
        """Of the private files or texts that are still to be encoded; None where there are none at a path."""
        return None if self._found is None else self._found.source_digests

    def private(self, **declared: Any) -> PrivateEmbeddings:
        """The private rows; `declared` is what else their owner declares, and how a file of rows is read."""
        if self.encoder is not None:
            return self._encoded_private(**declared)
        if not isinstance(self._x, PATHS):
            return PrivateEmbeddings(
                self._x, _required(self._y), classes=self._classes, people=_ids(self._people), **declared
            )
        people = STORED if self._people is None else self._people
        labels = declared.pop("labels", None) if self._y is None else self._y
        return read_private(
            self._x,
            classes=self._classes,
            labels=labels,
            people=None if isinstance(people, str) and people == NOBODY else people,
            features=self._features,
            label_column=self._label_column,
            **declared,
        )

    def facts(self, **declared: Any) -> Facts | None:
        """What is public about the rows before they are encoded; None where there is nothing to encode.

        Args:
            declared: what `private` is given; what facts have no room for is left out.
        """
        classes = self._classes if self._found is None else self._found.classes
        if self.encoder is None or classes is None:
            return None
        people = self._people if self._found is None else self._found.people
        by_person = people is not None and not (isinstance(people, str) and people == NOBODY)
        sizes = {name: declared[name] for name in _SIZES if name in declared}
        return Facts(
            classes,
            (self.encoder.dimension,),
            encoder=self.encoder.identity,
            unit=Unit.PERSON if by_person else Unit.ROW,
            **sizes,
        )

    def outline(self, x: Any) -> PoolOutline | None:
        """A stand-in for public rows that are still to be encoded; None where there is none such.

        It has labels where a method may use them: class folders of the private classes.
        """
        from dptransfer.encoders import known_vocabulary

        if self.encoder is None or not isinstance(x, PATHS) or self._form(x) == "rows":
            return None
        found, words = self._found_at(x), known_vocabulary(self.encoder.identity)
        own = self._classes if self._found is None else self._found.classes
        shots = found.classes is not None and set(found.classes) <= set(own or ())
        return PoolOutline(len(found), None if words is None else len(words), unlabelled=not shots)

    def public(self, x: Any) -> PublicEmbeddings:
        """Public rows; pictures and texts go through the encoder of the private ones."""
        from dptransfer.encoders.pool_cache import cached_pool

        if self._form(x) == "rows":
            if not isinstance(x, PATHS):
                return PublicEmbeddings(x)
            return read_public(x, features=self._features, label_column=self._label_column)
        if isinstance(x, PATHS):
            there = held_in(Path(x)).exists()
            require(there, Path(x), "the file or folder must exist; it does not.", "Check the path.")
        if self.encoder is None:
            raise ArgumentError(
                "Public images and texts go through the encoder of the private ones, which are rows already. "
                "Pass public rows of the same encoder; 'dptransfer encode' makes them."
            )
        if not isinstance(x, PATHS):
            return PublicEmbeddings(
                _encoded(x, self.encoder), encoder=self.encoder.identity, source_digests=_digests(x)
            )
        path, found = Path(x), self._found_at(x)
        self._require_others(found)
        encoded = partial(kept_rows, found, self.encoder, path, self._purpose, public=True)
        rows = cached_pool(found, self.encoder, encoded)
        return read_public(self._kept.enter_context(rows), name=path.name)

    def _require_others(self, found: ImageList | TextList) -> None:
        """Raise where files or texts are private ones, before minutes of encoding; a fit compares rows."""
        own = self._found
        if own is not None and shared_sources(own.source_digests, found.source_digests):
            raise private_here()

    def _found_at(self, x: str | Path) -> ImageList | TextList:
        """The public images or texts at a path, which is listed, or unpacked, once."""
        assert self.encoder is not None
        if x not in self._pools:
            self._pools[x] = examples_in(
                Path(x),
                self.encoder,
                None,
                labelled=False,
                text_column=self._text_column,
                path_column=self._path_column,
            )
        return self._pools[x]

    def _encoded_private(self, **declared: Any) -> PrivateEmbeddings:
        assert self.encoder is not None
        if self._found is None:
            return PrivateEmbeddings(
                _encoded(self._x, self.encoder),
                _required(self._y),
                classes=self._classes,
                encoder=self.encoder.identity,
                people=_ids(self._people),
                source_digests=_digests(self._x),
                **declared,
            )
        rows = kept_rows(self._found, self.encoder, Path(self._x), self._purpose)
        return read_private(self._kept.enter_context(rows), **declared)  # they keep classes and people

    def _form(self, x: Any) -> Contents:
        """What examples are; decided by types, names and columns, and by no example."""
        if isinstance(x, PATHS):
            return contents_of(
                Path(x), Columns(self._path_column, self._text_column, features=self._features)
            )
        if _is_list_of(x, str):
            if all(Path(one).suffix.lower() in IMAGE_ENDINGS for one in x):
                raise DataError(
                    "Lists of words are texts; all of these end like names of pictures, and names would be "
                    "learned from. Pass files as paths: [Path(one) for one in files]."
                )
            return "texts"
        pixels = isinstance(x, np.ndarray) and x.dtype == np.uint8 and x.ndim == 4
        if isinstance(x, np.ndarray) and x.ndim > 2 and not pixels:
            raise DataError(
                "Arrays are rows, (examples, features), or pictures as bytes (uint8), (examples, height, "
                f"width, 3); got {x.ndim} dimensions of {x.dtype}. Convert them."
            )
        return "images" if pixels or _is_list_of(x, Path) else "rows"

    def _loaded(self, encoder: str | Encoder | None, how: dict[str, Any]) -> Encoder | None:
        from dptransfer.encoders import get_encoder

        if self.form == "rows":
            for name, option in _OF_IMAGES.items():
                if how.get(name) is not None:
                    raise ArgumentError(
                        f"{name} ({option}) is for images; these are rows already. "
                        "Give it to 'dptransfer encode', or leave it out."
                    )
            if encoder is None:
                return None
            raise ArgumentError(
                "An encoder is for images and texts; the private examples are rows of numbers. Leave it out, "
                "or name the column of texts."
            )
        path = Path(self._x) if isinstance(self._x, PATHS) else None
        if encoder is None and path is not None:
            kind: Kind = "text" if self.form == "texts" else "image"
            self._found = self._labelled(examples_at(path, kind, self._classes, **self._ways()))
        named = encoder or DEFAULT_ENCODERS[self.form]
        if isinstance(named, str):
            return get_encoder(named, **how)
        if how:
            raise ArgumentError(
                f"An encoder that is loaded has its own {', '.join(how)}. Leave that out, or give its name."
            )
        return named

    def _ways(self) -> dict[str, Any]:
        """How examples at a path are read, beside their classes."""
        person = str(self._people) if isinstance(self._people, PATHS) else None
        columns = {"text_column": self._text_column, "path_column": self._path_column}
        columns["label_column"] = self._label_column
        return {"labelled": self._y is None, "person": person, **columns}

    def _labelled(self, found: ImageList | TextList) -> ImageList | TextList:
        """With the labels and ids that were given beside them; an error where there are no labels."""
        if self._y is not None:
            classes = found.classes if self._classes is None else self._classes
            found = replace(found, labelled=Labelled.of(self._y, classes))
        if self._people is not None and not isinstance(self._people, PATHS):
            found = replace(found, people=person_positions(self._people, len(found)))
        labels_of(found, Path(self._x), "private examples")
        return found


def _is_list_of(x: Any, kind: type) -> bool:
    if isinstance(x, np.ndarray):
        return kind is str and x.dtype.kind == "U" and x.ndim == 1
    listed = isinstance(x, Sequence) or hasattr(x, "to_list")  # such as a column of pandas
    return listed and len(x) > 0 and all(isinstance(one, kind) for one in x)


def _encoded(x: Any, encoder: Encoder) -> EncodedRows:
    """Rows of examples that are in memory, or of a list of files; nothing is written."""
    from dptransfer.encoders import encode_images_in_memory, encode_pixels, encode_texts_in_memory

    if encoder.kind == "text":
        return encode_texts_in_memory(list(x), encoder, batch=_BATCH)
    if isinstance(x, np.ndarray):
        return encode_pixels(x, encoder, batch=_BATCH)
    rows, unreadable = encode_images_in_memory(list(x), encoder, batch=_BATCH)
    if unreadable:  # that there are any is told, before a charge, and not which
        raise DataError("Pictures must be readable; some are not. Repair them, or leave them out.")
    return rows


def _digests(x: Any) -> NDArray[np.uint64]:
    """Digests of examples that are in memory, or of a list of files."""
    if _is_list_of(x, str):
        return text_digests(x)
    return picture_digests(x) if isinstance(x, np.ndarray) else file_digests(list(x))


def _ids(people: Any) -> Any:
    """Ids as they are; a word has no file here that it could name a column of."""
    if people is None or not isinstance(people, PATHS):
        return people
    if people == NOBODY:
        return None
    raise ArgumentError(
        f"people must be ids, one for each example, where examples are given as such; got '{people}'. "
        "Pass the ids, or a path for the examples."
    )


def _required(y: Any) -> Any:
    if y is None:
        raise DataError("Private examples need a class each; there is no y. Pass y=... and classes=[...].")
    return y
