"""Prototype methods against worst-case neighbours; `tests/audit/test_worst_case.py` has the others.

One release over many classes is many trials at once: each class holds the same neighbour of its own, and its
noise is independent of the others', at the scale that a data set of one class would get.
"""

from dataclasses import replace

import numpy as np
import pytest

from dptransfer.accounting import mu_for
from dptransfer.audit.lower_bound import counted_epsilon
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.mechanisms import Selection, SharesLeft, TopKMechanism
from dptransfer.methods import METHODS, PublicPrototypes, TopKPrototypes
from dptransfer.methods.heads import public_prior
from dptransfer.methods.method import Task, with_query
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation
from dptransfer.queries import ClassCounts, ClassSums, SoftmaxGradient

DELTA = 1e-5
EAST = np.array([1.0, 0.0])
POOL = PublicEmbeddings(np.array([EAST, EAST, -EAST, -EAST]))
FEATURES = UnitNorm().fit(2, None)


def data(row, trials, labels=None):
    """One example with this row in each of the classes, or in those given; none at all without a row."""
    labels = range(trials) if labels is None else labels
    rows = np.zeros((0, 2)) if row is None else np.tile(row, (len(labels), 1))
    return PrivateEmbeddings(
        rows, list(labels)[: len(rows)], classes=range(trials), class_counts=[1] * trials, name="audit"
    )


def neighbours(relation, trials):
    if relation is Relation.ADD_REMOVE:
        return data(None, trials), data(EAST, trials)
    return data(EAST, trials), data(-EAST, trials)


def with_a_quarter_of_the_noise(plan):
    """A planted bug: the steps run with less noise than the plan was costed for."""
    return replace(plan, mechanisms=tuple(map(_bolder, plan.mechanisms)))


def _bolder(step):
    if isinstance(step, Selection | TopKMechanism):
        return replace(step, epsilon=step.epsilon * 4)
    return replace(step, noise_multiplier=step.noise_multiplier / 4)


def noisy_answer(method, plan, private, noise):
    """Sums along the neighbour's row, plus counts, by their weight, where they move: the likelihood ratio."""
    (step,) = plan.mechanisms
    answer = with_query(step, features=FEATURES).release(private.rows, private.labels, noise=noise)
    weight = getattr(step.query, "exact_weight", 0.0) * (step.relation is Relation.ADD_REMOVE)
    return answer[:, 0] + answer[:, 2:].sum(axis=1) * weight


def weighted_steps(method, plan, private, noise):
    """All steps, with a radius at which the clip binds, each weighted by 1 ÷ its variance."""
    classes = len(private.facts.classes)
    total = np.zeros(classes)
    for step in plan.mechanisms:
        moved = {"centres": np.zeros((classes, 2)), "radii": np.full(classes, 0.5)}
        made = with_query(step, features=FEATURES, **moved)
        total += made.release(private.rows, private.labels, noise=noise)[:, 0] / step.scale**2
    return total


def weighted_shares(method, plan, private, noise):
    """Counts and sums in shares of one budget, each weighted by 1 ÷ its variance."""
    (shares,) = plan.mechanisms
    classes = len(private.facts.classes)
    purse = shares.open(noise=noise)
    total = np.zeros(classes)
    for query, share in ((ClassCounts(classes), 0.03), (ClassSums(FEATURES, classes), 0.97)):
        answer = purse.release(query, share, private.rows, private.labels).reshape(classes, -1)
        total += answer[:, 0] / purse.scale(query, share) ** 2
    return total


def chosen_direction(method, plan, private, noise):
    """How many of the chosen public rows look like the private one."""
    chosen = np.array(method.run(Task(plan, FEATURES, private, noise, POOL)).prototypes)
    return POOL.rows[chosen, 0].sum(axis=1)


APPROXIMATE, PURE = {"epsilon": 1.0, "delta": DELTA}, {"epsilon": 1.0}
CASES = {
    "mean": (METHODS["mean"](), noisy_answer, APPROXIMATE),
    "mean-estimation": (METHODS["mean-estimation"](), noisy_answer, APPROXIMATE),
    "coinpress": (METHODS["coinpress"](), weighted_steps, APPROXIMATE),
    "public-prior": (METHODS["public-prior"](features=UnitNorm()), weighted_shares, APPROXIMATE),
    "exponential": (PublicPrototypes(mechanism="exponential"), chosen_direction, PURE),
    "permute-and-flip": (PublicPrototypes(mechanism="permute-and-flip"), chosen_direction, PURE),
    "laplace": (PublicPrototypes(mechanism="laplace"), chosen_direction, PURE),
    "top-k": (TopKPrototypes(k=2), chosen_direction, PURE),
}


def audited(case, relation, seed, *, change=lambda plan: plan, relabelled=False):
    method, statistic, amount = CASES[case]
    budget = Budget(**amount, relation=relation)
    trials = 1_000 if statistic is chosen_direction else 12_000
    pair = neighbours(relation, trials)
    if relabelled:  # the example moves between two classes, so what they show together is one trial
        pair = [data(EAST, trials, range(start, trials, 2)) for start in (0, 1)]
    plan = change(method.plan(pair[0].facts, budget, POOL))
    samples = [statistic(method, plan, private, SeededNoise(seed + i)) for i, private in enumerate(pair)]
    if relabelled:
        samples = [sample[0::2] - sample[1::2] for sample in samples]
    return counted_epsilon(*samples, delta=budget.delta)


