"""Base of rows and pictures with labels: length checks, fingerprint and representation.

Digests of what rows were made from (files, texts or pixels) let a ledger know data again in any encoding.
Each is 64 bits of BLAKE2b, and as private as the example itself, for whoever guesses the example can check
the guess: it is kept in `.emb` folders, beside the rows, and ledgers keep keyed hashes of it alone. 0
stands for what cannot be recognised: a file that cannot be read, an empty text, a picture of one colour.
"""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, Protocol, Self, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptransfer.base.types import AnyArray, Integers, JsonObject
from dptransfer.base.worker_env import cores_here
from dptransfer.data import labels
from dptransfer.data.facts import DeclaredSizes, EncoderIdentity, Facts
from dptransfer.data.labels import Classes, Labelled, LabelledList, person_positions
from dptransfer.errors import DataError
from dptransfer.privacy.relation import Unit

_SLAB_BYTES = 2**24


class IndexedArray(Protocol):
    """An array, or what is indexed like one by slices and positions: rows in many files, or pictures."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Examples first."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of their numbers."""

    def __len__(self) -> int: ...

    def __getitem__(self, which: slice | Integers, /) -> AnyArray: ...


Array = TypeVar("Array", bound=IndexedArray)


class PrivateData(ABC):
    """Sensitive labelled examples, with what their owner declares public about them.

    `PrivateEmbeddings` and `PrivateImages` are such data. It has no length and prints its declared facts
    alone: the number of examples is private.

    Args:
        examples: an array of them, or what is indexed like one.
        y: class of each.
        classes: the full public list of classes; that of `y` where it has one.
        name: what the ledger files them under.
        people: whose each is; then persons are protected and not single examples (`facts.unit`).
        encoder: the encoder behind rows.
        columns: what the features of rows are called.
        sizes: what is declared of their number.
    """

    _known_fingerprint: str | None = None
    source_digests: NDArray[np.uint64] | None = None
    """Of the files or texts behind the examples; for the owner's ledger only."""

    def __init__(
        self,
        examples: IndexedArray,
        y: ArrayLike | Labelled,
        classes: Classes | None,
        *,
        name: str | None,
        people: ArrayLike | None,
        encoder: EncoderIdentity | None = None,
        columns: Sequence[str] | None = None,
        **sizes: Unpack[DeclaredSizes],
    ) -> None:
        listed = Labelled.of(y).classes if classes is None else labels.declared_classes(classes)
        unit = Unit.ROW if people is None else Unit.PERSON
        shape = examples.shape[1:]
        self.facts = Facts(listed, shape, encoder=encoder, unit=unit, columns=columns, **sizes)
        self.name, self._examples = name, examples
        self.labels = labels.class_positions(y, listed)
        if len(self.labels) != len(examples):
            rule = "x and y must have one entry per example; their lengths differ."
            raise DataError(f"{rule} Pass one label for each.")
        self.people = None if people is None else person_positions(people, len(examples))

    def __repr__(self) -> str:
        label = f"'{self.name}', " if self.name else ""
        form = self.facts.form.removeprefix("rows of ")
        people = ", by person" if self.facts.unit is Unit.PERSON else ""
        return f"{type(self).__name__}({label}{len(self.facts.classes)} declared classes, {form}{people})"

    @abstractmethod
    def part(self, positions: Integers, facts: Facts) -> Self:
        """The examples at these positions as data of their own, with labels and people, and these facts."""

    def _part(self, positions: Integers, facts: Facts, examples: IndexedArray) -> Self:
        part = copy(self)
        part.__dict__.pop("fingerprint", None)
        part._known_fingerprint = None
        part.source_digests = None if self.source_digests is None else self.source_digests[positions]
        part.facts, part.labels, part._examples = facts, self.labels[positions], examples
        if self.people is not None:
            part.people = person_positions(self.people[positions], len(positions))
        return part

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of examples and labels: for the owner's ledger only, never for a release."""
        return self._known_fingerprint or content_digest(self._examples, self.labels)

    def is_unchanged(self) -> bool:
        """Whether examples and labels are still those of the fingerprint; if it was taken, all are read."""
        if self._known_fingerprint is None and "fingerprint" not in self.__dict__:
            return bool(self.fingerprint)
        return self.fingerprint == content_digest(self._examples, self.labels)


