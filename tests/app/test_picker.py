"""What may be chosen: nothing outside of the folder that the app was started for."""

import os

import pytest

from app.conftest import screen_of
from dptransfer.app.picker import list_folder, resolve_inside
from dptransfer.errors import ArgumentError

HOSTILE = ("<script>alert(1)<", "a'\"><img src=x>", "two\nlines", "\u202egnp.exe", "{{ 7*7 }}", "a&at=b?#%2e")


@pytest.fixture
def outside(home):
    """A folder beside the home, and links to it from the home."""
    secret = home.parent / "secret"
    secret.mkdir()
    (secret / "key.txt").write_text("key")
    (home / "link").symlink_to(secret)
    (home / "file-link.txt").symlink_to(secret / "key.txt")
    (home / "loop").symlink_to(home / "loop")
    (home / "inner").mkdir()
    (home / "good-link").symlink_to(home / "inner")
    return secret


OUTSIDE = (
    "..",
    "../secret",
    "/etc/passwd",
    "/",
    "inner/../../secret",
    "link",
    "link/key.txt",
    "file-link.txt",
)
OUTSIDE += ("\0", "inner/\0/x", "//etc", "./../home2")


def test_what_is_outside_is_refused_by_function_form_and_listing(home, outside, browser):
    (home.parent / "home2").mkdir()
    for given in OUTSIDE:
        with pytest.raises(ArgumentError):
            resolve_inside(home, given)
        assert browser.fill("data", data=given, check="1").status_code == 422
        assert browser.session.job is None
        shown = browser.see("pick", field="data", at=given)
        assert shown.status_code == 422
        assert str(outside) not in shown.text
        assert ">key.txt<" not in shown.text


def test_links_within_are_followed_and_others_not_listed(home, outside):
    folders, files, more = list_folder(home, home)
    assert folders == ["good-link", "inner"]
    assert files == ["clinic.npz", "pool.npz"]
    assert not more
    assert resolve_inside(home, "good-link") == home / "inner"
    assert resolve_inside(home, "") == home


def test_hostile_names_are_shown_as_they_are_and_can_be_chosen(home, browser):
    for name in HOSTILE:
        os.mkdir(os.path.join(home, name))
    (home / ".hidden").mkdir()
    os.mkdir(os.fsencode(home) + b"/\xff")
    page = browser.see("pick", field="data")
    assert page.status_code == 200
    for mark in ("<script>", "<img", "\u202e", ".hidden", "49", "\udcff"):
        assert mark not in page.text
    assert "&lt;script&gt;" in page.text
    for name in HOSTILE:
        chosen = browser.fill("pick", field="data", path=str(home / name))
        assert screen_of(chosen) == "data"
        assert browser.session.choices.data == str(home / name)
        assert "<script>" not in chosen.text
        assert "<img" not in chosen.text


def test_a_folder_that_cannot_be_read_says_so(home, browser, monkeypatch):
    def refused(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refused)
    with pytest.raises(ArgumentError):
        list_folder(home, home)
    assert browser.see("pick", field="data").status_code == 422


def test_an_example_is_not_chosen_before_there_is_a_model(home, browser):
    assert screen_of(browser.fill("pick", field="example", path="clinic.npz")) == "data"
    assert screen_of(browser.fill("pick", field="nonsense", path="clinic.npz")) == "data"
