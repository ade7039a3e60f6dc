"""Where the weights of a head start, and the softmax regression that they are fitted by."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from dptransfer import encoders
from dptransfer.data import PublicEmbeddings
from dptransfer.data.facts import Facts
from dptransfer.errors import ArgumentError, DataError, Incompatible
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.methods import FromNames, FromShots
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


@pytest.mark.parametrize("clip", [0.05, 1.0, 1e9])
def test_it_is_the_gradient_of_the_loss_of_each_example_clipped_and_added_up(clip):
    rng = np.random.default_rng(0)
    weights, rows, labels = rng.normal(size=(3, 4)), rng.normal(size=(30, 4)), rng.integers(0, 3, 30)

    def losses(w):
        return -log_softmax(rows @ w.T, axis=1)[np.arange(30), labels]

    nudges = np.eye(12).reshape(12, 3, 4) * 1e-6
    each = np.array([losses(weights + one) - losses(weights - one) for one in nudges]).T / 2e-6
    norms = np.linalg.norm(each, axis=1)
    assert gradient_norms(residuals(weights, rows, labels), rows) == pytest.approx(norms, rel=1e-5)
    wanted = (each * np.minimum(1.0, clip / norms)[:, None]).sum(axis=0).reshape(3, 4)
    assert clipped_gradient(weights, rows, labels, clip) == pytest.approx(wanted, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("strength", [1e-3, 1e-1])
def test_the_fit_is_ridge_penalised_softmax_regression(strength):
    x, y = muddled(300)
    found = fitted_softmax(unit(x), y, np.zeros((3, x.shape[1])), strength)
    wanted = LogisticRegression(C=1 / (strength * len(x)), fit_intercept=False, tol=1e-8, max_iter=1000)
    assert np.allclose(found, wanted.fit(unit(x), y).coef_, atol=0.01 * np.abs(found).max())
