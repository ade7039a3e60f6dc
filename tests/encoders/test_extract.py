import threading
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from dptransfer.base.progress import reported_to
from dptransfer.data import Labelled
from dptransfer.data.examples import file_digests
from dptransfer.encoders import encode_images_in_memory, extract, shards
from dptransfer.errors import ArgumentError, DataError
from dptransfer.sources import TextList, find_images, read_private, read_public, read_table

from . import toys
from .toys import MeanColour, WordLengths, encode, pictures

PARTS = ("rows-00000.npy", "labels.npy", "sources.json")


@pytest.fixture
def images(tmp_path):
    return find_images(pictures(tmp_path / "in", 21))


@pytest.fixture(autouse=True)
def _parts_are_small(monkeypatch):
    """A run that is killed repeats eight items at most."""
    monkeypatch.setattr(shards, "_FEWEST", 8)


def contents(folder):
    return [(folder / part).read_bytes() for part in PARTS]


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
    assert seen == [(0, 21), (8, 21), (16, 21), (21, 21)]
    assert not (tmp_path / "a.emb.partial").exists()


def test_every_call_of_the_model_has_one_shape(images, tmp_path):
    encoder = MeanColour()
    encode(images, encoder, tmp_path / "a.emb", batch=8)
    assert encoder.calls == [8, 8, 8]


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


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_an_interrupted_run_goes_on_and_ends_the_same(images, tmp_path, batches):
    images.paths[3].write_bytes(b"damaged")
    whole = encode(images, MeanColour(), tmp_path / "whole.emb", batch=8)
    with pytest.raises(KeyboardInterrupt):
        encode(images, MeanColour(fails_after=batches), tmp_path / "a.emb", batch=8)
    assert not (tmp_path / "a.emb").exists()
    rest = MeanColour()
    report = encode(images, rest, tmp_path / "a.emb", batch=8)
    assert (report.resumed, len(rest.calls)) == (8 * batches, 3 - batches)
    assert report.unreadable == whole.unreadable
    assert contents(tmp_path / "a.emb") == contents(tmp_path / "whole.emb")


def interrupted(images, out, batch=8):
    with pytest.raises(KeyboardInterrupt):
        encode(images, MeanColour(fails_after=1), out, batch=batch)


def test_another_job_in_the_same_place_is_refused_or_restarted(images, tmp_path):
    out = tmp_path / "a.emb"
    interrupted(images, out)
    other = MeanColour(name="other")
    with pytest.raises(DataError, match="another unfinished job"):
        encode(images, other, out, batch=8)
    with pytest.raises(DataError, match="another unfinished job"):
        encode(images, MeanColour(), out, batch=4)
    assert encode(images, other, out, batch=8, overwrite=True).resumed == 0


def test_an_edited_picture_is_another_job(images, tmp_path):
    interrupted(images, tmp_path / "a.emb")
    images.paths[0].write_bytes(images.paths[1].read_bytes())
    with pytest.raises(DataError, match="another unfinished job"):
        encode(images, MeanColour(), tmp_path / "a.emb", batch=8)


def test_a_finished_folder_is_not_encoded_again(images, tmp_path):
    encode(images, MeanColour(), tmp_path / "a.emb")
    encoder = MeanColour()
    with pytest.raises(DataError, match="exists already"):
        encode(images, encoder, tmp_path / "a.emb")
    assert encoder.calls == []
    assert encode(images, encoder, tmp_path / "a.emb", overwrite=True).examples == 21


