"""Clipped softmax gradients in exact integers, summed over rows or over people.

The gradient of one example is residual ⊗ row, with residual = softmax(logits) − onehot, so its norm is the
product of two norms, and clipping needs no per-example gradient in memory.

Exactness. A row's residual must not depend, even in its last bit, on the rows next to it or on the device.
Exponentials and their sums are integers (`exact.softmax`); the rest is elementwise and correctly
rounded (IEEE 754 division and square root, on NVIDIA GPUs too). The product of residuals and rows is again
one of integers below 2⁵³, and takes the residuals, (classes, rows), as they are.

A person's gradient is g = Σ r_i ⊗ x_i over their rows, with residuals r_i that are clipped one by one. What a
person may add is bounded by a factor v = min(1, bound ÷ ‖g‖), and the norm is found in one of two ways:

**By pairs**, for persons with few rows: ‖g‖² = Σ_ij (r_i·r_j)(x_i·x_j), from two small matrices of inner
products (`sums.norms_by_pairs`), so that no gradient of a single person is ever made. Residuals are then
multiplied by v, rounded toward zero, and multiplied with the rows of all persons at once. A rounded residual
is less than √classes away from what it was; m of them, times rows, move g by at most m·√classes·row norm,
which is taken off the bound beforehand: so what a person adds is within the bound in exact arithmetic. With
residuals on a ball of 2²⁰ that is m·√classes·2⁻²⁰ of it: 0.02 % for 40 rows and 20 classes.

**As a whole**, for persons with many: g itself, in int64, by one product; it is scaled down and rounded
toward zero. It costs as much as the sum of the gradients does anyway.

Which way a person takes depends on how many rows they have, on the number of classes and on the bound, and on
nobody else. Everything is an exact integer sum, or elementwise and correctly rounded, so neither order nor
chunks nor the device change an integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import Floats, Integers, Tensor
from dptransfer.base.worker_env import usable_cores
from dptransfer.exact import cuda
from dptransfer.exact.chunks import side_by_side
from dptransfer.exact.cuda import Array, namespace, on_host, place_beside, square_root
from dptransfer.exact.lattice import HAIR
from dptransfer.exact.softmax import IntegerLogits, exponentials, probabilities
from dptransfer.exact.sums import Groups, alike, inner_products, norms_by_pairs, person_norms, scaled_down

RESIDUAL_NORM = 2**14
"""Grid norm of a clipped residual; an example's gradient has at most this × the grid norm of its row."""

MOST_ROWS = 2**20
"""Rows in one call: products of at most 2³⁰ then add up to less than 2⁵³."""

MOST_RECORDED = 2**13
"""Rows of a sample whose step is recorded; the kernels of larger ones take longer than their start."""

_SAMPLE_ROUND = 256  # a recorded step has room for a multiple of so many rows


class Residuals(NamedTuple):
    """Softmax of the logits less one at the label, times the sum of the exponentials: integers.

    Attributes:
        others: (classes, rows) exponentials; 0 at the label.
        short: what the label's exponential lacks of the sum; the entry at the label is −short.
        total: the sum; a residual is these integers ÷ total.
        labels: class of each row.
        ease: what a row's clip is multiplied with; more than 1 where a second head knows the label.
    """

    others: Array
    short: Array
    total: Array
    labels: Array
    ease: Array = 1.0


def clipped_gradient(
    rows: Array,
    labels: Array,
    logits: IntegerLogits,
    clip: float,
    inputs: Array | None = None,
    weights: Floats | None = None,
) -> Array:
    """Σ over rows of clip(residual) ⊗ input, in steps of clip/(RESIDUAL_NORM · grid norm of the inputs).

    Integers as float64, where the rows are. So are sums of several, as long as they are of at most
    `MOST_ROWS` rows in all: no addition rounds.

    Args:
        rows: integer rows as float64, at most `MOST_ROWS`: a NumPy array, or a torch tensor on any device.
        labels: class of each row, where the rows are.
        logits: the current head.
        clip: norm that residuals are clipped to.
        inputs: what the residuals are multiplied with, if not the rows themselves.
        weights: of each class's clipped residuals, at most 1; None for ones.
    """
    grid = residual_lattice(residuals(rows, labels, logits), clip, weights=weights)
    return grid @ (rows if inputs is None else inputs)


