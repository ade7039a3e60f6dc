"""Fits on pools in many files: the same release as from one array, whoever works."""

from dataclasses import replace

import numpy as np
import pytest

from dptransfer import Budget
from dptransfer.base import workers as pieces
from dptransfer.base.workers import Processes
from dptransfer.data import (
    PrivateEmbeddings,
    PublicEmbeddings,
    RowMetadata,
    ShardedRows,
    write_embeddings,
)
from dptransfer.errors import DataError, WorkspaceError
from dptransfer.exact import public_map
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.ledger import Ledger
from dptransfer.methods import METHODS as EVERY
from dptransfer.methods import (
    Auto,
    EmbeddingMethod,
    PrivateKNN,
    PublicPriorPrototypes,
    PublicPrototypes,
    TopKPrototypes,
    TransferPATE,
)
from dptransfer.methods.votes import voting
from dptransfer.noise import SeededNoise
from dptransfer.sources import read_public

from .samples import Repeatable

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(3, 8))
ROWS = (CENTRES[np.arange(120) % 3] + 0.3 * RNG.normal(size=(120, 8))).astype(np.float32)
POOL = (CENTRES[np.arange(300) % 3] + RNG.normal(size=(300, 8))).astype(np.float32)
BUDGET = Budget(epsilon=2.0, delta=1e-5)
METHODS = {
    "public": PublicPrototypes(),
    "public, mapped": PublicPrototypes(features=PublicMap(axes=4)),
    "public, pure": PublicPrototypes(mechanism="permute-and-flip", lowest=0.5),
    "public, noise for each": PublicPrototypes(mechanism="laplace"),
    "top-k": TopKPrototypes(k=3, highest=1.5),
    "public-prior": PublicPriorPrototypes(),
    "auto": Auto(),
    "transfer-pate": TransferPATE(teachers=20, queries=90),
    "private-knn": PrivateKNN(teachers=20, queries=90),
    "transfer-pate, tested": TransferPATE(teachers=20, queries=90, threshold=15.0, labels="hard"),
}


def shards_of(folder, rows, count):
    files = []
    for number, part in enumerate(np.array_split(rows, count)):
        files.append(folder / f"part-{number:03}.npy")
        np.save(files[-1], part)
    return ShardedRows(files)


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setenv("DPTRANSFER_CACHE", "/dev/null/none")


def few(rows=ROWS, size=None):
    return PrivateEmbeddings(rows, np.arange(120) % 3, classes=["a", "b", "c"], name="few", size=size)


def saved(model, folder):
    """The release's files, but for the ledger's head and the day, which are those of the fit."""
    made = replace(model.provenance, ledger_head="0" * 64, created="then", versions={})
    path = replace(model, provenance=made).save(folder, unsafe_for_publication=True)
    return {file.name: file.read_bytes() for file in path.iterdir()}


def released(method, pool, folder, rows=ROWS, size=None, noise=SeededNoise, **how):
    public_map._MEMORY.clear()  # pools of the same rows share their axes
    how |= {"budget": BUDGET, "ledger": Ledger.in_memory(), "noise": noise(3)}
    return saved(method.fit(few(rows, size), pool, **how), folder)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_releases_from_one_array_and_from_shards_are_equal(method, tmp_path, monkeypatch):
    whole = released(method, PublicEmbeddings(POOL), tmp_path / "one")
    monkeypatch.setattr(pieces, "_PIECE_BYTES", 32 * 41)
    for count in (7, 100):
        (tmp_path / f"{count}").mkdir()
        pool = PublicEmbeddings(shards_of(tmp_path / f"{count}", POOL, count))
        assert released(method, pool, tmp_path / f"of {count}") == whole
    assert released(method, PublicEmbeddings(POOL), tmp_path / "two", shards_of(tmp_path, ROWS, 7)) == whole
    assert released(method, PublicEmbeddings(POOL[::-1]), tmp_path / "other") != whole


NEED_MORE = "coinpress", "language"  # replace-one; a text encoder
ON_ROWS = [name for name in EVERY if issubclass(EVERY[name], EmbeddingMethod) and name not in NEED_MORE]


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_ROWS)
@pytest.mark.parametrize("labelled", [False, True])
def test_every_method_on_rows_takes_public_and_private_ones_in_files(name, labelled, tmp_path):
    """And so none asks for all of them at once, which files refuse."""
    (tmp_path / "private").mkdir()
    (tmp_path / "public").mkdir()
    found = []
    for pool, rows in (
        (POOL, ROWS),
        (shards_of(tmp_path / "public", POOL, 3), shards_of(tmp_path / "private", ROWS, 3)),
    ):
        given = {"y": np.arange(300) % 3, "classes": ["a", "b", "c"]} if labelled else {}
        public = PublicEmbeddings(pool, **given)
        shots = PublicEmbeddings(POOL[:9], np.arange(9) % 3, classes=["a", "b", "c"])
        public = public if labelled else public.with_shots(shots)
        found.append(released(EVERY[name](), public, tmp_path / f"model {len(found)}", rows, size=120))
    assert found[0] == found[1]


class Watched(ShardedRows):
    """Keeps how many rows were asked for, each time."""

    asked = ()

    def read(self, which, **how):
        rows = super().read(which, **how)
        self.asked += (len(rows),)
        return rows


def test_votes_and_student_read_the_rows_that_they_need_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(voting, "_MOST_ROWS", 40)
    pool = PublicEmbeddings(Watched(shards_of(tmp_path, POOL, 7).files))
    pool.rows.asked = ()
    released(TransferPATE(features=UnitNorm(), teachers=20, queries=30), pool, tmp_path / "model")
    # All, to compare them with private ones; what is voted on, what the student learns from and goes on with.
    assert pool.rows.asked == (300, 30, 30, 40)