def test_a_failure_while_writing_keeps_the_encoded_rows(images, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise DataError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(extract, "write_embeddings", full)
        with pytest.raises(DataError, match="no space"):
            encode(images, MeanColour(), tmp_path / "a.emb", batch=8)
    encoder = MeanColour()
    assert encode(images, encoder, tmp_path / "a.emb", batch=8).resumed == 21
    assert encoder.calls == []


def test_texts_keep_their_order_and_resume(tmp_path):
    labelled = Labelled(np.arange(21) % 2, ("x", "y"))
    texts = TextList(tuple("ab " * ((7 * i) % 11 + 1) for i in range(21)), labelled)
    with pytest.raises(KeyboardInterrupt):
        encode(texts, WordLengths(fails_after=2), tmp_path / "a.emb", batch=4)
    encoder = WordLengths()
    report = encode(texts, encoder, tmp_path / "a.emb", batch=4)
    assert report.resumed == 8
    assert encoder.calls == [4] * 4
    private = read_private(report.path)
    assert private.rows[:, 0].tolist() == [len(text) for text in texts.texts]
    assert private.labels.tolist() == texts.labels.tolist()


def test_arguments_that_do_not_fit_are_refused(images, tmp_path):
    with pytest.raises(ArgumentError, match="for images"):
        encode(images, WordLengths(), tmp_path / "a.emb")
    with pytest.raises(ArgumentError, match="for texts"):
        encode(["a"], MeanColour(), tmp_path / "a.emb")
    with pytest.raises(ArgumentError, match="batch"):
        encode(images, MeanColour(), tmp_path / "a.emb", batch=0)
    with pytest.raises(DataError, match="end in"):
        encode(images, MeanColour(), tmp_path / "a")
    with pytest.raises(DataError, match="at least one text"):
        encode([], WordLengths(), tmp_path / "a.emb")
    assert not list(tmp_path.glob("a.emb*"))


def test_what_pillow_warns_of_in_one_picture_is_not_told(images, tmp_path, monkeypatch):
    """Its warnings tell sizes and tags of private files; as errors, they would make a picture unreadable."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 12 * 12 - 1)
    with pytest.warns(Image.DecompressionBombWarning):
        Image.open(images.paths[0]).close()
    report = encode(images, MeanColour(), tmp_path / "a.emb", batch=8)
    assert report.unreadable == ()
    assert encode_images_in_memory(images, MeanColour()).unreadable == ()


def test_a_folder_that_may_not_be_replaced_is_refused_before_anything_is_encoded(tmp_path):
    (tmp_path / "a.emb").mkdir()
    with pytest.raises(DataError, match="may be overwritten"):
        encode(["one", "two"], WordLengths(fails_after=0), tmp_path / "a.emb", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.emb"]


def test_people_stay_with_their_rows_though_the_run_is_killed(images, tmp_path):
    images = replace(images, people=np.arange(len(images)) % 5)
    with pytest.raises(KeyboardInterrupt):
        encode(images, MeanColour(fails_after=1), tmp_path / "a.emb", batch=8)
    resumed = encode(images, MeanColour(), tmp_path / "a.emb", batch=8)
    assert resumed.resumed == 8
    assert read_table(tmp_path / "a.emb").people.tolist() == images.people.tolist()
    texts = TextList(("three words here", "one", "two words"), people=np.array([0, 1, 0]))
    encode(texts, WordLengths(), tmp_path / "t.emb", batch=2)
    table = read_table(tmp_path / "t.emb")
    assert (table.rows[:, 1].tolist(), table.people.tolist()) == ([3, 1, 2], [0, 1, 0])


def test_who_an_image_is_of_changes_no_row_so_an_encoding_goes_on(images, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        encode(images, MeanColour(fails_after=1), tmp_path / "a.emb", batch=8)
    whose = replace(images, people=np.arange(len(images)))
    assert encode(whose, MeanColour(), tmp_path / "a.emb", batch=8).resumed == 8
    assert read_table(tmp_path / "a.emb").people.tolist() == list(range(21))


def test_whoever_listens_hears_of_an_encoding_in_batches(images, tmp_path):
    heard = []
    with reported_to(lambda *told: heard.append(told)):
        encode(images, MeanColour(), tmp_path / "a.emb", batch=8)
    assert heard == [(0, 21, ""), (8, 21, ""), (16, 21, ""), (21, 21, "")]


@pytest.mark.parametrize("how", [{}, {"shard_rows": 5}, {"shard_rows": 5, "dtype": "float16"}])
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


def test_a_draft_stays_where_something_else_has_the_name(images, tmp_path):
    interrupted(images, tmp_path / "a.emb")
    (tmp_path / "a.emb").mkdir()
    with pytest.raises(DataError, match="exists already"):
        encode(images, MeanColour(), tmp_path / "a.emb", batch=8)
    (tmp_path / "a.emb").rmdir()
    assert encode(images, MeanColour(), tmp_path / "a.emb", batch=8).resumed == 8


def test_two_processes_do_not_encode_into_one_folder(images, tmp_path):
    refused = []

    def other():
        with pytest.raises(DataError, match="One process at a time"):
            encode(images, MeanColour(), tmp_path / "a.emb")
        refused.append(True)

    def report(done, total):
        if not refused:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

    encode(images, MeanColour(), tmp_path / "a.emb", progress=report)
    assert refused == [True]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.emb", "in"]
