from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
import pytest

from dptransfer.accounting import selection_delta
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.mechanisms import SELECTIONS, TopKMechanism, selection
from dptransfer.noise import SecureNoise, SeededNoise
from dptransfer.privacy import Bound, Relation, SelectionEvent, Unit
from dptransfer.queries import SimilarityScores
from noise.laws import exponential_mechanism, fits_table, laplace_noisy_max, permute_and_flip
from queries.similarity_faults import EachClassByItself, EachRowInFull

from .samples import (
    GivenScores,
    loss_of,
    losses_over_classes,
    neighbouring_scores,
    worst_losses,
    worst_losses_of_persons,
)

LAWS = {
    "exponential": exponential_mechanism,
    "permute-and-flip": permute_and_flip,
    "laplace": laplace_noisy_max,
}

RANGE = 5

ROUNDING = 1e-9


def mechanism(name, epsilon=1.0, relation=Relation.ADD_REMOVE, scores=(), score_range=RANGE):
    query = GivenScores(np.asarray(scores, dtype=np.int64).reshape(-1, 1), score_range)
    return SELECTIONS[name](query, epsilon, relation)


def law_of(made):
    """The closed-form output law at the mechanism's own scale."""
    return lambda scores: LAWS[made.name](scores, made.scale)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("candidates", [2, 5])
def test_the_loss_never_exceeds_epsilon(name, relation, epsilon, candidates):
    made = mechanism(name, epsilon, relation)
    largest, widest = worst_losses(law_of(made), candidates, RANGE, relation, trials=24)
    assert largest <= epsilon + ROUNDING
    if made.bounded_range:
        assert widest <= epsilon + ROUNDING


@pytest.mark.parametrize("name", LAWS)
def test_the_loss_comes_close_to_epsilon(name):
    """One candidate far behind gains everything, the others nothing (or, replaced, lose everything)."""
    for relation, first, second in (
        (Relation.ADD_REMOVE, [0, 300], [RANGE, 300]),
        (Relation.REPLACE_ONE, [0, 300 + RANGE], [RANGE, 300]),
    ):
        made = mechanism(name, 1.0, relation)
        close = 0.96 if name == "laplace" else 0.99  # the difference of two Laplace draws has a heavier tail
        assert loss_of(law_of(made), np.array(first), np.array(second))[1] >= close


@pytest.mark.parametrize("name", LAWS)
def test_the_rate_of_add_remove_is_too_fast_for_replace_one(name):
    made = mechanism(name, 1.0, Relation.ADD_REMOVE)
    largest, _ = worst_losses(law_of(made), 3, RANGE, Relation.REPLACE_ONE)
    assert largest > 1.2
    assert mechanism(name, 1.0, Relation.REPLACE_ONE).scale == 2 * made.scale


@pytest.mark.parametrize("name", LAWS)
def test_a_scale_five_per_cent_short_is_caught(name):
    made = mechanism(name, 1.0)
    short = loss_of(lambda s: LAWS[name](s, made.scale / 1.05), np.array([0, 300]), np.array([RANGE, 300]))
    assert short[1] > 1.0 + ROUNDING


@pytest.mark.parametrize("name", ["permute-and-flip", "laplace"])
def test_those_that_claim_no_bounded_range_have_none(name):
    """So the flag that makes a selection cheaper in zCDP must not be set for them."""
    made = mechanism(name, 1.0)
    _, widest = worst_losses(law_of(made), 3, RANGE, Relation.ADD_REMOVE, trials=200)
    assert not made.bounded_range
    assert not made.event.bounded_range
    assert widest > 1.05


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("epsilon", [0.1, 4.0])
@pytest.mark.parametrize("classes", [2, 5])
def test_the_loss_of_a_person_who_has_all_classes_never_exceeds_epsilon(name, relation, epsilon, classes):
    made = mechanism(name, epsilon, relation, score_range=20)
    largest, widest = worst_losses_of_persons(law_of(made), 3, classes, 20, relation, trials=24)
    assert largest <= epsilon + ROUNDING
    if made.bounded_range:
        assert widest <= epsilon + ROUNDING


FEATURES = UnitNorm().fit(2, None)

ACROSS, ALONG = [0.0, 1.0], [1.0, 0.0]


def person(number, row, classes, count=40):
    """Rows of one person, all alike, in turn of these classes."""
    labels = np.resize(np.array(classes), count)
    return np.tile(row, (count, 1)), labels, np.full(count, number)


def together(*persons):
    return [np.concatenate(parts) for parts in zip(*persons, strict=True)]


CROWD = [person(number, ACROSS, [0, 1, 2]) for number in range(1, 46)]

