"""The sensitivity check for persons: neighbours differ in all rows of one, and people try to break things."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from contracts.rows import row
from dptransfer.privacy import Relation

from .neighbours import CLASSES, WIDTH, squared_bound, squared_gap

NOBODY = (np.zeros((0, WIDTH)), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def person(rows, labels):
    """Rows and labels of one person."""
    rows = np.array(rows, dtype=np.float64).reshape(-1, WIDTH)
    return rows, np.broadcast_to(np.array(labels, dtype=np.int64), len(rows)).copy()


ALONG, ACROSS = np.eye(WIDTH)[0], np.eye(WIDTH)[1]
_RNG = np.random.default_rng(7)
WORST = {
    "equal rows": person([ALONG] * 40, 0),
    "opposite of them": person([-ALONG] * 40, 0),
    "at right angles": person([ACROSS] * 40, 0),
    "of another class": person([ALONG] * 40, 1),
    "rows that cancel": person([ALONG, -ALONG] * 20, 0),
    "rows that nearly cancel": person([ALONG, -ALONG] * 20 + [ALONG], 0),
    "huge rows": person([[1e308] * WIDTH] * 40, 0),
    "huge and tiny rows": person([[1e308, -1e308, 0.0], [5e-324, 0.0, 0.0]] * 20, 2),
    "no numbers": person([[np.nan, 1.0, 0.0], [np.inf, 0.0, 0.0]] * 20, 0),
    "a number among none": person([[np.nan] * WIDTH] * 39 + [ALONG], 0),
    "zeros": person([[0.0] * WIDTH] * 40, 1),
    "all classes": person([ALONG] * 39, [0, 1, 2] * 13),
    "all classes and directions": person(_RNG.normal(size=(39, WIDTH)), [0, 1, 2] * 13),
    "one row": person([ALONG], 0),
    "two rows": person([ALONG, ACROSS], [0, 2]),
    "very many rows": person([ALONG] * 700, 0),
    "very many, any": person(_RNG.normal(size=(600, WIDTH)), _RNG.integers(0, CLASSES, 600)),
}

people = st.one_of(
    st.sampled_from(list(WORST.values())),
    st.lists(st.tuples(row(WIDTH), st.integers(0, CLASSES - 1)), max_size=9).map(
        lambda drawn: person([x for x, _ in drawn], [y for _, y in drawn])
    ),
)


def data_of(some, seed=None):
    """The rows of these persons, with whose they are; in any order, if there is a seed."""
    if not some:
        return NOBODY
    x, y = (np.concatenate(part) for part in zip(*some, strict=True))
    whose = np.repeat(np.arange(len(some)), [len(rows) for rows, _ in some])
    order = np.arange(len(x)) if seed is None else np.random.default_rng(seed).permutation(len(x))
    return x[order], y[order], whose[order]


def pairs(others, first, second, seed=None):
    """Neighbours under each relation: a person more, and a person in place of another."""
    one, other = data_of([*others, first], seed), data_of([*others, second], seed)
    return {Relation.ADD_REMOVE: (data_of(others), one), Relation.REPLACE_ONE: (one, other)}


def within(query, others, first, second, seed=None):
    """Whether both kinds of neighbours stay within what the query claims."""
    neighbours = pairs(others, first, second, seed)
    return all(
        squared_gap(query, *neighbours[relation]) <= squared_bound(query, relation) for relation in Relation
    )


def reached(query, first, second, relation):
    """The share of the claimed sensitivity that these persons use."""
    gap = squared_gap(query, *pairs([], first, second)[relation])
    return float(Fraction(gap) / squared_bound(query, relation)) ** 0.5
