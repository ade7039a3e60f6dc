"""Exact integer sums of rows by class and by person.

Integer addition gives the same sum in any order, so the result does not depend on chunks, row order, threads
or the device, and the backends are compared by ==.

A person's contribution is a function of that person's rows alone, and an integer vector whose norm is at most
the bound in exact arithmetic: sums are integer sums, the norm that they are divided by is an upper bound from
integers, and the quotient is rounded toward zero. So neither order nor chunks nor devices change an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, Floats, Integers, Labels, People, Tensor
from dptransfer.exact.chunks import over_chunks, rows_and_workers, side_by_side
from dptransfer.exact.cuda import Array, place_beside, slabs, square_root, to_device
from dptransfer.exact.lattice import HAIR

_SLAB_ELEMENTS = 2**23  # 64 MiB in int64, of which the device holds a few


def class_sums_on_cuda(  # pragma: no cover — GPU
    rows: Array,
    labels: Array,
    classes: int,
    mapped: Callable[[Tensor], Tensor] = lambda rows: rows,
    weights: Integers | None = None,
) -> Integers:
    """(classes, width) sums of integer rows on a GPU, to which they are brought in slabs.

    Args:
        rows: integer rows, or what `mapped` makes integer rows of; an array, a memory map or a torch tensor.
        labels: class of each row.
        classes: number of declared classes.
        mapped: applied to the rows there; it must work row by row.
        weights: how many times each row counts; once if not given.
    """
    owners, each = to_device(labels).long(), None if weights is None else to_device(weights)[:, None]
    width = mapped(to_device(rows[:0])).shape[1]
    sums = torch.zeros((classes, width), dtype=torch.int64, device="cuda")
    for place, slab in slabs(rows, _SLAB_ELEMENTS // max(1, rows.shape[1])):
        added = mapped(slab).long()
        sums.index_add_(0, owners[place], added if each is None else added * each[place])
    return sums.cpu().numpy()


def add_by_class(sums: Integers, rows: Integers, labels: AnyArray) -> None:
    """Add each integer row to its class's sum; one pass over the rows, whatever the number of classes."""
    if len(rows) == 0:
        return
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    sums[ordered[starts]] += np.add.reduceat(rows[order], starts, axis=0, dtype=np.int64)


_CHUNK_ELEMENTS = 2**17  # half of what rows have: sums of persons need more passes, which stay in the cache
_SQUARE_BITS = 31  # of a norm whose square fits int64 with room to spare
_Result = TypeVar("_Result")
_Sums = TypeVar("_Sums", Integers, "Tensor")


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

    def up_to(self, rows: int) -> tuple[Groups, Groups]:
        """Of persons in order of size, those with at most so many rows, and those with more."""
        few = int(np.searchsorted(self.sizes, rows, side="right"))
        return self.persons(0, few), self.persons(few, len(self.firsts) - 1)

    def persons(self, start: int, stop: int) -> Groups:
        """These persons alone."""
        firsts = self.firsts[start : stop + 1]
        starts = self.starts[firsts[0] : firsts[-1] + 1]
        order = self.order[starts[0] : starts[-1]]
        return Groups(order, starts - starts[0], self.classes[firsts[0] : firsts[-1]], firsts - firsts[0])


def group_rows(people: People, labels: Labels) -> Groups:
    """Rows by person and class; with labels of zeros, by person.

    >>> groups = group_rows(np.array([1, 0, 1, 1]), np.array([2, 0, 0, 2]))
    >>> groups.order.tolist(), groups.starts.tolist(), groups.classes.tolist(), groups.firsts.tolist()
    ([1, 2, 0, 3], [0, 1, 2, 4], [0, 0, 2], [0, 1, 3])
    """
    order = np.lexsort((labels, people))
    persons, classes = people[order], labels[order]
    begins = np.diff(persons, prepend=-1) != 0
    starts = np.flatnonzero(begins | (np.diff(classes, prepend=-1) != 0))
    firsts = np.flatnonzero(begins[starts])
    return Groups(order, np.append(starts, len(order)), classes[starts], np.append(firsts, len(starts)))


def sampled_rows(taken: Integers, people: People | None) -> Integers:
    """Positions of the rows of units that were taken: each row is one, or all rows of a person are.

    Args:
        taken: numbers of units.
        people: whose each row is, where persons are sampled.

    >>> sampled_rows(np.array([1, 2]), np.array([1, 0, 1, 2])).tolist()
    [0, 2, 3]
    """
    if people is None:
        return taken
    inside = np.zeros(units_of(len(people), people), dtype=bool)
    inside[taken] = True
    return np.flatnonzero(inside[people])


def units_of(rows: int, people: People | None) -> int:
    """How many units so many rows are: as many, or those who they are from."""
    return rows if people is None else int(people.max(initial=-1)) + 1


