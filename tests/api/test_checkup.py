"""Every fault that a checkup knows is planted and found; in sets without a fault nothing is."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from dptransfer import encoders
from dptransfer.api.checkup import ALMOST_NO_NOISE, check, encoding_time
from dptransfer.api.findings import advice
from dptransfer.api.source import Source
from dptransfer.data import (
    EncoderIdentity,
    PrivateEmbeddings,
    PublicEmbeddings,
    RowMetadata,
    ShardedRows,
    write_embeddings,
)
from dptransfer.errors import ArgumentError, DataError
from dptransfer.methods import auto
from dptransfer.methods.heads.public_start import IN_CODES, UNMEASURED


def keys(found, role="private"):
    return {one.key for one in found.findings if one.role == role}


def the(found, key, role="private"):
    (one,) = (one for one in found.findings if (one.key, one.role) == (key, role))
    return one


def in_photos(root, **how):
    return check(root / "private", root / "public", root / "test", **how)


def in_tables(root, **how):
    how = {"classes": [0, 1], "people": "person", **how}
    return check(root / "private.npz", root / "public.npz", root / "test.npz", **how)


def in_notes(root, **how):
    how = {"classes": ["cat", "dog"], "people": "person", **how}
    return check(root / "private.csv", root / "public.csv", root / "test.csv", **how)


def rewrite(file, **changed):
    """The archive with some arrays changed."""
    with np.load(file) as old:
        arrays = {**old, **changed}
    np.savez(file, **arrays)


def rows_of(file):
    with np.load(file) as old:
        return old["x"]


@pytest.mark.parametrize("kind", ["photos", "tables", "notes"])
def test_nothing_is_found_where_nothing_is_wrong(kind, request):
    found = globals()[f"in_{kind}"](request.getfixturevalue(kind))
    assert found.findings == ()


# --- faults of pictures ---

RNG = np.random.default_rng
FAINT = RNG(0).integers(0, 16, (12, 12, 3), dtype=np.uint8)
FLOATS = RNG(0).normal(size=(12, 12)).astype(np.float32)
SIXTEEN_BITS = RNG(0).integers(0, 65536, (12, 12)).astype(np.uint16)
CAT = "private/cat/00.png"


def saved(array, name):
    return lambda root: Image.fromarray(array).save(root / name)


def copied(name):
    return lambda root: shutil.copy(root / CAT, root / name)


def duplicates(root):
    with Image.open(root / CAT) as picture:
        picture.save(root / "private/cat/99.bmp")  # other bytes, the same pixels


def saved_again(name):
    """A picture large enough to be compressed, and a smaller copy of it as a JPEG."""

    def plant(root):
        small = RNG(7).integers(0, 256, (6, 6, 3), dtype=np.uint8)
        large = Image.fromarray(small).resize((96, 96), Image.Resampling.BICUBIC)
        large.save(root / "private/cat/98.png")
        large.resize((64, 64), Image.Resampling.BICUBIC).save(root / name, quality=70)

    return plant


def folders(root):
    (root / "private/cat/ann").mkdir()
    (root / CAT).rename(root / "private/cat/ann/00.png")


IN_PHOTOS = {
    "unreadable": (lambda root: (root / CAT).write_bytes(b"not a picture"), "cat/00.png"),
    "flat": (saved(np.full((12, 12, 3), 9, np.uint8), CAT), "cat/00.png"),
    "dark": (saved(FAINT, CAT), "cat/00.png"),
    "refused": (saved(FLOATS, "private/cat/00.tif"), "cat/00.tif: Greys of floating point"),
    "depths": (saved(SIXTEEN_BITS, CAT), "16 bits: 1"),
    "duplicates": (duplicates, "cat/99.bmp = cat/00.png"),
    "near-duplicates": (saved_again("private/cat/99.jpg"), "cat/99.jpg = cat/98.png"),
    "two-labels": (copied("private/dog/99.png"), "dog/99.png = cat/00.png"),
    "in-public": (copied("public/dog/99.png"), "cat/00.png = dog/99.png"),
    "nearly-in-public": (saved_again("public/cat/99.jpg"), "cat/98.png = cat/99.jpg"),
    "in-test": (copied("test/dog/99.png"), "cat/00.png = dog/99.png"),
    "nearly-in-test": (saved_again("test/cat/99.jpg"), "cat/98.png = cat/99.jpg"),
    "folders": (folders, "ann"),
    "empty-classes": (lambda root: (root / "private/bird").mkdir(), "bird"),
    "small-classes": (lambda root: (root / CAT).unlink(), "cat (29)"),
}


@pytest.mark.parametrize("key", IN_PHOTOS)
def test_a_fault_of_pictures_is_found(photos, key):
    plant, shown = IN_PHOTOS[key]
    plant(photos)
    found = the(in_photos(photos), key)
    assert any(one.startswith(shown) for one in found.examples)
    if found.pictures:  # of each example named, in that order
        files = [" = ".join("/".join(file.parts[-2:]) for file in own) for own in found.pictures]
        assert files == list(found.examples[: len(files)])
    assert bool(found.pictures) == (" = " in shown or key in ("unreadable", "flat", "dark"))


# --- faults of rows ---


def with_row(set_name, place, row=None):
    """A set with another row at a place; by default the private row 3, in halves."""

    def plant(root):
        file = root / f"{set_name}.npz"
        rows = rows_of(file)
        rows[place] = rows_of(root / "private.npz")[3].astype(np.float16) if row is None else row
        rewrite(file, x=rows)

    return plant


def with_array(set_name, **arrays):
    return lambda root: rewrite(
        root / f"{set_name}.npz", **{name: np.array(own) for name, own in arrays.items()}
    )


def row_in_public(root):
    with_row("public", 5, rows_of(root / "private.npz")[3])(root)


PEOPLE = [f"p{n}" for n in range(79)]
IN_TABLES = {
    "non-finite": (with_row("private", 3, [0, 0, np.inf, 0, 0, 0]), "row 3"),
    "zeros": (with_row("private", 3, 0), "row 3"),
    "in-public": (row_in_public, "row 3 = row 5"),
    "nearly-in-test": (with_row("test", 5), "row 3 = row 5"),
    "unknown-labels": (with_array("private", y=[7, *[0, 1] * 40][:80]), "'7' (1)"),
    "fractions": (with_array("private", y=np.linspace(0.1, 0.9, 80)), "row 0"),
    "people-in-test": (with_array("test", person=[" private 3 ", *["somebody"] * 19]), "who has row 6"),
    "many-examples": (
        with_array("private", person=["default"] * 30 + PEOPLE[:50]),
        "who has row 0: 30 examples",
    ),
    "no-person": (with_array("private", person=["", *PEOPLE]), "row 0"),
}


@pytest.mark.parametrize("key", IN_TABLES)
def test_a_fault_of_rows_is_found(tables, key):
    plant, shown = IN_TABLES[key]
    plant(tables)
    assert shown in the(in_tables(tables), key).examples


# --- faults of texts ---


def change(file, old, new):
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


IN_NOTES = {
    "empty-texts": ("private.csv", "a private note 3,", "  ,", "text 3"),
    "near-duplicates": ("private.csv", "a private note 3,", "A  private note 1,", "text 3 = text 1"),
    "two-labels": ("private.csv", "a private note 3,cat", "a private note 1,dog", "text 3 = text 1"),
    "unknown-labels": ("private.csv", "note 3,cat", "note 3,Cat", "'Cat' (1), perhaps 'cat'"),
    "label-types": ("private.csv", "note 3,cat", "note 3,", "missing: 1"),
    "people-in-test": ("test.csv", "note 3,cat,test 1", "note 3,cat,private 4", "who has text 8"),
}


@pytest.mark.parametrize("key", IN_NOTES)
def test_a_fault_of_texts_is_found(notes, key):
    file, old, new, shown = IN_NOTES[key]
    change(notes / file, old, new)
    assert shown in the(in_notes(notes), key).examples


# --- faults of sets as a whole ---


def test_rows_of_another_width_are_found(tables):
    with_array("public", x=rows_of(tables / "public.npz")[:, :4])(tables)
    found = in_tables(tables)
    assert the(found, "widths", "public").examples == ("private: 6", "public: 4")
    assert any("width 6 and rows" in one for one in found.unchecked)


def test_pictures_of_another_depth_in_the_pool_are_found(photos):
    saved(SIXTEEN_BITS, "public/cat/00.png")(photos)
    assert the(in_photos(photos), "forms", "public").examples == ("16 bits",)


def test_rows_of_another_encoder_are_found(tmp_path):
    for name, transform in (("private", "rgb 224"), ("public", "rgb 128")):
        rows = np.random.default_rng(len(name)).normal(size=(60, 4))
        identity = EncoderIdentity("net", "0" * 64, transform)
        labels = np.arange(60) % 2
        write_embeddings(
            tmp_path / f"{name}.emb", rows, RowMetadata(labels, classes=[0, 1], encoder=identity)
        )
    found = check(tmp_path / "private.emb", tmp_path / "public.emb")
    assert keys(found) == set()
    assert "rgb 128" in the(found, "encoders", "public").examples[1]
    assert check(tmp_path / "private.emb", tmp_path / "private.emb").findings[0].key == "in-public"


def test_rows_without_labels_and_a_test_without_labels_are_found(tables):
    np.save(tables / "rows.npy", rows_of(tables / "private.npz"))
    found = check(tables / "rows.npy", test=tables / "rows.npy", classes=[0, 1])
    assert "no-labels" in keys(found)
    assert "no-labels" in keys(found, "test")
    labelled = check(Source(tables / "rows.npy", np.arange(80) % 2, classes=[0, 1]))
    assert labelled.findings == ()


def test_classes_that_are_not_declared_are_found_and_counted(tables):
    one = the(in_tables(tables, classes=None), "undeclared")
    assert one.examples == ("0 (40)", "1 (40)")


def test_every_kind_of_finding_is_planted_here():
    planted = {*IN_PHOTOS, *IN_TABLES, *IN_NOTES, "widths", "forms", "encoders", "no-labels", "undeclared"}
    assert planted == set(advice())


# --- the call itself ---


def test_copies_of_what_is_nearly_in_the_pool_are_found_with_it(photos):
    saved_again("public/cat/99.jpg")(photos)
    shutil.copy(photos / "private/cat/98.png", photos / "private/cat/99.png")
    found = in_photos(photos)
    assert the(found, "nearly-in-public").examples == ("cat/98.png = cat/99.jpg", "cat/99.png = cat/99.jpg")
    assert the(found, "duplicates").examples == ("cat/99.png = cat/98.png",)


def test_faults_of_public_and_test_sets_are_told_of_these(tables):
    for name in ("public", "test"):
        with_row(name, 1, np.nan)(tables)
    found = in_tables(tables)
    assert [one.key for one in found.findings] == ["non-finite", "non-finite"]
    assert [one.role for one in found.findings] == ["test", "public"]


def test_a_test_that_tells_no_people_is_read_without(tables):
    with np.load(tables / "test.npz") as old:
        np.savez(tables / "test.npz", x=old["x"], y=old["y"])
    found = in_tables(tables)
    assert found.findings == ()
    assert any(one.startswith("People in both") for one in found.unchecked)


def test_what_cannot_be_read_is_an_error(tmp_path, tables):
    with pytest.raises(DataError, match="must exist"):
        check(tmp_path / "nowhere")
    with pytest.raises(DataError, match="column 'patient'"):
        in_tables(tables, people="patient")
    with pytest.raises(ArgumentError, match="epsilon"):
        in_tables(tables, epsilons=[-1])
    with pytest.raises(ArgumentError, match="epsilon"):
        in_tables(tables, epsilons=-1.0)  # one is as good as a list of one


def test_the_first_of_a_report_says_that_it_is_private(tables):
    found = in_tables(tables)
    assert str(found).startswith("▌ PRIVATE: for the data owner only.")
    page = found.document().html()
    assert page.index("PRIVATE: for the data") < page.index("<h1>")
    assert "npz" not in repr(found)
    assert not hasattr(found, "_repr_html_")  # a notebook is saved with what it shows


def test_names_are_text_wherever_they_are_shown(photos):
    (photos / "private/cat/00.png").rename(photos / "private/cat/<b>\x1b[31m.png")
    (photos / "private/cat/<b>\x1b[31m.png").write_bytes(b"broken")
    found = in_photos(photos)
    assert "\x1b" not in str(found)
    assert "<b>" not in found.document().html()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-40, 1e30, 1e300])
def test_rows_of_any_size_are_looked_at_without_a_word(tmp_path, scale):
    rows = scale * np.random.default_rng(0).normal(size=(60, 4))
    np.savez(tmp_path / "a.npz", x=rows, y=[0, 1] * 30, who=np.arange(60))
    found = check(tmp_path / "a.npz", test=tmp_path / "a.npz", classes=[0, 1], people="who")
    assert ("zeros" in keys(found)) == (scale == 0)


def test_a_set_without_examples_is_looked_at_too(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((0, 4)), y=np.zeros(0, dtype=int), who=np.zeros(0, dtype=int))
    found = check(tmp_path / "a.npz", test=tmp_path / "a.npz", classes=[0, 1], people="who")
    assert keys(found) == {"empty-classes"}
    assert "0 rows" in str(found)


class Slow:
    """An encoder that takes its time by a clock of its own: 4 s for a batch, and 100 s for the first."""

    identity, dimension, kind = EncoderIdentity("slow", "0", "rgb 8"), 2, "image"

    def __init__(self):
        self.pictures, self.clock = [], 0.0

    def encode(self, batch):
        self.clock += 4.0 if self.pictures else 100.0
        self.pictures += batch
        return np.zeros((len(batch), 2), dtype=np.float32)


def rows(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 8))


def private(seed=0, **how):
    return PrivateEmbeddings(rows(80, seed), [0, 1] * 40, classes=[0, 1], **how)


@pytest.fixture(scope="module")
def found():
    return check(private(size=400), PublicEmbeddings(rows(220, 1)), epsilons=[0.5, 2])


def test_accuracies_grow_with_epsilon_and_end_without_noise(found):
    assert [one.epsilon for one in found.expected] == [0.5, 2, ALMOST_NO_NOISE]
    means = [one.mean for one in found.expected]
    assert means == sorted(means)
    assert all(one.lowest <= one.mean <= one.highest for one in found.expected)
    assert all(0 <= one.weakest_class < one.mean for one in found.expected)
    assert found.expected[0].weakest_class < found.expected[-1].weakest_class


def test_no_private_row_or_count_moves_them(found):
    def other(size):
        return PrivateEmbeddings(rows(33, 5), [1] * 33, classes=[0, 1], size=size)

    again = check(other(400), PublicEmbeddings(rows(220, 1)), epsilons=[0.5, 2])
    assert again.expected == found.expected
    declared = check(other(4000), PublicEmbeddings(rows(220, 1)), epsilons=[0.5, 2])
    assert declared.expected != found.expected  # what is declared does


def test_a_pool_in_many_files_is_forecast_from_and_looked_through_like_any_other(found, tmp_path):
    for number, part in enumerate(np.split(rows(220, 1), 4)):
        np.save(tmp_path / f"{number}.npy", part)
    pool = PublicEmbeddings(ShardedRows(sorted(tmp_path.iterdir())))
    again = check(private(size=400), pool, epsilons=[0.5, 2])
    assert again.expected == found.expected
    assert again.findings == found.findings


def test_the_assumed_size_is_the_one_that_auto_assumes():
    people = check(private(people=range(80)), PublicEmbeddings(rows(220, 1)), epsilons=[1])
    assert "100 people a class" in " ".join(str(people).split())
    assert "100 people per class" in auto._sizes(people.facts)


def test_without_a_pool_of_rows_it_says_what_is_missing():
    few = check(private(), PublicEmbeddings(rows(20)))
    assert few.expected == ()
    assert "Expected accuracy: the pool has 20 rows" in few.unchecked[-1]
    assert "no public pool" in check(private()).unchecked[-1]


def test_the_time_to_encode_is_measured_on_blank_pictures(monkeypatch):
    slow = Slow()
    monkeypatch.setattr("dptransfer.api.checkup.time.perf_counter", lambda: slow.clock)
    told = encoding_time(slow, 600, opening=30.0)
    assert all(words in told for words in ("6 min", "600 examples", "'slow'", "0.5 s each", "30 s to open"))
    assert not any(np.asarray(picture).any() for picture in slow.pictures)


def test_pictures_to_encode_are_counted_over_all_sets(photos):
    found = check(photos / "private", photos / "public", encoder=Slow())
    assert "80 examples" in found.encoding
    assert "Time to encode" in str(found)


class Reads:
    """An encoder that tells three classes apart by a word."""

    identity, dimension, kind = EncoderIdentity("reads", "ab" * 32, "texts"), 3, "text"

    def encode(self, batch):
        return np.array([[word in text for word in ("card", "rate", "refund")] for text in batch], np.float32)


def test_what_class_names_alone_reach_is_measured_on_test_examples(tmp_path, monkeypatch):
    classes = ("lost card", "exchange rate", "late refund")
    for name, of in (("private.csv", [0, 1, 2]), ("test.csv", [0, 1, 2, 1])):
        lines = (f"the {classes[one].split()[1]} of day {n},{classes[one]}" for n, one in enumerate(of))
        (tmp_path / name).write_text("\n".join(["text,label", *lines]))
    monkeypatch.setattr(encoders, "ENCODERS", SimpleNamespace(names=("reads",)))
    monkeypatch.setattr(encoders, "encoder_of", lambda identity: Reads())
    found = check(tmp_path / "private.csv", test=tmp_path / "test.csv", classes=classes, encoder=Reads())
    assert "100%" in found.names
    assert found.names in " ".join(str(found).split())
    assert check(tmp_path / "private.csv", classes=classes, encoder=Reads()).names == UNMEASURED
    assert check(tmp_path / "private.csv", classes=("C1", "C2"), encoder=Reads()).names == IN_CODES
    assert check(tmp_path / "private.csv", classes=classes).names in (UNMEASURED, "")
