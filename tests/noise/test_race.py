import os
import secrets
from fractions import Fraction

import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.mechanisms import selection
from dptransfer.noise import SecureNoise, SeededNoise, coin, race

from .laws import exponential_mechanism, fits_table, permute_and_flip

SCORES = np.array([3, 0, 7, 7, 5, -9, 6])
WIDTH = 2.5
GAPS = [0, 1, 2, 1_000, 10**6, 64 * 10**6 - 1, 64 * 10**6, 64 * 10**6 + 1, 10**9, 2**62]


def draws(choose, trials, scores=SCORES):
    return [choose(scores, WIDTH) for _ in range(trials)]


@pytest.fixture(params=[2, 3, 2**15])
def chunk(request, monkeypatch):
    """Chunks so small that seven candidates span several."""
    monkeypatch.setattr(race, "_CHUNK", request.param)


@pytest.mark.usefixtures("chunk")
def test_the_gumbel_race_has_the_law_of_the_exponential_mechanism():
    drawn = draws(race.gumbel_argmax, 4_000)
    assert fits_table(drawn, exponential_mechanism(SCORES, WIDTH))
    assert not fits_table(drawn, exponential_mechanism(SCORES, 2 * WIDTH))


@pytest.mark.usefixtures("chunk")
def test_the_exponential_race_has_the_law_of_permute_and_flip():
    drawn = draws(race.exponential_argmax, 4_000)
    assert fits_table(drawn, permute_and_flip(SCORES, WIDTH))
    assert not fits_table(drawn, permute_and_flip(SCORES, 2 * WIDTH))


@pytest.mark.parametrize("gap", [0, 1, 7, 20, 27, 28, 150])
@pytest.mark.parametrize("further", [0, 2**64 - 1])
def test_a_coin_shows_heads_for_exactly_the_numbers_below_its_probability(gap, further, monkeypatch):
    """Every 16-bit number is thrown once, followed by zeros or by ones; how many show heads is counted."""
    scores = np.append(np.full(2**16, -gap), 0)
    thrown = iter(np.append(np.arange(2**16), 0).tolist())
    monkeypatch.setattr(os, "urandom", lambda size: np.fromiter(thrown, np.uint16, size // 2).tobytes())
    monkeypatch.setattr(secrets, "randbits", lambda bits: further)
    found = []
    monkeypatch.setattr(secrets, "randbelow", lambda most: found.append(most) or 0)
    race.exponential_argmax(scores, WIDTH)
    low, _ = coin.exponential_interval(gap, WIDTH, digits=60)
    below = int(low * 2**16) + (further == 0 and gap > 0)
    assert found == [below + 1]  # and the best itself


def test_the_law_does_not_depend_on_the_bounds(monkeypatch):
    """Bounds up to eight times too large, different for each candidate: the last coin makes up for them."""
    honest = race._bounds
    loose = np.array([8, 1, 3, 1, 5, 8, 2])
    monkeypatch.setattr(race, "_bounds", lambda *arguments: honest(*arguments) * loose)
    assert fits_table(draws(race.gumbel_argmax, 1_500), exponential_mechanism(SCORES, WIDTH))
    monkeypatch.setattr(race, "_kept", lambda *arguments: True)
    assert not fits_table(draws(race.gumbel_argmax, 1_500), exponential_mechanism(SCORES, WIDTH))


@pytest.mark.parametrize("scale", [1e6, 999_983.7, 1e6 / 3])
@pytest.mark.parametrize("bits", [16, 40, 58])
def test_bounds_are_above_the_weights_and_hardly_so(scale, bits):
    rng = np.random.default_rng(bits)
    gaps = [*GAPS, *rng.integers(0, 70 * 10**6, 300).tolist()]
    best = 2**62
    bounds = np.concatenate([race._bounds(np.array([best - gap]), best, scale, bits) for gap in gaps])
    assert (bounds == race._bounds(best - np.array(gaps), best, scale, bits)).all()
    for gap, bound in zip(gaps, bounds.tolist(), strict=True):
        low, high = (2**bits * value for value in coin.exponential_interval(gap, scale, digits=60))
        assert high <= bound
        assert bound <= low * (1 + Fraction(1, 2**39)) + 1


def test_bounds_hold_for_scores_as_far_apart_as_integers_go():
    far = np.array([2**63 - 1, -(2**63), 0])
    assert race._bounds(far, 2**63 - 1, 1.0, 40)[1:].tolist() == [1, 1]
    assert race._bounds(far, 2**63 - 1, 2.0**64, 40)[1] == pytest.approx(2**40 * np.exp(-1), rel=1e-9)
    for choose in (race.gumbel_argmax, race.exponential_argmax):
        assert choose(far, 1.0) == choose(far, 5e-300) == 0


def test_many_equal_candidates_share_evenly(monkeypatch):
    monkeypatch.setattr(race, "_CHUNK", 2**11)
    scores = np.repeat([0, 4], 3 * 2**12)
    for choose in (race.gumbel_argmax, race.exponential_argmax):
        places = np.array([choose(scores, 1e12) for _ in range(200)]) // 2**12
        assert fits_table(places, np.ones(6))


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_a_width_no_race_can_use_is_refused(scale):
    for choose in (SecureNoise().gumbel_argmax, SecureNoise().exponential_argmax):
        with pytest.raises(ArgumentError, match="scale"):
            choose(SCORES, scale)


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(1)])
def test_classes_are_raced_side_by_side_and_answered_in_their_order(noise, monkeypatch):
    monkeypatch.setattr(selection, "_ROWS", 7)
    scores = np.zeros((30, 21), dtype=np.int64)
    winners = np.random.default_rng(2).integers(0, 30, 21)
    scores[winners, np.arange(21)] = 10_000
    chosen = selection.for_each_class(
        lambda column, *, noise: noise.gumbel_argmax(column, 1.0), scores, noise
    )
    assert chosen == winners.tolist()
