from itertools import combinations
from math import comb

import numpy as np
import pytest

from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.mechanisms import TopKMechanism
from dptransfer.mechanisms.top_k import by_falling_score, log_error, log_sets_with_worst_rank
from dptransfer.noise import SecureNoise, SeededNoise
from dptransfer.privacy import Relation, SelectionEvent, Unit
from noise.laws import fits_table

from .samples import GivenScores, loss_of, worst_losses, worst_losses_of_persons

RANGE = 6
ROUNDING = 1e-9


def mechanism(k, epsilon=1.0, relation=Relation.ADD_REMOVE, scores=(), score_range=RANGE):
    return TopKMechanism(
        GivenScores(np.asarray(scores, dtype=np.int64).reshape(-1, 1), score_range), k, epsilon, relation
    )


def code_weight(made, candidates):
    """log of the weight of worst rank K..candidates, as the code rounds it."""
    return np.floor(log_sets_with_worst_rank(candidates, made.k) * made.scale) / made.scale


def law_of(made, weight=code_weight):
    """Probability of every set of K, in the order of `combinations`; `weight` draws the worst rank."""

    def law(scores):
        scores = np.asarray(scores, dtype=np.int64)
        rank = np.empty(len(scores), dtype=int)
        rank[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
        logs = weight(made, len(scores))
        sets = np.array(list(combinations(range(len(scores)), made.k)))
        worst = rank[sets].max(axis=1)
        logits = scores[sets].min(axis=1) / made.scale + logs[worst - made.k]
        logits -= np.log(
            [comb(y - 1, made.k - 1) for y in worst]
        )  # K − 1 of the y − 1 better ones, uniformly
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()

    return law


def printed_weight(made, candidates):
    """log C(y, K), as printed: not the number of sets whose worst member has rank y."""
    return np.log([comb(y, made.k) for y in range(made.k, candidates + 1)])


def exponential_over_sets(made):
    """The ideal: P(S) ∝ exp(min score ÷ scale), by brute force."""

    def law(scores):
        logits = np.array([min(s) for s in combinations(scores, made.k)]) / made.scale
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
    wrong, _ = worst_losses(law_of(made, printed_weight), candidates, RANGE, Relation.ADD_REMOVE)
    assert right <= 0.5 < wrong


@pytest.mark.parametrize(("candidates", "k"), [(4, 2), (5, 3)])
def test_the_rate_of_add_remove_is_too_fast_for_replace_one(candidates, k):
    wide = 10_000
    made = mechanism(k, 1.0, score_range=wide)
    assert worst_losses(law_of(made), candidates, wide, Relation.ADD_REMOVE)[0] <= 1
    assert worst_losses(law_of(made), candidates, wide, Relation.REPLACE_ONE)[0] > 1.2


def test_rounding_of_the_weights_is_paid_for_by_the_scale():
    """With Δ = 1 the four steps matter most: at the scale Δ/ε rounded weights would lose more than ε."""
    made = mechanism(3, 1.0, score_range=1)

    def narrow_law(scores):
        rounded = np.floor(log_sets_with_worst_rank(len(scores), 3) * 1.0)
        return law_of(Narrow(), lambda _, candidates: rounded)(scores)

    class Narrow:
        k, scale = 3, 1.0

    assert worst_losses(law_of(made), 6, 1, Relation.ADD_REMOVE)[0] <= 1
    assert worst_losses(narrow_law, 6, 1, Relation.ADD_REMOVE)[0] > 1


def mechanism_for_persons(k, classes, epsilon=1.0, relation=Relation.ADD_REMOVE, score_range=RANGE):
    query = GivenScores(np.zeros((0, classes), dtype=np.int64), score_range, unit=Unit.PERSON)
    return TopKMechanism(query, k, epsilon, relation)


@pytest.mark.parametrize(("candidates", "k"), CASES)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("classes", [2, 4])
def test_the_loss_of_a_person_who_has_all_classes_never_exceeds_epsilon(candidates, k, relation, classes):
    made = mechanism_for_persons(k, classes, 1.0, relation)
    largest, widest = worst_losses_of_persons(law_of(made), candidates, classes, RANGE, relation, trials=24)
    assert largest <= 1 + ROUNDING
    assert widest <= 1 + ROUNDING


def test_rounding_of_the_weights_is_paid_for_in_every_class_that_a_person_moves():
    """Each class moves by one step: at the scale that pays for one class's rounding, six lose too much."""
    classes = 6
    honest = mechanism_for_persons(3, classes, score_range=classes)
    rows_scale = mechanism(3, score_range=classes).scale

    class OneClassPaid:
        k, scale = 3, rows_scale

    honest_loss, short_loss = (
        max(
            classes * max(loss_of(law_of(made), first, first + up)[1] for up in every_move(6))
            for first in (np.zeros(6, dtype=np.int64), np.arange(6), np.arange(6)[::-1])
        )
        for made in (honest, OneClassPaid())
    )
    assert honest_loss <= 1 < short_loss
    assert honest.scale == pytest.approx((classes + 4 * classes) / (1 - 4 * classes * log_error(3)), rel=1e-9)


def every_move(candidates):
    """All ways in which some scores rise by one."""
    return np.array(np.meshgrid(*[[0, 1]] * candidates)).reshape(candidates, -1).T


@pytest.mark.parametrize(("candidates", "k"), CASES)
def test_the_two_stage_draw_is_the_exponential_mechanism_over_all_sets(candidates, k):
    made = mechanism(k, 1.0, score_range=2**23)
    rng = np.random.default_rng(0)
    for scores in (rng.integers(0, 2**25, candidates), np.zeros(candidates, dtype=np.int64)):
        assert np.allclose(law_of(made)(scores), exponential_over_sets(made)(scores), rtol=1e-5)
    if 1 < k < candidates:
        printed = law_of(made, printed_weight)(scores)
        assert not np.allclose(printed, exponential_over_sets(made)(scores), rtol=0.05)


@pytest.mark.parametrize(("noise", "trials"), [(SeededNoise(3), 10_000), (SecureNoise(), 1_500)])
def test_the_code_draws_from_the_enumerated_law(noise, trials):
    scores = np.array([0, 9, 4, 9, 12, 7])
    made = mechanism(3, 3.0)
    places = {chosen: place for place, chosen in enumerate(combinations(range(6), 3))}
    draws = [places[tuple(made.choose(scores, noise=noise).tolist())] for _ in range(trials)]
    assert fits_table(draws, law_of(made)(scores))
    assert not fits_table(draws, law_of(made, printed_weight)(scores)) or trials < 10_000
    assert not fits_table(draws, law_of(mechanism(3, 1.0))(scores))


def test_with_one_member_it_is_the_exponential_mechanism():
    made = mechanism(1, 1.0)
    scores = np.array([0, 3, 11])
    want = np.exp(scores / made.scale)
    assert np.allclose(law_of(made)(scores), want / want.sum())


SMALLEST, LARGEST = (int(end) for end in (np.iinfo(np.int64).min, np.iinfo(np.int64).max))


@pytest.mark.parametrize(
    "scores",
    [[7], [0] * 9, [SMALLEST, LARGEST, 0, LARGEST], [LARGEST, LARGEST - 2**60, LARGEST - 2**61 + 1] * 2],
)
def test_ranks_go_by_score_and_then_by_position(scores):
    want = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    assert by_falling_score(np.array(scores)).tolist() == want


@pytest.mark.parametrize("spread", [3, 2**40, 2**52, 2**53, 2**62])
def test_ranks_do_not_depend_on_whether_score_and_position_fit_one_integer(spread):
    scores = np.random.default_rng(0).integers(-spread, spread, 1000)
    assert (by_falling_score(scores) == np.argsort(-scores, kind="stable")).all()


def test_every_class_gets_a_set_in_increasing_order_and_one_event_covers_them_all():
    scores = np.array([[900, 0], [0, 900], [900, 0], [0, 900]])
    made = TopKMechanism(GivenScores(scores, 1), 2, 1.0, Relation.ADD_REMOVE)
    assert made.release(None, None, noise=SeededNoise(0)).tolist() == [[0, 2], [1, 3]]
    assert made.event == SelectionEvent(1.0, Relation.ADD_REMOVE, True, "top-k", "given scores")


@pytest.mark.parametrize(("candidates", "k"), [(5, 1), (30, 4), (2_000, 30), (4_000, 200)])
def test_the_logarithms_are_as_accurate_as_stated(candidates, k):
    from fractions import Fraction

    import mpmath

    with mpmath.workdps(40):
        for y in {k, k + 1, (k + candidates) // 2, candidates}:
            exact = mpmath.log(comb(y - 1, k - 1))
            got = mpmath.mpf(float(log_sets_with_worst_rank(candidates, k)[y - k]))
            assert abs(got - exact) <= log_error(k)
    assert Fraction(log_error(k)) < 1


def test_an_epsilon_too_small_for_exact_weights_is_refused_before_a_row_is_read():
    made = TopKMechanism(GivenScores(np.zeros((1, 1)), 2 * 2047**2), 300, 1e-9, Relation.ADD_REMOVE)
    with pytest.raises(BudgetError, match="epsilon"):
        made.release(Unreadable(), Unreadable(), noise=SeededNoise(0))
    assert mechanism(5, 1e-6, score_range=2 * 2047**2).scale < 2.0**62


class Unreadable:
    def __getattr__(self, name):
        raise AssertionError("a row was read")


def test_a_pool_smaller_than_k_and_bad_settings_are_refused():
    with pytest.raises(ArgumentError, match="public rows"):
        mechanism(4).choose(np.zeros(3, dtype=np.int64), noise=SeededNoise(0))
    for k, epsilon in ((0, 1.0), (2, 0.0), (2, float("nan"))):
        with pytest.raises(ArgumentError):
            mechanism(k, epsilon)