class PublicData(LabelledList):
    """Examples that are nobody's secret, `PublicEmbeddings` or `PublicImages`; labels are optional.

    Args:
        examples: an array of them, or what is indexed like one.
        labelled: class of each, if known.
        name: a name for the card.
        sources: where each came from.
    """

    encoder: EncoderIdentity | None = None
    _known_fingerprint: str | None = None
    source_digests: NDArray[np.uint64] | None = None
    """Of the files or texts behind the examples."""

    def __init__(
        self,
        examples: IndexedArray,
        labelled: Labelled | None,
        name: str | None,
        sources: Iterable[str | Path] | None,
    ) -> None:
        self.name, self._examples = name, examples
        self.sources = None if sources is None else tuple(str(source) for source in sources)
        self.labelled = labelled
        count, what = len(examples), self._what
        if count == 0:
            raise DataError(f"Public {what} must be at least one; got none. Give more, or leave them out.")
        if self.sources is not None and len(self.sources) != count:
            raise DataError(f"sources must name each of the {count} {what}; got {len(self.sources)}.")
        if labelled is not None and len(labelled) != count:
            raise DataError(f"y must label each of the {count} {what}; got {len(labelled)}.")

    @property
    def _what(self) -> str:
        return "rows" if len(self._examples.shape) == 2 else "pictures"

    @property
    def _extent(self) -> str:
        """How large an example is."""
        first, *second = self._examples.shape[1:3]
        return f"{first} × {second[0]}" if second else f"dimension {first}"

    def __len__(self) -> int:
        return len(self._examples)

    def __repr__(self) -> str:
        labelled = "unlabelled" if self.classes is None else f"{len(self.classes)} classes"
        return f"{type(self).__name__}({len(self)} {self._what}, {self._extent}, {labelled})"

    @abstractmethod
    def require_match(self, facts: Facts) -> None:
        """Raise unless they can stand beside private examples of this kind."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the examples (not of shots at their side, which have their own)."""
        return self._known_fingerprint or content_digest(self._examples)

    @property
    def on_record(self) -> bool:
        """Whether the fingerprint is known, so that nobody has to read them all for it."""
        return self._known_fingerprint is not None

    @property
    def record(self) -> JsonObject:
        """What a release tells about them."""
        encoder = None if self.encoder is None else self.encoder.to_dict()
        record = {"name": self.name, "rows": len(self), "fingerprint": self.fingerprint, "encoder": encoder}
        return record if self.classes is None else {**record, "classes": list(self.classes)}


def public_record(
    chosen: Sequence[Sequence[int]] | None, facts: Facts, public: PublicData | None
) -> JsonObject | None:
    """What a release tells about public examples by class: positions and, where known, sources."""
    if chosen is None or public is None:
        return None
    rows = {str(name): [int(row) for row in own] for name, own in zip(facts.classes, chosen, strict=True)}
    if (sources := public.sources) is None:
        return {"rows": rows}
    return {"rows": rows, "sources": {name: [sources[row] for row in own] for name, own in rows.items()}}


def one_digest_each(digests: ArrayLike | None, count: int) -> NDArray[np.uint64] | None:
    """Digests of sources, as many as there are examples."""
    if digests is None:
        return None
    found = np.asarray(digests)
    if found.shape != (count,) or found.dtype != np.uint64:
        rule = "source_digests must have one uint64 for each example; these have not."
        raise DataError(f"{rule} Leave them out.")
    return found


def read_only(array: Array) -> Array:
    """The same examples in an array that nobody can write to by this name; what is no array is as it is."""
    if not isinstance(array, np.ndarray) or not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


