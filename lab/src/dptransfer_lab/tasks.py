"""The rows of a cell: classes, shots, long tail and sizes, cut from stored arrays by the cell's seed.

Labels are read freely: this is for benchmarks on data whose labels are known, never for private ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dptransfer.data import EncoderIdentity, Labelled, PrivateEmbeddings, PublicEmbeddings, long_tail
from dptransfer.encoders import Encoder, encode_pixels
from dptransfer.errors import DataError
from dptransfer.sources import PrivateImages, PublicImages
from dptransfer_lab.cells import TaskKey
from dptransfer_lab.stored import Arrays, Stored


def drawn_by_class(
    labels: NDArray[np.int64], how_many: int | Callable[[int], int], *, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Positions of rows of each class, in order: so many of each, or what a function says of a class's size.

    >>> drawn_by_class(np.array([0, 0, 1, 1, 1]), 1, rng=np.random.default_rng(0)).size
    2
    """
    count = how_many if callable(how_many) else lambda _: how_many
    classes = (np.flatnonzero(labels == place) for place in np.unique(labels))
    drawn = [rng.choice(rows, size=count(len(rows)), replace=False) for rows in classes]
    return np.sort(np.concatenate(drawn))


Rows = NDArray[np.floating[Any]]
Positions = NDArray[np.int64]
_ATTACKED = 1000
# One stream of random numbers for each thing that is drawn, so that one more shot moves nothing else. The
# noise has the seed alone, which is another stream than any of these.
_CLASSES, _SHOTS, _TAIL, _ROWS, _POOL, _ATTACK = range(1, 7)


class Pixels(NamedTuple):
    """The same examples as pictures, (examples, side, side, 3) bytes.

    Attributes:
        own: those that play the private ones.
        test: those to test on.
        others: those that the attack tries beside members.
        public: the pool, or None.
    """

    own: NDArray[np.uint8]
    test: NDArray[np.uint8]
    others: NDArray[np.uint8]
    public: PublicImages | None


