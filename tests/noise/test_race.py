import math
import random
import secrets
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.noise import SecureNoise, SeededNoise, race
from dptransfer.noise import integer_noise as coin
from dptransfer.noise.race import ScoreBins, finest_level

from .laws import exponential_mechanism, fits_table, permute_and_flip

SCORES = np.array([3, 0, 7, 7, 5, -9, 6])
WIDTH = 2.5
BITS = random.Random()


@pytest.fixture(autouse=True)
def the_same_bits():
    """Laws as close as these are told apart by no number of draws that a test can afford, every time."""
    BITS.seed(1)


def exponential(scores, scale=WIDTH, randbits=BITS.getrandbits):
    return race.run_choice(race.best_set(ScoreBins.of(scores, scale), 1, scale, randbits), scores)[0]


def flipped(scores, scale=WIDTH, randbits=BITS.getrandbits):
    choice = race.permute_and_flip(ScoreBins.of(scores, scale), scale, randbits)
    return race.run_choice(choice, scores)[0]


def set_law(scores, size, scale):
    """P(S) ∝ exp(min score ÷ scale), in the order of `combinations`."""
    worst = np.array([min(one) for one in combinations(scores.tolist(), size)])
    weights = np.exp((worst - worst.max()) / scale)
    return weights / weights.sum()


