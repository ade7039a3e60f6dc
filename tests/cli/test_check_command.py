"""`dptransfer check`: says that it is private, exits with 0 whatever it finds, and leaves nothing behind."""

import logging
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SECRET = "jane-doe"


@pytest.fixture
def photos(tmp_path) -> Path:
    """A folder per class with a black picture under a name that is nobody's business, and a test."""
    rng = np.random.default_rng(0)
    for folder, each in (("photos", 30), ("test", 3)):
        for name in ("cat", "dog"):
            (tmp_path / folder / name).mkdir(parents=True)
            for number in range(each):
                pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / folder / name / f"{number}.png")
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "cat" / f"{SECRET}.png")
    return tmp_path / "photos"


@pytest.fixture(autouse=True)
def no_encoder(monkeypatch):
    """As if none were installed, which saves its loading."""
    from dptransfer.errors import ArgumentError

    def none(*_, **__):
        raise ArgumentError("not installed")

    monkeypatch.setattr("dptransfer.encoders.registry.get_encoder", none)


def files_under(folder):
    """Every file there with its size and time."""
    return {
        path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()
    }


def test_the_first_line_says_that_it_is_private_and_the_exit_code_says_nothing(cli, cli_json, photos):
    told = cli("check", photos, "--test", "test").stdout
    assert told.startswith("▌ PRIVATE:")
    assert "single colour (1)" in told
    assert SECRET in told
    found = cli_json("check", photos)
    assert found["warning"].startswith("PRIVATE")
    assert "single colour" in found["sections"][0]["title"]
    (photos / "cat" / f"{SECRET}.png").unlink()
    assert "No problems found" in cli("check", photos, "--test", "test").stdout


def test_nothing_is_written_but_the_page_and_that_is_its_owners_alone(
    cli, photos, tmp_path, ledger, monkeypatch, caplog
):
    monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path / "cache"))
    before = files_under(tmp_path)
    with caplog.at_level(logging.INFO):
        told = cli("check", photos, "--test", "test", "--out", "report.html")
    after = files_under(tmp_path)
    page = tmp_path / "report.html"
    assert after.keys() - before.keys() == {page}
    assert before.items() <= after.items()
    assert not ledger.exists()
    assert page.stat().st_mode & 0o777 == 0o600
    assert SECRET in page.read_text()
    assert page.read_text().count("data:image/jpeg;base64,") >= 1  # the picture of a single colour
    assert page.read_text().index("PRIVATE: for the data") < page.read_text().index("<h1>")
    assert told.stderr == ""
    assert caplog.records == []


def test_only_public_rows_are_kept_in_the_cache(cli, data, tmp_path, monkeypatch):
    monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path / "cache"))
    np.savez("pool.npz", x=np.random.default_rng(0).normal(size=(250, 16)))
    words = ("--public", "pool.npz", "--classes", "3", "-e", "1")
    assert "Expected accuracy" in cli("check", data / "private.npz", *words).stdout
    kept = files_under(tmp_path / "cache")
    assert len(kept) == 1  # the axes of the pool
    cli("check", data / "test.npz", *words)
    assert files_under(tmp_path / "cache") == kept


def test_progress_in_a_log_tells_no_count(cli, photos, monkeypatch):
    monkeypatch.setattr("dptransfer.base.progress._HALF_MINUTE", -1.0)  # every step is told
    told = cli("check", photos).stderr.splitlines()
    assert told
    assert all(re.fullmatch(r"Checking, \d+%, \d+ s left", line) for line in told)


def test_people_and_declared_facts_go_in(cli, data):
    with np.load(data / "private.npz") as old:
        np.savez("private.npz", **old, who=np.arange(300) // 3)
    np.savez("pool.npz", x=np.random.default_rng(0).normal(size=(250, 16)))
    facts = ("--set", "data.rows_per_person=3", "--set", "data.size=900")
    told = cli(
        "check", "private.npz", "--public", "pool.npz", "--classes", "3", "--person", "who", *facts
    ).stdout
    assert "900 examples, as declared" in " ".join(told.split())
    assert "100" in next(line for line in told.splitlines() if line.split()[1:] == ["3", "3", "3"])
    single = cli("check", "private.npz", "--classes", "3", "--person", "none").stdout
    assert "do not say whose" in single


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere.npz"], "must exist"),
        (["private.npz", "--epsilon", "one"], "Example: 1,4"),
        (["private.npz", "--set", "k=5"], "data.FIELD=VALUE"),
        (["private.npz", "--out", "private.npz"], "must name a new file"),
        (["private.npz", "--person", "patient"], "column 'patient'"),
    ],
)
def test_what_cannot_be_read_is_one_line(cli, data, words, told):
    Path("private.npz").write_bytes((data / "private.npz").read_bytes())
    assert told in cli("check", *words, code=2).stderr
