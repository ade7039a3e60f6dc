import numpy as np
import pytest
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from dptransfer.errors import ArgumentError
from dptransfer.exact import chunks
from dptransfer.exact import gradient_sums as kernel
from dptransfer.exact.feature_map import OnLattice
from dptransfer.methods.heads import start as softmax
from dptransfer.privacy import Relation
from dptransfer.queries import SoftmaxGradient

from .neighbours import CLASSES, EMPTY, MAPS, WIDTH, of_neighbours, reach, squared_gap, stays_within


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
    return SoftmaxGradient(MAPS["unit norm"], zero, np.array([0.0, 1e3, 0.0]), zero)


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


@pytest.mark.parametrize("elements", [1, 64, 4096, 10**9])
@pytest.mark.parametrize("cores", [1, 2, 5])
@pytest.mark.parametrize("curved", [False, True])
def test_chunks_order_and_threads_do_not_change_an_integer(monkeypatch, elements, cores, curved):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, WIDTH)), rng.integers(0, CLASSES, 300)
    asked = query(curved=curved)
    wanted = asked(x, y)
    monkeypatch.setattr(chunks, "usable_cores", lambda: cores)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    order = rng.permutation(300)
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert (asked(x[order], y[order]) == wanted).all()
    assert squared_gap(query(1), (x, y), (x[1:], y[1:])) > 0


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


