import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from unittest import mock

import numpy as np
import pytest

from contracts.backwards import Backwards
from dptransfer.base.workers import Processes
from dptransfer.data import Labelled
from dptransfer.data.atomic_files import claim
from dptransfer.data.examples import file_digests
from dptransfer.encoders import EncodeOptions, get_encoder, shards
from dptransfer.encoders.shards import EncodeShard
from dptransfer.errors import ArgumentError, DataError, Incompatible
from dptransfer.sources import TextList, find_images, read_private, read_public, read_table

from . import toys
from .toys import MeanColour, WordLengths, contents, encode, pictures


@pytest.fixture
def images(tmp_path):
    return find_images(pictures(tmp_path / "in", 21))


@pytest.fixture(autouse=True)
def _parts_are_small(monkeypatch):
    """A run that is killed repeats eight items at most."""
    monkeypatch.setattr(shards, "_FEWEST", 8)


def test_images_become_an_emb_folder_with_labels_and_encoder(images, tmp_path):
    encoder, seen = MeanColour(), []
    report = encode(
        images, encoder, tmp_path / "a.emb", batch=8, name="zoo", progress=lambda *at: seen.append(at)
    )
    private = read_private(report.path)
    assert (private.name, private.facts.classes) == ("zoo", ("cat", "dog"))
    assert private.facts.encoder == encoder.identity
    assert private.labels.tolist() == images.labels.tolist()
    assert np.array_equal(private.rows[9], encoder.encode([toys.Image.open(images.paths[9])])[0])
    assert (report.examples, report.resumed, report.unreadable) == (21, 0, ())
    assert encoder.calls[:3] == [8, 8, 8]
    assert seen == [(0, 21), (8, 21), (16, 21), (21, 21)]
    assert not (tmp_path / "a.emb.partial").exists()


def test_an_unreadable_file_is_a_row_of_zeros_and_the_owner_is_told(images, tmp_path):
    images.paths[3].write_bytes(b"damaged")
    images.paths[20].unlink()
    report = encode(images, MeanColour(), tmp_path / "a.emb", batch=8)
    rows = read_table(report.path).rows
    assert np.flatnonzero((rows == 0).all(axis=1)).tolist() == [3, 20]
    assert report.unreadable == (images.sources()[3], images.sources()[20])
    assert report.examples == 21


def test_unreadable_files_may_be_dropped_from_a_public_pool(images, tmp_path):
    images.paths[3].write_bytes(b"damaged")
    report = encode(images, MeanColour(), tmp_path / "a.emb", batch=8, drop_unreadable=True, public=True)
    public = read_public(report.path)
    assert report.examples == len(public) == 20
    assert images.sources()[3] not in public.sources
    assert public.labels.tolist() == np.delete(images.labels, 3).tolist()
    assert public.source_digests.tolist() == np.delete(file_digests(images.paths), 3).tolist()


def test_an_encoder_that_breaks_on_every_picture_is_an_error_and_not_a_set_of_zeros(images, tmp_path):
    class Broken(MeanColour):
        def prepare(self, image):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        encode(images, Broken(), tmp_path / "a.emb")


HOW = {"in one": {"batch": 8}, "in shards": {"batch": 8, "shard_rows": 8}}


def interrupted(found, out, batches=1, encoder=MeanColour, **how):
    with pytest.raises(KeyboardInterrupt):
        encode(found, encoder(fails_after=batches), out, **{"batch": 8, **how})


@pytest.mark.parametrize("batches", [0, 2, 3])
@pytest.mark.parametrize("how", HOW)
def test_an_interrupted_run_goes_on_and_ends_the_same(images, tmp_path, monkeypatch, batches, how):
    """After the last batch, by an error while the folder is finished."""
    images.paths[3].write_bytes(b"damaged")
    whole = encode(images, MeanColour(), tmp_path / "whole.emb", **HOW[how])
    if batches < 3:
        interrupted(images, tmp_path / "a.emb", batches, **HOW[how])
    else:
        with monkeypatch.context() as patch:
            for step in ("finish_shards", "write_embeddings"):
                patch.setattr(shards.emb_folder, step, mock.Mock(side_effect=OSError("no space")))
            with pytest.raises(OSError, match="no space"):
                encode(images, MeanColour(), tmp_path / "a.emb", **HOW[how])
    assert not (tmp_path / "a.emb").exists()
    rest = MeanColour()
    report = encode(images, rest, tmp_path / "a.emb", **HOW[how])
    assert (report.resumed, len(rest.calls)) == (min(21, 8 * batches), 3 - batches)
    assert report.unreadable == whole.unreadable
    assert contents(tmp_path / "a.emb") == contents(tmp_path / "whole.emb")


