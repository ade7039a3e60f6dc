import math

from dptransfer.cli.privacy_view import attack_limits, attack_sentence, privacy_json, show_events
from dptransfer.privacy import (
    BestOfManyEvent,
    GaussianEvent,
    Guarantee,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
)

ADD = Relation.ADD_REMOVE
ROUNDS = GaussianEvent(20.0, ADD, 0.5, "gradients", times=28)
SAMPLED = SampledGaussianEvent(1.1, 0.02, 300, ADD, label="batches")
CHOICE = SelectionEvent(0.5, ADD, True, "exponential", "prototypes")


def shown(capsys, events):
    show_events(events)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_every_kind_of_step_has_its_line(capsys):
    lines = shown(capsys, [ROUNDS, SAMPLED, CHOICE])
    assert "1 gaussian gradients 0.5 20 scale 10, 28 times" in lines
    assert "2 sampled-gaussian batches 1 1.1 scale 1.1, 300 times, sampling rate 0.02" in lines
    assert "3 exponential prototypes epsilon 0.5" in lines


def test_a_tuned_step_shows_its_candidates(capsys):
    lines = shown(capsys, [BestOfManyEvent(((ROUNDS,), (SAMPLED, CHOICE)), 10, math.inf, "rate")])
    assert "1 best-of-many rate about 10 trials, Poisson" in lines
    assert "1.1 gaussian gradients 0.5 20 scale 10, 28 times" in lines
    assert [line.split()[0] for line in lines if line.startswith("1.2")] == ["1.2", "1.2"]


def test_many_steps_and_candidates_are_cut_short(capsys):
    assert any("and 5 more" in line for line in shown(capsys, [ROUNDS] * 25))
    tuned = BestOfManyEvent(((ROUNDS,),) * 23, 10, 1.0)
    assert any("and 3 more candidates" in line for line in shown(capsys, [tuned]))


def test_without_steps_it_says_that_no_private_row_is_used(capsys):
    assert shown(capsys, []) == ["No private row is used: there is no noisy step, and nothing is spent."]
    assert attack_limits([]) == {
        "true_positive_rate": {"0.01": 0.01, "0.001": 0.001},
        "membership_advantage": 0.0,
    }
    assert "at most 1% of members at 1% false alarms" in attack_sentence([])
    told = privacy_json("public-only", Guarantee(0.0, 0.0, ADD), [])
    assert (told["epsilon"], told["events"]) == (0.0, [])