@dataclass(frozen=True, eq=False)
class Task:
    """Everything a cell is fitted and tested on.

    Attributes:
        rows: the rows that play the private ones.
        labels: their classes, as positions.
        classes: the declared classes.
        test_rows: rows to test on.
        test_labels: their classes.
        public: the pool, with shots at its side where there are some; or the shots alone; or None.
        shots: labelled public rows and their classes, or None.
        encoder: who made the rows, where that is known.
        members: positions in `rows` that the attack tries.
        others: as many rows of the same classes that were not fitted on, and their classes.
        people: whose each of the rows is, as a number from 0, where that is known.
        other_people: whose each of the `others` is; none of them has a row that was fitted on.
        pixels: the pictures behind the rows, where they are of pictures.
    """

    rows: Rows
    labels: Positions
    classes: tuple[str | int, ...]
    test_rows: Rows
    test_labels: Positions
    public: PublicEmbeddings | None = None
    shots: tuple[Rows, Positions] | None = None
    encoder: EncoderIdentity | None = None
    members: Positions | None = None
    others: tuple[Rows, Positions] | None = None
    people: Positions | None = None
    other_people: Positions | None = None
    pixels: Pixels | None = None

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Private rows per class."""
        return tuple(np.bincount(self.labels, minlength=len(self.classes)).tolist())

    def labelled(self, positions: Positions) -> Labelled:
        """Labels as the library takes them."""
        return Labelled(positions, self.classes)

    @cached_property
    def rows_by_person(self) -> Positions:
        """How many rows each person has, where it is known whose each row is."""
        if self.people is None:
            raise DataError(
                "To protect people it must be known whose each row is; this data set does not tell. "
                "Name the column that does: people = '...' in [[data]]."
            )
        return np.bincount(self.people)

    @property
    def pictures(self) -> Pixels:
        """The pictures behind the rows; data sets of rows have none."""
        if self.pixels is None:
            raise DataError(
                "A method on pictures needs pictures; this data set has rows alone. Name pictures as its "
                "source, with their size: source = { encoder = { train = 'photos.zip', size = 96 } }."
            )
        return self.pixels

    def seen_by(self, encoder: Encoder) -> Task:
        """The task with the rows that this encoder makes of its pictures: test rows, and those attacked."""
        seen = self.pictures
        members = np.arange(0) if self.members is None else self.members
        rows = np.zeros((len(self.labels), encoder.dimension), dtype=np.float32)
        rows[members] = encode_pixels(seen.own[members], encoder)
        others = None if self.others is None else (encode_pixels(seen.others, encoder), self.others[1])
        return replace(self, rows=rows, test_rows=encode_pixels(seen.test, encoder), others=others)

    def private(
        self, declare: str, unit: str = "row", person_bound: float = 1.0, *, pictures: bool = False
    ) -> PrivateEmbeddings | PrivateImages:
        """The rows, or pictures, as their owner would hand them to a method, with what is declared."""
        whole: dict[str, Any] = {}
        if unit == "person":
            typical = float(self.rows_by_person.mean())
            whole = {"people": self.people, "person_bound": person_bound}
            whole |= {"rows_per_person": typical} if declare != "nothing" else {}
        whole |= {"size": len(self.labels)} if declare != "nothing" else {}
        whole |= {"class_counts": self.sizes} if declare == "class_counts" else {}
        labels = self.labelled(self.labels)
        if pictures:
            greys = None if self.encoder is None else self.encoder.grey_range
            return PrivateImages(self.pictures.own, labels, name="bench", grey_range=greys, **whole)
        return PrivateEmbeddings(self.rows, labels, name="bench", encoder=self.encoder, **whole)


@lru_cache(maxsize=2)  # cells come in the order of their tasks
def task_of(key: TaskKey, data: Stored, pool: Stored | None) -> Task:
    """The task with this key, cut from these arrays."""
    whole = _opened(data)
    labels, test_labels, people = whole["labels"], whole["test_labels"], whole.get("people")
    classes, kept, kept_test = data.classes, np.arange(len(labels)), np.arange(len(test_labels))
    if key.classes is not None:
        _require("classes", key.classes, len(classes))
        chosen = np.sort(_rng(key, _CLASSES).choice(len(classes), size=key.classes, replace=False))
        kept, kept_test = (np.flatnonzero(np.isin(part, chosen)) for part in (labels, test_labels))
        classes = tuple(classes[place] for place in chosen)
        labels, test_labels = (np.searchsorted(chosen, part) for part in (labels, test_labels))
    shots = kept[:0]
    if key.shots:
        fewest = int(np.bincount(labels[kept], minlength=len(classes)).min())
        _require("shots", key.shots + 1, fewest)  # one row at least stays private
        shots = kept[drawn_by_class(labels[kept], key.shots, rng=_rng(key, _SHOTS))]
        # Who gave a shot is public, so that none of their rows plays a private one.
        kept = np.setdiff1d(kept, shots) if people is None else _of_others(kept, shots, people)
    chosen_rows = kept
    if key.imbalance:
        chosen_rows = kept[long_tail(labels[kept], key.imbalance, rng=_rng(key, _TAIL), classes=len(classes))]
    if key.rows is not None:
        _require("rows", key.rows, len(chosen_rows))
        chosen_rows = np.sort(_rng(key, _ROWS).choice(chosen_rows, size=key.rows, replace=False))
    width = whole["rows"].shape[1]
    if key.dimension is not None:
        _require("dimension", key.dimension, width)
        width = key.dimension
    left = np.setdiff1d(kept, chosen_rows)
    left = left if people is None else _of_others(left, chosen_rows, people)
    members, unused, tested = _attacked(chosen_rows, left, labels, kept_test, test_labels, key)
    parts = _cut(whole["rows"], unused, width), _cut(whole["test_rows"], tested, width)
    labelled = (_cut(whole["rows"], shots, width), labels[shots]) if len(shots) else None
    return Task(
        rows=_cut(whole["rows"], chosen_rows, width),
        labels=labels[chosen_rows].astype(np.int64),
        classes=classes,
        test_rows=_cut(whole["test_rows"], kept_test, width),
        test_labels=test_labels[kept_test].astype(np.int64),
        public=_public(key, pool, width, labelled, classes, data.encoder),
        shots=labelled,
        encoder=data.encoder,
        members=np.searchsorted(chosen_rows, members),
        others=(np.concatenate(parts), np.concatenate([labels[unused], test_labels[tested]])),
        pixels=_pixels(whole, chosen_rows, kept_test, unused, tested, key, pool),
        **_people(whole, chosen_rows, unused, tested),
    )


def _pixels(
    whole: Arrays,
    rows: Positions,
    kept_test: Positions,
    unused: Positions,
    tested: Positions,
    key: TaskKey,
    pool: Stored | None,
) -> Pixels | None:
    """The same cuts of the pictures; None where there are none."""
    if "pixels" not in whole:
        return None
    own, test = whole["pixels"], whole["test_pixels"]
    public = None if pool is None else _opened(pool).get("pixels")
    chosen = None if public is None else _pool_rows(len(public), key.pool_rows, key.seed)
    greys = None if pool is None or pool.encoder is None else pool.encoder.grey_range
    return Pixels(
        own if len(rows) == len(own) else own[rows],
        test if len(kept_test) == len(test) else test[kept_test],
        np.concatenate([own[unused], test[tested]]),
        None
        if public is None or chosen is None
        else PublicImages(public[chosen], name=key.pool, grey_range=greys),
    )


def _of_others(rows: Positions, seen: Positions, people: Positions) -> Positions:
    """Those of the rows whose people have none among the seen."""
    return rows[~np.isin(people[rows], people[seen])]


def _people(whole: Arrays, rows: Positions, unused: Positions, tested: Positions) -> dict[str, Positions]:
    """Whose the rows are, and the others that the attack tries; nothing where that is not known."""
    if "people" not in whole:
        return {}
    people, test_people = whole["people"], whole["test_people"]
    others = np.concatenate([people[unused], test_people[tested] + len(people)])  # nobody is in both parts
    return {"people": _numbered(people[rows]), "other_people": _numbered(others)}


def _numbered(people: Positions) -> Positions:
    return np.unique(people, return_inverse=True)[1].astype(np.int64)


def _public(
    key: TaskKey,
    stored: Stored | None,
    width: int,
    labelled: tuple[Rows, Positions] | None,
    classes: tuple[str | int, ...],
    encoder: EncoderIdentity | None,
) -> PublicEmbeddings | None:
    seed = None if key.pool_rows is None else key.seed
    pool = None if stored is None else _pool(stored, key.pool, key.pool_rows, width, seed)
    if labelled is None:
        return pool
    rows, labels = labelled
    shots = PublicEmbeddings(rows, Labelled(labels, classes), encoder=encoder, name="shots")
    return shots if pool is None else pool.with_shots(shots)


@lru_cache(maxsize=2)
def _pool(
    stored: Stored, name: str | None, count: int | None, width: int, seed: int | None
) -> PublicEmbeddings:
    rows = _opened(stored)["rows"]
    chosen = _pool_rows(len(rows), count, seed)
    cut = _cut(rows, chosen, min(width, rows.shape[1]))
    known = stored.rows_fingerprint if cut.shape == rows.shape else None
    return PublicEmbeddings(cut, name=name, encoder=stored.encoder, fingerprint=known)


def _pool_rows(there: int, count: int | None, seed: int | None) -> Positions:
    if count is None:
        return np.arange(there)
    _require("pool_rows", count, there)
    return np.sort(np.random.default_rng([seed or 0, _POOL]).choice(there, size=count, replace=False))


@lru_cache(maxsize=4)
def _opened(stored: Stored) -> Arrays:
    return stored.open()


def _rng(key: TaskKey, stream: int) -> np.random.Generator:
    return np.random.default_rng([key.seed, stream])


def _require(what: str, asked: int, there: int) -> None:
    if asked > there:
        raise DataError(f"A cut must fit the data; {what} = {asked} was asked for and there are {there}.")


def _attacked(
    members: Positions,
    unused: Positions,
    labels: Positions,
    tested: Positions,
    test_labels: Positions,
    key: TaskKey,
) -> tuple[Positions, Positions, Positions]:
    """As many members as other rows of each class, so that a class tells nothing; at most a thousand.

    Returns positions of the members, and of the others among the training rows and among the test rows. Both
    are of the same data set, and neither was fitted on.
    """
    rng = _rng(key, _ATTACK)
    pairs = []
    for place in np.unique(labels[members]):
        inside = members[labels[members] == place]
        outside = [unused[labels[unused] == place], tested[test_labels[tested] == place] + len(labels)]
        others = rng.permutation(np.concatenate(outside))
        count = min(len(inside), len(others))
        pairs.append(np.stack([rng.permutation(inside)[:count], others[:count]]))
    ours, theirs = rng.permutation(np.concatenate(pairs, axis=1), axis=1)[:, :_ATTACKED]
    theirs = np.sort(theirs)
    return ours, theirs[theirs < len(labels)], theirs[theirs >= len(labels)] - len(labels)


def _cut(rows: Rows, chosen: Positions, width: int) -> Rows:
    """The chosen rows and first features; the stored array itself where that is all of it."""
    part = rows if len(chosen) == len(rows) else rows[chosen]
    return part if width == part.shape[1] else np.ascontiguousarray(part[:, :width])
