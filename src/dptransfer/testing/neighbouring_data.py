"""Neighbouring data sets, and how far apart a query's answers on them are, in exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dptransfer.privacy import Relation

Table = tuple[Any, Any]
"""Rows and labels; of people, only one person's."""
DataSet = tuple[Any, ...]
"""Arguments of a query: rows, labels and, where persons are the unit, the person of each row."""


def squared_gap(query: Any, one: DataSet, other: DataSet) -> int:
    """Exact squared distance of two answers, in grid steps."""
    moved = query(*one).astype(object) - query(*other).astype(object)
    return int((moved**2).sum())


def squared_bound(query: Any, relation: Relation) -> Fraction:
    """Exact square of what the query claims, in grid steps."""
    bound = Fraction(query.l2_sensitivity(relation)) * Fraction(query.grid)
    return bound * bound


def share_of_sensitivity(query: Any, one: DataSet, other: DataSet, relation: Relation) -> float:
    """The share of the claimed sensitivity that these neighbours use; at most 1 if the claim is true."""
    return math.sqrt(Fraction(squared_gap(query, one, other)) / squared_bound(query, relation))


def with_example(data: Table, example: Table) -> Table:
    """The data set with one more example, at a place in the middle."""
    x, y = data
    values, label = example
    place = len(x) // 2
    return np.insert(x, place, values, axis=0), np.insert(y, place, label)


def with_people(people: Sequence[Table], seed: int | None = None) -> DataSet:
    """The rows of at least one person, with whose they are; in any order, if there is a seed."""
    x, y = (np.concatenate(part) for part in zip(*people, strict=True))
    whose = np.repeat(np.arange(len(people)), [len(rows) for rows, _ in people])
    order = np.arange(len(x)) if seed is None else np.random.default_rng(seed).permutation(len(x))
    return x[order], y[order], whose[order]


def one_person(rows: Any, labels: Any, width: int) -> Table:
    """Rows and labels of one person; one label stands for all."""
    rows = np.array(rows, dtype=np.float64).reshape(-1, width)
    return rows, np.broadcast_to(np.array(labels, dtype=np.int64), len(rows)).copy()


def worst_people(width: int, classes: int) -> dict[str, Table]:
    """Persons who try to count more than once; forty rows and more each, of at least two coordinates."""
    along, across = np.eye(width)[0], np.eye(width)[1]
    rng, last = np.random.default_rng(7), classes - 1
    tiny, huge = np.zeros(width), np.zeros(width)
    tiny[0], huge[:2] = 5e-324, (1e308, -1e308)
    odd, infinite = np.zeros(width), np.zeros(width)
    odd[:2], infinite[0] = (np.nan, 1.0), np.inf
    every = np.arange(39) % classes
    made: dict[str, tuple[Any, Any]] = {
        "equal rows": ([along] * 40, 0),
        "opposite of them": ([-along] * 40, 0),
        "at right angles": ([across] * 40, 0),
        "of another class": ([along] * 40, min(1, last)),
        "rows that cancel": ([along, -along] * 20, 0),
        "rows that nearly cancel": ([along, -along] * 20 + [along], 0),
        "huge rows": ([[1e308] * width] * 40, 0),
        "huge and tiny rows": ([huge, tiny] * 20, last),
        "no numbers": ([odd, infinite] * 20, 0),
        "a number among none": ([[np.nan] * width] * 39 + [along], 0),
        "zeros": ([[0.0] * width] * 40, min(1, last)),
        "all classes": ([along] * 39, every),
        "all classes and directions": (rng.normal(size=(39, width)), every),
        "one row": ([along], 0),
        "two rows": ([along, across], [0, last]),
        "very many rows": ([along] * 700, 0),
        "very many, any": (rng.normal(size=(600, width)), rng.integers(0, classes, 600)),
    }
    return {name: one_person(rows, labels, width) for name, (rows, labels) in made.items()}
