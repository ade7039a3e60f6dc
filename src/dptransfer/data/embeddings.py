"""Private and public embeddings; placeholders for public rows that a plan only counts."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.base import checks
from dptransfer.base.progress import tell
from dptransfer.base.types import Integers, JsonObject, Labels, Rows, array_or_none
from dptransfer.base.workers import ThisProcess, Workers
from dptransfer.data import examples
from dptransfer.data.examples import ContentDigest, PrivateData, PublicData
from dptransfer.data.facts import DeclaredSizes, EncoderIdentity, Facts, named_columns, require_same_space
from dptransfer.data.labels import Classes, Labelled
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.errors import ArgumentError, DataError, DPTransferError, Incompatible


class PrivateEmbeddings(PrivateData):
    """Sensitive labelled rows, with what their owner declares public about them.

    The object keeps its counsel: printing it shows the declared facts, it has no length, and no method other
    than `PrivateMethod.fit` reads `rows` or `labels`.

    >>> private = PrivateEmbeddings([[0.1, 0.2], [0.3, 0.4]], ["cat", "dog"], classes=["cat", "dog"])
    >>> private
    PrivateEmbeddings(2 declared classes, dimension 2)

    Args:
        x: array of shape (examples, dimension), or `ShardedRows`; what is on disk is read in chunks. A row
            with a NaN or an infinity is kept and counts as a row of zeros: refusing it would tell that it is
            there.
        y: class of each row, as a declared class or (when classes are words) as its position in the list; or
            a `Labelled`, which brings its list.
        classes: the full public list of classes, declared and never inferred; or a number n, for 0 to n − 1.
        name: what the ledger files this data set under. Give every version of one data set the same name. One
            without a name is filed under its content; changed a little, it is refused as rows on record.
        encoder: identity of the encoder behind the rows.
        people: whose each row is, as a word or a number; then persons are protected, each with all their
            rows, and not single rows. A missing id makes a person of its own.
        columns: what the features are called, in order, if they have names; a release records them. Those of
            a data frame are not taken unless they are given: where columns were made from values, as
            `get_dummies` does, names tell of rows.
        fingerprint: SHA-256 of the content where a store has it on record already.
        source_digests: of the files or texts behind the rows, by which the ledger
            knows them again in another encoding.
        sizes: `size`, about how many examples there are, `class_counts`, the exact class sizes, and
            `rows_per_person`, about how many rows a person has, each only if it may be public; and
            `person_bound`, as how many examples one person counts, at most: 1 gives each one voice.
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike | Labelled,
        *,
        classes: Classes | None = None,
        name: str | None = None,
        encoder: EncoderIdentity | None = None,
        people: ArrayLike | None = None,
        columns: Sequence[str] | None = None,
        fingerprint: str | None = None,
        source_digests: ArrayLike | None = None,
        **sizes: Unpack[DeclaredSizes],
    ) -> None:
        self.rows = examples.read_only(rows_of(x, "x"))
        super().__init__(
            self.rows, y, classes, name=name, people=people, encoder=encoder, columns=columns, **sizes
        )
        self._known_fingerprint = fingerprint
        self.source_digests = examples.one_digest_each(source_digests, len(self.rows))

    def part(self, positions: Integers, facts: Facts) -> Self:
        """The rows at these positions as data of their own, with labels and people, and these facts."""
        # Of rows in many files the part is a list of positions: a hold-out leaves nearly all of them in it.
        rows: Any = self.rows
        rows = rows.take(positions) if isinstance(rows, ShardedRows) else rows[positions]
        part = self._part(positions, facts, rows)
        part.rows = rows
        return part


