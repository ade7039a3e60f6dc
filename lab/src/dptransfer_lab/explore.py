"""What would ε buy? Accuracy against ε predicted from public rows alone, before any private row is read.

Two ways, both by simulation:

- *From a pool.* Surrogate tasks of the asked size are made from public rows (`methods.surrogate`): each class
  is a mixture of public rows, and families of tasks differ in how hard they are. The band spans the families.
- *From a sample.* A small labelled public sample of the user's own task is split into training and test rows,
  and the training rows are drawn with replacement up to the asked sizes. The band spans the draws.

Where fewer rows are simulated than asked for, the budget is scaled up by the same factor, so that noise per
row is what it would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dptransfer import _check
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.imbalance import long_tail_counts
from dptransfer.errors import DataError, DPTransferError
from dptransfer.ledger import Ledger
from dptransfer.methods import PrivateMethod
from dptransfer.methods.surrogate import (
    FAMILIES,
    Surrogate,
    scaled_budget,
    surrogate_size,
    surrogates,
)
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget

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
    """

    classes: int
    rows: int
    imbalance: float = 1.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        _check.whole("classes", self.classes, at_least=2)
        _check.whole("rows", self.rows, at_least=self.classes)
        long_tail_counts(1, self.imbalance, self.classes)  # its own check of the ratio

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows per class in a long tail, largest first, adding up to about `rows`."""
        shape = long_tail_counts(1_000_000, self.imbalance, self.classes).astype(np.float64)
        counts: NDArray[np.int64] = np.maximum(1, np.rint(self.rows * shape / shape.sum())).astype(np.int64)
        return counts


@dataclass(frozen=True)
class Prediction:
    """What one method is expected to reach at one budget.

    Attributes:
        method: its name.
        budget: what the real fit would cost.
        accuracies: balanced accuracy of each simulated task.
        refusal: why it cannot be fitted, where it cannot.
    """

    method: str
    budget: Budget
    accuracies: tuple[float, ...]
    refusal: str | None = None


@dataclass(frozen=True)
class Outlook:
    """A prediction and how it was made.

    Attributes:
        predictions: one per method and budget.
        how: the sentence that goes with them wherever they are shown.
        rows: how many rows were simulated.
        tasks: how many tasks.
    """

    predictions: tuple[Prediction, ...]
    how: str
    rows: int
    tasks: int


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
    _check.whole("repeats", repeats)
    made = surrogate_size(sizes.rows)
    tasks = list(_drawn(public, sizes, made, sample, repeats))
    factor = sizes.rows / made
    found = tuple(
        _predicted(method, budget, scaled_budget(budget, factor), tasks)
        for method in methods
        for budget in budgets
    )
    return Outlook(found, _how(sizes, made, public, sample, len(tasks)), made, len(tasks))


def _drawn(
    public: PublicEmbeddings, sizes: Sizes, made: int, sample: PublicEmbeddings | None, repeats: int
) -> Iterator[Surrogate]:
    for repeat in range(repeats):
        rng = np.random.default_rng([_SEED, repeat])
        if sample is not None:
            yield resampled(sample, None if public is sample else public, sizes, made, rng=rng)
            continue
        tasks = surrogates(public, sizes.classes, _SPARE * made, rng=rng)
        for family, task in zip(FAMILIES, tasks, strict=True):
            if family.imbalance <= max(_MILD, sizes.imbalance):  # others have classes too small to draw from
                yield reshaped(task, sizes, made, rng=rng)


def reshaped(task: Surrogate, sizes: Sizes, made: int, *, rng: np.random.Generator) -> Surrogate:
    """The same task with the asked sizes: its largest class becomes the largest one, and so on.

    Rows are drawn without replacement where a class has enough.
    """
    labels = task.private.labels
    there = np.bincount(labels, minlength=sizes.classes)
    wanted = Sizes(sizes.classes, max(made, sizes.classes), sizes.imbalance).counts
    chosen = []
    for place, count in zip(np.argsort(-there, kind="stable"), wanted, strict=True):
        own = np.flatnonzero(labels == place)
        chosen.append(rng.choice(own, size=count, replace=len(own) < count))
    kept = np.sort(np.concatenate(chosen))
    facts = task.private.facts
    private = PrivateEmbeddings(
        task.private.rows[kept], labels[kept], classes=facts.classes, name="surrogate", encoder=facts.encoder
    )
    return replace(task, private=private)


def resampled(
    sample: PublicEmbeddings,
    public: PublicEmbeddings | None,
    sizes: Sizes,
    made: int,
    *,
    rng: np.random.Generator,
) -> Surrogate:
    """A task from a labelled public sample: its rows split in two, one half drawn from with replacement.

    Args:
        sample: labelled public rows of the task.
        public: the pool that methods get; None for the training part of the sample, without its labels.
        sizes: what the task is to look like; its number of classes must be the sample's.
        made: how many rows to draw.
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
    counts = rng.permutation(Sizes(sizes.classes, max(made, sizes.classes), sizes.imbalance).counts)
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
    private = PrivateEmbeddings(
        sample.rows[chosen], labels[chosen], classes=names, name="sample", encoder=sample.encoder
    )
    if public is None:
        public = PublicEmbeddings(sample.rows[np.concatenate(rest)], encoder=sample.encoder)
    return Surrogate(private, public, sample.rows[held_out].astype(np.float32), labels[held_out])


def _predicted(
    method: PrivateMethod,
    budget: Budget,
    scaled: Budget,
    tasks: Sequence[Surrogate],
) -> Prediction:
    accuracies = []
    for place, task in enumerate(tasks):
        try:
            noise = SeededNoise(_SEED + 1 + place)
            model = method.fit(
                task.private,
                task.public,
                budget=scaled,
                ledger=Ledger.in_memory(strict_names=True),
                noise=noise,
            )
        except DPTransferError as refusal:
            return Prediction(method.name, budget, (), str(refusal))
        right = model.scores(task.test_rows).argmax(axis=1) == task.test_labels
        recalls = [right[task.test_labels == label].mean() for label in np.unique(task.test_labels)]
        accuracies.append(float(np.mean(recalls)))
    return Prediction(method.name, budget, tuple(accuracies))


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
    return (
        f"This is a prediction, not a measurement: {source}. Sizes assumed: {sizes.classes} classes, "
        f"{sizes.rows:,} rows, imbalance ratio {sizes.imbalance:g}.{scaled} "
        "No private row was read and no budget was spent."
    )
