import decimal
import math
import secrets
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import islice, takewhile

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from scipy import stats

from contracts.floating_point import flushing, needs_flags
from dptransfer.errors import ArgumentError
from dptransfer.noise import SecureNoise, SeededNoise, integer_noise
from dptransfer.noise import noise_source as module
from dptransfer.noise import race as race_module
from dptransfer.noise.integer_noise import WordStream
from dptransfer.noise.noise_source import _inverse, exact_poisson_sample, exact_trials, halting_probability
from dptransfer.noise.race import ScoreBins, run_choice

from .laws import (
    RARELY,
    exponential_mechanism,
    fits_continuous,
    fits_integers,
    fits_table,
    gaussian_log_weight,
    laplace_log_weight,
    spread_fits,
)


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


def chosen(noise, race, scores, scale):
    bins = ScoreBins.of(scores, scale)
    choice = noise.best_set(bins, 1, scale) if race == "exponential" else noise.permute_and_flip(bins, scale)
    return run_choice(choice, scores)[0]


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
            own = (one for one in given if one != noise._bits and not isinstance(one, WordStream))
            asked.append((name, *own))
            return np.zeros(6, dtype=np.int64)

        monkeypatch.setattr(module, name, sampler)

    noted(integer_noise, "discrete_gaussian")
    noted(integer_noise, "discrete_laplace")
    noted(race_module, "best_set")
    noted(race_module, "permute_and_flip")
    noted(module, "exact_poisson_sample")
    noted(module, "uniform_integers")
    noted(module, "exact_trials")
    noise, bins = SecureNoise(), object()
    monkeypatch.setattr(secrets, "randbits", lambda count: ("system", count))
    assert noise._bits(64) == ("system", 64)
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


@pytest.fixture
def given_words(monkeypatch):
    """Lets a test say which words the stream holds."""

    def give(words):
        remaining = list(words)

        class Given:
            def words(self, count):
                taken, remaining[:] = remaining[:count], remaining[count:]
                return np.array(taken, dtype=np.uint64)

        monkeypatch.setattr(module, "WordStream", Given)

    return give


