import json
import re
from dataclasses import replace

import numpy as np
import pytest

from base.pages import Page
from dptransfer import evaluate
from dptransfer.accounting import epsilon_of, membership_advantage, true_positive_rate
from dptransfer.base.document import plain
from dptransfer.encoders.base import EncoderDelta
from dptransfer.privacy import LABEL_KEPT, GaussianEvent, Relation, Unit, for_rows, rounded_up, typeset
from dptransfer.release import card_of, read_release
from dptransfer.release.card_privacy import attack_points

from .models import CHOICE, CLASSES, ENCODER, NOISE, SAMPLED, make_model, rows

FORMS = {
    "text": lambda card: " ".join(card.text().split()),
    "markdown": lambda card: card.markdown(),
    "html": lambda card: card.html(),
    "json": lambda card: json.dumps(card.to_dict(), ensure_ascii=False),
}
NOISE_OF_PEOPLE = replace(NOISE, unit=Unit.PERSON)
NASTY = "<script>alert('x')</script>"


def evaluated(model):
    return card_of(model, evaluate(model, rows(), np.arange(20) % 3, name="held-out rows"))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_states_the_guarantee_and_the_steps(form):
    model = make_model(events=(NOISE, CHOICE))
    shown = FORMS[form](card_of(model))
    assert typeset(str(model.guarantee)) in shown
    assert "δ = 10⁻⁵" in shown
    for words in ("class sums", "exponential", "multiplier 4", "adding or removing", "dptransfer verify DIR"):
        assert words in shown
    assert ("cd" * 32)[:20] in shown
    assert "tiny-net" in shown


@pytest.mark.parametrize("form", FORMS)
def test_the_numbers_change_when_the_guarantee_does(form):
    weak = make_model(events=(replace(NOISE, noise_multiplier=0.7),))
    strong = make_model()
    assert rounded_up(strong.guarantee.epsilon) in FORMS[form](card_of(strong))
    assert rounded_up(weak.guarantee.epsilon) in FORMS[form](card_of(weak))
    assert rounded_up(strong.guarantee.epsilon) not in FORMS[form](card_of(weak))


def test_the_attackers_numbers_are_those_of_the_accounting_rounded_up():
    text = card_of(make_model()).markdown()
    found = re.search(r"at 1% false alarms \| ([\d.]+)%", text)
    assert float(found[1]) / 100 >= true_positive_rate((NOISE,), 0.01) > float(found[1]) / 100 - 0.001
    advantage = re.search(r"membership advantage .*?\| ([\d.]+)%", text)
    assert float(advantage[1]) / 100 >= membership_advantage((NOISE,)) > float(advantage[1]) / 100 - 0.001


@pytest.mark.parametrize("events", [(NOISE,), (CHOICE,), (NOISE, CHOICE)])
def test_the_drawn_curve_agrees_with_the_accounting(events):
    points = attack_points(events)
    assert points[-1] == (1.0, 1.0)
    assert [found for _, found in points] == sorted(found for _, found in points)
    for rate, found in points[1:-1:4]:
        assert found == pytest.approx(true_positive_rate(events, rate), rel=0.02)
        assert found > rate


@pytest.mark.parametrize("events", [(NOISE,), (CHOICE,), (NOISE, CHOICE)])
def test_a_group_pays_more_and_the_card_says_how_much(events):
    delta = 0.0 if events == (CHOICE,) else 1e-5
    model = make_model(events=events, delta=delta)
    text = card_of(model).markdown()
    stated = {
        int(size): float(value)
        for size, value in re.findall(r"^\| (\d) \| ([\d.]+) \| [\d⁻⁵]+ \|$", text, re.M)
    }
    assert sorted(stated) == [1, 2, 5]
    assert stated[1] == float(rounded_up(model.guarantee.epsilon))  # one card, one number
    assert stated[1] < stated[2] < stated[5]
    if events == (NOISE,):
        five = GaussianEvent(NOISE.noise_multiplier / 5, Relation.ADD_REMOVE, numeric_epsilon=5e-9)
        assert epsilon_of((five,), delta) <= stated[5] < 1.001 * epsilon_of((five,), delta)
    if events == (CHOICE,):
        assert stated[5] == 2.5


