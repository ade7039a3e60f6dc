"""`dptransfer fit` on pools in shards that are not as they should be: one line, and nothing is lost."""

import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from dptransfer.base.workers import Processes, ThisProcess
from dptransfer.data import EncoderIdentity, RowMetadata, write_embeddings
from dptransfer.mechanisms import pool_choice
from dptransfer.methods import checkpoint as workspace

from .conftest import BUDGET, CLASSES

FIT = (*BUDGET, "--classes", CLASSES, "--name", "few", "--out", "model")
PUBLIC = ("--method", "public", "--set", "lowest=0.5")
FILES, STORED = Path("pool"), Path("pool.emb")


@pytest.fixture
def private(rows, emb, tmp_path):
    """Private rows of a known encoder, and their pool in shards: a folder of files, and stored."""
    ours = EncoderIdentity("ours", "1" * 64, "v1", 16)
    (pool,) = rows("pool")
    FILES.mkdir()
    for number, part in enumerate(np.array_split(pool, 5)):
        np.save(FILES / f"part-{number}.npy", part)
    write_embeddings(STORED, pool, RowMetadata(encoder=ours, public=True), shard_rows=30)
    return emb(tmp_path / "private.emb", encoder=ours)


def cut_short(file):
    os.truncate(file, file.stat().st_size - 4)


def flip(file):
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


SPOILT = {
    "a stored shard is cut short": (STORED, lambda: cut_short(STORED / "rows-00001.npy"), "cut short"),
    "a shard was changed": (STORED, lambda: flip(STORED / "rows-00001.npy"), "the file has changed"),
    "another width": (FILES, lambda: np.save(FILES / "part-3.npy", np.ones((9, 7), "f4")), "of one width"),
    "not finite": (FILES, lambda: np.save(FILES / "part-3.npy", np.full((9, 16), np.nan, "f4")), "row 0 of"),
}


@pytest.mark.parametrize("spoilt", SPOILT)
def test_a_pool_that_is_not_as_it_should_be_is_refused_before_the_charge(cli, private, spoilt, charges):
    pool, spoil, said = SPOILT[spoilt]
    spoil()
    words = ("--public", pool, "--engine", "processes", "--workers", "2", "--workspace", "run")
    found = cli("fit", private, *FIT, *PUBLIC, *words, code=2).stderr
    assert said in found
    assert not charges()
    assert not Path("run").exists()
    assert not Path("model").exists()


def test_an_empty_pool_is_refused_before_the_charge(cli, private, charges):
    np.savez("none.npz", x=np.zeros((0, 16), "f4"))
    cli("fit", private, *FIT, "--method", "public", "--public", "none.npz", code=2)
    assert not charges()


def five_pieces(count, *_):
    return [slice(start, start + 24) for start in range(0, count, 24)]


class Meddles(ThisProcess):
    """Changes a file after the first piece was counted."""

    def __init__(self, file):
        self.file = file

    def each(self, work, todo, what):
        for number, piece in enumerate(todo):
            yield number, work(piece)
            np.save(self.file, np.ones((24, 16), "f4"))


@pytest.mark.parametrize("number", [0, 4])
def test_a_shard_that_changes_after_the_charge_stops_a_fit_that_goes_on_once_it_is_restored(
    cli, private, monkeypatch, number, charges
):
    """Whether it was counted by then or not, and whatever would be chosen."""
    monkeypatch.setattr(pool_choice, "pieces_of", five_pieces)
    file = FILES / f"part-{number}.npy"
    content = file.read_bytes()
    words = ("fit", private, *FIT, *PUBLIC, "--public", FILES, "--workspace", "run")
    with monkeypatch.context() as patch:
        patch.setattr("dptransfer.cli.options.WorkerOptions.start", lambda *_: Meddles(file))
        said = cli(*words, code=2).stderr
    assert "file must stay" in said
    assert "charge stands: restore" in said
    assert "Nothing was charged" in cli(*words, code=2).stderr
    file.write_bytes(content)
    cli(*words)
    (charge,) = charges()
    assert charge.outcome == "released"
    assert sorted(one.name for one in Path("run").iterdir()) == ["last-answer", "place", "run.sqlite"]


def test_a_full_disk_stops_a_fit_that_goes_on_once_there_is_room(cli, private, monkeypatch, charges):
    monkeypatch.setattr(pool_choice, "pieces_of", five_pieces)
    words = ("fit", private, *FIT, *PUBLIC, "--public", FILES, "--workspace", "run")
    usual, counted = np.save, []

    def full(stream, array, **how):
        counted.append(1)
        if len(counted) > 2:
            stream.write(b"half of it")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        usual(stream, array, **how)

    with monkeypatch.context() as patch:
        patch.setattr(workspace.np, "save", full)
        said = cli(*words, code=2).stderr
    assert "'run': No space" in said
    assert "resumes" in said
    asked = []

    class Watched(ThisProcess):
        def each(self, work, todo, what):
            asked.extend(todo if isinstance(work, pool_choice.BinCounter) else ())
            return super().each(work, todo, what)

    monkeypatch.setattr("dptransfer.cli.options.WorkerOptions.start", lambda *_: Watched())
    cli(*words)
    assert len(asked) == 3  # of five
    (charge,) = charges()
    assert charge.outcome == "released"
    assert sorted(one.name for one in Path("run").iterdir()) == ["last-answer", "place", "run.sqlite"]


def test_without_ray_the_extra_is_named_and_nothing_is_made(cli, private, monkeypatch, charges):
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ("--public", FILES, "--engine", "ray", "--address", "local", "--workspace", "run")
    assert "dptransfer[ray]" in cli("fit", private, *FIT, *PUBLIC, *words, code=2).stderr
    assert not charges()
    assert not Path("run").exists()


def test_workers_without_public_rows_are_told_to_have_nothing_to_do(cli, private, monkeypatch):
    fit = ("fit", private, *FIT, "--overwrite", "--method", "mean")
    for words, note in (
        ((*fit, "--engine", "processes"), True),
        (fit, False),
        (("check", private, "--engine", "processes"), True),
    ):
        assert ("Note: --engine" in cli(*words).stderr) is note
    monkeypatch.setattr("dptransfer.cli.options.WorkerOptions.start", lambda *_: Processes(1))
    monkeypatch.setattr(Processes, "each", ThisProcess.each)
    words = ("fit", private, *FIT, "--overwrite", *PUBLIC, "--public", FILES)
    assert "Note: --engine" not in cli(*words).stderr
