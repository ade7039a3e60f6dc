"""How useful a model is, on its card and in notebooks; the encoder's labels of its classes."""

import re
from dataclasses import replace
from html import escape

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer import evaluate
from dptransfer.data import Vocabulary
from dptransfer.exact.feature_map import STRETCHES, FittedSideBySide, UnitNorm
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
from dptransfer.privacy import LABEL_KEPT, Bound, Unit
from dptransfer.release import card_of, read_release
from dptransfer.release.card import model_summary
from dptransfer.release.card_utility import headline, results_summary, top_words, weakest_class, words_of
from dptransfer.release.charged_evaluation import tells_something
from dptransfer.release.heads import AverageHead, CosineHead, LinearHead, QuadraticHead

from .models import CLASSES, DIMENSION, make_model, rows
from .noisy_evaluations import evaluation


def both(size, results_of):
    """A card with protected results of so many rows and with results on others that are not protected."""
    model = replace(make_model(), charged=evaluation(size=size))
    found = evaluate(model, rows(results_of), [CLASSES[row % 3] for row in range(results_of)], public=True)
    return card_of(model, found), found


def test_votes_are_not_called_people():
    found = evaluation(holdout=0.2)
    by_person = replace(
        found,
        counts=replace(found.counts, bound=Bound(Unit.PERSON, 2.0)),
        events=(replace(found.events[0], unit=Unit.PERSON),),
        guarantee=replace(found.guarantee, unit=Unit.PERSON),
    )
    shown = card_of(replace(make_model(), charged=by_person)).markdown()
    assert re.search(r"as many votes as examples, up to 2\. The noisy number of votes is \d+", shown)


def test_the_most_precise_figure_and_its_worst_class_come_first():
    card, found = both(size=400, results_of=3000)
    assert card.highlights[0].shown == f"{found.balanced_accuracy:.1%}"
    assert "3000 test rows" in card.highlights[0].note
    first = card.markdown().split("## Utility")[0]
    assert f"The worst class is {found.worst_class}: " in first
    assert "protected test rows" not in first
    card, found = both(size=100_000, results_of=30)
    assert card.highlights[0].shown != f"{found.balanced_accuracy:.1%}"
    assert "on protected test rows" in card.highlights[0].note
    assert "The test rows are protected" in card.markdown()
    assert "The test rows are not protected" in card.markdown()


def test_an_interval_that_says_nothing_is_not_shown():
    sizes = range(40, 20_000, 40)
    wide = evaluation(size=next(size for size in sizes if 0.4 < _width(size) < 0.5))
    assert headline(wide) != ("balanced accuracy", *wide.balanced_accuracy)
    narrow = evaluation(size=next(size for size in sizes if _width(size) < 0.4))
    assert headline(narrow) == ("balanced accuracy", *narrow.balanced_accuracy)
    assert not all(map(tells_something, wide.recall))
    assert "too few test rows" in weakest_class(wide).lower()


def _width(size):
    found = evaluation(size=size).balanced_accuracy
    return 1.0 if found.value is None else found.high - found.low


@pytest.mark.parametrize("protected", [False, True])
def test_of_many_classes_the_worst_are_shown(protected):
    model = make_model(classes=tuple(range(80)))
    if protected:
        card = card_of(replace(model, charged=evaluation(model.classes, size=200_000)))
    else:
        card = card_of(model, evaluate(model, rows(160), np.arange(160) % 80))
    assert "The 50 classes of lowest recall" in card.markdown()
    assert card.html().count("<g><title>") == 50
    few = card_of(make_model(), evaluate(make_model(), rows(), np.arange(20) % 3))
    assert "lowest recall" not in few.markdown()
    assert few.html().count("<g><title>") == len(CLASSES)
    assert "<g><title>" not in card_of(make_model()).html()


NAMES = ["<b>cat</b>", "dog"]


@pytest.fixture(scope="module")
def model():
    y = np.arange(400) % 2
    x = np.eye(4)[y] + 0.1 * np.random.default_rng(0).normal(size=(400, 4))
    given = {"classes": NAMES, "name": "p", "method": "mean", "ledger": dpt.Ledger.in_memory()}
    return dpt.fit(x, y, epsilon=2, holdout=0.3, **given)


def test_a_notebook_shows_a_model_in_a_few_lines(model):
    shown = model._repr_html_()
    assert "(ε = 2, δ = 1e-5)-differentially private" in shown
    assert "Accuracy on private rows" in shown
    assert "&lt;b&gt;cat" in shown
    assert "<b>" not in shown
    assert len(shown) < 2000
    assert not re.search(r"<(style|script|html|h\d)", shown)
    assert "Assuming" not in shown
    kept = replace(model, guarantee=replace(model.guarantee, assumptions=("settings are fixed", LABEL_KEPT)))
    assert LABEL_KEPT in kept._repr_html_()
    assert "settings are fixed" not in kept._repr_html_()
    seeded = replace(model, provenance=replace(model.provenance, seeded=True, title="<i>"))
    assert seeded._repr_html_().startswith("<div>\n<p><strong>NOT PRIVATE")
    assert "&lt;i&gt;" in seeded._repr_html_()
    assert model_summary(model).warning is None