def by_size(people: People) -> Groups:
    """Rows by person, those with the fewest rows first; one group each.

    Persons with as many rows as each other then lie next to each other, and their rows are one array with an
    axis for persons.

    >>> groups = by_size(np.array([2, 0, 2, 1]))
    >>> groups.order.tolist(), groups.starts.tolist()
    ([1, 3, 0, 2], [0, 1, 2, 4])
    """
    numbers = people.max(initial=0) + 1
    keys = np.bincount(people)[people] * numbers + people
    order = np.argsort(keys, kind="stable")
    starts = np.append(np.flatnonzero(np.diff(keys[order], prepend=-1)), len(order))
    return Groups(order, starts, np.zeros(len(starts) - 1, dtype=np.int64), np.arange(len(starts)))


def alike(sizes: Integers) -> Iterator[tuple[int, int]]:
    """For sizes in order, where each run of equal ones begins and ends.

    >>> list(alike(np.array([1, 1, 4])))
    [(0, 2), (2, 3)]
    """
    cuts = [0, *(np.flatnonzero(np.diff(sizes)) + 1).tolist(), len(sizes)]
    return pairwise(cuts if len(sizes) else [0])


def over_people(work: Callable[[Groups], _Result], groups: Groups, dimension: int) -> Iterator[_Result]:
    """What `work` gives for some persons at a time, none of them split; several at a time, side by side."""
    step, workers = rows_and_workers(len(groups.order), dimension, _CHUNK_ELEMENTS)
    return side_by_side(work, list(whole_people(groups, step)), workers)


def whole_people(groups: Groups, step: int) -> Iterator[Groups]:
    """About `step` rows at a time, with all rows of everyone who is among them."""
    ends = groups.starts[groups.firsts]
    cuts = np.searchsorted(ends, np.arange(0, ends[-1] + max(1, step), max(1, step)))
    cuts = np.unique(np.append(cuts[cuts < len(ends)], [0, len(ends) - 1]))
    return (groups.persons(int(start), int(stop)) for start, stop in pairwise(cuts))


def add_up(
    vectors: Callable[[slice | Integers], Integers], rows: int, columns: int, shape: tuple[int, ...]
) -> Integers:
    """The sum of one integer vector for each row.

    Args:
        vectors: of the rows at some places, (rows, coordinates).
        rows: how many.
        columns: how many numbers the work on a row is about; chunks are cut by it.
        shape: of the sum.
    """
    parts = over_chunks(lambda chunk: vectors(chunk).sum(axis=0), rows, columns)
    return sum(parts, start=np.zeros(math.prod(shape), dtype=np.int64)).reshape(shape)


def add_up_people(
    vectors: Callable[[slice | Integers], Integers],
    people: People,
    columns: int,
    shape: tuple[int, ...],
    bounded: Callable[[Integers, Groups], Integers],
) -> Integers:
    """The same where `bounded` makes those of persons' sums smaller that are more than a person may add."""
    width = math.prod(shape)

    def part(groups: Groups) -> Integers:
        own: Integers = bounded(group_sums(vectors, groups, width), groups).sum(axis=0)
        return own

    parts = over_people(part, group_rows(people, np.zeros_like(people)), columns)
    return sum(parts, start=np.zeros(width, dtype=np.int64)).reshape(shape)


