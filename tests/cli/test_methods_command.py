"""`dptransfer methods`, `--tune`, and `--device`, which reaches every method that can compute there."""

from dataclasses import fields

import pytest

from dptransfer.accounting import epsilon_of
from dptransfer.cli.methods_command import devices_of, method_from, on_device
from dptransfer.encoders import Reading
from dptransfer.errors import ArgumentError
from dptransfer.exact.public_map import PublicMap
from dptransfer.ledger import Ledger
from dptransfer.methods import METHODS, AdaMix, LeastSquares, NoisyGD, PrivateTuning


def test_every_method_is_listed_in_its_own_words(cli, cli_json):
    shown = " ".join(cli("methods").stdout.split())
    for name, method in METHODS.items():
        assert f"{name} {method.about.summary.split(':')[0]}" in shown
    assert {one["name"]: one["summary"] for one in cli_json("methods")} == {
        name: method.about.summary for name, method in METHODS.items()
    }


def test_one_of_them_tells_its_settings_and_where_it_comes_from(cli, cli_json):
    facts = cli_json("methods", "noisy-gd")
    assert facts["reference"] == NoisyGD.about.reference
    settings = facts["settings"]
    assert settings["clip"] == {"default": 0.3, "about": "Longest gradient of one example."}
    assert settings["pace.logit_noise"]["default"] == NoisyGD().pace.logit_noise
    assert settings["start"]["default"] == "zero"
    assert {name.split(".")[0] for name in settings} == {one.name for one in fields(NoisyGD)} - {"features"}
    assert "pace.logit_noise" in cli("methods", "noisy-gd").stdout


def test_every_setting_is_explained_where_its_class_is_documented(cli_json):
    for name in METHODS.names:
        settings = cli_json("methods", name)["settings"]
        assert [setting for setting, one in settings.items() if not one["about"]] == [], name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("dppl", {"mean", "public", "top-k", "projection"}),
        ("DPPL Public", {"public", "top-k"}),
        ("dp-sgd", {"dpsgd"}),
        ("film", {"film"}),
    ],
)
def test_a_name_from_a_paper_finds_the_methods(cli_json, text, names):
    found = cli_json("methods", text)
    assert {one["name"] for one in (found if isinstance(found, list) else [found])} == names


def test_a_part_of_a_word_finds_nothing(cli):
    cli("methods", "dpp", code=2)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_broken_package_is_named_beside_the_list(cli, install, words):
    install("broken", {}, {"dptransfer.methods": {"theirs": "nowhere_at_all:X"}})
    told = cli("methods", *words)
    assert "package broken 1.0 does" in told.stderr
    assert "mean" in told.stdout
    assert "'nowhere_at_all'" in cli("methods", "theirs", code=2).stderr


BUDGET = ("--epsilon", "2", "--delta", "1e-5")
PLAN = ("plan", *BUDGET, "--classes", "3", "--dim", "16")
STEPS = ("-m", "noisy-gd", "--tune", "steps=2,5")


def made(name, *fields, **settings):
    return method_from(name, settings, fields)


def test_every_combination_of_the_listed_values_is_a_candidate():
    tuned = made("noisy-gd", "steps=2,5", "axes=8,16", clip=0.5)
    wanted = [(steps, axes) for steps in (2, 5) for axes in (8, 16)]
    assert tuned == PrivateTuning(
        candidates=tuple(NoisyGD(features=PublicMap(axes=a), steps=s, clip=0.5) for s, a in wanted)
    )
    assert made("noisy-gd") == NoisyGD()  # nothing to tune is no tuning
    assert made("noisy-gd", "steps=2,5", mean_trials=3.0).mean_trials == 3.0
    assert made("noisy-gd", "steps=2,5", tune_on_public=True).tune_on_public
    moved = method_from("noisy-gd", {}, ["steps=2,5"], Reading(device="cuda"))
    assert [one.device for one in moved.candidates] == ["cuda", "cuda"]


def test_a_plan_shows_the_price_before_any_data(cli_json):
    alone = cli_json(*PLAN, "-m", "noisy-gd", "--set", "steps=5")
    told, few = cli_json(*PLAN, *STEPS), cli_json(*PLAN, *STEPS, "--set", "mean_trials=2")
    (event,) = told["events"]
    noise = [one["events"][0]["candidates"][0][0]["noise_multiplier"] for one in (few, told)]
    assert noise == sorted(set(noise))
    assert (told["method"], event["kind"], event["mean_trials"]) == ("private-tuning", "best-of-many", 10.0)
    assert told["epsilon"] <= 2
    five = event["candidates"][1][0]
    assert five["times"] == 5
    assert five["noise_multiplier"] > 1.5 * alone["events"][0]["noise_multiplier"]
    assert "steps 2 or 5" in told["notes"][0]