def test_it_is_the_gradient_of_the_softmax_loss():
    """Against a plain float computation, where no residual is clipped."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, WIDTH)), rng.integers(0, CLASSES, 40)
    made = query(3, size=0.3)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    logits = made.offset + unit @ made.linear.T - 0.5 * unit**2 @ made.precision.T
    residual = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True) - np.eye(CLASSES)[y]
    residual /= np.maximum(1, np.linalg.norm(residual, axis=1, keepdims=True))
    assert np.abs(made(x, y) / made.grid - residual.T @ unit).max() < 0.05
    assert not made(*EMPTY).any()


AXES = {
    "orthonormal": np.linalg.qr(np.random.default_rng(4).normal(size=(WIDTH, 2)))[0],
    "one axis": np.eye(WIDTH, 1),
    "twice the same axis": np.eye(WIDTH, 1) @ np.ones((1, 2)),
    "too long": 1e6 * np.ones((WIDTH, 2)),
    "no axis at all": np.zeros((WIDTH, 2)),
    "more axes than dimensions": np.random.default_rng(5).normal(size=(WIDTH, 7)),
}


def projected(axes, clip=1.0, steepness=1e3):
    zero = np.zeros((CLASSES, WIDTH))
    offset = np.array([0.0, steepness, 0.0])
    return SoftmaxGradient(MAPS["unit norm"], zero, offset, clip=clip, projection=AXES[axes])


@pytest.mark.parametrize("axes", AXES)
@of_neighbours(clip=st.sampled_from([1e-6, 0.1, 1.0, 1.4, 100.0]))
def test_clipped_and_projected_gradients_stay_within_their_sensitivity(axes, data, first, second, clip):
    asked = projected(axes, clip, steepness=3.0)
    assert stays_within(asked, data, first, second)
    assert asked(*data).shape == asked.shape == (CLASSES, AXES[axes].shape[1])


@pytest.mark.parametrize("clip", [0.01, 1.0, 1.41])
@pytest.mark.parametrize("axes", [name for name in AXES if name not in ("no axis at all", "orthonormal")])
def test_projected_gradients_reach_their_sensitivity(axes, clip):
    """The worst row lies along the first axis."""
    direction = AXES[axes][:, 0] / np.linalg.norm(AXES[axes][:, 0])
    right, left = (list(direction), 0), (list(-direction), 0)
    for relation in Relation:
        assert 0.99 <= reach(projected(axes, clip), right, left, relation) <= 1


def test_orthonormal_axes_reach_their_sensitivity_within_their_span():
    direction = AXES["orthonormal"] @ np.array([0.6, 0.8])
    right, left = (list(direction), 0), (list(-direction), 0)
    for relation in Relation:
        assert 0.99 <= reach(projected("orthonormal"), right, left, relation) <= 1


def test_without_the_second_clip_axes_that_are_not_orthonormal_break_the_bound(monkeypatch):
    right, left = ([1.0, 0.0, 0.0], 0), ([-1.0, 0.0, 0.0], 0)
    asked = projected("twice the same axis")
    assert stays_within(asked, EMPTY, right, left)
    monkeypatch.setattr(
        SoftmaxGradient, "_projected", lambda self, mapped: np.trunc(mapped @ self.projection)
    )
    assert not stays_within(asked, EMPTY, right, left)


def test_it_is_the_clipped_projected_gradient_of_the_definition():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, WIDTH)), rng.integers(0, CLASSES, 40)
    weights = rng.normal(size=(CLASSES, WIDTH))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    for clip in (0.2, 1.0):
        asked = SoftmaxGradient(MAPS["unit norm"], weights, np.zeros(CLASSES), clip=clip)
        residual = softmax.residuals(weights, unit, y)
        scale = np.minimum(1.0, clip / np.linalg.norm(residual, axis=1))
        wanted = (residual * scale[:, None]).T @ unit
        assert np.abs(clip * asked(x, y) / asked.grid - wanted).max() < 0.02
        axes = AXES["orthonormal"]
        along = SoftmaxGradient(MAPS["unit norm"], weights, np.zeros(CLASSES), clip=clip, projection=axes)
        assert np.abs(clip * along(x, y) / along.grid - wanted @ axes).max() < 0.02


def test_torch_rows_give_the_same_integers_and_refuse_a_projection():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(300, WIDTH)), rng.integers(0, CLASSES, 300)
    rows = MAPS["unit norm"].lattice(x, 2**16)
    asked = SoftmaxGradient(OnLattice(WIDTH, 2**16), rng.normal(size=(CLASSES, WIDTH)), np.zeros(CLASSES))
    there = torch.from_numpy(rows).double(), torch.from_numpy(y)
    assert (asked(*there) == asked(rows, y)).all()
    with pytest.raises(ArgumentError, match="CPU"):
        projected("one axis")(*there)


def test_a_clip_that_is_none_is_refused():
    for clip in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ArgumentError, match="clip"):
            projected("one axis", clip)


UNEQUAL = np.array([1.0, 0.37, 2.0**-40])


def weighted(weights=UNEQUAL, linear=None, clip=0.6, **more):
    linear = np.random.default_rng(9).normal(size=(CLASSES, WIDTH)) if linear is None else linear
    return SoftmaxGradient(MAPS["unit norm"], linear, np.zeros(CLASSES), clip=clip, weights=weights, **more)


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


def test_no_entry_of_a_weighted_residual_is_larger_than_without_its_weight():
    rng = np.random.default_rng(3)
    rows = MAPS["unit norm"].lattice(rng.normal(size=(500, WIDTH)), 2**16).astype(float)
    labels, logits = rng.integers(0, CLASSES, 500), weighted().logits
    weights = np.array([np.nextafter(1, 0), 0.9, 5e-324])
    whole, less = (
        kernel.residual_lattice(kernel.residuals(rows, labels, logits), 0.6, weights=own)
        for own in (None, weights)
    )
    assert (np.abs(less) <= np.abs(whole)).all()
    assert not less[:, labels == 2].any()


def test_weighted_gradients_are_the_same_integers_in_any_order_and_in_torch(monkeypatch):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(8)
    x, y, order = rng.normal(size=(300, WIDTH)), rng.integers(0, CLASSES, 300), rng.permutation(300)
    rows = MAPS["unit norm"].lattice(x, 2**16)
    wanted = weighted()(x, y)
    assert (weighted()(torch.from_numpy(rows).double(), torch.from_numpy(y)) == wanted).all()
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", 7)
    assert (weighted()(x[order], y[order]) == wanted).all()


@pytest.mark.parametrize(
    "weights", [[1.0, 1.1, 0.5], [0.0, 1.0, 1.0], [-1.0, 1.0, 1.0], [np.nan, 1.0, 1.0], [1.0, 1.0], 0.5]
)
def test_weights_that_the_sensitivity_does_not_cover_are_refused(weights):
    with pytest.raises(ArgumentError, match="Weights"):
        weighted(np.array(weights))


def beside_prior(weights, prior, clip=1.0):
    return SoftmaxGradient(MAPS["unit norm"], weights, np.zeros(CLASSES), clip=clip, prior=prior)


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


def test_a_prior_gives_the_same_integers_in_any_order_and_in_torch(monkeypatch):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(8)
    x, y, order = rng.normal(size=(300, WIDTH)), rng.integers(0, CLASSES, 300), rng.permutation(300)
    rows = MAPS["unit norm"].lattice(x, 2**16)
    weights, prior = rng.normal(size=(2, CLASSES, WIDTH)) * 3
    asked = SoftmaxGradient(OnLattice(WIDTH, 2**16), weights, np.zeros(CLASSES), prior=prior)
    wanted = asked(rows, y)
    assert (asked(torch.from_numpy(rows).double(), torch.from_numpy(y)) == wanted).all()
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", 7)
    assert (asked(rows[order], y[order]) == wanted).all()
    assert (sum(asked(rows[i : i + 1], y[i : i + 1]) for i in range(300)) == wanted).all()
