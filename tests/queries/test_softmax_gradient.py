import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from dptransfer.errors import ArgumentError
from dptransfer.exact import chunks
from dptransfer.exact import gradient_sums as kernel
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.methods.heads import start as softmax
from dptransfer.privacy import Relation
from dptransfer.queries import GradientAndExcess, ProjectionGradient, SoftmaxGradient
from dptransfer.queries import softmax_gradient as module
from dptransfer.queries.softmax_gradient import nearest_prototype

from .neighbours import CLASSES, EMPTY, MAPS, WIDTH, of_neighbours, reach, stays_within

UNIT = MAPS["unit norm"]


def query(seed=0, size=1.0, features="unit norm", curved=True):
    rng, width = np.random.default_rng(seed), MAPS[features].dimension
    return SoftmaxGradient(
        MAPS[features],
        linear=rng.normal(size=(CLASSES, width)) * size,
        offset=rng.normal(size=CLASSES) * size,
        precision=np.abs(rng.normal(size=(CLASSES, width))) * size if curved else None,
    )


@of_neighbours(
    seed=st.integers(0, 9), size=st.sampled_from([0.0, 1e-9, 1.0, 50.0, 1e6]), curved=st.booleans()
)
def test_gradients_stay_within_their_sensitivity(data, first, second, seed, size, curved):
    assert stays_within(query(seed, size, curved=curved), data, first, second)


def steep():
    """Logits so steep that the residual of a wrong guess has norm √2 before the clip."""
    zero = np.zeros((CLASSES, WIDTH))
    return SoftmaxGradient(UNIT, zero, np.array([0.0, 1e3, 0.0]), zero)


def test_the_sensitivity_is_reached():
    right, left = ([1.0, 0.0, 0.0], 0), ([-1.0, 0.0, 0.0], 0)
    assert 0.99 <= reach(steep(), right, left, Relation.ADD_REMOVE) <= 1
    assert 0.99 <= reach(steep(), right, left, Relation.REPLACE_ONE) <= 1


def test_without_the_clip_the_check_fails(monkeypatch):
    right, left = ([1.0, 0.0, 0.0], 0), ([-1.0, 0.0, 0.0], 0)
    assert stays_within(steep(), EMPTY, right, left)
    lattice = kernel.residual_lattice
    monkeypatch.setattr(
        kernel, "residual_lattice", lambda residual, clip, weights: lattice(residual, 2.0) * 2
    )
    assert not stays_within(steep(), EMPTY, right, left)


@pytest.mark.parametrize("elements", [1, 64, 10**9])
@pytest.mark.parametrize("curved", [False, True])
def test_rows_that_are_chosen_give_the_integers_of_those_rows_alone(monkeypatch, elements, curved):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(300, WIDTH)), rng.integers(0, CLASSES, 300)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    for chosen in (np.flatnonzero(rng.random(300) < 0.3), np.arange(0)):
        wanted = query(curved=curved)(x[chosen], y[chosen])
        assert (query(curved=curved)(chunks.SelectedRows(x, chosen), y[chosen]) == wanted).all()
    assert (query(curved=curved)(x, y) != wanted).any()


AXES = {
    "orthonormal": np.linalg.qr(np.random.default_rng(4).normal(size=(WIDTH, 2)))[0],
    "one axis": np.eye(WIDTH, 1),
    "twice the same axis": np.eye(WIDTH, 1) @ np.ones((1, 2)),
    "too long": 1e6 * np.ones((WIDTH, 2)),
    "no axis at all": np.zeros((WIDTH, 2)),
    "more axes than dimensions": np.random.default_rng(5).normal(size=(WIDTH, 7)),
}


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("clip", [0.2, 1.0, 1.5])
def test_it_is_the_gradient_of_the_softmax_loss(curved, clip):
    """Against a plain float computation, clipped and projected."""
    rng, made = np.random.default_rng(2), replace(query(3, curved=curved), clip=clip)
    x, y, axes = rng.normal(size=(40, WIDTH)), rng.integers(0, CLASSES, 40), AXES["orthonormal"]
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    logits = made.offset + unit @ made.linear.T
    logits -= 0.5 * unit**2 @ made.precision.T if curved else 0.0
    residual = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True) - np.eye(CLASSES)[y]
    residual *= np.minimum(1, clip / np.linalg.norm(residual, axis=1, keepdims=True))
    wanted = residual.T @ unit
    assert np.abs(clip * made(x, y) / made.grid - wanted).max() < 0.02
    along = replace(made, projection=axes)
    assert np.abs(clip * along(x, y) / along.grid - wanted @ axes).max() < 0.02


