"""The story from a file to a model, screen by screen, and what each says when something is wrong."""

import html
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from app.conftest import OWN, ROOM, Browser, screen_of, words_of
from dptransfer.api.checkup import Forecast
from dptransfer.app import session as session_module
from dptransfer.cli.commands import app as command_line
from dptransfer.ledger import Ledger
from dptransfer.privacy import Budget
from dptransfer.release import read_release
from messages import repeat_noise

DATA = {"data": "clinic.npz", "public": "pool.npz", "name": "clinic", "classes": "cat,dog,eel"}
WHO = {"unit": "person", "whose": "column", "whose_name": "patient"}
ACCURACY = {"epsilon": "2", "delta": "1e-5", "holdout": "", "method": "mean"}


@pytest.fixture
def chosen(browser, monkeypatch) -> Browser:
    """As far as the charge; the accuracies are made up, which is quick."""
    told = [Forecast(epsilon, 0.7, 0.6, 0.8, 0.5) for epsilon in (2.0, 100.0)]
    monkeypatch.setattr(session_module, "EPSILONS", (2.0,))
    monkeypatch.setattr(session_module, "forecast", lambda *_: told)
    assert screen_of(browser.fill("data", **DATA, go="1")) == "who"
    assert screen_of(browser.fill("who", **WHO)) == "accuracy"
    assert screen_of(browser.fill("accuracy", **ACCURACY)) == "charge"
    return browser


def command_on(page):
    (shown,) = re.findall(r"<pre tabindex=\"0\"><code>(.+?)</code>", page.text)
    return shlex.split(html.unescape(shown))


def test_the_story_ends_with_the_release_that_the_shown_command_makes(chosen, home, tmp_path, monkeypatch):
    page = chosen.see("charge")
    words = command_on(page)
    assert "clinic" in words_of(page)
    assert "finds at most" in words_of(page)
    for told in ("clinic.npz", "pool.npz", "by column patient", "ε 2", "δ 1e-5", "mean", "charged to clinic"):
        assert told in words_of(page).partition("so far")[2].partition("What it costs")[0]
    repeat_noise(monkeypatch)
    made = chosen.fill("charge", out="model", title="Ward", confirm="clinic")
    assert screen_of(made) == "model", words_of(made)
    assert "Ward" in made.text
    by_app = read_release(home / "model")
    out = words.index("--out") + 1
    words[out : out + 1] = [str(tmp_path / "by-hand"), "--ledger", str(tmp_path / "other"), "--title", "Ward"]
    repeat_noise(monkeypatch)
    ran = CliRunner().invoke(command_line, words[1:])
    assert ran.exit_code == 0, ran.output
    by_hand = read_release(tmp_path / "by-hand")
    assert by_app.events == by_hand.events
    assert by_app.facts == by_hand.facts
    assert by_app.provenance.configuration == by_hand.provenance.configuration
    assert by_app.provenance.title == by_hand.provenance.title
    assert by_app.weights.keys() == by_hand.weights.keys()
    assert all(np.array_equal(by_app.weights[one], by_hand.weights[one]) for one in by_app.weights)
    (charge,) = [one for one in Ledger.default().history() if one.dataset.name == "clinic"][:1]
    assert charge.outcome == "released"
    card = chosen.see("card")
    assert card.status_code == 200
    assert "frame-ancestors 'none'" in card.headers["content-security-policy"]


def test_the_check_is_shown_and_charges_nothing(browser, tmp_path):
    page = browser.fill("data", **DATA, check="1")
    assert screen_of(page) == "data"
    assert "PRIVATE" in page.text
    assert "300 rows" in page.text
    assert command_on(page)[1] == "check"
    assert not (tmp_path / "ledger.sqlite").exists()
    assert screen_of(browser.fill("data", **{**DATA, "classes": "cat,dog"}, go="1")) == "who"
    assert "300 rows" not in browser.see("data").text  # it was about other choices


