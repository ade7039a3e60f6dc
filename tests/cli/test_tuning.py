"""`--tune`: a choice among configurations that is paid for, shown before and told after."""

import numpy as np
import pytest

from dptransfer.accounting import epsilon_of
from dptransfer.cli.settings import method_from
from dptransfer.cli.tuning import Tuning
from dptransfer.features import PublicMap
from dptransfer.ledger import Ledger
from dptransfer.methods import CoinPressPrototypes, NoisyGD, PrivateTuning
from dptransfer.release import read_release

BUDGET = ("--epsilon", "2", "--delta", "1e-5")
PLAN = ("plan", *BUDGET, "--classes", "3", "--dim", "16")
STEPS = ("-m", "noisy-gd", "--tune", "steps=2,5")


def made(name, *fields, settings=(), **given):
    return method_from(name, {}, list(settings), tuning=Tuning(fields, **given))


def test_every_combination_of_the_listed_values_is_a_candidate():
    tuned = made("noisy-gd", "steps=2,5", "axes=8,16", settings=["clip=0.5"])
    wanted = [(steps, axes) for steps in (2, 5) for axes in (8, 16)]
    assert tuned == PrivateTuning(
        candidates=tuple(NoisyGD(features=PublicMap(axes=a), steps=s, clip=0.5) for s, a in wanted)
    )
    assert made("noisy-gd") == NoisyGD()  # nothing to tune is no tuning


def test_parts_words_and_values_with_commas_can_be_tuned():
    tuned = made("noisy-gd", "pace.reach=10,20", "start=zero,shots")
    assert [(c.pace.reach, c.start.kind) for c in tuned.candidates] == [
        (reach, kind) for reach in (10.0, 20.0) for kind in ("zero", "shots")
    ]
    tuned = made("coinpress", "shares=[[0.5, 0.5], [0.25, 0.75]]")
    assert tuned.candidates == tuple(CoinPressPrototypes(shares=s) for s in ((0.5, 0.5), (0.25, 0.75)))


def test_the_number_of_trials_and_the_public_way_reach_the_method():
    assert made("noisy-gd", "steps=2,5", mean_trials=3.0).mean_trials == 3.0
    assert made("noisy-gd", "steps=2,5", on_public=True).tune_on_public


def test_a_plan_shows_the_price_before_any_data(cli, cli_json):
    alone = cli_json(*PLAN, "-m", "noisy-gd", "--steps", "5")
    told = cli_json(*PLAN, *STEPS)
    (event,) = told["events"]
    assert (told["method"], event["kind"], event["mean_trials"]) == ("private-tuning", "best-of-many", 10.0)
    assert told["epsilon"] <= 2
    five = event["candidates"][1][0]
    assert five["times"] == 5
    assert five["noise_multiplier"] > 1.5 * alone["events"][0]["noise_multiplier"]
    assert "'noisy-gd' with steps 2 or 5" in told["notes"][0]
    assert "about 10 trials" in " ".join(cli(*PLAN, *STEPS).stdout.split())


def test_fewer_trials_leave_more_for_each(cli_json):
    few, many = (
        cli_json(*PLAN, *STEPS, "--mean-trials", mean)["events"][0]["candidates"][0][0]["noise_multiplier"]
        for mean in (2, 50)
    )
    assert few < many


def test_a_tuned_fit_is_charged_as_what_it_is_and_its_card_says_so(cli, cli_json, data, ledger):
    words = (*BUDGET, "--classes", "cat,dog,bird", *STEPS, "--mean-trials", "2", "--out", "model")
    planned = cli_json(*PLAN, *STEPS, "--mean-trials", "2")
    told = cli_json("fit", data / "private.npz", *words)
    assert told["events"] == planned["events"]
    (charge,) = [entry for entry in Ledger(ledger).history() if hasattr(entry, "events")]
    assert epsilon_of(charge.events, 1e-5) == pytest.approx(told["epsilon"])
    card = " ".join(cli("card", "model").stdout.split())
    assert "chosen on private data among 2 public candidates; the choice is paid for" in card
    assert "'noisy-gd' with steps 2 or 5" in card
    assert "a trial's fit has epsilon" in card
    assert "The best trial was of 'noisy-gd' with steps" in card
    assert "Verified" in cli("verify", "model").stdout


