"""One person's forty rows are in or out: promises hold, and faults in how persons are bounded are caught."""

import numpy as np
import pytest

from dptransfer.accounting import mu_for
from dptransfer.audit.lower_bound import counted_epsilon
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.mechanisms import SELECTIONS, TopKMechanism, row_shares
from dptransfer.mechanisms import gaussian as gaussian_file
from dptransfer.methods import METHODS
from dptransfer.methods.method import Task
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Bound, Budget, Relation, Unit
from dptransfer.queries import SimilarityScores
from dptransfer.queries.query import BoundedQuery
from mechanisms.samples import GivenScores
from queries.similarity_faults import EachClassByItself, EachRowInFull

from .test_worst_case import OF_ROUNDS, OF_RUNS, SAMPLED, Quieter, excess, gaussian
from .witness import (
    CLASSES,
    DELTA,
    EAST,
    EPSILON,
    FEATURES,
    FORTY,
    PAIRS_OF_PERSONS,
    WORST,
    over_rounds,
    over_runs,
    witnessing,
)

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
ROUNDS = 200
"""A person who moves answers twice as far as is paid for is missed with a probability of 5e-10 by `gaussian`,
one who moves them five times as far, as the faults below do at least, of less than 1e-15 by `excess`."""
OF_SAMPLES = [SAMPLED[0], *(pytest.param(name, marks=pytest.mark.slow) for name in SAMPLED[1:])]


def rows_bounded_singly(people):
    return np.arange(len(people))


