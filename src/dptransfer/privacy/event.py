"""Descriptions of noisy steps, as plain frozen data.

An event says what happened in enough detail to compute its privacy loss, and nothing else: no data, no
budget, no behaviour beyond unit conversions. The meaning of a field never changes once released, because
old releases are verified by recomputing their guarantee from recorded events.

Two fields say how the noise that runs differs from the ideal one. `numeric_epsilon` bounds a likelihood
ratio (the noise lives on integers), `numeric_delta` a total variation distance (a sampler cuts the far tails
off); `accounting.compose` says what either costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from dptransfer import _check
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.privacy.relation import Relation
from dptransfer.privacy.unit import Unit

SMALLEST_NOISE_MULTIPLIER = 1 / 40
"""Below it `noise.lattice_epsilon` does not bound what integer noise costs: a neighbour is too far away."""


@dataclass(frozen=True)
class GaussianEvent:
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

    def __post_init__(self) -> None:
        """Refuse what would void the accounting."""
        _check_noise(self)

    @property
    def scale(self) -> float:
        """Standard deviation of the noise in the units of the answer."""
        return self.noise_multiplier * self.sensitivity


@dataclass(frozen=True)
class SelectionEvent:
    """A choice among public candidates that is `epsilon`-DP as a whole.

    The choices for all declared classes together are one event: an example has one label, so it moves the
    scores of one class (add/remove), or of at most two (replace-one); `epsilon` already says which.

    Attributes:
        epsilon: pure ε of the whole step under `relation`.
        relation: the neighbouring relation.
        bounded_range: whether the privacy loss also lies in an interval of length `epsilon`, which makes
            the step (ε²/8)-zCDP. True of the exponential mechanism, not of permute-and-flip or Laplace.
        mechanism: its name.
        label: what was chosen, in words.
        unit: what one neighbour has more.
    """

    epsilon: float
    relation: Relation
    bounded_range: bool
    mechanism: str
    label: str = ""
    unit: Unit = Unit.ROW
    kind: ClassVar[str] = "selection"

    def __post_init__(self) -> None:
        """Refuse what would void the accounting."""
        object.__setattr__(self, "epsilon", _check.positive("epsilon", self.epsilon))
        _check_neighbours(self)
        if not isinstance(self.bounded_range, bool):  # "False" is true, and would cost privacy
            raise ArgumentError(f"bounded_range must be True or False; got {self.bounded_range!r}.")


@dataclass(frozen=True)
class SampledGaussianEvent:
    """A sum over a fresh Poisson sample of the rows plus Gaussian noise, `times` times.

    Each time every row is in the sample with probability `sampling_rate`, independently of all others, and
    the query may depend on earlier answers.

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

    def __post_init__(self) -> None:
        """Refuse what would void the accounting."""
        rate = _check.positive("sampling_rate", self.sampling_rate)
        if rate > 1:
            raise ArgumentError(f"sampling_rate must lie in (0, 1]; got {rate!r}.")
        object.__setattr__(self, "sampling_rate", rate)
        _check_noise(self)

    @property
    def scale(self) -> float:
        """Standard deviation of the noise in the units of the answer."""
        return self.noise_multiplier * self.sensitivity


