"""Rounds of samples for queries that are no gradients, steps at recorded noise, and shares nobody knows."""

from dataclasses import replace

import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.mechanisms import GaussianMechanism, GaussianRounds, jointly
from dptransfer.mechanisms.mechanism import at_noise_of
from dptransfer.mechanisms.row_shares import shares_of
from dptransfer.privacy import BestOfManyEvent, Bound, GaussianEvent, Relation, SelectionEvent, Unit
from dptransfer.queries import ClassCounts, ClassSums, SoftmaxGradient, VoteCounts
from dptransfer.queries.query import one_by_one
from dptransfer.testing.sample_data import NoNoise

from .test_joint_rounds import parts

ADD = Relation.ADD_REMOVE
ROWS, LABELS = np.eye(4, 3), np.array([0, 1, 1, 0])
SUMS = ClassSums(UnitNorm().fit(3, None), 2)


class TakesSome(NoNoise):
    """Samples that are known."""

    def poisson_sample(self, rows, rate):
        return np.array([0, 2])[: rows - 1]


def test_a_round_of_sums_is_about_the_sampled_rows():
    rounds = GaussianRounds(SUMS, 2.0, ADD, times=1, sampling_rate=0.5)
    answer = rounds.open(noise=TakesSome()).release(SUMS, ROWS, LABELS)
    assert (answer == SUMS(ROWS[[0, 2]], LABELS[[0, 2]]) / SUMS.grid).all()


def test_a_round_of_sums_is_about_all_rows_of_the_sampled_people():
    people = np.array([0, 1, 1, 2])
    of_people = replace(SUMS, bound=Bound(Unit.PERSON, 1.0))
    rounds = GaussianRounds(of_people, 2.0, ADD, times=1, sampling_rate=0.5)
    answer = rounds.open(noise=TakesSome()).release(of_people, ROWS, LABELS, people)
    taken = np.isin(people, [0, 2])
    assert (answer == of_people(ROWS[taken], LABELS[taken], people[taken]) / of_people.grid).all()


def test_a_step_takes_the_noise_of_a_recorded_event_of_its_kind():
    step = GaussianMechanism(ClassCounts(3), 2.0, ADD)
    assert at_noise_of(replace(step.event, noise_multiplier=5.0), step) == replace(step, noise_multiplier=5.0)
    assert at_noise_of(SelectionEvent(0.5, ADD, True, "exponential"), step) is step


def test_joint_rounds_take_it_all_together():
    (joint,) = jointly(parts(), "both")
    louder = at_noise_of(replace(joint.event, noise_multiplier=2 * joint.event.noise_multiplier), joint)
    assert louder.event.noise_multiplier == pytest.approx(2 * joint.event.noise_multiplier)
    assert louder.reach == joint.reach
    first, second = ([one.noise_multiplier for one in each.parts] for each in (joint, louder))
    assert second == pytest.approx([2 * one for one in first])


def test_a_step_without_losses_by_row_says_so():
    tuned = BestOfManyEvent(((GaussianEvent(4.0, ADD),),), 3, 1.0)
    with pytest.raises(ArgumentError):
        shares_of(tuned, SUMS, ROWS, LABELS)


def test_ballots_have_no_losses_by_row():
    votes = VoteCounts(2, 3, unit=Unit.ROW)
    with pytest.raises(ArgumentError):
        votes.contribution_norms(ROWS, LABELS)


def test_a_measure_of_single_people_is_told_their_rows_alone():
    people = np.array([1, 0, 1, 0])

    def total(rows, labels, whose):
        assert (whose == 0).all()
        return labels.sum() + 10 * len(rows)

    assert one_by_one(total, ROWS, LABELS, people).tolist() == [21.0, 21.0]
    assert one_by_one(lambda rows, labels: labels.sum(), ROWS, LABELS).tolist() == [0.0, 1.0, 1.0, 0.0]


def test_a_round_of_gradients_is_about_the_sampled_rows():
    gradient = SoftmaxGradient(UnitNorm().fit(3, None), np.eye(2, 3), np.zeros(2))
    rounds = GaussianRounds(gradient, 2.0, ADD, times=1, sampling_rate=0.5)
    answer = rounds.open(noise=TakesSome()).release(gradient, ROWS, LABELS)
    assert (answer == gradient(ROWS[[0, 2]], LABELS[[0, 2]]) / gradient.grid).all()
    assert (answer != gradient(ROWS, LABELS) / gradient.grid).any()