def test_a_notebook_shows_test_results_with_the_sentence_that_belongs_to_them(model):
    found = evaluate(model, np.eye(4)[:2], [0, 1], name="<volunteers>")
    assert repr(found).startswith("Evaluation(balanced accuracy 100.0% (")
    assert "not protected" in repr(found)
    assert escape(found.statement) in found._repr_html_()
    assert "Test on 2 test rows (&lt;volunteers" in found._repr_html_()
    protected = model.charged._repr_html_()
    assert "The test rows are protected" in protected
    assert "a hold-out" in protected


def test_a_notebook_counts_many_classes_and_names_a_few(model):
    names = tuple(f"class {number}" for number in range(100))
    many = replace(model, facts=replace(model.facts, classes=names))
    assert ("Classes", f"100: {', '.join(names[:8])} and 92 more") in model_summary(many).about
    found = evaluate(model, np.eye(4)[:2], [0, 1], name="t")
    wide = dict(classes=names, support=(1,) * 100, recall=(None,) * 100, recall_intervals=(None,) * 100)
    (section,) = results_summary(replace(found, **wide)).sections
    assert len(section.blocks[0].rows) == 8
    assert "100" in section.blocks[0].caption


LABELS = ("tabby", "beagle", "<b>van</b>", "pug")
SHARES = np.array([[0.9, 0.05, 0.04, 0.01], [0.01, 0.6, 0.29, 0.1], [0.0, 0.0, 0.97, 0.03]]) + 1e-9
MAP = FittedVocabularyMap.of(Vocabulary(LABELS, np.eye(4, DIMENSION), np.zeros(4)))
BOTH = FittedSideBySide(UnitNorm().fit(DIMENSION, None), MAP)
EXPECTED = (
    (("tabby", 0.9), ("beagle", 0.05), ("<b>van</b>", 0.04)),
    (("beagle", 0.6), ("<b>van</b>", 0.29), ("pug", 0.1)),
    (("<b>van</b>", 0.97), ("pug", 0.03)),
)


def beside(weights):
    """Weights for labels behind weights for the rows themselves."""
    return np.hstack([np.ones((3, DIMENSION)), STRETCHES[1] * weights])


def with_labels(head, features=MAP):
    return replace(make_model(), head=head, features=features)


MODELS = {
    "linear": with_labels(LinearHead(np.log(SHARES), np.zeros(3))),
    "prototypes": with_labels(CosineHead(SHARES)),
    "beside": with_labels(LinearHead(beside(np.log(SHARES)), np.zeros(3)), BOTH),
    "beside, quadratic": with_labels(
        QuadraticHead(beside(np.log(SHARES)), np.zeros(3), np.zeros((3, BOTH.dimension))), BOTH
    ),
    "in front": with_labels(
        LinearHead(np.hstack([STRETCHES[0] * np.log(SHARES), np.ones((3, DIMENSION))]), np.zeros(3)),
        FittedSideBySide(MAP, UnitNorm().fit(DIMENSION, None)),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_encoders_labels_of_each_class_are_read_off_the_released_arrays(name, tmp_path):
    again = read_release(MODELS[name].save(tmp_path / "release"))
    for made in (MODELS[name], again):
        found = [[(word, round(share, 6)) for word, share in words] for words in words_of(made)]
        assert found == [list(words) for words in EXPECTED]
    assert np.array_equal(again.scores(rows()), MODELS[name].scores(rows()))


def test_models_without_such_labels_have_none():
    assert words_of(make_model()) is None
    assert words_of(with_labels(AverageHead(np.ones((3, 4)), np.zeros(3), np.ones((3, 4))))) is None


def test_the_card_shows_the_labels_of_fifty_classes():
    card = card_of(MODELS["linear"])
    assert "tabby 90%, beagle 5%" in card.markdown()
    assert "<b>van</b>" not in card.html()
    assert "&lt;b&gt;van" in card.html()
    names = tuple(map(str, range(100)))
    wide = FittedVocabularyMap.of(Vocabulary(names, np.ones((100, DIMENSION)), np.zeros(100)))
    many = make_model(classes=[f"class {place}" for place in range(60)])
    flat = LinearHead(np.log(np.full((60, 100), 0.01)), np.zeros(60))
    shown = card_of(replace(many, head=flat, features=wide)).markdown()
    assert "nothing in particular" in shown
    assert "And 10 classes more" in shown


def test_so_many_labels_are_shown_and_none_of_next_to_nothing():
    assert [len(words) for words in top_words(SHARES, LABELS, most=1)] == [1, 1, 1]
    assert top_words(np.array([[0.019, 0.981]]), ("a", "b")) == ((("b", 0.981),),)
