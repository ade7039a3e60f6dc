"""Sets in every form that a fit takes, with labels and people as a fit would find them."""

import shutil

import numpy as np
import pytest
from PIL import Image

from contracts.dicom_files import dicom
from dptransfer.api.between import SAME_PICTURE
from dptransfer.api.checked_examples import UNKNOWN, Examples, look_at, looks_of, read_examples
from dptransfer.api.source import Source
from dptransfer.data import Columns, RowMetadata, write_embeddings
from dptransfer.errors import ArgumentError, DataError

WHO = ["ann", None]


def read(x, y=None, role="private", **about):
    return read_examples(Source(x, y, **about), role)


def test_a_folder_per_class_and_one_that_is_no_declared_class(photos):
    found = read(photos / "private")
    assert (found.kind, found.count, found.classes) == ("images", 60, ("cat", "dog"))
    assert found.positions.tolist() == [0] * 30 + [1] * 30
    assert found.name(31) == "dog/01.png"
    assert repr(found) == "Examples(private images)"
    other = read(photos / "private", classes=["cat", "bird"])  # read, and not refused
    assert (set(other.positions.tolist()), other.labels[-1]) == ({0, UNKNOWN}, "dog")
    archive = shutil.make_archive(str(photos / "all"), "zip", photos, "private")
    packed = read(f"{archive}/private")
    assert (packed.count, packed.classes) == (60, ("cat", "dog"))
    with Image.open(packed.images[0]) as opened:
        assert opened.size == (12, 12)


def test_people_by_folder_and_by_dicom_have_ids(photos, tmp_path):
    (photos / "private/cat/ann").mkdir()
    (photos / "private/cat/00.png").rename(photos / "private/cat/ann/00.png")
    found = read(photos / "private", people="folder")
    assert set(found.ids) == {"ann", None}
    assert len(set(found.people.tolist())) == 60
    pytest.importorskip("pydicom")
    scans, samples = tmp_path / "scans", np.random.default_rng(0).integers(0, 256, (4, 4)).astype(np.uint8)
    (scans / "cat").mkdir(parents=True)
    dicom(scans / "cat" / "1.dcm", samples, PatientID="ann")
    dicom(scans / "cat" / "2.dcm", samples)
    found = read(scans, people="dicom")
    assert (found.ids, found.people.tolist()) == (WHO, [0, 1])


def test_csv_files_of_pictures_and_of_rows_whose_classes_are_numbers(photos):
    lines = [f"private/cat/{n:02}.png, {n % 2} ,p{n // 2}" for n in range(4)]
    (photos / "list.csv").write_text("\n".join(["path,label,who", *lines, "private/cat/04.png,7,"]) + "\n")
    found = read(photos / "list.csv", classes=[0, 1], people="who")
    assert found.positions.tolist() == [0, 1, 0, 1, UNKNOWN]
    assert (found.ids, found.people.tolist()) == (["p0", "p0", "p1", "p1", ""], [0, 0, 1, 1, 2])
    (photos / "a.csv").write_text("f0,f1,label,who\n1,2,0,ann\n3,4,1.0,bob\n")
    found = read(photos / "a.csv", classes=[0, 1], people="who")
    assert (found.kind, found.rows.tolist()) == ("rows", [[1, 2], [3, 4]])
    assert (found.positions.tolist(), found.ids) == ([0, 1], ["ann", "bob"])


def test_a_store_tells_people_by_numbers_that_no_other_file_shares(tmp_path):
    told = RowMetadata(["x", "y"], classes=["x", "y"], people=["ann", "bob"], sources="ab")
    path = write_embeddings(tmp_path / "a.emb", np.ones((2, 3)), told)
    found = read(path)
    assert (found.labels, found.people.tolist(), found.ids) == (["x", "y"], [0, 1], None)
    assert found.name(1) == "b"
    assert read(path, people="none").people is None
    assert read(path, classes=["y", "z"]).positions.tolist() == [UNKNOWN, 0]


@pytest.mark.parametrize("labels", [[0, 1, 5, -1], [0.0, 1.0, 0.5, np.nan], ["a", "b", "A", ""]])
def test_labels_are_found_as_a_fit_finds_them(tmp_path, labels):
    np.savez(tmp_path / "a.npz", x=np.ones((4, 2)), y=np.array(labels))
    found = read(tmp_path / "a.npz", classes=["a", "b"])
    assert found.positions.tolist() == [0, 1, UNKNOWN, UNKNOWN]


def test_people_may_be_given_as_they_are_in_a_file_or_in_a_part_of_one(tables):
    ids = ["ann"] * 40 + ["bob"] * 40
    np.save(tables / "ids.npy", np.array(ids))
    given = read(tables / "private.npz", people=ids)
    in_file = read(tables / "private.npz", people=str(tables / "ids.npy"))
    assert given.people.tolist() == in_file.people.tolist() == [0] * 40 + [1] * 40
    assert (given.ids, in_file.ids) == (ids, None)
    parts = {f"x_{part}": np.ones((2, 3)) for part in ("train", "test")}
    np.savez(tables / "a.npz", **parts, who_train=["a", "b"], who_test=["c", "d"])
    part = read(tables / "a.npz", role="test", people="who", columns=Columns(split="test"))
    assert part.ids == ["c", "d"]