@pytest.mark.parametrize("method", ["public", pytest.param("public, mapped", marks=pytest.mark.slow)])
def test_processes_give_the_same_release(method, tmp_path, monkeypatch):
    whole = released(METHODS[method], PublicEmbeddings(POOL), tmp_path / "one")
    monkeypatch.setattr(pieces, "_PIECE_BYTES", 32 * 41)
    pool = PublicEmbeddings(shards_of(tmp_path, POOL, 7)).with_workers(Processes(2))
    assert released(METHODS[method], pool, tmp_path / "two") == whole


def test_a_stored_pool_in_shards_and_in_bytes_is_chosen_from(tmp_path):
    bytes_of = np.rint(POOL / np.linalg.norm(POOL, axis=1, keepdims=True) * 126).astype(np.int8)
    method = PublicPrototypes(precision="int8")
    found = []
    for rows in (300, 64):
        path = tmp_path / f"{rows}.emb"
        write_embeddings(path, bytes_of, RowMetadata(public=True), dtype="int8", shard_rows=rows)
        found.append(released(method, read_public(path), tmp_path / f"model {rows}"))
    assert found[0] == found[1]


class Stops(Exception):
    pass


class FromTheEnd:
    """Works from the last piece on, and stops after some."""

    def __init__(self, most):
        self.most = most

    def each(self, work, pieces, what):
        for number in list(reversed(range(len(pieces))))[: self.most]:
            yield number, work(pieces[number])
        if self.most < len(pieces):
            raise Stops

    def ready(self):
        pass


def test_a_run_that_stopped_goes_on_with_the_pieces_that_are_missing(tmp_path, monkeypatch):
    how = {"noise": Repeatable, "workspace": tmp_path / "other"}
    whole = released(METHODS["top-k"], PublicEmbeddings(POOL), tmp_path / "one", **how)
    monkeypatch.setattr(pieces, "_PIECE_BYTES", 64 * 41)
    pool, ledger, space = PublicEmbeddings(POOL), Ledger.in_memory(), tmp_path / "space"
    how = {"budget": BUDGET, "ledger": ledger, "noise": Repeatable(3), "workspace": space}
    with pytest.raises(Stops):
        METHODS["top-k"].fit(few(), pool.with_workers(FromTheEnd(3)), **how)
    how["noise"] = Repeatable(3)
    kept = sorted(space.glob("*.npy"))
    assert len(kept) == 3
    assert all(file.stat().st_mode & 0o077 == 0 for file in kept)
    asked = []

    class Watched(FromTheEnd):
        def each(self, work, pieces, what):
            asked.append(len(pieces))
            return super().each(work, pieces, what)

    model = METHODS["top-k"].fit(few(), pool.with_workers(Watched(10**6)), **how)
    assert asked[0] == 8 - 3
    assert not list(space.glob("*.npy"))  # partial counts are gone once the choice is on disk
    assert [type(entry).__name__ for entry in ledger.history()] == ["Charge", "ClosingEntry"]
    assert saved(model, tmp_path / "two")["model.safetensors"] == whole["model.safetensors"]


class FindsNothing(FromTheEnd):
    """Counts all pieces, and fails where some of them are looked into."""

    def __init__(self, asked):
        super().__init__(10**6)
        self.asked = asked

    def each(self, work, pieces, what):
        if isinstance(pieces[0], slice):
            return super().each(work, pieces, what)
        self.asked.append(pieces)
        raise DataError("a file is gone")


@pytest.mark.parametrize("method", ["public, pure", "top-k"])
def test_a_choice_that_could_not_be_looked_up_is_the_same_when_the_run_goes_on(method, tmp_path, monkeypatch):
    """That it could not, and so where it was, may have been seen: another one would be a second draw."""
    monkeypatch.setattr(pieces, "_PIECE_BYTES", 64 * 5)
    asked = []
    for space in ("one", "one", "another"):
        pool = PublicEmbeddings(POOL).with_workers(FindsNothing(asked))
        how = {"budget": Budget(epsilon=0.01), "ledger": Ledger.in_memory(), "workspace": tmp_path / space}
        with pytest.raises(DataError, match="it was changed"):
            METHODS[method].fit(few(), pool, **how)
    assert asked[0] == asked[1] != asked[2]
    METHODS[method].fit(few(), PublicEmbeddings(POOL), **{**how, "workspace": tmp_path / "one"})
    assert not list((tmp_path / "one").glob("*.npy"))  # the key of the choice is gone as well


def test_a_workspace_refuses_the_same_rows_in_another_form_which_are_scored_otherwise(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "_PIECE_BYTES", 64 * 41)
    bytes_of = np.rint(POOL * 20).astype(np.int8)
    write_embeddings(tmp_path / "a.emb", bytes_of, RowMetadata(public=True), dtype="int8", shard_rows=64)
    small = read_public(tmp_path / "a.emb")
    write_embeddings(tmp_path / "b.emb", small.rows, RowMetadata(public=True), shard_rows=64)
    floats = read_public(tmp_path / "b.emb")
    assert floats.fingerprint == small.fingerprint
    how = {"budget": BUDGET, "ledger": Ledger.in_memory(), "workspace": tmp_path / "space"}
    method = PublicPrototypes(precision="int8")
    with pytest.raises(Stops):
        method.fit(few(), small.with_workers(FromTheEnd(3)), **how)
    with pytest.raises(WorkspaceError, match="another form"):
        method.fit(few(), floats, **how)
    method.fit(few(), small, **how)
