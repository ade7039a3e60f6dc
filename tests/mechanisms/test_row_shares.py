"""Rounds of samples for queries that are no gradients, steps at recorded noise, and shares nobody knows."""

from dataclasses import replace

import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.mechanisms import (
    ExponentialMechanism,
    GaussianMechanism,
    GaussianRounds,
    GaussianShares,
    TopKMechanism,
)
from dptransfer.mechanisms.row_shares import not_recording, recording, shares_of, watch
from dptransfer.noise import SeededNoise
from dptransfer.privacy import (
    BestOfManyEvent,
    Bound,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    Unit,
)
from dptransfer.queries import ClassCounts, ClassSums, SimilarityScores, SoftmaxGradient, VoteCounts
from dptransfer.queries.query import one_by_one
from dptransfer.testing.sample_data import NoNoise

FEATURES = UnitNorm().fit(2, None)

ROWS, LABELS = np.array([[1.0, 0.0], [0.0, 0.0], [3.0, 4.0]]), np.array([0, 0, 1])

SUMS = ClassSums(FEATURES, 2)

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def test_a_watcher_is_told_of_the_step_and_of_the_exact_answer():
    class Watcher:
        def step(self, step, query, rows, labels, people):
            self.asked = step, query

        def answer(self, exact):
            self.exact = exact

    step, watcher = GaussianMechanism(SUMS, 1.0, ADD), Watcher()
    with watch(watcher):
        step.release(ROWS, LABELS, noise=SeededNoise(0))
    assert watcher.asked == (step, SUMS)
    assert (watcher.exact == SUMS(ROWS, LABELS)).all()
    step.release(ROWS[:0], LABELS[:0], noise=SeededNoise(0))
    assert watcher.exact.any()  # nobody watches any more


def test_nothing_is_computed_unless_somebody_is_recording():
    class Loud(ClassSums):
        def contribution_norms(self, rows, labels):
            raise AssertionError("somebody was asked")

    step = GaussianMechanism(Loud(FEATURES, 2), 1.0, ADD)
    step.release(ROWS, LABELS, noise=SeededNoise(0))
    with recording() as releases, pytest.raises(AssertionError, match="somebody"):
        step.release(ROWS, LABELS, noise=SeededNoise(0))
    assert releases == []


def test_recording_changes_no_answer_and_may_be_left_off():
    step = GaussianMechanism(SUMS, 1.0, ADD)
    plain = step.release(ROWS, LABELS, noise=SeededNoise(0))
    with recording() as releases:
        assert (step.release(ROWS, LABELS, noise=SeededNoise(0)) == plain).all()
        with not_recording():
            assert (step.release(ROWS, LABELS, noise=SeededNoise(0)) == plain).all()
    assert len(releases) == 1


def test_shares_are_what_each_row_moves_of_what_is_paid_for():
    with recording() as releases:
        GaussianMechanism(SUMS, 1.0, ADD).release(ROWS, LABELS, noise=SeededNoise(0))
        GaussianMechanism(SUMS, 1.0, REPLACE).release(ROWS, LABELS, noise=SeededNoise(0))
        GaussianMechanism(ClassCounts(2), 1.0, REPLACE).release(ROWS, LABELS, noise=SeededNoise(0))
    added, replaced, counted = (one.shares for one in releases)
    assert added == pytest.approx([1, 0, 1], abs=1e-8)
    assert replaced == pytest.approx([1, 0.5, 1], abs=1e-8)  # a row of zeros may be exchanged for a long one
    assert counted == pytest.approx([1, 1, 1])


def test_rounds_and_shares_of_a_budget_are_written_one_by_one_at_their_own_price():
    with recording() as releases:
        rounds = GaussianRounds(SUMS, 2.0, ADD, 3).open(noise=SeededNoise(0))
        rounds.release(SUMS, ROWS, LABELS)
        rounds.release(SUMS, ROWS, LABELS)
        GaussianShares(SUMS, 2.0, ADD, "sums").open(noise=SeededNoise(0)).release(SUMS, 0.25, ROWS, LABELS)
    assert [type(one.event) for one in releases] == [GaussianEvent] * 3
    assert [one.event.times for one in releases] == [1, 1, 1]
    assert [one.event.noise_multiplier for one in releases] == pytest.approx([2, 2, 4])


def test_a_sampled_round_is_written_for_all_rows_and_not_for_those_in_the_sample():
    with recording() as releases:
        rounds = GaussianRounds(SUMS, 2.0, ADD, 1, sampling_rate=0.01)
        rounds.open(noise=SeededNoise(0)).release(SUMS, ROWS, LABELS)
        rounds = GaussianRounds(SUMS, 2.0, REPLACE, 1, sampling_rate=0.01)
        rounds.open(noise=SeededNoise(0)).release(SUMS, ROWS, LABELS)
    assert all(isinstance(one.event, SampledGaussianEvent) for one in releases)
    assert releases[0].shares == pytest.approx([1, 0, 1], abs=1e-8)
    assert releases[1].shares == pytest.approx([1, 1, 1])  # priced by the longer of the two