def projected(axes, clip=1.0, steepness=1e3):
    zero = np.zeros((CLASSES, WIDTH))
    offset = np.array([0.0, steepness, 0.0])
    return SoftmaxGradient(UNIT, zero, offset, clip=clip, projection=AXES[axes])


@pytest.mark.parametrize("axes", AXES)
@of_neighbours(clip=st.sampled_from([1e-6, 0.1, 1.0, 1.4, 100.0]))
def test_clipped_and_projected_gradients_stay_within_their_sensitivity(axes, data, first, second, clip):
    asked = projected(axes, clip, steepness=3.0)
    assert stays_within(asked, data, first, second)
    assert asked(*data).shape == asked.shape == (CLASSES, AXES[axes].shape[1])


@pytest.mark.parametrize("clip", [0.01, 1.0, 1.41])
@pytest.mark.parametrize("axes", [name for name in AXES if name != "no axis at all"])
def test_projected_gradients_reach_their_sensitivity(axes, clip):
    """The worst row lies along the first axis, or anywhere in the span of orthonormal ones."""
    direction = AXES[axes] @ [0.6, 0.8] if axes == "orthonormal" else AXES[axes][:, 0]
    direction = direction / np.linalg.norm(direction)
    right, left = (list(direction), 0), (list(-direction), 0)
    for relation in Relation:
        assert 0.99 <= reach(projected(axes, clip), right, left, relation) <= 1


def test_without_the_second_clip_axes_that_are_not_orthonormal_break_the_bound(monkeypatch):
    right, left = ([1.0, 0.0, 0.0], 0), ([-1.0, 0.0, 0.0], 0)
    asked = projected("twice the same axis")
    assert stays_within(asked, EMPTY, right, left)
    monkeypatch.setattr(
        SoftmaxGradient, "_projected", lambda self, mapped: np.trunc(mapped @ self.projection)
    )
    assert not stays_within(asked, EMPTY, right, left)


def test_a_clip_that_is_none_and_a_projection_on_a_device_are_refused():
    torch = pytest.importorskip("torch")
    for clip in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ArgumentError, match="clip"):
            projected("one axis", clip)
    with pytest.raises(ArgumentError, match="CPU"):
        projected("one axis")(torch.ones((1, WIDTH), dtype=torch.float64), torch.zeros(1).long())


UNEQUAL = np.array([1.0, 0.37, 2.0**-40])


def weighted(weights=UNEQUAL, linear=None, clip=0.6, **more):
    linear = np.random.default_rng(9).normal(size=(CLASSES, WIDTH)) if linear is None else linear
    return SoftmaxGradient(UNIT, linear, np.zeros(CLASSES), clip=clip, weights=weights, **more)


@of_neighbours(
    weights=st.lists(st.floats(0, 1, exclude_min=True), min_size=CLASSES, max_size=CLASSES),
    size=st.sampled_from([0.0, 1.0, 1e6]),
)
def test_weighted_gradients_stay_within_their_sensitivity(data, first, second, weights, size):
    linear = size * np.random.default_rng(6).normal(size=(CLASSES, WIDTH))
    assert stays_within(weighted(np.array(weights), linear), data, first, second)


