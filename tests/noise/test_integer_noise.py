import secrets
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import islice

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr, ndtr

from dptransfer.accounting import delta_of_mu
from dptransfer.errors import ArgumentError
from dptransfer.noise import SeededNoise, lattice_epsilon
from dptransfer.noise import integer_noise as coin
from dptransfer.noise import integer_noise as sampler
from dptransfer.noise.integer_noise import (
    GAUSSIAN,
    LAPLACE,
    accept_proposals,
    discrete_gaussian,
    discrete_laplace,
    from_the_tails,
    proposal,
)
from dptransfer.privacy import SMALLEST_NOISE_MULTIPLIER

from .laws import (
    RARELY,
    fits_continuous,
    fits_integers,
    fits_table,
    gaussian_log_weight,
    laplace_log_weight,
    spread_fits,
)
from .oracle import opendp_gaussian, opendp_laplace

POWERS = [GAUSSIAN, LAPLACE]

SCALES = [0.05, 1.0, 10.0, 63.99, 64.0, 129.3, 1e3 / 3, 3.7307 * 2**30, 2.0**52 + 2]

WIDEST = {GAUSSIAN: 2.0**57, LAPLACE: 2.0**52}

LOG_WEIGHT = {GAUSSIAN: gaussian_log_weight, LAPLACE: laplace_log_weight}

DRAW = {GAUSSIAN: discrete_gaussian, LAPLACE: discrete_laplace}

TOTAL = {  # Σg
    GAUSSIAN: lambda scale: max(1.0, scale * np.sqrt(2 * np.pi)),
    LAPLACE: lambda scale: 1 / np.tanh(0.5 / scale),
}

CONTINUOUS = {GAUSSIAN: stats.norm, LAPLACE: stats.laplace}

ONE = np.zeros(1, dtype=np.uint64)

by_power = pytest.mark.parametrize("power", POWERS, ids=["gaussian", "laplace"])


def exact_weight(draw, table, digits=60):
    """An interval that holds exp(−(|k|/s)^p / p)."""
    p = table.power
    return coin.exponential_interval(abs(draw) ** p, p * Fraction(table.scale) ** p, digits)


def kept_with(table, place):
    """N/W, the factor of exp(−(|k|/s)^p / p) in a bin's probability of being kept."""
    return Fraction(table.ceiling, int(table.weights[place]))


def exact_keep(draw, table, place):
    """An interval that holds the probability with which a proposal is kept."""
    return [kept_with(table, place) * bound for bound in exact_weight(draw, table)]


def ends_of_bins(table):
    """First and last integer of every bin, with the bin's place in the arrays."""
    width = 2**table.shift
    for place in range(2 * table.reach):
        start = (place - table.reach) * width
        yield from ((start, place), (start + width - 1, place))


def bins_with_ends(table):
    """Both of these together, bin by bin."""
    ends = list(ends_of_bins(table))
    return zip(ends[::2], ends[1::2], strict=True)


def block_of(draw, table):
    """Which block of the tails an integer outside the bins lies in."""
    beyond = (draw if draw >= 0 else -1 - draw) - (table.reach << table.shift)
    assert beyond >= 0
    return beyond // (64 << table.shift)


