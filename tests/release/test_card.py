"""What a card says of a model, in every form; numbers are those of the accounting, rounded up."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from base.pages import Page
from dptransfer import evaluate
from dptransfer.accounting import epsilon_of, membership_advantage, true_positive_rate
from dptransfer.base.document import plain
from dptransfer.encoders.encoder import EncoderDelta
from dptransfer.privacy import (
    LABEL_KEPT,
    BestOfManyEvent,
    DisjointEvent,
    GaussianEvent,
    Relation,
    Unit,
    for_rows,
    rounded_up,
    typeset,
)
from dptransfer.release import card_of
from dptransfer.release.card_privacy import attack_points, privacy_sections

from .models import CHOICE, ENCODER, NOISE, ROUNDS, SAMPLED, TUNED, make_model, rows
from .noisy_evaluations import evaluation

FORMS = {
    "text": lambda card: " ".join(card.text(200).split()),
    "markdown": lambda card: card.markdown().replace("\\", ""),
    "html": lambda card: card.html(),
    "json": lambda card: json.dumps(card.to_dict(), ensure_ascii=False),
}
NASTY = "<script>alert('x')</script>"
OF_PEOPLE, REPLACED = replace(NOISE, unit=Unit.PERSON), replace(NOISE, relation=Relation.REPLACE_ONE)
DELTA = EncoderDelta(ENCODER, "state", {"a": np.ones((2, 3), np.float32), "b": np.ones(4, np.float32)})
APART = DisjointEvent(((NOISE,), (TUNED, CHOICE)), label="fit and hold-out")
PLAIN = replace(SAMPLED, numeric_delta=0.0)


def text(model, found=None):
    return FORMS["text"](card_of(model, found))


def with_facts(model, **facts):
    return replace(model, facts=replace(model.facts, **facts))


def of_pictures(**changes):
    return replace(with_facts(make_model(), shape=(8, 8, 3)), **changes)


def of_people(event=OF_PEOPLE, **facts):
    return with_facts(make_model(events=(event,)), unit=Unit.PERSON, **facts)


def label_kept():
    model = make_model(events=(REPLACED,))
    return replace(model, guarantee=replace(model.guarantee, assumptions=(LABEL_KEPT,)))


def evaluated(model):
    return card_of(model, evaluate(model, rows(), np.arange(20) % 3, name="held-out rows"))


SAYS = {  # a model, and words that its card has and has not
    "rows": (
        make_model(),
        (
            "number of examples, beyond",
            "(one row and its label)",
            "With or without one example",
            "not measured",
            "test data used for an evaluation",
            "no seed exists",
            "row of zeros",
            "evaluate DIR TEST --add-to-card",
        ),
        (
            "a person counts",
            "were changed",
            "tails",
            "sampling not counted",
            "NOT PRIVATE",
            "encoder's labels",
        ),
    ),
    "no number declared": (
        with_facts(make_model(), size=None),
        ("number of examples.",),
        ("beyond what is",),
    ),
    "replaced rows": (
        make_model(events=(REPLACED,)),
        (
            "label included",
            "the number of examples is public",
            "which of two examples",
            "which of two candidates",
        ),
        ("With or without", "whether that one was used", "same label in both"),
    ),
    "label kept": (label_kept(), ("same label in both", "(one row, and not its label)"), ("label included",)),
    "people": (
        of_people(size=37_037, rows_per_person=7),
        (
            "No single person",
            "number of people",
            "all people but one",
            "People in the group",
            "about 7",
            "a person counts as at most one example",
            "With or without one person",
        ),
        ("removing one example", "label included", "single example", "Examples in the group", "5291"),
    ),
    "people who count more": (
        of_people(person_bound=2.5),
        ("at most 2.5 examples", "one person not declared"),
        ("about 7",),
    ),
    "replaced people": (
        of_people(replace(OF_PEOPLE, relation=Relation.REPLACE_ONE)),
        ("with all their examples", "the number of people is public", "which of two people"),
        ("replacing one example", "whose others stay", "With or without"),
    ),
    "sampled people": (of_people(replace(SAMPLED, unit=Unit.PERSON)), (), ("whose others stay",)),
    "pictures": (
        of_pictures(),
        ("(one picture and its label)", "counts as a black one", "encoder tiny-net is unchanged"),
        ("Private rows", "rows from the same encoder", "frozen encoder"),
    ),
    "changed encoder": (
        of_pictures(encoder_delta=DELTA),
        (f"changed 10 numbers of the encoder {ENCODER}", "fine-tuned here"),
        ("frozen encoder", "is unchanged", str(DELTA.identity)),  # it is no declared fact: it is covered
    ),
    "votes": (
        of_pictures(provenance=replace(make_model().provenance, answers={"rows": {}})),
        ("Votes of teachers are whole numbers",),
        (),
    ),
    "no private rows": (
        make_model(events=()),
        ("No private row was used", "(ε = 0)-differentially private", "blind guess"),
        ("noisy steps",),
    ),
    "repeated, sampled and tuned steps": (
        make_model(events=(ROUNDS, SAMPLED, TUNED)),
        (
            "multiplier 20, 28 times",
            "on 300 Poisson samples at rate 0.02",
            "at most 1, scale 1.1",
            "best of about 10 trials (geometric) of 2 candidates",
            "among 2 public candidates",
            "(1) noise multiplier 20, 28 times; (2) noise multiplier 1.1, 300 samples at rate 0.02",
        ),
        ("zCDP ρ",),
    ),
    "sampled steps": (make_model(events=(SAMPLED,)), ("(sampling not counted)", "row of zeros", "tails"), ()),
    "steps on disjoint parts": (
        make_model(events=(APART,)),
        (
            "one of 2 parts",
            "(1) class sums: noise multiplier 4; (2) learning rate: best of about 10 trials",
            "the dearer part",
            "among 2 public candidates",
        ),
        (),
    ),
    "rounds": (make_model(events=(ROUNDS,)), ("cost of the integer grid, ε = ", "with whole tails"), ()),
    "tuned": (make_model(events=(TUNED,)), ("cost of the integer grid.",), ("grid, ε = ", "zCDP ρ")),
    "many steps": (
        make_model(events=(replace(NOISE, noise_multiplier=40.0),) * 60),
        ("The first 50 of 60 are shown",),
        ("51 class sums",),
    ),
    "seeded": (make_model(seeded=True), ("NOT PRIVATE, DO NOT PUBLISH", "SEEDED"), ("no seed exists",)),
    "described method": (
        make_model(summary="Sums of\x1b[31m were <b>added</b>.", reference="Somebody: A Paper."),
        ("Sums of\ufffd", "Reference: Somebody: A Paper."),
        ("is named 'mean-prototypes'",),
    ),
    "method without description": (make_model(), ("is named 'mean-prototypes'",), ("Reference",)),
    "charged": (
        replace(make_model(), charged=evaluation(size=20000)),
        (
            "on protected test rows",
            "The test rows are protected: these numbers are (ε = 0.2",
            "Class Precision",
            "The worst class is cat",
            "privacy costs add up",
            "test data, except",
            "number of examples is",
        ),
        ("not measured", "used for an evaluation;"),
    ),
    "hold-out": (
        replace(make_model(), charged=evaluation(holdout=0.2)),
        ("each example was kept out of training with probability 0.2",),
        ("privacy costs add up",),
    ),
    "too few test rows": (
        replace(make_model(), charged=evaluation(size=3)),
        ("no accuracy can be reported", "0 of the 3 classes", "no recall of a single class"),
        ("nan%",),
    ),
    "seeded results": (replace(make_model(), charged=evaluation(seeded=True)), ("DO NOT PUBLISH",), ()),
}


@pytest.mark.parametrize("name", SAYS)
def test_a_card_says_what_holds_for_its_model_and_nothing_else(name):
    model, present, absent = SAYS[name]
    for form in ("text", "json"):
        shown = FORMS[form](card_of(model))
        if form == "text":
            assert [words for words in present if words not in shown] == []
        assert [words for words in absent if words in shown] == []


@pytest.mark.parametrize("form", FORMS)
def test_every_form_states_the_guarantee_and_the_steps(form):
    model, weak = (
        make_model(events=(NOISE, CHOICE)),
        make_model(events=(replace(NOISE, noise_multiplier=0.7),)),
    )
    shown = FORMS[form](card_of(model))
    for words in (typeset(str(model.guarantee)), "δ = 10⁻⁵", "class sums", "exponential", "multiplier 4"):
        assert words in shown
    for words in (rounded_up(model.guarantee.epsilon), "dptransfer verify DIR", "cd" * 10, "tiny-net"):
        assert words in shown
    assert rounded_up(model.guarantee.epsilon) not in FORMS[form](card_of(weak))
    assert "NOT PRIVATE" not in shown
    assert "NOT PRIVATE" in FORMS[form](card_of(make_model(seeded=True)))


def test_the_attackers_numbers_are_those_of_the_accounting_rounded_up():
    limits = dict(privacy_sections(make_model())[1].blocks[1].rows)
    for words, exact in (
        ("true positive rate at 1%", true_positive_rate((NOISE,), 0.01)),
        ("membership advantage", membership_advantage((NOISE,))),
        ("right guesses", (1 + membership_advantage((NOISE,))) / 2),
    ):
        (shown,) = (float(limit.rstrip("%")) / 100 for name, limit in limits.items() if words in name)
        assert shown >= exact > shown - 0.001


@pytest.mark.parametrize("events", [(NOISE,), (CHOICE,), (NOISE, CHOICE)])
def test_the_drawn_curve_agrees_with_the_accounting(events):
    points = attack_points(events)
    assert points[-1] == (1.0, 1.0)
    for rate, found in points[1:-1:4]:
        assert found == pytest.approx(true_positive_rate(events, rate), rel=0.02)
        assert found > rate


SEARCH = BestOfManyEvent(((NOISE,), (PLAIN, CHOICE)), 10, 1.0)


@pytest.mark.parametrize(
    "events", [(NOISE,), (CHOICE,), (NOISE, CHOICE), (PLAIN,), (SEARCH,), (PLAIN, CHOICE, NOISE)], ids=str
)
def test_curve_and_groups_work_for_every_kind_of_step(events):
    found = [one for _, one in attack_points(events)]
    assert found == sorted(found)
    delta = 0.0 if events == (CHOICE,) else 1e-5
    model = make_model(events=events, delta=delta)
    lines = re.findall(r"^\| (\d) \| ([\d.]+) \| [\d⁻⁵]+ \|$", card_of(model).markdown(), re.M)
    stated = {int(size): float(value) for size, value in lines}
    assert sorted(stated) == [1, 2, 5]
    assert stated[1] == float(rounded_up(model.guarantee.epsilon))  # one card, one number
    assert stated[1] < stated[2] < stated[5]
    if events == (NOISE,):
        five = GaussianEvent(NOISE.noise_multiplier / 5, Relation.ADD_REMOVE, numeric_epsilon=5e-9)
        assert epsilon_of((five,), delta) <= stated[5] < 1.001 * epsilon_of((five,), delta)
    if events == (CHOICE,):
        assert stated[5] == 2.5


def test_the_card_of_people_states_what_one_example_of_somebody_costs():
    doubled = rounded_up(epsilon_of([for_rows(OF_PEOPLE, Relation.ADD_REMOVE)], 1e-5))
    assert re.search(rf"whose others stay {doubled}", text(make_model(events=(OF_PEOPLE,))))


def test_many_candidates_are_counted_and_not_all_shown():
    noises = tuple((GaussianEvent(2.0 + n, Relation.ADD_REMOVE),) for n in range(9))
    (*_, accounting, _) = privacy_sections(make_model(events=(BestOfManyEvent(noises, 4, 1.0),)))
    detail = accounting.blocks[1].rows[0][-1]
    assert detail.endswith("; and 4 more")
    assert "(5) noise multiplier 6" in detail


def test_what_a_user_wrote_never_becomes_markup():
    model = make_model(classes=(NASTY, "a|b*c", "dog"), notes=(f"note {NASTY}", "[x](http://evil)"))
    model = replace(model, provenance=replace(model.provenance, method=NASTY, configuration={NASTY: NASTY}))
    card = card_of(model, evaluate(model, rows(), np.arange(20) % 3, name=NASTY))
    assert "script" not in Page(card.html()).tags
    assert "&lt;script&gt;" in card.html()
    markdown = card.markdown()
    assert not re.search(r"(?<!\\)<", markdown)
    assert r"a\|b\*c" in markdown
    assert r"\[x\](http" in markdown


@pytest.mark.parametrize("form", FORMS)
def test_a_control_character_never_reaches_a_terminal(form):
    shown = FORMS[form](card_of(make_model(classes=("cat\x1b[31m", "dog\u202e", "eel\nfox"))))
    assert not set("\x1b\u202e") & set(shown)
    assert "eel fox" in shown


def test_the_page_is_complete_alone_and_its_contents_lead_to_every_section():
    card = evaluated(make_model())
    page = Page(card.html())
    assert {"nav", "svg", "table", "sup"} <= set(page.tags)
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert [target[1:] for target in page.values("href")] == list(card.anchors())
    assert set(card.anchors()) <= set(page.values("id"))
    assert all(around[-1] == "scroll" for tag, around in page.boxes if tag == "table")
    assert len(card.markdown()) < 8000


def test_the_text_form_stays_within_its_width():
    model = make_model(classes=tuple(f"class number {n}" for n in range(60)))
    model = replace(model, head=type(model.head)(np.ones((60, 7))))
    lines = card_of(model).text(80).splitlines()
    assert max(len(line) for line in lines) <= 80
    assert "and 40 more" in " ".join(" ".join(lines).split())
    assert max(len(line) for line in card_of(model).text(120).splitlines()) > 80


@pytest.mark.parametrize("form", FORMS)
def test_the_head_has_title_date_software_contact_and_accuracy(form):
    model = make_model()
    named = dict(title="Lesions <b>", contact="dpo@example.org", versions={"dptransfer": "9.8"})
    model = replace(model, provenance=replace(model.provenance, **named))
    shown = FORMS[form](card_of(model))
    for words in ("dpo@example.org", "2026-11-15", "dptransfer 9.8", "not measured"):
        assert words in shown
    assert ("<b>" in shown) == (form != "html")
    assert "on test rows" in evaluated(model).highlights[0].note


def test_numbers_on_the_card_are_those_that_people_write():
    """What stands in a tag of the page for programs is exact; what is read is not 0.9999999999755346."""
    model = make_model()
    model = replace(model, guarantee=replace(model.guarantee, epsilon=0.9999999999755346))
    for shown in (text(model), card_of(model).markdown(), Page(card_of(model).html()).said):
        assert "0.99999" not in shown
        assert not re.search(r"\de-?\d", shown)
        assert "epsilon)" not in shown
    assert "a factor of e^ε = 2.72, plus δ = 10⁻⁵." in card_of(model).markdown()
    assert "a factor of e<sup>ε</sup> = 2.72, plus" in card_of(model).html()


def test_every_number_of_the_head_is_the_guarantees():
    model = make_model()
    guarantee = model.guarantee
    numbers = {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "relation": "add/remove"}
    assert card_of(model).to_dict()["numbers"] == numbers
    page = Page(card_of(model).html())
    assert page.values("data-value") == [repr(guarantee.epsilon), repr(guarantee.delta), "add/remove"]
    tested = evaluate(model, rows(), np.arange(20) % 3).for_release()
    assert card_of(model, tested).to_dict()["numbers"]["balanced_accuracy"] == tested.balanced_accuracy


def test_the_benefit_stands_beside_the_cost():
    model = make_model()
    (table,) = evaluated(model).sections[0].blocks
    cells = [[plain(cell) for cell in row] for row in table.rows]
    assert "into 3 classes: cat, dog, eel" in cells[0][0]
    assert f"ε = {rounded_up(model.guarantee.epsilon)}, δ = 10⁻⁵" in cells[0][1]
    assert re.search(r"[\d.]+% \([\d.]+% to [\d.]+% on test rows; blind guessing gets 33.3%\)", cells[1][0])
    assert "plus δ = 10⁻⁵" in cells[1][1]
    right = float(re.search(r"at most ([\d.]+)% of the time", cells[2][1])[1]) / 100
    assert right >= (1 + membership_advantage(model.events)) / 2 > right - 0.001
