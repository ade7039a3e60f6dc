"""What votes cost, and answers from votes that a user brings."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from dptransfer.accounting import delta_of
from dptransfer.errors import ArgumentError, BudgetExceeded, DataError, PrivacyWarning
from dptransfer.ledger import Ledger
from dptransfer.methods import Inquiry, aggregate_votes
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation, Unit

PAPER = Inquiry(1000, noise=50.0, threshold_noise=200.0, answers=684)
SMALL = Inquiry(4, noise=2.0, classes=3)
VOTES = np.array([[9, 1, 0], [0, 10, 0], [2, 2, 6], [10, 0, 0]])
little_noise = pytest.mark.filterwarnings("ignore:An epsilon should be at most 10")


class Unread:
    """Votes of the right shape and type that nobody may look at."""

    shape, dtype = VOTES.shape, VOTES.dtype

    def __array__(self, *given, **how):
        raise AssertionError("votes were read")


def aggregated(votes=VOTES, inquiry=SMALL, *, seed=0, ledger=None, **how):
    ledger = Ledger.in_memory() if ledger is None else ledger
    settings = {"teachers": 10, "name": "clinic", "delta": 1e-5, **how}
    return aggregate_votes(votes, inquiry, ledger=ledger, noise=SeededNoise(seed), **settings)


def test_the_price_is_one_gaussian_of_all_tests_and_answers():
    assert PAPER.guarantee(1e-5).mu == pytest.approx(math.sqrt(1000 / 200**2 + 2 * 684 / 50**2))
    twice = replace(PAPER, relation=Relation.REPLACE_ONE)
    assert twice.guarantee(1e-5).mu == pytest.approx(2 * PAPER.guarantee(1e-5).mu)


def test_what_cannot_be_asked_is_refused():
    for words, settings in {
        "At most all queries": {"answers": 5, "threshold_noise": 1.0},
        "no threshold noise": {"answers": 3},
        "noise must be a positive": {"noise": 0.0},
        "threshold_noise must be a positive": {"threshold_noise": -1.0},
        "at most 1e+08 votes": {"noise": 1e9},
        "queries must be": {"queries": 0},
    }.items():
        with pytest.raises(ArgumentError, match=words.replace("+", r"\+")):
            replace(SMALL, **settings)


@little_noise
def test_answers_are_the_noisy_majority():
    sure = aggregated(inquiry=replace(SMALL, noise=0.3))
    assert sure.positions.tolist() == [0, 1, 2, 3]
    assert sure.labels.tolist() == [0, 1, 2, 0]
    assert (
        len({tuple(aggregated(seed=seed, inquiry=replace(SMALL, noise=20.0)).labels) for seed in range(9)})
        > 3
    )


@little_noise
def test_only_questions_that_pass_are_answered_and_no_more_than_were_paid_for():
    confident = replace(SMALL, noise=0.3, threshold_noise=0.3, answers=2)
    found = aggregated(inquiry=confident, threshold=8.0)
    assert found.positions.tolist() == [0, 1]  # of three that pass
    assert found.guarantee == confident.guarantee(1e-5)
    assert aggregated(inquiry=replace(confident, answers=4), threshold=8.0).positions.tolist() == [0, 1, 3]


@little_noise
def test_ballots_and_their_counts_give_the_same_answers():
    ballots = np.array([[0, 1, 2, 0]] * 6 + [[0, 1, 0, 0]] * 2 + [[0, 1, 1, 0]] + [[1, 1, 1, 0]])
    first, second = (
        aggregated(votes, threshold=5.0, inquiry=replace(SMALL, threshold_noise=1.0), cast=cast, seed=3)
        for votes, cast in ((VOTES, False), (ballots, True))
    )
    assert first.labels.tolist() == second.labels.tolist()
    assert first.positions.tolist() == second.positions.tolist()


@pytest.mark.parametrize(
    "votes",
    [np.zeros_like(VOTES), -VOTES, VOTES * 1000, np.full_like(VOTES, np.iinfo(np.int64).max)],
    ids=["nobody votes", "below zero", "more than teachers", "largest"],
)
def test_votes_that_cannot_be_are_private_and_handled_without_a_word(votes):
    assert len(aggregated(votes).labels) == 4
    assert len(aggregated(votes.T[:, [0, 1, 2, 0]], teachers=3, cast=True).labels) == 4


@pytest.mark.parametrize(
    ("votes", "words"),
    [
        (VOTES.T, "shape"),
        (VOTES[:, :2], "shape"),
        (VOTES.astype(float), "whole numbers"),
        (VOTES.astype(str), "whole numbers"),
    ],
)
def test_votes_of_another_shape_or_type_are_refused_before_the_charge(votes, words):
    ledger = Ledger.in_memory()
    with pytest.raises(DataError, match=words):
        aggregated(votes, ledger=ledger)
    assert not ledger.history()


@pytest.mark.parametrize("how", [{"threshold": 5.0}, {"inquiry": replace(SMALL, threshold_noise=1.0)}])
def test_a_test_needs_both_of_its_numbers(how):
    with pytest.raises(ArgumentError, match="without the other"):
        aggregated(**how)


def test_a_refused_charge_leaves_the_votes_unread():
    ledger = Ledger.in_memory()
    ledger.set_budget("clinic", Budget(epsilon=0.1, delta=1e-5))
    with pytest.raises(BudgetExceeded):
        aggregated(Unread(), ledger=ledger)
    ledger.set_budget("clinic", Budget(epsilon=10.0, delta=1e-5))
    with pytest.raises(AssertionError, match="votes were read"):
        aggregated(Unread(), ledger=ledger)
    assert [entry.status for entry in ledger.history("clinic") if hasattr(entry, "status")] == ["failed"]


def test_the_charge_is_what_the_answers_promise_and_stays_by_unit():
    ledger = Ledger.in_memory()
    inquiry = replace(SMALL, noise=20.0, unit=Unit.PERSON)
    found = aggregated(inquiry=inquiry, ledger=ledger)
    assert ledger.privacy_spent("clinic").epsilon == pytest.approx(found.guarantee.epsilon)
    assert ledger.history("clinic")[0].events == inquiry.events
    assert "one person" in found.statement
    assert "one teacher" in found.statement


def exact_outcomes(counts, inquiry, threshold):
    """The probability of no answer and of either label, of two classes."""
    lead = (counts[0] - counts[1]) / (math.sqrt(2) * inquiry.noise)
    passes = ndtr((max(counts) - threshold) / inquiry.threshold_noise)
    return np.array([1 - passes, passes * ndtr(lead), passes * ndtr(-lead)])


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_no_neighbouring_votes_are_told_apart_better_than_is_claimed(epsilon):
    inquiry = Inquiry(1, noise=1.5, threshold_noise=3.0, classes=2)
    claimed, worst = delta_of(inquiry.events, epsilon), 0.0
    for threshold in (2.0, 6.0):
        for a in range(9):
            for b in range(9 - a):
                near = [(a + i, b + j) for i, j in ((1, -1), (-1, 1), (1, 0), (-1, 0), (0, 1), (0, -1))]
                here = exact_outcomes((a, b), inquiry, threshold)
                for other in near:
                    there = exact_outcomes(other, inquiry, threshold)
                    worst = max(worst, float(np.maximum(here - math.exp(epsilon) * there, 0).sum()))
    assert worst <= claimed
    cheaper = Inquiry(1, noise=1.5 * math.sqrt(2), threshold_noise=3.0, classes=2)  # sensitivity 1, not √2
    assert epsilon > 1 or worst > delta_of(cheaper.events, epsilon)


def test_an_epsilon_that_promises_little_is_warned_of_where_it_was_asked_for():
    with pytest.warns(PrivacyWarning, match="at most 10") as said:
        aggregated(inquiry=replace(SMALL, noise=0.3))
    assert said[0].filename == __file__


def test_any_number_of_teachers_and_any_noise_fails_before_the_charge_or_not_at_all():
    assert len(aggregated(teachers=10**9).labels) == 4
    assert aggregated(inquiry=replace(SMALL, noise=1e8)).guarantee.epsilon == 0
    ledger = Ledger.in_memory()
    with pytest.raises(ArgumentError, match="at most"):
        aggregated(teachers=10**10, ledger=ledger)
    assert not ledger.history()