def induced_errors(table, most):
    """Relative errors of P(k) as slots, weights and acceptance make it, for |k| ≤ most, tails included."""
    width, bins = 2**table.shift, range(-table.reach, table.reach)
    slots = dict(zip(*np.unique(table.slots, return_counts=True), strict=True))
    with localcontext() as context:
        context.prec = 60
        top, bottom = (table.power * Fraction(table.scale) ** table.power).as_integer_ratio()

        def weight(k):
            return (Decimal(-(abs(k) ** table.power) * bottom) / top).exp()

        attempts = {}
        for k in range(-most, most + 1):
            if k // width in bins:
                proposed = Fraction(int(slots[k // width]), 2**16 * width)
                factor = kept_with(table, k // width + table.reach)
            else:
                block = block_of(k, table)
                proposed = Fraction(int(slots[table.reach]), 2**16) / 2 / 2 ** (block + 1) / (64 * width)
                factor = Fraction(table.ceiling * 2 ** (block + 8))
                assert factor * Fraction(weight(k)) <= 1
            rate = proposed * factor
            attempts[k] = Decimal(rate.numerator) / rate.denominator * weight(k)
        total, ideal = sum(attempts.values()), sum(map(weight, attempts))
        return [float(p / total / (weight(k) / ideal)) - 1 for k, p in attempts.items()]


@pytest.mark.parametrize(("power", "most"), [(GAUSSIAN, 20), (LAPLACE, 45)])
@pytest.mark.parametrize("scale", [0.4, 3.0, 10.0, 70.7])
def test_the_induced_law_is_the_stated_one_in_the_bins_and_far_into_the_tails(power, most, scale):
    """Gaussian to 20 scales and Laplace to 45, where 6 and 20 are in bins; less is left than 10⁻¹⁹."""
    errors = induced_errors(proposal(power, scale), int(most * scale) + 200)
    assert max(map(abs, errors)) <= 1e-15


def test_a_slot_that_names_the_wrong_bin_is_found_by_enumeration():
    table = proposal(GAUSSIAN, 10.0)
    slots = table.slots.copy()
    slots[2**15] += 1
    assert max(map(abs, induced_errors(replace(table, slots=slots), 150))) > 1e-4


@by_power
@pytest.mark.parametrize("scale", SCALES)
def test_what_the_tails_hand_out_is_outside_the_bins_with_the_factor_of_its_block(power, scale):
    table = proposal(power, scale)
    drawn = [from_the_tails(table) for _ in range(200)]
    for draw, factor in drawn:
        assert factor == table.ceiling * 2 ** (8 + block_of(draw, table))
        assert factor * exact_weight(draw, table)[1] <= Fraction(26, 100)
    assert len({draw < 0 for draw, _ in drawn}) == 2


@by_power
def test_blocks_sides_and_places_of_the_tails_have_their_probabilities(power):
    table = proposal(power, 1.0)
    drawn = [from_the_tails(table)[0] for _ in range(20_000)]
    blocks = [block_of(draw, table) for draw in drawn]
    assert fits_table(blocks, [2.0 ** -(b + 1) for b in range(40)], RARELY)
    assert not fits_table(blocks, [0.45 * 0.55**b for b in range(60)], RARELY)
    beyond = [(draw if draw >= 0 else -1 - draw) - table.reach for draw in drawn]
    places = [place - 64 * block for place, block in zip(beyond, blocks, strict=True)]
    assert fits_table(places, np.ones(64), RARELY)
    assert fits_table([int(draw < 0) for draw in drawn], np.ones(2), RARELY)


@by_power
def test_a_kept_proposal_from_the_tails_is_handed_out(power, monkeypatch):
    """Once in 2⁶² attempts or less; here the coin says yes."""
    table = proposal(power, 1e9)
    tails = ONE + np.uint64(int(np.flatnonzero(table.slots == table.reach)[0]) << 48)
    monkeypatch.setattr(sampler, "below_exponential", lambda *given: True)
    for _ in range(20):
        draws, keep = accept_proposals(tails, ONE, table)
        assert keep.tolist() == [True]
        block_of(int(draws[0]), table)
    monkeypatch.setattr(sampler, "below_exponential", lambda *given: False)
    assert accept_proposals(tails, ONE, table)[1].tolist() == [False]


@by_power
def test_the_coin_of_the_tails_has_the_exact_probability(power, monkeypatch):
    """Bisection over 47 bits finds where the verdict on one proposal from the tails turns."""
    table = proposal(power, 1e9)
    tails = ONE + np.uint64(int(np.flatnonzero(table.slots == table.reach)[0]) << 48)
    draw = (table.reach << table.shift) + 12_345
    factor = Fraction(table.ceiling * 2**8)
    monkeypatch.setattr(sampler, "from_the_tails", lambda table: (draw, factor))
    monkeypatch.setattr(secrets, "randbits", lambda bits: 2**bits - 1)
    low, high = 0, 2**47
    while low < high:
        middle = (low + high) // 2
        keep = accept_proposals(tails + np.uint64(middle), ONE, table)[1]
        low, high = (middle + 1, high) if keep[0] else (low, middle)
    assert low == int(factor * exact_weight(draw, table)[0] * 2**47) > 1_000


def test_a_draw_that_64_bits_cannot_hold_is_an_error_and_one_that_is_not_kept_is_none(monkeypatch):
    table = proposal(GAUSSIAN, 2.0**57)
    tails = ONE + np.uint64(int(np.flatnonzero(table.slots == table.reach)[0]) << 48)
    monkeypatch.setattr(sampler, "from_the_tails", lambda table: (2**63, Fraction(1)))
    assert accept_proposals(tails, ONE, table)[1].tolist() == [False]
    monkeypatch.setattr(sampler, "below_exponential", lambda *given: True)
    with pytest.raises(OverflowError):
        accept_proposals(tails, ONE, table)


@by_power
@pytest.mark.parametrize("scale", [*SCALES, None])
def test_tables_are_full_reach_far_enough_and_name_each_bin_by_its_weight(power, scale):
    scale = scale or WIDEST[power]
    table = proposal(power, scale)
    assert table.weights.sum() == len(table.slots) == 2**16
    assert table.weights.min() >= 1
    assert table.weights[-1] == 1
    bins, counts = np.unique(table.slots, return_counts=True)
    assert (bins == np.arange(-table.reach, table.reach + 1)).all()
    assert (counts == table.weights).all()
    width = 2**table.shift
    assert Fraction(table.reach * width) / Fraction(scale) >= {GAUSSIAN: 6, LAPLACE: 20}[power]
    assert 64 * width > scale
    assert 0 < table.ceiling < 2**16
    assert table.ceiling * TOTAL[power](scale) / (2**16 * width) > 0.95  # so many are kept


@by_power
@pytest.mark.parametrize("scale", [*SCALES, None])
def test_no_probability_exceeds_one_and_floats_stay_within_the_proven_error(power, scale):
    """At both ends of bins, in exact arithmetic. The largest probabilities come close to one."""
    table = proposal(power, scale or WIDEST[power])
    largest = Fraction(0)
    # In a large table every third end: a first one and a last one in turn.
    for draw, place in islice(ends_of_bins(table), 0, None, 3 if table.reach > 100 else 1):
        low, high = exact_keep(draw, table, place)
        assert high <= 1
        largest = max(largest, low)
        inexact = sampler._exponentials(np.array([draw]), power, table.scale)[0] * table.thresholds[place]
        exact = low * 2**47
        assert abs(Fraction(inexact) - exact) <= exact / 2**41 + Fraction(1, 2**20)
    assert largest > Fraction(9, 10)


@by_power
@pytest.mark.parametrize("scale", [1.0, 129.3, 3.7307 * 2**30])
def test_the_code_keeps_each_proposal_with_the_exact_probability(power, scale, monkeypatch):
    """Bisection finds the 47-bit number at which each bin's verdict turns: its probability, to 2⁻⁴⁷."""
    monkeypatch.setattr(secrets, "randbits", lambda bits: 2**bits - 1)
    table = proposal(power, scale)
    starts = np.cumsum(table.weights) - table.weights
    rng = np.random.default_rng(0)
    places = np.arange(0, 2 * table.reach, 7)
    inside = rng.integers(0, 2**table.shift, len(places))
    second = (inside + 2**table.shift * rng.integers(0, 2**10, len(places))).astype(np.uint64)
    slots = starts[places].astype(np.uint64) << np.uint64(48)
    low, high = np.zeros(len(places), dtype=np.uint64), np.full(len(places), 2**47, dtype=np.uint64)
    while (high - low > 0).any():
        middle = (low + high) // np.uint64(2)
        draws, keep = accept_proposals(slots | middle, second, table)
        low, high = np.where(keep, middle + np.uint64(1), low), np.where(keep, high, middle)
    assert (draws == (places - table.reach) * 2**table.shift + inside).all()
    for draw, place, turn in zip(draws.tolist(), places.tolist(), low.tolist(), strict=True):
        # With ones for further bits, exactly the numbers below ⌊p·2⁴⁷⌋ are kept.
        assert turn == int(exact_keep(draw, table, place)[0] * 2**47)


@by_power
@pytest.mark.parametrize("scale", [0.05, 1.0, 129.3, 3.7307 * 2**30, None])
def test_what_is_kept_without_an_exponential_would_be_kept_wherever_in_its_bin_it_lies(power, scale):
    """In exact arithmetic, at both ends of bins; and it is nearly as much as could be kept so."""
    table = proposal(power, scale or WIDEST[power])
    for first, last in islice(bins_with_ends(table), 0, None, 5 if table.reach > 100 else 1):
        least = min(exact_keep(draw, table, place)[0] for draw, place in (first, last)) * 2**47
        surely = int(table.surely[first[1]])
        assert 0 <= surely <= least
        assert surely >= least * (1 - Fraction(2, 2**40)) - 1
    assert table.surely[-1] == 0
    if table.shift:  # a bin of one integer is settled at once or not at all
        at_once = (table.surely * table.weights).sum() / 2**63
        assert at_once > 0.95 * table.ceiling * TOTAL[power](table.scale) / (2**16 * 2**table.shift)


@by_power
@pytest.mark.parametrize("error", [0.0, 1000 * 2.0**-52, -1000 * 2.0**-52])
def test_close_calls_are_settled_in_exact_arithmetic_whatever_the_exponential_says(power, error, monkeypatch):
    table = proposal(power, 1e9)
    genuine = sampler._exponentials
    monkeypatch.setattr(sampler, "_exponentials", lambda *given: genuine(*given) * (1 + error))
    asked = []
    for slot in (2_000, 20_000, 32_000, 50_000):
        first = np.uint64(slot << 48)
        draw = int(accept_proposals(ONE + first, ONE, table)[0][0])
        place = int(table.slots[slot]) + table.reach
        turn = int(exact_keep(draw, table, place)[0] * 2**47)
        for further in (0, 2**64 - 1):
            monkeypatch.setattr(secrets, "randbits", lambda bits, f=further: asked.append(bits) or f)
            for uniform in (turn - 20, turn - 1, turn, turn + 1, turn + 20):
                expected = uniform < turn or (uniform == turn and further == 0)
                assert accept_proposals(ONE + first + np.uint64(uniform), ONE, table)[1][0] == expected
    assert asked == [64] * 8  # further bits only where 47 of them did not decide


@by_power
@pytest.mark.parametrize("scale", [0.7, 2.0, 10.0, 63.99])
def test_narrow_draws_have_the_law_and_three_per_cent_of_scale_are_noticed(power, scale):
    draws = DRAW[power](scale, 1_000_000)
    law = LOG_WEIGHT[power]
    assert fits_integers(draws, law(scale), RARELY)
    # χ² is moved by 10⁶ · 0.03² = 900 or more, 10 standard deviations beyond what rarely happens; two per
    # cent would leave 3, and the widest law would pass once in a thousand times.
    assert not fits_integers(draws, law(1.03 * scale), RARELY)
    assert not fits_integers(draws, law(scale / 1.03), RARELY)
    assert not fits_integers(np.abs(draws), law(scale), RARELY)


def test_noise_narrower_than_any_step_is_zero():
    for scale in (1e-300, 0.02):
        assert not discrete_gaussian(scale, 10_000).any()
        assert not discrete_laplace(scale, 10_000).any()


@by_power
@pytest.mark.parametrize("scale", [1e3, 3.7307 * 2**30, None])
def test_wide_draws_are_continuous_in_shape_and_two_per_cent_of_scale_are_noticed(power, scale):
    scale = scale or WIDEST[power]
    draws = DRAW[power](scale, 500_000)
    smooth = draws[:200_000] + np.random.default_rng(0).uniform(-0.5, 0.5, 200_000)
    assert fits_continuous(smooth, CONTINUOUS[power](scale=scale), RARELY)
    assert not fits_continuous(np.abs(smooth), CONTINUOUS[power](scale=scale), RARELY)
    for claimed, right in ((scale, True), (1.02 * scale, False), (scale / 1.02, False)):
        if power == GAUSSIAN:
            assert spread_fits(draws, claimed, RARELY) == right
        else:
            sizes = stats.gamma(draws.size)  # Σ|draw|/scale of a Laplace law
            total = float(np.abs(draws / claimed).sum())
            assert (min(sizes.cdf(total), sizes.sf(total)) > RARELY / 2) == right


@by_power
@pytest.mark.parametrize("scale", [1e5, 2.0**30, None])
def test_low_bits_are_uniform(power, scale):
    draws = DRAW[power](scale or WIDEST[power], 200_000)
    assert fits_table(draws & 255, np.ones(256), RARELY)


def test_low_bits_of_float_noise_would_not_be():
    draws = SeededNoise(1).discrete_gaussian(2.0**57, (200_000,))
    assert not fits_table(draws & 255, np.ones(256), RARELY)


def same_law(first, second, power):
    """Two samples: their spreads by an F test, their shapes by a two-sample Kolmogorov-Smirnov test."""
    ratio = (np.abs(first).astype(np.float64) ** power).mean() / (
        np.abs(second).astype(np.float64) ** power
    ).mean()
    # Σ|draw|^p has a gamma law of shape n/p: chi-square for p = 2.
    spread = stats.f(2 * len(first) / power, 2 * len(second) / power)
    spreads_agree = min(spread.cdf(ratio), spread.sf(ratio)) > RARELY / 2
    return spreads_agree and stats.ks_2samp(first, second, method="asymp").pvalue > RARELY


@by_power
@pytest.mark.parametrize(
    ("draws", "error"), [(15_000, 1.15), pytest.param(200_000, 1.03, marks=pytest.mark.slow)]
)
def test_draws_agree_with_opendp_and_a_wrong_scale_does_not(power, draws, error):
    """A test of n draws finds an error e of the scale for certain once p·e·√(n/p) is above 12 or so."""
    oracle = {GAUSSIAN: opendp_gaussian, LAPLACE: opendp_laplace}[power](1e6, draws)
    assert same_law(DRAW[power](1e6, 2_000_000), oracle, power)
    assert not same_law(DRAW[power](1e6 * error, 2_000_000), oracle, power)
    assert not same_law(DRAW[power](1e6 / error, 2_000_000), oracle, power)


@by_power
@pytest.mark.parametrize("count", [0, 1, 7, 2**13 - 1, 2**13, 3 * 2**13 + 1])
def test_as_many_draws_as_asked_for_whatever_the_chunks(power, count):
    draws = DRAW[power](1e15, count)
    assert draws.shape == (count,)
    assert draws.dtype == np.int64
    assert len(np.unique(draws)) == count


def test_a_sampler_that_keeps_few_goes_on_until_it_has_enough(monkeypatch):
    honest = sampler.accept_proposals

    def strict(*arguments):
        draws, keep = honest(*arguments)
        keep[1:] = False
        return draws, keep

    monkeypatch.setattr(sampler, "accept_proposals", strict)
    assert len(np.unique(discrete_gaussian(1e15, 20))) == 20


@by_power
def test_the_widest_bins_fit_64_bits(power):
    table = proposal(power, WIDEST[power])
    ends = (table.reach << table.shift) - 1
    slots = np.array([0, 2**16 - 2], dtype=np.uint64) << np.uint64(48)  # the first bin and the last
    draws, _ = accept_proposals(slots, np.array([0, 2**64 - 1], dtype=np.uint64), table)
    assert draws.tolist() == [-ends - 1, ends]
    assert ends < 2**60


def log_discrete(k, scale):
    """log of the discrete Gaussian, normalised over all integers that matter."""
    return -(k**2) / (2 * scale**2) - log_total(scale)


@cache
def log_total(scale):
    support = np.arange(-int(60 * scale), int(60 * scale) + 1)
    return np.log(np.exp(-(support**2) / (2 * scale**2)).sum())


def log_rounded(k, scale):
    """log of the rounded normal: log(Φ((k + ½)/s) − Φ((k − ½)/s)), without cancellation in the tail."""
    k = np.abs(k)
    upper, lower = log_ndtr(-(k - 0.5) / scale), log_ndtr(-(k + 0.5) / scale)
    return upper + np.log(-np.expm1(lower - upper))


@pytest.mark.parametrize("scale", [10.0, 33.3, 2_000.0])
def test_the_rounded_normal_and_the_discrete_gaussian_differ_as_derived(scale):
    for width in (1, 8, 30):  # further out, differences of log Φ lose the digits that are compared
        k = np.arange(-int(width * scale), int(width * scale) + 1).astype(np.float64)
        gap = log_rounded(k, scale) - log_discrete(k, scale)
        assert gap.min() >= -1 / (8 * scale**2) - 1e-9
        assert gap.max() <= width**2 / (8 * scale**2) + 1e-9
        assert gap.max() >= 0.2 * width**2 / (8 * scale**2) - 1 / (8 * scale**2)  # the bound is not idle


def exact_delta(scale, distance, epsilon):
    """Hockey-stick divergence of the discrete Gaussian from itself moved by `distance`: the truth."""
    k = np.arange(-int(45 * scale), int(45 * scale) + distance + 1).astype(np.float64)
    first, second = log_discrete(k - distance, scale), log_discrete(k, scale)
    return float(np.maximum(np.exp(first) - np.exp(epsilon + second), 0).sum())


@pytest.mark.parametrize("multiplier", [0.25, 1.0, 3.7307])
def test_the_exact_curve_of_one_coordinate_is_below_the_stated_one_and_above_the_ideal_one(multiplier):
    scale = 400 * multiplier
    extra = lattice_epsilon(scale, 1)
    ideal_exceeded = False
    for epsilon in np.linspace(0.01, 1.9, 40) / multiplier:
        truth = exact_delta(scale, 400, epsilon)
        if epsilon >= extra:
            assert truth <= np.exp(extra) * delta_of_mu(1 / multiplier, epsilon - extra)
        ideal_exceeded |= truth > delta_of_mu(1 / multiplier, epsilon)
    assert ideal_exceeded  # without the allowance the statement would be false


def test_the_allowance_pays_for_a_neighbour_at_twice_the_distance_when_doubled():
    """Restating add/remove as replace-one doubles the number; outputs are then up to 40 + 2·40 wide."""
    scale, width = 1e6, 40 + 2 / SMALLEST_NOISE_MULTIPLIER
    assert (1 + width**2) / (8 * scale**2) <= 2 * lattice_epsilon(scale, 1)
    assert (1 + 80**2) / (8 * scale**2) <= lattice_epsilon(scale, 1)


def test_what_lies_beyond_forty_standard_deviations_is_nothing_in_float64():
    assert ndtr(-40.0) * 1e6 < np.finfo(np.float64).tiny


def test_it_adds_up_over_coordinates_and_vanishes_on_the_grid_in_use():
    assert lattice_epsilon(100.0, 7) == pytest.approx(7 * lattice_epsilon(100.0, 1))
    assert lattice_epsilon(2.0**30 * SMALLEST_NOISE_MULTIPLIER, 1280 * 1000) < 1e-5
    assert lattice_epsilon(2.0**30, 1280 * 1000) < 2e-9


@pytest.mark.parametrize("scale", [9.9, 0.0, -1.0, float("nan")])
def test_noise_too_narrow_for_the_derivation_is_refused(scale):
    with pytest.raises(ArgumentError, match="grid"):
        lattice_epsilon(scale, 1)
