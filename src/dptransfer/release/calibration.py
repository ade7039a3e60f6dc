"""Calibration: a temperature and class offsets that make probabilities mean what they say.

Calibrated probabilities are softmax(scores ÷ (head's temperature · temperature) + offsets). Both come from
the released counts of a charged evaluation, or the temperature alone from public simulation: post-processing
either way, which costs no privacy.

**Labels stay.** `predict` answers with the highest score, as it was evaluated. Offsets could put another
class first; so no other class gets more than the predicted one, and label and likeliest class agree.

**Temperature.** A classifier's confidence is right on average if it adds up to the number of right answers.
The counts hold that number, and the sum of confidences at a few public temperatures, with noise. The sum
falls with the temperature; made so again by least squares, it is interpolated to where it meets the right
answers.

**Offsets.** In a maximum-likelihood fit each class has as much probability in all as it has examples. With
the predicted number of a class in place of its probability in all, which needs no block of its own, a step of
iterative scaling (Darroch and Ratcliff 1972) adds log(true ÷ predicted number) to the class's logit; half of
it is taken.

**Noise.** Both are shrunk towards no change by what is known of their error: an estimate with variance s² of
something that varies by τ² is multiplied with τ² ÷ (τ² + s²), which has the least squared error. For the
temperature τ is what temperatures differ from 1 by, as a rule; for offsets it is estimated: Q = Σ estimate² ÷
s² over C classes is about C ± √(2C) if nothing is off, and C + τ² Σ 1/s² otherwise, and only what is two
standard deviations above C counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import Floats, JsonObject
from dptransfer.errors import ArgumentError
from dptransfer.exact.evaluation_layout import CONFIDENCE_KNOTS, TEMPERATURES
from dptransfer.release.charged_evaluation import Noisy, NoisyCounts, pool_counts, read_exactly

CHARGED = "charged evaluation"
SIMULATED = "public simulation"
_WORDS = {
    CHARGED: "calibrated on the released counts of a charged evaluation",
    SIMULATED: "calibrated on tasks made from public rows, not on private ones: a rough guide",
}
_TOO_NOISY = "a ranking and not calibrated: the charged counts have too much noise to correct them"
_SPREAD = 0.5  # of the logarithm of a temperature: the right one is mostly within a factor of 2 or 3
_STEP = 0.5  # predicted numbers overstate how far probabilities are off; twice it was at times too much
BELOW = 1 - 2.0**-20
"""What a class that offsets would put first has, relative to the predicted one: less, in float32 too."""


@dataclass(frozen=True)
class Calibration:
    """What turns scores into probabilities that mean what they say.

    Attributes:
        temperature: what the head's temperature is multiplied with; below 1 for a head that is too careful.
        offsets: added to the logit of each class.
        source: 'charged evaluation' or 'public simulation'.
    """

    temperature: float
    offsets: tuple[float, ...]
    source: str

    def __post_init__(self) -> None:
        """Refuse what no softmax can be taken with."""
        checks.moderate("temperature", self.temperature)
        checks.one_of("source", self.source, _WORDS)
        if not all(type(own) is float and abs(own) <= 100 for own in self.offsets):
            raise ArgumentError("offsets must be numbers between -100 and 100; one is not.")

    @property
    def words(self) -> str:
        """Where it is from, as people are told it; counts that ask for nothing have calibrated nothing."""
        nothing = self.temperature == 1 and not any(self.offsets)
        return _TOO_NOISY if nothing and self.source == CHARGED else _WORDS[self.source]

    def probabilities(self, scores: Floats, temperature: float) -> Floats:
        """Calibrated probabilities of scores, for a head of this temperature.

        >>> Calibration(1.0, (0.0, 3.0), CHARGED).probabilities(np.array([[1.0, 0.0]]), 1.0).round(3)
        array([[0.5, 0.5]])
        """
        chosen = scores.argmax(axis=1)[:, None]
        logits: Floats = scores / (temperature * self.temperature) + np.array(self.offsets)
        most = np.take_along_axis(logits, chosen, axis=1)
        weights = np.minimum(np.exp(np.minimum(logits - most, 0.0)), BELOW)
        np.put_along_axis(weights, chosen, 1.0, axis=1)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights

    def to_dict(self) -> JsonObject:
        """JSON-ready form."""
        return {"temperature": self.temperature, "offsets": list(self.offsets), "source": self.source}

    @classmethod
    @read_exactly
    def from_dict(cls, values: JsonObject) -> Calibration:
        """Read what `to_dict` wrote."""
        return cls(values["temperature"], tuple(values["offsets"]), values["source"])


def calibration_of(counts: NoisyCounts) -> Calibration:
    """The calibration that released counts ask for; none where noise may have made them up."""
    total = counts.right + counts.wrong
    if total.count <= 3 * math.sqrt(total.variance):
        return Calibration(1.0, (0.0,) * counts.classes, CHARGED)
    return Calibration(_temperature(counts, counts.right, total.count), _offsets(counts), CHARGED)


def _temperature(counts: NoisyCounts, right: Noisy, total: float) -> float:
    """Where the sum of confidences meets the number of right answers."""
    sums = [
        counts.cells("confidences", place)
        if factor != 1
        else pool_counts(counts.cells("confidences", place), own)
        for own in [_confidence(counts)]
        for place, factor in enumerate(TEMPERATURES)
    ]
    means = np.array([one.count for one in sums]) / total
    variances = np.array([one.variance for one in sums])
    falling = np.clip(_falling(means, 1 / variances), 1 / counts.classes, 1.0)
    logs = np.log(TEMPERATURES)
    accuracy = min(max(right.count / total, 0.0), 1.0)
    found = float(np.interp(accuracy, falling[::-1], logs[::-1]))
    # What a wrong mean moves the temperature by: the slope there, and at least half of that in all.
    least = (falling[0] - falling[-1]) / (logs[-1] - logs[0]) / 2
    slope = max(-float(np.interp(found, (logs[1:] + logs[:-1]) / 2, np.diff(falling) / np.diff(logs))), least)
    if slope <= 0:
        return 1.0
    sampled = counts.bound.examples * total * accuracy * (1 - accuracy)
    noise = float(np.interp(found, logs, variances)) + right.variance
    square = (sampled + noise) / (total * slope) ** 2
    return math.exp(found * _SPREAD**2 / (_SPREAD**2 + square))


def _confidence(counts: NoisyCounts) -> Noisy:
    """The sum of confidences as the block of reliability tells it, which shares them out between knots."""
    knots = np.array(CONFIDENCE_KNOTS)
    noise = 2 * float(knots @ knots) * counts.noise["reliability"] ** 2
    return Noisy(float(knots @ counts.blocks["reliability"].sum(axis=1)), noise)


def _offsets(counts: NoisyCounts) -> tuple[float, ...]:
    """log(true ÷ predicted number) by class, as far as it is known."""
    ratios, squares = [], []
    for c in range(counts.classes):
        found, missed, mistaken = counts.right_of(c), counts.missed_of(c), counts.mistaken_for(c)
        least = max(1.0, math.sqrt(found.variance + missed.variance))  # what noise alone may have made
        true, predicted = (max(found.count + other.count, least) for other in (missed, mistaken))
        sampled = counts.bound.examples * max(missed.count + mistaken.count, 0.0)
        ratios.append(math.log(true / predicted))
        squares.append((missed.variance + mistaken.variance + sampled) / ((true + predicted) / 2) ** 2)
    return tuple(_STEP * own for own in _shrunk(ratios, squares))


def _shrunk(estimates: Sequence[float], squares: Sequence[float]) -> list[float]:
    """Estimates with these variances, towards 0; the head of this file derives it.

    >>> _shrunk([0.1, 0.2], [1.0, 1.0])
    [0.0, 0.0]
    """
    classes = len(estimates)
    spread = math.fsum(own**2 / square for own, square in zip(estimates, squares, strict=True))
    above = max(0.0, spread - classes - 2 * math.sqrt(2 * classes))
    own = above / math.fsum(1 / square for square in squares)
    return [one * own / (own + square) for one, square in zip(estimates, squares, strict=True)]


def _falling(values: Floats, weights: Floats) -> Floats:
    """The falling sequence nearest to the values, by weighted least squares.

    >>> _falling(np.array([3.0, 1.0, 2.0, 0.0]), np.ones(4)).tolist()
    [3.0, 1.5, 1.5, 0.0]
    """
    places = range(len(values))

    def mean(start: int, stop: int) -> float:
        return float(np.average(values[start : stop + 1], weights=weights[start : stop + 1]))

    return np.array([max(min(mean(low, up) for low in range(at + 1)) for up in places[at:]) for at in places])
