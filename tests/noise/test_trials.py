import decimal
import math
import secrets
from decimal import Decimal, localcontext
from itertools import islice, takewhile

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from scipy import stats

from contracts.floating_point import flushing, needs_flags
from dptransfer.errors import ArgumentError
from dptransfer.noise import noise_source as module
from dptransfer.noise.noise_source import _inverse, exact_trials, halting_probability

from .laws import RARELY, fits_table

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


def test_the_largest_uniform_number_ends():
    words = iter([2**64 - 1, 2**63])
    assert 100 < exact_trials(4.0, 1.0, lambda bits: next(words)) < 400


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
