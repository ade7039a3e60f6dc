"""The rows of a cell: classes, shots, long tail and sizes, cut from stored arrays by the cell's seed.

Labels are read freely: this is for benchmarks on data whose labels are known, never for private ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.types import AnyArray, JsonObject, Rows
from dptransfer.data import EncoderIdentity, Labelled, PrivateEmbeddings, PublicEmbeddings
from dptransfer.encoders import Encoder, encode_pixels
from dptransfer.errors import DataError
from dptransfer.sources import PrivateImages, PublicImages
from dptransfer_lab.cells import TaskKey
from dptransfer_lab.long_tail import long_tail
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
        whole: JsonObject = {}
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


class Cut(NamedTuple):
    """Which of the stored rows a task has, by position: of the training part, or of the test part.

    Attributes:
        own: training rows that play the private ones.
        test: test rows.
        shots: training rows that are public.
        members: those of `own` that the attack tries.
        unused: training rows that the attack tries beside members.
        tested: test rows that it tries so.
    """

    own: Positions
    test: Positions
    shots: Positions
    members: Positions
    unused: Positions
    tested: Positions

    def of(self, whole: Arrays, name: str, width: int | None = None) -> tuple[AnyArray, AnyArray, AnyArray]:
        """The private, test and attacked parts of an array, and of its first columns alone."""
        own, test = whole[name], whole[f"test_{name}"]
        others = np.concatenate([own[self.unused], test[self.tested]])
        return (
            _first(_taken(own, self.own), width),
            _first(_taken(test, self.test), width),
            _first(others, width),
        )


@lru_cache(maxsize=2)  # cells come in the order of their tasks
def task_of(key: TaskKey, data: Stored, pool: Stored | None) -> Task:
    """The task with this key, cut from these arrays."""
    whole, classes, kept, kept_test = _classes(key, dict(_opened(data)), data.classes)
    cut = _drawn(key, whole, kept, kept_test, len(classes))
    width = key.dimension
    if width is not None:
        _require("dimension", width, whole["rows"].shape[1])
    rows, test_rows, other_rows = cut.of(whole, "rows", width)
    labels, test_labels, other_labels = cut.of(whole, "labels")
    people, other_people = None, None
    if "people" in whole:
        people, _, other_people = (_numbered(part) for part in cut.of(whole, "people"))
    shots = (_first(whole["rows"][cut.shots], width), whole["labels"][cut.shots]) if len(cut.shots) else None
    return Task(
        rows=rows,
        labels=labels,
        classes=classes,
        test_rows=test_rows,
        test_labels=test_labels,
        public=_public(key, pool, rows.shape[1], shots, classes, data.encoder),
        shots=shots,
        encoder=data.encoder,
        members=np.searchsorted(cut.own, cut.members),
        others=(other_rows, other_labels),
        pixels=Pixels(*cut.of(whole, "pixels"), _pictures(key, pool)) if "pixels" in whole else None,
        people=people,
        other_people=other_people,
    )


def _classes(
    key: TaskKey, whole: JsonObject, classes: tuple[str | int, ...]
) -> tuple[JsonObject, tuple[str | int, ...], Positions, Positions]:
    """The arrays with labels of the chosen classes, these classes, and positions of their rows."""
    if "people" in whole:  # nobody is in both parts
        whole["test_people"] = whole["test_people"] + len(whole["people"])
    kept, kept_test = (np.arange(len(whole[name])) for name in ("labels", "test_labels"))
    if key.classes is not None:
        _require("classes", key.classes, len(classes))
        chosen = np.sort(_rng(key, _CLASSES).choice(len(classes), size=key.classes, replace=False))
        kept, kept_test = (np.flatnonzero(np.isin(whole[n], chosen)) for n in ("labels", "test_labels"))
        classes = tuple(classes[place] for place in chosen)
        whole |= {name: np.searchsorted(chosen, whole[name]) for name in ("labels", "test_labels")}
    whole |= {name: whole[name].astype(np.int64) for name in ("labels", "test_labels")}
    return whole, classes, kept, kept_test


def _drawn(key: TaskKey, whole: Arrays, kept: Positions, kept_test: Positions, classes: int) -> Cut:
    """What the seed draws of the rows that are kept: shots, the long tail, a number of rows, the attack."""
    labels, people = whole["labels"], whole.get("people")
    shots = kept[:0]
    if key.shots:
        fewest = int(np.bincount(labels[kept], minlength=classes).min())
        _require("shots", key.shots + 1, fewest)  # one row at least stays private
        shots = kept[drawn_by_class(labels[kept], key.shots, rng=_rng(key, _SHOTS))]
        # Who gave a shot is public, so that none of their rows plays a private one.
        kept = _of_others(kept, shots, people)
    own = kept
    if key.imbalance:
        own = kept[long_tail(labels[kept], key.imbalance, rng=_rng(key, _TAIL), classes=classes)]
    if key.rows is not None:
        _require("rows", key.rows, len(own))
        own = np.sort(_rng(key, _ROWS).choice(own, size=key.rows, replace=False))
    left = _of_others(np.setdiff1d(kept, own), own, people)
    return Cut(own, kept_test, shots, *_attacked(own, left, labels, kept_test, whole["test_labels"], key))


def _of_others(rows: Positions, seen: Positions, people: Positions | None) -> Positions:
    """Those of the rows that are not seen and, where people are known, whose people have none that is."""
    return np.setdiff1d(rows, seen) if people is None else rows[~np.isin(people[rows], people[seen])]


def _numbered(people: Positions) -> Positions:
    return np.unique(people, return_inverse=True)[1].astype(np.int64)


def _pictures(key: TaskKey, stored: Stored | None) -> PublicImages | None:
    """The same cut of the pool's pictures, where it has some."""
    pixels = None if stored is None else _opened(stored).get("pixels")
    if stored is None or pixels is None:
        return None
    greys = None if stored.encoder is None else stored.encoder.grey_range
    chosen = pixels[_pool_rows(len(pixels), key.pool_rows, key.seed)]
    return PublicImages(chosen, name=key.pool, grey_range=greys)


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
    cut = _first(_taken(rows, _pool_rows(len(rows), count, seed)), width)
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


def _taken(rows: Rows, chosen: Positions) -> Rows:
    """The chosen rows; the stored array itself where that is all of it."""
    return rows if len(chosen) == len(rows) else rows[chosen]


def _first(rows: Rows, width: int | None) -> Rows:
    """The first features; the array itself where that is all of it."""
    return rows if width is None or width >= rows.shape[1] else np.ascontiguousarray(rows[:, :width])
