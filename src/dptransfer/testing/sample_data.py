"""Small data, noise sources and fits on which plug-ins are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias
from unittest import mock

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.base.types import AnyArray, Floats, Integers, JsonObject, Labels, People, PixelArray
from dptransfer.data import Facts, PrivateData, PrivateEmbeddings, PublicData, PublicEmbeddings
from dptransfer.data.labels import Labelled
from dptransfer.encoders import apply_delta, encode_pixels, encoder_of
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Charge, Ledger
from dptransfer.mechanisms import row_shares
from dptransfer.methods import PrivateMethod, fitting
from dptransfer.noise import NoiseSource, SeededNoise
from dptransfer.noise.race import Choice, Lookup, ScoreBins
from dptransfer.privacy import Budget, Relation
from dptransfer.release import PrivateClassifier
from dptransfer.sources import PrivateImages, PublicImages
from dptransfer.testing.contract import require

WIDTH = 6
CLASSES = ("a", "b", "c")
COUNTS = (14, 9, 7)
SIZE = sum(COUNTS)
NAME = "clinic-a"

Examples: TypeAlias = tuple[AnyArray, Labels]
"""Examples and the positions of their classes."""


class CountedReads:
    """Mixin: private data that count how often they are read; `latest` is the one made last."""

    latest: ClassVar[CountedReads | None] = None
    reads: int = 0

    def __init__(self, x: ArrayLike, y: ArrayLike, **declared: object) -> None:
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
    kind: type[CountedRows] | type[CountedImages]
    ordinary: Callable[[int], Examples]
    odd: Callable[[], Mapping[str, Examples]]
    traces: Callable[[PrivateMethod, AnyArray, PrivateClassifier], list[AnyArray]]

    def private(self, x: AnyArray | None = None, y: AnyArray | None = None) -> CountedRows | CountedImages:
        """Private data that count reads: the ordinary ones, if none are given."""
        if x is None or y is None:
            x, y = self.ordinary(7)
        return self.kind(x, np.asarray(y, dtype=np.int64), name=NAME)


def ordinary_rows(seed: int = 7) -> tuple[Floats, Integers]:
    """Thirty labelled rows in three clusters."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), COUNTS)
    return rng.normal(size=(len(y), WIDTH)) + 2 * np.eye(3, WIDTH)[y], y


def _odd(x: AnyArray, y: Labels) -> dict[str, Examples]:
    """Few, equal or missing examples of these, which a method must take like any other."""
    return {
        "an empty class": (x[y != 2], y[y != 2]),
        "one class only": (x[y == 1], y[y == 1]),
        "a single example": (x[:1], y[:1]),
        "no example": (x[:0], y[:0]),
        "duplicates": (np.repeat(x[:2], 20, axis=0), np.repeat(y[:2], 20)),
    }


def odd_rows() -> dict[str, Examples]:
    """Data sets that a method must take like any other."""
    x, y = ordinary_rows()
    nasty = x.copy()
    nasty[0], nasty[5, 2], nasty[9], nasty[20] = np.nan, np.inf, 1e308, 5e-324
    return _odd(x, y) | {
        "rows of zeros": (np.zeros_like(x), y),
        "nasty rows": (nasty, y),
        "nothing but nan": (np.full_like(x, np.nan), y),
        "single precision": (x.astype(np.float32), y),
        "half precision": (x.astype(np.float16), y),
    }


def public_rows(count: int, width: int, classes: Sequence[str | int], seed: int = 100) -> PublicEmbeddings:
    """Unlabelled rows, and two labelled ones of each class at their side."""
    rng, y = np.random.default_rng(seed), np.repeat(np.arange(len(classes)), 2)
    rows = PublicEmbeddings(rng.normal(size=(count, width)))
    shots = rng.normal(size=(len(y), width)) + 2 * np.eye(len(classes), width)[y]
    return rows.with_shots(PublicEmbeddings(shots, Labelled(y, tuple(classes))))


POOL = public_rows(25, WIDTH, CLASSES)
FACTS = Facts(CLASSES, (WIDTH,), size=SIZE, class_counts=COUNTS)
ROWS = SampleData(FACTS, POOL, CountedRows, ordinary_rows, odd_rows, lambda method, x, model: [x])


SIDE = 8


class CountedImages(CountedReads, PrivateImages):
    """Private images that count how often they are read."""

    def __init__(self, x: ArrayLike, y: ArrayLike, **declared: object) -> None:
        super().__init__(x, y, resolution=SIDE, **declared)

    pixels = property(lambda self: self._read("_pixels"), lambda self, x: self.__dict__.update(_pixels=x))


def ordinary_images(seed: int = 7) -> tuple[PixelArray, Integers]:
    """Thirty noisy images whose class is a colour."""
    rng, y = np.random.default_rng(seed), np.repeat(np.arange(3), COUNTS)
    pixels = rng.integers(0, 120, (len(y), SIDE, SIDE, 3))
    pixels[np.arange(len(y)), ..., y] += 100
    return pixels.astype(np.uint8), y


