"""`dptransfer bench` as people type it."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from dptransfer_lab.run import run_study
from dptransfer_lab.study import parse_study

STUDY = """
name = "tiny"
seeds = 2
[[data]]
name = "toy"
source = { made = "toy.npz" }
[[budget]]
epsilon = [1]
delta = 1e-5
[[method]]
name = "mean"
[[method]]
name = "public"
"""


@pytest.fixture
def study(tmp_path, tmp_path_factory, monkeypatch):
    """A study in the current folder, its data in another."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("DPTRANSFER_CACHE", str(home / "cache"))
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    x = np.eye(3, 8)[y] * 3 + rng.normal(size=(120, 8))
    np.savez(home / "toy.npz", x_train=x, y_train=y, x_test=x + 0.1, y_test=y)
    (tmp_path / "tiny.toml").write_text(STUDY)
    return home


@pytest.mark.slow
def test_run_and_run_again(cli, cli_json, study, tmp_path):
    first = cli_json("bench", "run", "tiny.toml", "--out", "out", "--data", study)
    assert (first["cells"], first["done"], first["refused"], first["finished_before"]) == (4, 2, 2, 0)
    assert first["overhead_ms_per_cell"] >= 0
    said = cli("bench", "run", "tiny.toml", "--out", "out", "--data", study).stdout
    assert "4 finished before" in said
    assert "these models may" in said
    assert (tmp_path / "out" / "results.csv").is_file()
    assert "0 of 1 groups of" in cli("bench", "compare", "out", "out").stdout


def moved_run(tmp_path, move):
    """A copy in 'b' of the run in 'a', with its finished records changed."""
    (tmp_path / "b").mkdir()
    lines = [json.loads(line) for line in (tmp_path / "a" / "results.jsonl").read_text().splitlines()]
    for record in lines:
        if record["status"] == "done":
            move(record)
    (tmp_path / "b" / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))


@pytest.fixture
def run_a(study, tmp_path):
    run_study(parse_study(STUDY), tmp_path / "a", folders=[study], workers=0)


def test_compare_says_what_changed(cli, cli_json, run_a, tmp_path):
    def worsen(record):
        record["metrics"]["balanced_accuracy"] -= 0.25

    moved_run(tmp_path, worsen)
    said = cli("bench", "compare", "a", "b").stdout
    for words in ("1 of 1 groups", "toy (made), ε = 1, mean", "-0.25"):
        assert words in said
    assert cli_json("bench", "compare", "a", "b")["shared"][0]["beyond_noise"]


def test_compare_shows_what_stays_within_its_noise(cli, run_a, tmp_path):
    def shake(record):
        record["metrics"]["balanced_accuracy"] += 0.01 * (1 if record["seed"] else -1.1)
        record["settings"]["features"] = "other"

    moved_run(tmp_path, shake)
    said = cli("bench", "compare", "a", "b").stdout
    for words in ("0 of 1 groups", "within what seeds", "-0.0005", "groups, such"):
        assert words in said
    assert "metric must be" in cli("bench", "compare", "a", "b", "--metric", "acuracy", code=2).stderr


def test_the_data_folder_may_come_from_the_environment(cli, study, monkeypatch):
    assert "DPTRANSFER_DATA" in cli("bench", "run", "tiny.toml", code=2).stderr
    monkeypatch.setenv("DPTRANSFER_DATA", str(study / "nowhere"))
    assert "nowhere" in cli("bench", "run", "tiny.toml", code=2).stderr


def test_new_writes_a_study_that_can_be_read(cli, study, tmp_path):
    cli("bench", "new", "sweep.toml")
    assert 'name = "sweep"' in (tmp_path / "sweep.toml").read_text()
    assert "exists already" in cli("bench", "new", "sweep.toml", code=2).stderr
    cli("bench", "new", "sweep.toml", "--overwrite", "--data", study / "toy.npz")
    assert "toy.npz" in (tmp_path / "sweep.toml").read_text()
    cli("bench", "new", "copy.toml", "--from", "demo")
    assert 'name = "demo"' in (tmp_path / "copy.toml").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("new", "sweep.txt"), "must end in .toml"),
        (("new", "sweep.toml", "--from", "nothing"), "one of"),
        (("new", "sweep.toml", "--from", "demo", "--data", "x"), "leave out --data"),
        (("new", "sweep.toml", "--public", "x"), "--public needs --data"),
        (("run", "nowhere.toml"), "there is none"),
        (("run", "nowhere"), "See: dptransfer bench list"),
        (("compare", ".", "."), "has none"),
    ],
)
def test_refusals(cli, words, said):
    assert said in cli("bench", *words, code=2).stderr


def test_list_shows_the_built_in_studies(cli, cli_json):
    assert "demo" in cli("bench", "list").stdout
    assert "demo" in [study["name"] for study in cli_json("bench", "list")]


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(study, tmp_path):
    (tmp_path / "tiny.toml").write_text(STUDY.replace("seeds = 2", "seeds = 2000"))
    words = "-m dptransfer bench run tiny.toml --out out --data".split()
    command = [sys.executable, *words, str(study)]
    sweep = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=dict(os.environ))
    results = tmp_path / "out" / "results.jsonl"
    while not results.exists() or results.stat().st_size == 0:
        time.sleep(0.05)
        assert sweep.poll() is None
    sweep.send_signal(signal.SIGINT)
    said = sweep.communicate(timeout=30)[1]
    assert sweep.returncode == 130
    assert "command to go" in said
    assert "Traceback" not in said
    assert results.read_bytes().endswith(b"\n")


def test_a_long_tail_of_a_file_is_shown_and_written(cli, cli_json, tmp_path):
    labels = np.repeat(["a", "b", "c"], 40)
    np.savez(tmp_path / "rows.npz", embeddings=np.ones((120, 4), dtype=np.float32), labels=labels)
    told = ("bench", "long-tail", str(tmp_path / "rows.npz"), "--ratio", "1", "--ratio", "10")
    even, tail = cli_json(*told, "--out", str(tmp_path / "tail.npz"))
    assert even == {"ratio": 1.0, "rows": 120, "largest": 40, "median": 40.0, "smallest": 40}
    assert (tail["largest"], tail["smallest"]) == (40, 4)
    with np.load(tmp_path / "tail.npz") as written:
        assert len(written["embeddings"]) == tail["rows"]
        assert sorted(np.unique(written["labels"], return_counts=True)[1].tolist())[::2] == [4, 40]
    cli(*told, "--out", str(tmp_path / "tail.npz"), code=2)
