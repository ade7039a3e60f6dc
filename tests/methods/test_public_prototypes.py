import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.features import PublicMap
from dptransfer.methods import PublicPrototypes
from dptransfer.privacy import Budget

from .samples import BUDGET, WIDTH, Silent, clusters, fit, pool, private

POOL = pool()
PURE = Budget(epsilon=1.0)


def best_by_hand(lowest=0.0, highest=2.0):
    x, y = clusters()
    cosine = (
        x
        / np.linalg.norm(x, axis=1, keepdims=True)
        @ (POOL.rows / np.linalg.norm(POOL.rows, axis=1, keepdims=True)).T
    )
    scores = np.array([np.clip(1 + cosine[y == c], lowest, highest).sum(axis=0) for c in range(3)])
    return scores.argmax(axis=1)


@pytest.mark.parametrize("limits", [(0.0, 2.0), (1.0, 1.9)])
def test_without_noise_the_prototypes_are_the_most_similar_public_rows(limits):
    model = fit(PublicPrototypes(lowest=limits[0], highest=limits[1]), public=POOL, noise=Silent())
    chosen = [rows[0] for rows in model.provenance.prototypes["rows"].values()]
    assert chosen == best_by_hand(*limits).tolist()
    shown = model.weights["prototypes"]
    unit = POOL.rows[chosen] / np.linalg.norm(POOL.rows[chosen], axis=1, keepdims=True)
    assert np.allclose(shown, unit, atol=2e-3)


@pytest.mark.parametrize(
    ("mechanism", "budget", "ran"),
    [
        ("best", PURE, "permute-and-flip"),
        ("best", BUDGET, "exponential"),
        ("best", Budget.zcdp(0.1), "exponential"),
        ("laplace", BUDGET, "laplace"),
        ("exponential", PURE, "exponential"),
    ],
)
def test_the_flavour_of_the_budget_chooses_the_mechanism(mechanism, budget, ran):
    (event,) = fit(PublicPrototypes(mechanism=mechanism), budget=budget, public=POOL).events
    assert event.mechanism == ran
    assert event.bounded_range == (ran == "exponential")


def test_a_pure_budget_is_spent_to_the_last_digit():
    (event,) = fit(PublicPrototypes(), budget=PURE, public=POOL).events
    assert event.epsilon == 1.0


def test_it_learns_also_through_a_public_map():
    x, y = clusters(seed=9)
    assert fit(PublicPrototypes(), public=POOL).score(x, y) > 0.9
    assert fit(PublicPrototypes(features=PublicMap(axes=4)), public=POOL).score(x, y) > 0.9


def test_the_cap_on_contributions_is_in_the_released_law():
    """Caps so close that no row counts for more than a sliver: the choice is then still by that sliver."""
    model = fit(PublicPrototypes(lowest=1.0, highest=1.001), public=POOL, noise=Silent())
    assert model.weights["prototypes"].shape == (3, WIDTH)


def test_it_needs_public_rows_and_sensible_settings():
    with pytest.raises(ArgumentError, match="public"):
        fit(PublicPrototypes())
    for bad in ({"mechanism": "magic"}, {"precision": "float8"}):
        with pytest.raises(ArgumentError):
            PublicPrototypes(**bad)
    with pytest.raises(ArgumentError, match="caps"):
        fit(PublicPrototypes(lowest=1.5, highest=1.0), private(), public=POOL)
