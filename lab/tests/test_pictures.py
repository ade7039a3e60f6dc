"""Studies on pictures: methods on pixels beside methods on rows that an encoder makes of the same ones."""

import zipfile

import numpy as np
import pytest
from PIL import Image

from dptransfer.encoders import encode_pixels, get_encoder
from dptransfer.errors import DataError
from dptransfer_lab.cells import cells_of
from dptransfer_lab.measure import measure, sources_of
from dptransfer_lab.pictures import read_pictures
from dptransfer_lab.sources import stored_arrays
from dptransfer_lab.study import parse_study
from dptransfer_lab.tasks import task_of

pytest.importorskip("torch")

SIDE = 8
NAMES = ("blue", "green", "red")
STUDY = """
name = "pictures"
seeds = 1
attack = true

[[data]]
name = "photos"
source = { small-cnn = { train = "photos.npz", size = 8 } }
pool = "pool"

[[pool]]
name = "pool"
source = { small-cnn = { train = "pool", size = 8 } }

[[budget]]
epsilon = [8]
delta = 1e-5

[[method]]
name = "mean"

[[method]]
name = "film"
settings = { steps = 4, sampling_rate = 1.0 }

[[method]]
name = "pate"
settings = { teachers = 2, queries = 5, epochs = 1, batch = 4 }
"""


def coloured(count, seed):
    rng, y = np.random.default_rng(seed), np.arange(count) % 3
    x = rng.integers(0, 100, (count, 12, 12, 3))
    x[np.arange(count), ..., 2 - y] += 140
    return x.astype(np.uint8), y


def filed(folder, count, seed):
    x, y = coloured(count, seed)
    for number, (picture, label) in enumerate(zip(x, y, strict=True)):
        home = folder / NAMES[label] / f"person {number % 4}"
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(home / f"{number:02}.png")


@pytest.fixture
def photos(tmp_path):
    (x, y), (tx, ty) = coloured(60, 0), coloured(18, 1)
    arrays = {"x_train": x, "y_train": y, "x_test": tx, "y_test": ty, "classes": np.array(NAMES)}
    np.savez(tmp_path / "photos.npz", **arrays, g_train=np.arange(60) % 20, g_test=np.arange(18))
    filed(tmp_path / "pool", 9, 2)
    return tmp_path


def records(text, folder):
    study = parse_study(text)
    stored = stored_arrays(study, [folder])
    by_print = {one.fingerprint: one for one in stored.values()}
    return {cell.label: measure(cell, by_print) for cell in cells_of(study, stored)}


def test_methods_on_rows_and_on_pictures_stand_side_by_side(photos):
    found = records(STUDY, photos)
    assert {name: one["status"] for name, one in found.items()} == dict.fromkeys(
        ("mean", "film", "pate"), "done"
    )
    for name in ("mean", "film"):
        assert found[name]["metrics"]["balanced_accuracy"] > 0.6
    for one in found.values():
        assert one["guarantee"]["epsilon"] <= 8
        assert (one["rows"], one["classes"], one["pool_rows"]) == (60, 3, 9)
        assert 0 <= one["metrics"]["attack_auc"] <= 1
    assert found["film"]["settings"]["encoder"] == "small-cnn"
    assert found["film"]["settings"]["size"] == SIDE


def test_rows_are_those_of_the_encoder_and_are_made_once(photos, monkeypatch):
    study = parse_study(STUDY)
    stored = stored_arrays(study, [photos])
    arrays = stored["data", "photos", "small-cnn"].open()
    assert arrays["pixels"].shape == (60, SIDE, SIDE, 3)
    encoder = get_encoder("small-cnn", size=SIDE)
    assert (arrays["test_rows"] == encode_pixels(arrays["test_pixels"], encoder)).all()
    assert stored["data", "photos", "small-cnn"].encoder == encoder.identity
    monkeypatch.setattr("dptransfer_lab.sources.read_pictures", None)  # a second reading would fail
    assert stored_arrays(study, [photos]) == stored


def test_pictures_and_rows_of_a_cut_are_of_the_same_examples(photos):
    text = STUDY.replace("attack = true", "imbalance = 4")
    study = parse_study(f"{text}\n[[size]]\nrows = 12\npool_rows = 5\nclasses = 2\n")
    stored = stored_arrays(study, [photos])
    cell = cells_of(study, stored)[0]
    task = task_of(cell.task, *sources_of(cell, {one.fingerprint: one for one in stored.values()}))
    encoder = get_encoder("small-cnn", size=SIDE)
    assert len(task.pixels.own) == len(task.labels) == 12
    assert (encode_pixels(task.pixels.own, encoder) == task.rows).all()
    assert (encode_pixels(task.pixels.public.pixels, encoder) == task.public.rows).all()
    seen = task.seen_by(encoder)
    assert (seen.test_rows == task.test_rows).all()
    assert (seen.others[0] == task.others[0]).all()
    assert (seen.rows[task.members] == task.rows[task.members]).all()


