"""The report on what the answers to given votes tell: what it costs, what it says, and that both are true."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dptransfer.accounting import epsilon_of
from dptransfer.audit.lower_bound import excess_over_claim
from dptransfer.errors import ArgumentError, BudgetError, BudgetExceeded
from dptransfer.ledger import Ledger
from dptransfer.methods import Inquiry, VoteReport
from dptransfer.methods.votes.vote_aggregation import MISSED, ReportedLoss
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation, Unit
from dptransfer.queries.votes import AnswerLoss, CountedVotes, LossSensitivity

NOBODY = np.zeros(0, dtype=np.int64)
BUDGET = Budget(epsilon=0.5, delta=1e-5)
LARGE = VoteReport(Inquiry(200, 50.0), 1000, BUDGET)
CONFIDENT = VoteReport(Inquiry(200, 50.0, threshold_noise=200.0, answers=150), 1000, BUDGET, threshold=600.0)
TINY = VoteReport(Inquiry(3, 4.0, classes=2), 40, Budget(epsilon=6.0, delta=1e-5), order=4.0, smoothness=0.05)


def agreeing(share, questions=200, teachers=1000, classes=10):
    votes = np.full((questions, classes), round(teachers * (1 - share) / (classes - 1)))
    votes[:, 0] = round(teachers * share)
    return votes


def reported(report, votes, seed=0, ledger=None, **how):
    ledger = Ledger.in_memory() if ledger is None else ledger
    return report.release(votes, name="clinic", ledger=ledger, noise=SeededNoise(seed), **how)


def true_loss(report, votes):
    ballots = CountedVotes.of(votes, report.teachers)
    return float(report.loss.at_every_distance(ballots)[0][0])


@pytest.mark.parametrize("report", [LARGE, CONFIDENT])
def test_agreement_is_told_to_cost_less_and_never_more_than_the_price(report):
    price = report.inquiry.guarantee(1e-5).epsilon
    for seed in range(5):
        settled, open_ = (reported(report, agreeing(share), seed) for share in (0.9, 0.2))
        assert settled.epsilon_of_labels < 0.7 * price
        assert settled.epsilon_of_labels < settled.epsilon_with_report
        for one in (settled, open_):
            assert one.epsilon_of_labels <= price
            assert one.epsilon_with_report <= epsilon_of((*report.inquiry.events, *report.events), 1e-5)


@pytest.fixture
def remembered(monkeypatch):
    """Losses of the same ballots are computed once: only the noise differs from run to run."""
    computed, known = AnswerLoss.at_every_distance, {}

    def once(self, ballots):
        key = (self, ballots.counts.tobytes())
        if key not in known:
            known[key] = computed(self, ballots)
        return known[key]

    monkeypatch.setattr(AnswerLoss, "at_every_distance", once)


def test_the_bound_holds_as_often_as_is_said(remembered):
    votes = np.array([[30, 8], [26, 12], [22, 16]])
    loss, runs = true_loss(TINY, votes), 3000
    ballots = CountedVotes.of(votes, 40)
    found = [
        ReportedLoss(TINY, *TINY.release_loss(ballots, SeededNoise(seed)), True, "") for seed in range(runs)
    ]
    below = sum(one.loss_bound < loss for one in found)
    assert 0 < below  # it is a random number
    assert stats.binom.sf(below - 1, runs, 1 - TINY.confidence) > 1e-6


def test_the_noise_is_wider_than_the_sensitivity_in_every_run(remembered):
    ballots = CountedVotes.of(np.array([[29, 9]] * 3), 40)
    scale, value = TINY.steps
    smooth = math.exp(int(scale.query(ballots, NOBODY)[0]) / scale.query.grid + 3 * TINY.smoothness)
    for seed in range(500):
        assert TINY.release_loss(ballots, SeededNoise(seed))[1] >= smooth * value.scale
    assert TINY.margin == pytest.approx(9.6 * scale.scale + 3 * TINY.smoothness, rel=1e-4)


def proven_beyond_claim(runs=1500):
    """By how much an attacker who sees all that is released beats the claim, on two neighbours."""
    pair = [CountedVotes.of(np.array([[n, 38 - n]] * 3), 40) for n in (29, 28)]
    scale, value = TINY.steps
    logs = [int(scale.query(ballots, NOBODY)[0]) / scale.query.grid for ballots in pair]
    losses = [float(TINY.loss.at_every_distance(ballots)[0][0]) for ballots in pair]

    def evidence(ballots, seed):
        """The logarithm of the likelihood ratio."""
        noisy, deviation = TINY.release_loss(ballots, SeededNoise(seed))
        told = math.log(deviation / value.scale) - TINY.margin
        return sum(
            ((seen - b) ** 2 - (seen - a) ** 2) / (2 * width**2)
            for seen, (a, b), width in ((told, logs, scale.scale), (noisy, losses, deviation))
        )

    first, second = ([evidence(pair[i], i * runs + n) for n in range(runs)] for i in (0, 1))
    return excess_over_claim(first, second, TINY.events)


def test_what_is_released_tells_neighbours_apart_no_better_than_is_claimed(remembered):
    assert proven_beyond_claim() <= 0


def test_a_sensitivity_that_is_too_small_is_found_out(remembered, monkeypatch):
    right = LossSensitivity.__call__
    wrong = round(math.log(60) * LossSensitivity.grid)
    monkeypatch.setattr(LossSensitivity, "__call__", lambda *asked: right(*asked) - wrong)
    assert proven_beyond_claim() > 0


def test_the_report_costs_its_budget_and_the_unlikely_is_counted():
    assert LARGE.guarantee().epsilon <= 0.5
    assert LARGE.guarantee().epsilon > 0.4999
    first, second = LARGE.events
    assert (first.numeric_delta, second.numeric_delta) == (0.0, MISSED)
    assert stats.norm.sf(9.6) < MISSED


def test_it_is_charged_before_a_vote_is_read_and_answers_stay_charged_as_they_are():
    ledger = Ledger.in_memory()
    ledger.set_budget("clinic", Budget(epsilon=0.4, delta=1e-5))
    with pytest.raises(BudgetExceeded):
        reported(LARGE, agreeing(0.9), ledger=ledger)
    ledger.set_budget("clinic", Budget(epsilon=1.0, delta=1e-5))
    reported(LARGE, agreeing(0.9), ledger=ledger)
    assert ledger.privacy_spent("clinic").epsilon == pytest.approx(0.5, rel=1e-3)
    reported(LARGE, agreeing(0.9), ledger=ledger)  # a second one adds up, as Gaussian steps do
    assert 0.6 < ledger.privacy_spent("clinic").epsilon < 1


@pytest.mark.parametrize("votes", [agreeing(0.0) * 0, -agreeing(0.5), agreeing(0.5) * 10**6])
def test_votes_that_cannot_be_are_handled_without_a_word(votes):
    assert 0 <= reported(LARGE, votes).epsilon_of_labels <= LARGE.inquiry.guarantee(1e-5).epsilon


def test_flags_of_the_caller_s_floats_do_not_make_votes_tell():
    """Whether a weight times a growth is too small for a float depends on votes, and must stop nothing."""
    settings = replace(LARGE, smoothness=1.0)
    for share in (0.2, 1.0):
        with np.errstate(all="raise"):
            found = reported(settings, agreeing(share))
        assert found.noisy_loss == reported(settings, agreeing(share)).noisy_loss


def test_a_report_about_rows_is_refused_where_an_account_is_by_person():
    ledger = Ledger.in_memory()
    ledger.set_budget("clinic", Budget(epsilon=10.0, delta=1e-5), unit=Unit.PERSON, most_rows_per_person=5)
    with pytest.raises(ArgumentError, match="by person"):
        reported(LARGE, agreeing(0.9), ledger=ledger)
    assert len(ledger.history()) == 1
    persons = replace(LARGE, inquiry=replace(LARGE.inquiry, unit=Unit.PERSON))
    reported(persons, agreeing(0.9), ledger=ledger)
    assert ledger.privacy_spent("clinic").epsilon == pytest.approx(0.5, rel=1e-3)


def test_a_table_that_memory_does_not_hold_fails_before_the_charge(monkeypatch):
    def full(self):
        raise MemoryError

    monkeypatch.setattr(AnswerLoss, "growth", property(full))
    ledger = Ledger.in_memory()
    with pytest.raises(MemoryError):
        reported(LARGE, agreeing(0.9), ledger=ledger)
    assert not ledger.history()


def test_the_statement_says_what_it_is_about_and_what_it_is_not():
    said = reported(CONFIDENT, agreeing(0.9)).statement
    for words in ("at least 0.95", "adding or removing one example", "no guarantee", "for any data"):
        assert words in said


@pytest.mark.parametrize(
    ("words", "settings"),
    {
        "epsilon and delta": {"budget": Budget.pure(1.0)},
        "confidence": {"confidence": 0.3},
        "smoothness": {"smoothness": 2.0},
        "order": {"order": 1.0},
        "one without the other": {"threshold": 600.0},
        "one relation": {"inquiry": replace(LARGE.inquiry, relation=Relation.REPLACE_ONE)},
    }.items(),
)
def test_settings_that_say_nothing_are_refused_before_the_charge(words, settings):
    with pytest.raises((ArgumentError, BudgetError), match=words):
        replace(LARGE, **settings)
