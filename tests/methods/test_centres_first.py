import numpy as np
import pytest

from dptransfer.accounting import epsilon_of
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.mechanisms import GaussianRounds
from dptransfer.methods.heads.warm_start import released_directions, sums_before
from dptransfer.methods.method import Outline
from dptransfer.privacy import GaussianEvent, Relation
from dptransfer.queries import SoftmaxGradient

from .samples import WIDTH, Silent, clusters, private, unit

OUTLINE = Outline(WIDTH)


def rounds(z=3.0, times=20, rate=0.1, relation=Relation.ADD_REMOVE):
    zero = np.zeros((3, WIDTH))
    return GaussianRounds(SoftmaxGradient(OUTLINE, zero, zero[:, 0]), z, relation, times, "", rate)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("relation", Relation)
def test_full_rounds_and_sums_share_the_price_exactly(share, relation):
    later = rounds(rate=1.0, relation=relation)
    sums = sums_before(later, OUTLINE, private().facts, share)
    prices = [one.times / one.noise_multiplier**2 for one in (sums, later)]
    assert prices[0] / sum(prices) == pytest.approx(share)
    assert (sums.times, sums.relation, sums.sampling_rate) == (1, relation, 1.0)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("z", [0.8, 2.0, 8.0])
def test_sampled_rounds_and_sums_cost_about_the_same_at_a_half(relation, z):
    """The central limit of many sampled rounds; the guarantee never uses it."""
    later = rounds(z, times=400, rate=0.02, relation=relation)
    sums = sums_before(later, OUTLINE, private().facts, 0.5)
    alone = epsilon_of([sums.event], 1e-5), epsilon_of([later.event], 1e-5)
    assert alone[0] == pytest.approx(alone[1], rel=0.35)
    assert epsilon_of([sums.event, later.event], 1e-5) < sum(alone)


def test_noise_is_never_smaller_than_the_lattice_allows():
    tiny = sums_before(rounds(z=0.1, times=10**6), OUTLINE, private().facts, 0.999)
    assert isinstance(tiny.event, GaussianEvent)


def test_directions_are_those_of_the_class_sums_and_an_empty_class_has_none():
    x, y = clusters()
    data = private(x[y < 2], y[y < 2])
    sums = sums_before(rounds(), OUTLINE, data.facts, 0.5)
    found = released_directions(sums, UnitNorm().fit(WIDTH, None), data.rows, data, Silent())
    wanted = np.stack([unit(x[y == place]).sum(axis=0) for place in range(2)])
    assert np.allclose(found[:2], unit(wanted), atol=1e-6)
    assert not found[2].any()
