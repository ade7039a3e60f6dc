import os

import numpy as np
import pytest

from dptransfer.api.source import EncodedBeside, Source
from dptransfer.data import Columns
from dptransfer.encoders import Reading, shards
from dptransfer.encoders.encoding import kept_rows
from dptransfer.errors import ArgumentError, DataError, LedgerError
from dptransfer.sources import find_images, read_public
from encoders.toys import MeanColour, WordLengths, pictures


class Taken:
    """A private source, and what it takes to read it and a pool beside it."""

    def __init__(self, beside, x, y=None, encoder=None, **about):
        reading = {name: about.pop(name) for name in ("size", "grey_range") if name in about}
        self.beside, self.source = beside, Source(x, y, reading=Reading(encoder, **reading), **about)
        _ = self.source.encoder  # as a fit does first

    def private(self):
        return self.source.private(self.beside)

    def public(self, x):
        return Source(x, columns=self.source.columns).public(self.source.encoder, self.beside)


@pytest.fixture
def take(tmp_path):
    """Makes a source; rows that are kept for it go when the test ends."""
    with EncodedBeside(tmp_path / "model") as beside:
        yield lambda x, y=None, **about: Taken(beside, x, y, **about)


def test_names_of_pictures_are_not_taken_for_texts(take):
    with pytest.raises(DataError, match="as paths"):
        take(["cat/1.png", "dog/2.JPG"], ["cat", "dog"], classes=["cat", "dog"], encoder=WordLengths())
    take(["cat/1.png", "a note"], ["cat", "dog"], classes=["cat", "dog"], encoder=WordLengths())


def test_pictures_at_a_path_are_encoded_beside_it_and_keep_classes_and_people(take, tmp_path):
    found = pictures(tmp_path / "photos", 10)
    taken = take(found, encoder=MeanColour(), people=list("aabbccddee"), name="clinic")
    private = taken.private()
    assert (private.name, private.facts.classes, private.facts.encoder.name) == (
        "clinic",
        ("cat", "dog"),
        "mean-colour",
    )
    assert private.people.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    (kept,) = tmp_path.glob("photos.rows-of-model-*.emb")
    assert kept.stat().st_mode & 0o777 == 0o700


def test_a_public_folder_goes_through_the_same_encoder_and_may_be_read_by_others(take, tmp_path):
    taken = take(pictures(tmp_path / "photos", 4), encoder=MeanColour())
    pool = taken.public(str(pictures(tmp_path / "pool", 6, seed=1)))
    assert (len(pool), pool.encoder.name, pool.name) == (6, "mean-colour", "pool")
    assert pool.classes == ("cat", "dog")
    (kept,) = tmp_path.glob("pool.public-rows-of-model-*.emb")
    assert kept.stat().st_mode & 0o777 != 0o700
    (tmp_path / "pool" / "cat" / "broken.png").write_text("none")
    with pytest.raises(DataError, match=r"broken\.png"):
        taken.public(tmp_path / "pool")


def test_a_pool_that_was_killed_goes_on(take, tmp_path, monkeypatch):
    private, folder = pictures(tmp_path / "photos", 4), pictures(tmp_path / "pool", 70, seed=1)
    done = []
    encode = shards.EncodeShard.__call__

    def die_at(number, self, piece):
        if len(done) == number:
            raise KeyboardInterrupt
        done.append(encode(self, piece).resumed)
        return encode(self, piece)

    monkeypatch.setattr(shards, "_FEWEST", 32)
    monkeypatch.setattr(shards.EncodeShard, "__call__", lambda *given: die_at(1, *given))
    with pytest.raises(KeyboardInterrupt):
        take(private, encoder=MeanColour()).public(folder)
    monkeypatch.setattr(shards.EncodeShard, "__call__", lambda *given: die_at(9, *given))
    assert len(take(private, encoder=MeanColour()).public(folder)) == 70
    assert done == [False, True, False, False]


def test_texts_pixels_and_files_in_lists_are_encoded_in_memory(take, tmp_path):
    texts = take(["hi there", "bye"], ["a", "b"], classes=["a", "b"], encoder=WordLengths()).private()
    assert texts.rows.tolist() == [[8, 2], [3, 1]]
    pixels = np.zeros((2, 5, 5, 3), dtype=np.uint8)
    assert take(pixels, [0, 1], classes=[0, 1], encoder=MeanColour()).private().rows.shape == (2, 4)
    files = sorted(pictures(tmp_path / "photos", 3).rglob("*.png"))
    taken = take(files, [0, 1, 1], classes=[0, 1], encoder=MeanColour())
    assert taken.private().rows.shape == (3, 4)
    assert len(taken.public(files)) == 3
    files[0].write_text("none")
    with pytest.raises(DataError, match="some are not") as refusal:
        taken.private()
    assert files[0].name not in str(refusal.value)


def test_labels_given_beside_a_flat_folder_are_those_of_its_pictures(take, tmp_path):
    found = pictures(tmp_path / "photos", 4) / "cat"
    private = take(found, ["b", "a"], classes=["a", "b"], encoder=MeanColour()).private()
    assert private.labels.tolist() == [1, 0]
    with pytest.raises(DataError, match="must have labels"):
        take(found, encoder=MeanColour()).private()


