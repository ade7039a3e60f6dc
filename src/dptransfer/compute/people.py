"""Rows put together by person: each person's own sums, exact, and scaled down to what one person may count.

A person's contribution is a function of that person's rows alone, and an integer vector whose norm is at most
the bound in exact arithmetic: sums are integer sums, the norm that they are divided by is an upper bound from
integers, and the quotient is rounded toward zero. So neither order nor chunks nor devices change an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from dptransfer.arrays import AnyArray, Floats, Integers, Labels, People
from dptransfer.compute.cores import usable_cores
from dptransfer.compute.plain_floats import square_root
from dptransfer.compute.threads import side_by_side

_CHUNK_ELEMENTS = 2**18
_SQUARE_BITS = 31  # of a norm whose square fits int64 with room to spare
_HAIR = 1 + 2.0**-40
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows in order of person and, inside a person, of class; a group is what a person has of one class.

    Attributes:
        order: positions of the rows.
        starts: where each group begins in `order`, and the end.
        classes: class of each group.
        firsts: each person's first group, and the number of groups.
    """

    order: Integers
    starts: Integers
    classes: Integers
    firsts: Integers

    @property
    def sizes(self) -> Integers:
        """How many rows each person has."""
        return np.diff(self.starts[self.firsts])

    @property
    def counts(self) -> Integers:
        """How many rows each group has."""
        return np.diff(self.starts)

    def of_groups(self, values: AnyArray) -> AnyArray:
        """A value of each person, for each of their groups."""
        return np.repeat(values, np.diff(self.firsts))

    def of_rows(self, values: AnyArray) -> AnyArray:
        """A value of each person, for each of their rows, in `order`."""
        return np.repeat(values, self.sizes)

    def persons(self, start: int, stop: int) -> Groups:
        """These persons alone."""
        firsts = self.firsts[start : stop + 1]
        starts = self.starts[firsts[0] : firsts[-1] + 1]
        order = self.order[starts[0] : starts[-1]]
        return Groups(order, starts - starts[0], self.classes[firsts[0] : firsts[-1]], firsts - firsts[0])


def grouped(people: People, labels: Labels) -> Groups:
    """Rows by person and class; with labels of zeros, by person.

    >>> groups = grouped(np.array([1, 0, 1, 1]), np.array([2, 0, 0, 2]))
    >>> groups.order.tolist(), groups.starts.tolist(), groups.classes.tolist(), groups.firsts.tolist()
    ([1, 2, 0, 3], [0, 1, 2, 4], [0, 0, 2], [0, 1, 3])
    """
    order = np.lexsort((labels, people))
    persons, classes = people[order], labels[order]
    begins = np.diff(persons, prepend=-1) != 0
    starts = np.flatnonzero(begins | (np.diff(classes, prepend=-1) != 0))
    firsts = np.flatnonzero(begins[starts])
    return Groups(order, np.append(starts, len(order)), classes[starts], np.append(firsts, len(starts)))


def over_people(work: Callable[[Groups], _Result], groups: Groups, dimension: int) -> Iterator[_Result]:
    """What `work` gives for some persons at a time, none of them split; several at a time, side by side."""
    ends = groups.starts[groups.firsts]
    step = max(1, _CHUNK_ELEMENTS // max(1, dimension))
    cuts = np.unique(np.searchsorted(ends, np.arange(0, ends[-1] + step, step)))
    cuts = np.unique(np.append(cuts[cuts < len(ends)], [0, len(ends) - 1]))
    parts = [(int(start), int(stop)) for start, stop in pairwise(cuts)]
    return side_by_side(lambda part: work(groups.persons(*part)), parts, usable_cores())


def group_sums(mapped: Callable[[Integers], Integers], groups: Groups, width: int) -> Integers:
    """(groups, width) sums of the integer rows that `mapped` gives for positions, some at a time."""
    sums = np.zeros((len(groups.classes), width), dtype=np.int64)
    step = max(1, 4 * _CHUNK_ELEMENTS // max(1, width))  # only a person with very many rows has several
    for start in range(0, len(groups.order), step):
        rows = mapped(groups.order[start : start + step])
        first = int(np.searchsorted(groups.starts, start, side="right")) - 1
        last = int(np.searchsorted(groups.starts, start + len(rows), side="left"))
        cuts = np.maximum(groups.starts[first:last] - start, 0)
        sums[first:last] += np.add.reduceat(rows, cuts, axis=0, dtype=np.int64)
    return sums


def person_norms(sums: Integers, groups: Groups, row_norm: float) -> Floats:
    """An upper bound on the norm of each person's sums, where a row has at most `row_norm`.

    Entries are cut, away from zero, to the bits that make sums of squares fit int64.
    """
    bits = np.frexp(groups.sizes * float(row_norm))[1].astype(np.int64)
    shift = np.maximum(bits - _SQUARE_BITS, 0)
    own = groups.of_groups(shift)[:, None]
    entries = (np.abs(sums) + ((1 << own) - 1)) >> own
    squares = np.add.reduceat(np.einsum("ij,ij->i", entries, entries), groups.firsts[:-1])
    norms: Floats = square_root(squares.astype(np.float64)) * 2.0**shift * _HAIR
    return norms


def scaled_down(sums: Integers, groups: Groups, row_norm: float, most: float) -> Integers:
    """The sums, each person's scaled to a norm of at most `most` and rounded toward zero.

    >>> alone = grouped(np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64))
    >>> scaled_down(np.array([[6, 8]]), alone, row_norm=5, most=5.0)
    array([[2, 3]])
    """
    norms = person_norms(sums, groups, row_norm)
    factors = groups.of_groups(np.minimum(1.0, most / np.maximum(norms, 1.0)))
    long = factors < 1
    bounded = sums.copy()
    bounded[long] = np.trunc(sums[long] * factors[long][:, None]).astype(np.int64)
    return bounded
