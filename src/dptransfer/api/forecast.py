"""What to expect of a fit, from public data alone: the time to encode, and how well a model may do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dptransfer.api.checked_examples import Examples
from dptransfer.base.progress import tell
from dptransfer.data import Facts, PublicEmbeddings, ShardedRows
from dptransfer.encoders.encoder import Encoder, blank_picture
from dptransfer.methods.auto import fitted_on, tasks_like
from dptransfer.methods.heads.public_prior import PublicPriorPrototypes
from dptransfer.privacy import Budget

ALMOST_NO_NOISE = 100.0
"""An ε at which noise is next to none, so that what is lost below it is the price of privacy."""

_FEWEST_PUBLIC = 200  # rows that tasks are made from; `Auto` asks for as many
_MOST_PUBLIC = 20_000  # of a pool in many files: four times as many as the largest task has
_BATCH = 8
_A_TEXT = "word " * 50


@dataclass(frozen=True)
class EncodingTime:
    """How long an encoding would take on this machine.

    Attributes:
        encoder: its name.
        examples: pictures or texts to encode, in all sets.
        each: seconds that the encoder takes for one.
        opening: seconds that opening all pictures took.
    """

    encoder: str
    examples: int
    each: float
    opening: float

    @classmethod
    def of(cls, encoder: Encoder, examples: int, opening: float) -> EncodingTime:
        """Measured on blank examples, after a first batch that warms the encoder up."""
        batch = [blank_picture() if encoder.kind == "image" else _A_TEXT] * _BATCH
        encoder.encode(batch)
        started = time.perf_counter()
        encoder.encode(batch)
        each = (time.perf_counter() - started) / _BATCH
        return cls(encoder.identity.name, examples, each, opening)

    @property
    def seconds(self) -> float:
        """Of the whole; the two may overlap, so it is not more."""
        return self.examples * self.each + self.opening

    @property
    def sentence(self) -> str:
        """The time in words, and where it comes from."""
        minutes = self.seconds / 60
        total = f"{minutes:.0f} min" if minutes >= 2 else f"{max(1, round(self.seconds))} s"
        return (
            f"About {total} for {self.examples:,} examples with '{self.encoder}' on this machine: "
            f"{self.each:.2g} s each, measured on {_BATCH} blank ones, and {self.opening:.2g} s to open all "
            "pictures, as this check did."
        )


@dataclass(frozen=True)
class Forecast:
    """Balanced accuracy on tasks made of public rows.

    Attributes:
        epsilon: of the budget.
        mean: over the tasks.
        lowest: on the hardest of them.
        highest: on the easiest.
    """

    epsilon: float
    mean: float
    lowest: float
    highest: float


def why_no_forecast(pool: Examples | None, classes: Sequence[str | int] | None) -> str:
    """What keeps accuracies from being forecast; nothing, where all is there."""
    if pool is None:
        return "no public pool was given"
    if pool.rows is None:
        return (
            "the pool is not encoded. Encode it, with 'dptransfer encode --public', and check with its rows"
        )
    if pool.count < _FEWEST_PUBLIC:
        return f"the pool has {pool.count} rows, and tasks are made of {_FEWEST_PUBLIC} or more"
    return "no list of classes is declared" if classes is None or len(classes) < 2 else ""


def public_rows(pool: Examples) -> PublicEmbeddings:
    """The rows of a pool that can be used; of one in many files, some from everywhere in it."""
    rows: object = pool.rows
    if isinstance(rows, ShardedRows):
        rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), _MOST_PUBLIC)).astype(np.int64)]
    rows = np.asarray(rows)
    return PublicEmbeddings(rows[np.isfinite(rows).all(axis=1)], encoder=pool.encoder)


def expected_accuracy(
    facts: Facts, public: PublicEmbeddings, budgets: Sequence[Budget]
) -> tuple[Forecast, ...]:
    """What the default method reaches on tasks of the declared size that are made of public rows.

    No private row, label or count goes in: the tasks have the declared number of classes and the declared
    size, or what `Auto` assumes where none is, and their rows are mixed from the pool's.
    """
    found: list[Forecast] = []
    for turn, budget in enumerate(budgets):
        tasks, scaled = tasks_like(facts, budget, public)
        reached = []
        for task in tasks:
            model = fitted_on(task, PublicPriorPrototypes(), scaled)
            reached.append(float((model.scores(task.test_rows).argmax(axis=1) == task.test_labels).mean()))
            tell(turn * len(tasks) + len(reached), len(budgets) * len(tasks), "public task")
        found.append(Forecast(budget.amount, float(np.mean(reached)), min(reached), max(reached)))
    return tuple(found)
