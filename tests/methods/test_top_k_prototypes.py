import numpy as np
import pytest

from dptransfer.data import PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.methods import TopKPrototypes
from dptransfer.privacy import Budget, Relation

from .samples import BUDGET, REPLACE, WIDTH, clusters, fit, pool, private

POOL = pool()


def test_it_releases_k_different_public_rows_per_class():
    model = fit(TopKPrototypes(k=4), public=POOL)
    for rows in model.provenance.prototypes["rows"].values():
        assert len(set(rows)) == 4
        assert rows == sorted(rows)
        assert 0 <= rows[0] <= rows[-1] < len(POOL)
    assert model.weights["prototypes"].shape == (3, 4, WIDTH)
    unit = POOL.rows / np.linalg.norm(POOL.rows, axis=1, keepdims=True)
    chosen = model.provenance.prototypes["rows"]["bee"]
    assert np.allclose(model.weights["prototypes"][1], unit[chosen], atol=2e-3)


@pytest.mark.parametrize("budget", [BUDGET, REPLACE, Budget(epsilon=1.0), Budget.zcdp(0.1)])
def test_one_event_with_bounded_range_pays_for_all_classes(budget):
    (event,) = fit(TopKPrototypes(), budget=budget, public=POOL).events
    assert (event.mechanism, event.bounded_range, event.relation) == ("top-k", True, budget.relation)
    assert fit(TopKPrototypes(k=1), budget=budget, public=POOL).events[0].epsilon == event.epsilon


def test_it_learns():
    x, y = clusters(seed=9)
    assert fit(TopKPrototypes(), budget=Budget(epsilon=4.0), public=POOL).score(x, y) > 0.9


def test_a_pool_smaller_than_k_is_refused_before_anything_is_charged():
    ledger = Ledger.in_memory()
    small = PublicEmbeddings(POOL.rows[:3])
    with pytest.raises(ArgumentError, match="public rows"):
        TopKPrototypes(k=4).fit(private(), small, budget=BUDGET, ledger=ledger)
    assert ledger.history() == []
    with pytest.raises(ArgumentError, match="k must"):
        TopKPrototypes(k=0)


def test_all_of_the_pool_may_be_asked_for():
    small = PublicEmbeddings(POOL.rows[:3])
    rows = fit(TopKPrototypes(k=3), public=small).provenance.prototypes["rows"]
    assert set(map(tuple, rows.values())) == {(0, 1, 2)}
    assert fit(TopKPrototypes(k=3), budget=REPLACE, public=small).guarantee.relation is Relation.REPLACE_ONE