class AllWays:
    """Runs a choice along every way its draws may go, with the exact probability of each."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(race, "_drawn", self.drawn)
        monkeypatch.setattr(race, "_subset", self.subset)
        monkeypatch.setattr(race, "below_exponential", self.coin)

    def law(self, begin, scores):
        """Probability of every result, given that the first proposal is kept; and of that."""
        found, todo = {}, [()]
        while todo:
            self.path, self.taken, self.chance = todo.pop(), 0, Fraction(1)
            try:
                result = race.run_choice(begin(), scores)
                found[result] = found.get(result, 0) + self.chance
            except Undecided as branch:
                todo += [(*self.path, one) for one in branch.options]
        kept = sum(found.values())
        return {result: float(chance / kept) for result, chance in found.items()}, float(kept)

    def branch(self, chances):
        if self.taken == len(self.path):
            raise Undecided([place for place, chance in enumerate(chances) if chance])
        one = self.path[self.taken]
        self.taken += 1
        self.chance *= chances[one]
        return one

    def drawn(self, weights, randbits):
        return self.branch([Fraction(weight, sum(weights)) for weight in weights])

    def subset(self, population, size, randbits):
        ways = list(combinations(range(population), size))
        return ways[self.branch([Fraction(1, len(ways))] * len(ways))]

    def coin(self, uniform, bits, gap, scale, factor, randbits):
        if gap < 1_000 * scale:  # what is deeper hardly counts
            low, high = (factor * end for end in coin.exponential_interval(gap, scale, digits=600))
            assert high <= 1 + Fraction(1, 10**50)
            self.chance *= (low + high) / 2
        return True


class Undecided(Exception):
    def __init__(self, options):
        super().__init__(options)
        self.options = options


POOLS = {
    "mixed": SCORES,
    "tied": np.full(5, 4),
    "two levels": np.array([0, 0, 3_000, 3_001, 3_004, 0]),
    "far": np.array([10**12, 10**12 - 40, 5, 4, 10**12 - 41]),
}


@pytest.mark.parametrize("scores", POOLS.values(), ids=POOLS)
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("scale", [2.5, 40.0])
def test_all_ways_together_are_the_law_over_all_sets(scores, size, scale, monkeypatch):
    bins = ScoreBins.of(scores, scale, size)
    ways = AllWays(monkeypatch)
    law, kept = ways.law(lambda: race.best_set(bins, size, scale, secrets.randbits), scores)
    want = dict(zip(combinations(range(len(scores)), size), set_law(scores, size, scale), strict=True))
    assert sum(law.values()) == pytest.approx(1)
    for one, chance in want.items():
        assert law.get(one, 0.0) == pytest.approx(chance, rel=1e-9, abs=1e-12)
    assert kept > 0.5


def test_a_wrong_number_of_sets_is_noticed(monkeypatch):
    scores = POOLS["two levels"]
    bins = ScoreBins.of(scores, 2_000.0, 2)
    ways = AllWays(monkeypatch)
    monkeypatch.setattr(race.math, "comb", lambda n, k: n**k)  # as if members came in an order, and twice
    law, _ = ways.law(lambda: race.best_set(bins, 2, 2_000.0, secrets.randbits), scores)
    got = [law.get(one, 0.0) for one in combinations(range(6), 2)]
    assert not np.allclose(got, set_law(scores, 2, 2_000.0), rtol=1e-6)


@pytest.mark.parametrize("size", [1, 30, 300])
def test_few_proposals_are_thrown_away_however_large_the_sets(size, monkeypatch):
    """Of scores that are spread over so many scales, the lowest member of a set is deep, and not alone."""
    scores = (np.random.default_rng(0).normal(size=20_000) * 2_000 * size).astype(np.int64)
    tossed, usual = [], race.below_exponential

    def coin(*given):
        tossed.append(given)
        assert len(tossed) < 60
        return usual(*given)

    monkeypatch.setattr(race, "below_exponential", coin)
    bins = ScoreBins.of(scores, 1_000.0, size)
    for seed in range(6):
        noise = SeededNoise(seed)
        race.run_choice(noise.best_set(bins, size, 1_000.0), scores)
    assert len(tossed) < 24


@pytest.mark.parametrize(("held", "better", "size"), [(3, 4, 2), (5, 0, 5), (1, 9, 4), (6, 2, 5), (7, 7, 1)])
def test_shares_of_members_are_products_of_binomials(held, better, size):
    fewest, shares = race._shares(held, better, size)
    every = [math.comb(held, m) * math.comb(better, size - m) for m in range(size + 1)]
    assert every[fewest : fewest + len(shares)] == shares
    assert not any(every[1:fewest])
    assert not any(every[fewest + len(shares) :])


def test_visits_in_random_order_have_the_law_of_permute_and_flip():
    drawn = [flipped(SCORES) for _ in range(6_000)]
    assert fits_table(drawn, permute_and_flip(SCORES, WIDTH))
    assert not fits_table(drawn, permute_and_flip(SCORES, 2 * WIDTH))
    assert not fits_table(drawn, exponential_mechanism(SCORES, WIDTH))


def test_a_clock_that_stands_still_is_noticed(monkeypatch):
    """Without the time, permute-and-flip is the exponential mechanism."""
    monkeypatch.setattr(coin.ExponentialClock, "survives", lambda *given: True)
    assert not fits_table(
        [flipped(np.array([0, 1]), 1.0) for _ in range(4_000)], permute_and_flip([0, 1], 1.0)
    )


def test_the_law_does_not_depend_on_the_bounds(monkeypatch):
    """Bounds several times too large, different for each bin: the coins make up for them."""
    honest = race._bounds

    def loose(gaps, scale, sets):
        bounds, one = honest(gaps, scale, sets)
        return [bound * (1 + place % 5) for place, bound in enumerate(bounds)], one

    monkeypatch.setattr(race, "_bounds", loose)
    assert fits_table([exponential(SCORES) for _ in range(1_500)], exponential_mechanism(SCORES, WIDTH))
    assert fits_table([flipped(SCORES) for _ in range(1_500)], permute_and_flip(SCORES, WIDTH))
    monkeypatch.setattr(race, "below_exponential", lambda *given: True)
    assert not fits_table([exponential(SCORES) for _ in range(1_500)], exponential_mechanism(SCORES, WIDTH))


@pytest.mark.parametrize("scale", [1e6, 999_983.7, 1e6 / 3])
@pytest.mark.parametrize("sets", [1, 10**80])
def test_bounds_are_above_the_weights_and_hardly_so(scale, sets):
    rng = np.random.default_rng(7)
    gaps = [0, 1, 2, 1_000, 10**6, *(rng.random(40) * 900 * scale).astype(int).tolist()]
    bounds, one = race._bounds(gaps, scale, sets)
    for gap, bound in zip(gaps, bounds, strict=True):
        low, high = coin.exponential_interval(gap, scale, digits=max(60, int(gap / scale)))
        assert Fraction(bound, one) >= high or bound == one
        loose = Fraction(2) if gap > 700 * scale else 1 + Fraction(1, 2**38)
        assert Fraction(bound, one) <= max(low * loose, Fraction(1, 2**1000 * sets))
    assert race._bounds([2**63], scale, sets)[0] == [1]


def test_scores_as_far_apart_as_integers_go_are_told_apart():
    far = np.array([2**63 - 1, -(2**63), 0])
    for choose in (exponential, flipped):
        assert choose(far, 1.0) == choose(far, 5e-300) == 0


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(1)])
def test_a_width_no_choice_can_use_is_refused(scale, noise):
    bins = ScoreBins.of(SCORES, 1.0)
    for begin in (lambda: noise.best_set(bins, 1, scale), lambda: noise.permute_and_flip(bins, scale)):
        with pytest.raises(ArgumentError, match="scale"):
            begin()


@pytest.mark.parametrize("bound", [1, 2, 3, 2**20 + 1, 10**60])
def test_numbers_below_a_bound_are_below_it_and_reach_it(bound):
    drawn = [race.uniform_below(bound, secrets.randbits) for _ in range(60)]
    assert all(0 <= one < bound for one in drawn)
    assert bound < 10 or max(drawn) > bound // 2


ENDS = np.array([2**63 - 1, -(2**63), 0, 2**63 - 1, 5])

RNG = np.random.default_rng(0)

KINDS = {
    "close": RNG.integers(0, 40, 30),
    "tied": np.zeros(12, dtype=np.int64),
    "spread": (RNG.normal(size=40) * 1e9).astype(np.int64),
    "far": (RNG.normal(size=40) * 1e17).astype(np.int64),
    "as far as integers go": ENDS,
    "one": np.array([-7]),
}


def same(first, second):
    names = ("size", "top", "levels", "indices", "counts")
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)


@pytest.mark.parametrize("scores", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("size", [1, 3, 20])
@pytest.mark.parametrize("scale", [0.5, 7.0, 1e6])
def test_bins_hold_every_candidate_once_and_do_not_overlap(scores, size, scale):
    bins = ScoreBins.of(scores, scale, size)
    falling = bins.descending_bins()
    assert sum(one.members for one in falling) == len(scores)
    assert all((scores >> one.level == one.place).sum() == one.members for one in falling)
    assert all(lower.high < one.place << one.level for one, lower in pairwise(falling))
    assert bins.top.tolist() == sorted(scores.tolist(), reverse=True)[:size]


@pytest.mark.parametrize("scores", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("size", [1, 3, 20])
@pytest.mark.parametrize("scale", [0.5, 7.0, 1e6])
def test_parts_put_together_are_the_whole_whatever_the_cut_and_the_order(scores, size, scale):
    whole = ScoreBins.of(scores, scale, size)
    rng = np.random.default_rng(1)
    for pieces in (2, 3, 7):
        cuts = np.sort(rng.integers(0, len(scores) + 1, pieces - 1))
        parts = [ScoreBins.of(part, scale, size) for part in np.split(scores, cuts) if len(part)]
        assert same(ScoreBins.merge(parts[::-1]), whole)
        nested = ScoreBins.merge([ScoreBins.merge(parts[:1]), *parts[1:]])
        assert same(nested, whole)


def test_a_part_that_is_left_out_or_counted_twice_shows():
    scores = KINDS["spread"]
    first, second = (ScoreBins.of(part, 1e6) for part in np.split(scores, 2))
    whole = ScoreBins.of(scores, 1e6)
    assert not same(ScoreBins.merge([first]), whole)
    assert not same(ScoreBins.merge([first, second, second]), whole)


@pytest.mark.parametrize("size", [1, 5, 50])
@pytest.mark.parametrize("spread", [1e3, 1e9, 1e16])
def test_there_are_few_bins_and_those_that_matter_are_fine(size, spread):
    scores = (np.random.default_rng(2).normal(size=20_000) * spread).astype(np.int64)
    scale = 1e6
    bins = ScoreBins.of(scores, scale, size)
    assert len(bins.levels) < 1_000 + size
    for one in bins.descending_bins():
        depth = int(bins.top[-1]) - one.high
        assert 2**one.level <= max(scale / 4, depth / 128)


@pytest.mark.parametrize("dense", [2**16, 2**17])
@pytest.mark.parametrize("size", [2, 700])
def test_bins_do_not_depend_on_how_many_are_counted_at_once(dense, size, monkeypatch):
    scores = (np.random.default_rng(3).normal(size=3_000) * 1e12).astype(np.int64)
    whole = ScoreBins.of(scores, 100.0, size)
    monkeypatch.setattr(race, "_COUNTED_AT_ONCE", dense)
    assert same(ScoreBins.of(scores, 100.0, size), whole)
    assert same(ScoreBins.merge([ScoreBins.of(part, 100.0, size) for part in np.split(scores, 3)]), whole)


@pytest.mark.parametrize("scale", [1e-300, 0.3, 4.0, 1e6, 2.0**70])
def test_the_finest_bins_are_a_quarter_of_the_width_or_one_score(scale):
    level = finest_level(scale)
    assert level == 0 or 2**level <= scale / 4
    assert level == 62 or 2 ** (level + 1) > scale / 4


torch = pytest.importorskip("torch")

TENSORS = {
    "bell": RNG.normal(5e6, 1e4, (5000, 4)).astype(np.int64),
    "deep": (2.0 ** RNG.uniform(0, 61, (3000, 3))).astype(np.int64),
    "ties": RNG.integers(0, 4, (500, 3)),
    "equal": np.full((100, 2), 7),
    "one far above": np.append(RNG.integers(0, 900, (400, 1)), [[2**60]], axis=0),
    "few": RNG.integers(0, 10**9, (3, 2)),
    "zeros below": np.append(np.zeros((50, 1), dtype=np.int64), [[2**62 - 1], [5]], axis=0),
}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("pool", TENSORS)
@pytest.mark.parametrize("size", [1, 2, 3, 70, 300])
@pytest.mark.parametrize("scale", [0.1, 40.0, 1e6])
def test_bins_are_those_of_the_cpu(pool, size, scale, device, monkeypatch):
    scores = TENSORS[pool]
    expected = [ScoreBins.of(column, scale, size) for column in scores.T]
    for at_once in (2**22, 1):  # all classes, and one by one
        monkeypatch.setattr(race, "_AT_ONCE", at_once)
        found = race.bins_on_device(torch.from_numpy(scores).to(device), scale, size)
        assert all(map(same, found, expected))
        assert len(found) == len(expected)
