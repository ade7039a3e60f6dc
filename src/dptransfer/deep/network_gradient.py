"""The gradient of a network on pixels, summed over pictures, each one's part clipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dptransfer import _check
from dptransfer.arrays import AnyArray, Integers, Labels, People
from dptransfer.compute.people import by_size, scaled_down, whole_people
from dptransfer.deep.gradient_lattice import MOST_PARAMETERS, gradient_lattice, rows_at_a_time
from dptransfer.features.lattice import SUM_BITS
from dptransfer.privacy import Relation
from dptransfer.queries.base import BoundedQuery

Gradients = Callable[[Integers, Labels], Any]
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
                   pictures, is refused before the charge (`deep.neighbours`). That they do so on no others is
                   not proved; for GPUs see `tests/deep/test_neighbours.py`. From these floats on everything
                   is exact.
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
        _check.positive("clip", self.clip)

    @property
    def shape(self) -> tuple[int]:
        """(parameters,)."""
        return (self.parameters,)

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under add/remove, 2 under replace-one, for each example that a unit counts as."""
        return self.bound.examples * (1.0 if relation is Relation.ADD_REMOVE else 2.0)

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """The summed gradient in steps of clip·2⁻³⁰."""
        total: Any = 0
        for integers in self._integers(rows, labels):
            total = total + integers.sum(dim=0)
        return self._answer(total)

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """The summed gradient in steps of clip·2⁻³⁰, that of each person scaled down to the bound."""
        total: Any = 0
        step = max(self.micro_batch, min(8 * self.micro_batch, _SUMS // self.parameters))
        for persons in whole_people(by_size(people), step):
            sums: Any = None
            owners = np.repeat(np.arange(len(persons.sizes)), persons.sizes)
            start = 0
            for integers in self._integers(rows[persons.order], labels[persons.order]):
                if sums is None:
                    sums = integers.new_zeros((len(persons.sizes), self.parameters))
                own = sums.new_tensor(owners[start : start + len(integers)])
                sums.index_add_(0, own, integers)
                start += len(integers)
            most = self.bound.examples * self.grid
            total = total + scaled_down(sums, persons, float(self.grid), most).sum(dim=0)
        return self._answer(total)

    def _integers(self, rows: AnyArray, labels: Labels) -> Iterator[Any]:
        """Clipped gradients of these pictures, (some of a micro-batch, parameters), in their order."""
        assert self.gradients is not None, "a plan must not read pictures"
        for start in range(0, len(rows), self.micro_batch):
            positions = np.full(self.micro_batch, -1, dtype=np.int64)
            classes = np.zeros(self.micro_batch, dtype=np.int64)
            chosen = rows[start : start + self.micro_batch]
            positions[: len(chosen)], classes[: len(chosen)] = chosen, labels[start : start + len(chosen)]
            found = self.gradients(positions, classes)[: len(chosen)]
            for part in found.split(rows_at_a_time(found)):
                yield gradient_lattice(part, self.grid, clip=self.clip)

    def _answer(self, total: Any) -> Integers:
        if isinstance(total, int):
            return np.zeros(self.parameters, dtype=np.int64)
        answer: Integers = total.cpu().numpy()
        return answer