@pytest.mark.parametrize("relation", Relation)
def test_the_card_of_people_speaks_of_people(relation):
    events = (replace(NOISE, unit=Unit.PERSON, relation=relation),)
    text = " ".join(card_of(make_model(events=events)).text(200).split())
    for words in (
        "one person, with all their examples",
        "No single person changes",
        "the number of people",
        "all people but one",
        "People in the group",
    ):
        assert words in text
    for words in (
        "removing one example",
        "replacing one example",
        "label included",
        "single example",
        "number of examples is",
        "Examples in the group",
    ):
        assert words not in text


def test_the_card_of_people_says_as_how_much_one_of_them_counts_and_never_how_many_there_are():
    model = make_model(events=(replace(NOISE, unit=Unit.PERSON),))
    people = replace(model.facts, unit=Unit.PERSON, size=37_037, rows_per_person=7)
    text = " ".join(card_of(replace(model, facts=people)).text(200).split())
    assert text.count("a person counts as at most one example in every answer") == 1
    assert "examples of one person about 7" in text
    assert "5291" not in text  # people, as they would follow
    wide = replace(people, person_bound=2.5, rows_per_person=None)
    text = " ".join(card_of(replace(model, facts=wide)).text(200).split())
    assert "at most 2.5 examples in every answer" in text
    assert "examples of one person not declared" in text
    assert "a person counts" not in card_of(make_model()).text(200)


def test_the_card_of_people_tells_what_one_example_of_somebody_costs():
    doubled = rounded_up(epsilon_of([for_rows(NOISE_OF_PEOPLE, Relation.ADD_REMOVE)], 1e-5))
    found = card_of(make_model(events=(NOISE_OF_PEOPLE,))).text(200)
    assert re.search(rf"one example of a person whose others stay\s+{doubled}", found)
    for other in (
        (NOISE,),
        (replace(NOISE_OF_PEOPLE, relation=Relation.REPLACE_ONE),),  # as it is
        (replace(SAMPLED, unit=Unit.PERSON),),  # not restated
    ):
        assert "whose others stay" not in card_of(make_model(events=other)).text(200)


def test_the_relation_is_explained_in_its_own_words():
    replaced = make_model(events=(replace(NOISE, relation=Relation.REPLACE_ONE),))
    assert "the number of examples is public" in card_of(replaced).text(200)
    assert "so is the number of examples" in card_of(make_model()).text(200)
    assert "the number of examples is public" not in card_of(make_model()).text(200)


def test_a_number_that_is_declared_is_not_called_protected_without_saying_so():
    declared = make_model()
    plain = replace(declared, facts=replace(declared.facts, size=None, class_counts=None))
    told = [" ".join(card_of(one).text(200).split()) for one in (plain, declared)]
    said = "so is the number of examples, beyond what is declared below."
    assert [said in text for text in told] == [False, True]


@pytest.mark.parametrize(("unit", "many"), [(Unit.ROW, "examples"), (Unit.PERSON, "people")])
def test_only_where_presence_is_protected_the_card_says_so(unit, many):
    one = unit.words.partition(",")[0]
    present = (f"With or without one {one}", f"whether one {one} was used", "whether that one was used")
    exchanged = (
        f"With one {one} or another instead",
        f"which of two {many} was used",
        "which of two candidates that one is",
    )
    for relation, said, unsaid in (
        (Relation.ADD_REMOVE, present, exchanged),
        (Relation.REPLACE_ONE, exchanged, present),
    ):
        model = make_model(events=(replace(NOISE, unit=unit, relation=relation),))
        text = " ".join(card_of(model).text(400).split())
        assert [words in text for words in said] == [True] * 3
        assert [words in text for words in unsaid] == [False] * 3


def test_a_label_that_is_not_protected_is_not_called_so():
    model = make_model(events=(replace(NOISE, relation=Relation.REPLACE_ONE),))
    kept = replace(model, guarantee=replace(model.guarantee, assumptions=(LABEL_KEPT,)))
    whole, narrow = (" ".join(card_of(one).text(200).split()) for one in (model, kept))
    assert "label included" in whole
    assert "(one row and its label)" in whole
    assert "label included" not in narrow
    assert "with the same label in both" in narrow
    assert "(one row, and not its label)" in narrow


def test_a_changed_encoder_is_named_with_how_much_of_it_was_changed():
    arrays = {"norm.weight": np.ones((2, 3), np.float32), "norm.bias": np.ones(4, np.float32)}
    changed = replace(make_model(), encoder_delta=EncoderDelta(ENCODER, "state", arrays))
    text = card_of(changed).markdown().replace("\\", "")
    assert f"Parts of the encoder {ENCODER} were changed, 10 numbers" in text
    assert "frozen encoder" not in text
    assert "tiny-net+state" in text
    assert "were changed" not in card_of(make_model()).markdown()