def chance_of_heads(rate, given_words, monkeypatch):
    """The sum over all outcomes of the coin: the words below the turning point, and a share of that one."""
    turning = int(Fraction(rate) * 2**64)
    near = [word for word in (0, turning - 1, turning, turning + 1, 2**64 - 1) if 0 <= word < 2**64]
    asked = []
    verdicts = {}
    for further in ("first", "last"):
        monkeypatch.setattr(
            secrets, "randbelow", lambda n, end=further: asked.append(n) or (0 if end == "first" else n - 1)
        )
        given_words(near)
        taken = exact_poisson_sample(len(near), rate)
        verdicts[further] = {word: place in taken for place, word in enumerate(near)}
    sure = {word for word in near if verdicts["first"][word] and verdicts["last"][word]}
    assert sure == {word for word in near if word < turning}
    if not asked:
        assert not verdicts["first"][turning]
        return Fraction(turning, 2**64)
    among, heads = asked[0], 0
    for draw in sorted({0, 1, 2, 3, among // 3, among // 2, among - 1}):
        monkeypatch.setattr(secrets, "randbelow", lambda n, draw=draw: draw)
        given_words([turning])
        heads = max(heads, draw + 1) if len(exact_poisson_sample(1, rate)) else heads
    return Fraction(turning, 2**64) + Fraction(heads, among * 2**64)


@pytest.mark.parametrize(
    "rate", [0.5, 0.1, 1 / 3, 1 - 2.0**-53, 2.0**-11, 2.0**-64, 2.0**-65, 3 * 2.0**-70, 2.0**-1074]
)
def test_heads_have_exactly_the_probability_of_the_float(rate, given_words, monkeypatch):
    assert chance_of_heads(rate, given_words, monkeypatch) == Fraction(rate)


def test_positions_are_right_across_chunks(given_words, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 4)
    given_words([0, 2**63, 2**63 - 1, 2**64 - 1, 5, 2**64 - 1, 2**63, 0, 0, 2**63])
    assert exact_poisson_sample(10, 0.5).tolist() == [0, 2, 4, 7, 8]


SHAPES = [0.0, 0.5, 1.0, 2.0, 37.5]

MEANS = [1.25, 4.0, 10.0, 300.0]


def law(mean, shape, longest=2_000):
    """Probabilities of 0, 1, 2, … from scipy."""
    k = np.arange(longest)
    if shape == math.inf:
        return stats.poisson(mean).pmf(k)
    halting = halting_probability(mean, shape)
    if shape == 0:
        return stats.logser(1 - halting).pmf(k)
    truncated = stats.nbinom(shape, halting).pmf(k)
    truncated[0] = 0
    return truncated / -np.expm1(shape * np.log(halting))


def inverted(uniform, mean, shape):
    """The draw for a uniform number, given as a fraction of 2⁶⁴ followed by zeros and a last one."""
    return exact_trials(mean, shape, lambda bits: uniform if bits == 64 else 1)


@pytest.mark.parametrize("shape", [*SHAPES, math.inf])
@pytest.mark.parametrize("mean", MEANS)
def test_probabilities_are_those_of_the_named_laws(mean, shape):
    ours = np.zeros(400)
    for k, mass in takewhile(lambda item: item[0] < 400, module._law(mean, shape)):
        ours[k] = mass
    np.testing.assert_allclose(ours, law(mean, shape)[:400], rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("shape", [-0.5, *SHAPES])
def test_the_mean_is_the_one_asked_for_and_never_more(shape):
    with localcontext() as context:
        context.prec = 80
        table = list(islice(module._law(4.0, shape), 4_000))
        total, mean = sum(mass for _, mass in table), sum(k * mass for k, mass in table)
        assert abs(total - 1) < Decimal("1e-15")
        assert Decimal("3.9999999999") < mean < 4 + Decimal("1e-40")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [1.0, *MEANS, 1e5])
def test_the_halting_probability_is_the_one_the_accountant_finds_and_never_smaller(mean, shape):
    """Its bound grows with log(1/γ), so drawing with a larger γ at a mean no larger is covered."""
    charged = rdp_privacy_accountant._gamma_truncated_negative_binomial(shape, mean)
    drawn = halting_probability(mean, shape)
    assert charged <= drawn <= charged * (1 + 1.1e-9)
    assert halting_probability(1.1 * mean, shape) < charged or mean == 1.0


@pytest.mark.parametrize("shape", [0.0, 1e-6, -0.5, 0.5, 1.0, 1e6, math.inf])
def test_rounding_stays_within_its_bound(shape):
    """Against 150 digits of another library, whatever context the caller works in."""
    mean = 1 + 1e-12 if shape == 1e-6 else 25.0
    with mpmath.workdps(150), localcontext() as context:
        context.prec = 80
        if shape == math.inf:
            exact = [mpmath.exp(-25) * mpmath.mpf(25) ** k / mpmath.factorial(k) for k in range(60)]
        else:
            halting, eta = mpmath.mpf(halting_probability(mean, shape)), mpmath.mpf(shape)
            factor = eta / (halting**-eta - 1) if shape else -1 / mpmath.log(halting)
            exact = [(1 - halting) * factor]
            for k in range(1, 60):
                exact.append(exact[-1] * (1 - halting) * (k + eta) / (k + 1))
        for (k, mass), right in zip(module._law(mean, shape), exact, strict=False):
            assert abs(mpmath.mpf(str(mass)) / right - 1) < (k + 1) * mpmath.mpf(10) ** -50


def test_the_callers_decimal_context_does_not_matter(monkeypatch):
    uniform = 2**63 + 12_345
    usual = inverted(uniform, 10.0, 0.5)
    with localcontext() as context:
        context.prec = 2
        assert inverted(uniform, 10.0, 0.5) == usual
    monkeypatch.setitem(decimal.DefaultContext.traps, decimal.Inexact, True)
    monkeypatch.setitem(decimal.DefaultContext.traps, decimal.FloatOperation, True)
    halting_probability.cache_clear()
    assert inverted(uniform, 10.0, 0.5) == usual


@needs_flags
def test_the_halting_probability_is_found_where_subnormal_numbers_count_as_zeros():
    usual = halting_probability(4.0, 1.0)
    halting_probability.cache_clear()
    with flushing():
        assert halting_probability(4.0, 1.0) == usual


@pytest.mark.parametrize(("mean", "shape"), [(4.0, 0.0), (4.0, 0.5), (3.0, math.inf), (2.0, -0.5)])
def test_draws_have_the_law_and_not_that_of_another_mean_or_shape(mean, shape):
    draws = [exact_trials(mean, shape, secrets.randbits) for _ in range(3_000)]
    if shape < 0:  # scipy has no such law
        expected = np.zeros(2_000)
        for k, mass in islice(module._law(mean, shape), 1_999):
            expected[k] = mass
    else:
        expected = law(mean, shape)
    assert fits_table(draws, expected, RARELY)
    # Enough draws for both to be noticed with a miss rate below 10⁻⁹.
    assert not fits_table(draws, law(2 * mean, max(shape, 0.0)), RARELY)
    assert not fits_table(draws, law(mean, 5.0), RARELY)


@pytest.mark.parametrize(("mean", "shape"), [(4.0, 0.0), (10.0, 0.5), (5.0, math.inf)])
def test_inversion_turns_exactly_at_the_distribution_function(mean, shape):
    first = 0 if shape == math.inf else 1
    with localcontext() as context:
        context.prec = 80
        masses = [mass for _, mass in islice(module._law(mean, shape), 6)]
        turns = [int(sum(masses[: n + 1]) * 2**64) for n in range(6)]
    for n, turn in enumerate(turns):
        assert inverted(turn - 1, mean, shape) == first + n
        assert inverted(turn + 1, mean, shape) == first + n + 1


def test_a_number_that_64_bits_do_not_settle_gets_more():
    """F(1) = 1/2 of the geometric law with mean 2: the numbers that begin with 2⁶³ − 1 or 2⁶³ touch it."""
    for further, expected in ((1, 1), (2**64 - 2, 1)):
        bits = iter([2**63 - 1, further])
        assert exact_trials(2.0, 1.0, lambda count, bits=bits: next(bits)) == expected
    for further, expected in ((1, 2), (2**64 - 2, 2)):
        bits = iter([2**63, further])
        assert exact_trials(2.0, 1.0, lambda count, bits=bits: next(bits)) == expected
    bits = iter([2**63, 0, 0, 1])  # each further word is asked for only if the ones before were not enough
    assert exact_trials(2.0, 1.0, lambda count: next(bits)) == 2
    assert next(bits, None) is None


def test_a_mean_of_one_is_one_trial_and_a_poisson_number_may_be_none():
    assert {exact_trials(1.0, shape, secrets.randbits) for shape in SHAPES for _ in range(5)} == {1}
    assert exact_trials(1 + 2.0**-52, 1e6, secrets.randbits) == 1  # no float below 1 halts often enough
    assert exact_trials(1.0, math.inf, lambda bits: 0) == 0


@pytest.mark.parametrize("mean", [0.99, 0.0, -1.0, math.nan, math.inf, 1e10])
def test_a_mean_that_no_law_has_is_refused(mean):
    for shape in (0.0, math.inf):
        with pytest.raises(ArgumentError, match="mean"):
            exact_trials(mean, shape, secrets.randbits)


@pytest.mark.parametrize("shape", [-1.0, -2.0, math.nan, -math.inf, 1e-7, -1e-7, 1e7])
def test_a_shape_that_no_law_has_is_refused(shape):
    with pytest.raises(ArgumentError, match="shape"):
        exact_trials(4.0, shape, secrets.randbits)


def test_a_mean_out_of_reach_of_floats_is_refused():
    with pytest.raises(ArgumentError, match="out of reach"):
        exact_trials(1e6, -0.999, secrets.randbits)


def test_what_too_few_digits_leave_open_is_left_open():
    """With 32 digits nothing within 2 % of F(1) = ¼ is decided, on either side of it; far from it all is."""
    for share, found in ((0.2, 1), (0.24, None), (0.26, None), (0.3, 2)):
        assert _inverse(int(share * 2**64), 64, 4.0, 1.0, 32) == found
