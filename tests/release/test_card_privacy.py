import json
import re
from dataclasses import replace

import pytest

from dptransfer.privacy import BestOfManyEvent, DisjointEvent, GaussianEvent, Relation
from dptransfer.release import card_of
from dptransfer.release.card_privacy import attack_points, privacy_sections

from .models import CHOICE, NOISE, ROUNDS, SAMPLED, TUNED, make_model

FORMS = {
    "text": lambda card: " ".join(card.text(200).split()),
    "markdown": lambda card: card.markdown().replace("\\", ""),
    "json": lambda card: json.dumps(card.to_dict(), ensure_ascii=False),
}


@pytest.mark.parametrize("form", FORMS)
def test_repeated_sampled_and_tuned_steps_are_described(form):
    shown = FORMS[form](card_of(make_model(events=(ROUNDS, SAMPLED, TUNED))))
    for words in (
        "multiplier 20, 28 times",
        "multiplier 1.1, on 300 Poisson samples at rate 0.02",
        "a row contributes at most 1, scale 1.1",
        "best of about 10 trials (geometric) of 2 candidates",
        "(1) noise multiplier 20, 28 times; (2) noise multiplier 1.1, 300 samples at rate 0.02 and epsilon",
        "Papernot and Steinke",
        "chosen on private data among 2 public candidates",
    ):
        assert words in shown


@pytest.mark.parametrize("form", FORMS)
def test_steps_on_disjoint_parts_are_described(form):
    apart = DisjointEvent(((NOISE,), (TUNED, CHOICE)), label="fit and hold-out")
    shown = FORMS[form](card_of(make_model(events=(apart,))))
    for words in (
        "one of 2 parts",
        "(1) class sums: noise multiplier 4; (2) learning rate: best of about 10 trials",
        "Each example is in one part of the data, and the dearer part is the price.",
        "chosen on private data among 2 public candidates",
    ):
        assert words in shown


@pytest.mark.parametrize("form", FORMS)
def test_without_private_rows_the_card_says_so(form):
    model = make_model(events=())
    shown = FORMS[form](card_of(model))
    assert "No private row was used" in shown
    assert "(ε = 0)-differentially private" in shown
    assert "blind guess" in shown
    assert "noisy steps" not in shown
    assert "No private row was used" not in FORMS[form](card_of(make_model()))


def test_a_price_that_is_inside_of_trials_is_not_called_nothing():
    told = [FORMS["markdown"](card_of(make_model(events=events))) for events in ((ROUNDS,), (TUNED,))]
    assert ["integer grid itself costs, ε = " in text for text in told] == [True, False]
    assert all("is included above." in text for text in told)


def test_cut_tails_are_printed_with_what_leaves_them_out():
    text = FORMS["markdown"](card_of(make_model(events=(ROUNDS, SAMPLED))))
    assert re.search(r"With probability at most 3(\.01)?·10⁻²⁵ that made a difference", text)
    assert "ρ and μ are those of noise with whole tails" in text
    assert "tails" not in FORMS["markdown"](card_of(make_model()))


def test_the_card_says_the_same_about_rows_that_are_not_finite_whatever_was_fitted():
    for made in (make_model(), make_model(events=(SAMPLED,)), make_model(events=(TUNED,))):
        text = FORMS["markdown"](card_of(made))
        assert (
            "A row with a NaN or an infinity counts as a row of zeros; whether there was one is not told"
            in text
        )


def test_rho_and_mu_say_that_sampling_is_not_counted():
    text = FORMS["markdown"](card_of(make_model(events=(SAMPLED,))))
    assert re.search(r"zCDP ρ \| 123\.\d+ \(sampling not counted\)", text)
    assert "sampling not counted" not in FORMS["markdown"](card_of(make_model(events=(ROUNDS,))))
    assert "zCDP ρ" not in FORMS["markdown"](card_of(make_model(events=(TUNED,))))


def test_many_candidates_are_counted_and_not_all_shown():
    noises = tuple((GaussianEvent(2.0 + n, Relation.ADD_REMOVE),) for n in range(9))
    (*_, accounting, _) = privacy_sections(make_model(events=(BestOfManyEvent(noises, 4, 1.0),)))
    detail = accounting.blocks[1].rows[0][-1]
    assert detail.endswith("; and 4 more")
    assert "(5) noise multiplier 6" in detail


PLAIN = replace(SAMPLED, numeric_delta=0.0)
SEARCH = BestOfManyEvent(((NOISE,), (PLAIN, CHOICE)), 10, 1.0)


@pytest.mark.parametrize("events", [(PLAIN,), (SEARCH,), (PLAIN, CHOICE, NOISE)], ids=["one", "tuned", "mix"])
def test_the_attackers_curve_and_groups_work_for_every_kind(events):
    points = attack_points(events)
    assert [found for _, found in points] == sorted(found for _, found in points)
    assert all(rate <= found <= 1 for rate, found in points)
    text = card_of(make_model(events=events)).markdown()
    stated = [float(value) for value in re.findall(r"^\| \d \| ([\d.]+) \| [\d⁻⁵]+ \|$", text, re.M)]
    assert len(stated) == 3
    assert stated == sorted(stated)
    assert stated[0] < stated[1] < stated[2]
