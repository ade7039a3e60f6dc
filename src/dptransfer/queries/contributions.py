"""What each row alone moves an answer by: for reports about single rows, never for a release.

Every answer here is a sum over rows of integer contributions, so the answer on one row alone is what that row
adds to any data set. Queries that are asked often say it for all rows at once, by a method
`contribution_norms(rows, labels)` or `contribution_ranges(rows, labels, people)`, tested against the generic
route.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dptransfer.base.types import AnyArray, Floats, Integers, Labels, People
from dptransfer.privacy import Relation
from dptransfer.queries.query import L2Query, ScoreQuery


def contribution_norms(
    query: L2Query, rows: AnyArray, labels: Labels, people: People | None = None
) -> Floats:
    """L2 norm, in units of the answer, of what each row contributes; or each person, in order of number."""
    at_once = getattr(query, "contribution_norms", None)
    if at_once is not None and people is None:
        norms: Floats = at_once(rows, labels)
        return norms
    return one_by_one(
        lambda *own: np.linalg.norm(query(*own).astype(np.float64)) / query.grid, rows, labels, people
    )


def contribution_ranges(
    query: ScoreQuery, rows: AnyArray, labels: Labels, people: People | None = None
) -> Floats:
    """Largest minus smallest of what each row adds to the scores of its class, ÷ `score_range`.

    A constant added to all scores changes no selection, so this, and not the largest, is what a row can do.
    What a person does to several classes adds up.
    """
    at_once = getattr(query, "contribution_ranges", None)
    if at_once is not None:
        ranges: Floats = at_once(rows, labels, people)
        return ranges

    def span(x: AnyArray, y: Labels, *whose: People) -> float:
        asked: Callable[..., Integers] = query
        return float(np.ptp(asked(x, y, *whose), axis=0)[np.unique(y)].sum()) / query.score_range

    return one_by_one(span, rows, labels, people)


def largest_contribution(query: L2Query) -> float:
    """Bound on `contribution_norms`: adding a row moves the answer by its contribution.

    A query that is there for replace-one alone says it itself, as an attribute.
    """
    own: float | None = getattr(query, "largest_contribution", None)
    return query.l2_sensitivity(Relation.ADD_REMOVE) if own is None else own


def one_by_one(
    measure: Callable[..., Any], rows: AnyArray, labels: Labels, people: People | None = None
) -> Floats:
    """`measure` of each row, or of each person's rows, as a data set of its own."""
    if people is None:
        found = [measure(rows[i : i + 1], labels[i : i + 1]) for i in range(len(rows))]
    else:
        order = np.argsort(people, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(people[order])) + 1)
        found = [measure(rows[own], labels[own], np.zeros_like(own)) for own in parts if len(own)]
    return np.array(found, dtype=np.float64)


def whole_norms(rows: AnyArray) -> Floats:
    """Norms of integer rows whose squares add up to less than 2⁶³; exact up to the square root."""
    norms: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows).astype(np.float64))
    return norms
