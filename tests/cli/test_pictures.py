"""Methods that see pixels on the command line: folders of pictures in, a release out, nothing said of any."""

import shutil
import tempfile

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from contracts.mixers import REFUSED
from dptransfer.api import image_source as module
from dptransfer.api.fit import Fit
from dptransfer.api.image_source import private_images, public_images
from dptransfer.api.source import Source
from dptransfer.cli.commands import app
from dptransfer.encoders import Reading
from dptransfer.errors import DataError
from dptransfer.methods import Auto, MeanPrototypes
from dptransfer.methods.auto import AutoOnPictures
from dptransfer.privacy import Budget
from dptransfer.release import read_evaluation, read_release
from dptransfer.sources import PrivateImages, find_images

pytest.importorskip("torch")

COLOURS = ("blue", "green", "red")
FILM = "-m film --encoder small-cnn --image-size 8 --set steps=12 --set sampling_rate=1".split()
BUDGET = ("-e", "8", "-d", "1e-5")


def photographed(folder, count, seed, *, size=12):
    """A folder per colour, and in it one per person, as class/person/picture."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        pixels = rng.integers(0, 100, (size, size, 3))
        pixels[..., 2 - number % 3] += 140
        home = folder / COLOURS[number % 3] / f"person {number % 5}"
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(home / f"{number:03}.png")
    return folder


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    photographed(folder / "private", 60, 0)
    photographed(folder / "test", 15, 1)
    photographed(folder / "pool", 9, 2)
    return folder


@pytest.fixture(scope="module")
def fitted(photos, tmp_path_factory):
    """A release of FiLM, tested as it was fitted, and its ledger."""
    folder = tmp_path_factory.mktemp("release")
    words = ["fit", photos / "private", *FILM, *BUDGET, "--test", photos / "test", "--name", "photos"]
    words += ["-o", folder / "model", "--ledger", folder / "ledger.sqlite"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def film(fitted):
    return fitted / "model"


def test_a_folder_is_fitted_tested_predicted_evaluated_and_verified(cli, cli_json, film, photos, charges):
    model = read_release(film)
    assert (model.provenance.method, model.facts.shape, model.classes) == ("film", (8, 8, 3), COLOURS)
    (charge,) = charges(film.with_name("ledger.sqlite"))
    assert charge.events == model.events
    told = cli_json("evaluate", film, photos / "test")
    assert told["balanced_accuracy"] > 0.6
    assert f"{told['balanced_accuracy']:.1%}" in cli("card", film).stdout  # as when it was fitted
    answers = cli_json("predict", film, photos / "test")
    right = [one["label"] in one["input"].rsplit("/", 3)[1] for one in answers]
    assert np.mean(right) == told["accuracy"]
    assert "steps" in cli("verify", film).stdout
    assert sorted(one.name for one in photos.iterdir()) == ["pool", "private", "test"]
    left = sorted(one.name for one in film.parent.iterdir())
    assert left == ["ledger.sqlite", "ledger.sqlite.key", "model"]


def test_a_plan_needs_no_pictures_and_costs_what_the_fit_does(cli_json, film):
    plan = cli_json("plan", *FILM, *BUDGET, "--classes", "3")
    model = read_release(film)
    assert plan["shape"] == [8, 8, 3]
    assert plan["epsilon"] == pytest.approx(model.guarantee.epsilon)
    assert plan["events"][0]["noise_multiplier"] == model.events[0].noise_multiplier


def test_a_private_test_on_pictures_is_charged_and_leaves_nothing(cli_json, film, photos, tmp_path, charges):
    copy = shutil.copytree(film, tmp_path / "model")
    told = cli_json("evaluate", copy, photos / "test", "--private", "-e", "4", "--name", "testers")
    assert told["added_to_card"]
    assert len(charges()) == 1
    assert sorted(one.name for one in photos.iterdir()) == ["pool", "private", "test"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--public {data}/pool.npz", "'film' takes images"),
        ("--shots {data}/shots.npz", "--shots and"),
        ("--set data.split=train", "data.split is"),
        ("--set encoder=small-cnn", "'encoder' is there twice"),
        ("--tune clip=0.1,0.3 --set tune_on_public=true", "made of public rows"),
        ("--encoder no-such-thing", "no-such-thing"),
        ("--text-column f", "--text-column and"),
        ("--test {photos}/private", "must name other data"),
        ("--public {scans}", "--grey-range"),
        ("--public {damaged}", "000.png"),
    ],
)
def test_what_is_public_and_wrong_is_said_before_anything_is_charged(
    cli, data, photos, scans, tmp_path, words, said, charges
):
    damaged = photographed(tmp_path / "damaged", 9, 4)
    (damaged / "blue" / "person 0" / "000.png").write_bytes(b"no picture")
    given = words.format(data=data, photos=photos, scans=scans, damaged=damaged).split(" ")
    done = cli("fit", photos / "private", *FILM, *BUDGET, "--name", "photos", *given, code=2)
    assert said in done.stderr
    assert charges() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*FILM, "--dim", "40"), "--dim is about"),
        ((*FILM, "--public", "{data}/pool.npz"), "takes images"),
        ((*FILM, "--shots", "{data}/shots.npz"), "--shots is about"),
        (("-m", "mean", "--image-size", "8"), "methods on images"),
    ],
)
def test_a_plan_refuses_what_is_about_the_other_kind(cli, data, words, said):
    given = [word.format(data=data) for word in words]
    assert said in cli("plan", *given, *BUDGET, code=2).stderr


def test_an_unreadable_private_picture_is_black_without_a_word(cli, photos, tmp_path):
    for name in ("whole", "broken"):
        photographed(tmp_path / name, 12, 3)
    victim = next((tmp_path / "whole").rglob("*.png"))
    Image.new("RGB", (12, 12)).save(victim)
    (tmp_path / "broken" / victim.relative_to(tmp_path / "whole")).write_bytes(b"no picture")
    told = [
        cli("fit", tmp_path / name, *FILM, *BUDGET, "--name", "photos", "-o", tmp_path / "models" / name)
        for name in ("whole", "broken")
    ]
    assert [one.stderr for one in told] == ["", ""]
    whole, broken = (one.stdout.splitlines()[:4] for one in told)
    assert [line.replace("whole", "broken").replace("entry 1", "entry 2") for line in whole] == broken
    black, unread = (private_images(Source(tmp_path / name), 8, None) for name in ("whole", "broken"))
    assert black.fingerprint == unread.fingerprint


@pytest.fixture
def scans(tmp_path):
    return scanned(tmp_path / "scans", 0)


def scanned(folder, seed):
    """Bright and dark pictures of twelve bits in sixteen, which nothing in their files tells."""
    rng = np.random.default_rng(seed)
    for number in range(12):
        home = folder / ("bright" if number % 2 else "dark")
        home.mkdir(parents=True, exist_ok=True)
        shades = rng.integers(0, 1500, (12, 12)) + 2500 * (number % 2)
        Image.fromarray(shades.astype(np.uint16)).save(home / f"{number:02}.png")
    return folder


def test_a_private_set_that_would_be_all_black_is_refused_before_the_charge(cli, scans, photos, charges):
    said = cli("fit", scans, *FILM, *BUDGET, "--name", "scans", "-o", "model", code=2).stderr
    assert "these are black" in said
    assert "--grey-range" in said
    assert charges() == []
    shutil.copy(next((photos / "private").rglob("*.png")), scans / "dark")  # single ones are not told of
    assert cli("fit", scans, *FILM, *BUDGET, "--name", "scans", "-o", "model").stderr == ""


@pytest.mark.parametrize("place", REFUSED)
def test_a_network_that_mixes_pictures_is_refused_before_the_charge(cli, photos, place, charges):
    how = ("-m", "film", "--encoder", place, "--image-size", "16")
    said = cli("fit", photos / "private", *how, *BUDGET, "--name", "photos", "-o", "model", code=2).stderr
    assert "picture" in said
    assert charges() == []


def test_a_declared_grey_range_goes_from_a_fit_to_its_test_and_its_predictions(cli, cli_json, scans):
    greys, again = ("--grey-range", "0,4095"), scanned(scans.with_name("test"), 1)
    cli("fit", scans, *FILM, *BUDGET, *greys, "--name", "scans", "--test", again, "-o", "model")
    released = read_release("model")
    assert released.encoder.grey_range == (0.0, 4095.0)
    assert len(cli_json("predict", "model", scans)) == 12
    assert cli_json("evaluate", "model", again)["accuracy"] == read_evaluation("model").accuracy
    plan = cli_json("plan", *FILM, *BUDGET, *greys, "--classes", "2", "--public", scans)
    assert plan["configuration"]["grey_range"] == [0.0, 4095.0]


def test_a_model_that_is_paid_for_is_not_lost_where_its_test_fails(cli, photos, monkeypatch, charges):
    def fails(*_):
        raise DataError("The encoder is gone.")

    monkeypatch.setattr("dptransfer.methods.ImageMethod.encoder_after", fails)
    words = ("--test", photos / "test", "--name", "photos", "-o", "model")
    assert "encoder is gone" in cli("fit", photos / "private", *FILM, *BUDGET, *words).stderr
    assert read_release("model").provenance.method == "film"
    assert len(charges()) == 1


def test_a_release_of_pictures_is_attacked_with_pictures_that_leave_no_rows(cli, cli_json, film, photos):
    told = cli_json("attack", film, "--members", photos / "private", "--others", photos / "test")
    assert (told["members"], told["others"]) == (60, 15)
    assert sorted(one.name for one in photos.iterdir()) == ["pool", "private", "test"]
    words = ("--members", photos / "private", "--others", photos / "test", "--person", "folder")
    assert "this protects rows" in cli("attack", film, *words, code=2).stderr


def test_rows_of_the_encoder_as_it_was_are_refused_with_what_to_give(cli, film, photos):
    cli("encode", photos / "test", "--encoder", "small-cnn", "--image-size", "8", "-o", "plain.emb")
    assert "the pictures themselves" in cli("predict", film, "plain.emb", code=2).stderr


def test_pictures_are_read_once_into_a_file_without_a_name(photos, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "_AT_A_TIME", 7)
    read = private_images(Source(photos / "private", name="photos", declared={"size": 60}), 8, None)
    assert list(tmp_path.iterdir()) == []
    files = PrivateImages(find_images(photos / "private"), resolution=8)
    assert (read.pixels[:] == files.pixels[:]).all()
    assert read.fingerprint == files.fingerprint
    assert read.facts.size == 60
    public = public_images(Source(photos / "pool"), 8, None)
    assert (public.name, len(public), public.sources[0]) == ("pool", 9, "blue/person 0/000.png")


def test_a_full_disk_is_said_in_words(photos, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(DataError, match="No space left"):
        public_images(Source(photos / "pool"), 8, None)


def chosen(photos, method="auto", public=None, size=30_000, classes=None, people=None, budget=None, **how):
    """What 'auto' is for the photos, with a GPU and a declared number."""
    reading = Reading(**{"encoder": "efficientnet-lite0", "size": 96, "device": "cuda", **how})
    source = Source(
        photos / "private", classes=classes, people=people, reading=reading, declared={"size": size}
    )
    allowed = budget or Budget(epsilon=1.0, delta=1e-5)
    return Fit(source, allowed, method, Source(public or photos / "pool")).resolved_method()


def test_auto_sees_pixels_where_a_gpu_the_encoder_and_declared_numbers_speak_for_it(photos, tmp_path):
    assert chosen(photos) == AutoOnPictures(encoder="efficientnet-lite0", size=96, device="cuda")
    assert chosen(photos, encoder=None, grey_range=(0.0, 9.0)).grey_range == (0.0, 9.0)
    for changes in (
        {"size": 3},
        {"people": "folder"},
        {"size": None},
        {"budget": Budget(epsilon=1.0)},
        {"device": None},
        {"device": "cpu"},
        {"encoder": "small-cnn"},
        {"public": tmp_path / "pool.emb"},
        {"method": Auto(candidates=(MeanPrototypes(),))},
        {"method": MeanPrototypes()},
    ):
        assert isinstance(chosen(photos, **changes), Auto | MeanPrototypes), changes
    many = tuple(f"class {number}" for number in range(1000))
    assert chosen(photos, classes=many) == Auto()
    assert chosen(photos, classes=COLOURS) == chosen(photos)


def test_a_pool_of_pictures_is_encoded_to_forecast_accuracies(cli, photos, encoder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = np.random.default_rng(1)
    (tmp_path / "pool").mkdir()
    for number in range(210):
        picture = np.full((4, 4, 3), rng.integers(0, 256, 3), np.uint8)
        Image.fromarray(picture).save(tmp_path / "pool" / f"{number}.png")
    words = ("check", photos, "--public", tmp_path / "pool", "--encoder", encoder)
    assert "--forecast" in cli(*words).stdout
    assert "Worst class" in cli(*words, "--forecast").stdout
    cli("check", photos, "--public", photos / "red", "--encoder", encoder, "--forecast", code=2)
