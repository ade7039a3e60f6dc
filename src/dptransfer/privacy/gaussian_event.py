"""Gaussian noise on a query's answer: about all rows, or about Poisson samples of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from dptransfer import _check
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.privacy.event import Event
from dptransfer.privacy.numbers import number
from dptransfer.privacy.relation import Relation
from dptransfer.privacy.unit import Unit

SMALLEST_NOISE_MULTIPLIER = 1 / 40
"""Below it `noise.lattice_epsilon` does not bound what integer noise costs: a neighbour is too far away."""

_SCALE_ROUNDING = 1e-9


class _GaussianNoise(Event):
    """What both kinds share."""

    noise_field: ClassVar[str] = "noise_multiplier"
    checks: ClassVar[_check.Checks] = {
        "noise_multiplier": _check.positive,
        "sensitivity": _check.positive,
        "numeric_epsilon": _check.non_negative,
        "numeric_delta": _check.probability,
        "times": _check.whole,
    }
    noise_multiplier: float
    sensitivity: float
    times: int

    @property
    def scale(self) -> float:
        """Standard deviation of the noise in the units of the answer."""
        return self.noise_multiplier * self.sensitivity

    def further(self, distance: float, lattice: float = 1) -> Self:
        """The noise stays, and the multiplier is what it is relative to the distance."""
        this: Any = self
        changed: Self = replace(
            this,
            sensitivity=distance * self.sensitivity,
            noise_multiplier=self.noise_multiplier / distance,
            numeric_epsilon=lattice * self.numeric_epsilon,
        )
        return changed

    def also_written(self) -> Mapping[str, Any]:
        """The scale too: whoever reads the file may look at it."""
        return {"scale": self.scale}

    @classmethod
    def read(cls, values: dict[str, Any], read_event: Callable[[Any], Event]) -> Event:
        """A stored `scale` must be the product of noise multiplier and sensitivity, to one part in 10⁹."""
        scale = values.pop("scale", None)
        event = cls(**values)
        if scale is not None and not math.isclose(
            _check.positive("scale", scale), event.scale, rel_tol=_SCALE_ROUNDING
        ):
            raise ArgumentError(
                f"scale must be noise_multiplier × sensitivity, {event.scale!r}; got {scale!r}. "
                "One of the three was changed after it was written."
            )
        return event


@dataclass(frozen=True)
class GaussianEvent(_GaussianNoise):
    """Gaussian noise of standard deviation `scale` on a query of L2 sensitivity `sensitivity`.

    With z the noise multiplier and T the number of times, the step is (√T/z)-GDP and T/(2z²)-zCDP, exactly;
    each of the T queries may depend on earlier answers.

    Attributes:
        noise_multiplier: scale ÷ sensitivity, of each release.
        relation: the neighbouring relation under which `sensitivity` holds.
        sensitivity: L2 sensitivity in the units of the answer.
        label: what was released, in words.
        numeric_epsilon: ε to add, for all releases together, because the noise that ran is an integer
            lattice's (see `noise.lattice_epsilon`).
        times: how many releases, each with this noise multiplier.
        numeric_delta: total variation distance, for all releases together, between the noise that ran and
            lattice noise whose tails are not cut.
        unit: what one neighbour has more, of which `sensitivity` bounds all that it contributes.
    """

    noise_multiplier: float
    relation: Relation
    sensitivity: float = 1.0
    label: str = ""
    numeric_epsilon: float = 0.0
    times: int = 1
    numeric_delta: float = 0.0
    unit: Unit = Unit.ROW
    kind: ClassVar[str] = "gaussian"
    later: ClassVar[Mapping[str, Any]] = {"times": 1, "numeric_delta": 0.0}

    def words(self, digits: int = 5) -> str:
        """The multiplier, and how often.

        >>> GaussianEvent(20.0, Relation.ADD_REMOVE, times=28).words()
        'noise multiplier 20, 28 times'
        """
        return f"noise multiplier {number(self.noise_multiplier, digits)}" + self._often()

    def table_row(self) -> tuple[str, str]:
        """Its law, and what the multiplier is of."""
        law = f"Gaussian noise, multiplier {number(self.noise_multiplier)}{self._often()}"
        return law, f"sensitivity {number(self.sensitivity)}, scale {number(self.scale)}"

    def _often(self) -> str:
        return f", {self.times} times" if self.times > 1 else ""


@dataclass(frozen=True)
class SampledGaussianEvent(_GaussianNoise):
    """A sum over a fresh Poisson sample of the rows, or persons, plus Gaussian noise, `times` times.

    Each time every row (person, where the unit is one) is in the sample with probability `sampling_rate`,
    independently of all others, and the query may depend on earlier answers.

    `sensitivity` is the largest L2 norm of what **one row contributes** to the sum, under either relation:
    what adding the row moves. So under replace-one it is not the distance between two neighbours, which is
    twice as large; the accounting knows that a row in the sample is replaced by another in the sample, and
    prices the pair exactly (`accounting.sampled`). For a query of ours it is
    `query.l2_sensitivity(Relation.ADD_REMOVE)`.

    Attributes:
        noise_multiplier: scale ÷ sensitivity, of each release.
        sampling_rate: the chance q, in (0, 1], of a row to be in a sample.
        times: how many releases, each on its own sample.
        relation: the neighbouring relation.
        sensitivity: largest L2 norm of one row's contribution, in the units of the answer.
        label: what was released, in words.
        numeric_epsilon: as for a `GaussianEvent`; under replace-one it must cover two answers that are
            2 · `sensitivity` apart.
        numeric_delta: as for a `GaussianEvent`.
        unit: what one neighbour has more, and what is in a sample or not.
    """

    noise_multiplier: float
    sampling_rate: float
    times: int
    relation: Relation
    sensitivity: float = 1.0
    label: str = ""
    numeric_epsilon: float = 0.0
    numeric_delta: float = 0.0
    unit: Unit = Unit.ROW
    kind: ClassVar[str] = "sampled-gaussian"
    checks: ClassVar[_check.Checks] = {**_GaussianNoise.checks, "sampling_rate": _check.rate}

    def words(self, digits: int = 5) -> str:
        """The multiplier, and the samples.

        >>> SampledGaussianEvent(1.1, 0.01, 500, Relation.ADD_REMOVE).words()
        'noise multiplier 1.1, 500 samples at rate 0.01'
        """
        samples = f"{self.times} sample{'s' * (self.times != 1)} at rate {number(self.sampling_rate, digits)}"
        return f"noise multiplier {number(self.noise_multiplier, digits)}, {samples}"

    def table_row(self) -> tuple[str, str]:
        """Its law, and what the multiplier is of."""
        law = f"Gaussian noise, multiplier {number(self.noise_multiplier)}, on {self.times} Poisson sample"
        law += f"{'s' * (self.times != 1)} at rate {number(self.sampling_rate)}"
        return (
            law,
            f"a {self.unit.value} contributes at most {number(self.sensitivity)}, scale {number(self.scale)}",
        )

    def under_replace_one(self) -> Self:
        """The numbers say what one row contributes, and stay; two answers may be twice as far apart."""
        return replace(self, relation=Relation.REPLACE_ONE, numeric_epsilon=2 * self.numeric_epsilon)

    def for_rows(self, relation: Relation) -> Self:
        """Refused: the pair that a row makes of two samples is another than the one that is priced."""
        raise RelationMismatch(
            "A step on samples of persons is not restated for single rows: a row more changes what its "
            "person contributes to a sample, which is not priced. Keep an account by person."
        )

    def of_group(self, size: int) -> Self:
        """A sample meets some of the group more often than one of them, and then perhaps all."""
        meets = 1.0
        if self.sampling_rate < 1:
            meets = min(1.0, -math.expm1(size * math.log1p(-self.sampling_rate)) * (1 + 1e-14))
        return replace(super().of_group(size), sampling_rate=meets)