class ContentDigest(NamedTuple):
    """SHA-256 of arrays by type, shape and values, and which row is the first that is not finite.

    Attributes:
        of_first: of the first array.
        of_all: of all of them, one after the other.
        first_bad: position of the first row of the first array with a NaN or an infinity; None without any.
    """

    of_first: str
    of_all: str
    first_bad: int | None

    @classmethod
    def of(
        cls, rows: IndexedArray, *others: IndexedArray, step: Callable[[int], None] | None = None
    ) -> ContentDigest:
        """Read arrays, or what is indexed like them, once and in chunks.

        Args:
            rows: the first array.
            others: the others.
            step: called with the number of rows that were read.
        """
        digest, first_bad = hashlib.sha256(_form(rows)), None
        with ThreadPoolExecutor(1) as beside:  # hashing takes longer than all else, and holds nobody up
            hashed: Future[None] | None = None
            for slab in slabs(rows):
                part = np.ascontiguousarray(rows[slab])
                if hashed is not None:
                    hashed.result()
                hashed = beside.submit(digest.update, part.data)
                if first_bad is None and part.ndim == 2 and (bad := ~finite_rows(part)).any():
                    first_bad = slab.start + int(bad.argmax())
                if step is not None:
                    step(slab.stop)
        of_first = digest.hexdigest()
        for array in others:
            digest.update(_form(array))
            for slab in slabs(array):
                digest.update(np.ascontiguousarray(array[slab]).data)
        return cls(of_first, digest.hexdigest(), first_bad)


def content_digest(*arrays: IndexedArray) -> str:
    """SHA-256 over type, shape and values of the arrays, or of what is indexed like one, read in chunks."""
    return ContentDigest.of(*arrays).of_all


def described_digest(description: object, *arrays: AnyArray) -> str:
    """SHA-256 of a text, or of what JSON makes of it, and of the numbers of arrays whose shapes it tells."""
    told = description if isinstance(description, str) else json.dumps(description)
    digest = hashlib.sha256(told.encode())  # which ends where it ends
    for array in arrays:
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def _form(array: IndexedArray) -> bytes:
    """What goes before an array's values: its type and shape."""
    return f"{array.dtype.str}{array.shape}".encode()


def slabs(array: IndexedArray) -> Iterator[slice]:
    """An array, or what is indexed like one, in slices of a few megabytes."""
    step = max(1, _SLAB_BYTES // max(1, math.prod(array.shape[1:]) * array.dtype.itemsize))
    return (slice(start, min(len(array), start + step)) for start in range(0, len(array), step))


def finite_rows(rows: AnyArray) -> NDArray[np.bool_]:
    """Which rows are finite; halves are looked at as bits, for as numbers they take longer than hashing."""
    if rows.dtype == np.float16:
        infinite = 0x7C00  # the exponent of infinities and of what is no number
        largest = (np.ascontiguousarray(rows).view(np.uint16) & 0x7FFF).max(axis=1, initial=0)
        return np.asarray(largest < infinite)
    return np.asarray(np.isfinite(rows).all(axis=1))


_FILE, _TEXT, _PICTURE = b"file", b"text", b"picture"


def file_digests(paths: Sequence[Path]) -> NDArray[np.uint64]:
    """Of the bytes of files, whatever their names and places."""
    with ThreadPoolExecutor(min(8, len(cores_here()))) as threads:
        return np.fromiter(threads.map(_of_file, paths), np.uint64)


def text_digests(texts: Iterable[str]) -> NDArray[np.uint64]:
    """Of texts, whatever their white space and composition of letters."""
    spelt = (" ".join(unicodedata.normalize("NFC", str(text)).split()) for text in texts)
    digests = (_digest(_TEXT, words.encode("utf-8", "surrogatepass")) if words else 0 for words in spelt)
    return np.fromiter(digests, np.uint64)


def picture_digests(pixels: IndexedArray) -> NDArray[np.uint64]:
    """Of pictures as bytes, (pictures, height, width, 3), or of what is indexed like that."""
    form = repr(tuple(pixels.shape[1:])).encode()
    pictures = (picture for slab in slabs(pixels) for picture in np.asarray(pixels[slab]))
    digests = (_digest(_PICTURE, form + one.tobytes()) if (one != one[0, 0]).any() else 0 for one in pictures)
    return np.fromiter(digests, np.uint64)


def _of_file(path: Path) -> int:
    try:
        with open(path, "rb") as stream:
            digest = hashlib.file_digest(stream, partial(hashlib.blake2b, digest_size=8, person=_FILE))
    except OSError:  # reading it for its pixels fails likewise, and says so where that may be said
        return 0
    return int.from_bytes(digest.digest(), "little")


def _digest(kind: bytes, content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8, person=kind).digest(), "little")
