from dataclasses import replace

import numpy as np
import pytest

from dptransfer.data import Vocabulary
from dptransfer.exact.feature_map import STRETCHES, FittedSideBySide, UnitNorm
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
from dptransfer.release import card_of, read_release
from dptransfer.release.heads import AverageHead, CosineHead, LinearHead, QuadraticHead
from dptransfer.release.words import top_words, words_of

from .models import CLASSES, DIMENSION, make_model, rows

NAMES = ("tabby", "beagle", "<b>van</b>", "pug")
SHARES = np.array([[0.9, 0.05, 0.04, 0.01], [0.01, 0.6, 0.29, 0.1], [0.0, 0.0, 0.97, 0.03]]) + 1e-9
MAP = FittedVocabularyMap.of(Vocabulary(NAMES, np.eye(4, DIMENSION), np.zeros(4)))
BOTH = FittedSideBySide(UnitNorm().fit(DIMENSION, None), MAP)
EXPECTED = (
    (("tabby", 0.9), ("beagle", 0.05), ("<b>van</b>", 0.04)),
    (("beagle", 0.6), ("<b>van</b>", 0.29), ("pug", 0.1)),
    (("<b>van</b>", 0.97), ("pug", 0.03)),
)


def beside(weights):
    """Weights for words behind weights for the rows themselves."""
    return np.hstack([np.ones((3, DIMENSION)), STRETCHES[1] * weights])


def model(head, features=MAP):
    return replace(make_model(), head=head, features=features)


MODELS = {
    "linear": model(LinearHead(np.log(SHARES), np.zeros(3))),
    "prototypes": model(CosineHead(SHARES)),
    "beside": model(LinearHead(beside(np.log(SHARES)), np.zeros(3)), BOTH),
    "beside, quadratic": model(
        QuadraticHead(beside(np.log(SHARES)), np.zeros(3), np.zeros((3, BOTH.dimension))), BOTH
    ),
    "in front": model(
        LinearHead(np.hstack([STRETCHES[0] * np.log(SHARES), np.ones((3, DIMENSION))]), np.zeros(3)),
        FittedSideBySide(MAP, UnitNorm().fit(DIMENSION, None)),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_words_of_each_class_are_read_off_the_released_arrays(name, tmp_path):
    again = read_release(MODELS[name].save(tmp_path / "release"))
    for made in (MODELS[name], again):
        found = [[(word, round(share, 6)) for word, share in words] for words in words_of(made)]
        assert found == [list(words) for words in EXPECTED]
    assert np.array_equal(again.scores(rows()), MODELS[name].scores(rows()))


def test_models_that_do_not_score_in_words_have_none():
    assert words_of(make_model()) is None
    average = AverageHead(np.ones((3, 4)), np.zeros(3), np.ones((3, 4)))
    assert words_of(model(average)) is None


def test_the_card_shows_them_as_released_and_at_no_cost():
    card = card_of(MODELS["linear"])
    text = card.markdown()
    assert "tabby 90%, beagle 5%" in text
    assert "at no further privacy cost" in text
    assert "<b>van</b>" not in card.html()
    assert "&lt;b&gt;van" in card.html()
    assert "encoder's labels" not in card_of(make_model()).markdown()


def test_a_class_without_words_and_classes_beyond_fifty_are_told_so():
    flat = np.full((60, 100), 0.01)
    wide = FittedVocabularyMap.of(
        Vocabulary(tuple(map(str, range(100))), np.ones((100, DIMENSION)), np.zeros(100))
    )
    many = make_model(classes=[f"class {place}" for place in range(60)])
    text = card_of(replace(many, head=LinearHead(np.log(flat), np.zeros(60)), features=wide)).markdown()
    assert "nothing in particular" in text
    assert "And 10 classes more" in text


def test_so_many_words_are_shown_and_none_of_next_to_nothing():
    assert [len(words) for words in top_words(SHARES, NAMES, most=1)] == [1, 1, 1]
    assert top_words(np.array([[0.019, 0.981]]), ("a", "b")) == ((("b", 0.981),),)
    assert len(CLASSES) == len(SHARES)
