"""Where the weights of a head start, and the softmax regression that they are fitted by."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dptransfer import encoders
from dptransfer.data import PublicEmbeddings
from dptransfer.data.facts import Facts
from dptransfer.errors import ArgumentError, DataError, Incompatible
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.methods import FromNames, FromShots, FromZero
from dptransfer.methods.heads.start import (
    clipped_gradient,
    encoded_names,
    fitted_softmax,
    gradient_norms,
    mapped_shots,
    residuals,
)

from .samples import CLASSES, WIDTH, muddled, pool, private, shots, unit

FACTS = private().facts
UNIT = UnitNorm().fit(WIDTH, None)


class Tower:
    """Tells the sentences it was given, and encodes each by its length."""

    def __init__(self, width=WIDTH):
        self.width, self.heard = width, []

    def encode(self, texts):
        self.heard += texts
        return np.array([np.eye(self.width)[len(text) % self.width] for text in texts], dtype=np.float32)


@pytest.fixture
def tower(monkeypatch):
    encoded_names.cache_clear()
    made = Tower()
    monkeypatch.setattr(encoders, "get_encoder", lambda name, kind: made)
    yield made
    encoded_names.cache_clear()


def test_zero_needs_nothing():
    FromZero().require(FACTS, None)
    assert not FromZero().weights(UNIT, FACTS, None).any()
    assert FromZero().weights(UNIT, FACTS, None).shape == (3, WIDTH)


def test_a_start_from_shots_classifies_them():
    made = shots()
    weights = FromShots().weights(UNIT, FACTS, made)
    assert ((unit(made.rows) @ weights.T).argmax(axis=1) == made.labels).all()
    assert np.linalg.norm(FromShots(strength=10.0).weights(UNIT, FACTS, made)) < 0.1 * np.linalg.norm(weights)


def test_a_class_without_a_shot_is_not_favoured():
    made = shots()
    some = PublicEmbeddings(made.rows[:6], made.labels[:6], classes=CLASSES)
    weights = FromShots().weights(UNIT, FACTS, some)
    assert ((unit(made.rows[:6]) @ weights.T).argmax(axis=1) == made.labels[:6]).all()


def test_shots_in_another_order_of_classes_find_their_place():
    made = shots()
    names = [CLASSES[label] for label in made.labels]
    turned = PublicEmbeddings(made.rows, names, classes=CLASSES[::-1])
    assert (mapped_shots(UNIT, FACTS, turned)[1] == made.labels).all()
    wanted = FromShots().weights(UNIT, FACTS, made)
    assert np.allclose(FromShots().weights(UNIT, FACTS, turned), wanted)


def test_missing_shots_are_refused():
    with pytest.raises(ArgumentError, match="Labelled public rows"):
        FromShots().require(FACTS, None)
    with pytest.raises(DataError, match="Labelled public rows"):
        FromShots().require(FACTS, pool())
    FromShots().require(FACTS, shots())


def test_names_go_through_the_template_and_the_tower_and_get_their_scale(tower):
    start = FromNames(tower="toy", template="this is a {}!", scale=30.0)
    start.require(FACTS, None)
    weights = start.weights(UNIT, FACTS, None)
    assert tower.heard == [f"this is a {name}!" for name in CLASSES]  # once, and then remembered
    assert np.linalg.norm(weights, axis=1) == pytest.approx([30.0] * 3, rel=1e-6)
    assert (weights.argmax(axis=1) == len("this is a ant!") % WIDTH).all()


def test_a_tower_of_another_space_is_refused(tower):
    tower.width = WIDTH + 1
    with pytest.raises(Incompatible, match=f"{WIDTH + 1} dimensions"):
        FromNames(tower="toy").require(FACTS, None)


def test_names_need_a_tower_words_and_a_place_in_the_template(tower):
    with pytest.raises(ArgumentError, match="tower"):
        FromNames().require(FACTS, None)
    with pytest.raises(DataError, match="words"):
        FromNames(tower="toy").require(Facts((1, 2, 3), WIDTH), None)
    with pytest.raises(ArgumentError, match="template"):
        FromNames(template="a photo")
    assert tower.heard == []


def problem(count=200, width=23, classes=11, seed=0):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(classes, width)),
        rng.normal(size=(count, width)) * rng.uniform(0.1, 3.0, size=(count, 1)),
        rng.integers(0, classes, count),
    )


@pytest.fixture
def per_example():
    """Gradients of each example of a linear layer, from Opacus' hooks, and its own clipped sum."""
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus' own
        pytest.importorskip("opacus")
        from opacus.grad_sample import GradSampleModule
        from opacus.optimizers import DPOptimizer

    def compute(weights, rows, labels, clip):
        layer = torch.nn.Linear(rows.shape[1], len(weights), bias=False).double()
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weights))
        model = GradSampleModule(layer, loss_reduction="sum")
        descent = DPOptimizer(
            torch.optim.SGD(model.parameters(), lr=1.0),
            noise_multiplier=0.0,
            max_grad_norm=clip,
            expected_batch_size=1,
            loss_reduction="sum",
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = model(torch.from_numpy(rows))
            torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels), reduction="sum").backward()
        examples = layer.weight.grad_sample.numpy().copy()
        descent.clip_and_accumulate()
        return examples, layer.weight.summed_grad.numpy()

    return compute