def test_a_card_of_pictures_speaks_of_pictures_and_of_the_encoder_that_is_public():
    def of_pictures(model):
        return replace(model, facts=replace(model.facts, shape=(8, 8, 3)))

    plain = of_pictures(make_model())
    delta = EncoderDelta(ENCODER, "state", {"norm.bias": np.ones(4, np.float32)})
    changed = replace(plain, encoder_delta=delta)
    text = card_of(plain).text(400)
    for said in (
        "one example (one picture and its label)",
        "saw private pictures",
        "A picture that cannot be read counts as a black one",
        "pictures, as the encoder tiny-net sees them, into 3",
        "The encoder tiny-net is as it was",
        "It sorts pictures into the 3 declared classes",
    ):
        assert said in text
    assert "private rows become" not in text.lower()
    assert "rows from the same encoder" not in text
    after = card_of(changed).text(400)
    assert "as the encoder tiny-net sees them since it was changed here" in after
    assert str(delta.identity) not in after  # it is no declared fact: the guarantee covers it
    voted = replace(plain, provenance=replace(plain.provenance, answers={"rows": {}}))
    assert "Votes of teachers are whole numbers, so sums" in card_of(voted).text(400)


@pytest.mark.parametrize("form", FORMS)
def test_a_seeded_model_carries_the_warning_first(form):
    shown = FORMS[form](card_of(make_model(seeded=True)))
    assert "NOT PRIVATE, DO NOT PUBLISH" in shown
    assert "SEEDED" in shown
    assert "no seed exists" not in shown
    safe = FORMS[form](card_of(make_model()))
    assert "NOT PRIVATE" not in safe
    assert "no seed exists" in safe


def test_what_a_user_wrote_never_becomes_markup():
    model = make_model(classes=(NASTY, "a|b*c", "dog"), notes=(f"note {NASTY}", "[x](http://evil)"))
    model = replace(model, provenance=replace(model.provenance, method=NASTY, configuration={NASTY: NASTY}))
    card = card_of(model, evaluate(model, rows(), np.arange(20) % 3, name=NASTY))
    page = Page(card.html())
    assert "script" not in page.tags
    assert "&lt;script&gt;" in card.html()
    markdown = card.markdown()
    assert not re.search(r"(?<!\\)<", markdown)
    assert r"a\|b\*c" in markdown
    assert r"\[x\](http" in markdown


def test_a_control_character_never_reaches_a_terminal():
    model = make_model(classes=("cat\x1b[31m", "dog\u202e", "eel\nfox"))
    for form in FORMS.values():
        shown = form(card_of(model))
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


def test_markdown_is_small():
    assert len(evaluated(make_model()).markdown()) < 8000


def test_an_evaluation_is_shown_with_its_caveat_and_its_absence_is_said():
    model = make_model()
    with_it, without = evaluated(model), card_of(model)
    assert "held-out rows" in with_it.markdown()
    assert "The test rows are not protected" in with_it.markdown()
    assert with_it.html().count("<g><title>") == len(CLASSES)
    assert "Not measured" in without.markdown()
    assert "<g><title>" not in without.html()


def test_of_many_classes_the_worst_are_shown():
    names = tuple(range(80))
    model = make_model(classes=names)
    found = evaluate(model, rows(160), np.arange(160) % 80)
    card = card_of(model, found)
    assert "The 50 classes of lowest recall" in card.markdown()
    assert card.html().count("<g><title>") == 50
    assert "lowest recall" not in evaluated(make_model()).markdown()


def test_the_text_form_stays_within_its_width():
    model = make_model(classes=tuple(f"class number {n}" for n in range(60)))
    model = replace(model, head=type(model.head)(np.ones((60, 7))))
    lines = card_of(model).text(80).splitlines()
    assert max(len(line) for line in lines) <= 80
    assert "and 40 more" in " ".join(" ".join(lines).split())
    assert max(len(line) for line in card_of(model).text(120).splitlines()) > 80


def test_many_steps_are_cut_short_in_the_table_and_counted():
    text = card_of(make_model(events=(replace(NOISE, noise_multiplier=40.0),) * 60)).markdown()
    assert "The first 50 of 60 are shown" in text
    assert text.count("Gaussian noise, multiplier 40") == 50
    assert "release.json lists all" in text