NEIGHBOURS = {  # all three classes are moved; then one class is left and two are joined
    Relation.ADD_REMOVE: (together(*CROWD), together(*CROWD, person(0, ALONG, [0, 1, 2]))),
    Relation.REPLACE_ONE: (
        together(*CROWD, person(0, ACROSS, [0])),
        together(*CROWD, person(0, ALONG, [1, 2])),
    ),
}


def losses_of_neighbours(name, relation, query=SimilarityScores):
    """The log-ratios of all joint choices on data sets that differ in one person's forty rows."""
    candidates = FEATURES.lattice(np.array([ALONG, ACROSS]), 2047)
    asked = query(FEATURES, candidates, 3, 1.0, 2.0, bound=Bound(Unit.PERSON))
    made = SELECTIONS[name](asked, 1.0, relation)
    return losses_over_classes(law_of(made), *(asked(*data) for data in NEIGHBOURS[relation]))


ON_ANY_GRID = ["exponential", "permute-and-flip"]  # laws that are not enumerated step by step


@pytest.mark.parametrize("name", ON_ANY_GRID)
@pytest.mark.parametrize("relation", Relation)
def test_one_persons_forty_rows_in_all_classes_lose_at_most_epsilon_and_nearly_all_of_it(name, relation):
    low, high = losses_of_neighbours(name, relation)
    assert 0.98 < max(high, -low) <= 1 + ROUNDING


@pytest.mark.parametrize("name", ON_ANY_GRID)
@pytest.mark.parametrize(("fault", "least"), [(EachRowInFull, 30), (EachClassByItself, 1.4)])
def test_rows_counted_in_full_or_bounded_by_class_lose_more_than_epsilon(name, fault, least):
    for relation in Relation:
        low, high = losses_of_neighbours(name, relation, fault)
        assert max(high, -low) > (least if relation is Relation.ADD_REMOVE else 1.2)


