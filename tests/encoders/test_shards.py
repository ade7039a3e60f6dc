import errno
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from unittest import mock

import numpy as np
import pytest

from contracts.backwards import Backwards
from dptransfer.base.workers import Processes
from dptransfer.encoders import EncodeOptions, get_encoder, shards
from dptransfer.encoders.shards import EncodeShard
from dptransfer.errors import ArgumentError, DataError, Incompatible
from dptransfer.sources import find_images, read_table

from . import toys
from .toys import MeanColour, contents, encode, pictures


@pytest.fixture
def images(tmp_path):
    return find_images(pictures(tmp_path / "in", 21))


@pytest.fixture
def encoder():
    """One that can be made elsewhere."""
    made = MeanColour()
    made.made_by = MeanColour
    return made


@pytest.mark.parametrize(("size", "drop"), [(1, True), (5, False), (8, True), (100, False)])
def test_rows_labels_and_sources_are_those_of_one_piece(images, tmp_path, size, drop):
    images.paths[3].write_bytes(b"damaged")
    whole = encode(images, MeanColour(), tmp_path / "whole.emb", batch=4, drop_unreadable=drop)
    cut = encode(images, MeanColour(), tmp_path / "cut.emb", batch=4, drop_unreadable=drop, shard_rows=size)
    one, many = read_table(whole.path), read_table(cut.path)
    assert np.array_equal(one.rows, many.rows[:])
    assert one.labels.tolist() == many.labels.tolist()
    assert (one.sources, one.rows_fingerprint) == (many.sources, many.rows_fingerprint)
    assert (whole.examples, whole.unreadable) == (cut.examples, cut.unreadable)
    assert len(list(cut.path.glob("rows*.npy"))) == -(-21 // size) - (drop and size == 1)
    assert not (tmp_path / "cut.emb.partial").exists()


def test_whoever_works_in_whatever_order_and_twice_makes_the_same(images, encoder, tmp_path):
    encode(images, MeanColour(), tmp_path / "here.emb", batch=4, shard_rows=5)
    how = {"batch": 4, "shard_rows": 5, "workers": Backwards()}
    report = encode(images, encoder, tmp_path / "there.emb", **how)
    assert contents(tmp_path / "here.emb") == contents(tmp_path / "there.emb")
    assert report.examples == 21


def test_workers_may_be_in_another_folder(images, encoder, tmp_path, monkeypatch):
    class Elsewhere(Backwards):
        def each(self, work, pieces, what):
            monkeypatch.chdir(tmp_path / "in" / "cat")
            yield from super().each(work, pieces, what)
            monkeypatch.chdir(tmp_path)

    monkeypatch.chdir(tmp_path)
    how = {"batch": 4, "shard_rows": 5, "workers": Elsewhere()}
    report = encode(find_images("in"), encoder, "a.emb", **how)
    assert report.unreadable == ()
    encode(images, MeanColour(), "here.emb", batch=4, shard_rows=5)
    assert contents(tmp_path / "here.emb") == contents(tmp_path / "a.emb")


def test_a_full_disk_is_one_clear_line_and_what_is_finished_stays(images, tmp_path, monkeypatch):
    ends = [mock.DEFAULT, mock.DEFAULT, OSError(errno.ENOSPC, "No space left on device")]
    files = mock.Mock(wraps=shards.written_whole, side_effect=ends)
    monkeypatch.setattr(shards, "written_whole", files)
    with pytest.raises(DataError, match="No space left"):
        encode(images, MeanColour(), tmp_path / "a.emb", batch=8, shard_rows=8)
    monkeypatch.undo()
    assert encode(images, MeanColour(), tmp_path / "a.emb", batch=8, shard_rows=8).resumed == 8


@pytest.mark.parametrize("harm", ["cut short", "gone", "no record"])
def test_a_shard_that_is_not_whole_is_done_again(images, tmp_path, harm):
    how = {"batch": 8, "shard_rows": 8}
    with pytest.raises(KeyboardInterrupt):
        encode(images, MeanColour(fails_after=2), tmp_path / "a.emb", **how)
    file = min((tmp_path / "a.emb.partial").glob("*.npy"))
    content = file.read_bytes()
    if harm == "no record":
        file.with_suffix(".json").unlink()
    else:
        file.unlink()
    if harm == "cut short":
        file.write_bytes(content[:-1])
    again = MeanColour()
    report = encode(images, again, tmp_path / "a.emb", **how)
    assert (report.resumed, len(again.calls)) == (8, 2)
    assert (tmp_path / "a.emb" / "rows-00000.npy").read_bytes() == content


def test_private_shards_are_the_owners_alone_and_public_ones_may_be_read(images, tmp_path):
    modes = {}
    for public in (False, True):
        out = tmp_path / f"{public}.emb"
        encode(images, MeanColour(), out, shard_rows=8, public=public)
        modes[public] = {path.stat().st_mode & 0o077 for path in out.glob("rows*")}
    umask = os.umask(0)
    os.umask(umask)
    assert modes == {False: {0}, True: {0o066 & ~umask}}


def test_an_encoder_that_cannot_be_made_elsewhere_is_refused_before_anything_is_done(
    images, encoder, tmp_path
):
    for made_by in (None, lambda: MeanColour()):
        encoder.made_by = made_by
        with pytest.raises(ArgumentError, match="made_by"):
            encode(images, encoder, tmp_path / "a.emb", workers=Backwards())
    assert not list(tmp_path.glob("a.emb*"))


def on_device(device):
    return MeanColour()


@pytest.mark.parametrize(
    ("device", "patience", "given"), [("cpu", None, (3 * shards._QUIET, 0)), ("cuda", 5.0, (5.0, 1))]
)
def test_workers_have_the_time_of_all_batches_of_a_shard_and_a_gpu_if_needed(
    images, encoder, tmp_path, device, patience, given
):
    asked = []

    @dataclass(frozen=True)
    class Cluster(Backwards):
        patience: float | None = None
        gpus: int = 0

        def each(self, work, pieces, what):
            asked.append((self.patience, self.gpus))
            return super().each(work, pieces, what)

    encoder.made_by = partial(on_device, device=device)
    encode(images, encoder, tmp_path / "a.emb", batch=4, shard_rows=10, workers=Cluster(patience))
    assert asked == [given]


def test_a_worker_with_another_encoder_is_refused(images, encoder, tmp_path):
    encoder.made_by = partial(MeanColour, name="other")
    with pytest.raises(Incompatible, match="those of a worker"):
        encode(images, encoder, tmp_path / "a.emb", workers=Backwards())


def test_a_worker_that_does_not_see_the_pictures_does_not_take_them_for_unreadable(images, tmp_path):
    hidden = replace(images, root=tmp_path / "on another machine")
    with pytest.raises(DataError, match="all machines share"):
        encode(hidden, MeanColour(), tmp_path / "a.emb", shard_rows=8, public=True)


def test_whoever_finds_that_a_shard_was_begun_opens_pictures_apart(images, tmp_path, monkeypatch):
    """The first attempt died of picture 3; the second is told by the one who opens apart that it does so."""
    asked = []

    class Apart(shards.SandboxedDecoder):
        def __call__(self, path):
            asked.append(path)
            if path == images.paths[3]:
                raise DataError("it crashed")
            return toys.Image.open(path).convert("RGB")

    monkeypatch.setattr(shards, "SandboxedDecoder", Apart)
    work = EncodeShard(tmp_path, "0" * 64, None, MeanColour(), MeanColour().identity, EncodeOptions(batch=4))
    (tmp_path / f"00001-{'0' * 16}.begun").touch()
    assert work((0, images.paths[:8])).unreadable == ()
    assert asked == []
    assert work((1, images.paths[:8])).unreadable == (3,)
    assert sorted(asked) == sorted(images.paths[:8])
    assert not list(tmp_path.glob("*.begun"))


@pytest.mark.gpu
def test_workers_on_a_gpu_make_the_rows_of_one_piece(images, tmp_path):
    encoder = get_encoder("small-cnn", device="cuda")
    encode(images, encoder, tmp_path / "one.emb", batch=4)
    how = {"batch": 4, "shard_rows": 5, "workers": Processes(2)}
    encode(images, encoder, tmp_path / "many.emb", **how)
    assert np.array_equal(read_table(tmp_path / "one.emb").rows, read_table(tmp_path / "many.emb").rows[:])


@pytest.mark.slow
def test_a_worker_that_hangs_in_a_batch_ends_at_once_and_says_nothing():
    hangs = "with shards._watchdog(True) as alive:\n    alive()\n    time.sleep(60)"
    script = f"import time\nfrom dptransfer.encoders import shards\nshards._QUIET = 0.3\n{hangs}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