WORDS = {"summary": "Sums of\x1b[31m were <b>added</b>.", "reference": "Somebody: A Paper."}


def test_a_method_is_described_in_the_words_that_travel_with_the_release(tmp_path):
    model = make_model(**WORDS)
    path = model.save(tmp_path / "with words")
    assert read_release(path).provenance == replace(read_release(path).provenance, **WORDS)
    text = (path / "CARD.md").read_text()
    assert "Sums of\ufffd" in text
    assert "<b>" not in text
    assert "Reference: Somebody: A Paper." in text


def test_a_method_without_words_is_only_named(tmp_path):
    model = make_model()
    path = model.save(tmp_path / "without words")
    assert json.loads((path / "release.json").read_text())["method"]["summary"] == ""
    assert "The method named 'mean-prototypes'" in (path / "CARD.md").read_text()
    assert "Reference" not in (path / "CARD.md").read_text()


@pytest.mark.parametrize("form", FORMS)
def test_the_head_says_what_when_by_what_whom_to_ask_and_how_useful(form):
    model = make_model()
    named = replace(
        model,
        provenance=replace(
            model.provenance, title="Lesions <b>", contact="dpo@example.org", versions={"dptransfer": "9.8"}
        ),
    )
    card = card_of(named, evaluate(named, rows(), [0, 1] * 10))
    about = dict(card.about)
    assert about["Data"] == "Lesions <b>"
    assert about["Made"] == "2026-11-15"
    assert about["With"] == "dptransfer 9.8"
    assert about["Contact"] == "dpo@example.org"
    assert "on test rows" in card.highlights[0].note
    shown = FORMS[form](card_of(named))
    for words in ("dpo@example.org", "2026-11-15", "dptransfer 9.8", "not measured"):
        assert words in shown
    assert ("<b>" in shown.replace("\\<", "")) == (form in ("text", "json"))


def test_a_card_without_an_evaluation_says_how_to_add_one():
    assert "dptransfer evaluate DIR TEST --add-to-card" in card_of(make_model()).markdown()


def test_numbers_on_the_card_are_those_that_people_write():
    """What stands in a tag of the page for programs is exact; what is read is not 0.9999999999755346."""
    model = make_model()
    model = replace(model, guarantee=replace(model.guarantee, epsilon=0.9999999999755346))
    for form in ("text", "markdown"):
        assert "0.99999" not in FORMS[form](card_of(model))
    page = Page(card_of(model).html()).said
    assert "0.99999" not in page
    for text in (card_of(model).markdown(), page):
        assert not re.search(r"\de-?\d", text)
        assert "epsilon)" not in text
    assert "a factor of e^ε = 2.72, give or take δ = 10⁻⁵." in card_of(model).markdown()
    assert "a factor of e<sup>ε</sup> = 2.72, give" in card_of(model).html()


def test_every_number_of_the_head_is_the_guarantees():
    model = make_model()
    numbers = card_of(model).to_dict()["numbers"]
    guarantee = model.guarantee
    assert numbers == {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "relation": "add/remove"}
    page = Page(card_of(model).html())
    assert page.values("data-value") == [repr(guarantee.epsilon), repr(guarantee.delta), "add/remove"]
    tested = evaluate(model, rows(), np.arange(20) % 3).for_release()
    assert card_of(model, tested).to_dict()["numbers"]["balanced_accuracy"] == tested.balanced_accuracy


def test_the_benefit_stands_beside_the_cost():
    model = make_model()
    (table,) = evaluated(model).sections[0].blocks
    told = [[plain(cell) for cell in row] for row in table.rows]
    assert "into 3 classes: cat, dog, eel" in told[0][0]
    assert f"ε = {rounded_up(model.guarantee.epsilon)}, δ = 10⁻⁵" in told[0][1]
    assert re.search(r"[\d.]+% \([\d.]+% to [\d.]+% on test rows; blind guessing gets 33.3%\)", told[1][0])
    assert "give or take δ = 10⁻⁵" in told[1][1]
    right = float(re.search(r"at most ([\d.]+)% of the time", told[2][1])[1]) / 100
    assert right >= (1 + membership_advantage(model.events)) / 2 > right - 0.001
    assert "not measured" in plain(card_of(model).sections[0].blocks[0].rows[1][0])
