"""Rows that try to break things: what hypothesis draws for features, queries and methods."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from dptransfer.testing.query_rules import LARGEST, NASTY

__all__ = ["LARGEST", "NASTY", "entries", "row", "rows", "squared_length", "steady"]

entries = st.one_of(st.sampled_from(NASTY), st.floats(-3, 3), st.floats(width=64))

steady = settings(derandomize=True, deadline=None, max_examples=60, database=None)
"""The same examples on every run, so that a test which passes goes on passing."""


def row(dimension):
    """One row of floats of any kind, or one coordinate, or all equal."""
    return st.one_of(
        st.lists(entries, min_size=dimension, max_size=dimension),
        st.tuples(entries, st.integers(0, dimension - 1)).map(
            lambda drawn: [drawn[0] if place == drawn[1] else 0.0 for place in range(dimension)]
        ),
        entries.map(lambda value: [value] * dimension),
    )


def rows(dimension, most=6, least=0):
    """Up to `most` rows as an array; duplicates are likely, because some come twice."""
    some = st.lists(row(dimension), min_size=least, max_size=most)
    return st.tuples(some, st.booleans()).map(
        lambda drawn: np.array(drawn[0] + drawn[0] * drawn[1], dtype=np.float64).reshape(-1, dimension)
    )


def squared_length(vector):
    """Exact squared length, in Python integers."""
    return sum(int(entry) ** 2 for entry in np.ravel(vector))