def persons_split_over_chunks(people):
    """Each eight rows of a person are bounded by themselves, and added up."""
    return np.unique(np.column_stack([people, np.arange(len(people)) // 8]), axis=0, return_inverse=True)[1]


FAULTS = [rows_bounded_singly, persons_split_over_chunks]


@pytest.fixture
def plant(monkeypatch):
    """Plants a fault in how every query tells persons apart."""

    def planted(fault):
        def faulty(self, rows, labels, people):
            return self.of_people(rows, labels, fault(people).ravel())

        monkeypatch.setattr(BoundedQuery, "__call__", faulty)

    return planted


def rounds_of(name, relation, trials, **options):
    return over_rounds(name, relation, trials, pair=PAIRS_OF_PERSONS[relation], **options)


def runs_of(name, relation, trials):
    return over_runs(name, relation, trials, pair=PAIRS_OF_PERSONS[relation])


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("name", OF_ROUNDS)
def test_rounds_of_gradients_keep_their_promise_to_a_person(name, relation):
    found = rounds_of(name, relation, ROUNDS)
    assert all(event.unit is Unit.PERSON for event in found[0])
    assert 0.4 * EPSILON < gaussian(found) <= EPSILON
    assert excess(found) <= 0


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", [*OF_ROUNDS, *SAMPLED])
def test_faulty_bounds_of_persons_are_caught_in_rounds(name, fault, plant):
    plant(fault)
    assert excess(rounds_of(name, ADD, 300 if name in SAMPLED else ROUNDS)) > 0


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("name", OF_SAMPLES)
def test_samples_of_persons_keep_their_promise_and_half_the_noise_is_caught(name, relation):
    assert excess(rounds_of(name, relation, 300)) <= 0
    assert excess(rounds_of(name, relation, 900, noise=Quieter)) > 0


@pytest.mark.parametrize("name", OF_SAMPLES)
def test_a_person_who_counts_twice_in_a_sample_is_caught(name, monkeypatch):
    """As if a sample were drawn with repetition, and each time were somebody else."""
    honest = row_shares.exact_answer

    def twice(query, rows, labels, people):
        both = np.concatenate([people, people + people.max(initial=-1) + 1])
        return honest(query, np.tile(rows, (2, 1)), np.tile(labels, 2), both)

    monkeypatch.setattr(row_shares, "exact_answer", twice)
    assert excess(rounds_of(name, ADD, 600)) > 0


@pytest.mark.parametrize("name", OF_SAMPLES)
def test_coins_for_rows_in_place_of_persons_are_caught(name, monkeypatch):
    """Somebody with forty rows is then in nearly every sample, whatever the rate that is paid for."""
    monkeypatch.setitem(WORST, "sampling_rate", 0.1)
    assert excess(rounds_of(name, ADD, 300)) <= 0
    coins = np.random.default_rng(0)
    monkeypatch.setattr(
        gaussian_file.sums, "sampled_rows", lambda _, people: np.flatnonzero(coins.random(len(people)) < 0.1)
    )
    assert excess(rounds_of(name, ADD, 300)) > 0


@pytest.mark.parametrize("name", OF_RUNS)
def test_single_releases_keep_their_promise_to_a_person(name):
    assert 0.2 * EPSILON < gaussian(runs_of(name, ADD, 100)) <= EPSILON


@pytest.mark.parametrize("name", OF_RUNS)
@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_bounds_of_persons_are_caught_in_single_releases(name, fault, plant):
    plant(fault)
    assert gaussian(runs_of(name, ADD, 100)) > EPSILON


def without_the_last_person(rows, labels, people):
    others = people != people.max()
    return rows[others], labels[others], people[others]


def last_person_turned_round(rows, labels, people):
    return np.where(people[:, None] == people.max(), -rows, rows), labels, people


@pytest.mark.parametrize(
    ("relation", "change"), [(ADD, without_the_last_person), (REPLACE, last_person_turned_round)]
)
def test_what_a_person_moves_in_all_shares_of_a_budget_is_what_was_paid_for(relation, change, plant):
    """Without chance: μ² of counts and gradient steps adds up to no more than the plan's.

    Two classes far apart, of a row each person, and last somebody whose forty rows contradict their class.
    """
    method = METHODS["public-prior"](features=UnitNorm())
    rows, sizes = np.vstack([EAST, -EAST, EAST]), [160, 160, 40]
    people = np.minimum(np.arange(sum(sizes)), 320)
    private = PrivateEmbeddings(
        np.repeat(rows, sizes, axis=0), np.repeat([0, 1, 1], sizes), people=people, classes=CLASSES
    )
    public = PublicEmbeddings(rows[:2])
    plan = method.plan(private.facts, Budget(epsilon=EPSILON, delta=DELTA, relation=relation), public)
    with witnessing() as shown:
        method.run(Task(plan, method.prepare(private.facts, public), private, SeededNoise(0), public))
    assert len(shown) == 1 + method.steps

    def mu():
        gaps = [step.query(*step.data) - step.query(*change(*step.data)) for step in shown]
        shares = zip(gaps, shown, strict=True)
        return np.linalg.norm([np.linalg.norm(gap) / step.query.grid / step.scale for gap, step in shares])

    paid = mu_for(EPSILON, DELTA)
    assert 0.6 * paid < mu() <= paid
    plant(persons_split_over_chunks)
    assert mu() > paid


NORTH = np.array([[0.0, 1.0]])
CHOOSING = {**SELECTIONS, "top-k": TopKMechanism}


def chosen(name, relation, query=SimilarityScores, classes=12, draws=120):
    """In how many classes the direction of forty rows is chosen that somebody has, in all classes, or not."""
    candidates = FEATURES.lattice(np.vstack([EAST, NORTH]), 2047)
    asked = query(FEATURES, candidates, classes, 1.0, 2.0, bound=Bound(Unit.PERSON))
    north = np.repeat(NORTH, 40, axis=0)
    samples = []
    for seed, rows in enumerate((FORTY, FORTY[:0] if relation is ADD else north)):
        noise = SeededNoise(seed)
        scores = asked(rows, np.arange(len(rows)) % classes, np.zeros(len(rows), dtype=np.int64))
        repeated = GivenScores(np.tile(scores, (1, draws)), asked.score_range)  # classes are independent
        made = CHOOSING[name](repeated, 1.0, relation)
        places = made.release(None, None, noise=noise).reshape(draws, classes)
        samples.append((places == 0).sum(axis=1).tolist())
    return samples


@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.parametrize("relation", Relation)
def test_selections_keep_their_promise_to_a_person_in_all_classes(name, relation):
    assert counted_epsilon(*chosen(name, relation), 0.0) <= 1.0


@pytest.mark.parametrize(
    ("name", "fault", "classes"),  # sets of one are the first; a fault for each class needs more classes
    [
        pytest.param("exponential", EachRowInFull, 12, marks=pytest.mark.slow),
        ("permute-and-flip", EachRowInFull, 12),
        ("permute-and-flip", EachClassByItself, 16),
    ],
)
def test_faulty_bounds_of_persons_are_caught_in_selections(name, fault, classes):
    assert counted_epsilon(*chosen(name, REPLACE, fault, classes, draws=250), 0.0) > 1.0
