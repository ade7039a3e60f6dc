"""The folder of a page: complete, hashed, strict, and made of verified releases alone."""

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser

import pytest

import dptransfer as dpt
from dptransfer.errors import ReleaseError
from dptransfer.page import write_page
from dptransfer.page.site import COVERAGES
from release.models import rewrite


@pytest.fixture(scope="module")
def site(release, encoder, stub, tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "site"
    write_page(release, out, encoder, stub)
    return out


def digest(file):
    return base64.b64encode(hashlib.sha256(file.read_bytes()).digest()).decode()


def stored(site):
    """What the service worker keeps, with hashes."""
    return json.loads(re.search(r"FILES = (\{.*?\});", (site / "sw.js").read_text(), re.DOTALL)[1])


def test_the_service_worker_lists_every_file_with_its_hash(site):
    assert stored(site) == {
        file.name: digest(file)
        for file in site.iterdir()
        if file.name not in ("sw.js", "serve.py", "self_test.mjs")
    }


def test_what_a_script_loads_is_listed_with_its_hash_and_size(site):
    about = json.loads((site / "model.json").read_text())
    assert {"encoder.onnx", "head.onnx", "ort-wasm-simd-threaded.wasm"} <= set(about["files"])
    for name, facts in about["files"].items():
        assert facts == {"bytes": (site / name).stat().st_size, "sha256": digest(site / name)}


def test_every_module_that_is_imported_is_there(site):
    imported = {
        name for file in site.glob("*.mjs") for name in re.findall(r'from "\./(.+?)"', file.read_text())
    }
    assert imported
    assert all((site / name).is_file() for name in imported)


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_nothing_in_the_page_is_inline_and_nothing_comes_from_elsewhere(site):
    tags = Tags((site / "index.html").read_text()).found
    assert not [tag for tag, given in tags if tag == "style" or "style" in given]
    assert all("src" in given for tag, given in tags if tag == "script")
    assert not [name for _, given in tags for name in given if name.startswith("on")]
    places = [given.get(name) for _, given in tags for name in ("src", "href") if given.get(name)]
    assert places
    assert all((site / place).is_file() for place in places)


def test_the_policy_lets_the_page_talk_to_its_own_place_alone(site):
    tags = Tags((site / "index.html").read_text()).found
    (policy,) = [
        given["content"] for _, given in tags if given.get("http-equiv") == "Content-Security-Policy"
    ]
    allowed = {name: values for name, *values in (one.split() for one in policy.split(";"))}
    assert allowed.pop("script-src") == ["'self'", "'wasm-unsafe-eval'"]
    assert allowed["default-src"] == ["'none'"]
    assert allowed["connect-src"] == ["'self'"]
    assert {value for values in allowed.values() for value in values} == {"'self'", "'none'"}


def test_what_owners_wrote_is_shown_as_text(site):
    page = (site / "index.html").read_text()
    assert "&lt;i&gt;Colours" in page
    assert "&lt;b&gt;red" in page
    assert "<i>" not in page
    assert "<b>" not in page


def test_sets_have_the_thresholds_that_python_takes(site, model):
    about = json.loads((site / "model.json").read_text())
    rows = [[0.0] * model.dimension]
    assert [one["coverage"] for one in about["sets"]] == list(COVERAGES)
    for one in about["sets"]:
        sets = model.predict_sets(rows, coverage=one["coverage"], confidence=one["confidence"])
        assert one["threshold"] == sets.threshold
    assert any(one["threshold"] > 0 for one in about["sets"])


def test_a_page_for_rows_needs_no_encoder(bare_release, stub, tmp_path):
    write_page(bare_release, tmp_path / "site", None, stub)
    about = json.loads((tmp_path / "site" / "model.json").read_text())
    assert (about["kind"], about["width"], about["sets"]) == ("rows", 4, [])
    assert not (tmp_path / "site" / "encoder.onnx").exists()


def test_a_release_that_does_not_verify_gets_no_page(bare_release, stub, tmp_path):
    copy = shutil.copytree(bare_release, tmp_path / "model")
    rewrite(copy, lambda fields: fields["guarantee"].update(epsilon=0.1))
    with pytest.raises(ReleaseError):
        write_page(copy, tmp_path / "site", None, stub)
    assert not (tmp_path / "site").exists()


def test_only_a_page_is_replaced_and_only_if_asked(bare_release, stub, tmp_path):
    other = tmp_path / "photos"
    other.mkdir()
    with pytest.raises(ReleaseError):
        write_page(bare_release, other, None, stub, overwrite=True)
    site = tmp_path / "site"
    write_page(bare_release, site, None, stub)
    (site / "old.onnx").write_bytes(b"of a former page")
    with pytest.raises(ReleaseError):
        write_page(bare_release, site, None, stub)
    write_page(bare_release, site, None, stub, overwrite=True)
    assert not (site / "old.onnx").exists()


def test_a_seeded_model_gets_no_page(stub, tmp_path):
    data = dpt.PrivateEmbeddings([[1.0, 0.0], [0.0, 1.0]] * 20, [0, 1] * 20, classes=2, name="seeded")
    method, budget = dpt.methods.MeanPrototypes(), dpt.Budget(epsilon=1, delta=1e-5)
    made = method.fit(data, budget=budget, ledger=dpt.Ledger.in_memory(), noise=dpt.SeededNoise(0))
    path = made.save(tmp_path / "model", unsafe_for_publication=True)
    with pytest.raises(ReleaseError):
        write_page(path, tmp_path / "site", None, stub)
