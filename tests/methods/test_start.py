import numpy as np
import pytest

from dptransfer import encoders
from dptransfer.data import PublicEmbeddings
from dptransfer.data.facts import Facts
from dptransfer.errors import ArgumentError, DataError, Incompatible
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.methods import FromNames, FromShots, FromZero
from dptransfer.methods.heads.start import encoded_names, mapped_shots

from .samples import CLASSES, WIDTH, pool, private, shots, unit

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
    for start, bad in ((FromNames, {"scale": 0.0}), (FromShots, {"strength": 0.0})):
        with pytest.raises(ArgumentError, match=next(iter(bad))):
            start(**bad)
    assert tower.heard == []
