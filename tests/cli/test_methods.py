from dataclasses import fields

import pytest

from dptransfer.methods import METHODS, NoisyGD


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
    assert settings["clip"] == {"default": 1.0, "about": "Longest gradient of one example."}
    assert (settings["start"]["default"], settings["pace.reach"]["default"]) == ("zero", NoisyGD().pace.reach)
    assert {name.split(".")[0] for name in settings} == {one.name for one in fields(NoisyGD)} - {"features"}
    assert "pace.reach" in cli("methods", "noisy-gd").stdout


@pytest.mark.parametrize("name", METHODS.names)
def test_every_setting_is_explained_where_its_class_is_documented(cli_json, name):
    settings = cli_json("methods", name)["settings"]
    assert [setting for setting, one in settings.items() if not one["about"]] == []


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_broken_package_is_named_beside_the_list(cli, install, words):
    install("broken", {}, {"dptransfer.methods": {"theirs": "nowhere_at_all:X"}})
    told = cli("methods", *words)
    assert "package broken 1.0 does" in told.stderr
    assert "mean" in told.stdout
    assert "'nowhere_at_all'" in cli("methods", "theirs", code=2).stderr


def test_a_method_that_does_not_exist_is_answered_with_the_nearest(cli):
    assert "you mean 'top-k'?" in cli("methods", "topk", code=2).stderr
