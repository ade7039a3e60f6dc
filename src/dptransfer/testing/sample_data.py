"""Small data on which methods are tried; the private ones count how often they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dptransfer.arrays import AnyArray, Floats, Integers
from dptransfer.data import Facts, PrivateEmbeddings, PublicData, PublicEmbeddings

WIDTH = 6
CLASSES = ("a", "b", "c")
COUNTS = (14, 9, 7)
SIZE = sum(COUNTS)
NAME = "clinic-a"

Examples = tuple[Any, Any]
"""Examples and the positions of their classes."""


class CountedReads:
    """Mixin: private data that count how often they are read; `latest` is the one made last."""

    latest: ClassVar[Any] = None
    reads: int = 0

    def __init__(self, x: Any, y: Any, **declared: Any) -> None:
        beyond: Any = super()
        beyond.__init__(x, y, classes=CLASSES, class_counts=COUNTS, size=SIZE, **declared)
        self.reads = 0
        CountedReads.latest = self

    def _read(self, name: str) -> Any:
        self.reads += 1
        return self.__dict__[name]

    labels = property(lambda self: self._read("_labels"), lambda self, y: self.__dict__.update(_labels=y))

    @property
    def fingerprint(self) -> str:
        """A digest, for which all rows would be read."""
        self.reads += 1
        return "0" * 64


class CountedRows(CountedReads, PrivateEmbeddings):
    """Private rows that count how often they are read."""

    rows = property(lambda self: self._read("_rows"), lambda self, x: self.__dict__.update(_rows=x))


@dataclass(frozen=True)
class SampleData:
    """Data of one kind, rows or images.

    Attributes:
        facts: what is declared.
        pool: public examples.
        kind: private data that count how often they are read.
        ordinary: gives thirty examples and their classes, from a seed.
        odd: gives strange ones, by name.
        traces: given a method, examples and a model, gives rows that no release may hold.
    """

    facts: Facts
    pool: PublicData
    kind: Callable[..., Any]
    ordinary: Callable[[int], Examples]
    odd: Callable[[], Mapping[str, Examples]]
    traces: Callable[[Any, AnyArray, Any], list[AnyArray]]

    def private(self, x: Any = None, y: Any = None) -> Any:
        """Private data that count reads: the ordinary ones, if none are given."""
        if x is None:
            x, y = self.ordinary(7)
        return self.kind(x, np.asarray(y, dtype=np.int64), name=NAME)


def ordinary_rows(seed: int = 7) -> tuple[Floats, Integers]:
    """Thirty labelled rows in three clusters."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), COUNTS)
    return rng.normal(size=(len(y), WIDTH)) + 2 * np.eye(3, WIDTH)[y], y


def odd_rows() -> dict[str, Examples]:
    """Data sets that a method must take like any other."""
    x, y = ordinary_rows()
    nasty = x.copy()
    nasty[0], nasty[5, 2], nasty[9], nasty[20] = np.nan, np.inf, 1e308, 5e-324
    return {
        "an empty class": (x[y != 2], y[y != 2]),
        "one class only": (x[y == 1], y[y == 1]),
        "a single example": (x[:1], y[:1]),
        "no example": (np.zeros((0, WIDTH)), np.zeros(0, dtype=np.int64)),
        "duplicates": (np.repeat(x[:2], 20, axis=0), np.repeat(y[:2], 20)),
        "rows of zeros": (np.zeros_like(x), y),
        "nasty rows": (nasty, y),
        "nothing but nan": (np.full_like(x, np.nan), y),
        "single precision": (x.astype(np.float32), y),
        "half precision": (x.astype(np.float16), y),
    }


def public_rows() -> PublicEmbeddings:
    """Unlabelled rows, and two labelled ones of each class at their side."""
    rng, y = np.random.default_rng(100), np.repeat(np.arange(3), 2)
    rows = PublicEmbeddings(rng.normal(size=(25, WIDTH)))
    shots = rng.normal(size=(len(y), WIDTH)) + 2 * np.eye(3, WIDTH)[y]
    return rows.with_shots(PublicEmbeddings(shots, y, classes=CLASSES))


POOL = public_rows()
FACTS = Facts(CLASSES, (WIDTH,), size=SIZE, class_counts=COUNTS)
ROWS = SampleData(FACTS, POOL, CountedRows, ordinary_rows, odd_rows, lambda method, x, model: [x])


def sample_data_for(method: Any) -> SampleData:
    """The data that the method takes: rows or images."""
    if issubclass(PrivateEmbeddings, method.takes):
        return ROWS
    from dptransfer.testing.sample_images import IMAGES

    return IMAGES


def fresh_rows(model: Any) -> Floats:
    """Rows that nobody has seen, as wide as the model's."""
    return np.random.default_rng(101).normal(size=(40, model.dimension))


def is_same_release(first: Any, second: Any) -> bool:
    """Whether two models hold the same arrays and events."""
    a, b = first.weights, second.weights
    same = a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)
    return bool(same and first.events == second.events)