def test_what_is_wrong_with_private_files_is_told_before_an_encoder_is_loaded(take, tmp_path, monkeypatch):
    monkeypatch.setattr("dptransfer.encoders.registry.get_encoder", lambda *a, **b: pytest.fail("too early"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "t.csv").write_text("text\nhi\n")
    for path, message in (("empty", "no file of a known"), ("missing", "must exist"), ("t.csv", "labels")):
        with pytest.raises(DataError, match=message):
            take(tmp_path / path, classes=["a", "b"])


def test_the_default_encoder_is_by_what_is_to_be_encoded(take, tmp_path, monkeypatch):
    asked = []
    made = MeanColour()
    monkeypatch.setattr(
        "dptransfer.encoders.registry.get_encoder", lambda name, **how: asked.append((name, how)) or made
    )
    take(pictures(tmp_path / "photos", 2), size=9)
    take(["some", "texts"], ["a", "b"], classes=["a", "b"])
    assert asked == [("efficientnet-lite0", {"size": 9}), ("minilm", {})]


def test_what_does_not_go_together_is_refused(take, tmp_path):
    rows, labels = np.eye(2), ["a", "b"]
    with pytest.raises(ArgumentError, match="own grey_range"):
        take(["a"], ["a"], classes=labels, encoder=WordLengths(), grey_range=(0, 9))
    with pytest.raises(ArgumentError, match="these are rows"):
        take(rows, labels, encoder=MeanColour())
    with pytest.raises(ArgumentError, match="is for images"):
        take(rows, labels, classes=labels, grey_range=(0, 9))
    with pytest.raises(ArgumentError, match="without texts"):
        take(rows, labels, classes=labels, columns=Columns(text="note"))
    with pytest.raises(DataError, match="4 dimensions"):
        take(np.zeros((2, 8, 8, 3)), labels, classes=labels)
    taken = take(rows, labels, classes=labels)
    with pytest.raises(DataError, match="must exist"):
        taken.public(tmp_path / "mistyped")
    with pytest.raises(ArgumentError, match="which are rows"):
        taken.public(["some", "texts"])
    with pytest.raises(ArgumentError, match="must be ids"):
        take(rows, labels, classes=labels, people="patient").private()
    assert take(rows, labels, classes=labels, people="none").private().people is None
    with pytest.raises(DataError, match="there is no y"):
        take(rows, classes=labels).private()


@pytest.mark.parametrize("place", ["out", "cache"])
def test_rows_of_both_lie_apart_where_data_lie_on_a_disk_that_cannot_be_written(tmp_path, monkeypatch, place):
    """Beside what they are for; where that cannot be written either, in the user's cache folder."""
    writable = tmp_path / place
    writable.mkdir()
    monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(
        os, "access", lambda path, mode: path.is_relative_to(tmp_path / "out") and place == "out"
    )
    with EncodedBeside(tmp_path / "out" / "new" / "model") as beside:
        taken = Taken(beside, pictures(tmp_path / "photos", 4), encoder=MeanColour(), name="clinic")
        pool, private = taken.public(pictures(tmp_path / "pool", 6, seed=1)), taken.private()
        assert (len(pool), len(private.rows)) == (6, 4)
        folder = writable / "new" if place == "out" else writable
        names = {path.name: path.stat().st_mode & 0o777 for path in folder.glob("*.emb")}
        mine, other = sorted(names, key=lambda name: "public" in name)
        assert names[mine] == 0o700
        assert names[other] != 0o700
        assert sorted(path.name for path in tmp_path.glob("p*")) == ["photos", "pool"]
    assert [path.name[:5] for path in writable.rglob("*.emb*")] == ["pool-"] * (place == "cache")


def test_rows_for_two_places_of_one_name_do_not_meet(tmp_path):
    folder, encoder = pictures(tmp_path / "photos", 4), MeanColour()
    found = find_images(folder)
    with kept_rows(found, encoder, folder, tmp_path / "a" / "model") as one:
        with kept_rows(found, encoder, folder, tmp_path / "b" / "model") as other:
            assert one != other
            assert one.parent == other.parent == tmp_path
        assert one.exists()


def test_a_pool_that_is_done_is_not_encoded_again_after_a_kill_in_what_follows(tmp_path):
    folder, encoder = pictures(tmp_path / "photos", 40), MeanColour()
    found = find_images(folder)

    def used(then=None):
        with kept_rows(found, encoder, folder, tmp_path / "model", public=True) as kept:
            rows = np.array(read_public(kept).rows)
            if then is not None:
                raise then
        return rows

    with pytest.raises(KeyboardInterrupt):
        used(KeyboardInterrupt())
    (left,) = tmp_path.glob("photos.public-rows-of-model-*.emb.partial")
    assert (left.stat().st_mode & 0o777, left.with_suffix("").exists()) == (0o700, False)
    again, encoder.encode = encoder.encode, None  # it cannot be asked again
    rows = used()
    encoder.encode = again
    assert np.array_equal(rows, used())
    with pytest.raises(LedgerError):  # another budget is soon tried
        used(LedgerError("Refused."))
    assert left.exists()
    assert np.array_equal(rows, used())
    with pytest.raises(DataError):  # any other refusal leaves nothing
        used(DataError("Refused."))
    assert [entry.name for entry in tmp_path.iterdir()] == ["photos"]