def test_a_row_counts_by_the_weight_of_its_class_after_the_clip():
    """Against a plain float computation; weights of ones, of any type, change no integer."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, WIDTH)), rng.integers(0, CLASSES, 40)
    asked, unit = weighted(), x / np.linalg.norm(x, axis=1, keepdims=True)
    residual = softmax.residuals(asked.linear, unit, y)
    assert (np.linalg.norm(residual, axis=1) > asked.clip).any()
    residual *= np.minimum(1.0, asked.clip / np.linalg.norm(residual, axis=1))[:, None]
    wanted = (residual * UNEQUAL[y][:, None]).T @ unit
    assert np.abs(asked.clip * asked(x, y) / asked.grid - wanted).max() < 0.005
    lengths = np.linalg.norm(residual, axis=1) / asked.clip * UNEQUAL[y]
    assert asked.contribution_norms(x, y) == pytest.approx(lengths, abs=1e-3)
    plain = weighted(None)(x, y)
    assert not np.allclose(asked(x, y), plain, rtol=0.1)
    for ones in (np.ones(CLASSES), np.ones(CLASSES, dtype=np.float16), np.ones(CLASSES, dtype=np.int64)):
        assert (weighted(ones)(x, y) == plain).all()


@pytest.mark.parametrize(
    "weights", [[1.0, 1.1, 0.5], [0.0, 1.0, 1.0], [-1.0, 1.0, 1.0], [np.nan, 1.0, 1.0], [1.0, 1.0], 0.5]
)
def test_weights_that_the_sensitivity_does_not_cover_are_refused(weights):
    with pytest.raises(ArgumentError, match="Weights"):
        weighted(np.array(weights))


def beside_prior(weights, prior, clip=1.0):
    return SoftmaxGradient(UNIT, weights, np.zeros(CLASSES), clip=clip, prior=prior)


def residual_loss(weights, prior, unit, label):
    """−log of the mean of two softmaxes at the label, of one row."""
    chances = [np.exp(own) / np.exp(own).sum() for own in (weights @ unit, prior @ unit)]
    return -np.log((chances[0][label] + chances[1][label]) / 2)


@of_neighbours(
    size=st.sampled_from([0.0, 1.0, 50.0, 1e6]),
    sure=st.sampled_from([0.0, 1.0, 50.0, 1e6]),
    clip=st.sampled_from([1e-6, 0.1, 1.0]),
)
def test_gradients_beside_a_prior_stay_within_their_sensitivity(data, first, second, size, sure, clip):
    rng = np.random.default_rng(6)
    weights, prior = rng.normal(size=(2, CLASSES, WIDTH))
    assert stays_within(beside_prior(size * weights, sure * prior, clip), data, first, second)


def test_beside_a_prior_it_is_the_gradient_of_the_mean_of_both():
    """Against finite differences of the loss, row by row; a prior's own weights are not part of it."""
    rng = np.random.default_rng(7)
    weights, prior = rng.normal(size=(2, CLASSES, WIDTH)) * 2
    for seed in range(6):
        x, y = rng.normal(size=(1, WIDTH)), np.array([seed % CLASSES])
        unit, slope = x[0] / np.linalg.norm(x), np.zeros((CLASSES, WIDTH))
        for place in np.ndindex(slope.shape):
            bump = np.zeros_like(slope)
            bump[place] = 1e-6
            slope[place] = residual_loss(weights + bump, prior, unit, y[0])
            slope[place] -= residual_loss(weights - bump, prior, unit, y[0])
        slope /= 2e-6
        for clip in (1.5, 0.1):
            asked = beside_prior(weights, prior, clip)
            wanted = slope * min(1, clip / np.linalg.norm(slope))
            assert np.abs(clip * asked(x, y) / asked.grid - wanted).max() < 0.005 * clip
        without = beside_prior(weights, None, 1.5)
        assert np.abs(1.5 * without(x, y) / without.grid - slope).max() > 0.01


def test_a_prior_that_knows_nothing_of_the_label_leaves_the_whole_residual_and_one_that_is_sure_a_part():
    """At zero weights and three classes p = ⅓: beside r = 1 the weight is ¼, beside r = 0 it is 1."""
    along, y = np.eye(WIDTH)[:1], np.array([0])
    zero, plain = np.zeros((CLASSES, WIDTH)), np.array([-2 / 3, 1 / 3, 1 / 3])
    for label, weight in ((0, 1 / 4), (1, 1.0)):
        prior = zero.copy()
        prior[label, 0] = 1e3
        asked = beside_prior(zero, prior)
        assert np.abs((asked(along, y) / asked.grid)[:, 0] - weight * plain).max() < 1e-3


def test_where_neither_head_nor_prior_give_the_label_anything_the_residual_is_whole():
    wrong = np.zeros((CLASSES, WIDTH))
    wrong[1, 0] = 1e6
    asked = beside_prior(wrong, wrong)
    assert np.linalg.norm(asked(np.eye(WIDTH)[:1], np.array([0])) / asked.grid) > 0.999


# With a count of long ones


def with_count(threshold=0.5, weight=0.25, clip=1.0, size=1.0, seed=0):
    linear = np.random.default_rng(seed).normal(size=(CLASSES, WIDTH)) * size
    return GradientAndExcess(SoftmaxGradient(UNIT, linear, np.zeros(CLASSES), clip=clip), threshold, weight)


@of_neighbours(
    seed=st.integers(0, 9),
    weight=st.sampled_from([2**-16, 0.25, 0.3, 1.0, 7.7]),
    clip=st.sampled_from([0.01, 0.5, 1.4]),
)
def test_gradients_and_counts_stay_within_their_sensitivity(data, first, second, seed, weight, clip):
    assert stays_within(with_count(clip, weight, clip, 3.0, seed), data, first, second)


