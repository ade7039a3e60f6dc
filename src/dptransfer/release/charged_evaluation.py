"""How well a classifier does on private rows, paid for: figures with intervals, and what they cost the rows.

The figures are functions of released noisy counts. They may be published like the classifier itself, and the
counts travel with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dptransfer.errors import ArgumentError
from dptransfer.privacy import Event, Guarantee, Unit, event_from_dict, event_to_dict
from dptransfer.privacy.events import DisjointEvent
from dptransfer.release.noisy_counts import Estimate, Noisy, NoisyCounts, calibration_error, mean_share, share

if TYPE_CHECKING:
    from dptransfer.release.classifier import PrivateClassifier


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
        if len(units) > 1 or len(relations) > 1 or self.counts.classes != len(self.classes):
            raise ArgumentError(
                "The counts, steps and guarantee of an evaluation must be of one relation, one unit and one "
                "list of classes; these are not. Take them from one evaluation."
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(accuracy {percent(self.accuracy)}, {self.statement})"

    def _repr_html_(self) -> str:
        from dptransfer.release.card_utility import results_summary

        return results_summary(self).fragment()

    @cached_property
    def accuracy(self) -> Estimate:
        """Share of the examples that are predicted right; of persons, the mean of their shares."""
        return share(self.counts.right, self.counts.wrong, self._bound)

    @cached_property
    def recall(self) -> tuple[Estimate, ...]:
        """By class, share of its examples that are found."""
        return tuple(share(*pair, self._bound) for pair in self._by_class)

    @cached_property
    def precision(self) -> tuple[Estimate, ...]:
        """By class, share of the predictions of it that are right."""
        return tuple(
            share(self.counts.right_of(c), self.counts.mistaken_for(c), self._bound)
            for c in range(len(self.classes))
        )

    @cached_property
    def balanced_accuracy(self) -> Estimate:
        """Mean recall over all declared classes; the interval allows any recall where nothing can be said."""
        return mean_share(self._by_class, self._bound)

    @cached_property
    def calibration_error(self) -> Estimate:
        """Expected calibration error of the head's own probabilities, between six knots of confidence."""
        return calibration_error(self.counts)

    @cached_property
    def size(self) -> Noisy:
        """The number of test examples, or of votes of persons, with noise."""
        right, wrong = self.counts.right, self.counts.wrong
        return Noisy(right.count + wrong.count, right.variance + wrong.variance)

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

    @cached_property
    def _by_class(self) -> tuple[tuple[Noisy, Noisy], ...]:
        return tuple((self.counts.right_of(c), self.counts.missed_of(c)) for c in range(len(self.classes)))

    @property
    def _bound(self) -> float:
        return self.counts.bound.examples

    def figures(self) -> dict[str, Any]:
        """All figures, JSON-ready; a share of which nothing can be said has the value None."""
        by_class = zip(self.classes, self.recall, self.precision, strict=True)
        return {
            "accuracy": self.accuracy._asdict(),
            "balanced_accuracy": self.balanced_accuracy._asdict(),
            "calibration_error": self.calibration_error._asdict(),
            "size": {"value": self.size.count, "noise": self.size.variance**0.5},
            "by_class": [
                {"class": name, "recall": recall._asdict(), "precision": precision._asdict()}
                for name, recall, precision in by_class
            ],
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form: what a release records."""
        return {
            "classes": list(self.classes),
            "counts": self.counts.to_dict(),
            "events": [event_to_dict(event) for event in self.events],
            "guarantee": self.guarantee.to_dict(),
            "holdout": self.holdout,
            "seeded": self.seeded,
            "created": self.created,
            "ledger_head": self.ledger_head,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ChargedEvaluation:
        """Read what `to_dict` wrote; anything else is refused."""
        try:
            found = cls(
                classes=tuple(values["classes"]),
                counts=NoisyCounts.from_dict(values["counts"]),
                events=tuple(event_from_dict(event) for event in values["events"]),
                guarantee=Guarantee.from_dict(values["guarantee"]),
                **{name: values[name] for name in ("holdout", "seeded", "created", "ledger_head")},
            )
            same = found.to_dict() == dict(values) and len(found.events) == 1
            same = same and (found.holdout is None or 0 < found.holdout < 1) and type(found.seeded) is bool
            same = same and isinstance(found.created, str) and isinstance(found.ledger_head, str | None)
            promise = found.guarantee
            same = same and all(type(own) is float for own in (promise.epsilon, promise.delta))
            same = same and all(own is None or type(own) is float for own in (promise.rho, promise.mu))
        except (KeyError, TypeError, ValueError, AttributeError):
            same = False
        if not same:
            raise ArgumentError(
                "A charged evaluation must have exactly the fields that ChargedEvaluation.to_dict writes."
            )
        return found


TOO_NOISY = "too few test rows for this budget"
"""Said in the place of a share whose interval says nothing."""
_WIDEST = 0.4


def percent(estimate: Estimate) -> str:
    """A share with its interval, as it is shown; words in the place of one whose interval says nothing.

    >>> percent(Estimate(0.5, 0.35, 0.65)), percent(Estimate(None, 0.0, 1.0))
    ('50.0% (35.0% to 65.0%)', 'too few test rows for this budget')
    """
    if not tells_something(estimate):
        return TOO_NOISY
    return f"{estimate.value:.1%} ({estimate.low:.1%} to {estimate.high:.1%})"


def tells_something(estimate: Estimate) -> bool:
    """Whether there is a share, and its interval is at most 40 points wide.

    >>> tells_something(Estimate(0.6, 0.4, 0.8)), tells_something(Estimate(0.692, 0.047, 1.0))
    (True, False)
    """
    return estimate.value is not None and estimate.high - estimate.low <= _WIDEST + 1e-9


def joined(fit: tuple[Event, ...], check: tuple[Event, ...], holdout: float) -> tuple[Event, ...]:
    """What a fit and the check of its hold-out cost together.

    A unit is in one of them alone, by a coin of its own, and so are a unit and its successor: see
    `DisjointEvent`.
    """
    return (DisjointEvent((fit, check), label=f"a fit, and the check of a hold-out of {holdout:g}"),)


def without_holdout(model: PrivateClassifier) -> PrivateClassifier:
    """The model with the steps and the guarantee of its fit alone, as if nothing had been held out."""
    from dptransfer.accounting import guarantee_of

    charged = model.charged
    if charged is None or charged.holdout is None:
        return model
    first = next(iter(model.events), None)
    fit = first.parts[0] if isinstance(first, DisjointEvent) else ()
    if joined(fit, charged.events, charged.holdout) != model.events:
        raise ArgumentError("A model's steps must be those of its fit and of the check of its hold-out.")
    promise = model.guarantee
    own = guarantee_of(fit, promise.delta, promise.assumptions, relation=promise.relation, unit=promise.unit)
    return replace(model, events=fit, guarantee=own, charged=None)