def test_accuracies_are_forecast_for_each_budget_before_the_charge(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(session_module, "EPSILONS", (2.0,))
    browser.fill("data", **DATA, go="1")
    page = browser.fill("who", **WHO)
    shown = re.search(r"(\d+)% right ε = 2 .*worst class (\d+)%", words_of(page))
    assert 0 < int(shown[2]) < int(shown[1]) < 100
    assert "people" in page.text
    assert "--forecast" in command_on(page)
    assert not (tmp_path / "ledger.sqlite").exists()


def test_without_public_data_there_is_the_price_alone(browser, monkeypatch):
    monkeypatch.setattr(session_module, "EPSILONS", (2.0,))
    browser.fill("data", **{**DATA, "public": ""}, go="1")
    page = browser.fill("who", unit="example")
    assert screen_of(page) == "accuracy"
    assert "No accuracies" in page.text
    assert "of the examples" in words_of(page)


WRONG = (
    ("data", {"data": ""}, "data"),
    ("data", {**DATA, "data": "nowhere.npz"}, "data"),
    ("data", {**DATA, "public": "clinic.npz"}, "public"),
    ("data", {**DATA, "classes": "cat,,eel"}, "classes"),
    ("who", {}, "unit"),
    ("who", {"unit": "everybody"}, "unit"),
    ("who", {"unit": "person"}, "whose"),
    ("who", {**WHO, "whose_name": "nobody"}, ""),
    ("who", {**WHO, "size": "many"}, ""),
    ("accuracy", {**ACCURACY, "epsilon": ""}, "epsilon"),
    ("accuracy", {**ACCURACY, "epsilon": "much"}, "epsilon"),
    ("accuracy", {**ACCURACY, "method": "os:system"}, "method"),
    ("charge", {"out": "model", "confirm": "another"}, "confirm"),
    ("charge", {"out": "../model", "confirm": "clinic"}, ""),
    ("charge", {"out": "pool.npz", "confirm": "clinic"}, ""),
)


def test_what_is_wrong_is_said_beside_its_field(chosen, tmp_path):
    good = chosen.session.choices, chosen.session.plan
    for screen, fields, field in WRONG:
        chosen.session.choices, chosen.session.plan = good
        page = chosen.fill(screen, **fields)
        assert screen_of(page) == screen
        assert page.status_code == 422
        assert 'role="alert"' in page.text
        if field:
            assert f'id="{field}-wrong"' in page.text
            assert "aria-invalid" in page.text
    assert not (tmp_path / "home" / "model").exists()
    ledger = tmp_path / "ledger.sqlite"
    assert not ledger.exists() or not Ledger(ledger).history()


def test_a_budget_that_does_not_cover_the_charge_is_said_before_it(browser, monkeypatch):
    Ledger.default().set_budget("clinic", Budget(epsilon=1.0, delta=1e-5), unit=None)
    monkeypatch.setattr(session_module, "EPSILONS", (2.0,))
    browser.fill("data", **DATA, go="1")
    browser.fill("who", unit="example")
    page = browser.fill("accuracy", **ACCURACY)
    assert screen_of(page) == "charge"
    assert "dptransfer ledger budget" in page.text
    assert 'name="confirm"' not in page.text


def test_no_screen_is_seen_before_those_in_front_of_it(browser):
    for screen in ("who", "accuracy", "charge", "model", "card", "audit"):
        assert screen_of(browser.see(screen)) == "data"
        assert screen_of(browser.fill(screen, **WHO, **ACCURACY)) in ("data", "card", "audit")
    assert browser.session.choices.unit == ""
    assert browser.see("nowhere").status_code == 404


def test_changed_data_undo_what_followed_from_them(chosen):
    assert chosen.session.plan is not None
    chosen.fill("data", **{**DATA, "name": "other"}, go="1")
    assert screen_of(chosen.see("charge")) == "accuracy"
    assert "worst class" not in chosen.see("accuracy").text
    chosen.fill("accuracy", **ACCURACY)
    assert chosen.session.plan is not None
    chosen.fill("data", **DATA, browse="data")  # a draft counts as well
    assert screen_of(chosen.fill("charge", out="model", confirm="other")) == "accuracy"
    assert chosen.session.made is None


def test_an_open_charge_is_told_at_the_start(browser):
    book = Ledger.default()
    from dptransfer.privacy import GaussianEvent, Relation

    book.charge("ward", [GaussianEvent(1.0, Relation.ADD_REMOVE)], label="mean")
    page = words_of(browser.see("data"))
    assert "Charge 1" in page
    assert "ward" in page


def test_hostile_names_of_classes_and_accounts_stay_text(browser, home):
    evil = "<img src=x onerror=alert(1)>"
    sent = {**DATA, "name": evil, "classes": f"{evil},dog,eel"}
    pages = [
        browser.fill("data", **sent, check="1"),
        browser.fill("data", **sent, go="1"),
        browser.see("data"),
    ]
    for page in pages:
        assert "<img" not in page.text
    assert "&lt;img" in pages[0].text


def test_a_job_is_seen_again_after_the_tab_was_closed(chosen):
    import threading

    going = threading.Event()
    chosen.session.start("Waiting", "check", "data", "data")
    chosen.session.job.wait(30)
    chosen.session._check = lambda: going.wait(20)
    chosen.session.start("Waiting", "check", "data", "data")
    try:
        assert screen_of(chosen.see("")) == "progress"
        assert chosen.see("status").json()["step"] == "Waiting"
        page = chosen.see("progress")
        assert "aria-live" in page.text
        assert "<noscript>" in page.text
        sent = chosen.post(f"/{ROOM}/accuracy", data=ACCURACY, headers=OWN)  # one piece of work at a time
        assert screen_of(sent) == "progress"
        chosen.post(f"/{ROOM}/stop", headers=OWN, follow_redirects=False)
    finally:
        going.set()
        chosen.session.job.wait(20)
    assert not chosen.see("status").json()["running"]
    assert screen_of(chosen.see("progress")) == "data"


def test_what_is_made_of_a_model_is_made_by_the_command_that_is_shown(chosen, home, monkeypatch):
    assert screen_of(chosen.fill("charge", out="model", confirm="clinic")) == "model"
    ran = []

    def run(name, words):
        ran.append([name, *words])
        Path(words[words.index("--out") + 1]).write_text("<script>alert(1)</script>")

    monkeypatch.setattr(session_module, "run_command", run)
    for command in ("audit", "page"):
        page = chosen.fill("model", do=command)
        assert screen_of(page) == "model"
        assert html.escape(shlex.join(["dptransfer", *ran[-1]])) in page.text
    assert [one[0] for one in ran] == ["audit", "page"]
    assert "model-page" in chosen.see("model").text
    policy = chosen.see("audit").headers["content-security-policy"]
    assert "default-src 'none'" in policy  # so that no script of a document runs
    assert screen_of(chosen.fill("model", do="serve")) == "model"
    assert len(ran) == 2


def test_another_model_begins_with_nothing(chosen):
    chosen.session.made = chosen.session.root
    assert screen_of(chosen.fill("model", do="again")) == "data"
    assert chosen.session.choices.data == ""
    assert chosen.session.plan is None


def test_pages_have_what_readers_of_screens_need(chosen):
    for screen in ("data", "who", "accuracy", "charge", "pick"):
        page = chosen.see(screen).text
        assert '<html lang="en">' in page
        assert page.count("<h1>") == 1
        assert "#main" in page
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids))
        labels = set(re.findall(r'<label for="([^"]+)"', page))
        for field in re.findall(r"<(?:input|select|textarea)[^>]*>", page):
            name = re.search(r'\bid="([^"]+)"', field)
            named = "hidden" in field or "radio" in field or "aria-label" in field
            assert named or (name and name[1] in labels), field
        for ids_of in re.findall(r'aria-(?:describedby|labelledby)="([^"]+)"', page):
            assert set(ids_of.split()) <= set(ids)
        assert "style=" not in page
        assert "<script" not in page  # but for the door and the progress
    assert ROOM in str(chosen.see("data").url)