def group_sums(mapped: Callable[[Integers], Integers], groups: Groups, width: int) -> Integers:
    """(groups, width) sums of the integer rows that `mapped` gives for positions, some at a time."""
    step = max(1, 4 * _CHUNK_ELEMENTS // max(1, width))
    if len(groups.order) <= step:
        return _sums_of_runs(mapped(groups.order), groups.starts[:-1])
    sums = np.zeros((len(groups.classes), width), dtype=np.int64)  # a person with very many rows
    for start in range(0, len(groups.order), step):
        rows = mapped(groups.order[start : start + step])
        first = int(np.searchsorted(groups.starts, start, side="right")) - 1
        last = int(np.searchsorted(groups.starts, start + len(rows), side="left"))
        cuts = np.maximum(groups.starts[first:last] - start, 0)
        sums[first:last] += _sums_of_runs(rows, cuts)
    return sums


def _sums_of_runs(rows: Integers, cuts: Integers) -> Integers:
    """Sums of the rows from each cut to the next; those of a single row, which most are, without adding."""
    counts = np.diff(cuts, append=len(rows))
    several = counts > 1
    if not several.any():
        return rows
    sums = rows[cuts]
    starts = np.cumsum(counts[several]) - counts[several]
    sums[several] = np.add.reduceat(rows[np.repeat(several, counts)], starts, axis=0, dtype=np.int64)
    return sums


def group_sums_there(mapped: Callable[[Integers], Array], groups: Groups, width: int, device: str) -> Array:
    """The same where `mapped` gives tensors of integers on a device."""
    sums = torch.zeros((len(groups.classes), width), dtype=torch.int64, device=device)
    owners = torch.from_numpy(np.repeat(np.arange(len(groups.classes)), groups.counts)).to(device)
    step = max(1, 32 * _CHUNK_ELEMENTS // max(1, width))  # only a person with very many rows has several
    for start in range(0, len(groups.order), step):
        piece = slice(start, start + step)
        sums.index_add_(0, owners[piece], mapped(groups.order[piece]).long())
    return sums


def scaled_down(sums: _Sums, groups: Groups, row_norm: float, most: float) -> _Sums:
    """The sums, each person's scaled to a norm of at most `most` and rounded toward zero.

    Args:
        sums: int64, a row for each group; an array, or a torch tensor on any device.
        groups: whose they are.
        row_norm: what one row adds is no longer.
        most: what a person may have.

    >>> alone = group_rows(np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64))
    >>> scaled_down(np.array([[6, 8]]), alone, row_norm=5, most=5.0)
    array([[2, 3]])
    """
    factors = groups.of_groups(np.minimum(1.0, most / np.maximum(person_norms(sums, groups, row_norm), 1.0)))
    # What is not too long is multiplied by 1: exact below 2⁵³, and beyond that off by far less than the hair.
    if isinstance(sums, np.ndarray):
        scaled = sums * factors[:, None]
        return np.trunc(scaled, out=scaled).astype(np.int64)
    return (sums.double() * place_beside(factors, sums)[:, None]).trunc_().long()


def person_norms(sums: Array, groups: Groups, row_norm: float) -> Floats:
    """An upper bound on the norm of each person's sums, where a row has at most `row_norm`.

    Entries are cut to the bits that make sums of squares fit int64. What is cut off is less than a unit of
    the rest in each entry, so that it has at most the norm of so many ones, which is added.
    """
    bits = np.frexp(groups.sizes * float(row_norm))[1].astype(np.int64)
    shift = np.maximum(bits - _SQUARE_BITS, 0)
    own = groups.of_groups(shift)[:, None]
    if isinstance(sums, np.ndarray):
        entries = sums >> own
        squares = np.einsum("ij,ij->i", entries, entries)
    else:
        entries = sums >> place_beside(own, sums)
        squares = (entries * entries).sum(1).cpu().numpy()
    squares = np.add.reduceat(squares, groups.firsts[:-1])
    ones = np.where(shift > 0, np.diff(groups.firsts) * sums.shape[1], 0).astype(np.float64)
    norms: Floats = (square_root(squares.astype(np.float64)) + square_root(ones)) * 2.0**shift * HAIR
    return norms


def inner_products(vectors: Array) -> Array:
    """(persons, m, m) inner products of each person's m vectors; exact for integers below 2⁵³ in all.

    >>> inner_products(np.array([[[1.0, 2.0], [3.0, 0.0]]]))
    array([[[5., 3.],
            [3., 9.]]])
    """
    if not isinstance(vectors, np.ndarray):
        return vectors @ vectors.swapaxes(1, 2)
    persons, rows, _ = vectors.shape
    found = np.empty((persons, rows, rows))
    # Without the first row, so that the two factors differ: a product of an array with itself is handed to a
    # routine that takes several times as long for small ones.
    np.matmul(vectors[:, 1:], vectors.swapaxes(1, 2), out=found[:, 1:])
    found[:, 0, 1:] = found[:, 1:, 0]
    found[:, 0, 0] = np.einsum("ij,ij->i", vectors[:, 0], vectors[:, 0])
    return found


def norms_by_pairs(first: Array, second: Array, longest: float) -> Floats:
    """An upper bound on the norm of each person's sum of products, from inner products of all pairs of rows.

    The sum over rows i of u_i ⊗ v_i has the squared norm Σ_ij (u_i·u_j)(v_i·v_j). With m rows of at most
    `longest`, products are counted in units of (m · longest)² · 2⁻⁵², rounded up: then the m² of them add up
    to at most 2⁵², exactly and in any order. A float product is off by at most 1/2m² units, all by at most
    half a unit; one is added for that. So a norm of `longest` is found up to a factor of 1 + m⁴ · 2⁻⁵⁰.

    Args:
        first: (persons, m, m) inner products of the one factor, integers below 2⁵³; its memory is used.
        second: the same of the other.
        longest: norm of u_i ⊗ v_i, at most.
    """
    rows = first.shape[-1]
    bits = math.ceil(math.log2(rows * longest)) - 26
    first *= second
    first *= 2.0 ** (-2 * bits)
    if isinstance(first, np.ndarray):
        units = np.ceil(first, out=first).sum((1, 2))
    else:
        units = first.ceil_().sum((1, 2)).cpu().numpy()
    norms: Floats = square_root(units + 1.0) * (2.0**bits * HAIR)
    return norms


def consecutive(positions: Integers) -> slice | Integers:
    """The same positions as a slice, if they are next to each other: what it takes is not copied.

    >>> consecutive(np.array([3, 4, 5])), consecutive(np.array([3, 5]))
    (slice(3, 6, None), array([3, 5]))
    """
    if len(positions) and (np.diff(positions) == 1).all():
        return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions
