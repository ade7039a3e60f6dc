import secrets
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dptransfer.errors import ArgumentError
from dptransfer.noise import SecureNoise, SeededNoise, coin, lattice_gaussian_distance
from dptransfer.noise import lattice_gaussian as sampler
from dptransfer.noise.lattice_gaussian import judged, lattice_gaussian, proposal

from .laws import RARELY, fits_continuous, fits_integers, fits_table, gaussian_log_weight, spread_fits

SMALL_SCALES = [10.0, 63.99, 64.0, 129.3]
SCALES = [*SMALL_SCALES, 1e3 / 3, 3.7307 * 2**30, 2.0**53 + 2, 2.0**57]
ONE = np.zeros(1, dtype=np.uint64)


def kept_with(scale, table, place):
    """N/W, the factor of exp(−k²/2s²) in a bin's probability of being kept."""
    return Fraction(table.ceiling, int(table.weights[place]))


def exact_keep(draw, scale, table, place, digits=60):
    """An interval that holds the probability with which a proposal is kept."""
    bounds = coin.exponential_interval(draw**2, 2 * Fraction(scale) ** 2, digits)
    return [kept_with(scale, table, place) * bound for bound in bounds]


def ends_of_bins(table):
    """First and last integer of every bin, with the bin's place in the arrays."""
    width = 2**table.shift
    for place in range(2 * table.reach):
        start = (place - table.reach) * width
        yield from ((start, place), (start + width - 1, place))


def induced_law(scale, table):
    """P(k) of the sampler as its slots, weights and acceptance make it, and of the discrete Gaussian."""
    width = 2**table.shift
    slots = dict(zip(*np.unique(table.slots, return_counts=True), strict=True))
    with localcontext() as context:
        context.prec = 100
        top, bottom = (2 * Fraction(scale) ** 2).as_integer_ratio()

        def weight(k):
            return (Decimal(-k * k * bottom) / top).exp()

        support = range(-table.reach * width, table.reach * width)
        drawn = []
        for k in support:
            h = k // width
            factor = kept_with(scale, table, h + table.reach)
            proposed = Decimal(int(slots[h])) / (2**16 * width)
            drawn.append(proposed * factor.numerator / factor.denominator * weight(k))
        everything = range(-int(40 * scale), int(40 * scale) + 1)
        ideal = sum(map(weight, everything))
        total = sum(drawn)
        return [(float(p / total / (weight(k) / ideal)) - 1) for k, p in zip(support, drawn, strict=True)]


@pytest.mark.parametrize("scale", [10.0, 70.7])
def test_the_induced_law_is_the_discrete_gaussian_also_in_the_tails(scale):
    errors = induced_law(scale, proposal(scale))
    assert len(errors) >= 32 * scale
    assert max(map(abs, errors)) <= 1e-15


def test_a_slot_that_names_the_wrong_bin_is_found_by_enumeration():
    table = proposal(10.0)
    slots = table.slots.copy()
    slots[2**15] += 1
    assert max(map(abs, induced_law(10.0, replace(table, slots=slots)))) > 1e-4


@pytest.mark.parametrize("scale", SCALES)
def test_tables_are_full_cover_sixteen_deviations_and_name_each_bin_by_its_weight(scale):
    table = proposal(scale)
    assert table.weights.sum() == len(table.slots) == 2**16
    assert table.weights.min() >= 1
    bins, counts = np.unique(table.slots, return_counts=True)
    assert (bins == np.arange(-table.reach, table.reach)).all()
    assert (counts == table.weights).all()
    width = 2**table.shift
    assert 16 * Fraction(scale) <= table.reach * width <= Fraction(161, 10) * Fraction(scale)
    assert table.reach * width <= 2**62
    assert table.ceiling * np.sqrt(2 * np.pi) * scale / (2**16 * width) > 0.96  # so many are kept


@pytest.mark.parametrize("scale", SCALES)
def test_no_probability_exceeds_one_and_floats_stay_within_the_proven_error(scale):
    """At both ends of every bin, in exact arithmetic. The largest probabilities come close to one."""
    table = proposal(scale)
    largest = Fraction(0)
    for draw, place in ends_of_bins(table):
        low, high = exact_keep(draw, scale, table, place)
        assert high <= 1
        largest = max(largest, low)
        inexact = sampler._exponentials(np.array([draw]), scale)[0] * table.thresholds[place]
        exact = low * 2**47
        assert abs(Fraction(inexact) - exact) <= exact / 2**41
    assert largest > Fraction(9, 10)


@pytest.mark.parametrize("scale", [10.0, 129.3, 3.7307 * 2**30])
def test_the_code_keeps_each_proposal_with_the_exact_probability(scale, monkeypatch):
    """Bisection finds the 47-bit number at which each bin's verdict turns: its probability, to 2⁻⁴⁷."""
    monkeypatch.setattr(secrets, "randbits", lambda bits: 2**bits - 1)
    table = proposal(scale)
    starts = np.cumsum(table.weights) - table.weights
    rng = np.random.default_rng(0)
    places = np.arange(0, 2 * table.reach, 7)
    inside = rng.integers(0, 2**table.shift, len(places))
    second = (inside + 2**table.shift * rng.integers(0, 2**10, len(places))).astype(np.uint64)
    slots = starts[places].astype(np.uint64) << np.uint64(48)
    low, high = np.zeros(len(places), dtype=np.uint64), np.full(len(places), 2**47, dtype=np.uint64)
    while (high - low > 0).any():
        middle = (low + high) // np.uint64(2)
        draws, keep = judged(slots | middle, second, scale, table)
        low, high = np.where(keep, middle + np.uint64(1), low), np.where(keep, high, middle)
    assert (draws == (places - table.reach) * 2**table.shift + inside).all()
    for draw, place, turn in zip(draws.tolist(), places.tolist(), low.tolist(), strict=True):
        # With ones for further bits, exactly the numbers below ⌊p·2⁴⁷⌋ are kept.
        assert turn == int(exact_keep(draw, scale, table, place)[0] * 2**47)


@pytest.mark.parametrize("error", [0.0, 1000 * 2.0**-52, -1000 * 2.0**-52])
def test_close_calls_are_settled_in_exact_arithmetic_whatever_the_exponential_says(error, monkeypatch):
    scale, table = 1e9, proposal(1e9)
    genuine = sampler._exponentials
    monkeypatch.setattr(sampler, "_exponentials", lambda draws, scale: genuine(draws, scale) * (1 + error))
    asked = []
    for slot in (2_000, 20_000, 32_000, 50_000):
        first = np.uint64(slot << 48)
        draw = int(judged(ONE + first, ONE, scale, table)[0][0])
        place = int(table.slots[slot]) + table.reach
        turn = int(exact_keep(draw, scale, table, place)[0] * 2**47)
        for further in (0, 2**64 - 1):
            monkeypatch.setattr(secrets, "randbits", lambda bits, f=further: asked.append(bits) or f)
            for uniform in (turn - 20, turn - 1, turn, turn + 1, turn + 20):
                expected = uniform < turn or (uniform == turn and further == 0)
                assert judged(ONE + first + np.uint64(uniform), ONE, scale, table)[1][0] == expected
    assert asked == [64] * 8  # further bits only where 47 of them did not decide


def test_clear_calls_are_not_settled_in_exact_arithmetic(monkeypatch):
    monkeypatch.setattr(sampler, "below_exponential", None)
    table = proposal(1e9)
    first = np.uint64(20_000 << 48)
    turn = int(
        exact_keep(
            int(table.slots[20_000]) << table.shift, 1e9, table, int(table.slots[20_000]) + table.reach
        )[0]
        * 2**47
    )
    for uniform, expected in ((0, True), (turn - 200, True), (turn + 200, False), (2**47 - 1, False)):
        assert judged(ONE + first + np.uint64(uniform), ONE, 1e9, table)[1][0] == expected
    with pytest.raises(TypeError):
        judged(ONE + first + np.uint64(turn), ONE, 1e9, table)


@pytest.mark.parametrize("scale", [10.0, 63.99])
def test_draws_have_the_law_and_two_per_cent_of_scale_are_noticed(scale):
    draws = lattice_gaussian(scale, 2_000_000)
    assert fits_integers(draws, gaussian_log_weight(scale), RARELY)
    assert not fits_integers(draws, gaussian_log_weight(1.02 * scale), RARELY)
    assert not fits_integers(np.abs(draws), gaussian_log_weight(scale), RARELY)


@pytest.mark.parametrize("scale", [1e3, 3.7307 * 2**30, 2.0**57])
def test_wide_draws_are_normal_and_two_per_cent_of_scale_are_noticed(scale):
    draws = lattice_gaussian(scale, 500_000)
    smooth = draws[:200_000] + np.random.default_rng(0).uniform(-0.5, 0.5, 200_000)
    assert fits_continuous(smooth, stats.norm(scale=scale), RARELY)
    assert not fits_continuous(np.abs(smooth), stats.norm(scale=scale), RARELY)
    assert spread_fits(draws, scale, RARELY)
    assert not spread_fits(draws, 1.02 * scale, RARELY)
    assert not spread_fits(draws, scale / 1.02, RARELY)


