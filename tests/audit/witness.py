"""An attacker who sees every noisy answer of a run and knows everything but which of two data sets it was.

That is more than a release shows, and all of it is covered by the guarantee. Both data sets hold at most one
row, or one person with forty, so that nothing hides them but the noise, and settings are such that they move
every answer as far as is paid for.
"""

from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.mechanisms import GaussianMechanism, RoundsLeft
from dptransfer.methods import METHODS, FromShots, FromZero, Pace
from dptransfer.methods.heads import mixed
from dptransfer.methods.heads.descent import UpdateRule
from dptransfer.methods.method import Task
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation

DELTA, EPSILON = 1e-5, 8.0
WIDTH = 2
EAST = np.eye(1, WIDTH)
FEATURES = UnitNorm().fit(WIDTH, None)
CLASSES = (0, 1)
SHOTS = PublicEmbeddings(
    np.array([[1.0, 0.1], [-1.0, 0.1], [1.0, 0.1]]), [0, 1, 1], classes=CLASSES
)  # the last contradicts the first, so their mean gradient, to which `ppgd` clips, is short
EASY = PublicEmbeddings(SHOTS.rows[:2], [0, 1], classes=CLASSES)
"""Once fitted they have short gradients, to which `adamix` clips; the private row contradicts them."""


def holding(rows, label=1, **people):
    return PrivateEmbeddings(rows, [label] * len(rows), classes=CLASSES, size=1, name="audit", **people)


def of_one_person(rows):
    """The same with all rows of one person, who is protected with all of them."""
    return holding(rows, people=[7] * len(rows), rows_per_person=len(FORTY))


def pairs(holder, rows):
    """Neighbours under each relation: these rows, and none; these rows, and their opposites."""
    held = holder(rows)
    return {Relation.ADD_REMOVE: (held, holder(rows[:0])), Relation.REPLACE_ONE: (held, holder(-rows))}


FORTY = np.repeat(EAST, 40, axis=0)
PAIRS = pairs(holding, EAST)
PAIRS_OF_PERSONS = pairs(of_one_person, FORTY)
SOMEBODY = PAIRS[Relation.ADD_REMOVE][0]

WORST = {
    "features": UnitNorm(),
    "pace": Pace(reach=1e-3),  # weights that hardly move: every step asks about the same gradient
    "start": FromZero(),
    "clip": 0.05,
    "sampling_rate": 0.9,
    "adapt_rate": 1e-9,
    "count_share": 0.0,  # rounds alone; a run with counts is audited as a whole
}
"""Settings under which the worst case is reached, for the methods that have them."""


def method_of(name, steps=1, **more):
    made = METHODS[name]()
    settings = {**WORST, "steps": steps, **more}
    if name == "adamix":
        del settings["start"]
    own = {one.name for one in fields(made)}
    return replace(made, **{key: value for key, value in settings.items() if key in own})


def promise(method, relation, private=SOMEBODY):
    return method.plan(private.facts, Budget(epsilon=EPSILON, delta=DELTA, relation=relation), EASY)


class Shown(NamedTuple):
    """One noisy answer, and how it came about."""

    query: object
    answer: np.ndarray
    scale: float
    rate: float
    data: tuple  # rows and labels, and people where persons are protected


@contextmanager
def witnessing():
    """Everything that mechanisms show inside, in order."""
    shown = []
    by_one, by_rounds = GaussianMechanism.release, RoundsLeft.release

    def one(self, rows, labels, people=None, *, noise):
        answer = by_one(self, rows, labels, people, noise=noise)
        shown.append(Shown(self.query, answer, self.scale, 1.0, told(rows, labels, people)))
        return answer

    def in_rounds(self, query, rows, labels, people=None):
        answer = by_rounds(self, query, rows, labels, people)
        seen = told(rows, labels, people)
        shown.append(Shown(query, answer, self.paid.scale, self.paid.sampling_rate, seen))
        return answer

    def told(*data):
        return tuple(part for part in data if part is not None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GaussianMechanism, "release", one)
        patch.setattr(RoundsLeft, "release", in_rounds)
        yield shown


@cache
def public_start(start, features, public):
    """Where descent starts: fitted to public rows alone, so it is the same in every run."""
    return start.weights(features, SOMEBODY.facts, public)


def shown_by(method, plan, private, noise, features=FEATURES):
    public = EASY if method.name == "adamix" else SHOTS
    with witnessing() as shown, pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixed.MeanClip, "head", UpdateRule.head)  # its last fit is slow, and shows nothing new
        patch.setattr(mixed, "SMALLEST_CLIP", 1e-3)  # the worst case: rows that fit reach the clip, too
        if isinstance(getattr(method, "start", None), FromShots):
            weights = public_start(method.start, features, public)
            patch.setattr(FromShots, "weights", lambda *given: weights.copy())
        method.run(Task(plan, features, private, noise, public))
    return shown


def likelihood_ratio(step, one, other):
    """Log of how much likelier an answer is on the first data set, at the noise that was promised.

    `one` and `other` are the exact answers on either.
    """

    def log_density(centre):
        present = -float(((step.answer - centre) ** 2).sum()) / (2 * step.scale**2)
        if step.rate == 1:
            return present
        absent = -float((step.answer**2).sum()) / (2 * step.scale**2)
        return float(np.logaddexp(np.log1p(-step.rate) + absent, np.log(step.rate) + present))

    return log_density(one) - log_density(other)


def exact_answer(step, seen):
    """To the question of one step, on the row as the same step of another run saw it, mapped."""
    return step.query(*seen.data) / step.query.grid


def over_runs(
    name,
    relation,
    trials,
    *,
    steps=1,
    noise=SeededNoise,
    change=lambda plan: plan,
    features=FEATURES,
    pair=None,
    **more,
):
    """Promised events, and the log-likelihood ratio of each run on one data set and on the other."""
    method = method_of(name, steps, **more)
    pair = PAIRS[relation] if pair is None else pair
    promised = promise(method, relation, pair[0])
    plan = change(promised)

    def run(private, seed):
        return shown_by(method, plan, private, noise(seed), features)

    seen = [run(private, 0) for private in pair]

    def ratio(private, seed):
        steps = zip(run(private, seed), *seen, strict=True)
        return sum(
            likelihood_ratio(step, exact_answer(step, one), exact_answer(step, other))
            for step, one, other in steps
        )

    return promised.events, *(
        [ratio(private, 1 + trial + trials * side) for trial in range(trials)]
        for side, private in enumerate(pair)
    )


def over_rounds(name, relation, trials, *, noise=SeededNoise, pair=None):
    """The same for one round of a method of rounds: one long run is as many trials as it has rounds."""
    method = method_of(name)
    pair = PAIRS[relation] if pair is None else pair
    promised = promise(method, relation, pair[0])
    (paid,) = promised.mechanisms
    assert paid.times == 1
    plan = replace(promised, mechanisms=(replace(paid, times=trials),))
    runs = [shown_by(method, plan, private, noise(side)) for side, private in enumerate(pair)]
    exact = [exact_answer(runs[0][0], run[0]) for run in runs]  # the weights, and so the questions, stay
    return promised.events, *([likelihood_ratio(step, *exact) for step in run] for run in runs)
