"""Examples in every form, through `fit`, `predict` and `evaluate`: archives, tables, texts, one command."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dptransfer.ledger import Ledger
from encoders.toys import MeanColour, WordLengths, pictures

FIT = ("-m", "mean", "-e", "9", "-d", "1e-5")
ELSEWHERE = ("--ledger", "elsewhere.sqlite")
"""Where the usual ledger does not know the rows, they can be tested too."""


@pytest.fixture(autouse=True)
def encoders(monkeypatch):
    """The default encoders, tiny."""
    made = {"efficientnet-lite0": MeanColour(name="efficientnet-lite0"), "minilm": WordLengths()}
    monkeypatch.setattr("dptransfer.encoders.registry.get_encoder", lambda name, **how: made[name])
    by_name = {one.identity.name: one for one in made.values()}
    found = "dptransfer.encoders.model_inputs.encoder_of"
    monkeypatch.setattr(found, lambda identity, **how: by_name[identity.name])


def zipped(path, folder):
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*.png")):
            archive.write(file, file.relative_to(folder.parent))
    return path


def test_folders_become_a_release_in_one_command(cli, ledger, tmp_path):
    """`dptransfer fit photos/ --public pool/ --epsilon 1`: delta is 1e-5, as none is given."""
    private, pool = pictures(tmp_path / "photos", 40), pictures(tmp_path / "pool", 20, seed=1)
    said = cli("fit", private, "--public", pool, "--epsilon", "1").stdout
    assert "README.md" in said
    assert "δ = 1e-5" in said
    kept = {"photos", "pool", "model", ledger.name, f"{ledger.name}.key"}
    assert {one.name for one in tmp_path.iterdir()} == kept
    assert [one.charges for one in Ledger(ledger).datasets()] == [1]
    answers = cli("predict", "model", private / "cat", "--top", "2", "--out", "a.json")
    assert answers.stdout == ""
    told = json.loads(Path("a.json").read_text())
    assert [one["rank"] for one in told[:2]] == [1, 2]
    assert {one["label"] for one in told} == {"cat", "dog"}
    assert sum(one["score"] for one in told[:2]) == pytest.approx(1)


def test_an_archive_is_fitted_predicted_and_tested_like_its_folder(cli, cli_json, tmp_path):
    folder = pictures(tmp_path / "photos", 20)
    packed = zipped(tmp_path / "photos.zip", folder)
    cli("fit", packed, *FIT, "--public", packed / "cat", "--out", "wrong", code=2)
    cli("fit", packed, *FIT, "--out", "model", "--name", "p", *ELSEWHERE)
    told = cli_json("predict", "model", packed)
    assert told[0]["input"] == f"{packed}/cat/001.png"
    plain = cli_json("predict", "model", folder)
    assert [one["score"] for one in told] == [one["score"] for one in plain]
    assert cli_json("evaluate", "model", packed)["size"] == 20
    assert len(cli_json("predict", "model", packed / "dog")) == 10
    assert "name other data" in cli("fit", packed, *FIT, "--test", packed / "cat", "-o", "x", code=2).stderr


def test_pictures_of_an_archive_that_cannot_be_read_are_called_by_their_names_in_it(cli, tmp_path):
    folder = pictures(tmp_path / "photos", 4)
    cli("fit", folder, *FIT, "--out", "model")
    (folder / "cat" / "broken.png").write_text("no picture")
    packed = zipped(tmp_path / "photos.zip", folder)
    assert "'cat/broken.png'" in cli("predict", "model", packed, code=2).stderr
    said = cli("fit", packed, *FIT, "--out", "x", code=2).stderr
    assert "broken" not in said  # of private ones the owner's file tells
    assert Path("photos.zip.problems.txt").read_text().startswith("cat/broken.png")


def test_texts_in_a_named_column_become_a_release_and_are_predicted(cli, cli_json):
    lines = "what a long note this is,long\nhi,short\n" * 20
    Path("t.csv").write_text(f"note,label\n{lines}")
    Path("pool.csv").write_text("note\n" + "some public words here\nyes\n" * 20)
    words = ("t.csv", *FIT, "--classes", "long,short", "--text-column", "note")
    cli("fit", *words, "--public", "pool.csv", "--out", "model", *ELSEWHERE)
    Path("new.csv").write_text("note\nwhat a long note this is\nhi\n")
    told = cli_json("predict", "model", "new.csv", "--text-column", "note")
    assert [one["input"] for one in told] == ["what a long note this is", "hi"]
    assert cli_json("evaluate", "model", "t.csv", "--text-column", "note")["size"] == 40
    assert "these are rows" in cli("fit", *words[:-2], "--encoder", "minilm", "-o", "x", code=2).stderr


def test_features_in_columns_become_a_release_whatever_their_order(cli, cli_json):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    x = 3 * np.eye(3)[y] + rng.normal(size=(200, 3))
    given = enumerate(zip(x, y, strict=True))
    lines = [f"{a:.6f},{b:.6f},{900 + i},{c:.6f},{k}.0" for i, ((a, b, c), k) in given]
    Path("t.csv").write_text("\n".join(["f1,f2,id,f3,grade", *lines]) + "\n")
    columns = ("--feature-columns", "f*", "--label-column", "grade")
    fit = ("fit", "t.csv", *FIT, "--classes", "2")
    cli(*fit, *columns, "--test", "t.csv", "--out", "wrong", code=2)
    Path("pool.csv").write_text("\n".join(["f1,f2,f3", *("1,2,3" for _ in range(9))]) + "\n")
    cli(*fit, *columns, "--public", "pool.csv", "--name", "t", "--out", "model", *ELSEWHERE)
    again = [f"{c:.6f},{b:.6f},{a:.6f}" for a, b, c in x]
    Path("new.csv").write_text("\n".join(["f3,f2,f1", *again]) + "\n")
    one = cli_json("predict", "model", "t.csv", *columns)
    assert [o["score"] for o in one] == [o["score"] for o in cli_json("predict", "model", "new.csv")]
    assert cli_json("evaluate", "model", "t.csv", *columns)["accuracy"] > 0.9
    assert one == cli_json("predict", "model", "t.csv")  # by name, as the release records them
    assert "f1, f2, f3" in Path("model/README.md").read_text()
    np.save("plain.npy", x)  # rows without names go by their width
    assert len(cli_json("predict", "model", "plain.npy")) == 200
    Path("other.csv").write_text("g1,g2,g3,label\n1,2,3,1\n1,2,3,0\n")
    private = ("--private", "-e", "1", "--name", "t")
    for words, said in (
        (("predict", "model", "t.csv", "--feature-columns", "f1,f2,id"), "'id' is in"),
        (("predict", "model", "other.csv"), "'f1'"),
        (("evaluate", "model", "other.csv"), "'f1'"),
        (("evaluate", "model", "other.csv", *private), "'f1'"),
        ((*fit, "--feature-columns", "f*", "-o", "x"), "--label-column NAME"),
        *(
            ((*fit, *option, "--out", "wrong"), option[0])
            for option in (("--image-size", "64"), ("--grey-range", "0,9"), ("--text-column", "note"))
        ),
    ):
        assert said in cli(*words, code=2).stderr
    assert cli_json("evaluate", "model", "t.csv", *columns, *private)["accuracy"]
    check = ("check", "t.csv", "--classes", "2", "--feature-columns", "f*")
    assert "without labels" in cli(*check).stdout
    assert "without labels" not in cli(*check, *columns).stdout


def test_what_was_encoded_stays_where_the_ledger_refuses_and_is_gone_when_a_fit_is_done(cli, tmp_path):
    folder = pictures(tmp_path / "photos", 40)
    cli("fit", folder, *FIT, "--name", "one", "--out", "first")
    for file in folder.rglob("*.png"):  # the same pixels in other files: known again by their rows alone
        Image.open(file).save(file.with_suffix(".bmp"))
        file.unlink()
    said = cli("fit", folder, *FIT, "--name", "two", "--out", "second", code=2).stderr
    (kept,) = tmp_path.glob("photos.rows-of-second-*.emb.partial")
    assert "'one', or pass" in said
    assert f"stay in '{kept}'" in said
    assert kept.stat().st_mode & 0o777 == 0o700
    cli("fit", folder, *FIT, "--name", "one", "--out", "second")
    assert not list(tmp_path.glob("photos.*"))


def test_a_picture_that_a_release_cannot_read_is_refused_with_what_can_be_done_there(cli, tmp_path):
    """Neither `predict` nor `evaluate` has --grey-range: the release says how pictures are read."""
    cli("fit", pictures(tmp_path / "photos", 4), *FIT, "--out", "model")
    scan = pictures(tmp_path / "new", 2) / "cat" / "001.png"
    Image.fromarray(np.full((8, 8), 4000, dtype=np.uint16)).save(scan)
    for words in (("predict", "model", scan), ("evaluate", "model", "new")):
        said = cli(*words, code=2).stderr
        assert "eight bits; or" in said
        assert "Declare black" not in said
    private = ("evaluate", "model", "new", "--private", "-e", "1", "--name", "n")
    assert "in eight bits" in cli(*private, code=2).stderr
    assert "LOW,HIGH" in cli("fit", "new", *FIT, "--out", "x", code=2).stderr


def test_a_table_of_paths_under_another_name_and_delimiter_goes_through_every_command(
    cli, cli_json, tmp_path
):
    folder = pictures(tmp_path / "photos", 20)
    lines = [
        f"{file.relative_to(tmp_path)};{file.parent.name};{n}"
        for n, file in enumerate(sorted(folder.rglob("*.png")))
    ]
    table = tmp_path / "list.csv"
    table.write_text("\n".join(["photo;kind;who", *lines]) + "\n")
    named = ("--path-column", "photo", "--label-column", "kind")
    how = (*named, "--classes", "cat,dog")
    cli("check", table, *how, "--person", "who")
    cli("fit", table, *FIT, *how, "--name", "p", "--out", "model", *ELSEWHERE)
    cli("fit", table, *FIT, *how, "--person", "who", "--ledger", "b.sqlite", "--out", "by-person")
    cli("encode", table, *how, "--out", "rows.emb")
    assert cli_json("evaluate", "model", table, *named)["size"] == 20
    plain = cli_json("predict", "model", folder)
    told = cli_json("predict", "model", table, "--path-column", "photo")
    assert [one["score"] for one in told] == [one["score"] for one in plain]
    for wrong in ("kinds", "label"):
        said = cli("fit", table, *FIT, *how[2:], "--path-column", wrong, "--out", "no", code=2).stderr
        assert wrong in said
    said = cli("fit", table, *FIT, *how[2:], "--out", "no", code=2).stderr  # without it, these are no numbers
    assert "--path-column" in said


def test_a_file_of_an_unknown_type_is_refused_by_every_command(cli, tmp_path):
    folder = pictures(tmp_path / "photos", 20)
    cli("fit", folder, *FIT, "--out", "model", "--name", "p")
    (tmp_path / "rows.mat").write_bytes(b"MATLAB 5.0")
    for words in (
        ("fit", "rows.mat", *FIT, "--out", "no", "--classes", "2"),
        ("fit", folder, *FIT, "--out", "no", "--public", "rows.mat"),
        ("check", "rows.mat"),
        ("encode", "rows.mat", "--out", "no.emb"),
        ("predict", "model", "rows.mat"),
        ("evaluate", "model", "rows.mat"),
        ("attack", "model", "--members", folder, "--others", "rows.mat"),
    ):
        assert "file type '.mat'" in cli(*words, code=2).stderr


def test_an_output_that_exists_hides_no_other_mistake_and_is_found_before_the_work(
    cli, tmp_path, monkeypatch
):
    folder = pictures(tmp_path / "photos", 20)
    cli("fit", folder, *FIT, "--out", "model", "--name", "p")
    fit, there = ("fit", folder, *FIT), ("--out", "model")
    (tmp_path / "list.csv").write_text("path\na.png\n")
    for words, said in (
        (("fit", folder, "-m", "mena", "-e", "9", *there), "mena"),
        ((*fit, "--public", "nowhere", *there), "nowhere"),
        ((*fit, "--test", "nowhere", *there), "nowhere"),
        (("predict", "model", "nowhere.png", "--out", "list.csv"), "nowhere.png"),
        (("predict", "model", folder, "--coverage", "0.9", "--out", "list.csv"), "charged evaluation"),
        (("check", folder, "--test", "nowhere", "--out", "list.csv"), "nowhere"),
    ):
        assert said in cli(*words, code=2).stderr

    def never(*_, **__):
        raise AssertionError("encoded")

    monkeypatch.setattr(MeanColour, "forward", never)
    other = pictures(tmp_path / "pool", 4)
    for words in (
        (*fit, *there),
        (*fit, "--public", other, *there),
        ("predict", "model", folder, "--out", "list.csv"),
        ("check", folder, "--out", "list.csv"),
    ):
        assert "exists" in cli(*words, code=2).stderr