def odd_images() -> dict[str, Examples]:
    """Data sets that a method must take like any other."""
    x, y = ordinary_images()
    black = x * (np.arange(len(x)) == 3).astype(np.uint8)[:, None, None, None]
    return _odd(x, y) | {"black images but one": (black, y), "white images": (np.full_like(x, 255), y)}


def encoded_traces(method: PrivateMethod, x: AnyArray, model: PrivateClassifier) -> list[AnyArray]:
    """The private images as pixels, as the public network encodes them, and as the released one does."""
    if not hasattr(method, "network"):
        return [x.reshape(len(x), -1)]
    plain, delta = method.network().encoder, model.encoder_delta
    base = model.facts.encoder if delta is None else delta.base
    after = plain if base is None or base == plain.identity else encoder_of(base)
    after = after if delta is None else apply_delta(after, delta)
    return [x.reshape(len(x), -1), encode_pixels(x, plain), encode_pixels(x, after)]


IMAGES = SampleData(
    Facts(CLASSES, (SIDE, SIDE, 3), size=SIZE, class_counts=COUNTS),
    PublicImages(np.random.default_rng(100).integers(0, 256, (25, SIDE, SIDE, 3), dtype=np.uint8)),
    CountedImages,
    ordinary_images,
    odd_images,
    encoded_traces,
)


def sample_data_for(method: PrivateMethod) -> SampleData:
    """The data that the method takes: rows or images."""
    return ROWS if issubclass(PrivateEmbeddings, method.takes) else IMAGES


def fresh_rows(model: PrivateClassifier) -> Floats:
    """Rows that nobody has seen, as wide as the model's."""
    return np.random.default_rng(101).normal(size=(40, model.dimension))


def is_same_release(first: PrivateClassifier, second: PrivateClassifier) -> bool:
    """Whether two models hold the same arrays and events."""
    a, b = first.weights, second.weights
    same = a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)
    return same and first.events == second.events


_SAMPLERS = {"discrete_gaussian", "discrete_laplace", "best_set", "permute_and_flip"}
_SAMPLERS |= {"subset", "poisson_sample", "integers", "trials"}


