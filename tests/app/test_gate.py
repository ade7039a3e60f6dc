"""Who is let in: every request here is one that another page, server or user could make."""

import pytest

from app.conftest import ORIGIN, OWN, ROOM, TOKEN, Browser
from dptransfer.app import gate

PAGES = ["/", "/static/app.css", "/open", f"/{ROOM}/data"]


@pytest.fixture
def stranger(session):
    """A browser that has not opened the link."""
    return Browser(session)


@pytest.mark.parametrize("path", PAGES)
def test_a_name_that_was_rebound_to_this_machine_gets_nothing(browser, path):
    for host in ("evil.example", "evil.example:8080", "127.0.0.1", "127.0.0.1:8081", ""):
        found = browser.get(path, headers={"Host": host})
        assert found.status_code == 421
        assert "<" not in found.text


OTHERS = (
    {},
    {"Sec-Fetch-Site": "same-origin"},
    {"Origin": ORIGIN},
    {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
    {"Origin": "http://127.0.0.1:9999", "Sec-Fetch-Site": "same-site"},
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://127.0.0.1:8080", "Sec-Fetch-Site": "same-origin"},
    {"Origin": ORIGIN, "Sec-Fetch-Site": "same-site"},
    {"Origin": ORIGIN, "Sec-Fetch-Site": "none"},
    {"Origin": f"{ORIGIN}, {ORIGIN}", "Sec-Fetch-Site": "same-origin"},
)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_is_changed_from_other_pages(browser, session, method):
    before = session.choices
    for said in OTHERS:
        for path in ("data", "charge", "pick", "stop"):
            sent = {"data": "x", "field": "data", "path": "clinic.npz"}
            found = browser.request(method, f"/{ROOM}/{path}", data=sent, headers=said)
            assert found.status_code == 403
            assert not {one for one in found.headers if one.startswith("access-control")}
    assert session.choices == before
    assert session.job is None


def test_the_link_of_another_page_does_not_use_up_the_token(stranger):
    cross = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert stranger.post("/open", data={"token": TOKEN}, headers=cross).status_code == 403
    assert stranger.get("/open").status_code == 403
    assert stranger.post("/open", data={"token": "guess"}, headers=OWN).status_code == 403
    assert stranger.post("/open", data={}, headers=OWN).status_code == 403
    stranger.enter()
    assert stranger.see("data").status_code == 200


def test_the_token_opens_once(browser, session):
    again = browser.post("/open", data={"token": TOKEN}, headers=OWN)
    assert again.status_code == 403
    assert "set-cookie" not in again.headers
    assert browser.post("/open", data={"token": ""}, headers=OWN).status_code == 403


def test_the_cookie_is_for_this_app_alone(stranger):
    given = stranger.post("/open", data={"token": TOKEN}, headers=OWN).headers["set-cookie"].lower()
    assert "httponly" in given
    assert "samesite=strict" in given
    assert f"path=/{ROOM}/" in given  # other ports of this host see cookies, and do not know the path
    assert "secure" not in given


def test_without_the_cookie_there_is_the_door_alone(stranger):
    assert stranger.get("/").status_code == 200
    for path in ("", "data", "status", "card", "pick", "nowhere"):
        assert stranger.see(path).status_code == 403
        assert stranger.post(f"/{ROOM}/{path}", headers=OWN).status_code == 403
    for cookie in ("dptransfer=guess", "dptransfer=", "dptransfer=é", "; ;=;\x01"):
        assert stranger.get(f"/{ROOM}/data", headers={"Cookie": cookie.encode()}).status_code == 403


def test_a_cookie_that_another_port_sets_does_not_lock_its_owner_out(browser):
    browser.cookies.set("dptransfer", "evil", path="/")
    sent = browser.see("data").request.headers["cookie"]
    assert sent.count("dptransfer=") == 2
    assert browser.see("data").status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_pages_do_not_even_read(browser, site):
    assert browser.get(f"/{ROOM}/data", headers={"Sec-Fetch-Site": site}).status_code == 403
    assert (
        browser.get("/", headers={"Sec-Fetch-Site": site}).status_code == 200
    )  # a link in a terminal's page


@pytest.mark.parametrize("path", [*PAGES, "/nowhere", f"/{ROOM}/nowhere", f"/{ROOM}/pick?at=/etc"])
def test_every_answer_says_that_it_is_not_to_be_framed_read_or_kept(browser, path):
    headers = browser.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert not {one for one in headers if one.startswith("access-control")}


def test_files_cannot_be_uploaded(browser, session):
    found = browser.post(f"/{ROOM}/data", files={"data": ("a.npz", b"x" * 100)}, headers=OWN)
    assert found.status_code == 422  # as an empty form
    assert session.choices.data == ""


def test_a_form_of_another_type_is_none(browser, session):
    for kind in ("text/plain", "application/json", "multipart/form-data"):
        sent = browser.post(
            f"/{ROOM}/data", content=b"data=clinic.npz", headers={**OWN, "Content-Type": kind}
        )
        assert sent.status_code == 422
        assert session.choices.data == ""


def test_a_form_that_is_too_long_or_of_no_known_length_is_none(browser, session):
    for content in (b"data=" + b"a" * 2**16, iter([b"data=", b"a"]), b"data=%FF&" * 200, b"\xff=1"):
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        assert browser.post(f"/{ROOM}/data", content=content, headers={**OWN, **kind}).status_code == 422
        assert session.choices.data == ""


def test_a_proxy_with_tls_makes_the_cookie_secure(session):
    from starlette.testclient import TestClient

    from dptransfer.app.screens import make_app

    box = "https://box.example"
    made = gate.Gate(make_app(session, ROOM), origins=[box], token=TOKEN, room=ROOM)
    client = TestClient(made, base_url=box)
    own = {"Origin": box, "Sec-Fetch-Site": "same-origin"}
    given = client.post("/open", data={"token": TOKEN}, headers=own).headers["set-cookie"].lower()
    assert "secure" in given
    assert client.get("/", headers={"Host": "127.0.0.1:8080"}).status_code == 421
