"""`encode` and `predict` in shards: by this process, by others, killed in the middle, and with bad input."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dptransfer.data import write_embeddings
from dptransfer.encoders.shards import EncodeShard
from dptransfer.release import predictions as predicted_shards
from dptransfer.sources import read_table

FIT = ("-m", "mean", "-e", "9", "-d", "1e-5")
EVERY = "--engine", "processes", "--workers", "2"


def rows_of(path):
    return np.array(read_table(path).rows[:])


@pytest.fixture
def pool(data, tmp_path) -> Path:
    """The test rows, in files of seven."""
    with np.load(data / "test.npz") as arrays:
        return write_embeddings(tmp_path / "pool.emb", arrays["x"], shard_rows=7)


def joined(folder):
    """The parts of a folder as one CSV."""
    files = sorted(Path(folder).iterdir())
    first, *rest = (file.read_text() for file in files)
    return first + "".join(part.partition("\n")[2] for part in rest)


def test_encode_in_shards_gives_the_rows_of_one_piece_and_reports_the_same(cli_json, photos, encoder):
    (photos / "red" / "bad.png").write_text("not a picture")
    words = ("encode", photos, "--encoder", encoder, "--public")
    one = cli_json(*words, "--out", "one.emb")
    many = cli_json(*words, "--out", "many.emb", "--shard-rows", "5")
    assert {**one, "written": 0, "seconds": 0} == {**many, "written": 0, "seconds": 0}
    assert many["unreadable"] == ["red/bad.png"]
    assert sorted(path.name for path in Path("many.emb").glob("rows*")) == [
        f"rows-0000{number}.npy" for number in range(5)
    ]
    assert np.array_equal(rows_of("one.emb"), rows_of("many.emb"))
    assert read_table("one.emb").sources == read_table("many.emb").sources


def test_predictions_in_parts_are_those_of_one_go(cli, model, pool):
    whole = cli("predict", model, pool).stdout
    said = cli("predict", model, pool, "--out", "parts", "--shard-rows", "8").stderr
    assert "60 inputs in 8 parts" in said
    assert joined("parts") == whole
    cli("predict", model, pool, "--out", "lines", "--shard-rows", "8", "--top", "2", "--json")
    cli("predict", model, pool, "--out", "whole.jsonl", "--top", "2")
    lines = "".join(file.read_text() for file in sorted(Path("lines").iterdir()))
    assert lines == Path("whole.jsonl").read_text()


def test_what_cannot_be_predicted_in_parts_is_said_before_anything_is_done(cli, model, pool, photos):
    for words, said in (
        ((pool, pool, "--out", "parts"), "one pool"),
        (("nowhere", "--out", "parts"), "nowhere"),
        ((photos, "--out", "parts"), "the release names none. Pass --encoder NAME"),
        ((pool,), "--out None"),
        ((photos, "--out", "parts.csv"), "--out parts.csv"),
    ):
        assert said in cli("predict", model, *words, "--shard-rows", "8", code=2).stderr
    assert not list(Path().glob("parts*"))


@pytest.fixture
def colours(cli, photos, encoder):
    """A model of pictures, and the words that ask it about some in parts of five."""
    cli("fit", photos, "--encoder", encoder, *FIT, "--out", "colours")
    return lambda what, *more: (
        *("predict", "colours", what, "--encoder", encoder),
        *("--out", "parts", "--shard-rows", "5", *more),
    )


@pytest.mark.parametrize("form", ["folder", "archive", "list"])
def test_pictures_are_predicted_in_parts_as_in_one_go(cli, photos, encoder, colours, form):
    what = {"folder": photos, "archive": "packed.zip", "list": "list.csv"}[form]
    if form == "archive":
        shutil.make_archive("packed", "zip", photos)
    Path("list.csv").write_text("path\n" + "".join(f"{one}\n" for one in sorted(photos.rglob("*.png"))))
    whole = cli("predict", "colours", what, "--encoder", encoder).stdout
    said = cli(*colours(what)).stderr
    assert "24 inputs in 5 parts" in said
    assert joined("parts") == whole
    assert whole.count("red/") >= 12
    assert sorted(path.name for path in Path().glob("parts*")) == ["parts"]
    assert Path("parts").stat().st_mode & 0o777 == 0o700


DIE_IN = {"encoding": (EncodeShard, "_encode"), "predicting": (predicted_shards, "format_answers")}


@pytest.mark.parametrize(("dies_in", "kept"), [("encoding", 2), ("predicting", 5)])
def test_unfinished_parts_of_pictures_go_on_and_encode_no_picture_twice(
    cli, photos, encoder, colours, dies_in, kept, monkeypatch
):
    whole = cli("predict", "colours", photos, "--encoder", encoder).stdout
    where, what = DIE_IN[dies_in]
    real, calls = getattr(where, what), []

    def dies(*given, **how):
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*given, **how)

    with monkeypatch.context() as patch:
        patch.setattr(where, what, dies)
        cli(*colours(photos), code=130)
    assert len(list(Path("parts.rows.partial").glob("*.npy"))) == kept
    assert Path("parts.rows.partial").stat().st_mode & 0o777 == 0o700
    encoded, encode = [], EncodeShard._encode
    monkeypatch.setattr(
        EncodeShard, "_encode", lambda self, items, **how: encoded.append(1) or encode(self, items, **how)
    )
    cli(*colours(photos))
    assert len(encoded) == 5 - kept
    assert joined("parts") == whole
    assert sorted(path.name for path in Path().glob("parts*")) == ["parts"]


def test_pictures_that_cannot_be_read_are_named_in_parts_too(cli, photos, colours):
    bad = photos / "red/bad.png"
    for content, why in (
        (b"no picture", "cannot be read"),
        ((photos / "red/00.png").read_bytes()[:60], "breaks off"),
    ):
        bad.write_bytes(content)
        said = cli(*colours(photos), code=2).stderr
        assert "red/bad.png" in said
        assert why in said
        assert not list(Path().glob("parts*"))
    bad.unlink()
    cli(*colours(photos))
    assert len(list(Path("parts").iterdir())) == 5


def workers_of(running):
    """The worker processes of a command that runs."""
    tasks = Path(f"/proc/{running.pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [child for child in children if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]


@pytest.mark.slow
def test_other_processes_encode_and_predict_the_same(cli, photos, encoder, model, pool):
    cli("encode", photos, "--encoder", encoder, "--out", "one.emb")
    cli("encode", photos, "--encoder", encoder, "--out", "many.emb", "--shard-rows", "5", *EVERY)
    assert np.array_equal(rows_of("one.emb"), rows_of("many.emb"))
    whole = cli("predict", model, pool).stdout
    cli("predict", model, pool, "--out", "parts", "--shard-rows", "8", *EVERY)
    assert joined("parts") == whole


@pytest.mark.slow
@pytest.mark.parametrize("who", ["driver", "worker"])
def test_a_kill_in_the_middle_changes_no_byte(cli, cli_json, photos, encoder, who):
    """A worker that is killed is replaced; after a kill of the command itself, the same command goes on."""
    words = ["encode", str(photos), "--encoder", str(encoder), "--shard-rows", "1", "--batch", "1", "--out"]
    cli(*words, "whole.emb")
    command = [sys.executable, "-m", "dptransfer", *words, "a.emb", *EVERY]
    with subprocess.Popen(command, env=os.environ, stderr=subprocess.PIPE) as running:
        while not list(Path("a.emb.partial").glob("0*.json")):
            assert running.poll() is None
            time.sleep(0.01)
        if who == "driver":
            running.kill()
        else:
            os.kill(workers_of(running)[-1], signal.SIGKILL)
    assert running.returncode == (-9 if who == "driver" else 0)
    if who == "driver":
        assert cli_json(*words, "a.emb", *EVERY)["resumed"] > 0
    for file in Path("whole.emb").iterdir():
        if file.name != "manifest.json":
            assert (Path("a.emb") / file.name).read_bytes() == file.read_bytes()
    assert not Path("a.emb.partial").exists()


CRASHES = """
import os
from pathlib import Path
import dptransfer.sources.decode as decode
real = decode.open_image
def opened(path, greys=None):
    if Path(path).name == "03.png":
        os.abort()
    return real(path, greys)
decode.open_image = opened
"""


@pytest.mark.slow
def test_a_picture_that_kills_its_reader_is_one_that_cannot_be_read(photos, encoder, tmp_path):
    (tmp_path / "site" / "sitecustomize.py").parent.mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(CRASHES)
    path = os.pathsep.join([str(tmp_path / "site"), *filter(None, sys.path)])
    words = ["encode", str(photos), "--encoder", str(encoder), "--public", "--shard-rows", "6"]
    done = subprocess.run(
        [sys.executable, "-m", "dptransfer", *words, "--out", "a.emb", *EVERY, "--json"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["rows"], told["unreadable"]) == (22, ["blue/03.png", "red/03.png"])
