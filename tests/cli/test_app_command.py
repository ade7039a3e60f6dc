"""`dptransfer app`: what is wrong is said before anything listens."""

import sys

import pytest


def test_a_root_must_be_a_folder(cli, tmp_path):
    assert "--root" in cli("app", "--root", tmp_path / "nowhere", code=2).stderr


def test_other_machines_are_not_let_in_without_a_token(cli, tmp_path):
    assert "--token-file" in cli("app", "--root", tmp_path, "--host", "0.0.0.0", code=2).stderr
    (tmp_path / "token").write_text("short")
    cli("app", "--root", tmp_path, "--token-file", tmp_path / "token", code=2)


def test_without_its_packages_it_says_how_to_get_them(cli, tmp_path, monkeypatch):
    for name in [one for one in sys.modules if one.startswith("dptransfer.app")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert "dptransfer[app]" in cli("app", "--root", tmp_path, code=2).stderr


@pytest.mark.parametrize("option", ["--port=99999", "--idle-minutes=0"])
def test_numbers_out_of_range_are_refused(cli, option):
    cli("app", option, code=2)
