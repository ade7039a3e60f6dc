import secrets

import numpy as np
import pytest
from scipy import stats

from dptransfer.errors import ArgumentError
from dptransfer.noise import SecureNoise, SeededNoise, integer_noise
from dptransfer.noise import noise_source as source_module
from dptransfer.noise import race as race_module
from dptransfer.noise.race import settled
from dptransfer.noise.score_bins import ScoreBins

from .laws import (
    RARELY,
    exponential_mechanism,
    fits_continuous,
    fits_integers,
    fits_table,
    gaussian_log_weight,
    laplace_log_weight,
    permute_and_flip,
    spread_fits,
)

SCORES = np.array([3, 0, 7, 7, 5])
WIDTH = 2.5


def test_seeded_gaussian_draws_have_the_stated_law():
    draws = SeededNoise(1).discrete_gaussian(1e9, (200_000,))
    assert fits_continuous(draws, stats.norm(scale=1e9))
    assert not fits_continuous(draws, stats.norm(scale=1.05e9))


def test_seeded_laplace_draws_have_the_stated_law():
    draws = SeededNoise(2).discrete_laplace(4.0, (200_000,))
    assert fits_integers(draws, laplace_log_weight(4.0))
    assert not fits_integers(draws, laplace_log_weight(4.2))
    assert not fits_integers(draws, gaussian_log_weight(4.0 * np.sqrt(2)))


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(9)])
@pytest.mark.parametrize("scale", [1e3, 3.7307 * 2**30])
def test_gaussian_draws_have_the_stated_scale_to_two_per_cent(noise, scale):
    draws = noise.discrete_gaussian(scale, (500, 1_000))
    assert spread_fits(draws, scale, RARELY)
    assert not spread_fits(draws, scale * 1.02, RARELY)
    assert not spread_fits(draws, scale / 1.02, RARELY)


def test_secure_draws_have_the_stated_laws_on_a_coarse_grid():
    """At four grid steps, where being discrete shows."""
    draws = SecureNoise().discrete_gaussian(4.0, (200_000,))
    assert fits_integers(draws, gaussian_log_weight(4.0), RARELY)
    assert not fits_integers(draws, gaussian_log_weight(4.2), RARELY)
    draws = SecureNoise().discrete_laplace(4.0, (200_000,))
    assert fits_integers(draws, laplace_log_weight(4.0), RARELY)
    assert not fits_integers(draws, laplace_log_weight(4.2), RARELY)


