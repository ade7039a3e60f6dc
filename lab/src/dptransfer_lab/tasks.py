"""The rows of a cell: classes, shots, long tail and sizes, cut from stored arrays by the cell's seed.

Labels are read freely: this is for benchmarks on data whose labels are known, never for private ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings, long_tail
from dptransfer.errors import DataError
from dptransfer_lab.cells import TaskKey
from dptransfer_lab.shelf import Stored

Rows = NDArray[np.floating[Any]]
Positions = NDArray[np.int64]
_ATTACKED = 1000
# One stream of random numbers for each thing that is drawn, so that one more shot moves nothing else. The
# noise has the seed alone, which is another stream than any of these.
_CLASSES, _SHOTS, _TAIL, _ROWS, _POOL, _ATTACK = range(1, 7)
_Kept = TypeVar("_Kept")


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
        stored: where the rows came from.
        members: positions in `rows` that the attack tries.
        others: as many rows of the same classes that were not fitted on, and their classes.
    """

    rows: Rows
    labels: Positions
    classes: tuple[str | int, ...]
    test_rows: Rows
    test_labels: Positions
    public: PublicEmbeddings | None
    stored: Stored
    members: Positions
    others: tuple[Rows, Positions]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Private rows per class."""
        return tuple(np.bincount(self.labels, minlength=len(self.classes)).tolist())

    def private(self, declare: str) -> PrivateEmbeddings:
        """The rows as their owner would hand them to a method, with what is declared about them."""
        return PrivateEmbeddings(
            self.rows,
            as_labels(self.labels, self.classes),
            classes=self.classes,
            name="bench",
            encoder=self.stored.identity(),
            size=len(self.rows) if declare != "nothing" else None,
            class_counts=self.sizes if declare == "class_counts" else None,
        )


class TaskBench:
    """Makes tasks, and keeps the last few: cells come in the order of their tasks.

    Args:
        stored: data sets and pools by fingerprint.
        opened: their arrays by fingerprint, where a caller has them in memory already.
    """

    def __init__(
        self,
        stored: Mapping[str, Stored],
        opened: Callable[[Stored], Mapping[str, NDArray[Any]]] = Stored.open,
    ) -> None:
        self._stored = stored
        self._open = opened
        self._arrays: OrderedDict[Hashable, Mapping[str, NDArray[Any]]] = OrderedDict()
        self._pools: OrderedDict[Hashable, PublicEmbeddings] = OrderedDict()
        self._tasks: OrderedDict[Hashable, Task] = OrderedDict()

    def task(self, key: TaskKey) -> Task:
        """The task with this key."""
        return _remembered(self._tasks, key, lambda: self._make(key), most=2)

    def _make(self, key: TaskKey) -> Task:
        stored = self._stored[key.data_fingerprint]
        whole = self._whole(key.data_fingerprint)
        labels, test_labels = whole["labels"], whole["test_labels"]
        classes, kept, kept_test = stored.classes, np.arange(len(labels)), np.arange(len(test_labels))
        if key.classes is not None:
            _require("classes", key.classes, len(classes))
            chosen = np.sort(_rng(key, _CLASSES).choice(len(classes), size=key.classes, replace=False))
            kept, kept_test = (np.flatnonzero(np.isin(part, chosen)) for part in (labels, test_labels))
            classes = tuple(classes[place] for place in chosen)
            labels, test_labels = (np.searchsorted(chosen, part) for part in (labels, test_labels))
        shots, kept = _shots(kept, labels, len(classes), key)
        if key.imbalance:
            tail = long_tail(labels[kept], key.imbalance, rng=_rng(key, _TAIL), classes=len(classes))
            chosen_rows = kept[tail]
        else:
            chosen_rows = kept
        if key.rows is not None:
            _require("rows", key.rows, len(chosen_rows))
            chosen_rows = np.sort(_rng(key, _ROWS).choice(chosen_rows, size=key.rows, replace=False))
        width = self._width(key, whole["rows"].shape[1])
        left = np.setdiff1d(kept, chosen_rows)
        members, unused, tested = _attacked(chosen_rows, left, labels, kept_test, test_labels, key)
        parts = _cut(whole["rows"], unused, width), _cut(whole["test_rows"], tested, width)
        return Task(
            rows=_cut(whole["rows"], chosen_rows, width),
            labels=labels[chosen_rows].astype(np.int64),
            classes=classes,
            test_rows=_cut(whole["test_rows"], kept_test, width),
            test_labels=test_labels[kept_test].astype(np.int64),
            public=self._public(key, shots, labels, classes, width),
            stored=stored,
            members=np.searchsorted(chosen_rows, members),
            others=(np.concatenate(parts), np.concatenate([labels[unused], test_labels[tested]])),
        )

    def _public(
        self, key: TaskKey, shots: Positions, labels: Positions, classes: tuple[str | int, ...], width: int
    ) -> PublicEmbeddings | None:
        pool = None if key.pool_fingerprint is None else self._pool(key, width)
        if not len(shots):
            return pool
        rows = _cut(self._whole(key.data_fingerprint)["rows"], shots, width)
        labelled = PublicEmbeddings(
            rows,
            as_labels(labels[shots], classes),
            classes=classes,
            encoder=self._stored[key.data_fingerprint].identity(),
            name="shots",
        )
        return labelled if pool is None else pool.with_shots(labelled)

    def _pool(self, key: TaskKey, width: int) -> PublicEmbeddings:
        assert key.pool_fingerprint is not None
        fingerprint = key.pool_fingerprint
        seed = None if key.pool_rows is None else key.seed

        def make() -> PublicEmbeddings:
            stored, rows = self._stored[fingerprint], self._whole(fingerprint)["rows"]
            chosen = np.arange(len(rows))
            if key.pool_rows is not None:
                _require("pool_rows", key.pool_rows, len(rows))
                chosen = np.sort(_rng(key, _POOL).choice(len(rows), size=key.pool_rows, replace=False))
            cut = _cut(rows, chosen, min(width, rows.shape[1]))
            known = stored.rows_fingerprint if cut.shape == rows.shape else None
            return PublicEmbeddings(cut, name=key.pool, encoder=stored.identity(), fingerprint=known)

        return _remembered(self._pools, (fingerprint, key.pool_rows, width, seed), make, most=2)

    def _whole(self, fingerprint: str) -> Mapping[str, NDArray[Any]]:
        return _remembered(self._arrays, fingerprint, lambda: self._open(self._stored[fingerprint]), most=4)

    @staticmethod
    def _width(key: TaskKey, dimension: int) -> int:
        if key.dimension is None:
            return dimension
        _require("dimension", key.dimension, dimension)
        return key.dimension


def as_labels(positions: Positions, classes: tuple[str | int, ...]) -> NDArray[Any]:
    """Labels as the library takes them: names where classes are numbers, which positions would look like."""
    return np.asarray(classes)[positions] if isinstance(classes[0], int) else positions


def _rng(key: TaskKey, stream: int) -> np.random.Generator:
    return np.random.default_rng([key.seed, stream])


def _require(what: str, asked: int, there: int) -> None:
    if asked > there:
        raise DataError(f"A cut must fit the data; {what} = {asked} was asked for and there are {there}.")


def _shots(kept: Positions, labels: Positions, classes: int, key: TaskKey) -> tuple[Positions, Positions]:
    """Positions of the shots, and of the rows that are left."""
    if not key.shots:
        return np.zeros(0, dtype=np.int64), kept
    rng = _rng(key, _SHOTS)
    chosen = []
    for place in range(classes):
        there = kept[labels[kept] == place]
        _require("shots", key.shots + 1, len(there))  # one row at least stays private
        chosen.append(rng.choice(there, size=key.shots, replace=False))
    shots = np.sort(np.concatenate(chosen))
    return shots, np.setdiff1d(kept, shots)


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


def _remembered(
    memory: OrderedDict[Hashable, _Kept], key: Hashable, make: Callable[[], _Kept], *, most: int
) -> _Kept:
    if key not in memory:
        memory[key] = make()
        if len(memory) > most:
            memory.popitem(last=False)
    memory.move_to_end(key)
    return memory[key]
