"""Private examples among public ones, at every door that takes both: refused before anything is charged."""

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import dptransfer as dpt
from dptransfer import evaluate
from dptransfer.cli.commands import app
from dptransfer.data import RowMetadata, write_embeddings
from dptransfer.errors import PrivateOverlap
from dptransfer.ledger import Ledger
from dptransfer.methods import FiLM, MeanPrototypes, PublicPrototypes
from dptransfer.release import read_evaluation
from dptransfer.sklearn.private_classifier import PrivateClassifier as Estimator
from dptransfer.sources import PrivateImages, PublicImages
from encoders.toys import MeanColour, WordLengths, pictures

CLASSES = ["a", "b"]
BUDGET = dpt.Budget(epsilon=1.0, delta=1e-5)
SPEND = ("-e", "1", "-d", "1e-5")
WIDTH = 24


def rows(count=300, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    return (rng.normal(size=(count, WIDTH)) + 2 * np.eye(2, WIDTH)[y]).astype(np.float32), y


def private(seed=0, **how):
    return dpt.PrivateEmbeddings(*rows(seed=seed), classes=CLASSES, **{"name": "ward", **how})


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.chdir(tmp_path)
    return Ledger(tmp_path / "ledger.sqlite")


def run(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


def refused(ledger, *words, out="refused"):
    """Whether the command refuses with a line about private data, and neither charges nor writes."""
    before = ledger.head
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert "Traceback" not in done.output
    told = done.exit_code == 2 and "private" in done.stderr
    if told:
        assert ledger.head == before
        assert not Path(out).exists()
    return told


FORMS = {
    "npz": lambda path, x, y: np.savez(path.with_suffix(".npz"), x=x, y=y),
    "half": lambda path, x, y: np.savez(path.with_suffix(".npz"), x=x.astype(np.float16), y=y),
    "csv": lambda path, x, y: path.with_suffix(".csv").write_text(
        ",".join(f"f{n}" for n in range(WIDTH))
        + ",label\n"
        + "".join(",".join(map(str, row)) + f",{label}\n" for row, label in zip(x.tolist(), y, strict=True))
    ),
    "emb": lambda path, x, y: write_embeddings(
        path.with_suffix(".emb"), x, RowMetadata(np.asarray(y), classes=[0, 1], public=True)
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("part", ["all", "few"])
@pytest.mark.parametrize("option", ["--public", "--shots", "--test"])
def test_rows_of_the_fit_are_no_pool_no_shots_and_no_test(ledger, tmp_path, form, part, option):
    x, y = rows()
    np.savez("private.npz", x=x, y=y)
    others, labels = rows(60, seed=1)
    if part == "few":  # as the key is another in every run, one in half precision may be missed
        x, y = np.vstack([others, x[7:11]]), np.append(labels, y[7:11])
    FORMS[form](tmp_path / "copy", x, y)
    FORMS[form](tmp_path / "others", others, labels)
    copy, other = (next(tmp_path.glob(f"{name}.*")) for name in ("copy", "others"))
    fit = ("fit", "private.npz", "--classes", "2", *SPEND, "--name", "ward", "-m", "public")
    fit += () if option == "--public" else ("--public", other)
    assert refused(ledger, *fit, option, copy, "-o", "refused")
    run(*fit, option, other, "-o", "model")
    if option == "--test":
        assert not read_evaluation("model").public


def test_a_copy_of_a_private_folder_is_refused_by_its_mark(ledger, tmp_path):
    for name, seed in (("photos", 0), ("ward2", 1)):
        x, y = rows(seed=seed)
        write_embeddings(f"{name}.emb", x, RowMetadata(y, classes=CLASSES))
    shutil.copytree("photos.emb", "copy.emb")
    fit = ("fit", "photos.emb", *SPEND, "-m", "public", "-o", "refused")
    for option in ("--public", "--shots"):
        for folder in ("copy.emb", "ward2.emb"):
            assert refused(ledger, *fit, option, folder)
    assert refused(ledger, *fit, "--test", "copy.emb")


@pytest.mark.parametrize("option", ["--public", "--shots", "--test"])
def test_rows_of_a_set_on_record_are_refused(ledger, option):
    MeanPrototypes().fit(private(1, name="other"), budget=BUDGET, ledger=ledger)
    for name, seed in (("private", 0), ("other", 1), ("free", 2)):
        x, y = rows(seed=seed)
        np.savez(f"{name}.npz", x=x.astype(np.float64), y=y)
    fit = ("fit", "private.npz", "--classes", "2", *SPEND, "--name", "ward", "-m", "public")
    fit += () if option == "--public" else ("--public", "free.npz")
    assert refused(ledger, *fit, option, "other.npz", "-o", "refused")
    run(*fit, option, "other.npz", "-o", "allowed", "--set", "data.new_data_set=true")
    run(*fit, option, "other.npz", "-o", "strict", "--set", "data.strict_names=true")
    strict = ("--set", "data.strict_names=true", "--set", "data.new_data_set=true")
    assert refused(ledger, *fit, option, "private.npz", "-o", "refused", *strict)
    shutil.copy("private.npz", "copy.npz")
    assert refused(ledger, *fit, option, "copy.npz", "-o", "refused", *strict)


def test_rows_in_many_files_are_looked_at(ledger):
    x, y = rows()
    np.savez("private.npz", x=x, y=y)
    for name, part in (("pool", np.vstack([rows(700, seed=1)[0], x[9:10]])), ("free", rows(700, seed=1)[0])):
        Path(name).mkdir()
        for number in range(3):
            np.save(f"{name}/{number}.npy", part[number::3])
    write_embeddings("pool.emb", np.vstack([rows(90, seed=1)[0], x]), RowMetadata(public=True), shard_rows=40)
    fit = ("fit", "private.npz", "--classes", "2", *SPEND, "-m", "public")
    assert refused(ledger, *fit, "--public", "pool", "-o", "refused")
    assert refused(ledger, *fit, "--public", "pool.emb", "-o", "refused")
    run(*fit, "--public", "free", "-o", "model")


@pytest.mark.parametrize("small", [False, True])
def test_small_whole_numbers_of_private_rows_are_recognised(ledger, small):
    x, y = rows()
    np.savez("private.npz", x=x, y=y)
    step = float(np.abs(x).max()) / 127
    pool = np.rint((np.vstack([rows(200, seed=1)[0], x[:100]]) if small else x) / step).astype(np.int8)
    write_embeddings("pool.emb", pool, RowMetadata(public=True), dtype="int8", scale=step)
    fit = ("fit", "private.npz", "--classes", "2", *SPEND, "-m", "public", "-o", "refused")
    assert refused(ledger, *fit, "--public", "pool.emb")


SHOTS = dpt.PublicEmbeddings(rows()[0][:3], rows()[1][:3], classes=CLASSES)
OTHERS = dpt.PublicEmbeddings(rows(200, seed=3)[0])


@pytest.mark.filterwarnings("ignore::dptransfer.errors.PrivacyWarning")  # of steps before an estimator
@pytest.mark.parametrize("strict", [False, True])
def test_arrays_are_compared_at_every_door_of_python(strict):
    book = Ledger.in_memory(strict_names=strict)
    x, y = rows()
    for pool in (dpt.PublicEmbeddings(x[::-1]), dpt.PublicEmbeddings(3 * x[5:6]), OTHERS.with_shots(SHOTS)):
        with pytest.raises(PrivateOverlap):
            PublicPrototypes().fit(private(), pool, budget=BUDGET, ledger=book, new_data_set=True)
        with pytest.raises(PrivateOverlap):
            dpt.fit(private(), epsilon=1, method="public", public=pool, ledger=book)
        given = {"classes": CLASSES, "epsilon": 1.0, "name": "ward", "public": pool, "ledger": book}
        with pytest.raises(PrivateOverlap):
            Estimator(PublicPrototypes(), **given).fit(x, np.array(CLASSES)[y])
    with pytest.raises(PrivateOverlap):
        dpt.fit(x, y, method="public", **given | {"public": x[:40].astype(np.float16)})
    assert book.history() == []
    PublicPrototypes().fit(private(), OTHERS, budget=BUDGET, ledger=book)


@pytest.fixture
def encoders(monkeypatch):
    made = {"efficientnet-lite0": MeanColour(name="efficientnet-lite0"), "minilm": WordLengths()}
    monkeypatch.setattr("dptransfer.encoders.registry.get_encoder", lambda name, **how: made[name])
    by_name = {one.identity.name: one for one in made.values()}
    monkeypatch.setattr("dptransfer.encoders.encoder_of", lambda identity, **how: by_name[identity.name])
    return made


@pytest.mark.parametrize("option", ["--public", "--test"])
@pytest.mark.parametrize("packed", [False, True])
def test_one_picture_in_both_folders_is_found_before_it_is_encoded(
    ledger, encoders, tmp_path, option, packed
):
    photos, pool = pictures(tmp_path / "photos", 40), pictures(tmp_path / "pool", 60, seed=1)
    fit = ("fit", photos, *SPEND, "-m", "mean")
    run(*fit, option, pool, "-o", "model", "--ledger", "elsewhere.sqlite")
    shutil.copy(photos / "cat/001.png", pool / "dog/another name.png")
    if packed:
        with zipfile.ZipFile("pool.zip", "w") as archive:
            for file in sorted(pool.rglob("*.png")):
                archive.write(file, file.relative_to(pool))
        pool = tmp_path / "pool.zip"
    assert refused(ledger, *fit, option, pool, "-o", "refused")
    assert "001.png" not in run(*fit, option, pool, "-o", "refused", code=2).stderr
    assert not list(tmp_path.glob("*pool*rows-of*"))


def test_texts_in_both_are_found(ledger, encoders):
    texts = ["a text of somebody", "yes", "something that was said", "no", "more words", "and more of them"]
    with open("private.csv", "w") as file:
        file.write("text,label\n" + "".join(f"{text},{n % 2}\n" for n, text in enumerate(texts)))
    Path("pool.csv").write_text("text\npublic words that nobody said\nsomething  that was said \n")
    Path("free.csv").write_text("text\npublic words that nobody said\n")
    fit = ("fit", "private.csv", "--classes", "2", *SPEND, "-m", "mean", "--encoder", "minilm")
    assert refused(ledger, *fit, "--public", "pool.csv", "-o", "refused")
    given = {"classes": 2, "epsilon": 1, "method": "mean", "encoder": "minilm", "ledger": ledger}
    with pytest.raises(PrivateOverlap):
        dpt.fit(texts, [0, 1] * 3, public=texts[:1], **given)
    run(*fit, "--public", "free.csv", "-o", "model")


def test_the_same_pictures_by_another_encoder_are_on_record(ledger, tmp_path):
    """Another encoder, another size and another format of the rows: the files are the same."""
    from dptransfer.encoders import EncodeOptions, encode_examples
    from dptransfer.sources import find_images, read_private, read_public

    class Wider(MeanColour):
        def __init__(self):
            super().__init__(name="wider")
            self.dimension = 6

        def forward(self, pixels):
            found = super().forward(pixels)
            return np.hstack([found, found[:, :2] ** 2])

    photos = pictures(tmp_path / "photos", 40)
    for name, encoder in (("one", MeanColour()), ("two", Wider())):
        encode_examples(find_images(photos), encoder, f"{name}.emb")
    pool = pictures(tmp_path / "pool", 40, seed=1)
    shutil.copy(photos / "cat/001.png", pool / "cat/x.png")
    encode_examples(find_images(pool), Wider(), "pool.emb", EncodeOptions(public=True))
    MeanPrototypes().fit(read_private("one.emb", name="one"), budget=BUDGET, ledger=ledger)
    with pytest.raises(dpt.errors.RowsOnRecord):
        MeanPrototypes().fit(read_private("two.emb", name="two"), budget=BUDGET, ledger=ledger)
    with pytest.raises(PrivateOverlap):
        ledger.require_unrelated(read_public("pool.emb"))
    assert [one.charges for one in ledger.datasets()] == [1]


@pytest.mark.parametrize("name", ["other", None])
def test_pictures_on_record_under_another_name_are_refused_before_they_are_encoded(
    ledger, encoders, tmp_path, monkeypatch, name
):
    photos = pictures(tmp_path / "photos", 40)
    run("fit", photos, *SPEND, "-m", "mean", "-o", "model", "--name", "ward")
    monkeypatch.setattr("dptransfer.encoders.encoding.kept_rows", None)  # an encoding would be a TypeError
    named = () if name is None else ("--name", name)
    assert "'ward'" in run("fit", photos, *SPEND, "-m", "mean", "-o", "again", *named, code=2).stderr
    with pytest.raises(dpt.errors.RowsOnRecord):
        dpt.fit(photos, epsilon=1, method="mean", name=name, ledger=ledger)
    with pytest.raises(TypeError):  # where the owner says that they are other people's
        dpt.fit(photos, epsilon=1, method="mean", name=name, ledger=ledger, new_data_set=True)
    with pytest.raises(TypeError):  # under its own name it is encoded
        dpt.fit(photos, epsilon=1, method="mean", name="Ward", ledger=ledger)
    assert [one.charges for one in ledger.datasets()] == [1]


def test_pictures_without_a_name_have_their_account_whatever_they_are_asked_before(
    ledger, encoders, tmp_path
):
    photos = pictures(tmp_path / "photos", 40)
    for number in range(2):
        dpt.fit(photos, epsilon=1, method="mean", ledger=ledger)
        assert [one.charges for one in ledger.datasets()] == [number + 1]
    new = ("--name", "other", "--set", "data.new_data_set=true")
    run("fit", photos, *SPEND, "-m", "mean", "-o", "again", *new)


def test_encode_takes_no_picture_on_record_for_public(ledger, encoders, tmp_path):
    photos, pool = pictures(tmp_path / "photos", 12), pictures(tmp_path / "pool", 12, seed=1)
    run("encode", photos, "--public", "-o", "before.emb")  # nobody knows yet
    run("fit", photos, *SPEND, "-m", "mean", "-o", "model", "--name", "ward")
    done = run("encode", photos, "--public", "-o", "photos.emb", code=2)
    assert "'ward'" in done.stderr
    assert not Path("photos.emb").exists()
    run("encode", pool, "--public", "-o", "pool.emb")
    shutil.copy(photos / "cat/001.png", pool / "cat/x.png")
    run("encode", pool, "--public", "-o", "again.emb", code=2)
    run("encode", pool, "-o", "private.emb")


def shades(count, seed, side=8):
    return np.random.default_rng(seed).integers(0, 256, (count, side, side, 3), dtype=np.uint8)


def test_pixels_are_compared_too(tmp_path):
    pytest.importorskip("torch")
    from methods.deep.tiny import PLACE

    book, y = Ledger.in_memory(), np.arange(24) % 2
    method = FiLM(encoder=PLACE, size=8, steps=2, micro_batch=16)
    mine = PrivateImages(shades(24, 0), y, classes=CLASSES, name="ward")
    for pool in (shades(24, 0), np.concatenate([shades(9, 1), shades(24, 0)[3:4]])):
        with pytest.raises(PrivateOverlap):
            method.fit(mine, PublicImages(pool), budget=BUDGET, ledger=book)
    for number, picture in enumerate(shades(24, 0)):
        Image.fromarray(picture).save(tmp_path / f"{number:02}.png")
    files = [tmp_path / f"{number:02}.png" for number in range(24)]
    mine = PrivateImages(files, y, classes=CLASSES, name="ward", resolution=8)
    other = PublicImages([files[3]], resolution=6)  # of another size, so that files alone tell
    with pytest.raises(PrivateOverlap):
        book.require_unrelated(other, private=mine)
    for same in (shades(24, 0)[3:4], shades(24, 0) // 2):  # no file is theirs: the pixels tell
        with pytest.raises(PrivateOverlap):
            book.require_unrelated(PublicImages(same), private=mine)
    assert book.history() == []


def test_results_on_rows_of_the_fit_are_refused_in_python(ledger):
    model = MeanPrototypes().fit(private(), budget=BUDGET, ledger=ledger)
    x, y = rows()
    for given in ({"ledger": ledger}, {}, {"new_data_set": True}):
        for test in (x, x[3:4], x[3:33].astype(np.float16), dpt.PublicEmbeddings(x)):
            with pytest.raises(PrivateOverlap):
                evaluate(model, test, y[: len(test)], **given)
    found = evaluate(model, *rows(seed=1))
    assert (found.size, found.public, found.for_release().size) == (300, False, None)
    assert evaluate(model, *rows(seed=1), public=True).for_release().size == 300
    evaluate(model, x, y, ledger=Ledger.in_memory())


def test_no_ledger_is_made_for_a_test(tmp_path, monkeypatch):
    model = MeanPrototypes().fit(private(), budget=BUDGET, ledger=Ledger.in_memory())
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(tmp_path / "none.sqlite"))
    evaluate(model, *rows())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("named", [True, False])
def test_the_command_evaluate_takes_no_rows_on_record(ledger, tmp_path, monkeypatch, named):
    MeanPrototypes().fit(private(), budget=BUDGET, ledger=ledger).save("model")
    MeanPrototypes().fit(private(1, name="other"), budget=BUDGET, ledger=ledger)
    for name, seed in (("mine", 0), ("other", 1), ("free", 2)):
        x, y = rows(seed=seed)
        np.savez(f"{name}.npz", x=x, y=np.array(CLASSES)[y])
    book = ("--ledger", tmp_path / "ledger.sqlite") if named else ()
    if named:
        monkeypatch.setenv("DPTRANSFER_LEDGER", str(tmp_path / "none.sqlite"))
    theirs = ("--set", "data.new_data_set=true")
    card = Path("model/README.md").read_text()
    for test, said in (("mine", ()), ("mine", theirs), ("other", ())):
        assert (
            "registered as"
            in run("evaluate", "model", f"{test}.npz", "--add-to-card", *said, *book, code=2).stderr
        )
    assert Path("model/README.md").read_text() == card
    run("evaluate", "model", "other.npz", *theirs, *book)
    run("evaluate", "model", "free.npz", "--add-to-card", *book)
    assert (read_evaluation("model").size, read_evaluation("model").public) == (None, False)
    protected = ("evaluate", "model", "other.npz", "--private", *SPEND, "--name", "third", *book)
    assert "'other'" in run(*protected, code=2).stderr
    run(*protected, *theirs)
