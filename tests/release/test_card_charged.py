from dataclasses import replace

from dptransfer.release.card import card_of

from .models import make_model, rows
from .noisy_evaluations import evaluation


def text(**changes):
    return card_of(replace(make_model(), charged=evaluation(**changes))).markdown()


def test_a_card_shows_charged_figures_and_what_they_cost():
    told = text(size=20000)
    for words in (
        "balanced accuracy",
        "on protected test rows",
        "The test rows are protected: these numbers are (ε = 0.2",
        "whoever was in the fit too has both guarantees together",
        "for sampling and noise together",
        "expected calibration error",
        "| Class | Precision |",
        "Its worst class is cat, of which it finds about",
    ):
        assert words in told
    assert "not measured" not in told


def test_a_card_says_how_the_hold_out_was_drawn():
    assert "each example was kept from the fit with probability 0.2" in text(holdout=0.2)


def test_where_nothing_can_be_said_the_card_says_so():
    told = text(size=3)
    assert "nothing can be said" in told
    assert "nan%" not in told
    assert "Recall can be told of 0 of the 3 classes" in told
    assert "Of no class can its recall be said" in told


def test_many_classes_are_cut_to_the_worst():
    names = tuple(f"class {n}" for n in range(60))
    model = make_model(classes=names)
    told = card_of(replace(model, charged=evaluation(names, size=200000))).markdown()
    assert "The 50 classes of lowest recall" in told


def test_seeded_test_results_are_a_warning_on_the_card():
    assert "DO NOT PUBLISH" in text(seeded=True)
    assert "DO NOT PUBLISH" not in text()


def test_unprotected_results_stand_beside_charged_ones():
    from dptransfer.release import evaluate

    model = replace(make_model(), charged=evaluation())
    told = card_of(model, evaluate(model, rows(), [0, 1] * 10)).markdown()
    assert "The test rows are protected" in told
    assert "The test rows are not protected" in told