@dataclass(frozen=True)
class BestOfManyEvent:
    """Private tuning: a random number of trials, of which only the best is released.

    Each trial runs one candidate, drawn uniformly, and yields a result with a score; the result of highest
    score is released with its candidate, and everything else is forgotten, the number of trials included. A
    candidate's events cover its whole trial, **the score too** where that is computed from private rows.

    Attributes:
        candidates: for each candidate, the events of one trial.
        mean_trials: the expected number of trials, at least 1.
        shape: the law of the number of trials: a truncated negative binomial of this shape (above −1; 1 is
            geometric, 0 logarithmic), or Poisson when it is infinite, where no trial at all may happen.
        label: what was chosen, in words.
    """

    candidates: tuple[tuple[Event, ...], ...]
    mean_trials: float
    shape: float
    label: str = ""
    kind: ClassVar[str] = "best-of-many"

    def __post_init__(self) -> None:
        """Refuse what would void the accounting."""
        try:
            candidates = tuple(tuple(events) for events in self.candidates)
        except TypeError:
            candidates = ()
        if not candidates or not all(candidates):
            raise ArgumentError(
                "candidates must hold the events of at least one candidate, and each at least one event; "
                f"got {self.candidates!r}."
            )
        same_relation(event for events in candidates for event in events)
        object.__setattr__(self, "candidates", candidates)
        mean = _check.positive("mean_trials", self.mean_trials)
        if mean < 1:
            raise ArgumentError(f"mean_trials must be at least 1; got {mean!r}.")
        object.__setattr__(self, "mean_trials", mean)
        shape = self.shape
        if isinstance(shape, bool) or not isinstance(shape, int | float) or not shape > -1:
            raise ArgumentError(f"shape must be a number above -1, or infinity for Poisson; got {shape!r}.")
        object.__setattr__(self, "shape", float(shape))

    @property
    def relation(self) -> Relation:
        """The relation all candidates share."""
        return self.candidates[0][0].relation

    @property
    def unit(self) -> Unit:
        """The unit all candidates share."""
        return self.candidates[0][0].unit


Event: TypeAlias = GaussianEvent | SelectionEvent | SampledGaussianEvent | BestOfManyEvent


def same_relation(events: Iterable[Event]) -> Relation:
    """The relation all events share; mixing relations raises, and so does mixing units."""
    events = tuple(events)
    found = {event.relation for event in events}
    if len(found) != 1:
        names = " and ".join(sorted(relation.value for relation in found)) or "no events at all"
        raise RelationMismatch(
            f"Events must share one neighbouring relation; got {names}. "
            "Re-plan the mechanisms under a single relation."
        )
    same_unit(events)
    return found.pop()


def same_unit(events: Iterable[Event]) -> Unit:
    """The unit all events share; mixing units raises."""
    found = {event.unit for event in events}
    if len(found) != 1:
        names = " and ".join(sorted(unit.value for unit in found)) or "no events at all"
        raise RelationMismatch(
            f"Events must protect one unit; got {names}. Ask all queries for the unit of the data."
        )
    return found.pop()


def numeric_epsilon_of(event: Event) -> float:
    """What the lattice costs in one event; a tuned step pays it inside each trial."""
    return event.numeric_epsilon if isinstance(event, GaussianEvent | SampledGaussianEvent) else 0.0


def numeric_delta_of(event: Event) -> float:
    """Total variation distance between what one event ran and the same without cut tails.

    Trials of a tuned step add up, on average over their number, and the worst candidate counts.
    """
    if isinstance(event, GaussianEvent | SampledGaussianEvent):
        return event.numeric_delta
    if isinstance(event, BestOfManyEvent):
        worst = max(math.fsum(map(numeric_delta_of, trial)) for trial in event.candidates)
        return min(1.0, event.mean_trials * worst * (1 + 1e-12))
    return 0.0


def _check_noise(event: GaussianEvent | SampledGaussianEvent) -> None:
    for name, check in (
        ("noise_multiplier", _check.positive),
        ("sensitivity", _check.positive),
        ("numeric_epsilon", _check.non_negative),
        ("numeric_delta", _check.probability),
        ("times", _check.whole),
    ):
        object.__setattr__(event, name, check(name, getattr(event, name)))  # NumPy's become Python's
    _check_neighbours(event)


def _check_neighbours(event: GaussianEvent | SampledGaussianEvent | SelectionEvent) -> None:
    if not isinstance(event.relation, Relation):
        raise ArgumentError(
            f"relation must be a Relation; got {event.relation!r}. For example: Relation.ADD_REMOVE."
        )
    if not isinstance(event.unit, Unit):
        raise ArgumentError(f"unit must be a Unit; got {event.unit!r}. For example: Unit.ROW.")
