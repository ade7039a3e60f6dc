"""The version is said once, and every place that shows it shows that one."""

import json
import re
import tomllib
from pathlib import Path

import dptransfer
from dptransfer import Ledger
from dptransfer.methods import MeanPrototypes
from dptransfer.release import current_versions
from dptransfer.release.manifest import _found_on
from dptransfer.testing.sample_data import ROWS, budget_for

ROOT = Path(__file__).parents[1]
PROJECTS = ("pyproject.toml", "lab/pyproject.toml")
VERSION = dptransfer.__version__


def project(name):
    return tomllib.loads((ROOT / name).read_text())


def test_both_packages_are_built_with_the_version_of_the_library():
    for name in PROJECTS:
        told = project(name)
        assert "version" not in told["project"]
        assert told["project"]["dynamic"] == ["version"]
        source = (ROOT / name).parent / told["tool"]["hatch"]["version"]["path"]
        assert source.resolve() == ROOT / "src/dptransfer/_version.py"


def test_the_laboratory_asks_for_the_library_of_its_own_version():
    major, minor, _ = map(int, VERSION.split("."))
    (asked,) = (one for one in project(PROJECTS[1])["project"]["dependencies"] if "dptransfer" in one)
    assert asked.endswith(f">={major}.{minor},<{major}.{minor + 1}")


def test_the_version_is_written_in_one_file():
    literal = re.compile(r"^__version__\s*=|(?<!_)version\(\s*[\"']dptransfer", re.MULTILINE)
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "lab/src").rglob("*.py")]
    assert [one.name for one in sources if literal.search(one.read_text())] == ["_version.py"]


def test_the_changelog_begins_with_it():
    (first, *_) = re.findall(r"^## \[(\d[^]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first == VERSION


def test_releases_cards_and_ledgers_record_it_whatever_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr("dptransfer.release.manifest.version", lambda package: "0.0")
    _found_on.cache_clear()
    ledger = Ledger(tmp_path / "ledger.sqlite")
    method = MeanPrototypes()
    path = method.fit(ROWS.private(), budget=budget_for(method), ledger=ledger).save(tmp_path / "model")
    told = json.loads((path / "release.json").read_text())
    assert told["library_version"] == told["versions"]["dptransfer"] == VERSION
    assert told["versions"]["numpy"] == "0.0"
    assert current_versions()["dptransfer"] == current_versions("dptransfer")["dptransfer"] == VERSION
    assert f"dptransfer {VERSION}" in (path / "README.md").read_text()
    assert f"dptransfer {VERSION}" in (path / "card.html").read_text()
    written = (tmp_path / "ledger.sqlite").read_bytes().replace(b" ", b"")
    assert f'"version":"{VERSION}"'.encode() in written
    _found_on.cache_clear()
