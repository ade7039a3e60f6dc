"""`dptransfer fit`: charges once, writes whole, and refuses before it spends."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from contracts.full_disk import full_disk
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.errors import ReleaseError
from dptransfer.ledger import Ledger
from dptransfer.release import PrivateClassifier, read_evaluation, read_release

from .conftest import BUDGET, CLASSES, MEAN

FILES = ["MLmodel", "README.md", "card.html", "model.safetensors", "release.json"]


def leftovers(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("ledger.sqlite"))


def test_fit_says_what_was_charged_where_and_written(cli, data, ledger, tmp_path):
    words = (data / "private.npz", *MEAN, "--out", "model", "--name", "clinic-a", "--test", data / "test.npz")
    out = " ".join(cli("fit", *words).stdout.split())
    for said in ("'clinic-a'", "publishes these names", str(ledger), "not protected", *FILES):
        assert said in out
    assert leftovers(tmp_path) == ["model"]
    assert sorted(os.listdir("model")) == FILES
    assert read_release("model").classes == ("cat", "dog", "bird")
    assert read_evaluation("model").size is None  # nobody declared the test public


def test_json(cli_json, data, ledger):
    told = cli_json("fit", data / "private.npz", *MEAN, "--out", "model", "--ledger", "own.sqlite")
    assert (told["method"], told["relation"], told["seeded"]) == ("mean", "add/remove", False)
    assert told["events"][0]["kind"] == "gaussian"
    assert told["ledger"]["path"] == str(Path("own.sqlite").resolve())
    assert told["ledger"]["head"] == json.loads(Path("model/release.json").read_text())["ledger_head"]
    assert (told["account"]["charges"], told["account"]["name"]) == (1, None)
    assert told["files"] == FILES
    assert told["evaluation"] is None
    assert not ledger.exists()


def test_labels_and_splits(cli, rows):
    x, y = rows("private")
    np.save("x.npy", x)
    np.save("y.npy", y)
    np.savez("s.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    cli("fit", "x.npy", "--set", "data.labels=y.npy", *MEAN, "--out", "one")
    assert "--set data.split=" in cli("fit", "s.npz", *MEAN, "--out", "two", code=2).stderr
    cli("fit", "s.npz", "--set", "data.split=train", *MEAN, "--out", "two")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("missing.emb --classes 3", "must exist"),
        ("flat.npz --classes 3", "shape (examples, dimension)"),
        (". --classes 3", "known type is there"),
        ("{private} --classes cat,dog", "2 declared classes"),
        ("{private} --test {data}/other.npz", "one dimension"),
        ("{private} --test {data}/pool.npz", "must have labels"),
        ("{private} --shots {data}/private.npz", "other data than"),
        ("{private} --shots strange.npz", "--shots: Every label"),
        ("{private} --shots .", "holds images or texts"),
        ("{private} --method adamix", "labelled ones --shots shots.emb"),
        ("{private} --method language", "--set start.tower="),
        ("{private} --method global-adapt", "--set data.size="),
        ("{private} --method coinpress", "--relation replace-one"),
        ("{private} --name a\tb", "printable characters"),
        ("{private} --seed 1", "--unsafe-for-publication"),
    ],
)
def test_bad_input_costs_and_leaves_nothing(cli, data, charges, tmp_path, words, said):
    np.savez("flat.npz", x=np.zeros(5), y=np.zeros(5, dtype=int))
    np.savez("strange.npz", x=np.zeros((2, 16)), y=np.array([0, 7]))
    before = leftovers(tmp_path)
    given = words.format(data=data, private=f"{data}/private.npz --classes {CLASSES}").split(" ")
    done = cli("fit", *BUDGET, "--method", "mean", *given, "--out", "deep/model", code=2)
    assert said in done.stderr
    assert charges() == []
    assert leftovers(tmp_path) == before


def test_an_existing_target_and_a_place_that_cannot_be_written_are_refused_before_the_charge(
    cli, data, charges
):
    Path("folder").mkdir()
    Path("file").touch()
    for out, said in (("folder", "exists"), ("file", "exists"), ("/proc/model", "'/proc/model'")):
        assert said in cli("fit", data / "private.npz", *MEAN, "--out", out, code=2).stderr
    assert charges() == []


def test_overwrite_replaces_a_release_and_nothing_else(cli, data, charges):
    for _ in range(2):
        cli("fit", data / "private.npz", *MEAN, "--out", "model", "--overwrite")
    Path("model/mine.txt").touch()
    said = cli("fit", data / "private.npz", *MEAN, "--out", "model", "--overwrite", code=2).stderr
    assert "mine.txt" in said
    assert len(charges()) == 2


def test_a_full_disk_is_noticed_before_the_charge(cli, data, tmp_path, charges):
    with full_disk(100_000):
        said = cli("fit", data / "private.npz", *MEAN, "--out", "model", code=2).stderr
    assert "Nothing was charged" in said
    assert charges() == []
    assert leftovers(tmp_path) == []


def test_a_disk_that_fills_up_after_the_charge(cli, data, ledger, tmp_path, monkeypatch, charges):
    monkeypatch.setattr("dptransfer.cli.charges.require_writable", lambda *a, **b: None)
    monkeypatch.setattr("dptransfer.cli.charges.require_writable", lambda *a, **b: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    np.savez("wide.npz", x=np.ones((4, 4000), dtype=np.float32), y=np.arange(4) % 3)
    with full_disk(60_000):  # room for the ledger, not for three prototypes of 32 kB
        said = cli("fit", "wide.npz", *MEAN, "--out", "model", code=2).stderr
    assert "model is lost" in said
    assert len(charges()) == 1
    assert not Path("model").exists()


def test_a_model_that_is_paid_for_is_kept_elsewhere(cli, data, tmp_path, monkeypatch, charges):
    save = PrivateClassifier.save

    def fail_once(self, path, **options):
        if Path(path) == Path("model"):
            raise ReleaseError("Writing 'model' failed.")
        return save(self, path, **options)

    monkeypatch.setattr(PrivateClassifier, "save", fail_once)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    said = cli("fit", data / "private.npz", *MEAN, "--out", "model", code=2).stderr
    (kept,) = (tmp_path / "tmp").glob("*/model")
    assert str(kept) in said
    assert read_release(kept).classes == ("cat", "dog", "bird")
    assert len(charges()) == 1


@pytest.mark.parametrize("place", [".", "/proc/nowhere/ledger.sqlite"])
def test_a_ledger_that_cannot_be_written(cli, data, tmp_path, place):
    said = cli("fit", data / "private.npz", *MEAN, "--out", "model", "--ledger", place, code=2).stderr
    assert "record before any" in said
    assert leftovers(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_ledger(cli, data, ledger, tmp_path):
    cli("ledger", "budget", "clinic", "--epsilon", "9")
    ledger.chmod(0o400)
    cli("fit", data / "private.npz", *MEAN, "--out", "model", code=2)
    assert leftovers(tmp_path) == []


def test_rows_on_record_are_refused_under_another_name(cli, data, ledger, tmp_path, charges):
    fit = ("fit", data / "private.npz", *MEAN)
    cli(*fit, "--out", "one", "--name", "clinic-a")
    for name in ((), ("--name", "clinic-b")):
        said = cli(*fit, "--out", "two", *name, code=2).stderr
        assert "registered as 'clinic-a'" in said
        assert "'clinic-a', or pass" in said
    assert (len(charges()), leftovers(tmp_path)) == (1, ["one"])
    cli(*fit, "--out", "two", "--name", "CLINIC-A")
    cli(*fit, "--out", "three", "--name", "clinic-b", "--set", "data.new_data_set=true")
    cli(*fit, "--out", "four", "--name", "clinic-b")
    cli(*fit, "--out", "five", "--name", "clinic-c", "--set", "data.strict_names=true")
    assert [one.charges for one in Ledger(ledger).datasets()] == [2, 2, 1]


def test_seeded_models_are_stamped_in_capitals(cli, data):
    words = ("fit", data / "private.npz", *MEAN, "--seed", "7", "--unsafe-for-publication")
    out = cli(*words, "--out", "one").stdout
    assert "DO NOT PUBLISH" in out
    cli(*words, "--out", "two")
    one, two = read_release("one"), read_release("two")
    assert (one.weights["prototypes"] == two.weights["prototypes"]).all()
    assert "NOT verified" in cli("verify", "one", code=1).stdout


def test_a_file_of_words_goes_with_the_public_rows(cli, data, tmp_path):
    rng = np.random.default_rng(0)
    words = Vocabulary(("cat", "dog", "bird"), rng.normal(size=(3, 16)), np.zeros(3))
    own, narrow = words.save(tmp_path / "words.npz"), tmp_path / "narrow.npz"
    Vocabulary(("cat", "dog"), np.eye(2, 7), np.zeros(2)).save(narrow)
    fit = ("fit", data / "private.npz", *MEAN[:-2], "--name", "p")
    pool = ("--public", data / "pool.npz", "--set")
    cli(*fit, *pool, f"data.vocabulary={own}", "--out", "of-words")
    assert read_release("of-words").provenance.public["vocabulary"] == words.record
    assert "16; got 7" in cli(*fit, *pool, f"data.vocabulary={narrow}", code=2).stderr
    assert "Pass --public" in cli(*fit, "--set", f"data.vocabulary={own}", code=2).stderr
