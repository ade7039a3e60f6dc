"""The kinds of noisy steps: Gaussian, selection, best of many trials, and steps on disjoint parts."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from dptransfer.base import checks
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.privacy.event import Event, event_to_dict, same_relation
from dptransfer.privacy.numbers import number, rounded_up
from dptransfer.privacy.relation import Relation, Unit

SMALLEST_NOISE_MULTIPLIER = 1 / 40
"""Below it `noise.lattice_epsilon` does not bound what integer noise costs: a neighbour is too far away."""

_SCALE_ROUNDING = 1e-9


class _GaussianNoise(Event):
    """Base of Gaussian steps, sampled or not."""

    noise_field: ClassVar[str] = "noise_multiplier"
    field_checks: ClassVar[checks.Checks] = {
        "noise_multiplier": checks.positive,
        "sensitivity": checks.positive,
        "numeric_epsilon": checks.non_negative,
        "numeric_delta": checks.probability,
        "times": checks.whole,
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
        sensitivity, multiplier = distance * self.sensitivity, self.noise_multiplier / distance
        slack = lattice * self.numeric_epsilon
        return replace(self, sensitivity=sensitivity, noise_multiplier=multiplier, numeric_epsilon=slack)

    def also_written(self) -> Mapping[str, object]:
        """The scale, for readers of the file."""
        return {"scale": self.scale}

    @classmethod
    def read(cls, values: dict[str, Any], read_event: Callable[[dict[str, Any]], Event]) -> Event:
        """A stored `scale` must be the product of noise multiplier and sensitivity, to one part in 10⁹."""
        scale = values.pop("scale", None)
        event = cls(**values)
        if scale is not None and not math.isclose(
            checks.positive("scale", scale), event.scale, rel_tol=_SCALE_ROUNDING
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
    later: ClassVar[Mapping[str, object]] = {"times": 1, "numeric_delta": 0.0}

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
    field_checks: ClassVar[checks.Checks] = {**_GaussianNoise.field_checks, "sampling_rate": checks.rate}

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
        most = f"a {self.unit.value} contributes at most {number(self.sensitivity)}"
        return law, f"{most}, scale {number(self.scale)}"

    def under_replace_one(self) -> Self:
        """The numbers say what one row contributes, and stay; two answers may be twice as far apart."""
        return replace(self, relation=Relation.REPLACE_ONE, numeric_epsilon=2 * self.numeric_epsilon)

    def for_rows(self, relation: Relation) -> Self:
        """Refused: the pair that a row makes of two samples is another than the one that is priced."""
        raise RelationMismatch(
            "Steps on samples of persons are not restated for single rows. Keep an account by person."
        )

    def of_group(self, size: int) -> Self:
        """A sample meets some of the group more often than one of them, and then perhaps all."""
        meets = 1.0
        if self.sampling_rate < 1:
            meets = min(1.0, -math.expm1(size * math.log1p(-self.sampling_rate)) * (1 + 1e-14))
        return replace(super().of_group(size), sampling_rate=meets)


@dataclass(frozen=True)
class SelectionEvent(Event):
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
    noise_field: ClassVar[str] = "epsilon"
    field_checks: ClassVar[checks.Checks] = {"epsilon": checks.positive}
    # The word "False" is true, which would cost privacy.
    field_types: ClassVar[Mapping[str, type]] = {**Event.field_types, "bounded_range": bool, "mechanism": str}

    def words(self, digits: int = 5) -> str:
        """Its ε.

        >>> SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential").words()
        'epsilon 0.5'
        """
        return f"epsilon {number(self.epsilon, digits)}"

    def table_row(self) -> tuple[str, str]:
        """Mechanism and ε, and what is known of the loss."""
        detail = "bounded range" if self.bounded_range else "pure ε"
        return f"{self.mechanism}, ε = {rounded_up(self.epsilon)}", detail

    def further(self, distance: float, lattice: float = 1) -> Self:
        """Multiply ε by the distance."""
        return replace(self, epsilon=distance * self.epsilon)


class _NestedEvent(Event):
    """Events in groups: candidates of a search, or parts of the data; it changes as each of them does."""

    groups_field: ClassVar[str]

    def _settle(self) -> None:
        """Make the groups tuples, and take relation and unit from what is in them."""
        try:
            groups = tuple(tuple(events) for events in getattr(self, self.groups_field))
        except TypeError:
            groups = ()
        inner = [one for events in groups for one in events]
        if not inner or not all(isinstance(one, Event) for one in inner):
            name = self.groups_field
            raise ArgumentError(f"{name} must hold groups of events; got {getattr(self, name)!r}.")
        settled = {self.groups_field: groups, "relation": same_relation(inner), "unit": inner[0].unit}
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def inner(self) -> tuple[tuple[Event, ...], ...]:
        """Its groups."""
        groups: tuple[tuple[Event, ...], ...] = getattr(self, self.groups_field)
        return groups

    def further(self, distance: float, lattice: float = 1) -> Self:
        """Every step of every group."""
        return self._each(lambda one: one.further(distance, lattice))

    def under_replace_one(self) -> Self:
        """Every step of every group: of parts too, since a unit and its successor have one coin."""
        return self._each(lambda one: one.under_replace_one())

    def of_group(self, size: int) -> Self:
        """Every step of every group."""
        return self._each(lambda one: one.of_group(size))

    def for_rows(self, relation: Relation) -> Self:
        """Every step of every group."""
        return self._each(lambda one: one.for_rows(relation))

    def for_people(self, most_rows: int) -> Self:
        """Every step of every group."""
        return self._each(lambda one: one.for_people(most_rows))

    def also_written(self) -> Mapping[str, object]:
        """Groups as JSON."""
        return {self.groups_field: [[event_to_dict(one) for one in events] for events in self.inner()]}

    @classmethod
    def read(cls, values: dict[str, Any], read_event: Callable[[dict[str, Any]], Event]) -> Event:
        """Its relation and unit must be those of its inner events."""
        relation, unit = values.pop("relation"), values.pop("unit")
        groups = tuple(tuple(read_event(one) for one in events) for events in values.pop(cls.groups_field))
        event = cls(**{cls.groups_field: groups}, **values)
        if (event.relation, event.unit) != (relation, unit):
            raise ArgumentError(f"its relation or unit is not that of its {cls.groups_field}")
        return event

    def _each(self, change: Callable[[Event], Event]) -> Self:
        groups = tuple(tuple(map(change, events)) for events in self.inner())
        return replace(self, **{self.groups_field: groups})


_LAWS = {0.0: "logarithmic", 1.0: "geometric", math.inf: "Poisson"}
_POISSON = "poisson"  # JSON has no infinity
_MOST_SHOWN = 5  # candidates in a table's row


@dataclass(frozen=True)
class BestOfManyEvent(_NestedEvent):
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
        relation: that of all candidates.
        unit: that of all candidates.
        numeric_delta: trials add up, on average over their number, and the worst candidate counts. What the
            lattice costs is paid inside each trial.
    """

    candidates: tuple[tuple[Event, ...], ...]
    mean_trials: float
    shape: float
    label: str = ""
    relation: Relation = field(init=False)
    unit: Unit = field(init=False)
    numeric_delta: float = field(init=False, repr=False, compare=False)
    kind: ClassVar[str] = "best-of-many"
    groups_field: ClassVar[str] = "candidates"
    field_checks: ClassVar[checks.Checks] = {"mean_trials": checks.positive}

    def __post_init__(self) -> None:
        """Refuse what is no fixed list of trials with a law of their number."""
        self._settle()
        if not all(self.candidates):
            raise ArgumentError(f"Every candidate must have an event; got {self.candidates!r}.")
        super().__post_init__()
        if self.mean_trials < 1:
            raise ArgumentError(f"mean_trials must be at least 1; got {self.mean_trials!r}.")
        shape = self.shape
        known = isinstance(shape, int | float) and not isinstance(shape, bool)
        if not known or not (-1 < shape <= sys.float_info.max or shape == math.inf):
            raise ArgumentError(f"shape must be a number above -1, or infinity for Poisson; got {shape!r}.")
        object.__setattr__(self, "shape", float(shape))
        worst = max(math.fsum(one.numeric_delta for one in events) for events in self.candidates)
        object.__setattr__(self, "numeric_delta", min(1.0, self.mean_trials * worst * (1 + 1e-12)))

    @property
    def law(self) -> str:
        """That of the number of trials, in words."""
        return _LAWS.get(self.shape, f"negative binomial, shape {number(self.shape)}")

    def words(self, digits: int = 5) -> str:
        """How many trials, of how many candidates."""
        count = len(self.candidates)
        tried = f"{count} candidate{'s' * (count != 1)}"
        return f"best of about {number(self.mean_trials, digits)} trials ({self.law}) of {tried}"

    def table_row(self) -> tuple[str, str]:
        """The law of the trials, and what the first candidates do in one of them."""
        trials = [" and ".join(one.words() for one in trial) for trial in self.candidates]
        shown = [f"({n}) {words}" for n, words in enumerate(trials[:_MOST_SHOWN], start=1)]
        more = len(trials) - len(shown)
        return self.words(6), "; ".join(shown) + (f"; and {more} more" if more else "")

    def trials(self) -> tuple[tuple[Event, ...], ...]:
        """Those of its candidates."""
        return self.candidates

    def also_written(self) -> Mapping[str, object]:
        """Candidates as JSON, and a name for infinity."""
        return {**super().also_written(), "shape": _POISSON if math.isinf(self.shape) else self.shape}

    @classmethod
    def read(cls, values: dict[str, Any], read_event: Callable[[dict[str, Any]], Event]) -> Event:
        """Read the name that infinity has in JSON."""
        shape = values["shape"]
        if isinstance(shape, float) and math.isinf(shape):
            raise ArgumentError(f"an infinite shape is written {_POISSON!r}")
        return super().read({**values, "shape": math.inf if shape == _POISSON else shape}, read_event)