@pytest.mark.parametrize("scale", [2.0**40, 2.0**52])
def test_wide_noise_is_not_cut_off_at_32_bits(scale):
    draws = SecureNoise().discrete_laplace(scale, (300,))
    assert fits_continuous(draws, stats.laplace(scale=scale))
    draws = SecureNoise().discrete_gaussian(scale, (300,))
    assert fits_continuous(draws, stats.norm(scale=scale))
    assert len(np.unique(draws)) == 300


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(0)])
def test_noise_that_would_be_cut_off_at_64_bits_is_refused(noise):
    """A draw that saturates is the same for every answer, so adding the answer to it would reveal it."""
    noise.discrete_gaussian(2.0**57, (1,))
    noise.discrete_laplace(2.0**52, (1,))
    for bad in (2.0**58, 1e19, float("inf"), float("nan"), 0.0, -1.0):
        with pytest.raises(ArgumentError, match="wide"):
            noise.discrete_gaussian(bad, (1,))
    for bad in (2.0**53, float("inf"), float("nan"), 0.0):
        with pytest.raises(ArgumentError, match="wide"):
            noise.discrete_laplace(bad, (1,))


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(10)])
@pytest.mark.parametrize(("rate", "wrong"), [(0.5, 0.51), (0.01, 0.015), (1 / 3, 0.345)])
def test_poisson_samples_have_the_stated_rate_and_independent_rows(noise, rate, wrong):
    """How many are taken is binomial, and the gaps between them are geometric."""
    rows = 1_000_000
    taken = noise.poisson_sample(rows, rate)
    assert taken.dtype == np.int64
    assert taken[0] >= 0
    assert taken[-1] < rows
    gaps = np.diff(taken)
    assert gaps.min() >= 1
    for claimed, right in ((rate, True), (wrong, False)):
        count = stats.binom(rows, claimed)
        assert (min(count.cdf(len(taken)), count.sf(len(taken) - 1)) > RARELY) == right
        law = stats.geom(claimed).pmf(np.arange(gaps.max() + 50))
        assert fits_table(gaps, law, RARELY) == right


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(11)])
def test_poisson_samples_of_all_rows_or_of_none(noise):
    assert noise.poisson_sample(5, 1.0).tolist() == [0, 1, 2, 3, 4]
    assert noise.poisson_sample(0, 0.5).tolist() == noise.poisson_sample(0, 1.0).tolist() == []
    assert noise.poisson_sample(1_000, 1e-30).dtype == np.int64
    for bad in (0.0, -0.1, 1.0000001, float("nan"), float("inf")):
        with pytest.raises(ArgumentError, match="rate"):
            noise.poisson_sample(5, bad)


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(12)])
def test_numbers_of_trials_are_geometric_at_shape_one(noise):
    """A mean of 4; half as much again is noticed."""
    draws = [noise.trials(4.0, 1.0) for _ in range(3_000)]
    assert fits_table(draws, stats.geom(1 / 4).pmf(np.arange(200)), RARELY)
    assert not fits_table(draws, stats.geom(1 / 6).pmf(np.arange(200)), RARELY)


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(3)])
@pytest.mark.parametrize("race", ["exponential", "permute-and-flip"])
def test_two_candidates_are_chosen_by_the_law_of_that_race_and_not_of_the_other(noise, race):
    """With two candidates a step apart the two laws are 0.27 and 0.18: 3,000 draws miss it once in 10⁸."""
    scores = np.array([0, 1])
    laws = {"exponential": exponential_mechanism, "permute-and-flip": permute_and_flip}
    draws = [chosen(noise, race, scores, 1.0) for _ in range(3_000)]
    assert {name: fits_table(draws, law(scores, 1.0)) for name, law in laws.items()} == {
        name: name == race for name in laws
    }


@pytest.mark.parametrize(("noise", "trials"), [(SecureNoise(), 800), (SeededNoise(4), 3_000)])
def test_races_of_many_candidates_have_their_laws(noise, trials):
    for race, law in (("exponential", exponential_mechanism), ("permute-and-flip", permute_and_flip)):
        draws = [chosen(noise, race, SCORES, WIDTH) for _ in range(trials)]
        assert fits_table(draws, law(SCORES, WIDTH))
        assert not fits_table(draws, law(SCORES, 4 * WIDTH))


def chosen(noise, race, scores, scale):
    bins = ScoreBins.of(scores, scale)
    choice = noise.best_set(bins, 1, scale) if race == "exponential" else noise.permute_and_flip(bins, scale)
    return settled(choice, scores)[0]


def test_scores_that_floats_cannot_tell_apart_are_told_apart():
    """A sampler that turned its scores into floats would see two equal ones here."""
    scores = np.array([2**60, 2**60 + 2])
    assert float(scores[0]) == float(scores[1])
    draws = [chosen(SecureNoise(), "exponential", scores, 1.0) for _ in range(1_000)]
    assert fits_table(draws, exponential_mechanism([0, 2], 1.0))
    assert not fits_table(draws, [0.5, 0.5])


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(5)])
def test_subsets_are_uniform_and_increasing(noise):
    every = {(0, 1): 0, (0, 2): 1, (0, 3): 2, (1, 2): 3, (1, 3): 4, (2, 3): 5}
    draws = [every[tuple(noise.subset(4, 2).tolist())] for _ in range(6_000)]
    assert fits_table(draws, np.ones(6))
    assert not fits_table(draws, [1, 1, 1, 1, 1, 2])
    assert noise.subset(3, 3).tolist() == [0, 1, 2]
    assert noise.subset(3, 0).tolist() == []


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(6)])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_draws_have_the_shape_asked_for_and_are_integers(noise, shape):
    for law in (noise.discrete_gaussian, noise.discrete_laplace):
        draws = law(12.0, shape)
        assert draws.shape == shape
        assert draws.dtype == np.int64