def residuals(rows: Array, labels: Array, logits: IntegerLogits) -> Residuals:
    """Softmax of the logits less one at the label, in integers.

    With a second head beside it the loss is −log((p + r)/2), for the probabilities p and r of the label, and
    its gradient is p/(p + r) times the residual. A residual with a weight, clipped, is a weight times the
    residual clipped at clip ÷ weight: `ease` is 1 ÷ weight = 1 + r/p, and nothing else changes. Where p is
    too small for the table it is taken for half of the table's step.
    """
    others = exponentials(rows, logits)
    at = labels, _places(rows)
    total, own = others.sum(0), others[at]
    ease = 1.0
    if logits.beside is not None:
        ease = 1.0 + probabilities(rows, logits.beside)[at] * total / own.clip(0.5, None)
    others[at] = own - own  # zeros from where the rows are: no copy, which a recorded step cannot have
    return Residuals(others, total - own, total, labels, ease)


def norms_above(residual: Residuals) -> Array:
    """An upper bound on each residual's norm, larger by a hair.

    The squares of the others add up exactly. What is done to their sum is five correctly rounded operations,
    each off by a factor of at most 1 ± 2⁻⁵³, and the hair is 2⁻⁴⁰.
    """
    squares = (residual.others * residual.others).sum(0) + residual.short * residual.short
    return square_root(squares) * HAIR / residual.total


def residual_lattice(
    residual: Residuals, clip: float, norm: int = RESIDUAL_NORM, weights: Floats | None = None
) -> Array:
    """(classes, rows) residuals clipped to L2 norm `clip`, eased, and put on the integer ball of `norm`.

    Rounded toward zero after division by an upper bound on the norm, or by the clip where that is larger.
    Both are a hair (2⁻⁴⁰) above, and the few float operations that follow are off by less than 2⁻⁵⁰, so the
    result is no longer than `norm` in exact arithmetic. The residual's memory becomes the result's.

    Weights, one for each class and at most 1, shorten the residuals of its rows: rounding keeps order, so the
    factor of a row does not grow, and neither does any entry.

    >>> entries = Residuals(np.array([[0.0], [4.0], [3.0]]), np.array([7.0]), np.array([8.0]), np.array([0]))
    >>> residual_lattice(entries, clip=1.0).T
    array([[-13332.,   7618.,   5713.]])
    """
    xp = namespace(residual.others)
    factor = norm / (norms_above(residual).clip(clip * HAIR * residual.ease, None) * residual.total)
    if weights is not None:
        factor *= place_beside(weights, residual.others)[residual.labels]
    grid = residual.others
    grid *= factor
    xp.trunc(grid, out=grid)
    grid[residual.labels, _places(factor)] = -xp.trunc(residual.short * factor)
    return grid


def whole_numbers(values: Array) -> Integers:
    """Integers, in whatever type, as int64, on the CPU."""
    return on_host(values).astype(np.int64, copy=False)


def _places(rows: Array) -> Array:
    """0, 1, 2, …, one for each row, made where the rows are: a recorded step can have no copy."""
    if isinstance(rows, np.ndarray):
        return np.arange(len(rows))
    return namespace(rows).arange(len(rows), device=rows.device)


FINE_RESIDUAL_NORM = 2**20
"""Grid norm of a clipped residual of a person's row: fine enough to be scaled down."""

MOST_PERSON_ROWS = 2**16
"""Rows in one product: with rows of norm 2¹⁶, products of at most 2³⁶ then add up to at most 2⁵²."""

_MOST_PAIRED = 64  # rows of a person whose norm is found by pairs
_WHOLE_ELEMENTS = 2**20  # of rows, or of gradients of single persons, in memory at a time

Read: TypeAlias = Callable[[Integers], tuple[Array, Array, Array]]


