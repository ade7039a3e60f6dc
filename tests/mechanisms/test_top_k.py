from itertools import combinations
from math import comb

import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.mechanisms import TopKMechanism
from dptransfer.noise import SecureNoise, SeededNoise
from dptransfer.privacy import Relation, SelectionEvent, Unit
from noise.laws import fits_table

from .samples import GivenScores, loss_of, worst_losses, worst_losses_of_persons

RANGE = 6
ROUNDING = 1e-9


def mechanism(k, epsilon=1.0, relation=Relation.ADD_REMOVE, scores=(), score_range=RANGE):
    query = GivenScores(np.asarray(scores, dtype=np.int64).reshape(-1, 1), score_range)
    return TopKMechanism(query, epsilon, relation, k)


def law_of(made, printed=False):
    """Probability of every set of K, in the order of `combinations`: ∝ exp(min score ÷ scale).

    As printed, sets whose worst member has rank y share a weight of C(y, K), though they are C(y − 1, K − 1).
    """

    def law(scores):
        scores = np.asarray(scores, dtype=np.int64)
        rank = np.empty(len(scores), dtype=int)
        rank[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
        sets = np.array(list(combinations(range(len(scores)), made.k)))
        logits = scores[sets].min(axis=1) / made.scale
        if printed:
            worst = rank[sets].max(axis=1)
            logits += np.log([comb(y, made.k) / comb(y - 1, made.k - 1) for y in worst])
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()

    return law


CASES = [(2, 1), (5, 3), (8, 2), (8, 4), (3, 3)]


@pytest.mark.parametrize(("candidates", "k"), CASES)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_loss_over_all_sets_never_exceeds_epsilon_nor_does_its_range(candidates, k, relation, epsilon):
    made = mechanism(k, epsilon, relation)
    largest, widest = worst_losses(law_of(made), candidates, RANGE, relation, trials=24)
    assert largest <= epsilon + ROUNDING
    assert widest <= epsilon + ROUNDING
    assert made.event.bounded_range


@pytest.mark.parametrize("relation", Relation)
def test_the_loss_comes_close_to_epsilon_on_the_grid_in_use(relation):
    wide = 2 * 2047**2
    made = mechanism(2, 1.0, relation, score_range=wide)
    back = 0 if relation is Relation.ADD_REMOVE else wide
    first, second = np.array([0, 90 * wide + back, 90 * wide + back]), np.array([wide, 90 * wide, 90 * wide])
    assert 0.99 <= loss_of(law_of(made), first, second)[1] <= 1


@pytest.mark.parametrize(("candidates", "k"), [(5, 3), (8, 2), (8, 4)])
def test_the_printed_multiplicity_loses_more_than_epsilon(candidates, k):
    made = mechanism(k, 0.5)
    right, _ = worst_losses(law_of(made), candidates, RANGE, Relation.ADD_REMOVE)
    wrong, _ = worst_losses(law_of(made, printed=True), candidates, RANGE, Relation.ADD_REMOVE)
    assert right <= 0.5 < wrong


@pytest.mark.parametrize(("candidates", "k"), [(4, 2), (5, 3)])
def test_the_rate_of_add_remove_is_too_fast_for_replace_one(candidates, k):
    wide = 10_000
    made = mechanism(k, 1.0, score_range=wide)
    assert worst_losses(law_of(made), candidates, wide, Relation.ADD_REMOVE)[0] <= 1
    assert worst_losses(law_of(made), candidates, wide, Relation.REPLACE_ONE)[0] > 1.2


def mechanism_for_persons(k, classes, epsilon=1.0, relation=Relation.ADD_REMOVE, score_range=RANGE):
    query = GivenScores(np.zeros((0, classes), dtype=np.int64), score_range, unit=Unit.PERSON)
    return TopKMechanism(query, epsilon, relation, k)


@pytest.mark.parametrize(("candidates", "k"), CASES)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("classes", [2, 4])
def test_the_loss_of_a_person_who_has_all_classes_never_exceeds_epsilon(candidates, k, relation, classes):
    made = mechanism_for_persons(k, classes, 1.0, relation)
    largest, widest = worst_losses_of_persons(law_of(made), candidates, classes, RANGE, relation, trials=24)
    assert largest <= 1 + ROUNDING
    assert widest <= 1 + ROUNDING


@pytest.mark.parametrize(("noise", "trials"), [(SeededNoise(3), 3_500), (SecureNoise(), 800)])
def test_the_code_draws_from_the_enumerated_law(noise, trials):
    """The printed law is missed in 3,500 draws with a probability of 3e-8."""
    scores = np.array([0, 9, 4, 9, 12, 7])
    places = {chosen: place for place, chosen in enumerate(combinations(range(6), 3))}
    made = mechanism(3, 3.0, scores=scores)
    draws = [places[tuple(made.release(None, None, noise=noise)[0].tolist())] for _ in range(trials)]
    assert fits_table(draws, law_of(made)(scores))
    assert not fits_table(draws, law_of(made, printed=True)(scores)) or trials < 3_500
    assert not fits_table(draws, law_of(mechanism(3, 1.0))(scores))


def test_with_one_member_it_is_the_exponential_mechanism():
    made = mechanism(1, 1.0)
    scores = np.array([0, 3, 11])
    want = np.exp(scores / made.scale)
    assert np.allclose(law_of(made)(scores), want / want.sum())


def test_every_class_gets_a_set_in_increasing_order_and_one_event_covers_them_all():
    scores = np.array([[900, 0], [0, 900], [900, 0], [0, 900]])
    made = TopKMechanism(GivenScores(scores, 1), 1.0, Relation.ADD_REMOVE, 2)
    assert made.release(None, None, noise=SeededNoise(0)).tolist() == [[0, 2], [1, 3]]
    assert made.event == SelectionEvent(1.0, Relation.ADD_REMOVE, True, "top-k", "given scores")


def test_a_pool_smaller_than_k_and_bad_settings_are_refused():
    with pytest.raises(ArgumentError, match="public rows"):
        mechanism(4, scores=np.zeros(3)).release(None, None, noise=SeededNoise(0))
    for k, epsilon in ((0, 1.0), (2, 0.0), (2, float("nan"))):
        with pytest.raises(ArgumentError):
            mechanism(k, epsilon)
