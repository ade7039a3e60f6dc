"""Figures that the pages of methods state about printed formulas and shared budgets."""

import numpy as np
import pytest

from dptransfer.accounting import mu_for
from dptransfer.data import Facts
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.methods import AdaMix, DPSGDProbe, FromZero, FullyPrivate, MeanPrototypes, WarmStart
from dptransfer.privacy import Budget
from dptransfer.queries import ProjectionGradient

FACTS = Facts(classes=tuple(range(10)), shape=(64,))


def test_prototypes_of_the_rows_that_a_gradient_sees_move_it_by_many_clips():
    features, axes = UnitNorm().fit(8, None), np.eye(8)
    rows, labels = np.tile(axes[0] + axes[1], (100, 1)), np.zeros(100, dtype=np.int64)

    def summed(support, count=100):
        prototypes = np.stack([np.mean(support, axis=0), axes[1]])
        asked = ProjectionGradient(features, np.sqrt(10) * axes, prototypes)
        return asked.of_rows(rows[:count], labels[:count]) / asked.grid  # in units of the clip

    support = [axes[0]] * 10
    assert np.linalg.norm(summed(support) - summed(support, count=99)) <= 1
    assert np.linalg.norm(summed(support) - summed([*support, axes[1]])) > 48


def test_centres_and_steps_composed_exactly_have_less_noise_than_two_halves():
    delta = 1 / 50_000
    together = WarmStart(steps=20).plan(FACTS, Budget(epsilon=2.0, delta=delta)).events
    half = Budget(epsilon=1.0, delta=delta / 2)
    (centres,), (steps,) = (
        MeanPrototypes().plan(FACTS, half).events,
        DPSGDProbe(steps=20).plan(FACTS, half).events,
    )
    assert together[0].noise_multiplier < 0.81 * centres.noise_multiplier
    assert together[1].noise_multiplier < 0.72 * steps.noise_multiplier


@pytest.mark.parametrize(("epsilon", "printed", "exact"), [(1.0, 5, 28), (3.0, 14, 206)])
def test_the_printed_number_of_steps_wastes_most_of_the_budget(epsilon, printed, exact):
    mu = mu_for(epsilon, 1e-5)
    assert int(20 * mu) == printed  # as if μ were T/σ
    assert int((20 * mu) ** 2) == exact  # μ = √T/σ


def test_adamix_without_its_parts_costs_what_fully_private_does():
    parts_off = AdaMix(start=FromZero(), quantile=None, axes=None, public_weight=0.0, count_share=0.0)
    budget = Budget(epsilon=1.0, delta=1e-5)
    assert parts_off.plan(FACTS, budget).events == FullyPrivate().plan(FACTS, budget).events


def test_the_published_noise_of_least_squares_is_larger_than_needed():
    rho = (np.sqrt(np.log(1e5) + 1) - np.sqrt(np.log(1e5))) ** 2
    assert round(np.sqrt(3 / (2 * rho)), 2) == 8.49
    assert round(np.sqrt(3) / mu_for(1.0, 1e-5), 2) == 6.46