@dataclass(frozen=True, eq=False)
class PersonGradients:
    """The gradients of persons, in steps of clip/(`FINE_RESIDUAL_NORM` · row norm).

    Attributes:
        read: rows at these positions, their labels, and what residuals are multiplied with (the rows, as a
            rule): float64 integers, arrays or tensors on any device.
        logits: the current head.
        clip: norm that residuals are clipped to.
        shape: (classes, width) of a gradient.
        row_norm: norm of what residuals are multiplied with, at most; at most 2¹⁶.
        examples: as how many examples a person counts, at most.
        weights: of each class's clipped residuals, at most 1; None for ones.
    """

    read: Read
    logits: IntegerLogits
    clip: float
    shape: tuple[int, int]
    row_norm: int
    examples: float
    weights: Floats | None = None

    @property
    def longest(self) -> int:
        """Norm of one example's gradient, at most."""
        return FINE_RESIDUAL_NORM * self.row_norm

    @property
    def most_paired(self) -> int:
        """Rows of a person up to which pairs take less time than the whole."""
        return min(_MOST_PAIRED, 2 * self.shape[0])

    def bounded(self, groups: Groups) -> Integers:
        """The sum over these persons, in order of size, of what each may add."""
        total = np.zeros(self.shape, dtype=np.int64)
        # Who has no more rows than a person counts as is within the bound as it is.
        few, many = groups.up_to(max(self.most_paired, int(self.examples)))
        if len(few.order):
            total += self._bounded_by_pairs(few)
        for some in self._in_memory(many):
            whole = scaled_down(self._whole(some), some, self.longest, self.examples * self.longest)
            total += whole_numbers(whole.sum(0)).reshape(self.shape)
        return total

    def norms(self, groups: Groups) -> Floats:
        """An upper bound on the norm of each of these persons' gradients, in order of size, in steps."""
        few, many = groups.up_to(self.most_paired)
        found = [np.zeros(0)]
        if len(few.order):
            found += [norms for *_, norms in self._paired(*self._residuals(few.order), few.sizes)]
        found += [person_norms(self._whole(some), some, self.longest) for some in self._in_memory(many)]
        return np.concatenate(found)

    def _bounded_by_pairs(self, groups: Groups) -> Integers:
        grid, inputs = self._residuals(groups.order)
        short, long = groups.up_to(int(self.examples))
        begin = len(short.order)
        for own, rows, norms in self._paired(grid[:, begin:], inputs[begin:], long.sizes):
            rounding = rows * math.sqrt(self.shape[0]) * self.row_norm
            most = max(0.0, self.examples * self.longest - rounding)
            own *= place_beside(np.minimum(1.0, most / norms), own)[:, None]
            np.trunc(own, out=own) if isinstance(own, np.ndarray) else own.trunc_()
        return whole_numbers(grid @ inputs)

    def _paired(self, grid: Array, inputs: Array, sizes: Integers) -> Iterator[tuple[Array, int, Floats]]:
        """For persons with as many rows as each other: (classes, persons, rows) residuals, rows, norms."""
        begin = 0
        for start, stop in alike(sizes):
            persons, rows = stop - start, int(sizes[start])
            end = begin + persons * rows
            residual = grid[:, begin:end].reshape(-1, persons, rows)
            of_inputs = inner_products(inputs[begin:end].reshape(persons, rows, -1))
            of_residuals = inner_products(residual.swapaxes(0, 1).swapaxes(1, 2))
            yield residual, rows, norms_by_pairs(of_inputs, of_residuals, self.longest)
            begin = end

    def _whole(self, groups: Groups) -> Array:
        """(persons, classes · width) gradients, in int64, of persons with as many rows as each other."""
        persons = len(groups.firsts) - 1
        # One with very many rows comes in pieces, several at a time.
        step = self._step if persons == 1 else len(groups.order)

        def part(start: int) -> Array:
            grid, inputs = self._residuals(groups.order[start : start + step])
            rows = len(inputs) // persons
            residual = grid.reshape(-1, persons, rows).swapaxes(0, 1)
            found = (residual @ inputs.reshape(persons, rows, -1)).reshape(persons, -1)
            return found.astype(np.int64) if isinstance(found, np.ndarray) else found.long()

        return sum(side_by_side(part, range(0, len(groups.order), step), usable_cores()))

    def _in_memory(self, groups: Groups) -> Iterator[Groups]:
        """Persons with as many rows as each other, so many at a time as there is memory for."""
        for start, stop in alike(groups.sizes):
            each = max(math.prod(self.shape) / _WHOLE_ELEMENTS, int(groups.sizes[start]) / self._step)
            step = max(1, int(1 / each))
            for first in range(start, stop, step):
                yield groups.persons(first, min(stop, first + step))

    @property
    def _step(self) -> int:
        """Rows in memory at a time."""
        return min(MOST_PERSON_ROWS, max(1, _WHOLE_ELEMENTS // self.shape[1]))

    def _residuals(self, positions: Integers) -> tuple[Array, Array]:
        """(classes, rows) clipped residuals in integers, and what they are multiplied with."""
        rows, labels, inputs = self.read(positions)
        found = residuals(rows, labels, self.logits)
        return residual_lattice(found, self.clip, FINE_RESIDUAL_NORM, self.weights), inputs


class RecordedStep(NamedTuple):
    """A step on samples of certain rows, for so many at a time."""

    rows: Tensor
    labels: Tensor
    room: int
    step: Callable[..., Tensor]


RecordedSteps: TypeAlias = dict[tuple[float, float, tuple[int, ...]], RecordedStep]
"""By what a step depends on beside rows, sample and weights."""


@dataclass(frozen=True, eq=False)
class DeviceSample:
    """Some rows in a GPU's memory, whose gradient is recorded as a CUDA graph.

    Samples differ in size, and what is recorded has one shape: so a sample is filled up with rows of zeros,
    whose residuals are multiplied with nothing. One that is much larger than the first is worked on in parts:
    integers add up.

    Attributes:
        rows: all of them, float64 tensors of integers.
        labels: class of each, in the same place.
        positions: of those in the sample.
        recorded: what was recorded for earlier samples, and will be for this.
    """

    rows: Tensor
    labels: Tensor
    positions: Integers
    recorded: RecordedSteps

    def __len__(self) -> int:
        return len(self.positions)

    def select(self) -> tuple[Tensor, Tensor]:  # pragma: no cover — GPU
        """The rows of the sample, and their labels."""
        places = place_beside(self.positions, self.rows)
        return self.rows[places], self.labels[places]

    def recorded_gradient(self, logits: IntegerLogits, clip: float) -> Integers:
        """`clipped_gradient` of the sample, for coarse logits without offsets, in whole numbers."""
        key = clip, logits.row_step, logits.linear.shape
        known = self.recorded.get(key)
        if known is None or known.rows is not self.rows or known.labels is not self.labels:
            known = self.recorded[key] = self._record(logits, clip)
        room, step = known.room, known.step
        head = torch.from_numpy(logits.linear), torch.tensor(logits.linear_factor, dtype=torch.float32)
        total: Array = 0
        for start in range(0, max(1, len(self)), room):
            part = self.positions[start : start + room]
            places = np.full(room, -1)
            places[: len(part)] = part
            total = step(torch.from_numpy(places), *head) + total
        return cuda.fetch_array(total)

    def _record(self, logits: IntegerLogits, clip: float) -> RecordedStep:
        rows, labels, none = self.rows, self.labels, np.zeros_like(logits.offset)

        def step(*given: Tensor) -> Array:
            positions, linear, factor = (one.to(rows.device) for one in given)  # where it is not recorded
            places = positions.clamp(min=0)
            sample = rows[places] * (positions >= 0)[:, None]
            head = IntegerLogits(linear, factor, none, logits.row_step)
            return clipped_gradient(sample, labels[places], head, clip).long()

        room = (len(self) * 9 // 8 // _SAMPLE_ROUND + 1) * _SAMPLE_ROUND
        blank = torch.full((room,), -1, device=rows.device)
        linear = place_beside(logits.linear, rows)
        return RecordedStep(rows, labels, room, cuda.record_graph(step, blank, linear, linear.new_ones(())))
