import math
from dataclasses import replace

from dptransfer.cli.privacy_view import attack_limits, attack_sentence, privacy_json, show_events
from dptransfer.privacy import (
    BestOfManyEvent,
    DisjointEvent,
    GaussianEvent,
    Guarantee,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    Unit,
)

ADD = Relation.ADD_REMOVE
ROUNDS = GaussianEvent(20.0, ADD, 0.5, "gradients", times=28)
SAMPLED = SampledGaussianEvent(1.1, 0.02, 300, ADD, label="batches")
CHOICE = SelectionEvent(0.5, ADD, True, "exponential", "prototypes")
TUNED = BestOfManyEvent(((ROUNDS,), (CHOICE,)), 10, math.inf, "rate")
PARTS = DisjointEvent(((ROUNDS,), (CHOICE,)), label="fit and hold-out")


def shown(capsys, events):
    show_events(events)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_every_kind_of_step_has_its_line(capsys):
    lines = shown(capsys, [ROUNDS, SAMPLED, CHOICE, TUNED, PARTS])
    assert any("20, 28 times sensitivity 0.5, scale 10" in line for line in lines)
    assert any(line.startswith("2 batches Gaussian noise, multiplier 1.1, on 300 Poisson") for line in lines)
    assert any("3 prototypes exponential, ε = 0.5" in line for line in lines)
    words = " ".join(lines)
    assert "10 trials (Poisson) of 2" in words
    assert "(1) noise multiplier 20, 28 times; (2)" in words
    assert "(1) gradients: noise multiplier 20, 28" in words


def test_many_steps_are_cut_short(capsys):
    assert any("and 5 more" in line for line in shown(capsys, [ROUNDS] * 25))


def test_without_steps_it_says_that_no_private_row_is_used(capsys):
    assert "No private row" in shown(capsys, [])[0]
    rates = {"0.01": 0.01, "0.001": 0.001}
    assert attack_limits([]) == {"true_positive_rate": rates, "membership_advantage": 0.0}
    assert "1% of members" in attack_sentence([])
    told = privacy_json("public-only", Guarantee(0.0, 0.0, ADD), [])
    assert (told["epsilon"], told["events"]) == (0.0, [])


def test_persons_are_named(capsys):
    person = replace(SAMPLED, unit=Unit.PERSON)
    assert any("person contributes at" in line for line in shown(capsys, [person]))
    assert "of the people" in attack_sentence([person])
    assert privacy_json("dpsgd", Guarantee(1.0, 1e-5, ADD, unit=Unit.PERSON), [person])["unit"] == "person"


def test_an_attack_is_on_what_the_relation_protects():
    assert attack_sentence([ROUNDS]).startswith("any membership attack finds at most ")
    replaced = attack_sentence([replace(ROUNDS, relation=Relation.REPLACE_ONE)])
    assert replaced.startswith("any attack that tells members from their replacements finds at most ")