def test_a_method_on_pictures_is_refused_where_there_are_rows_alone(photos):
    rows = {"x_train": np.zeros((9, 4), np.float32), "y_train": np.arange(9) % 3}
    np.savez(photos / "rows.npz", **rows)
    text = STUDY.replace('{ train = "photos.npz", size = 8 }', '"rows.npz"').replace('pool = "pool"\n', "", 1)
    found = records(text, photos)
    assert found["mean"]["status"] == "done"
    assert found["film"]["status"] == "refused"
    assert "needs pictures" in found["film"]["message"]


def test_a_zip_with_train_and_test_is_read_like_its_folders(photos):
    for part, count in (("train", 12), ("test", 6)):
        filed(photos / "clothes" / part, count, 3)
    with zipfile.ZipFile(photos / "clothes.zip", "w") as packed:
        for file in sorted((photos / "clothes").rglob("*.png")):
            packed.write(file, file.relative_to(photos))
        packed.writestr("__MACOSX/x", b"")
    packed, classes = read_pictures(photos / "clothes.zip", SIDE)
    plain, _ = read_pictures(photos / "clothes", SIDE)
    assert classes == NAMES
    assert packed.keys() == plain.keys() == {"pixels", "labels", "test_pixels", "test_labels"}
    assert all((packed[name] == plain[name]).all() for name in plain)
    assert len(packed["test_labels"]) == 6


def test_a_picture_that_changes_is_read_again(photos):
    study = parse_study(STUDY)
    before = stored_arrays(study, [photos])
    Image.new("RGB", (12, 12), "white").save(next((photos / "pool").rglob("*.png")))
    after = stored_arrays(study, [photos])
    assert before["pool", "pool", "small-cnn"] != after["pool", "pool", "small-cnn"]
    assert before["data", "photos", "small-cnn"] == after["data", "photos", "small-cnn"]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.zeros((4, 8, 8), np.uint8), "y": np.zeros(4)}, "must be bytes"),
        ({"x": np.zeros((4, 8, 8, 3)), "y": np.zeros(4)}, "must be bytes"),
        ({"y": np.zeros(4)}, "must be bytes"),
        ({"x": np.zeros((4, 8, 8, 3), np.uint8)}, "must have labels"),
    ],
)
def test_what_is_no_labelled_set_of_pictures_is_refused(photos, arrays, said):
    np.savez(photos / "photos.npz", **arrays)
    with pytest.raises(DataError, match=said):
        stored_arrays(parse_study(STUDY), [photos])


def test_scans_of_twelve_bits_are_read_by_the_range_that_the_study_declares(photos):
    rng = np.random.default_rng(0)
    for folder, count in (("scans/train", 24), ("scans/test", 9), ("scan pool/a", 9)):
        for number in range(count):
            level = 400 + 1500 * (number % 3)
            scan = rng.integers(level, level + 300, (12, 12)).astype(np.uint16)
            scan = np.sort(scan, axis=0) if "pool" in folder else scan  # public ones look otherwise
            home = photos / folder / (NAMES[number % 3] if "pool" not in folder else "")
            home.mkdir(parents=True, exist_ok=True)
            Image.fromarray(scan).save(home / f"{number:02}.png")
    plain = STUDY.replace("photos.npz", "scans").replace('"pool", size', '"scan pool", size')
    with pytest.raises(DataError, match="16-bit"):
        stored_arrays(parse_study(plain), [photos])
    declared = plain.replace("size = 8", "size = 8, grey_range = [0, 4095]")
    stored = stored_arrays(parse_study(declared), [photos])
    found = stored["data", "photos", "small-cnn"]
    assert found.encoder.grey_range == (0, 4095)
    assert found.open()["pixels"].max() > 200  # white is 4095, and not 65535
    told = records(declared.partition('[[method]]\nname = "pate"')[0].replace("attack = true", ""), photos)
    assert {name: one["status"] for name, one in told.items()} == {"mean": "done", "film": "done"}
    assert told["film"]["settings"]["grey_range"] == [0, 4095]
    with pytest.raises(DataError, match="without a size these"):
        parse_study(STUDY.replace("size = 8", "grey_range = [0, 4095]"))
    with pytest.raises(DataError, match="the lower first"):
        parse_study(declared.replace("[0, 4095]", "[9, 1]"))
