import re
from dataclasses import replace

from dptransfer import evaluate
from dptransfer.privacy import Bound, Unit
from dptransfer.release.card import card_of, charged_figure, charged_weakest
from dptransfer.release.charged_evaluation import tells_something

from .models import CLASSES, make_model, rows
from .noisy_evaluations import evaluation


def text(**changes):
    return card_of(replace(make_model(), charged=evaluation(**changes))).markdown()


def test_a_card_shows_charged_figures_and_what_they_cost():
    told = text(size=20000)
    for words in (
        "balanced accuracy",
        "on protected test rows",
        "The test rows are protected: these numbers are (ε = 0.2",
        "test rows that the data owner gave for it",
        "for sampling and noise together",
        "expected calibration error",
        "| Class | Precision |",
        "The worst class is cat: the model finds about",
    ):
        assert words in told
    assert "not measured" not in told


def test_a_card_says_how_the_hold_out_was_drawn():
    assert "each example was kept from the fit with probability 0.2" in text(holdout=0.2)


def test_voices_are_not_called_people():
    model, found = make_model(), evaluation(holdout=0.2)
    of_people = replace(
        found,
        counts=replace(found.counts, bound=Bound(Unit.PERSON, 2.0)),
        events=(replace(found.events[0], unit=Unit.PERSON),),
        guarantee=replace(found.guarantee, unit=Unit.PERSON),
    )
    told = card_of(replace(model, charged=of_people)).markdown()
    assert re.search(r"as many voices as examples, at most 2\. There were about \d+ voices, give", told)
    assert re.search(r"There were about \d+ of them, give", text(holdout=0.2))


def test_protected_test_rows_are_not_called_uncovered():
    assert "- test data used for an evaluation;" in card_of(make_model()).markdown()
    told = text()
    assert "- test data used for an evaluation;" not in told
    assert "- test data, but for those of the protected results under Utility;" in told


def test_only_rows_given_apart_can_hold_somebody_who_pays_twice():
    assert "the two losses add up" in text()
    assert "the two losses add up" not in text(holdout=0.2)


def test_where_nothing_can_be_said_the_card_says_so():
    told = text(size=3)
    assert told.count("no accuracy can be reported") == 2  # in front and in the table beside the cost
    assert "nan%" not in told
    assert "0 of the 3 classes" in told
    assert "no recall of a single class can be reported" in told


def test_many_classes_are_cut_to_the_worst():
    names = tuple(f"class {n}" for n in range(60))
    model = make_model(classes=names)
    told = card_of(replace(model, charged=evaluation(names, size=200000))).markdown()
    assert "The 50 classes of lowest recall" in told


def test_seeded_test_results_are_a_warning_on_the_card():
    assert "DO NOT PUBLISH" in text(seeded=True)
    assert "DO NOT PUBLISH" not in text()


def test_unprotected_results_stand_beside_charged_ones():
    from dptransfer import evaluate

    model = replace(make_model(), charged=evaluation())
    told = card_of(model, evaluate(model, rows(), [0, 1] * 10)).markdown()
    assert "The test rows are protected" in told
    assert "The test rows are not protected" in told


def both(size, results_of):
    """A card with protected results of so many rows and with results on others that are not protected."""
    model = replace(make_model(), charged=evaluation(size=size))
    told = evaluate(model, rows(results_of), [CLASSES[row % 3] for row in range(results_of)], public=True)
    return card_of(model, told), told


def test_the_most_precise_figure_and_its_worst_class_come_first():
    card, told = both(size=400, results_of=3000)
    assert card.highlights[0].shown == f"{told.balanced_accuracy:.1%}"
    assert "3000 test rows" in card.highlights[0].note
    first = card.markdown().split("## Utility")[0]
    assert f"The worst class is {told.worst_class}: " in first
    assert "protected test rows" not in first
    card, told = both(size=100_000, results_of=30)
    assert card.highlights[0].shown != f"{told.balanced_accuracy:.1%}"
    assert "on protected test rows" in card.highlights[0].note


def test_an_interval_that_says_nothing_is_said_in_words():
    sizes = range(40, 20_000, 40)
    wide = evaluation(size=next(size for size in sizes if 0.4 < _width(size) < 0.5))
    assert charged_figure(wide) != ("balanced accuracy", wide.balanced_accuracy)
    narrow = evaluation(size=next(size for size in sizes if _width(size) < 0.4))
    assert charged_figure(narrow) == ("balanced accuracy", narrow.balanced_accuracy)
    assert not all(map(tells_something, wide.recall))
    assert "too few test rows" in charged_weakest(wide).lower()


def _width(size):
    found = evaluation(size=size).balanced_accuracy
    return 1.0 if found.value is None else found.high - found.low
