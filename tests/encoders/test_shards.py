import errno
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from contracts.backwards import Backwards
from dptransfer.base.progress import reported_to
from dptransfer.base.workers import Processes
from dptransfer.encoders import EncodeOptions, get_encoder, shards
from dptransfer.encoders.shards import EncodeShard
from dptransfer.errors import ArgumentError, DataError, Incompatible
from dptransfer.sources import TextList, find_images, read_public, read_table

from . import toys
from .toys import MeanColour, WordLengths, encode, pictures


@pytest.fixture
def images(tmp_path):
    return find_images(pictures(tmp_path / "in", 21))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}


def elsewhere(encoder):
    encoder.made_by = partial(
        type(encoder), **({"name": encoder.identity.name} if encoder.kind == "image" else {})
    )
    return encoder


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


def test_whoever_works_in_whatever_order_and_twice_makes_the_same(images, tmp_path):
    encode(images, MeanColour(), tmp_path / "here.emb", batch=4, shard_rows=5)
    report = encode(
        images, elsewhere(MeanColour()), tmp_path / "there.emb", batch=4, shard_rows=5, workers=Backwards()
    )
    assert contents(tmp_path / "here.emb") == contents(tmp_path / "there.emb")
    assert report.examples == 21


def test_workers_may_be_in_another_folder(images, tmp_path, monkeypatch):
    class Elsewhere(Backwards):
        def each(self, work, pieces, what):
            monkeypatch.chdir(tmp_path / "in" / "cat")
            yield from super().each(work, pieces, what)
            monkeypatch.chdir(tmp_path)

    monkeypatch.chdir(tmp_path)
    how = {"batch": 4, "shard_rows": 5, "workers": Elsewhere()}
    report = encode(find_images("in"), elsewhere(MeanColour()), "a.emb", **how)
    assert report.unreadable == ()
    encode(images, MeanColour(), "here.emb", batch=4, shard_rows=5)
    assert contents(tmp_path / "here.emb") == contents(tmp_path / "a.emb")


def test_texts_come_in_shards_too(tmp_path):
    texts = TextList(tuple("ab " * ((7 * i) % 11 + 1) for i in range(21)))
    encode(texts, WordLengths(), tmp_path / "whole.emb", batch=4)
    how = {"batch": 4, "shard_rows": 6, "workers": Backwards()}
    encode(texts, elsewhere(WordLengths()), tmp_path / "cut.emb", **how)
    assert np.array_equal(read_table(tmp_path / "whole.emb").rows, read_table(tmp_path / "cut.emb").rows[:])


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_an_interrupted_run_goes_on_shard_by_shard_and_ends_the_same(images, tmp_path, batches):
    images.paths[3].write_bytes(b"damaged")
    whole = encode(images, MeanColour(), tmp_path / "whole.emb", batch=8, shard_rows=8)
    how = {"batch": 8, "shard_rows": 8}
    if batches < 3:
        with pytest.raises(KeyboardInterrupt):
            encode(images, MeanColour(fails_after=batches), tmp_path / "a.emb", **how)
    else:  # killed while it was finished
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dptransfer.encoders.extract.finish_shards", full_disk)
            with pytest.raises(OSError, match="No space"):
                encode(images, MeanColour(), tmp_path / "a.emb", **how)
    rest = MeanColour()
    report = encode(images, rest, tmp_path / "a.emb", **how)
    assert (report.resumed, len(rest.calls)) == (min(21, 8 * batches), 3 - batches)
    assert report.unreadable == whole.unreadable
    assert contents(tmp_path / "a.emb") == contents(tmp_path / "whole.emb")


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_one_clear_line_and_what_is_finished_stays(images, tmp_path, monkeypatch):
    real, count = shards.written_whole, []

    def fills_up(file, opener=None):
        count.append(file)
        return real(file, opener) if len(count) <= 2 else full_disk()

    monkeypatch.setattr(shards, "written_whole", fills_up)
    with pytest.raises(DataError, match=r"No space left on device\. Free some space and run again"):
        encode(images, MeanColour(), tmp_path / "a.emb", batch=8, shard_rows=8)
    monkeypatch.undo()
    assert encode(images, MeanColour(), tmp_path / "a.emb", batch=8, shard_rows=8).resumed == 8


@pytest.mark.parametrize("change", ["source", "encoder", "cut", "type", "unsharded"])
def test_another_request_is_refused_or_begun_anew(images, tmp_path, change):
    how = {"batch": 8, "shard_rows": 8}
    with pytest.raises(KeyboardInterrupt):
        encode(images, MeanColour(fails_after=1), tmp_path / "a.emb", **how)
    if change == "source":
        images.paths[0].write_bytes(images.paths[1].read_bytes())
    encoder = MeanColour(name="other" if change == "encoder" else "mean-colour")
    how |= {"cut": {"shard_rows": 7}, "type": {"dtype": "float16"}}.get(change, {})
    how |= {"unsharded": {"shard_rows": None}}.get(change, {})
    with pytest.raises(DataError, match="another unfinished job"):
        encode(images, encoder, tmp_path / "a.emb", **how)
    assert encode(images, encoder, tmp_path / "a.emb", overwrite=True, **how).resumed == 0


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


