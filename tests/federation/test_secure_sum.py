import math

import numpy as np
import pytest
from scipy import stats

from dptransfer import SecureNoise
from dptransfer.federation import OwnerKey
from dptransfer.federation.secure_sum import FEWEST_STEPS, add_masks, total

KEYS = {name: OwnerKey(bytes([place]) * 32) for place, name in enumerate("abcd")}
PUBLIC = {name: key.public for name, key in KEYS.items()}
AFTER = "00" * 32


def answers_of(name):
    rng = np.random.default_rng(ord(name))
    return [rng.integers(-(2**40), 2**40, size=(3, 5)), rng.integers(-9, 9, size=7)]


def sent(after=AFTER):
    return {name: add_masks(answers_of(name), KEYS[name], name, PUBLIC, after) for name in PUBLIC}


def test_masks_cancel_in_the_total_of_all_owners():
    for place in range(2):
        plain = sum(answers_of(name)[place] for name in PUBLIC)
        assert np.array_equal(total([one[place] for one in sent().values()]), plain)


def test_masks_do_not_cancel_in_any_other_sum():
    found = sent()
    for missing in PUBLIC:
        some = [found[name][0] for name in PUBLIC if name != missing]
        plain = sum(answers_of(name)[0] for name in PUBLIC if name != missing)
        assert (total(some) != plain).all()


def test_masks_are_the_same_again_and_others_after_another_history():
    assert all(np.array_equal(sent()[name][0], sent()[name][0]) for name in PUBLIC)
    assert (sent()["a"][0] != sent("11" * 32)["a"][0]).all()


def test_what_one_owner_sends_is_uniform_and_no_two_answers_have_one_mask():
    zeros = [np.zeros(20_000, dtype=np.int64), np.zeros(20_000, dtype=np.int64)]
    first, second = add_masks(zeros, KEYS["a"], "a", PUBLIC, AFTER)
    top = first.view(np.uint64) >> np.uint64(58)
    assert stats.chisquare(np.bincount(top.astype(int), minlength=64)).pvalue > 1e-6
    assert (first != second).all()


def without_masks_of(honest, known):
    """What an honest owner sent, less the masks that the owners in `known` share with it."""
    own = sent()[honest][0].view(np.uint64).copy()
    for one in known:
        pair = {name: PUBLIC[name] for name in PUBLIC if name in (honest, one)}
        own += add_masks([np.zeros((3, 5), np.int64)], KEYS[one], one, pair, AFTER)[0].view(np.uint64)
    return own.view(np.int64)


def test_a_coalition_of_two_among_four_does_not_see_what_one_of_the_others_sent():
    for honest in "ab":
        assert (without_masks_of(honest, "cd") != answers_of(honest)[0]).all()


def test_a_coalition_of_all_others_sees_it():
    assert np.array_equal(without_masks_of("a", "bcd"), answers_of("a")[0])


def exact_law_of_sum(width, shares, reach):
    support = np.arange(-reach, reach + 1)
    one = np.exp(-(support**2) / (2 * width**2))
    one /= one.sum()
    found = one
    for _ in range(shares - 1):
        found = np.convolve(found, one)
    centre = len(found) // 2
    return found[centre - 40 : centre + 41]


@pytest.mark.parametrize(("width", "bound"), [(0.6, None), (1.0, 1e-3), (2.0, 1e-14)])
def test_a_sum_of_discrete_gaussians_is_one_up_to_the_stated_factor(width, bound):
    """7n·exp(−π²a²), by enumeration; below a = 1 the bound says nothing, and the laws differ."""
    shares, x = 4, np.arange(-40, 41)
    whole = np.exp(-(x**2) / (2 * shares * width**2))
    ideal = whole / np.exp(-(np.arange(-400, 401) ** 2) / (2 * shares * width**2)).sum()
    seen = np.abs(x) <= 3 * math.sqrt(shares) * width
    apart = np.abs(np.log(exact_law_of_sum(width, shares, 200)[seen] / ideal[seen])).max()
    if bound is None:
        assert apart > 1e-2
    else:
        assert apart <= 7 * shares * math.exp(-(math.pi**2) * width**2) + 1e-13
        assert apart <= bound


def test_shares_of_the_fewest_steps_are_off_by_nothing_that_a_float_can_say():
    assert 14 * 64 * math.exp(-(math.pi**2) * FEWEST_STEPS**2 / 4) < 1e-250


@pytest.mark.parametrize("off", [1.0, 1.1])
def test_the_sum_of_shares_has_the_law_of_one_draw(off):
    """χ² of 20,000 sums of three draws; shares that are 10 % too wide are found out."""
    width, owners, count = 1000.0, 3, 20_000
    draws = sum(
        SecureNoise().discrete_gaussian(off * width / math.sqrt(owners), (count,)) for _ in range(owners)
    )
    squares = float(np.square(draws / width).sum())
    chance = 2 * min(stats.chi2.cdf(squares, count), stats.chi2.sf(squares, count))
    assert (chance > 1e-6) == (off == 1.0)
