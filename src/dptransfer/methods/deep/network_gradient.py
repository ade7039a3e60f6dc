"""The clipped gradient of a network on images, summed exactly.

The same steps as `features.lattice`, for rows of millions of coordinates on any device:

1. a row with a NaN or an infinity becomes zeros, and so does one whose largest entry is below 2⁻⁸⁰: no
   training sees such a gradient, and what of it is subnormal would depend on a flag of the processor;
2. the row is scaled by a power of two, so that its largest entry has b bits before the point, with
   P · 2²ᵇ ≤ 2⁶² for P coordinates;
3. its norm is bounded from above in integers: coordinates, less a grain (2⁻¹⁰), are rounded away from zero,
   and their squares add up to at most 2⁶², exactly, in int64 and in any order. To the root the norm of two
   grains per coordinate is added (one for the grain, one for what its subtraction rounded), and the whole is
   taken a hair (2⁻⁴⁰) large, which is more than conversion, root, sum and product round off together;
4. the row is multiplied by `norm` ÷ max(bound, clip) in float64 and rounded toward zero.

So ‖q‖ ≤ `norm` in exact arithmetic: with a ≥ ‖x‖(1 + 2⁻⁴¹) the float product x·(norm/a) is off by at most
a factor 1 + 2⁻⁵⁰, and |trunc(v)| ≤ |v|. Every step is elementwise and correctly rounded, or an exact integer
sum: the integers are a function of the row's floats alone, the same on CPUs and NVIDIA GPUs.

How much is lost to step 3 is at most √P · 2⁻ᵇ⁺¹ of the norm: for a million coordinates 0.05 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, TypeAlias

import numpy as np

from dptransfer.base import checks
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, Integers, Labels, People, Tensor
from dptransfer.exact.cuda import square_root
from dptransfer.exact.lattice import GRAIN, HAIR, SUM_BITS, grains
from dptransfer.exact.sums import Groups, by_size, scaled_down, whole_people
from dptransfer.privacy import Relation
from dptransfer.queries.query import BoundedQuery

MOST_PARAMETERS = 2**23
"""How many coordinates a gradient may have: b is 19 then, and rounding costs at most 1 % of the norm."""

_SMALLEST = 2.0**-80
_ON_DEVICE = 2**20  # elements that are held as float64 and as int64
_IN_CACHE = 2**17  # the same on a CPU


def rows_at_a_time(gradients: Tensor) -> int:
    """How many rows to map together: few take little memory, and fewer more time."""
    most = _ON_DEVICE if gradients.is_cuda else _IN_CACHE
    return max(1, most // max(1, int(gradients.shape[1])))


def gradient_lattice(gradients: Tensor, norm: int, *, clip: float) -> Tensor:
    """Clip each row to L2 norm `clip`, then map that ball onto the integer ball of radius `norm`.

    Args:
        gradients: (examples, parameters) floats on any device.
        norm: of the integers, at most.
        clip: of the floats.

    >>> import torch
    >>> gradient_lattice(torch.tensor([[3.0, 4.0], [0.3, 0.4], [math.inf, 0.0]]), 1000, clip=1.0)
    tensor([[599, 799],
            [300, 400],
            [  0,   0]])
    """
    parameters = gradients.shape[1]
    largest = torch.linalg.vector_norm(gradients, ord=math.inf, dim=1)
    usable = (largest >= _SMALLEST) & (largest < math.inf)  # a NaN is neither
    if gradients.is_cuda or not usable.all():  # a GPU would have to be waited for
        gradients = torch.where(usable[:, None], gradients, 0.0)
    exponent = torch.frexp(torch.where(usable, largest, 1.0))[1].long()
    power = _power_of_two(coordinate_bits(parameters) - exponent)
    x = gradients * power[:, None]  # float64, and exact
    units = x.abs().sub_(GRAIN).ceil_().long()
    squares = units.mul_(units).sum(dim=1)
    above = (square_root(squares.double()) + grains(parameters)) * HAIR
    above = torch.maximum(above, clip * HAIR * power)
    return x.mul_((float(norm) / above)[:, None]).long()  # toward zero


def coordinate_bits(parameters: int) -> int:
    """How many bits b a coordinate may have: the squares of P of them add up to at most P·2²ᵇ ≤ 2⁶².

    >>> coordinate_bits(55_000)
    23
    """
    return (62 - math.ceil(math.log2(parameters))) // 2


def _power_of_two(exponents: Tensor) -> Tensor:
    """2**exponent as float64, made of its bits: a library's power need not be exact."""
    return ((exponents + 1023) << 52).view(torch.float64)


Gradients: TypeAlias = "Callable[[Integers, Labels], Tensor]"
"""From positions of pictures, and their classes, to a tensor (pictures, parameters); −1 is a blank."""