class PublicEmbeddings(PublicData):
    """Rows that are nobody's secret; labels are optional.

    >>> PublicEmbeddings([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    PublicEmbeddings(3 rows, dimension 2, unlabelled)

    Args:
        x: array of shape (rows, dimension), finite; or `ShardedRows`, of which no more than a slab is held.
        y: class of each row, if known.
        classes: the classes `y` refers to; required with `y`, unless it is a `Labelled`.
        name: a name for the card.
        encoder: identity of the encoder behind the rows.
        sources: where each row came from, for example its image file, so that prototypes can be shown.
        columns: what the features are called, in order, if they have names.
        fingerprint: SHA-256 of the content where a store has it on record already.
        vocabulary: the words that the encoder has for its rows, which are then as it gave them. That of an
            encoder on record that we know is found without it.
        names: rows that the encoder makes of the private classes' names, one for each in their order; public
            knowledge about what the classes are. Where a text encoder is on record they are made by it.
        source_digests: of the files or texts behind the rows; a fit refuses rows that
            were made from private ones.
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike | Labelled | None = None,
        *,
        classes: Classes | None = None,
        name: str | None = None,
        encoder: EncoderIdentity | None = None,
        sources: Sequence[str | Path] | None = None,
        columns: Sequence[str] | None = None,
        fingerprint: str | None = None,
        vocabulary: Vocabulary | None = None,
        names: ArrayLike | None = None,
        source_digests: ArrayLike | None = None,
    ) -> None:
        self.rows = rows_of(x, "x")
        super().__init__(self.rows, None if y is None else Labelled.of(y, classes), name, sources)
        self.encoder, self._known_fingerprint = encoder, fingerprint
        self.source_digests = examples.one_digest_each(source_digests, len(self.rows))
        self.columns = None if columns is None else named_columns(columns, self.rows.shape[1:])
        self.workers: Workers = ThisProcess()
        self._shots: PublicEmbeddings | None = None
        rows: Any = self.rows
        if isinstance(rows, ShardedRows):
            self._known_fingerprint = _looked_through(rows, fingerprint)
        elif (bad := ~examples.finite_rows(rows)).any():
            rule = f"Public rows must be finite; {int(bad.sum())} are not (first: row {int(bad.argmax())})."
            raise DataError(f"{rule} Remove them from the pool.")
        self.vocabulary = self._checked_vocabulary(vocabulary)
        self.names = self._checked_names(names)

    def __deepcopy__(self, memo: object) -> PublicEmbeddings:
        """Itself: public rows never change, and scikit-learn copies the settings of whatever it clones."""
        return self

    @property
    def dimension(self) -> int:
        """Width of the rows."""
        return int(self.rows.shape[1])

    @property
    def shots(self) -> PublicEmbeddings | None:
        """The labelled rows: those attached by `with_shots`, else these rows if they have labels."""
        return self._shots if self._shots is not None else (None if self.labels is None else self)

    def with_shots(self, shots: PublicEmbeddings) -> PublicEmbeddings:
        """The same pool with a few labelled public rows at its side; the pool itself is not copied.

        >>> pool = PublicEmbeddings([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
        >>> pool.with_shots(PublicEmbeddings([[1.0, 0.0]], ["cat"], classes=["cat", "dog"])).shots
        PublicEmbeddings(1 rows, dimension 2, 2 classes)
        """
        if shots.labels is None:
            raise DataError("Shots must be labelled; these have no labels. Pass y=[...] and classes=[...].")
        require_same_space(shots, self, names=("Shots", "public rows"))
        return self._changed(_shots=shots, _known_fingerprint=self.fingerprint)

    def with_vocabulary(self, vocabulary: Vocabulary | None) -> PublicEmbeddings:
        """The same pool with these words for its rows; the pool itself is not copied."""
        words = self._checked_vocabulary(vocabulary)
        return self._changed(vocabulary=words, _known_fingerprint=self.fingerprint)

    def with_names(self, names: ArrayLike | None) -> PublicEmbeddings:
        """The same pool with these rows of class names, one for each private class in order.

        >>> pool = PublicEmbeddings([[0.1, 0.2], [0.3, 0.4]])
        >>> pool.with_names([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]).record["names"]["rows"]
        3
        """
        return self._changed(names=self._checked_names(names))

    def _checked_names(self, names: ArrayLike | None) -> Rows | None:
        if names is None:
            return None
        rows = rows_of(names, "names")
        if rows.shape[1] != self.dimension or not examples.finite_rows(rows).all():
            rule = f"Rows of names must be finite, of width {self.dimension}; got the shape {rows.shape}."
            raise Incompatible(f"{rule} Encode the names with the encoder that made the rows.")
        return rows

    def with_workers(self, workers: Workers) -> PublicEmbeddings:
        """The same pool, of which whatever reads it whole is done by these; results are the same."""
        return self._changed(workers=workers)

    def _changed(self, **attributes: object) -> PublicEmbeddings:
        changed = copy(self)
        vars(changed).update(attributes)
        return changed

    def _checked_vocabulary(self, vocabulary: Vocabulary | None) -> Vocabulary | None:
        if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
            raise ArgumentError(
                f"vocabulary must be a Vocabulary; got {type(vocabulary).__name__}. "
                "Example: vocabulary=dptransfer.encoders.vocabulary('efficientnet-lite0')."
            )
        if vocabulary is not None and vocabulary.dimension != self.dimension:
            rule = f"A vocabulary must be as wide as the pool, {self.dimension}; got {vocabulary.dimension}."
            raise Incompatible(f"{rule} Pass that of the encoder that made the rows.")
        return vocabulary

    @property
    def record(self) -> JsonObject:
        """What a release tells about these rows, and about shots at their side."""
        return {
            **super().record,
            **({} if self._shots is None else {"shots": self._shots.record}),
            **({} if self.vocabulary is None else {"vocabulary": self.vocabulary.record}),
            **({} if self.names is None else {"names": _record_of_names(self.names)}),
        }

    def require_match(
        self, facts: Facts, *, names: tuple[str, str] = ("Private rows", "public rows")
    ) -> None:
        """Raise unless these rows live in the space the private facts describe.

        Args:
            facts: of the private data.
            names: what an error calls those and these.
        """
        require_same_space(facts, self, names=names)

    def shots_for(self, facts: Facts) -> tuple[Rows, Labels]:
        """Labelled rows, with labels as positions in the private data's own class list.

        A class of the private data may have no shot. A shot of another class is an error: both are public.
        Rows in many files are not read.
        """
        shots = self.shots
        if shots is None or shots.labelled is None:
            raise DataError(
                "Labelled public rows are needed; these have no labels. Pass PublicEmbeddings(x, y, "
                "classes=[...]), or pool.with_shots(...) (on the command line: --shots shots.emb)."
            )
        unknown = [name for name in shots.labelled.classes if name not in facts.classes]
        if unknown:
            rule = f"Shots must be of declared classes; '{unknown[0]}' is none of the {len(facts.classes)}."
            raise DataError(f"{rule} Declare the same names for both, or drop those shots.")
        return shots.rows, shots.labelled.among(facts.classes).positions


def rows_of(x: ArrayLike, name: str) -> Rows:
    """Real numbers with two dimensions, as floats, or an error that calls them by this name."""
    if isinstance(x, ShardedRows):
        return cast(Rows, x)  # as far as anybody goes who reads rows by slices or positions
    rows = array_or_none(x)
    if rows is None or rows.ndim != 2:
        found = "lists of unequal length" if rows is None else rows.ndim
        raise DataError(f"{name} must have two dimensions, (examples, features); got {found}. Reshape them.")
    if rows.shape[1] == 0:
        raise DataError(f"{name} must have at least one feature per example; it has none.")
    if np.issubdtype(rows.dtype, np.floating) and rows.dtype.itemsize <= 8:
        return rows
    if np.issubdtype(rows.dtype, np.integer) or rows.dtype == np.bool_:
        return rows.astype(np.float64)
    rule = f"{name} must hold real numbers; got the type {rows.dtype}."
    raise DataError(f"{rule} Convert them, say to float32.")


def _record_of_names(names: Rows) -> JsonObject:
    return {"rows": len(names), "fingerprint": examples.content_digest(names)}


def _looked_through(rows: ShardedRows, fingerprint: str | None) -> str | None:
    """The fingerprint, as far as it is known once all rows are known to be finite.

    Where that is not on record, they are read once, for both. Of whole numbers there is nothing to find out,
    and the fingerprint waits until somebody asks for it.
    """
    if rows.finite:
        return fingerprint
    found = ContentDigest.of(rows, step=lambda done: tell(done, len(rows), "public row"))
    if found.first_bad is not None:
        where = rows.whereabouts(found.first_bad)
        raise DataError(f"Public rows must be finite; {where} is not. Remove it from the pool.")
    return fingerprint or found.of_first


class RowsNeeded(DPTransferError):
    """A plan asked for more than an outline has; who made the outline says what that means."""


class PoolOutline(PublicEmbeddings):
    """Public rows by number alone: those that a release records, or that nobody has encoded yet.

    Args:
        count: of the rows.
        words: of their encoder, where it has some.
        names: of classes that it read, 0 for none; None to have them read where that is possible.
        classes: of labelled rows among or beside these, empty for none; where it is None, a plan that asks
            for labelled rows has asked for too much.
    """

    def __init__(
        self,
        count: int,
        words: int | None = None,
        *,
        names: int | None = None,
        classes: Sequence[str | int] | None = None,
    ) -> None:
        self._count = checks.whole("the number of public rows", count)
        # A plan asks how many there are, and nothing else.
        self.vocabulary = None if words is None else cast(Any, range(checks.whole("words", words)))
        self.names = None if names is None else cast(Any, range(checks.whole("names", names, at_least=0)))
        if classes is not None:
            self.labelled = None
            self._shots = cast(Any, SimpleNamespace(classes=tuple(classes))) if classes else None

    def __len__(self) -> int:
        return self._count

    def _checked_names(self, names: ArrayLike | None) -> Rows | None:
        return None if names is None else cast(Any, range(len(cast(Any, names))))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python asks of what it copies
            raise AttributeError(name)
        raise RowsNeeded(f"The {name} of public rows were asked for, which are not at hand.")
