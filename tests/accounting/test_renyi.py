import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from dptransfer.accounting import delta_of_mu
from dptransfer.accounting.pure import SelectionGroup
from dptransfer.accounting.renyi import ORDERS, delta_of_renyi, divergences, epsilon_of_renyi
from dptransfer.accounting.sampled import SampledGroup


def test_divergences_of_steps_add_up():
    groups, sampled = (SelectionGroup(0.3, True, 4),), (SampledGroup(2.0, 0.1, False, 5),)
    parts = divergences(0.5, ()), divergences(0.0, groups), divergences(0.0, (), sampled)
    assert divergences(0.5, groups, sampled) == pytest.approx(sum(parts), rel=1e-9, abs=1e-14)
    assert divergences(0.5, ()) == pytest.approx(np.array(ORDERS) / 8)


def test_conversion_is_the_librarys_and_never_below_the_truth():
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    theirs = RdpAccountant(ORDERS).compose(dp_event.GaussianDpEvent(2.0))
    for epsilon in (0.1, 1.0, 3.0):
        found = delta_of_renyi(divergences(0.5, ()), epsilon)
        assert found == pytest.approx(theirs.get_delta(epsilon), rel=1e-6)
        assert found > delta_of_mu(0.5, epsilon)


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_epsilon_and_delta_are_inverse_to_each_other(delta):
    bounds = divergences(0.5, ())
    epsilon = epsilon_of_renyi(bounds, delta)
    assert delta_of_renyi(bounds, epsilon) == pytest.approx(delta, rel=1e-6)


def test_numbers_too_large_have_no_divergence():
    assert divergences(1e101, ()) is None
    assert divergences(1.0, (), (SampledGroup(1e-101, 0.1, False, 1),)) is None
    assert np.isfinite(divergences(1e-300, ())).all()
    assert (divergences(1e-300, ()) > 0).all()
    assert not math.isnan(delta_of_renyi(divergences(1e90, ()), 1.0))


@pytest.mark.parametrize("mu", [1e-3, 1e-5, 1e-6])
def test_tiny_losses_are_converted_by_their_root_and_not_below_the_truth(mu):
    found = delta_of_renyi(divergences(mu, ()), 0.0)
    assert delta_of_mu(mu, 0.0) < found < 2 * delta_of_mu(mu, 0.0)


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 9.0])
def test_what_floats_may_round_off_is_added(epsilon):
    bounds = divergences(1.0, ())
    with localcontext() as context:
        context.prec = 50
        known = [(Decimal(a), Decimal(float(b))) for a, b in zip(ORDERS, bounds, strict=True) if a < 100]
        exact = min(((a - 1) * (bound - Decimal(epsilon) + (1 - 1 / a).ln())).exp() / a for a, bound in known)
    more = float(Decimal(delta_of_renyi(bounds, epsilon)) / exact) - 1
    assert 0.9e-8 * (1 + epsilon) < more < 1.1e-8 * (1 + epsilon)