SETTINGS = [
    (case, relation)
    for case in CASES
    for relation in Relation
    if case != "coinpress" or relation is Relation.REPLACE_ONE
]


@pytest.mark.parametrize(("case", "relation"), SETTINGS)
def test_the_audited_epsilon_is_below_the_claim_and_a_quarter_of_the_noise_is_caught(case, relation):
    assert audited(case, relation, 1) <= 1.0
    assert audited(case, relation, 3, change=with_a_quarter_of_the_noise) > 1.0


@pytest.mark.parametrize("case", CASES)
def test_a_changed_label_is_covered_by_replace_one(case):
    assert audited(case, Relation.REPLACE_ONE, 5, relabelled=True) <= 1.0


STEPPING = METHODS["public-prior"](features=UnitNorm())


def recorded(plan, private, seed=0):
    """What a run of public-prior releases: queries, the rows and labels they saw, and their noise."""
    releases, scales = [], []

    class Listening(SeededNoise):
        def discrete_gaussian(self, scale, shape):
            scales.append(scale)
            return super().discrete_gaussian(scale, shape)

    release = SharesLeft.release

    def listening(purse, query, share, rows, labels, people=None):
        releases.append((query, rows, labels))
        return release(purse, query, share, rows, labels, people)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharesLeft, "release", listening)
        patch.setattr(public_prior, "_LONG_TAIL", np.inf)  # which the worst case has, and steps are audited
        STEPPING.run(Task(plan, STEPPING.prepare(private.facts, POOL), private, Listening(seed), POOL))
    return [(*release, scale) for release, scale in zip(releases, scales, strict=True)]


def without_the_last(rows, labels):
    return rows[:-1], labels[:-1]


def last_turned_round(rows, labels):
    return np.concatenate([rows[:-1], -rows[-1:]]), labels


def last_relabelled(rows, labels):
    return rows, np.append(labels[:-1], 1 - labels[-1])


def likelihood_ratios(releases, change, seed, trials=12_000):
    """Log-likelihood ratio of all releases of a run, over many draws of their noise, on both neighbours.

    The queries are those of one run, so they depend on its earlier answers: a history that both neighbours
    share, as in the proof of adaptive composition. Rows are mapped one by one, so changing the last mapped
    row is changing the last row.
    """
    noise = SeededNoise(seed)
    samples = np.zeros((2, trials))
    for query, rows, labels, scale in releases:
        answers = [query(*pair).ravel() for pair in ((rows, labels), change(rows, labels))]
        direction = (answers[0] - answers[1]) / scale**2
        for sample, answer in zip(samples, answers, strict=True):
            sample += (answer + noise.discrete_gaussian(scale, (trials, answer.size))) @ direction
    return samples


def releases_of_a_run(relation, change_plan=lambda plan: plan):
    """A large class on both sides, and last the only example of the other class: the worst case.

    Wherever it is, it looks like one of the large class, so its gradient is clipped, and turned round it is
    the opposite.
    """
    rows = np.repeat([EAST, -EAST, EAST], [160, 160, 1], axis=0)
    private = PrivateEmbeddings(rows, np.repeat([0, 0, 1], [160, 160, 1]), classes=range(2), name="audit")
    plan = change_plan(STEPPING.plan(private.facts, Budget(**APPROXIMATE, relation=relation), POOL))
    releases = recorded(plan, private)
    steps = [isinstance(query, SoftmaxGradient) for query, *_ in releases]
    assert steps == [False] + [True] * STEPPING.steps
    return releases


def audited_steps(relation, change, seed, change_plan=lambda plan: plan):
    samples = likelihood_ratios(releases_of_a_run(relation, change_plan), change, seed)
    return counted_epsilon(*samples, delta=DELTA)


NEIGHBOURS = [
    (Relation.ADD_REMOVE, without_the_last),
    (Relation.REPLACE_ONE, last_turned_round),
    (Relation.REPLACE_ONE, last_relabelled),
]


@pytest.mark.parametrize(("relation", "change"), NEIGHBOURS)
def test_the_audited_epsilon_of_gradient_steps_is_below_the_claim(relation, change):
    assert audited_steps(relation, change, 7) <= 1.0


@pytest.mark.parametrize(("relation", "change"), NEIGHBOURS[:2])
def test_a_quarter_of_the_noise_on_gradient_steps_is_caught(relation, change):
    assert audited_steps(relation, change, 9, with_a_quarter_of_the_noise) > 1.0


@pytest.mark.parametrize(("relation", "change"), NEIGHBOURS)
def test_what_one_example_moves_in_all_steps_together_is_what_was_paid_for(relation, change):
    """Without chance: μ² adds up to no more than the plan's, and in the worst case to all of it."""

    def mu(change_plan):
        gaps = [
            np.linalg.norm(query(rows, labels) - query(*change(rows, labels))) / scale
            for query, rows, labels, scale in releases_of_a_run(relation, change_plan)
        ]
        return float(np.linalg.norm(gaps))

    paid = mu_for(1.0, DELTA)
    reached = mu(lambda plan: plan) / paid
    assert (0.45 if change is last_relabelled else 0.97) < reached <= 1
    assert mu(with_a_quarter_of_the_noise) > paid
