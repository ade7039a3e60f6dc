"""What a card says of a model, in every form; numbers are those of the accounting, rounded up."""

import json
import re
from dataclasses import replace
from html import escape
from types import SimpleNamespace

import numpy as np
import pytest

import dptransfer as dpt
from base.pages import Page
from dptransfer import evaluate
from dptransfer.accounting import epsilon_of, membership_advantage, true_positive_rate
from dptransfer.data import Vocabulary
from dptransfer.encoders.encoder import EncoderDelta
from dptransfer.exact.feature_map import STRETCHES, FittedSideBySide, UnitNorm
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
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
from dptransfer.release import card_of, read_release
from dptransfer.release.card import model_summary, weakest_class, words_of
from dptransfer.release.card_privacy import attack_points, privacy_sections
from dptransfer.release.charged_evaluation import Estimate
from dptransfer.release.heads import AverageHead, CosineHead, LinearHead

from .counts import evaluation
from .models import CHOICE, CLASSES, DIMENSION, ENCODER, NOISE, ROUNDS, SAMPLED, TUNED, make_model, rows

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
            *("number of examples, beyond", "(one row and its label)", "With or without one example"),
            *("not measured", "test data used for an evaluation", "no seed exists", "row of zeros"),
        ),
        ("a person counts", "were changed", "tails", "not counted", "NOT PRIVATE", "encoder's labels"),
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
            "number of examples is public",
            "which of two examples",
            "which of two candidates",
        ),
        ("With or without", "whether that one was used", "same label in both"),
    ),
    "label kept": (label_kept(), ("same label in both", "(one row, and not its label)"), ("label included",)),
    "people": (
        of_people(size=37_037, rows_per_person=7),
        (
            *("No single person", "number of people", "all people but one", "People in the group", "about 7"),
            *("a person counts as at most one example", "With or without one person"),
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
        ("with all their examples", "number of people is public", "which of two people"),
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
        ("Votes of teachers",),
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
            *("multiplier 20, 28 times", "on 300 Poisson samples at rate 0.02", "at most 1, scale 1.1"),
            *("best of about 10 trials (geometric) of 2 candidates", "among 2 public candidates"),
            "(1) noise multiplier 20, 28 times; (2) noise multiplier 1.1, 300 samples at rate 0.02",
        ),
        ("zCDP ρ",),
    ),
    "sampled steps": (make_model(events=(SAMPLED,)), ("(sampling not counted)", "tails"), ()),
    "steps on disjoint parts": (
        make_model(events=(APART,)),
        (
            "(1) class sums: noise multiplier 4; (2) learning rate: best of about 10 trials",
            *("one of 2 parts", "the dearer part", "among 2 public candidates"),
        ),
        (),
    ),
    "rounds": (make_model(events=(ROUNDS,)), ("cost of the integer grid, ε = ", "with whole tails"), ()),
    "tuned": (make_model(events=(TUNED,)), ("cost of the integer grid.",), ("grid, ε = ", "zCDP ρ")),
    "many steps": (
        make_model(events=(replace(NOISE, noise_multiplier=40.0),) * 60),
        ("first 50 of 60",),
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
            *("on protected test rows", "protected: these numbers are (ε = 0.2", "Class Precision"),
            *("worst class is cat", "costs add up", "test data, except", "number of examples is"),
        ),
        ("not measured", "used for an evaluation;"),
    ),
    "hold-out": (
        replace(make_model(), charged=evaluation(holdout=0.2)),
        ("training with probability 0.2",),
        ("costs add up",),
    ),
    "too few test rows": (
        replace(make_model(), charged=evaluation(size=3)),
        ("no accuracy can be reported", "No recall of a single class", "no recall of a single class"),
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
    limits = dict([*privacy_sections(make_model())["What an attacker can learn"]][1].rows)
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
    assert "e<sup>ε</sup> = 2.72" in card_of(model).html()


def both(size, results_of):
    """A card with protected results of so many rows and with results on others that are not protected."""
    model = replace(make_model(), charged=evaluation(size=size))
    found = evaluate(model, rows(results_of), [CLASSES[row % 3] for row in range(results_of)], public=True)
    return card_of(model, found), found


def test_the_most_precise_figure_and_its_worst_class_come_first():
    card, found = both(size=400, results_of=3000)
    assert card.highlights[0].shown == f"{found.balanced_accuracy:.1%}"
    assert "3000 test rows" in card.highlights[0].note
    first = card.markdown().split("## Utility")[0]
    assert f"worst class is {found.worst_class}" in first
    assert "protected test rows" not in first
    card, found = both(size=100_000, results_of=30)
    assert card.highlights[0].shown != f"{found.balanced_accuracy:.1%}"
    assert "protected test rows" in card.highlights[0].note
    assert "rows are protected" in card.markdown()
    assert "are not protected" in card.markdown()


def test_the_worst_class_is_named_among_those_that_have_enough_test_rows():
    classes = ("cat", "dog", "eel")

    def said(**recalls):
        known = {name: Estimate(value, value, value) for name, value in recalls.items()}
        return weakest_class(SimpleNamespace(classes=classes, recalls=known))

    assert said(cat=0.9, dog=0.5, eel=0.7).startswith("The worst class is dog")
    assert said(cat=0.9, dog=0.5).startswith(
        "Among the 2 of 3 classes with enough test rows, the worst is dog"
    )
    assert said(dog=0.5).startswith("Only one of 3 classes has enough test rows to tell, dog")


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
    assert "Accuracy" in shown
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
    assert "(&lt;volunteers" in found._repr_html_()
    protected = model.charged._repr_html_()
    assert "rows are protected" in protected
    assert "a hold-out" in protected


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