@pytest.mark.parametrize("scale", [1e5, 2.0**30, 2.0**57])
def test_low_bits_are_uniform(scale):
    draws = lattice_gaussian(scale, 200_000)
    assert fits_table(draws & 255, np.ones(256), RARELY)


def test_low_bits_of_float_noise_would_not_be():
    draws = SeededNoise(1).lattice_gaussian(2.0**57, (200_000,))
    assert not fits_table(draws & 255, np.ones(256), RARELY)


def same_law(first, second):
    """Two samples: their spreads by an F test, their shapes by a two-sample Kolmogorov-Smirnov test."""
    ratio = (first.astype(np.float64) ** 2).mean() / (second.astype(np.float64) ** 2).mean()
    spread = stats.f(len(first), len(second))
    spreads_agree = min(spread.cdf(ratio), spread.sf(ratio)) > RARELY / 2
    return spreads_agree and stats.ks_2samp(first, second, method="asymp").pvalue > RARELY


@pytest.mark.parametrize(
    ("draws", "error"), [(15_000, 1.1), pytest.param(200_000, 1.02, marks=pytest.mark.slow)]
)
def test_draws_agree_with_opendp_and_a_wrong_scale_does_not(draws, error):
    """An F test of n draws finds an error e of the scale for certain once 2e·√(n/2) is above 12."""
    oracle = SecureNoise().discrete_gaussian(1e6, (draws,))
    assert same_law(lattice_gaussian(1e6, 2_000_000), oracle)
    assert not same_law(lattice_gaussian(1e6 * error, 2_000_000), oracle)
    assert not same_law(lattice_gaussian(1e6 / error, 2_000_000), oracle)


@pytest.mark.parametrize("count", [0, 1, 7, 2**13 - 1, 2**13, 3 * 2**13 + 1])
def test_as_many_draws_as_asked_for_whatever_the_chunks(count):
    draws = lattice_gaussian(1e15, count)
    assert draws.shape == (count,)
    assert draws.dtype == np.int64
    assert len(np.unique(draws)) == count


def test_a_sampler_that_keeps_few_goes_on_until_it_has_enough(monkeypatch):
    honest = sampler.judged

    def strict(*arguments):
        draws, keep = honest(*arguments)
        keep[1:] = False
        return draws, keep

    monkeypatch.setattr(sampler, "judged", strict)
    assert len(np.unique(lattice_gaussian(1e15, 20))) == 20


def test_the_widest_draws_fit_64_bits():
    table = proposal(2.0**57)
    last = np.uint64(2**64 - 1)
    words = np.array([0, 2**64 - 1], dtype=np.uint64)  # the first and the last slot
    draws, _ = judged(words, np.array([0, last], dtype=np.uint64), 2.0**57, table)
    assert draws.tolist() == [-(2**61), 2**61 - 1]


def test_tables_that_are_shared_cannot_be_written():
    for array in (proposal(10.0).weights, proposal(10.0).slots, proposal(10.0).thresholds):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def cut_off(scale):
    """The exact mass of the discrete Gaussian outside the table."""
    table = proposal(scale)
    reach = table.reach * 2**table.shift
    with localcontext() as context:
        context.prec = 60
        weights = [(-(Decimal(k) ** 2) / (2 * Decimal(scale) ** 2)).exp() for k in range(int(30 * scale))]
        total = 2 * sum(weights) - 1
        return (2 * sum(weights[reach:]) - weights[reach]) / total


@pytest.mark.parametrize("scale", [10.0, 64.0])
def test_what_is_cut_off_is_below_the_bound_and_the_bound_is_close(scale):
    with localcontext() as context:
        context.prec = 60
        bound = 2 * Decimal(-128).exp()
        assert bound / 10**3 < cut_off(scale) <= bound
        assert bound <= Decimal(lattice_gaussian_distance(1)) < 10 * bound


def test_the_bound_adds_up_over_coordinates_and_vanishes_beside_any_delta():
    assert lattice_gaussian_distance(7) == 7 * lattice_gaussian_distance(1)
    assert lattice_gaussian_distance(1280 * 1000 * 10_000) < 1e-44
    for bad in (0, -1, 1.5):
        with pytest.raises(ArgumentError, match="coordinates"):
            lattice_gaussian_distance(bad)
