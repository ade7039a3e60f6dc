"""Accuracy against ε, predicted from public rows alone, before any private row is read.

Two ways, both by simulation:

- *From a pool.* Surrogate tasks of the asked size are made from public rows (`methods.surrogate`): each class
  is a mixture of public rows, and families of tasks differ in how hard they are. The band spans the families.
- *From a sample.* A small labelled public sample of the user's own task is split into training and test rows,
  and the training rows are drawn with replacement up to the asked sizes. The band spans the draws.

Where fewer rows are simulated than asked for, the budget is scaled up by the same factor, so that noise per
row is what it would be.

With a number of people, persons are protected and not rows: in half of the tasks the rows of a person are of
one class, as an author's mostly are, and in half of any class, as a caller's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dptransfer import Fit, SeededNoise, Source
from dptransfer.base.types import AnyArray, JsonObject, Labels, People
from dptransfer.data import EncoderIdentity, PrivateEmbeddings, PublicEmbeddings, long_tail_counts
from dptransfer.errors import ArgumentError, DataError, DPTransferError
from dptransfer.methods import PrivateMethod
from dptransfer.methods.surrogate import (
    FAMILIES,
    MOST_ROWS,
    Surrogate,
    SurrogateLedger,
    made_people,
    scaled_budget,
    surrogates,
)
from dptransfer.privacy import Bound, Budget, Unit
from dptransfer_lab.points import axis_epsilon

_SEED = 20_254
_TEST_SHARE = 0.3
_SPARE = 3  # so many times the rows are made, to draw any long tail from
_MILD = 10.0


@dataclass(frozen=True)
class Sizes:
    """The user's task, as far as it is known before a row is read.

    Attributes:
        classes: number of classes.
        rows: number of private rows.
        imbalance: ratio of the largest class to the smallest.
        people: number of people that the rows are of, where persons are to be protected and not single rows.
        person_bound: as how many examples one of them counts, at most.
    """

    classes: int
    rows: int
    imbalance: float = 1.0
    people: int | None = None
    person_bound: float = 1.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.people is not None and not 1 <= self.people <= self.rows:
            raise ArgumentError(
                f"People have a row each at least; got {self.people} people and {self.rows} rows."
            )
        Bound(self.unit, self.person_bound)  # its own check of the bound
        if not 2 <= self.classes <= self.rows:
            raise ArgumentError(
                f"A task has two classes or more and at least as many rows; got {self.classes} classes and "
                f"{self.rows} rows."
            )
        long_tail_counts(1, self.imbalance, self.classes)  # its own check of the ratio

    @property
    def unit(self) -> Unit:
        """What would be protected."""
        return Unit.ROW if self.people is None else Unit.PERSON

    @property
    def rows_per_person(self) -> float | None:
        """Rows of a person, on average."""
        return None if self.people is None else self.rows / self.people

    def counts(self, made: int) -> NDArray[np.int64]:
        """Rows per class in a long tail, largest first, adding up to about `made`."""
        shape = long_tail_counts(1_000_000, self.imbalance, self.classes).astype(np.float64)
        counts: NDArray[np.int64] = np.maximum(1, np.rint(made * shape / shape.sum())).astype(np.int64)
        return counts


@dataclass(frozen=True, eq=False)
class Outlook:
    """A prediction and how it was made.

    Attributes:
        predictions: a row for each `method`, place on the axis `at_epsilon` and simulated task, with its
            balanced `accuracy`; where a method cannot be fitted, one row with the `refusal` instead.
        how: the sentence that goes with them wherever they are shown.
        tasks: how many tasks.
        unit: what ε would protect.
    """

    predictions: pd.DataFrame
    how: str
    tasks: int
    unit: Unit = Unit.ROW

    def summary(self) -> pd.DataFrame:
        """A row for each method and budget: the accuracies' ends and middle, or the refusal."""
        groups = self.predictions.groupby(["method", "at_epsilon"], sort=False)
        numbers = {"lowest": "min", "mean": "mean", "median": "median", "highest": "max", "tasks": "count"}
        columns = {name: ("accuracy", number) for name, number in numbers.items()}
        return groups.agg(**columns, refusal=("refusal", "first")).reset_index()