@pytest.mark.parametrize("kind", [ExponentialMechanism, TopKMechanism])
def test_a_selection_is_written_by_the_range_of_a_rows_scores(kind):
    query = SimilarityScores(FEATURES, np.array([[2047, 0], [-2047, 0], [0, 2047]]), 2)
    given = (2,) if kind is TopKMechanism else ()
    with recording() as releases:
        for relation in (ADD, REPLACE):
            kind(query, 1.0, relation, *given).release(ROWS, LABELS, noise=SeededNoise(0))
    own = np.array([1.0, 0.0, 0.7])  # cosines 1, −1, 0; none; 0.6, −0.6, 0.8
    assert releases[0].shares == pytest.approx(own, abs=2e-3)
    assert releases[1].shares == pytest.approx((own + 1) / 2, abs=2e-3)


def test_a_contribution_that_is_too_long_is_not_hidden():
    class Unbounded(ClassSums):
        def contribution_norms(self, rows, labels):
            return np.full(len(rows), 3.0)

    with recording() as releases:
        for relation in (ADD, REPLACE):
            GaussianMechanism(Unbounded(FEATURES, 2), 1.0, relation).release(
                ROWS, LABELS, noise=SeededNoise(0)
            )
    assert releases[0].shares.tolist() == [3.0] * 3
    assert releases[1].shares.tolist() == [2.0] * 3


ADD = Relation.ADD_REMOVE

ROWS_SAMPLED, LABELS_SAMPLED = np.eye(4, 3), np.array([0, 1, 1, 0])

SUMS_SAMPLED = ClassSums(UnitNorm().fit(3, None), 2)


class TakesSome(NoNoise):
    """Samples that are known."""

    def poisson_sample(self, rows, rate):
        return np.array([0, 2])[: rows - 1]


def test_a_round_of_sums_is_about_all_rows_of_the_sampled_people():
    people = np.array([0, 1, 1, 2])
    of_people = replace(SUMS_SAMPLED, bound=Bound(Unit.PERSON, 1.0))
    rounds = GaussianRounds(of_people, 2.0, ADD, times=1, sampling_rate=0.5)
    answer = rounds.open(noise=TakesSome()).release(of_people, ROWS_SAMPLED, LABELS_SAMPLED, people)
    taken = np.isin(people, [0, 2])
    assert (
        answer == of_people(ROWS_SAMPLED[taken], LABELS_SAMPLED[taken], people[taken]) / of_people.grid
    ).all()


def test_a_step_without_losses_by_row_says_so():
    tuned = BestOfManyEvent(((GaussianEvent(4.0, ADD),),), 3, 1.0)
    with pytest.raises(ArgumentError):
        shares_of(tuned, SUMS_SAMPLED, ROWS_SAMPLED, LABELS_SAMPLED)


def test_ballots_have_no_losses_by_row():
    votes = VoteCounts(2, 3, unit=Unit.ROW)
    with pytest.raises(ArgumentError):
        votes.contribution_norms(ROWS_SAMPLED, LABELS_SAMPLED)


def test_a_measure_of_single_people_is_told_their_rows_alone():
    people = np.array([1, 0, 1, 0])

    def total(rows, labels, whose):
        assert (whose == 0).all()
        return labels.sum() + 10 * len(rows)

    assert one_by_one(total, ROWS_SAMPLED, LABELS_SAMPLED, people).tolist() == [21.0, 21.0]
    assert one_by_one(lambda rows, labels: labels.sum(), ROWS_SAMPLED, LABELS_SAMPLED).tolist() == [
        0.0,
        1.0,
        1.0,
        0.0,
    ]


def test_a_round_of_gradients_is_about_the_sampled_rows():
    gradient = SoftmaxGradient(UnitNorm().fit(3, None), np.eye(2, 3), np.zeros(2))
    rounds = GaussianRounds(gradient, 2.0, ADD, times=1, sampling_rate=0.5)
    answer = rounds.open(noise=TakesSome()).release(gradient, ROWS_SAMPLED, LABELS_SAMPLED)
    assert (answer == gradient(ROWS_SAMPLED[[0, 2]], LABELS_SAMPLED[[0, 2]]) / gradient.grid).all()
    assert (answer != gradient(ROWS_SAMPLED, LABELS_SAMPLED) / gradient.grid).any()
