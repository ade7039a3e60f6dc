"""Membership inference: an attack by the loss of each example, or person, and what the guarantee allows.

This is a diagnostic that reads private rows. Its result is not covered by the model's guarantee and never
enters a release: publishing it publishes a function of the private rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.accounting import area_ceiling, true_positive_rate
from dptransfer.audit.lower_bound import high_limit, low_limit
from dptransfer.audit.shadow_attack import surprise
from dptransfer.base import checks
from dptransfer.base.types import Floats, Integers
from dptransfer.data.labels import Labelled, class_positions, person_positions
from dptransfer.errors import DataError
from dptransfer.exact.chunks import one_blas_thread
from dptransfer.privacy import Guarantee, Unit
from dptransfer.release import PrivateClassifier

_MOST_ROWS = 2000  # of each set and half: the classifier costs the cube of it
_FEWEST = 8  # of each set: halves with fewer than four say nothing
_RIDGE = 9.0  # the mean diagonal of the kernel


@dataclass(frozen=True, eq=False)
class UnitRows:
    """The rows of one set, their class positions, and whose each row is: a number from 0 for each unit."""

    rows: Any
    labels: Integers
    units: Integers

    @property
    def count(self) -> int:
        """Number of units: rows, or people."""
        return int(self.units.max()) + 1

    def mean_of(self, values: Floats) -> Floats:
        """For each unit that is here, the mean of what its rows have."""
        units = np.unique(self.units, return_inverse=True)[1]
        means: Floats = np.bincount(units, values) / np.bincount(units)
        return means

    def at(self, positions: Integers) -> UnitRows:
        """Those at these positions."""
        return UnitRows(self.rows[positions], self.labels[positions], self.units[positions])

    def unit_norm(self) -> Floats:
        """Rows of unit norm, a row that is not finite as zeros, as feature maps take them."""
        from sklearn.preprocessing import normalize

        wide = np.asarray(self.rows).reshape(len(self.rows), -1).astype(np.float64)
        wide[~np.isfinite(wide).all(axis=1)] = 0.0
        unit: Floats = normalize(normalize(wide, norm="max"))
        return unit


def model_free_areas(members: UnitRows, others: UnitRows) -> tuple[tuple[Floats, Floats], ...]:
    """Scores of members and others by a classifier of rows and classes alone, cross-validated in two folds.

    Both sets are halved at random, by unit. A classifier (kernel ridge regression) learns on one half of each
    which row is a member's and scores the units of the other halves, lower for likelier members; then the
    other way round. If both sets are draws of one distribution, the units that are scored are exchangeable
    whatever was learned, so each fold's area under the curve has its usual interval. Nothing if a set has
    fewer than eight units.

    The kernel of two examples is (1 + ⟨x, x'⟩ + [their classes agree])², for rows of unit norm, with
    standardised columns. So it sees shifts of the mean, of the spread, of class shares, and of rows
    within a class.
    """
    if min(members.count, others.count) < _FEWEST:
        return ()
    rng = np.random.default_rng(0)  # which half a unit is in changes the power of the test alone
    first, second = zip(*(_halves(one, rng) for one in (members, others)), strict=True)
    return _fold(first, second), _fold(second, first)


def _halves(given: UnitRows, rng: np.random.Generator) -> list[UnitRows]:
    """The rows of two disjoint halves of the units; of some units where there are many rows."""
    order = rng.permutation(given.count)
    sizes = np.bincount(given.units, minlength=given.count)
    found = []
    for half in (order[::2], order[1::2]):
        taken = half[: max(_FEWEST // 2, int(np.searchsorted(np.cumsum(sizes[half]), _MOST_ROWS, "right")))]
        found.append(given.at(np.flatnonzero(np.isin(given.units, taken))))
    return found


def _fold(train: tuple[UnitRows, ...], test: tuple[UnitRows, ...]) -> tuple[Floats, Floats]:
    """Train on members and others; the scores of the units of two other sets of these."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.preprocessing import StandardScaler

    sizes, classes = [len(one.labels) for one in train], max(one.labels.max() for one in (*train, *test)) + 1
    # Each set counts alike, whatever its size: the mean of the targets is zero.
    weights, targets = np.repeat(sum(sizes) / 2 / np.array(sizes), sizes), np.repeat([-1.0, 1.0], sizes)
    scaler = StandardScaler().fit(np.concatenate([one.unit_norm() for one in train]), sample_weight=weights)

    def features(given: UnitRows) -> Floats:
        x = scaler.transform(given.unit_norm())
        return np.hstack([np.clip(x / math.sqrt(x.shape[1]), -10.0, 10.0), np.eye(classes)[given.labels]])

    learner = KernelRidge(alpha=_RIDGE, kernel="poly", degree=2, gamma=1.0, coef0=1.0)
    with one_blas_thread(sum(sizes)):
        learner.fit(np.concatenate([features(one) for one in train]), targets, sample_weight=weights)
    inside, outside = (one.mean_of(learner.predict(features(one))) for one in test)
    return inside, outside


FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
"""Low ones, because an attack that is sure of a few members does harm that an average hides."""

CONFIDENCE = 0.95
"""That all intervals of one attack hold together: each is wider by Bonferroni's share."""

UNFAIR_CONFIDENCE = 0.99
"""That sets differ by themselves: one fair comparison in a hundred is called unfair."""

Interval: TypeAlias = tuple[float, float]
Classes: TypeAlias = ArrayLike | Labelled
Given: TypeAlias = tuple[ArrayLike, Classes] | tuple[ArrayLike, Classes, ArrayLike | None]
"""Rows, their classes and, perhaps, whose each row is."""


@dataclass(frozen=True)
class OperatingPoint:
    """One threshold of the attack.

    The threshold is set on the other rows, so its true false positive rate is known only as well as they are
    many. A fair comparison takes what the guarantee allows at the upper end of that.

    Attributes:
        false_positive_rate: largest share of the given other rows that may be taken for members.
        false_positive_limit: upper end of the threshold's true rate (Clopper and Pearson).
        true_positive_rate: share of members found at the threshold.
        interval: its interval (Clopper and Pearson).
        ceiling: what the model's guarantee leaves to any attack at `false_positive_rate`.
        ceiling_at_limit: the same at `false_positive_limit`.
    """

    false_positive_rate: float
    false_positive_limit: float
    true_positive_rate: float
    interval: Interval
    ceiling: float
    ceiling_at_limit: float

    @property
    def within_ceiling(self) -> bool:
        """Whether chance explains what was found beyond the ceiling, if anything was."""
        return self.interval[0] <= self.ceiling_at_limit


@dataclass(frozen=True)
class WithoutModel:
    """How well a classifier that never sees the model tells members from others.

    Attributes:
        auc: mean area under the curve of two folds; 0.5 where the sets are draws of one distribution.
        interval: its interval at `UNFAIR_CONFIDENCE`; the mean of the folds' intervals, which hold together.
    """

    auc: float
    interval: Interval

    @property
    def differs(self) -> bool:
        """Whether the sets differ by themselves, by more than chance explains."""
        return not self.interval[0] <= 0.5 <= self.interval[1]


@dataclass(frozen=True)
class MembershipResult:
    """How well the loss tells members from other rows, and what the guarantee would allow. Not protected.

    Attributes:
        auc: chance that a random member has a smaller loss than a random other row, or person, ties counted
            half; 0.5 is guessing.
        interval: its interval, by Newcombe's score method on the variance of Hanley and McNeil.
        auc_ceiling: largest area that any attack on such a model can have, by its guarantee.
        points: true positive rates at low false positive rates.
        without_model: how well the sets are told apart without the model; None where that was not asked for,
            or where they are too small to say.
        confidence: of each interval; `CONFIDENCE` for all of them together.
        members: number of members.
        others: number of other rows, or persons.
        guarantee: the model's own; its unit is what is told apart, rows or persons.
    """

    auc: float
    interval: Interval
    auc_ceiling: float
    points: tuple[OperatingPoint, ...]
    without_model: WithoutModel | None
    confidence: float
    members: int
    others: int
    guarantee: Guarantee

    statement: ClassVar[str] = (
        "These numbers are a function of private rows; the guarantee does not cover them. Do not publish."
    )
    """The sentence that goes with these numbers wherever they are shown."""

    @property
    def within_ceiling(self) -> bool:
        """Whether the attack is no better than the guarantee allows, up to the intervals.

        If not, either the guarantee is false or the other rows do not come from the members' source.
        """
        return self.interval[0] <= self.auc_ceiling and all(point.within_ceiling for point in self.points)

    @property
    def many(self) -> str:
        """What is told apart, in words."""
        return "rows" if self.guarantee.unit is Unit.ROW else "people"

    @property
    def fair(self) -> bool:
        """Whether the comparison may say something about the model.

        It does not if the sets differ by themselves, or if the model finds the others easier than its own
        members, by more than chance explains: training on a row does not make it harder.
        """
        differs = self.without_model is not None and self.without_model.differs
        return not differs and self.interval[1] >= 0.5

    @property
    def contradicts_guarantee(self) -> bool:
        """Whether the attack did better than the guarantee allows, and than the sets differ by themselves."""
        if self.within_ceiling:
            return False
        apart = self.without_model
        return apart is None or not apart.differs or self.interval[0] > apart.interval[1]

    @property
    def verdict(self) -> str:
        """What the comparison comes to, in words."""
        if self.contradicts_guarantee:
            return (
                "This attack did better than the guarantee allows, and chance does not explain it (the "
                f"intervals hold together with {CONFIDENCE:.0%} confidence). Either the other {self.many} "
                "come from another source than the members, or the guarantee is not true. Do not publish the "
                "model before you know which."
            )
        if not self.fair:
            why = f"The model finds the other {self.many} easier than its own members."
            if self.without_model is not None and self.without_model.differs:
                why = "A classifier that never sees the model can tell members and non-members apart."
            return (
                "Unfair comparison: these two sets differ by themselves, so this says nothing about the "
                f"model. {why} Compare with {self.many} from the same draw as the members: set some aside at "
                "random before you fit."
            )
        return (
            "Nothing here contradicts the guarantee: the area and every rate are within what it allows, as "
            f"far as {self.members} members and {self.others} other {self.many} can show, if both are draws "
            "of one distribution. This does not rule out better attacks, but the guarantee limits those too."
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        own = {"within_ceiling": self.within_ceiling, "fair": self.fair, "verdict": self.verdict}
        plain: dict[str, Any] = json.loads(
            json.dumps(asdict(self) | own | {"guarantee": self.guarantee.to_dict()})
        )
        return plain


def membership_attack(
    model: PrivateClassifier,
    members: Given,
    others: Given,
    *,
    false_positive_rates: Sequence[float] = FALSE_POSITIVE_RATES,
    check_sets: bool = True,
    shadows: Sequence[PrivateClassifier] = (),
) -> MembershipResult:
    """Run a loss-threshold attack on a classifier; it reads private rows, so the result is not protected.

    The loss of a row is −log `predict_proba` of its own class. Rows with a small loss are taken for members
    (Yeom et al. 2018; Golatkar et al. 2022, Figure 1). Where the model's guarantee protects persons, so are
    persons whose rows have a small loss on average; where it protects single rows, it says nothing about
    persons, and whose each row is does not matter. The result is no part of what the guarantee covers and
    never enters a release.

    Args:
        model: the classifier.
        members: rows and classes that it was fitted on and, perhaps, whose each row is; if that is not given,
            each is somebody's only one.
        others: rows and classes from the same source that it was not fitted on, likewise; from another
            source, what the attack finds is the difference between the sources.
        false_positive_rates: where true positive rates are reported.
        shadows: models that saw neither set (`shadow_models`): rows are then compared by a likelihood ratio.
        check_sets: also test whether the two sets differ by themselves, which takes some seconds; see
            `set_difference.model_free_areas`.
    """
    for rate in false_positive_rates:
        checks.fraction("false_positive_rates", rate)
    sets = [_unit_rows(model, *given) for given in (members, others)]
    loss = partial(surprise, model, shadows) if shadows else partial(row_losses, model)
    inside, outside = (own.mean_of(loss(own.rows, Labelled(own.labels, model.classes))) for own in sets)
    auc = smaller_share(inside, outside)
    error = (1 - CONFIDENCE) / (1 + len(false_positive_rates))  # of the area, and of each rate
    return MembershipResult(
        auc=auc,
        interval=area_interval(auc, len(inside), len(outside), error),
        auc_ceiling=area_ceiling(model.events),
        points=tuple(_point(model, inside, outside, float(rate), error) for rate in false_positive_rates),
        without_model=_without_model(*sets) if check_sets else None,
        confidence=1 - error,
        members=len(inside),
        others=len(outside),
        guarantee=model.guarantee,
    )


def _without_model(members: UnitRows, others: UnitRows) -> WithoutModel | None:
    """What a classifier of rows and classes alone finds; None for sets that are too small."""
    folds = model_free_areas(members, others)
    if not folds:
        return None
    areas = [smaller_share(inside, outside) for inside, outside in folds]
    error = (1 - UNFAIR_CONFIDENCE) / len(folds)
    ends = [
        area_interval(area, len(inside), len(outside), error)
        for area, (inside, outside) in zip(areas, folds, strict=True)
    ]
    low, high = (math.fsum(one) / len(folds) for one in zip(*ends, strict=True))
    return WithoutModel(math.fsum(areas) / len(folds), (low, high))


def _unit_rows(
    model: PrivateClassifier, x: ArrayLike, y: Classes, people: ArrayLike | None = None
) -> UnitRows:
    """The rows, and whose each is: the unit that the model protects, as a number from 0."""
    rows = x if hasattr(x, "shape") else np.asarray(x)
    labels = class_positions(y, model.classes)
    alone = people is None or model.guarantee.unit is Unit.ROW
    units = np.arange(len(labels)) if alone else person_positions(people, len(labels)).astype(np.int64)
    return UnitRows(rows, labels, units)


def row_losses(model: PrivateClassifier, x: ArrayLike, y: ArrayLike | Labelled) -> Floats:
    """−log probability of each row's own class, as the model has it."""
    return score_losses(model.scores(x), y, classes=model.classes, temperature=model.head.temperature)


def score_losses(
    scores: Floats,
    y: ArrayLike | Labelled,
    *,
    classes: tuple[str | int, ...],
    temperature: float = 1.0,
) -> Floats:
    """−log probability of each row's own class, exact where the probability itself would round to 0 or 1.

    Args:
        scores: one row per row and one column per class, of any model.
        y: the rows' classes.
        classes: the classes, in the order of the columns.
        temperature: probabilities are the softmax of the scores divided by it.
    """
    from scipy.special import logsumexp

    truth = class_positions(y, classes)
    if len(scores) != len(truth) or len(truth) == 0:
        raise DataError(
            "An attack needs at least one member and one other row, and a class for each row; "
            f"got {len(scores)} rows and {len(truth)} classes."
        )
    logits = scores / temperature
    own = np.arange(len(truth)), truth
    ahead = logits - logits[own][:, None]  # of each other class before the row's own
    ahead[own] = -np.inf
    # −log(1 ÷ (1 + Σ e^ahead)); kept apart from the 1, a loss of 1e-30 is not rounded to 0.
    losses: Floats = np.logaddexp(0.0, logsumexp(ahead, axis=1))
    return losses


def smaller_share(first: Floats, second: Floats) -> float:
    """Share of pairs in which the first is smaller, ties counted half: Mann and Whitney's statistic.

    >>> smaller_share(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.875
    """
    ordered = np.sort(second)
    above = len(second) - np.searchsorted(ordered, first, side="right")
    not_below = len(second) - np.searchsorted(ordered, first, side="left")
    return float(int(above.sum()) + int(not_below.sum())) / (2 * len(first) * len(second))


def area_interval(auc: float, first: int, second: int, error: float = 0.05) -> Interval:
    """Interval of an area under the curve that misses it with chance `error`: Newcombe (2006), method 5.

    All areas θ with |auc − θ| ≤ z·s(θ), where z is the normal law's (1.96 at 5 %) and s(θ)² = θ(1 − θ)(1 +
    m(1 − θ)/(2 − θ) + mθ/(1 + θ)) ÷ (first·second) is the variance of Hanley and McNeil (1982) with m =
    (first + second)/2 − 1. It is taken at θ and not at the estimate, so the interval does not collapse at an
    area of 0 or 1.

    >>> [round(end, 3) for end in area_interval(0.5, 100, 100)]
    [0.421, 0.579]
    """
    from scipy.special import ndtri

    mean_size, z = (first + second) / 2 - 1, float(ndtri(1 - error / 2))

    def distance(theta: float) -> float:
        by_chance = 1 + mean_size * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return abs(auc - theta) - z * math.sqrt(theta * (1 - theta) * by_chance / (first * second))

    return _edge(distance, auc, 0.0), _edge(distance, auc, 1.0)


def _edge(distance: Callable[[float], float], inside: float, outside: float) -> float:
    """Where `distance` becomes positive on the way from `inside` to `outside`; `outside` if it never does."""
    if distance(outside) <= 0:
        return outside
    for _ in range(60):
        middle = (inside + outside) / 2
        if distance(middle) <= 0:
            inside = middle
        else:
            outside = middle
    return inside


def _point(
    model: PrivateClassifier, inside: Floats, outside: Floats, rate: float, error: float
) -> OperatingPoint:
    allowed = math.floor(rate * len(outside) * (1 + 1e-12))
    threshold = np.partition(outside, allowed)[allowed]  # `allowed` others at most have a smaller loss
    found = int((inside < threshold).sum())
    # The share of all other rows below this order statistic is at most Beta(allowed + 1, others − allowed),
    # whose quantile is the limit for `allowed` hits.
    limit = high_limit(allowed, len(outside), error / 2)
    return OperatingPoint(
        false_positive_rate=rate,
        false_positive_limit=limit,
        true_positive_rate=found / len(inside),
        interval=(low_limit(found, len(inside), error / 2), high_limit(found, len(inside), error / 2)),
        ceiling=true_positive_rate(model.events, rate),
        ceiling_at_limit=true_positive_rate(model.events, limit) if limit < 1 else 1.0,
    )
