"""The linear student: what noisy votes on public rows teach, and what other public rows add to that.

Votes are a nearly linear function of rows, seen through Gaussian noise of known scale. So the student is a
Bayesian linear regression of the votes on the rows; how strong the signal is, is read off the votes
themselves, by the largest marginal likelihood. Information does not depend on the number of questions: with Q
of them the noise is √Q times as large, and so many more are averaged. (A label by most votes throws all but
one number of a question away, and is mostly wrong where noise is large.)

The mean of the votes is left out, and of each class only the direction is kept: how often the teachers choose
a class tells as much about the public rows as about the class.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from dptransfer.base.types import Floats, Integers
from dptransfer.exact.chunks import one_blas_thread
from dptransfer.methods.heads.start import fitted_to_chances
from dptransfer.methods.votes.voting import TeacherAnswers, spread
from dptransfer.release.heads import LinearHead, unit_rows

_MOST_ROWS = 10_000  # public rows that self-training looks at
_SIGNALS = np.exp(np.linspace(math.log(1e-6), math.log(1e6), 97))  # variance of signal ÷ that of noise
_LOGIT = 1.702  # Φ(x) is the logistic function of 1.702·x, within 0.01
_FEWEST_CERTAIN = 0.05  # share of the rows: what fewer add is mostly accident
_PSEUDO_WEIGHT = 0.5  # of the directions learned from sure rows, beside those learned from votes
_PSEUDO_STRENGTH = 1e-3


def linear_student(
    rows_at: Callable[[Integers], Floats],
    pool: int,
    answers: TeacherAnswers,
    *,
    soft: bool,
    self_training: bool,
) -> LinearHead:
    """A linear head on mapped public rows: post-processing of the answers, and the same whenever it is asked.

    The numbers of self-training were decided on caltech101, gtsrb, hwu64 and news20. There and on four sets
    more (rsscn7, dtd10, agnews, swda; ε from 1 to 16) it changed accuracy by −1.2 to +3.4 points, mostly up.

    Args:
        rows_at: the public rows at these positions, mapped into the unit ball. Asked for are those that
            were answered and, to go on with, at most 10,000 that are spread over the pool.
        pool: how many there are.
        answers: what the teachers said about some of them.
        soft: whether to learn from noisy votes, or from the classes that have most of them.
        self_training: whether to go on with those rows, asked about or not, of whose class the student is
        sure.
    """
    classes = answers.votes.shape[1]
    targets = answers.votes if soft else np.eye(classes)[answers.labels]
    learned = _regressed(rows_at(answers.positions), targets, answers.scale if soft else 0.0)
    others = rows_at(spread(pool, _MOST_ROWS))
    directions = _self_trained(learned, others) if self_training else learned.directions
    temperature = float(np.median(learned.spread_of(others))) * math.sqrt(2) / _LOGIT
    return LinearHead(directions, -directions @ learned.centre, temperature=min(max(temperature, 1e-6), 1e6))


@dataclass(frozen=True, eq=False)
class _Regression:
    """What is believed about the directions of classes.

    Attributes:
        centre: mean of the rows.
        weights: (classes, dimension) expected votes more for a step along a row.
        covariance: (dimension, dimension) of each class's weights.
    """

    centre: Floats
    weights: Floats
    covariance: Floats

    @property
    def directions(self) -> Floats:
        """The weights of each class, of unit length."""
        return unit_rows(self.weights)

    def spread_of(self, rows: Floats) -> Floats:
        """The uncertainty of a class's score for each row, as its standard deviation."""
        away = rows - self.centre
        variance = np.einsum("ij,ij->i", away @ self.covariance, away)
        length = float(np.linalg.norm(self.weights, axis=1).mean())
        deviation: Floats = np.sqrt(np.maximum(variance, 0.0)) / max(length, 1e-12)
        return deviation

    def chances(self, rows: Floats) -> Floats:
        """(rows, classes) chances, as far as scores are uncertain: a difference of two is √2 as much so."""
        scores = (rows - self.centre) @ self.directions.T
        deviations = np.maximum(self.spread_of(rows), 1e-12)
        likely: Floats = softmax(_LOGIT / math.sqrt(2) * scores / deviations[:, None], axis=1)
        return likely


def _regressed(rows: Floats, targets: Floats, least_noise: float) -> _Regression:
    """Ridge regression with the ridge of the largest marginal likelihood, and noise of at least this scale.

    In the rows' singular directions (singular values s) targets have the variance v·(1 + r·s²), where v is
    that of noise and r that of weights ÷ v. Given r, the likeliest v is a mean; so r alone is searched for.
    """
    count, dimension = rows.shape
    if count < 2:  # nothing, or nothing to compare it with
        flat = np.zeros((targets.shape[1], dimension))
        return _Regression(np.zeros(dimension), flat, np.eye(dimension))
    centre, away = rows.mean(axis=0), rows - rows.mean(axis=0)
    with one_blas_thread(min(away.shape)):
        left, values, right = np.linalg.svd(away, full_matrices=False)
    seen = left.T @ (targets - targets.mean(axis=0))
    power, free = np.square(seen).sum(axis=1), (count - 1) * targets.shape[1]
    rest = float(np.square(targets - targets.mean(axis=0)).sum() - power.sum())

    def fit(signal: float) -> tuple[float, float]:
        grown = 1 + signal * values**2
        misfit = float((power / grown).sum()) + rest
        noise = max(misfit / free, least_noise**2, 1e-12)
        likelihood = -0.5 * (free * math.log(noise) + targets.shape[1] * np.log(grown).sum() + misfit / noise)
        return float(likelihood), noise

    signal = max(_SIGNALS, key=lambda one: fit(one)[0])
    shrunk = values / (values**2 + 1 / signal)
    with one_blas_thread(dimension):
        inverse = np.linalg.inv(away.T @ away + np.eye(dimension) / signal)
    return _Regression(centre, (right.T * shrunk @ seen).T, fit(signal)[1] * inverse)


def _self_trained(learned: _Regression, rows: Floats) -> Floats:
    """Directions that also separate the rows of whose class the student is sure, by soft pseudo-labels.

    As in FreeMatch (Wang et al. 2023) a class's threshold is lower where its rows are less sure on average;
    and all classes together count alike.
    """
    chances = learned.chances(rows)
    sure, likeliest, classes = chances.max(axis=1), chances.argmax(axis=1), chances.shape[1]
    held = np.bincount(likeliest, minlength=classes)
    mean = np.bincount(likeliest, sure, classes) / np.maximum(held, 1)
    certain = (1 + 1 / classes) / 2  # halfway from a guess to certainty, for the class whose rows are surest
    kept = sure >= (certain * mean / mean.max())[likeliest]
    if kept.mean() < _FEWEST_CERTAIN:
        return learned.directions
    weights = 1 / np.bincount(likeliest[kept], minlength=classes)[likeliest[kept]]
    separating = fitted_to_chances(rows[kept], chances[kept], weights, _PSEUDO_STRENGTH)
    return unit_rows(learned.directions + _PSEUDO_WEIGHT * unit_rows(separating))