class NoNoise(SeededNoise):
    """No noise at all: shows the exact answers, for tests alone."""

    def __init__(self) -> None:
        super().__init__(0)

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Zeros."""
        return np.zeros(shape, dtype=np.int64)

    discrete_laplace = discrete_gaussian

    def best_set(self, bins: ScoreBins, size: int, scale: float) -> Choice:
        """The best candidates; ties go to the smaller positions."""
        found = bins.descending_bins()
        lots = yield [Lookup(*one[:2], tuple(range(one.members))) for one in found]
        best = sorted((one for lot in lots for one in lot), key=lambda one: (-one.score, one.position))
        return tuple(sorted(one.position for one in best[:size]))

    def permute_and_flip(self, bins: ScoreBins, scale: float) -> Choice:
        """The best candidate."""
        return self.best_set(bins, 1, scale)


class FailingNoise(SeededNoise):
    """A source that fails half-way through a run."""

    def __init__(self) -> None:
        super().__init__(0)

    def __getattribute__(self, name: str) -> Any:
        return _fail if name in _SAMPLERS else super().__getattribute__(name)


def _fail(*_: object) -> None:
    raise OSError("no entropy")


class RecordedAnswers(SeededNoise):
    """Answers that are recorded in one run and replayed in another, about other private data.

    Whatever is released must follow from noisy answers, so both runs must release the same.

    Args:
        seed: of the noise.
        answers: those of an earlier run, to replay; None to record.
    """

    def __init__(self, seed: int, answers: Sequence[tuple[str, AnyArray]] | None = None) -> None:
        super().__init__(seed)
        self.answers: list[tuple[str, AnyArray]] = [] if answers is None else list(answers)
        self._replays, self._asked, self._inside = answers is not None, 0, False

    def draw_once(self, what: str, draw: Callable[[], AnyArray]) -> AnyArray:
        """The recorded answer, or a fresh one that is recorded."""
        place, self._asked = self._asked, self._asked + 1
        if not self._replays:
            self._inside = True
            try:
                answer = np.asarray(draw())
            finally:
                self._inside = False
            self.answers.append((what, answer.copy()))
            return answer
        asked = self.answers[place][0] if place < len(self.answers) else "nothing"
        require(asked == what, f"on other private data it asks for '{what}' where it asked for '{asked}'")
        return self.answers[place][1].copy()

    def __getattribute__(self, name: str) -> Any:
        if name in _SAMPLERS:
            require(
                super().__getattribute__("_inside"),
                f"noise is drawn by '{name}' outside of a mechanism's answer, not in `noise.draw_once`",
            )
        return super().__getattribute__(name)


def relations_of(method: PrivateMethod) -> tuple[Relation, ...]:
    """The relations under which the method can be planned for the sample data."""
    data = sample_data_for(method)
    found, refused = [], "no relation was tried"
    for relation in Relation:
        try:
            method.plan(data.facts, Budget(epsilon=1.0, delta=1e-5, relation=relation), data.pool)
        except ArgumentError as refusal:
            refused = str(refusal)
        else:
            found.append(relation)
    require(found, f"it can be planned under no relation ({refused})")
    return tuple(found)


def budget_for(method: PrivateMethod, relation: Relation | None = None, **amount: float) -> Budget:
    """A budget of ε = 1 and δ = 1e-5, or of this amount, under a relation that the method knows."""
    return Budget(**(amount or {"epsilon": 1.0, "delta": 1e-5}), relation=relation or relations_of(method)[0])


def has_steps(method: PrivateMethod) -> bool:
    """Whether its plan has a noisy step; without one it may not look at a private example."""
    data = sample_data_for(method)
    return bool(method.plan(data.facts, budget_for(method), data.pool).events)


def reads_in_order(method: PrivateMethod) -> bool:
    """Whether its teachers look at their examples one after the other: it has `epochs`."""
    return hasattr(method, "epochs")


def without_sampling(method: PrivateMethod) -> PrivateMethod:
    """The same method without draws that go by the position of a row or a person."""
    whole = {"sampling_rate": 1.0, "teachers": 1}
    return replace(method, **{name: value for name, value in whole.items() if hasattr(method, name)})


@contextmanager
def noting_releases(note: Callable[..., None]) -> Iterator[Ledger]:
    """Call `note` with what mechanisms release once the ledger, which is given, is charged.

    Before the charge there is nothing private: what runs there runs on made-up data.
    """
    ledger = Ledger.in_memory()

    def note_if_charged(*given: object) -> None:
        if charge.called:
            note(*given)

    with mock.patch.object(row_shares, "note", note_if_charged):
        with mock.patch.object(ledger, "charge", wraps=ledger.charge) as charge:
            yield ledger


def fit_sample(
    method: PrivateMethod,
    data: PrivateData | None = None,
    *,
    seed: int = 1,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    budget: Budget | None = None,
) -> PrivateClassifier:
    """The model of a method that was fitted to sample data, or to those given.

    Rules look at this run: the trial on made-up examples before it is left out.
    """
    here = sample_data_for(method)
    with mock.patch.object(fitting, "rehearse"):
        return method.fit(
            data or here.private(),
            here.pool,
            budget=budget or budget_for(method),
            ledger=ledger or Ledger.in_memory(),
            noise=noise or SeededNoise(seed),
        )


def charges_in(ledger: Ledger) -> list[Charge]:
    """The charges that the ledger has on record, in order."""
    return [entry for entry in ledger.history() if isinstance(entry, Charge)]


LOUD = 40
"""Number of examples of the person who tries to count more than once."""
LOUD_PERSON = 10
"""Number of that person, after those of `EACH_OF_TEN`."""
LOUD_KINDS = ("huge", "not a number", "alike")
EACH_OF_TEN = np.arange(SIZE) % 10
"""Ten persons, each with examples of every class."""
ODD_PEOPLE: Mapping[str, AnyArray] = {
    "one person for all rows": np.zeros(SIZE, dtype=np.int64),
    "a person per row": np.arange(SIZE),
    "persons in every class": EACH_OF_TEN,
    "missing ids": np.array([None if row % 3 == 0 else str(row % 10) for row in range(SIZE)], dtype=object),
    "no id at all": np.full(SIZE, None, dtype=object),
}


def private_with_people(
    method: PrivateMethod,
    ids: AnyArray,
    x: AnyArray | None = None,
    y: AnyArray | None = None,
    **declared: object,
) -> PrivateData:
    """Private data whose examples belong to people: the ordinary ones, if none are given."""
    if x is None or y is None:
        x, y = sample_data_for(method).ordinary(7)
    known: JsonObject = {"size": SIZE, "rows_per_person": 3.0} | declared
    return method.takes(x, y, classes=CLASSES, name=NAME, people=ids, **known)


def add_loud_person(method: PrivateMethod, kind: str, label: int = 0) -> tuple[AnyArray, Labels, People]:
    """Thirty ordinary examples of ten persons, and forty of one more, who tries everything.

    Those that are alike are of one class, the others of all.
    """
    x, y = sample_data_for(method).ordinary(7)
    if issubclass(PrivateEmbeddings, method.takes):
        loud = np.full((LOUD, WIDTH), {"huge": 1e308, "not a number": np.nan, "alike": 1.0}[kind])
        loud[0], loud[1] = np.inf, 5e-324
    else:
        loud = np.full((LOUD, *x.shape[1:]), {"huge": 255, "not a number": 0, "alike": 128}[kind], np.uint8)
        loud[:2] = x[:2]
    classes = np.arange(LOUD) % len(CLASSES) if kind != "alike" else np.full(LOUD, label)
    ids = np.append(EACH_OF_TEN, np.full(LOUD, LOUD_PERSON))
    return np.concatenate([x, loud]), np.append(y, classes), ids