def test_tuning_on_public_rows_costs_what_the_winner_costs_alone(cli, cli_json, data):
    np.savez("pool.npz", x=np.random.default_rng(9).normal(size=(220, 16)).astype(np.float32))
    words = (*STEPS, "--tune-on-public", "--public", "pool.npz", "--size", "300")
    told = cli_json(*PLAN, *words)
    assert told["method"] == "noisy-gd"
    assert told["configuration"]["steps"] in (2, 5)
    alone = cli_json(*PLAN, "-m", "noisy-gd", "--steps", told["configuration"]["steps"])
    assert told["events"] == alone["events"]
    assert "no private row was read" in told["notes"][0]
    cli("fit", data / "private.npz", *BUDGET, "--classes", "cat,dog,bird", *words, "--out", "model")
    assert read_release("model").provenance.configuration["steps"] == told["configuration"]["steps"]
    assert "none was chosen on private data" in cli("card", "model").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tune", "stps=2,5"), "--tune stps=2: A setting must be a field of the method; 'noisy-gd' has no"),
        (("--tune", "k=2,5"), "'noisy-gd' has no 'k'"),
        (("--tune", "steps="), "--tune must list values; got 'steps='"),
        (("--tune", "steps=[]"), "--tune must list values"),
        (("--tune", "steps=2,,5"), "--tune must list values"),
        (("--tune", "steps"), "--tune takes field=value,value; got 'steps'"),
        (("--tune", "=2,5"), "--tune takes field=value,value"),
        (("--tune", "steps=2,0"), "--tune steps=0: steps must be"),
        (("--tune", "steps=2,many"), "--tune steps=many: 'steps' must be of the type"),
        (("--tune", "start=zero,shot"), "Did you mean 'shots'?"),
        (("--tune", "steps=2"), "two configurations at least"),
        (("--tune", "steps=2,2"), "two of these are the same"),
        (("--tune", "steps=2,5", "--steps", "3"), "'steps' is both"),
        (("--tune", "steps=2,5", "--set", "steps=3"), "'steps' is both"),
        (("--tune", "steps=2,5", "--tune", "steps=7,8"), "'steps' is there twice"),
        (("--tune", "steps=" + ",".join(map(str, range(1, 103)))), "at most 100 configurations"),
        (("--tune", "steps=2,5", "--set", "stps=3"), "Error: A setting must be a field of the method"),
        (("--tune", "noise_multiplier=0.5,1"), "must pay for about 10 trials"),
        (("--tune", "steps=2,5", "--mean-trials", "0.5"), "mean_trials must be at least 1"),
        (("--tune", "steps=2,5", "--tune-on-public"), "Pass public=PublicEmbeddings(...)"),
        (("--tune", "steps=2,5", "--tune-on-public", "--mean-trials", "3"), "--mean-trials is for tuning on"),
        (("--tune-on-public",), "--tune-on-public needs something to tune"),
        (("--mean-trials", "3"), "--mean-trials needs something to tune"),
    ],
)
def test_refusals(cli, words, said):
    assert said in cli(*PLAN, "-m", "noisy-gd", *words, code=2).stderr


def test_a_refused_fit_charges_nothing(cli, data, ledger):
    words = (*BUDGET, "--classes", "cat,dog,bird", "-m", "mean", "--tune", "steps=2,5", "--out", "model")
    assert "'mean' has no 'steps'" in cli("fit", data / "private.npz", *words, code=2).stderr
    assert not ledger.exists()


def test_a_budget_without_delta_is_refused_with_the_reason(cli):
    words = ("plan", "--rho", "0.1", "--classes", "3", "--dim", "16", *STEPS)
    assert "accounted for in (epsilon, delta)" in cli(*words, code=2).stderr
