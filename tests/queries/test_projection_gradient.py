import numpy as np
import pytest
from hypothesis import strategies as st

from dptransfer.errors import ArgumentError
from dptransfer.exact import chunks
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.privacy import Relation
from dptransfer.queries import ProjectionGradient
from dptransfer.queries import projection_gradient as module
from dptransfer.queries.projection_gradient import nearest_prototype

from .neighbours import CLASSES, EMPTY, MAPS, WIDTH, of_neighbours, reach, stays_within

RNG = np.random.default_rng(0)
MAP = RNG.normal(size=(2, WIDTH)) * 2
PROTOTYPES = np.linalg.qr(RNG.normal(size=(WIDTH, CLASSES)))[0].T


def query(projection=MAP, prototypes=PROTOTYPES, clip=1.0):
    return ProjectionGradient(MAPS["unit norm"], projection, prototypes, clip)


def loss(projection, unit, label):
    """−log softmax of minus the squared distances after the map."""
    logits = -np.square((unit - PROTOTYPES) @ projection.T).sum(axis=1)
    return np.log(np.exp(logits).sum()) - logits[label]


@of_neighbours(size=st.sampled_from([0.0, 1e-9, 1.0, 1e6]), clip=st.sampled_from([1e-6, 0.1, 1.0, 100.0]))
def test_gradients_stay_within_their_sensitivity(data, first, second, size, clip):
    assert stays_within(query(size * MAP, clip=clip), data, first, second)


def test_the_sensitivity_is_reached_and_without_the_clip_passed(monkeypatch):
    """For a prototype p the gradient at −x is minus that at x, where the residual is as large."""
    flat = np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 0.0]])
    right, left = ([1.0, 0.0, 0.0], 0), ([-1.0, 0.0, 0.0], 0)
    asked = query(np.eye(WIDTH), flat, clip=0.05)
    assert 0.99 <= reach(asked, right, left, Relation.ADD_REMOVE) <= 1
    assert 0.9 <= reach(asked, right, left, Relation.REPLACE_ONE) <= 1
    assert stays_within(asked, EMPTY, right, left)
    lattice = module.clipped_lattice
    monkeypatch.setattr(
        module, "clipped_lattice", lambda rows, norm, clip: 2 * lattice(rows, norm, clip=clip)
    )
    assert not stays_within(asked, EMPTY, right, left)


def test_it_is_the_gradient_of_the_prototypical_loss():
    """Against finite differences, row by row."""
    for seed in range(6):
        x, y = np.random.default_rng(seed).normal(size=(1, WIDTH)), np.array([seed % CLASSES])
        unit, slope = x[0] / np.linalg.norm(x), np.zeros_like(MAP)
        for place in np.ndindex(slope.shape):
            bump = np.zeros_like(MAP)
            bump[place] = 1e-6
            slope[place] = (loss(MAP + bump, unit, y[0]) - loss(MAP - bump, unit, y[0])) / 2e-6
        for clip in (100.0, 0.3):
            asked = query(clip=clip)
            wanted = slope * min(1, clip / np.linalg.norm(slope))
            assert (
                np.abs(clip * asked(x, y) / asked.grid - wanted).max() < 0.01 * np.linalg.norm(wanted) + 1e-3
            )


@pytest.mark.parametrize("elements", [1, 64, 10**9])
def test_wide_rows_add_what_they_add_alone(monkeypatch, elements):
    rng = np.random.default_rng(3)
    wide, prototypes = UnitNorm().fit(40, None), rng.normal(size=(12, 40)) / 10
    asked = ProjectionGradient(wide, rng.normal(size=(30, 40)), prototypes)
    x, y = rng.normal(size=(90, 40)), rng.integers(0, 12, 90)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    assert (sum(asked(x[i : i + 1], y[i : i + 1]) for i in range(90)) == asked(x, y)).all()


def test_scores_order_classes_as_distances_after_the_map_do():
    rows = RNG.normal(size=(50, WIDTH))
    weights, offset = nearest_prototype(MAP, PROTOTYPES)
    distances = np.square((rows[:, None] - PROTOTYPES) @ MAP.T).sum(axis=2)
    apart = rows @ weights.T + offset + distances
    assert np.allclose(apart, apart[:, :1])
    assert np.ptp(distances, axis=1).min() > 1e-3


def test_bad_clips_and_too_many_classes_are_refused():
    for clip in (0.0, -1.0, float("nan")):
        with pytest.raises(ArgumentError, match="clip"):
            query(clip=clip)
    with pytest.raises(ArgumentError, match="60,000 classes"):
        query(np.zeros((100, 160)), np.zeros((10**8, 0)))
