"""The sensitivity check for persons: neighbours differ in all rows of one, and people try to break things."""

import numpy as np
from hypothesis import strategies as st

from contracts.rows import row
from dptransfer.privacy import Relation
from dptransfer.testing.query_rules import (
    one_person,
    share_of_sensitivity,
    squared_bound,
    squared_gap,
    with_people,
    worst_people,
)

from .neighbours import CLASSES, WIDTH

NOBODY = (np.zeros((0, WIDTH)), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def person(rows, labels):
    """Rows and labels of one person."""
    return one_person(rows, labels, WIDTH)


WORST = worst_people(WIDTH, CLASSES)

people = st.one_of(
    st.sampled_from(list(WORST.values())),
    st.lists(st.tuples(row(WIDTH), st.integers(0, CLASSES - 1)), max_size=9).map(
        lambda drawn: person([x for x, _ in drawn], [y for _, y in drawn])
    ),
)


def data_of(some, seed=None):
    """The rows of these persons, with whose they are; in any order, if there is a seed."""
    return with_people(some, seed) if some else NOBODY


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
    return share_of_sensitivity(query, *pairs([], first, second)[relation], relation)
