"""Score queries with scores given in advance, and neighbours of score vectors."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dptransfer.privacy import Relation, Unit


@dataclass(frozen=True, eq=False)
class GivenScores:
    """Scores of one or more classes, as if some data set had them."""

    scores: np.ndarray
    score_range: int
    label: str = "given scores"
    unit: Unit = Unit.ROW

    @property
    def classes(self):
        return self.scores.shape[1]

    def __call__(self, rows, labels):
        return self.scores


def neighbouring_scores(rng, candidates, score_range, relation, trials=60):
    """Pairs of score vectors of one class: each entry moves by an integer in [0, Δ], or in [−Δ, Δ].

    Half of the moves go to the ends, where the worst pairs are; some vectors are nearly tied, some far apart.
    """
    for trial in range(trials):
        spread = [1, score_range, 20 * score_range][trial % 3]
        first = rng.integers(0, spread + 1, candidates)
        low = 0 if relation is Relation.ADD_REMOVE else -score_range
        ends = rng.choice([low, score_range], candidates)
        second = first + (ends if trial % 2 else rng.integers(low, score_range + 1, candidates))
        yield first, second


def loss_of(law, first, second):
    """Smallest and largest log-ratio of the two output laws."""
    ratio = np.log(law(second)) - np.log(law(first))
    return float(ratio.min()), float(ratio.max())


def worst_losses(law, candidates, score_range, relation, seed=0, trials=60):
    """(largest |log-ratio|, largest range) over many neighbours, label changes included under replace-one.

    A label change takes the example out of one class and into another: the losses of the two classes add.
    """
    rng = np.random.default_rng(seed)
    largest, widest = 0.0, 0.0
    for first, second in neighbouring_scores(rng, candidates, score_range, relation, trials):
        low, high = loss_of(law, first, second)
        largest, widest = max(largest, high, -low), max(widest, high - low)
    if relation is Relation.REPLACE_ONE:
        one_way = list(neighbouring_scores(rng, candidates, score_range, Relation.ADD_REMOVE, trials))
        for (a, b), (c, d) in pairwise(one_way):
            leaves, joins = loss_of(law, b, a), loss_of(law, c, d)
            low, high = leaves[0] + joins[0], leaves[1] + joins[1]
            largest, widest = max(largest, high, -low), max(widest, high - low)
    return largest, widest


def losses_over_classes(law, first, second):
    """Smallest and largest log-ratio of the choices for all classes together, scores by column.

    They are drawn independently, so a joint output's log-ratio is the sum of its parts', and each end of the
    sum is the sum of the ends: this is the enumeration of all joint outputs.
    """
    ends = [loss_of(law, *columns) for columns in zip(first.T, second.T, strict=True)]
    return sum(low for low, _ in ends), sum(high for _, high in ends)


def worst_losses_of_persons(law, candidates, classes, score_range, relation, seed=0, trials=60):
    """(largest |log-ratio|, largest range) over neighbours that differ in a person who has all classes."""
    rng = np.random.default_rng(seed)
    largest, widest = 0.0, 0.0
    for trial in range(trials):
        spread = [1, score_range, 20 * score_range][trial % 3]
        first = rng.integers(0, spread + 1, (candidates, classes))
        second = first + _person(rng, candidates, classes, score_range, trial % 2)
        if relation is Relation.REPLACE_ONE:
            first = first + _person(rng, candidates, classes, score_range, trial % 2)
        low, high = losses_over_classes(law, first, second)
        largest, widest = max(largest, high, -low), max(widest, high - low)
    return largest, widest


def _person(rng, candidates, classes, score_range, extreme):
    """What one person adds to the scores: in class c at most Δ_c, where these are one range together."""
    parts = np.diff(np.sort(rng.integers(0, score_range + 1, classes - 1)), prepend=0, append=score_range)
    if extreme:
        return rng.choice([0, 1], (candidates, classes)) * parts
    return rng.integers(0, parts + 1, (candidates, classes))
