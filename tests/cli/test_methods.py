"""`dptransfer methods`: every method in its own words, and every field that `--set` takes."""

import pytest

from dptransfer.cli.method import method_from
from dptransfer.methods import METHODS


def test_all_are_listed_under_their_families(cli, cli_json):
    shown = " ".join(cli("methods").stdout.split())
    told = {one["name"]: one for one in cli_json("methods")}
    assert list(told) == list(METHODS)
    for name, one in told.items():
        assert one["summary"] == METHODS[name].about.summary
        assert name in shown
        assert one["family"] in shown


@pytest.mark.parametrize("name", METHODS)
def test_what_is_listed_can_be_set(cli_json, name):
    told = cli_json("methods", name)
    same = {one["setting"]: one["default"] for one in told["settings"] if one["default"] is not None}
    assert method_from(name, same) == METHODS[name]()


def test_settings_have_their_words_and_defaults(cli, cli_json):
    told = {one["setting"]: one for one in cli_json("methods", "noisy-gd")["settings"]}
    assert told["steps"]["about"] == "Noisy steps."
    assert {"start", "pace.reach", "features.pool", "clip"} <= set(told)
    assert "pace" not in told  # it has no word that chooses it
    assert told["start"]["default"] == "zero"
    out = " ".join(cli("methods", "noisy-gd").stdout.split())
    assert "Noise of a step ÷ clip." in out
    assert METHODS["noisy-gd"].about.summary in out


def test_a_mistyped_one_is_named(cli):
    assert "Did you mean 'mean'?" in cli("methods", "meen", code=2).stderr
