"""Evaluate a classifier on private rows: released noisy counts, and figures with confidence intervals.

The figures are functions of noisy histograms that were released. They may be published like the classifier
itself, and the counts travel with it. All of it is post-processing: nothing here has seen a private row.

**Intervals.** Units (examples or persons) are drawn at random from those that the classifier will meet;
`right` and `wrong` are what they count in two sets of cells, plus noise. With θ = E right ÷ E(right + wrong),
the number D(θ) = right − θ·(right + wrong) has mean 0 and a variance of

    bound · θ(1 − θ) · E(right + wrong)  +  (1 − θ)² · noise(right) + θ² · noise(wrong)

at most. For examples (bound 1) the first term is that of a binomial count. For persons, let one count r right
of m in all, so that 0 ≤ r ≤ m ≤ bound. As a function of r, (r − θm)² is convex, so it lies below its chord,
r·m(1 − θ)² + (m − r)·m·θ². With m ≤ bound for one of the factors, and E r = θ E m over all persons, its mean
is at most bound · E m · θ(1 − θ); persons whose examples are all right or all wrong reach it. The 95 %
interval is the set of θ with D(θ)² ≤ Z² times that variance, a quadratic inequality (Wilson's, with noise;
Fieller's, without sampling). Where noise alone could have made up the count, nothing can be said: the
interval is (0, 1).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from types import UnionType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from dptransfer.base.types import Floats, JsonObject
from dptransfer.errors import ArgumentError
from dptransfer.exact import evaluation_layout
from dptransfer.privacy import EACH_ROW, Bound, DisjointEvent, Event, Guarantee, Unit
from dptransfer.privacy.event import event_from_dict, event_to_dict

if TYPE_CHECKING:
    from dptransfer.release.calibration import Calibration
    from dptransfer.release.classifier import PrivateClassifier
    from dptransfer.release.evaluation import Evaluation

Z = 2.05
"""Intervals reach so many standard deviations to either side: 96 % of a normal law where 95 % are promised,
as the variances come from noisy counts too."""

_LEAST = 3  # standard deviations of its noise that a total must have for a share to be told


@dataclass(frozen=True)
class Noisy:
    """A count with noise.

    Attributes:
        count: what was counted, plus noise.
        variance: of the noise.
    """

    count: float
    variance: float

    def __add__(self, other: Noisy) -> Noisy:
        return Noisy(self.count + other.count, self.variance + other.variance)


class Estimate(NamedTuple):
    """A share with its 95 % interval.

    Attributes:
        value: the share; None where nothing can be said, and the interval is then (0, 1).
        low: lower end.
        high: upper end.
    """

    value: float | None
    low: float
    high: float

    @property
    def is_narrow(self) -> bool:
        """Whether there is a share, and its interval is at most 40 points wide.

        >>> Estimate(0.6, 0.4, 0.8).is_narrow, Estimate(0.692, 0.047, 1.0).is_narrow
        (True, False)
        """
        return self.value is not None and self.high - self.low <= _WIDEST

    @property
    def percent(self) -> str:
        """The share with its interval, as it is shown.

        >>> Estimate(0.5, 0.25, 0.75).percent
        '50.0% (25.0% to 75.0%)'
        """
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"

    @property
    def words(self) -> str:
        """The same; words in the place of a share whose interval says nothing."""
        return self.percent if self.is_narrow else TOO_NOISY


TOO_NOISY = "too few test rows for this budget"
"""Said in the place of a share whose interval says nothing."""
_WIDEST = 0.4 + 1e-9
NOTHING = Estimate(None, 0.0, 1.0)


def pool_counts(*counts: Noisy) -> Noisy:
    """What several independent counts of the same thing say together: least squares.

    >>> pool_counts(Noisy(10.0, 1.0), Noisy(13.0, 2.0))
    Noisy(count=11.0, variance=0.6666666666666666)
    """
    precision = math.fsum(1 / own.variance for own in counts)
    return Noisy(math.fsum(own.count / own.variance for own in counts) / precision, 1 / precision)


def share(right: Noisy, wrong: Noisy, bound: float = 1.0) -> Estimate:
    """Right ÷ (right + wrong) with its interval; the derivation is at the top of this file.

    >>> [round(end, 4) for end in share(Noisy(8, 0), Noisy(2, 0))]  # Wilson's: there is no noise
    [0.8, 0.4762, 0.9462]
    >>> share(Noisy(8, 100), Noisy(2, 100))
    Estimate(value=None, low=0.0, high=1.0)
    """
    total = right.count + wrong.count
    if total <= 0:
        return NOTHING
    # A share lies in 0..1, and for these θ a count that is brought there too is nearer to θ·total.
    hits = min(max(right.count, 0.0), total)
    # θ²·square + θ·linear + constant ≤ 0
    sampled, z2 = bound * total, Z**2
    square = total**2 + z2 * (sampled - right.variance - wrong.variance)
    linear = -2 * hits * total - z2 * (sampled - 2 * right.variance)
    constant = hits**2 - z2 * right.variance
    if square <= 0:
        return NOTHING
    reach = math.sqrt(max(0.0, linear**2 - 4 * square * constant))
    low, high = ((-linear + sign * reach) / (2 * square) for sign in (-1, 1))
    value = hits / total
    low, high = max(0.0, min(low, value)), min(1.0, max(high, value))
    return NOTHING if (low, high) == (0.0, 1.0) else Estimate(value, low, high)


def mean_share(parts: Sequence[tuple[Noisy, Noisy]], bound: float = 1.0) -> Estimate:
    """The mean of the shares of (right, wrong) pairs; its interval holds whatever the small ones are.

    A pair whose total is less than three standard deviations of its noise may have any share: the interval
    allows for it, and the value is the mean of the others. A mean does not average a bias away, so theirs
    must go. With λ for noise(right) ÷ noise(total), right − λ·total has no noise in common with the total, so
    that share − λ is a quotient of two independent numbers, and only 1 ÷ total is biased: with s for the
    noise's deviation over the total its mean is (1 + s² + 3s⁴ + …) ÷ truth, and (1 − s² + 3s⁴) ÷ total takes
    that back.

    **Who is left out** depends on noise: pairs near the limit are in when their total came out too large,
    and their share − λ too small. For a true total of μ deviations that is a part of P(in) − μ·E(1/total; in)
    of it, at most 0.12 (near μ = 3) and no more than 0.2·E exp(−(total − 3)²/2) for every μ: both ends are
    moved by so much for every pair. (With five classes or more near the limit, all of recall 1, intervals
    without it hold in 90 % of cases, and with forty in half.)

    Variances add up, each over (total² − Z²·noise)² ÷ total², as in the interval of one share, since the
    total is noisy too. For persons, whose examples may be in several pairs, that is still enough: with r_c
    right of m_c, Σ m_c ≤ bound, and totals N_c, (Σ (r_c − θ_c m_c)/N_c)² ≤ bound · Σ (r_c − θ_c m_c)²/(m_c
    N_c²) by Cauchy and Schwarz, which adds up over all persons to at most bound · Σ θ_c(1 − θ_c)/N_c.
    """
    values, variance, lean = [], 0.0, 0.0
    for right, wrong in parts:
        total, noise = right.count + wrong.count, right.variance + wrong.variance
        part, deviation = (right.variance / noise if noise else 0.0), math.sqrt(noise)
        near = 0.2 * math.exp(-((total / deviation - _LEAST) ** 2) / 2) if noise else 0.0
        lean += near * max(part, 1 - part)
        if total <= _LEAST * deviation:
            continue
        s2 = noise / total**2
        value = part + (right.count - part * total) * (1 - s2 + 3 * s2**2) / total
        # Two of each kind are added, so that the variance does not vanish (Agresti and Coull 1998).
        p = (min(max(value, 0.0), 1.0) * total + 2) / (total + 4)
        sampled = bound * total * p * (1 - p)
        variance += (sampled + (1 - p) ** 2 * right.variance + p**2 * wrong.variance) * (
            total / (total**2 - Z**2 * noise)
        ) ** 2
        values.append(value)
    if not values:
        return NOTHING
    known, unknown = math.fsum(values), len(parts) - len(values)
    reach = Z * math.sqrt(variance) + lean
    ends = (known - reach) / len(parts), (known + reach + unknown) / len(parts)
    low, high = (min(max(end, 0.0), 1.0) for end in ends)
    return Estimate(min(max(known / len(values), low), high), low, high)


Read = TypeVar("Read", "NoisyCounts", "ChargedEvaluation", "Calibration", "Evaluation")


def read_exactly(read: Callable[[type[Read], JsonObject], Read]) -> Callable[[type[Read], JsonObject], Read]:
    """Let `read` refuse all but what the object it reads would write again, to the type."""

    @wraps(read)
    def checked(cls: type[Read], values: JsonObject) -> Read:
        with suppress(KeyError, TypeError, ValueError, AttributeError, IndexError):
            found = read(cls, values)
            both = (json.dumps(own, sort_keys=True, allow_nan=False) for own in (found.to_dict(), values))
            if len(set(both)) == 1:
                return found
        name = cls.__name__
        raise ArgumentError(f"A {name} must have exactly the fields that {name}.to_dict writes.")

    return checked


_DIGITS = 4
_GRIDS = {
    name: list(getattr(evaluation_layout, name.upper()))
    for name in ("chance_edges", "confidence_knots", "temperatures")
}
"""Where the histograms are cut; a release records it, so that others can read the counts."""
_MOST = 2.0**53  # of a count and of its noise: nobody has more rows, and squares stay finite


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """The blocks of `EvaluationLayout` as counts of examples; where persons are protected, of their votes.

    Attributes:
        blocks: each block's cells by name; see `EvaluationLayout`.
        noise: standard deviation of the noise on a cell, by block.
        bound: what was protected, and as how many examples it counts at most.
    """

    blocks: Mapping[str, Floats]
    noise: Mapping[str, float]
    bound: Bound = EACH_ROW

    @classmethod
    def of_answer(
        cls, answer: Floats, layout: evaluation_layout.EvaluationLayout, scale: float, bound: Bound
    ) -> NoisyCounts:
        """The counts in a noisy answer of `EvaluationCounts` whose noise has this standard deviation."""
        blocks, noise = {}, {}
        for name, block in layout.blocks.items():
            weight = block.weight / evaluation_layout.GRID
            blocks[name] = np.round(answer[block.start : block.stop].reshape(block.shape) / weight, _DIGITS)
            noise[name] = scale / weight
        return cls(blocks, noise, bound)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.blocks["by_class"])

    def cells(self, name: str, *places: int | slice | list[int]) -> Noisy:
        """The sum of cells of a block: all of them, or those at an index."""
        chosen = self.blocks[name][places] if places else self.blocks[name]
        return Noisy(float(np.sum(chosen)), np.size(chosen) * self.noise[name] ** 2)

    def right_of(self, c: int) -> Noisy:
        """What is of class c and predicted as c: three blocks count it."""
        return self._pooled((c, c), self.cells("by_class", c, 0), self.cells("by_prediction", c, 0))

    def missed_of(self, c: int) -> Noisy:
        """What is of class c and predicted otherwise."""
        return self._pooled((c, self._others(c)), self.cells("by_class", c, 1))

    def mistaken_for(self, c: int) -> Noisy:
        """What is predicted as class c and is another."""
        return self._pooled((self._others(c), c), self.cells("by_prediction", c, 1))

    @property
    def right(self) -> Noisy:
        """What is predicted right."""
        return self._total(0, [self.right_of(c) for c in range(self.classes)])

    @property
    def wrong(self) -> Noisy:
        """What is predicted wrong."""
        return self._total(1, [self.missed_of(c) for c in range(self.classes)])

    def _pooled(self, confused: tuple[int | list[int], int | list[int]], *counts: Noisy) -> Noisy:
        """These counts with the same one from the confusion matrix, where that is counts."""
        more = [self.cells("confusion", *confused)] if "confusion" in self.blocks else []
        return pool_counts(*counts, *more)

    def _total(self, side: int, by_class: Sequence[Noisy]) -> Noisy:
        """Right (0) or wrong (1) in all: three blocks of their own tell it, independently."""
        summed = Noisy(math.fsum(own.count for own in by_class), math.fsum(own.variance for own in by_class))
        return pool_counts(self.cells("answers", side), summed, self.cells("reliability", slice(None), side))

    def _others(self, c: int) -> list[int]:
        return [other for other in range(self.classes) if other != c]

    def to_dict(self) -> JsonObject:
        """JSON-ready form."""
        return {
            "unit": self.bound.unit.value,
            "person_bound": self.bound.examples,
            **_GRIDS,
            "noise": dict(self.noise),
            "blocks": {name: values.tolist() for name, values in self.blocks.items()},
        }

    @classmethod
    @read_exactly
    def from_dict(cls, values: JsonObject) -> NoisyCounts:
        """Read what `to_dict` wrote; anything else is refused."""
        found = cls(
            {name: np.array(own, dtype=np.float64) for name, own in values["blocks"].items()},
            {name: float(own) for name, own in values["noise"].items()},
            Bound(Unit(values["unit"]), values["person_bound"]),
        )
        found._require_possible()
        return found

    def _require_possible(self) -> None:
        """Raise unless blocks have their shapes, and numbers are possible."""
        layout = evaluation_layout.EvaluationLayout(self.classes).blocks
        fits = layout.keys() == self.blocks.keys() == self.noise.keys()
        fits = fits and all(own.shape == layout[name].shape for name, own in self.blocks.items())
        fits = fits and all((np.abs(own) <= _MOST).all() for own in self.blocks.values())
        if not (fits and all(1 / _MOST <= own <= _MOST for own in self.noise.values())):
            raise ArgumentError("Noisy counts must have the shapes of their grids, and be possible.")


def calibration_error(counts: NoisyCounts) -> Estimate:
    """Σ over knots of |confidence − accuracy| · share of the examples there, with its interval.

    The gap at knot k is g = k·wrong − (1 − k)·right, and its estimate has an error of variance v =
    bound·(k²·wrong + (1 − k)²·right) + (k² + (1 − k)²)·noise² at most, as that of a share. Errors make the
    sum of |g| larger on average, by no more than √(2/π) Σ √v, and never smaller; around its mean it varies by
    √(Σ v) at most, as its slope in each gap is at most 1. So the upper end is the sum plus Z·√(Σ v), the
    lower end the sum less that and less √(2/π) Σ √v; the total that both are divided by is taken at the far
    end of its own interval. The value takes each |g| at √(g² − v), or 0.
    """
    knots = np.array(evaluation_layout.CONFIDENCE_KNOTS)
    right, wrong = counts.blocks["reliability"].T
    gaps = knots * wrong - (1 - knots) * right
    sampled = counts.bound.examples * np.maximum(knots**2 * wrong + (1 - knots) ** 2 * right, 0.0)
    variances = sampled + (knots**2 + (1 - knots) ** 2) * counts.noise["reliability"] ** 2
    both = counts.right + counts.wrong
    total, give = both.count, Z * math.sqrt(both.variance)
    if total <= give:
        return NOTHING
    reach = Z * math.sqrt(variances.sum())
    found = float(np.abs(gaps).sum())
    low = max(0.0, found - reach - math.sqrt(2 / math.pi) * float(np.sqrt(variances).sum())) / (total + give)
    high = min(1.0, (found + reach) / (total - give))
    value = float(np.sqrt(np.maximum(gaps**2 - variances, 0.0)).sum()) / total
    return Estimate(min(max(value, low), high), low, high)


@dataclass(frozen=True, eq=False)
class ChargedEvaluation:
    """Test results that protect the test rows; intervals are 95 %, for sampling and noise together.

    Attributes:
        classes: the declared classes.
        counts: the released histograms, from which all figures follow.
        events: the noisy step that gave them.
        guarantee: what that step promises to those in the test rows.
        holdout: where the rows were held out from a fit, the chance with which each unit was; None for test
            rows that were given for it.
        seeded: whether the noise came from a seed, so that anyone with the seed can remove it.
        created: UTC time, ISO 8601.
        ledger_head: head of the ledger's hash chain after the charge.
    """

    classes: tuple[str | int, ...]
    counts: NoisyCounts
    events: tuple[Event, ...]
    guarantee: Guarantee
    holdout: float | None = None
    seeded: bool = False
    created: str = ""
    ledger_head: str | None = None

    def __post_init__(self) -> None:
        """Refuse parts that do not fit together."""
        units = {self.counts.bound.unit, self.guarantee.unit, *(event.unit for event in self.events)}
        relations = {self.guarantee.relation, *(event.relation for event in self.events)}
        alike = {len(units), len(relations), len(self.events), len(self.classes) - self.counts.classes + 1}
        if alike != {1} or not (self.holdout is None or 0 < self.holdout < 1):
            rule = (
                "The counts, the step and the guarantee of an evaluation must be of one relation, one unit "
            )
            rule += "and one list of classes, and a hold-out a share"
            raise ArgumentError(f"{rule}; these are not. Take them from one evaluation.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(accuracy {self.accuracy.words}, {self.statement})"

    def _repr_html_(self) -> str:
        from dptransfer.release.card import results_summary

        return results_summary(self).fragment()

    @cached_property
    def accuracy(self) -> Estimate:
        """Share of the examples that are predicted right; of persons, the mean of their shares."""
        return self._share(self.counts.right, self.counts.wrong)

    @cached_property
    def recall(self) -> tuple[Estimate, ...]:
        """By class, share of its examples that are found."""
        return tuple(self._share(*pair) for pair in self._by_class)

    @cached_property
    def precision(self) -> tuple[Estimate, ...]:
        """By class, share of the predictions of it that are right."""
        counts = self.counts
        return tuple(self._share(counts.right_of(c), counts.mistaken_for(c)) for c in range(counts.classes))

    @cached_property
    def balanced_accuracy(self) -> Estimate:
        """Mean recall over all declared classes; the interval allows any recall where nothing can be said."""
        return mean_share(self._by_class, self.counts.bound.examples)

    @cached_property
    def calibration_error(self) -> Estimate:
        """Expected calibration error of the head's own probabilities, between six knots of confidence."""
        return calibration_error(self.counts)

    @property
    def estimates(self) -> dict[str, Estimate]:
        """The most telling shares by name, if something can be said of them."""
        both = {"balanced accuracy": self.balanced_accuracy, "accuracy": self.accuracy}
        return {name: own for name, own in both.items() if own.is_narrow}

    @property
    def recalls(self) -> dict[str, Estimate]:
        """The recall of each class of which something can be said."""
        each = zip(self.classes, self.recall, strict=True)
        return {str(name): own for name, own in each if own.is_narrow}

    @cached_property
    def size(self) -> Noisy:
        """The number of test examples, or of votes of persons, with noise."""
        return self.counts.right + self.counts.wrong

    @property
    def statement(self) -> str:
        """The sentence that goes with these numbers wherever they are shown."""
        said = str(replace(self.guarantee, assumptions=())).removeprefix("This model is ")
        return f"The test rows are protected: these numbers are {said}"

    @property
    def whose(self) -> str:
        """What is averaged, and where the rows are from, in words."""
        drawn = "test rows that the data owner provided"
        if self.holdout is not None:
            one = "example" if self.counts.bound.unit is Unit.ROW else "person, with all their examples,"
            drawn = f"a hold-out: each {one} was kept out of training with probability {self.holdout:g}"
        if self.counts.bound.unit is Unit.ROW:
            return drawn
        most = self.counts.bound.examples
        votes = "one vote" if most == 1 else f"as many votes as examples, up to {most:g}"
        return f"{drawn}. The average is over people: each has {votes}"

    def _share(self, right: Noisy, wrong: Noisy) -> Estimate:
        return share(right, wrong, self.counts.bound.examples)

    @cached_property
    def _by_class(self) -> tuple[tuple[Noisy, Noisy], ...]:
        return tuple((self.counts.right_of(c), self.counts.missed_of(c)) for c in range(self.counts.classes))

    def figures(self) -> JsonObject:
        """All figures, JSON-ready; a share of which nothing can be said has the value None."""
        return {
            **{name: getattr(self, name)._asdict() for name in _FIGURES},
            "size": {"value": self.size.count, "noise": self.size.variance**0.5},
            "by_class": [
                {"class": name, "recall": self.recall[c]._asdict(), "precision": self.precision[c]._asdict()}
                for c, name in enumerate(self.classes)
            ],
        }

    def to_dict(self) -> JsonObject:
        """JSON-ready form: what a release records."""
        return {
            "classes": list(self.classes),
            "counts": self.counts.to_dict(),
            "events": [event_to_dict(event) for event in self.events],
            "guarantee": self.guarantee.to_dict(),
            **{name: getattr(self, name) for name in _PLAIN},
        }

    @classmethod
    @read_exactly
    def from_dict(cls, values: JsonObject) -> ChargedEvaluation:
        """Read what `to_dict` wrote; anything else is refused."""
        plain = {**values["guarantee"], **values}
        if not all(isinstance(plain[name], kind) for name, kind in _TYPES.items()):
            raise TypeError("a field has another type")
        return cls(
            classes=tuple(values["classes"]),
            counts=NoisyCounts.from_dict(values["counts"]),
            events=tuple(event_from_dict(event) for event in values["events"]),
            guarantee=Guarantee.from_dict(values["guarantee"]),
            **{name: values[name] for name in _PLAIN},
        )


