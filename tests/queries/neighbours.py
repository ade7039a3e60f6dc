"""The sensitivity check every query goes through: neighbours of both kinds, gaps in exact arithmetic.

Neighbours differ in one row, or in all rows of one person; people try to break things.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import row, rows, steady
from dptransfer.data import PublicEmbeddings, Vocabulary
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
from dptransfer.privacy import Relation
from dptransfer.testing.query_rules import (
    one_person,
    share_of_sensitivity,
    squared_bound,
    squared_gap,
    with_people,
    worst_people,
)

WIDTH = 3
CLASSES = 3


def with_example(data, example):
    """The data set with one more example, at a place in the middle."""
    x, y = data
    values, label = example
    place = len(x) // 2
    return np.insert(x, place, values, axis=0), np.insert(y, place, label)


POOL = PublicEmbeddings(np.random.default_rng(0).normal(size=(20, WIDTH)))
MAPS = {
    "unit norm": UnitNorm().fit(WIDTH, None),
    "pooled": UnitNorm(pool=2).fit(WIDTH, None),
    "public map": PublicMap(axes=2).fit(WIDTH, POOL),
    "rooted public map": PublicMap(axes=2).fit(WIDTH, PublicEmbeddings(np.abs(POOL.rows))),
    "words": FittedVocabularyMap.of(Vocabulary(("a", "b", "c"), 30 * np.eye(WIDTH), np.zeros(WIDTH))),
}


@st.composite
def data_sets(draw):
    """Rows and labels, possibly none, possibly with empty classes and rows of any kind."""
    x = draw(rows(WIDTH, most=4))
    y = draw(st.lists(st.integers(0, CLASSES - 1), min_size=len(x), max_size=len(x)))
    return x, np.array(y, dtype=np.int64)


examples = st.tuples(row(WIDTH), st.integers(0, CLASSES - 1))


def of_neighbours(**more):
    """For a test of `data` and of two examples, `first` and `second`, that may be added to them."""
    drawn = given(data=data_sets(), first=examples, second=examples, **more)
    return lambda test: steady(drawn(test))


def pairs(data, first, second):
    """The neighbours under each relation."""
    one, other = with_example(data, first), with_example(data, second)
    return {Relation.ADD_REMOVE: (data, one), Relation.REPLACE_ONE: (one, other)}


def stays_within(query, data, first, second, relations=tuple(Relation)):
    """Whether both kinds of neighbours stay within what the query claims."""
    return all(
        squared_gap(query, *pairs(data, first, second)[relation]) <= squared_bound(query, relation)
        for relation in relations
    )


EMPTY = (np.zeros((0, WIDTH)), np.zeros(0, dtype=np.int64))


def reach(query, first, second, relation, data=EMPTY):
    """The share of the claimed sensitivity that this pair uses."""
    return share_of_sensitivity(query, *pairs(data, first, second)[relation], relation)


NOBODY = (*EMPTY, np.zeros(0, dtype=np.int64))


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


def person_pairs(others, first, second, seed=None):
    """Neighbours under each relation: a person more, and a person in place of another."""
    one, other = data_of([*others, first], seed), data_of([*others, second], seed)
    return {Relation.ADD_REMOVE: (data_of(others), one), Relation.REPLACE_ONE: (one, other)}


def within(query, others, first, second, seed=None):
    """Whether both kinds of neighbours stay within what the query claims."""
    neighbours = person_pairs(others, first, second, seed)
    return all(
        squared_gap(query, *neighbours[relation]) <= squared_bound(query, relation) for relation in Relation
    )


def reached(query, first, second, relation):
    """The share of the claimed sensitivity that these persons use."""
    return share_of_sensitivity(query, *person_pairs([], first, second)[relation], relation)