@pytest.mark.parametrize("clip", [0.05, 1.0, 3.0, 1e9])
def test_the_closed_form_equals_the_clipped_gradients_of_each_example(per_example, clip):
    weights, rows, labels = problem()
    examples, summed = per_example(weights, rows, labels, clip)
    norms = np.linalg.norm(examples.reshape(len(rows), -1), axis=1)
    found = clipped_gradient(weights, rows, labels, clip)
    wanted = (examples * np.minimum(1.0, clip / norms)[:, None, None]).sum(axis=0)
    assert np.abs(found - wanted).max() <= 1e-12 * np.abs(wanted).max()
    assert np.abs(gradient_norms(residuals(weights, rows, labels), rows) - norms).max() <= 1e-12 * norms.max()
    # Opacus divides by the norm plus 1e-6, so its own sum is a little shorter.
    assert np.abs(found - summed).max() <= 2e-6 * (np.minimum(1.0, clip / norms)).sum()
    assert (norms > 0.05).any()
    assert np.abs(found - clipped_gradient(weights, rows, labels, 0.9 * clip)).max() > 0 or clip == 1e9


def test_it_is_the_gradient_of_the_loss():
    weights, rows, labels = problem(30, 4, 3)

    def loss(w):
        logits = rows @ w.T
        return float(np.sum(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(30), labels]))

    found = clipped_gradient(weights, rows, labels)
    for place in [(0, 0), (2, 3)]:
        nudge = np.zeros_like(weights)
        nudge[place] = 1e-6
        assert found[place] == pytest.approx((loss(weights + nudge) - loss(weights - nudge)) / 2e-6, rel=1e-5)


@pytest.mark.parametrize("strength", [1e-3, 1e-1])
def test_the_fit_is_ridge_penalised_softmax_regression(strength):
    x, y = muddled(300)
    found = fitted_softmax(unit(x), y, np.zeros((3, x.shape[1])), strength)
    wanted = LogisticRegression(C=1 / (strength * len(x)), fit_intercept=False, tol=1e-8, max_iter=1000)
    assert np.allclose(found, wanted.fit(unit(x), y).coef_, atol=0.01 * np.abs(found).max())


def test_the_pull_is_toward_the_centre():
    x, y = muddled(300)
    centre = np.random.default_rng(0).normal(size=(3, x.shape[1])) * 5
    gaps = [np.linalg.norm(fitted_softmax(unit(x), y, centre, s) - centre) for s in (1e-3, 1e-1, 1e3)]
    assert gaps[0] > 2 * gaps[1]
    assert gaps[1] > 100 * gaps[2]