CHANGES = {
    "batch": {"batch": 4},
    "cut": {"shard_rows": 7},
    "source": {},
    "encoder": {},
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_job_in_the_same_place_is_refused_or_begun_anew(images, tmp_path, change):
    interrupted(images, tmp_path / "a.emb", shard_rows=8)
    if change == "source":
        images.paths[0].write_bytes(images.paths[1].read_bytes())
    how = HOW["in shards"] | CHANGES[change]
    encoder = MeanColour(name="other" if change == "encoder" else "mean-colour")
    with pytest.raises(DataError, match="another unfinished job"):
        encode(images, encoder, tmp_path / "a.emb", **how)
    assert encode(images, encoder, tmp_path / "a.emb", overwrite=True, **how).resumed == 0


def test_texts_keep_their_order_and_people_and_resume(tmp_path):
    labelled, people = Labelled(np.arange(21) % 2, ("x", "y")), np.arange(21) % 5
    texts = TextList(tuple("ab " * ((7 * i) % 11 + 1) for i in range(21)), labelled, people=people)
    interrupted(texts, tmp_path / "a.emb", 2, WordLengths, batch=4)
    encoder = WordLengths()
    report = encode(texts, encoder, tmp_path / "a.emb", batch=4)
    assert report.resumed == 8
    assert encoder.calls == [4] * 4
    table = read_table(report.path)
    assert table.rows[:, 0].tolist() == [len(text) for text in texts.texts]
    assert table.people.tolist() == people.tolist()
    assert table.labels.tolist() == texts.labels.tolist()
    encoder.made_by = WordLengths
    encode(texts, encoder, tmp_path / "cut.emb", batch=4, shard_rows=6, workers=Backwards())
    assert np.array_equal(read_table(tmp_path / "cut.emb").rows[:], table.rows)


def test_rows_may_be_of_half_the_precision(images, tmp_path):
    expected = read_table(encode(images, MeanColour(), tmp_path / "full.emb").path).rows.astype(np.float16)
    for shard_rows in (None, 8):
        out = tmp_path / f"{shard_rows}.emb"
        encode(images, MeanColour(), out, dtype="float16", shard_rows=shard_rows)
        assert np.array_equal(read_table(out).rows[:], expected)


def test_a_pool_without_a_readable_picture_is_an_error_and_a_shard_without_one_is_none(images, tmp_path):
    for path in images.paths[:8]:
        path.write_bytes(b"damaged")
    how = HOW["in shards"] | {"drop_unreadable": True, "public": True}
    assert encode(images, MeanColour(), tmp_path / "a.emb", **how).examples == 13
    assert len(read_public(tmp_path / "a.emb")) == 13
    for path in images.paths:
        path.write_bytes(b"damaged")
    with pytest.raises(DataError, match="At least one"):
        encode(images, MeanColour(), tmp_path / "b.emb", **how)


def test_a_finished_folder_is_not_encoded_again(images, tmp_path):
    encode(images, MeanColour(), tmp_path / "a.emb")
    encoder = MeanColour()
    with pytest.raises(DataError, match="exists already"):
        encode(images, encoder, tmp_path / "a.emb")
    assert encoder.calls == []
    assert encode(images, encoder, tmp_path / "a.emb", overwrite=True).examples == 21


def test_arguments_that_do_not_fit_are_refused(images, tmp_path):
    with pytest.raises(ArgumentError, match="for images"):
        encode(images, WordLengths(), tmp_path / "a.emb")
    with pytest.raises(ArgumentError, match="for texts"):
        encode(["a"], MeanColour(), tmp_path / "a.emb")
    with pytest.raises(ArgumentError, match="batch"):
        encode(images, MeanColour(), tmp_path / "a.emb", batch=0)
    with pytest.raises(DataError, match="end in"):
        encode(images, MeanColour(), tmp_path / "a")
    with pytest.raises(DataError, match="at least one"):
        encode([], WordLengths(), tmp_path / "a.emb")
    assert not list(tmp_path.glob("a.emb*"))


@pytest.mark.parametrize("how", [{}, {"shard_rows": 5}])
def test_what_a_run_left_that_was_killed_at_its_very_end_goes_with_the_next(images, tmp_path, how):
    """The folder is in place, and its draft is still there; it is recognised by its request."""
    out = tmp_path / "a.emb"
    encode(images, MeanColour(), out, batch=8, keep_partial=True, **how)
    draft = tmp_path / "a.emb.partial"
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    for other in ({"batch": 4, **how}, {"batch": 8, "shard_rows": 6}):
        with pytest.raises(DataError, match="exists already"):
            encode(images, MeanColour(), out, **other)
        assert draft.exists()  # of another job
    with pytest.raises(DataError, match="exists already"):
        encode(images, MeanColour(), out, batch=8, **how)
    assert not draft.exists()
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


@pytest.fixture
def encoder():
    """One that can be made elsewhere."""
    made = MeanColour()
    made.made_by = MeanColour
    return made


@pytest.mark.parametrize(("size", "drop"), [(1, True), (5, False)])
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
    files = mock.Mock(wraps=shards.atomic_files.written_whole, side_effect=ends)
    monkeypatch.setattr(shards.atomic_files, "written_whole", files)
    with pytest.raises(DataError, match="No space left"):
        encode(images, MeanColour(), tmp_path / "a.emb", batch=8, shard_rows=8)
    monkeypatch.undo()
    assert encode(images, MeanColour(), tmp_path / "a.emb", batch=8, shard_rows=8).resumed == 8


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


@pytest.mark.parametrize("harm", ["cut short", "no record"])
def test_a_shard_that_is_not_whole_is_done_again(images, tmp_path, harm):
    interrupted(images, tmp_path / "a.emb", 2, shard_rows=8)
    file = min((tmp_path / "a.emb.partial").glob("*.npy"))
    content = file.read_bytes()
    if harm == "no record":
        file.with_suffix(".json").unlink()
    else:
        file.write_bytes(content[:-1])
    again = MeanColour()
    report = encode(images, again, tmp_path / "a.emb", **HOW["in shards"])
    assert (report.resumed, len(again.calls)) == (8, 2)
    assert (tmp_path / "a.emb" / "rows-00000.npy").read_bytes() == content


def test_two_processes_do_not_encode_into_one_folder(images, tmp_path):
    with claim(tmp_path / "a.emb"), ThreadPoolExecutor(1) as other, pytest.raises(DataError, match="One"):
        other.submit(encode, images, MeanColour(), tmp_path / "a.emb").result()