def hockey_stick(first, second, epsilon):
    return float(np.maximum(first - np.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("relation", Relation)
def test_the_enumerated_curve_is_below_the_accountants(name, relation):
    made = mechanism(name, 1.0, relation)
    rng = np.random.default_rng(1)
    for first, second in neighbouring_scores(rng, 4, RANGE, relation):
        one, other = law_of(made)(first), law_of(made)(second)
        for epsilon in (0.0, 0.2, 0.5, 0.9):
            claim = selection_delta(1.0, made.bounded_range, epsilon) + ROUNDING
            assert hockey_stick(one, other, epsilon) <= claim
            assert hockey_stick(other, one, epsilon) <= claim


def draws_of(made, scores, count, noise):
    """Many choices by the same scores: those of so many classes, which are independent."""
    query = GivenScores(np.repeat(scores[:, None], count, axis=1), RANGE)
    return replace(made, query=query).release(None, None, noise=noise).tolist()


@pytest.mark.parametrize("name", LAWS)
def test_the_code_draws_from_the_enumerated_law(name):
    scores = np.array([0, 4, 9, 9, 7])
    made = mechanism(name, 1.0)
    for noise, count, factor in ((SecureNoise(), 1_200, 3.0), (SeededNoise(8), 10_000, 1.3)):
        draws = draws_of(made, scores, count, noise)
        assert fits_table(draws, law_of(made)(scores))
        assert not fits_table(draws, LAWS[name](scores, made.scale * factor))
    others = [other for other in LAWS if other != name]
    assert not any(fits_table(draws, LAWS[other](scores, made.scale)) for other in others)


def test_candidates_that_have_noise_of_their_own_are_chosen_by_the_same_law_however_few_are_read(monkeypatch):
    scores, made = np.array([0, 4, 9, 9, 7]), mechanism("laplace", 1.0)
    monkeypatch.setattr(selection, "_DRAWN_AT_ONCE", 2 * 3_000)  # two candidates for each of 3,000 choices
    draws = draws_of(made, scores, 3_000, SeededNoise(8))
    assert fits_table(draws, law_of(made)(scores))
    assert not fits_table(draws, LAWS["laplace"](scores, made.scale * 1.3))


class Quiet(SeededNoise):
    """No noise, to see what happens to ties."""

    def discrete_laplace(self, scale, shape):
        return np.zeros(shape, dtype=np.int64)


def test_ties_go_to_the_smaller_position_wherever_they_are_read(monkeypatch):
    made = mechanism("laplace", 1.0, scores=[3, 1, 7, 2, 7, 7])
    for at_once in (1, 2, 3, 6):
        monkeypatch.setattr(selection, "_DRAWN_AT_ONCE", at_once)
        assert made.release(None, None, noise=Quiet(0)).tolist() == [2]


@pytest.mark.parametrize("name", LAWS)
def test_every_class_gets_a_choice_and_one_event_covers_them_all(name):
    scores = np.array([[1000, 0, 0], [0, 1000, 0], [0, 0, 0]])
    made = replace(mechanism(name, 1.0), query=GivenScores(scores, 1))
    chosen = made.release(None, None, noise=SeededNoise(0))
    assert chosen.tolist()[:2] == [0, 1]
    assert chosen.shape == (3,)
    assert chosen.dtype == np.int64
    assert made.event == SelectionEvent(1.0, Relation.ADD_REMOVE, name == "exponential", name, "given scores")


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf"), 1e-320])
def test_bad_epsilons_are_refused(epsilon):
    for name in LAWS:
        with pytest.raises(ArgumentError, match="epsilon"):
            mechanism(name, epsilon)


SET_RANGE = 6


def top_k(k, epsilon=1.0, relation=Relation.ADD_REMOVE, scores=(), score_range=SET_RANGE):
    query = GivenScores(np.asarray(scores, dtype=np.int64).reshape(-1, 1), score_range)
    return TopKMechanism(query, epsilon, relation, k)


def law_of_sets(made, printed=False):
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
    made = top_k(k, epsilon, relation)
    largest, widest = worst_losses(law_of_sets(made), candidates, SET_RANGE, relation, trials=24)
    assert largest <= epsilon + ROUNDING
    assert widest <= epsilon + ROUNDING
    assert made.event.bounded_range


@pytest.mark.parametrize("relation", Relation)
def test_the_loss_comes_close_to_epsilon_on_the_grid_in_use(relation):
    wide = 2 * 2047**2
    made = top_k(2, 1.0, relation, score_range=wide)
    back = 0 if relation is Relation.ADD_REMOVE else wide
    first, second = np.array([0, 90 * wide + back, 90 * wide + back]), np.array([wide, 90 * wide, 90 * wide])
    assert 0.99 <= loss_of(law_of_sets(made), first, second)[1] <= 1


@pytest.mark.parametrize(("candidates", "k"), [(5, 3), (8, 2), (8, 4)])
def test_the_printed_multiplicity_loses_more_than_epsilon(candidates, k):
    made = top_k(k, 0.5)
    right, _ = worst_losses(law_of_sets(made), candidates, SET_RANGE, Relation.ADD_REMOVE)
    wrong, _ = worst_losses(law_of_sets(made, printed=True), candidates, SET_RANGE, Relation.ADD_REMOVE)
    assert right <= 0.5 < wrong


def mechanism_for_persons(k, classes, epsilon=1.0, relation=Relation.ADD_REMOVE, score_range=SET_RANGE):
    query = GivenScores(np.zeros((0, classes), dtype=np.int64), score_range, unit=Unit.PERSON)
    return TopKMechanism(query, epsilon, relation, k)


@pytest.mark.parametrize(("candidates", "k"), CASES)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("classes", [2, 4])
def test_sets_for_a_person_who_has_all_classes_lose_at_most_epsilon(candidates, k, relation, classes):
    made = mechanism_for_persons(k, classes, 1.0, relation)
    largest, widest = worst_losses_of_persons(
        law_of_sets(made), candidates, classes, SET_RANGE, relation, trials=24
    )
    assert largest <= 1 + ROUNDING
    assert widest <= 1 + ROUNDING


@pytest.mark.parametrize(("noise", "trials"), [(SeededNoise(3), 3_500), (SecureNoise(), 800)])
def test_sets_are_drawn_from_the_enumerated_law(noise, trials):
    """The printed law is missed in 3,500 draws with a probability of 3e-8."""
    scores = np.array([0, 9, 4, 9, 12, 7])
    places = {chosen: place for place, chosen in enumerate(combinations(range(6), 3))}
    made = top_k(3, 3.0, scores=scores)
    draws = [places[tuple(made.release(None, None, noise=noise)[0].tolist())] for _ in range(trials)]
    assert fits_table(draws, law_of_sets(made)(scores))
    assert not fits_table(draws, law_of_sets(made, printed=True)(scores)) or trials < 3_500
    assert not fits_table(draws, law_of_sets(top_k(3, 1.0))(scores))


def test_every_class_gets_a_set_in_increasing_order_and_one_event_covers_them_all():
    scores = np.array([[900, 0], [0, 900], [900, 0], [0, 900]])
    made = TopKMechanism(GivenScores(scores, 1), 1.0, Relation.ADD_REMOVE, 2)
    assert made.release(None, None, noise=SeededNoise(0)).tolist() == [[0, 2], [1, 3]]
    assert made.event == SelectionEvent(1.0, Relation.ADD_REMOVE, True, "top-k", "given scores")


def test_a_pool_smaller_than_k_and_bad_settings_are_refused():
    with pytest.raises(ArgumentError, match="public rows"):
        top_k(4, scores=np.zeros(3)).release(None, None, noise=SeededNoise(0))
    for k, epsilon in ((0, 1.0), (2, 0.0), (2, float("nan"))):
        with pytest.raises(ArgumentError):
            top_k(k, epsilon)