@pytest.mark.parametrize("weight", [0.25, 1.0, 3.0])
def test_gradients_and_counts_reach_their_sensitivity(weight):
    """Add: a long gradient that is counted. Replace: gradients 2 apart of which one is counted.

    With a steep offset the wrong guess has a residual of norm √2. Its opposite row, a hair shorter than the
    threshold, has the same direction and is not counted: a second label and a threshold between do that.
    """
    steep = SoftmaxGradient(UNIT, np.zeros((CLASSES, WIDTH)), np.array([0.0, 1e3, 0.0]), clip=0.1)
    right = ([1.0, 0.0, 0.0], 0)
    counted = GradientAndExcess(steep, 1.0, weight)
    assert 0.99 <= reach(counted, right, right, Relation.ADD_REMOVE) <= 1

    # Residuals of the two rows: (p−1, 1−p, 0) with p a little more than ½ and a little less.
    gentle = np.zeros((CLASSES, WIDTH))
    gentle[0, 0] = 0.01
    offset = np.array([0.0, 0.0, -30.0])
    between = GradientAndExcess(SoftmaxGradient(UNIT, gentle, offset, clip=0.1), math.sqrt(0.5), weight)
    left = ([-1.0, 0.0, 0.0], 0)
    assert between(np.array([left[0]]), np.array([0]))[-1] > between(np.array([right[0]]), np.array([0]))[-1]
    assert 0.99 <= reach(between, right, left, Relation.REPLACE_ONE) <= 1


def test_it_is_the_gradient_and_the_number_of_long_ones():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(300, WIDTH)), rng.integers(0, CLASSES, 300)
    made = with_count(threshold=0.8, size=2.0)
    answer = made(x, y)
    assert answer.shape == made.shape == (CLASSES * WIDTH + 1,)
    assert (answer[:-1].reshape(CLASSES, WIDTH) == made.gradient(x, y)).all()
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    norms = np.linalg.norm(softmax.residuals(made.gradient.linear, unit, y), axis=1)
    close = np.abs(norms - 0.8) < 2e-3  # rounded logits may put these on either side
    found = answer[-1] / made.grid / 0.25
    assert (norms > 0.8).sum() - close.sum() <= found <= (norms > 0.8).sum() + close.sum()
    assert close.sum() < 10 < found < 290


@pytest.mark.parametrize("weight", [0.0, 2.0**-17, 16.1, 1e300, math.nan])
def test_a_weight_that_the_grid_cannot_hold_is_refused_before_rows_are_read(weight):
    with pytest.raises(ArgumentError, match="count_weight"):
        with_count(weight=weight)
    assert with_count(weight=16)(*EMPTY)[-1] == 0


RNG = np.random.default_rng(0)
MAP = RNG.normal(size=(2, WIDTH)) * 2
PROTOTYPES = np.linalg.qr(RNG.normal(size=(WIDTH, CLASSES)))[0].T


def map_gradient(projection=MAP, prototypes=PROTOTYPES, clip=1.0):
    return ProjectionGradient(MAPS["unit norm"], projection, prototypes, clip)


def loss(projection, unit, label):
    """−log softmax of minus the squared distances after the map."""
    logits = -np.square((unit - PROTOTYPES) @ projection.T).sum(axis=1)
    return np.log(np.exp(logits).sum()) - logits[label]


@of_neighbours(size=st.sampled_from([0.0, 1e-9, 1.0, 1e6]), clip=st.sampled_from([1e-6, 0.1, 1.0, 100.0]))
def test_gradients_of_a_map_stay_within_their_sensitivity(data, first, second, size, clip):
    assert stays_within(map_gradient(size * MAP, clip=clip), data, first, second)


def test_the_sensitivity_is_reached_and_without_the_clip_passed(monkeypatch):
    """For a prototype p the gradient at −x is minus that at x, where the residual is as large."""
    flat = np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 0.0]])
    right, left = ([1.0, 0.0, 0.0], 0), ([-1.0, 0.0, 0.0], 0)
    asked = map_gradient(np.eye(WIDTH), flat, clip=0.05)
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
            asked = map_gradient(clip=clip)
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
            map_gradient(clip=clip)
    with pytest.raises(ArgumentError, match="60,000 classes"):
        map_gradient(np.zeros((100, 160)), np.zeros((10**8, 0)))