_SUMS = 2**27  # most integers that are held for persons at a time, where a micro-batch holds no more


@dataclass(frozen=True, eq=False)
class NetworkGradient(BoundedQuery):
    """Σ over pictures of the clipped gradient of each one's own loss in all trained parameters.

    The rows of this query are positions of pictures. A question is asked of as many pictures as a sample has,
    in micro-batches of one fixed size, the last one filled up with blanks whose gradients are dropped: exact
    integer sums over micro-batches are gradient accumulation, and an empty sample is an answer of zeros.

    Releases:      one vector of `parameters` coordinates, in units of `clip`.
    Guarantee:     with GaussianRounds at noise multiplier z, GaussianEvent(z), or SampledGaussianEvent.
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2, in units of `clip`. A picture's gradient becomes integers of norm at most 2³⁰ steps
                   (`deep.gradient_lattice`), the clip. Add/remove: 1. Replace: 2. Persons: the sum of one's
                   integers is scaled to a norm of at most bound·2³⁰ (`compute.people`), so bound and 2·bound.
    Assumes:       a picture's gradient in floats is a function of that picture, its label, θ and the size of
                   a micro-batch, and not of the other pictures in it. Networks
                   that are not known to keep pictures apart, layer by layer, run on each picture by itself
                   (`encoders.per_example`). Kernels are deterministic, and a network whose gradients differ
                   in a bit from slot to slot, on the CPU and threads that it runs on, for noise and extreme
                   pictures, is refused before the charge (`methods.deep.cross_example_check`). That they do
                   so on no others is not proved; for GPUs see
                   `tests/methods/deep/test_cross_example_check.py`. From these floats on everything is exact.
    Reference:     Abadi et al. (2016); De et al. (2022) for several views inside of one clip.

    Attributes:
        parameters: how many coordinates a gradient has.
        gradients: gives those of one micro-batch; None in a plan, which asks nothing.
        micro_batch: how many pictures are computed together.
        clip: norm that a picture's gradient is clipped to.
    """

    parameters: int = MOST_PARAMETERS
    gradients: Gradients | None = None
    micro_batch: int = 32
    clip: float = 1.0

    label: ClassVar[str] = "gradient of a network"
    grid: ClassVar[int] = 2**SUM_BITS

    def __post_init__(self) -> None:
        """Refuse a clip that is none."""
        checks.positive("clip", self.clip)

    @property
    def shape(self) -> tuple[int]:
        """(parameters,)."""
        return (self.parameters,)

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under add/remove, 2 under replace-one, for each example that a unit counts as."""
        return self.bound.examples * (1.0 if relation is Relation.ADD_REMOVE else 2.0)

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """The summed gradient in steps of clip·2⁻³⁰."""
        return self._total(integers.sum(dim=0) for integers in self._integers(rows, labels))

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """The summed gradient in steps of clip·2⁻³⁰, that of each person scaled down to the bound."""
        most = self.bound.examples * self.grid
        step = max(self.micro_batch, min(8 * self.micro_batch, _SUMS // self.parameters))

        def of_several(persons: Groups) -> Tensor:
            owners = np.repeat(np.arange(len(persons.sizes)), persons.sizes)
            parts = self._integers(rows[persons.order], labels[persons.order])
            first, start = next(parts), 0
            sums = first.new_zeros((len(persons.sizes), self.parameters))
            for integers in chain([first], parts):
                own = sums.new_tensor(owners[start : start + len(integers)])
                sums.index_add_(0, own, integers)
                start += len(integers)
            return scaled_down(sums, persons, float(self.grid), most).sum(dim=0)

        return self._total(map(of_several, whole_people(by_size(people), step)))

    def _integers(self, rows: AnyArray, labels: Labels) -> Iterator[Tensor]:
        """Clipped gradients of these pictures, (some of a micro-batch, parameters), in their order."""
        assert self.gradients is not None, "a plan must not read pictures"
        for start in range(0, len(rows), self.micro_batch):
            positions = np.full(self.micro_batch, -1, dtype=np.int64)
            classes, chosen = np.zeros_like(positions), rows[start : start + self.micro_batch]
            positions[: len(chosen)], classes[: len(chosen)] = chosen, labels[start : start + len(chosen)]
            found = self.gradients(positions, classes)[: len(chosen)]
            for part in torch.split(found, rows_at_a_time(found)):
                yield gradient_lattice(part, self.grid, clip=self.clip)

    def _total(self, parts: Iterator[Tensor]) -> Integers:
        """The sum, where the parts are, and zeros of none."""
        nothing = np.zeros(self.parameters, dtype=np.int64)
        first = next(parts, None)
        return nothing if first is None else sum(parts, first).cpu().numpy()