def test_a_tuned_fit_is_charged_as_what_it_is_and_its_card_says_so(cli, cli_json, data, ledger):
    words = (*BUDGET, "--classes", "cat,dog,bird", *STEPS, "--set", "mean_trials=2", "--out", "model")
    planned = cli_json(*PLAN, *STEPS, "--set", "mean_trials=2")
    told = cli_json("fit", data / "private.npz", *words)
    assert told["events"] == planned["events"]
    (charge,) = [entry for entry in Ledger(ledger).history() if hasattr(entry, "events")]
    assert epsilon_of(charge.events, 1e-5) == pytest.approx(told["epsilon"])
    card = " ".join(cli("card", "model").stdout.split())
    for said in ("2 public candidates", "steps 2 or 5", "best trial was"):
        assert said in card
    assert "Verified" in cli("verify", "model").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--tune stps=2,5", "--tune stps=2: "),
        ("--tune steps=", "field=value,value"),
        ("--tune steps=2,0", "--tune steps=0: "),
        ("--tune steps=2", "two values"),
        ("--tune steps=2,5 --set steps=3", "'steps' is there twice"),
        ("--tune steps=2,5 --set stps=3", "Error: A setting"),
        ("--tune steps=2,5 --set tune_on_public=true", "Pass --public pool.emb"),
        ("--tune steps=2,5 --set tune_on_public=true --set mean_trials=3", "mean_trials tunes on"),
        ("--set tune_on_public=true", "something to tune"),
        ("--tune steps=2,5 --delta 0", "accounted for"),
    ],
)
def test_refusals(cli, words, said):
    assert said in cli(*PLAN, "-m", "noisy-gd", *words.split(), code=2).stderr


ONE = ("--epsilon", "1", "--delta", "1e-5")
ON = ("plan", *ONE, "--classes", "3", "--dim", "16")
ABLE = [name for name, kind in METHODS.items() if "cuda" in devices_of(kind())]


def test_every_method_moves_or_says_that_it_cannot():
    for name in ABLE:
        assert on_device(METHODS[name](), "cuda").device == "cuda"
    for name in set(METHODS) - set(ABLE):
        with pytest.raises(ArgumentError, match=f"'{name}'.* on cpu alone"):
            on_device(METHODS[name](), "cuda")


def test_the_methods_that_have_a_choice_are_these():
    assert {"mean", "mean-estimation", "public", "top-k", "noisy-gd", "dpsgd", "ngd"} <= set(ABLE)
    without = {name for name, kind in METHODS.items() if "device" not in {one.name for one in fields(kind)}}
    assert {"least-squares", "newton", "only-public"} <= without
    assert not without & set(ABLE)


def test_a_setting_decides_whether_a_method_can_move():
    assert on_device(AdaMix(), "cuda").device == "cuda"
    with pytest.raises(ArgumentError, match="it is set"):
        on_device(AdaMix(axes=64), "cuda")


def test_behind_an_encoder_a_method_follows_where_it_can(monkeypatch):
    def missing():
        raise ArgumentError("device='cuda' needs Triton; it is not installed.")

    assert on_device(LeastSquares(), "cuda", encodes=True) == LeastSquares()
    assert on_device(NoisyGD(), "mps", encodes=True) == NoisyGD()
    for machine, device in ((lambda: None, "cuda"), (missing, "cpu")):
        monkeypatch.setattr("dptransfer.exact.cuda.require_cuda", machine)
        assert on_device(NoisyGD(), "cuda", encodes=True).device == device


def test_refused_devices_name_those_that_can(cli, data, ledger):
    said = cli(*ON, "-m", "newton", "--device", "cuda", code=2).stderr
    assert "'newton'" in said
    assert ", ".join(ABLE) in said
    assert "or cuda alone" in cli(*ON, "-m", "mean", "--device", "cuda:1", code=2).stderr
    words = (*ONE, "--classes", "cat,dog,bird", "-m", "newton", "--device", "cuda", "--out", "model")
    assert "on cpu alone" in cli("fit", data / "private.npz", *words, code=2).stderr
    assert not ledger.exists()


def test_a_gpu_that_is_not_there_is_missed_before_the_charge(cli, data, monkeypatch):
    def missing():
        raise ArgumentError("device='cuda' needs a CUDA device; torch finds none. Use device='cpu'.")

    monkeypatch.setattr("dptransfer.exact.cuda.require_cuda", missing)
    words = (*ONE, "--classes", "cat,dog,bird", "-m", "noisy-gd", "--device", "cuda", "--out", "model")
    said = cli("fit", data / "private.npz", *words, code=2).stderr
    assert "torch finds none" in said
    assert "Nothing" not in said
    assert cli("ledger", "show").stdout.count("noisy-gd") == 0