def test_rows_may_be_of_half_the_precision(images, tmp_path):
    encode(images, MeanColour(), tmp_path / "full.emb")
    expected = read_table(tmp_path / "full.emb").rows.astype(np.float16)
    for shard_rows in (None, 8):
        out = tmp_path / f"{shard_rows}.emb"
        encode(images, MeanColour(), out, dtype="float16", shard_rows=shard_rows)
        assert np.array_equal(read_table(out).rows[:], expected)


def test_a_pool_without_a_readable_picture_is_an_error_and_a_shard_without_one_is_none(images, tmp_path):
    for path in images.paths[:8]:
        path.write_bytes(b"damaged")
    how = {"batch": 8, "shard_rows": 8, "drop_unreadable": True, "public": True}
    assert encode(images, MeanColour(), tmp_path / "a.emb", **how).examples == 13
    assert len(read_public(tmp_path / "a.emb")) == 13
    for path in images.paths:
        path.write_bytes(b"damaged")
    with pytest.raises(DataError, match="At least one image"):
        encode(images, MeanColour(), tmp_path / "b.emb", **how)


def test_an_encoder_that_cannot_be_made_elsewhere_is_refused_before_anything_is_done(images, tmp_path):
    for made_by in (None, lambda: MeanColour()):
        encoder = MeanColour()
        encoder.made_by = made_by
        with pytest.raises(ArgumentError, match="made_by"):
            encode(images, encoder, tmp_path / "a.emb", workers=Backwards())
    assert not list(tmp_path.glob("a.emb*"))


def test_workers_are_given_the_time_of_all_batches_of_a_shard(images, tmp_path):
    @dataclass(frozen=True)
    class Patient(Backwards):
        patience: float | None = None

        def each(self, work, pieces, what):
            given.append(self.patience)
            return super().each(work, pieces, what)

    given = []
    for number, patience in enumerate((None, 5.0)):
        how = {"batch": 4, "shard_rows": 10, "workers": Patient(patience)}
        encode(images, elsewhere(MeanColour()), tmp_path / f"{number}.emb", **how)
    assert given == [3 * shards._QUIET, 5.0]


def test_tasks_of_a_cluster_have_a_gpu_each_where_the_encoder_needs_one(images, tmp_path):
    @dataclass(frozen=True)
    class Cluster(Backwards):
        gpus: int = 0

        def each(self, work, pieces, what):
            given.append(self.gpus)
            return super().each(work, pieces, what)

    given = []
    for device in ("cpu", "cuda"):
        encoder = MeanColour()
        encoder.made_by = partial(on_device, device=device)
        encode(images, encoder, tmp_path / f"{device}.emb", workers=Cluster())
    assert given == [0, 1]


def on_device(device):
    return MeanColour()


def test_a_worker_with_another_encoder_is_refused(images, tmp_path):
    encoder = MeanColour()
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


def test_how_far_it_is_is_told_in_items_to_whoever_listens(images, tmp_path):
    heard = []
    with reported_to(lambda *told: None if told[2] else heard.append(told)):
        encode(images, MeanColour(), tmp_path / "a.emb", batch=4, shard_rows=8)
    assert [done for done, _, _ in heard] == [0, 4, 8, 12, 16, 20, 21]
    assert {of for _, of, _ in heard} == {21}


@pytest.mark.gpu
def test_workers_on_a_gpu_make_the_rows_of_one_piece(images, tmp_path):
    encoder = get_encoder("small-cnn", device="cuda")
    encode(images, encoder, tmp_path / "one.emb", batch=4)
    how = {"batch": 4, "shard_rows": 5, "workers": Processes(2)}
    encode(images, encoder, tmp_path / "many.emb", **how)
    assert np.array_equal(read_table(tmp_path / "one.emb").rows, read_table(tmp_path / "many.emb").rows[:])


@pytest.mark.slow
def test_a_worker_that_hangs_in_a_batch_ends_at_once_and_says_nothing():
    hangs = "with shards._watched(True) as alive:\n    alive()\n    time.sleep(60)"
    script = f"import time\nfrom dptransfer.encoders import shards\nshards._QUIET = 0.3\n{hangs}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


@pytest.mark.slow
def test_a_killed_process_goes_on_and_ends_the_same(images, tmp_path):
    encode(images, MeanColour(), tmp_path / "whole.emb", batch=4, shard_rows=5)
    command = [sys.executable, toys.__file__, str(tmp_path / "in"), str(tmp_path / "a.emb"), "11", "5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as running:
        assert running.stdout.readline() == "now\n"
        running.kill()
    assert running.returncode == -9
    report = encode(images, MeanColour(), tmp_path / "a.emb", batch=4, shard_rows=5)
    assert report.resumed == 10
    assert contents(tmp_path / "a.emb") == contents(tmp_path / "whole.emb")