def explore(
    public: PublicEmbeddings,
    sizes: Sizes,
    budgets: Sequence[Budget],
    methods: Sequence[PrivateMethod],
    *,
    sample: PublicEmbeddings | None = None,
    repeats: int = 2,
) -> Outlook:
    """Predict accuracy against ε for a task of these sizes; no private row is read and nothing is charged.

    Args:
        public: the pool that the real fit would use; the sample itself where there is no other.
        sizes: the user's task.
        budgets: where on the curve.
        methods: what to try.
        sample: labelled public rows of the user's own task; without them the pool stands in.
        repeats: how often tasks are drawn.
    """
    made = min(sizes.rows, MOST_ROWS)
    tasks = list(_drawn(public, sizes, made, sample, repeats))
    found = [
        row
        for method in methods
        for budget in budgets
        for row in _predicted(method, budget, sizes.rows / made, tasks)
    ]
    how = _how(sizes, made, public, sample, len(tasks))
    return Outlook(pd.DataFrame(found), how, len(tasks), sizes.unit)


def _drawn(
    public: PublicEmbeddings, sizes: Sizes, made: int, sample: PublicEmbeddings | None, repeats: int
) -> Iterator[Surrogate]:
    for repeat in range(repeats):
        rng = np.random.default_rng([_SEED, repeat])
        if sample is not None:
            pool = None if public is sample else public
            yield resample_task(sample, pool, sizes, made, many_classes=repeat % 2 == 1, rng=rng)
            continue
        each = None if sizes.rows_per_person is None else _SPARE * sizes.rows_per_person
        tasks = surrogates(public, sizes.classes, _SPARE * made, rows_per_person=each, rng=rng)
        for family, task in zip(FAMILIES, tasks, strict=True):
            if family.imbalance <= max(_MILD, sizes.imbalance):  # others have classes too small to draw from
                yield reshape_task(task, sizes, made, rng=rng)


def reshape_task(task: Surrogate, sizes: Sizes, made: int, *, rng: np.random.Generator) -> Surrogate:
    """The same task with the asked sizes: its largest class becomes the largest one, and so on.

    Rows are drawn without replacement where a class has enough. Those of a person, if the task has as many
    times too many for each as rows in all, become about as many as asked for.
    """
    labels = task.private.labels
    there = np.bincount(labels, minlength=sizes.classes)
    wanted = sizes.counts(max(made, sizes.classes))
    chosen = []
    for place, count in zip(np.argsort(-there, kind="stable"), wanted, strict=True):
        own = np.flatnonzero(labels == place)
        chosen.append(rng.choice(own, size=count, replace=len(own) < count))
    kept = np.sort(np.concatenate(chosen))
    people = None if task.private.people is None else task.private.people[kept]
    facts = task.private.facts
    private = _private(task.private.rows[kept], labels[kept], facts.classes, facts.encoder, sizes, people)
    return replace(task, private=private)


def _private(
    rows: AnyArray,
    labels: Labels,
    classes: Sequence[str | int],
    encoder: EncoderIdentity | None,
    sizes: Sizes,
    people: People | None,
) -> PrivateEmbeddings:
    """Stands for the private rows, with what would be declared of people."""
    return PrivateEmbeddings(
        rows,
        labels,
        classes=classes,
        name="surrogate",
        encoder=encoder,
        people=people,
        person_bound=sizes.person_bound,
        rows_per_person=sizes.rows_per_person,
    )