@dataclass(frozen=True)
class DisjointEvent(_NestedEvent):
    """Every unit is in exactly one part, by a coin of its own; the steps of a part see that part alone.

    The coins are independent of each other and of what the units are: the part of a unit is drawn, and never
    follows from its contents or its id.

    **Why the dearer part is the price.** Write two neighbours next to each other and pair their units: each
    with itself, and under replace-one the replaced unit with its successor. (Under add/remove one unit has no
    partner; so has one under replace-one whose partner is a person without any row.) The law of the answers
    on either data set is a mixture over assignments of parts to its units, with product weights. So it does
    not matter in which order units are numbered and coins are drawn, a coin that nobody uses changes nothing,
    and the assignment that gives both of a pair the same part has the same weight on both sides. Let P and Q
    be the two laws, and P_c and Q_c the same given one such assignment c to all pairs. With c given, the
    units that differ are in one part, say i. The steps of every other part see the same units in both; they
    may use earlier answers, which the outcome holds already. So P_c and Q_c are as far apart as the steps of
    part i make them: their hockey-stick divergence H_ε is at most δ_i(ε). H_ε is jointly convex, so for every
    ε

        H_ε(P‖Q) ≤ E_c H_ε(P_c‖Q_c) ≤ max_i δ_i(ε),

    and likewise with P and Q exchanged. Beside other steps, and other events of this kind with coins of their
    own, c holds the coins of all of them: what counts is the worst over all choices of one part per event, of
    everything else composed with the chosen parts (`accounting.steps`). The same holds for Rényi
    divergences, of which e^((α−1)r) is jointly convex. It does not hold for trade-off curves point by point:
    the larger of two of them need not be concave, and a mixture reaches its concave hull.

    **Where a neighbour may touch several parts** there is one part that holds all steps, and all are paid:
    for a group of units, each with a coin of its own, and for a row that goes from one person to another.

    Attributes:
        parts: the steps of each part; one part may have none.
        label: what is kept apart, in words.
        relation: that of all steps.
        unit: that of all steps, and what a coin is thrown for.
        numeric_epsilon: that of the part where it is largest.
        numeric_delta: likewise.
    """

    parts: tuple[tuple[Event, ...], ...]
    label: str = ""
    relation: Relation = field(init=False)
    unit: Unit = field(init=False)
    numeric_epsilon: float = field(init=False, repr=False, compare=False)
    numeric_delta: float = field(init=False, repr=False, compare=False)
    kind: ClassVar[str] = "disjoint"
    groups_field: ClassVar[str] = "parts"
    field_checks: ClassVar[checks.Checks] = {}

    def __post_init__(self) -> None:
        """Refuse what has no steps."""
        self._settle()
        super().__post_init__()
        for name in ("numeric_epsilon", "numeric_delta"):
            most = max(math.fsum(getattr(one, name) for one in steps) for steps in self.parts)
            object.__setattr__(self, name, most)

    def words(self, digits: int = 5) -> str:
        """What each part has.

        >>> from dptransfer.privacy.events import GaussianEvent
        >>> fit, check = (GaussianEvent(z, Relation.ADD_REMOVE) for z in (4.0, 8.0))
        >>> DisjointEvent(((fit,), (check,))).words()
        'one of 2 parts: (1) noise multiplier 4; (2) noise multiplier 8'
        """
        return f"{self._of_parts()}: {self._listed(lambda one: one.words(digits))}"

    def table_row(self) -> tuple[str, str]:
        """That a unit is in one part alone, and what each part has."""

        def said(one: Event) -> str:
            return f"{one.label}: {one.words(6)}" if one.label else one.words(6)

        return self._of_parts(), self._listed(said)

    def of_group(self, size: int) -> Self:
        """Every step, and all are paid where the group may be in several parts."""
        return self if size == 1 else self._all_paid(lambda one: one.of_group(size))

    def for_rows(self, relation: Relation) -> Self:
        """Every step; a row that goes from one person to another may be in two parts, and all are paid."""
        if relation is Relation.ADD_REMOVE:
            return self._each(lambda one: one.for_rows(relation))
        return self._all_paid(lambda one: one.for_rows(relation))

    def for_people(self, most_rows: int) -> Self:
        """Every step; the rows of a person may be in several parts, and all are paid."""
        change = self._each if most_rows == 1 else self._all_paid
        return change(lambda one: one.for_people(most_rows))

    def _of_parts(self) -> str:
        return "one of " + f"{len(self.parts)} parts" if len(self.parts) > 1 else "all parts"

    def _listed(self, said: Callable[[Event], str]) -> str:
        parts = [" and ".join(map(said, steps)) or "nothing" for steps in self.parts]
        numbered = [f"({place}) {steps}" for place, steps in enumerate(parts, start=1)]
        return "; ".join(numbered if len(parts) > 1 else parts)

    def _all_paid(self, change: Callable[[Event], Event]) -> Self:
        return replace(self, parts=(tuple(change(one) for steps in self.parts for one in steps),))
