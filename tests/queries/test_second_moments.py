from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st

from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.privacy import Relation
from dptransfer.queries import SecondMoments
from dptransfer.queries.second_moments import OfAll, OfClasses, OfProbabilities

from .neighbours import CLASSES, EMPTY, MAPS, WIDTH, of_neighbours, reach, stays_within

UNIT = MAPS["unit norm"]
FIRST, SECOND = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
DIAGONAL = [1.0, 1.0, 1.0]
STEEP = 1e3 * np.eye(CLASSES, WIDTH)  # a row along axis c has class c's probability 1
WEIGHTS = {"all": OfAll(), "classes": OfClasses(CLASSES), "probabilities": OfProbabilities(STEEP)}


def moments(name="all", features=UNIT):
    return SecondMoments(features, WEIGHTS[name])


def made(seed=0, count=60):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, WIDTH)), rng.integers(0, CLASSES, count)


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("features", [name for name in MAPS if MAPS[name].dimension == WIDTH])
@of_neighbours()
def test_moments_stay_within_their_sensitivity(name, features, data, first, second):
    assert stays_within(moments(name, MAPS[features]), data, first, second)


@of_neighbours(seed=st.integers(0, 9), size=st.sampled_from([0.0, 1.0, 1e6]))
def test_moments_with_any_heads_weights_stay_within_their_sensitivity(data, first, second, seed, size):
    linear = np.random.default_rng(seed).normal(size=(CLASSES, 2)) * size
    asked = SecondMoments(MAPS["public map"], OfProbabilities(linear))
    assert stays_within(asked, data, first, second)


@pytest.mark.parametrize(
    ("name", "relation", "first", "second"),
    [
        ("all", Relation.ADD_REMOVE, (FIRST, 0), (SECOND, 0)),
        ("all", Relation.ADD_REMOVE, (DIAGONAL, 0), (SECOND, 0)),
        ("all", Relation.REPLACE_ONE, (FIRST, 0), (SECOND, 0)),
        ("classes", Relation.ADD_REMOVE, (DIAGONAL, 1), (SECOND, 0)),
        ("classes", Relation.REPLACE_ONE, (FIRST, 0), (SECOND, 0)),
        ("classes", Relation.REPLACE_ONE, (DIAGONAL, 0), (DIAGONAL, 1)),
        ("probabilities", Relation.ADD_REMOVE, (FIRST, 0), (SECOND, 0)),
        ("probabilities", Relation.REPLACE_ONE, (FIRST, 0), (SECOND, 0)),
    ],
)
def test_the_sensitivity_is_reached(name, relation, first, second):
    """Rows at right angles, or of two classes, are √2 apart; entries off the diagonal count as on it."""
    assert 0.99 <= reach(moments(name), first, second, relation) <= 1


@dataclass(frozen=True)
class Signed(OfClasses):
    """A planted bug: weights that may be negative, so that two answers may point in opposite directions."""

    def __call__(self, rows, labels):
        return super().__call__(rows, np.zeros_like(labels)) * np.where(labels == 0, 1.0, -1.0)[:, None]


@dataclass(frozen=True)
class Heavy(OfClasses):
    """A planted bug: a row counts fully in two blocks, so its weights have norm √2."""

    def __call__(self, rows, labels):
        return super().__call__(rows, labels) + super().__call__(rows, (labels + 1) % self.blocks)


def test_the_check_catches_weights_that_are_negative_or_too_long():
    one, other = (FIRST, 0), (FIRST, 1)
    assert stays_within(moments("classes"), EMPTY, one, other)
    assert not stays_within(SecondMoments(UNIT, Signed(CLASSES)), EMPTY, one, other)
    assert not stays_within(SecondMoments(UNIT, Heavy(CLASSES)), EMPTY, one, other)


def test_symmetric_restores_the_moments():
    x, y = made()
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    for name in WEIGHTS:
        asked = moments(name)
        found = asked.symmetric(asked(x, y) / asked.grid)
        assert (found == found.transpose(0, 2, 1)).all()
        weights = WEIGHTS[name](UNIT.lattice(x, 2**16).astype(np.float64), y) / 2**8
        wanted = np.einsum("nb,ni,nj->bij", weights, unit, unit)
        assert np.abs(found - wanted).max() < 60 * 3 / 2**14
        assert np.abs(wanted).max() > 1


def test_noise_has_its_stated_scale_on_the_diagonal_and_is_smaller_off_it():
    wide, rng = SecondMoments(UnitNorm().fit(150, None), OfAll()), np.random.default_rng(0)
    found = wide.symmetric(rng.normal(0.0, 5.0, wide.shape))[0]
    assert wide.entry_scale(5.0) == 5.0 / 29
    assert np.diag(found).std() == pytest.approx(5.0 / 29, rel=0.4)
    off = found[np.triu_indices(150, 1)]
    assert off.std() == pytest.approx(5.0 / 41, rel=0.05)
    assert off.std() < 0.8 * wide.entry_scale(5.0)
    # What a ridge is measured in: the norm of a symmetric matrix with this variance off the diagonal.
    noise = rng.normal(size=(400, 400))
    assert wide.noise_norm(3.0) == pytest.approx(2 * wide.entry_scale(3.0) * 150**0.5)
    assert np.linalg.norm((noise + noise.T) / 2**0.5, 2) == pytest.approx(2 * 400**0.5, rel=0.05)


@pytest.mark.slow
def test_sums_that_leave_int64_wrap_around_and_move_by_the_same_amount():
    """Five million equal rows: the exact sum is beyond 2⁶³, and one row more still moves it as it should."""
    one = UnitNorm().fit(1, None)
    asked, count = SecondMoments(one, OfAll()), 5_000_000
    single = int(asked(np.ones((1, 1)), np.zeros(1, dtype=np.int64))[0, 0])
    many, more = (asked(np.ones((n, 1)), np.zeros(n, dtype=np.int64)) for n in (count, count + 1))
    assert count * single > 2**63
    assert (int(many[0, 0]) - count * single) % 2**64 == 0
    assert int((more - many)[0, 0]) == single


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused_before_there_are_rows(bad):
    with pytest.raises(ArgumentError, match="finite"):
        OfProbabilities(np.array([[0.0, bad], [0.0, 0.0]]))