def test_a_seed_repeats_itself_and_says_so_and_the_secure_source_does_neither():
    assert SeededNoise(7).seeded
    assert not SecureNoise().seeded
    first, again, other = (SeededNoise(s).discrete_gaussian(1e9, (5,)).tolist() for s in (7, 7, 8))
    assert first == again != other
    assert len({tuple(SecureNoise().discrete_gaussian(1e9, (3,)).tolist()) for _ in range(5)}) == 5
    assert len({tuple(SecureNoise().discrete_laplace(1e9, (3,)).tolist()) for _ in range(5)}) == 5
    for draw in (
        lambda noise: noise.discrete_laplace(1e9, (5,)).tolist(),
        lambda noise: noise.poisson_sample(200, 0.5).tolist(),
        lambda noise: [noise.trials(20.0, 0.0) for _ in range(20)],
    ):
        first, again, other = (draw(SeededNoise(s)) for s in (7, 7, 8))
        assert first == again != other
    assert (repr(SecureNoise()), repr(SeededNoise(7))) == ("SecureNoise()", "SeededNoise(7)")


def test_secure_noise_hands_its_samplers_exactly_what_it_was_asked_for(monkeypatch):
    """A scale or rate that is a little off shows in no statistic of a few thousand draws."""
    asked = []

    def noted(module, name):
        def sampler(*given):
            asked.append((name, *(one for one in given if one is not secrets.randbits)))
            return np.zeros(6, dtype=np.int64)

        monkeypatch.setattr(module, name, sampler)

    noted(integer_noise, "discrete_gaussian")
    noted(integer_noise, "discrete_laplace")
    noted(race_module, "best_set")
    noted(race_module, "permute_and_flip")
    noted(source_module, "exact_poisson_sample")
    noted(source_module, "uniform_integers")
    noted(source_module, "exact_trials")
    noise, bins = SecureNoise(), object()
    noise.discrete_gaussian(12.25, (2, 3))
    noise.discrete_laplace(13.25, (3, 2))
    noise.best_set(bins, 4, 14.25)
    noise.permute_and_flip(bins, 15.25)
    noise.poisson_sample(70, 0.3)
    noise.integers(9, 6)
    noise.trials(2.5, 0.5)
    assert asked == [
        ("discrete_gaussian", 12.25, 6),
        ("discrete_laplace", 13.25, 6),
        ("best_set", bins, 4, 14.25),
        ("permute_and_flip", bins, 15.25),
        ("exact_poisson_sample", 70, 0.3),
        ("uniform_integers", 9, 6),
        ("exact_trials", 2.5, 0.5),
    ]


def test_draws_come_from_the_table_of_exactly_their_scale(monkeypatch):
    made, asked = integer_noise.proposal, []
    monkeypatch.setattr(integer_noise, "proposal", lambda *law: asked.append(law) or made(*law))
    SecureNoise().discrete_gaussian(12.25, (2,))
    SecureNoise().discrete_laplace(13.25, (2,))
    assert asked == [(integer_noise.GAUSSIAN, 12.25), (integer_noise.LAPLACE, 13.25)]


def test_a_source_without_a_record_computes_each_intermediate_anew():
    computed = []
    for _ in range(2):
        found = SeededNoise(0).keep("sums", lambda: computed.append(1) or np.arange(3))
        assert found.tolist() == [0, 1, 2]
    assert len(computed) == 2