_PLAIN = ("holdout", "seeded", "created", "ledger_head")
_FIGURES = ("accuracy", "balanced_accuracy", "calibration_error")
_TYPES: dict[str, type | UnionType] = {
    **{"epsilon": float, "delta": float, "rho": float | None, "mu": float | None},
    **{"holdout": float | None, "seeded": bool, "created": str, "ledger_head": str | None},
}
"""What is recorded of an evaluation and its guarantee as plain values."""


def join_fit_and_check(fit: tuple[Event, ...], check: tuple[Event, ...], holdout: float) -> tuple[Event, ...]:
    """What a fit and the check of its hold-out cost together.

    A unit is in one of them alone, by a coin of its own, and so are a unit and its successor: see
    `DisjointEvent`.
    """
    return (DisjointEvent((fit, check), label=f"training and testing, with a hold-out of {holdout:g}"),)


def without_holdout(model: PrivateClassifier) -> PrivateClassifier:
    """The model with the steps and the guarantee of its fit alone, as if nothing had been held out."""
    from dptransfer.accounting import guarantee_of

    charged = model.charged
    if charged is None or charged.holdout is None:
        return model
    first = next(iter(model.events), None)
    fit = first.parts[0] if isinstance(first, DisjointEvent) else ()
    if join_fit_and_check(fit, charged.events, charged.holdout) != model.events:
        raise ArgumentError("A model's steps must be those of its fit and of the check of its hold-out.")
    promise = model.guarantee
    own = guarantee_of(fit, promise.delta, promise.assumptions, relation=promise.relation, unit=promise.unit)
    return replace(model, events=fit, guarantee=own, charged=None)