def test_what_cannot_be_read_at_all_is_an_error(tables):
    np.save(tables / "rows.npy", np.ones((3, 2)))
    pixels, texts = np.zeros((2, 4, 4, 3), np.uint8), Columns(text="note")
    for given, error, rule in (
        ({"x": tables / "rows.npy", "y": [1, 2]}, DataError, "one for each row"),
        ({"x": tables / "private.npz", "y": [1] * 80}, DataError, "has its own"),
        ({"x": pixels}, ArgumentError, "files"),
        ({"x": tables / "private.npz", "columns": texts}, ArgumentError, "without texts"),
    ):
        with pytest.raises(error, match=rule):
            read(**given)


def test_examples_in_memory_are_read_as_a_fit_takes_them(whole_photos):
    rows = read(np.ones((2, 3)), ["cat", "cow"], classes=["cat", "dog"], people=["ann", "bob"])
    assert (rows.kind, rows.labels, rows.positions.tolist()) == ("rows", ["cat", "cow"], [0, UNKNOWN])
    assert (rows.people.tolist(), rows.ids) == ([0, 1], ["ann", "bob"])
    assert read(["a note", "another"], role="public").texts == ("a note", "another")
    files = sorted(whole_photos.rglob("*.png"))
    assert read(files, role="test").images == tuple(files)


@pytest.fixture
def picture():
    small = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((128, 96), Image.Resampling.BICUBIC)


def test_the_digest_is_of_the_pixels_and_not_of_the_file(tmp_path, picture):
    picture.save(tmp_path / "a.png")
    picture.save(tmp_path / "b.bmp")
    picture.rotate(180).save(tmp_path / "c.png")
    first, second, turned = looks_of([tmp_path / name for name in ("a.png", "b.bmp", "c.png")], "picture")
    assert first.digest == second.digest != turned.digest


@pytest.mark.parametrize(
    ("mode", "form", "bits"),
    [
        ("1", "black and white", 1),
        ("L", "grey", 8),
        ("P", "palette", 8),
        ("RGBA", "RGBA", 8),
        ("I;16", "grey", 16),
    ],
)
def test_the_form_is_that_of_the_file(tmp_path, picture, mode, form, bits):
    sixteen = Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257)
    (sixteen if bits == 16 else picture.convert(mode)).save(tmp_path / "a.png")
    look = look_at(tmp_path / "a.png")
    assert (look.form, look.bits) == (f"{form}, {bits} bits", bits)


def test_a_dicom_file_tells_the_bits_that_it_stores(tmp_path):
    pytest.importorskip("pydicom")
    samples = np.random.default_rng(0).integers(0, 4096, (12, 12)).astype(np.uint16)
    look = look_at(dicom(tmp_path / "a.dcm", samples, BitsStored=12))
    assert (look.form, look.brightest > 200) == ("DICOM MONOCHROME2, 12 bits", True)


def test_greys_are_read_by_the_declared_range(tmp_path):
    twelve_bits = np.random.default_rng(0).integers(0, 4096, (12, 12)).astype(np.uint16)
    Image.fromarray(twelve_bits).save(tmp_path / "a.png")
    assert "16-bit" in look_at(tmp_path / "a.png").refused
    assert look_at(tmp_path / "a.png", (0, 4095)).brightest > 200


@pytest.mark.parametrize("damage", ["cut", "empty", "gone"])
def test_a_damaged_file_is_unreadable_and_raises_nothing(tmp_path, picture, damage):
    file = tmp_path / "a.jpg"
    picture.save(file)
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[: 300 if damage == "cut" else 0])
    assert (look_at(file).form, look_at(file).digest) == ("", b"")


@pytest.mark.parametrize(("ending", "how"), [("jpg", {"quality": 40}), ("webp", {"quality": 60})])
def test_a_picture_that_was_saved_again_is_near_and_another_is_far(tmp_path, picture, ending, how):
    picture.save(tmp_path / "a.png")
    picture.save(tmp_path / f"b.{ending}", **how)
    picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tmp_path / "c.png")
    files = (tmp_path / "a.png", tmp_path / f"b.{ending}", tmp_path / "c.png")
    looks = looks_of(files, "picture")
    points = Examples("private", "", "images", images=files, looks=looks).points
    far = np.sqrt(np.mean((points - points[0]) ** 2, axis=1))
    assert looks[0].digest != looks[1].digest
    assert far[1] < SAME_PICTURE < far[2]


def test_faint_pictures_are_not_all_alike(tmp_path):
    rng = np.random.default_rng(0)
    for name in "ab":
        faint = rng.integers(120, 124, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(faint).save(tmp_path / f"{name}.png")
    files = (tmp_path / "a.png", tmp_path / "b.png")
    points = Examples("private", "", "images", images=files, looks=looks_of(files, "picture")).points
    assert np.sqrt(np.mean((points[0] - points[1]) ** 2)) > SAME_PICTURE