def resample_task(
    sample: PublicEmbeddings,
    public: PublicEmbeddings | None,
    sizes: Sizes,
    made: int,
    *,
    many_classes: bool = False,
    rng: np.random.Generator,
) -> Surrogate:
    """A task from a labelled public sample: its rows split in two, one half drawn from with replacement.

    Args:
        sample: labelled public rows of the task.
        public: the pool that methods get; None for the training part of the sample, without its labels.
        sizes: what the task is to look like; its number of classes must be the sample's.
        made: how many rows to draw.
        many_classes: whether a person, where there are persons, has rows of any class, or of one.
        rng: splits and draws.
    """
    labels, classes = sample.labels, sample.classes
    if labels is None or classes is None:
        raise DataError("A sample must be labelled; this has no labels. Pass it as the pool instead.")
    if len(classes) != sizes.classes:
        raise DataError(
            f"A sample must have the task's classes; it has {len(classes)}, and {sizes.classes} were "
            "asked for."
        )
    if np.bincount(labels, minlength=len(classes)).min() < 2:
        raise DataError("A sample needs two rows of each class at least, one to train on and one to test on.")
    counts = rng.permutation(sizes.counts(max(made, sizes.classes)))
    train, test, rest = [], [], []
    for place, count in enumerate(counts):
        own = rng.permutation(np.flatnonzero(labels == place))
        held = min(max(1, round(_TEST_SHARE * len(own))), len(own) - 1)
        test.append(own[:held])
        rest.append(own[held:])
        train.append(rng.choice(own[held:], size=count, replace=True))
    fewest = min(map(len, test))
    chosen, held_out = np.concatenate(train), np.concatenate([own[:fewest] for own in test])
    names = [str(name) for name in classes]
    people = None
    if sizes.rows_per_person is not None:
        people = made_people(len(chosen), sizes.rows_per_person, many_classes=many_classes, rng=rng)
    private = _private(sample.rows[chosen], labels[chosen], names, sample.encoder, sizes, people)
    if public is None:
        public = PublicEmbeddings(sample.rows[np.concatenate(rest)], encoder=sample.encoder)
    return Surrogate(private, public, sample.rows[held_out].astype(np.float32), labels[held_out])


def _predicted(
    method: PrivateMethod, budget: Budget, factor: float, tasks: Sequence[Surrogate]
) -> list[JsonObject]:
    place = axis_epsilon(budget.epsilon, budget.rho, budget.mu, budget.delta)
    row = {"method": method.name, "at_epsilon": place, "accuracy": math.nan, "refusal": None}
    scaled, found = scaled_budget(budget, factor), []
    for number, task in enumerate(tasks, 1):
        ledger, noise = SurrogateLedger.in_memory(strict_names=True), SeededNoise(_SEED + number)
        try:
            request = Fit(Source(task.private), scaled, method, Source(task.public), calibrate=False)
            model = request.run(ledger, noise)
        except DPTransferError as refusal:
            return [{**row, "refusal": str(refusal)}]
        right = model.scores(task.test_rows).argmax(axis=1) == task.test_labels  # as many of every class
        found.append({**row, "accuracy": float(right.mean())})
    return found


def _how(
    sizes: Sizes, made: int, public: PublicEmbeddings, sample: PublicEmbeddings | None, tasks: int
) -> str:
    scaled = (
        f" {made:,} of {sizes.rows:,} rows were simulated, with noise scaled down by the same factor."
        if made < sizes.rows
        else ""
    )
    if sample is None:
        source = (
            f"{tasks} surrogate tasks made from public rows, easy and hard ones; your task may be easier or "
            "harder than all of them"
        )
    else:
        source = (
            f"{tasks} draws with replacement from {len(sample):,} labelled public rows of the task; rows "
            "repeat, so the real curve can lie higher at large ε, and lower if the sample is not typical"
        )
        if public is sample:
            source += "; its training part was the public pool as well, which flatters methods that use one"
    people = ""
    if sizes.people is not None:
        people = f" of {sizes.people:,} people (person bound {sizes.person_bound:g})"
        if sample is not None:
            source += "; a person's rows are drawn at random, and real ones, which are alike, say less"
    return (
        f"This is a prediction, not a measurement: {source}. Sizes assumed: {sizes.classes} classes, "
        f"{sizes.rows:,} rows{people}, imbalance ratio {sizes.imbalance:g}.{scaled} "
        f"ε is for one {sizes.unit.words}. No private row was read and no budget was spent."
    )
