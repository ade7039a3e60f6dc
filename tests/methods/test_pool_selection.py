from dataclasses import replace

import numpy as np
import pytest

from dptransfer.data import PublicEmbeddings
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods import PublicPrototypes, TopKPrototypes
from dptransfer.methods.prototypes import pool_selection
from dptransfer.methods.prototypes.pool_selection import public_caps
from dptransfer.privacy import Budget
from dptransfer.queries.similarity import GridPool

from .samples import (
    BUDGET,
    CLASSES,
    WIDTH,
    Silent,
    check_record,
    clusters,
    fit,
    pool,
    private,
    refused_uncharged,
    unit,
)

POOL = pool()
PURE = Budget(epsilon=1.0)


def best_by_hand(lowest=0.0, highest=2.0):
    x, y = clusters()
    cosine = unit(x) @ unit(POOL.rows).T
    scores = np.array([np.clip(1 + cosine[y == c], lowest, highest).sum(axis=0) for c in range(3)])
    return scores.argmax(axis=1)


@pytest.mark.parametrize("limits", [(0.0, 2.0), (1.0, 1.9)])
def test_without_noise_the_prototypes_are_the_most_similar_public_rows(limits):
    model = fit(PublicPrototypes(lowest=limits[0], highest=limits[1]), public=POOL, noise=Silent())
    chosen = [rows[0] for rows in model.provenance.prototypes["rows"].values()]
    assert chosen == best_by_hand(*limits).tolist()
    assert np.allclose(model.weights["prototypes"], unit(POOL.rows[chosen]), atol=2e-3)


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
    assert event.epsilon == 1.0 or budget is not PURE  # spent to the last digit


def test_caps_are_read_off_the_pool_alone_behind_the_map_and_are_on_record():
    rows = unit(POOL.rows)
    pool = GridPool(UnitNorm().fit(WIDTH, POOL), POOL.rows, "float16")
    for members, noise, share in ((1, 1.0, 0.995), (5, 2.0, 0.95), (5, 100.0, 0.9), (1000, 9.0, 0.5)):
        wanted = 1 + np.quantile((rows @ rows.T)[np.triu_indices(len(rows), 1)], (0.1, share))
        assert public_caps(pool, members, noise) == pytest.approx(wanted, abs=0.01)
    x, y = clusters()
    one, other = (
        fit(PublicPrototypes(), data, public=POOL) for data in (private(x, y), private(-x[:5], y[:5]))
    )
    lowest, highest = public_caps(pool, 1, 1.0)
    assert one.provenance.notes == other.provenance.notes
    assert f"{lowest:.4f} and {highest:.4f}" in one.provenance.notes[0]
    assert chosen_by(PublicPrototypes()) == chosen_by(PublicPrototypes(lowest=lowest, highest=highest))
    assert one.events == other.events == fit(PublicPrototypes(lowest=0.0, highest=2.0), public=POOL).events
    mapped = fit(PublicPrototypes(features=PublicMap(axes=4)), public=POOL)
    assert mapped.provenance.notes != one.provenance.notes


def test_a_pool_whose_rows_are_all_alike_has_no_caps_and_one_cap_may_be_set():
    alike = PublicEmbeddings(np.ones((5, WIDTH)))
    assert "0.0000 and 2.0000" in fit(PublicPrototypes(), public=alike).provenance.notes[0]
    assert fit(PublicPrototypes(), public=PublicEmbeddings(np.ones((1, WIDTH)))).events
    assert "0.2500 and 2.0000" in fit(PublicPrototypes(lowest=0.25), public=POOL).provenance.notes[0]
    assert "caps" in refused_uncharged(PublicPrototypes(lowest=1.5, highest=1.0), public=POOL)
    few = PublicEmbeddings(POOL.rows[:3])
    assert "public rows" in refused_uncharged(TopKPrototypes(k=4), public=few)


def test_a_public_map_has_axes_for_every_unit_of_epsilon_and_caps_for_the_members_of_a_set(monkeypatch):
    monkeypatch.setattr(pool_selection, "_AXES", 2)
    for budget, axes in ((PURE, 2), (Budget(epsilon=0.1), 2), (Budget(epsilon=3.0), 6)):
        model = fit(TopKPrototypes(k=2), budget=budget, public=POOL)
        assert model.weights["prototypes"].shape[2] == axes
        behind = GridPool(PublicMap(axes=axes).fit(WIDTH, POOL), POOL.rows, "float16")
        caps = public_caps(behind, 2, 1 / budget.epsilon)
        assert f"{caps[0]:.4f} and {caps[1]:.4f}" in model.provenance.notes[0]
        assert check_record(model).passed


def test_the_record_is_checked_with_the_note_on_caps_and_no_other():
    model = fit(TopKPrototypes(k=2), public=POOL)
    assert check_record(model).passed
    told = replace(model.provenance, notes=(*model.provenance.notes, "and more"))
    assert not check_record(replace(model, provenance=told)).passed


BOTH = [PublicPrototypes(), TopKPrototypes(k=2)]


def chosen_by(method, people=None, **options):
    model = fit(method, private(*clusters(), people=people, **options), public=POOL, noise=Silent())
    return list(model.provenance.prototypes["rows"].values())


@pytest.mark.parametrize("method", BOTH)
def test_a_person_per_row_chooses_as_rows_do(method):
    assert chosen_by(method, np.arange(600)) == chosen_by(method)


@pytest.mark.parametrize("lowest", [0.0, 0.9])
def test_a_person_has_one_voice_however_many_rows(lowest):
    """A hundred people say one thing, and somebody with four hundred rows another."""
    here, there = 2 * np.eye(2, WIDTH)
    x, y = np.array([here] * 100 + [there] * 400), np.zeros(500, dtype=int)
    people = np.minimum(np.arange(500), 100)
    public, method = PublicEmbeddings(np.eye(2, WIDTH)), PublicPrototypes(lowest=lowest)

    def chosen(**options):
        model = fit(method, private(x, y, **options), public=public, noise=Silent())
        return model.provenance.prototypes["rows"][CLASSES[0]]

    assert chosen(people=people) == [0]
    assert chosen(people=people, person_bound=50.0) == [0]
    assert chosen(people=people, person_bound=400.0) == [1]
    assert chosen() == [1]
