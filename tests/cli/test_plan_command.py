"""`dptransfer plan`: costs without data, settings from dataclass fields, clear refusals."""

import numpy as np
import pytest

from dptransfer.methods import METHODS
from dptransfer.methods.heads.public_start import IN_CODES, UNMEASURED
from dptransfer.sources import PrivateImages
from encoders.toys import pictures

SIZES = ("--classes", "10", "--dim", "1280")
BUDGET = ("--epsilon", "1", "--delta", "1e-5")


def test_json_has_the_agreed_shape(cli_json):
    told = cli_json("plan", "-m", "mean", *BUDGET, *SIZES)
    assert (told["method"], told["delta"], told["relation"]) == ("mean", 1e-5, "add/remove")
    assert 0.999 < told["epsilon"] <= 1
    (event,) = told["events"]
    assert event["kind"] == "gaussian"
    assert event["noise_multiplier"] == pytest.approx(3.7306, abs=1e-3)
    assert event["scale"] == event["noise_multiplier"] * event["sensitivity"]
    assert set(told["attack"]["true_positive_rate"]) == {"0.01", "0.001"}


def asks_private_rows(method):
    return method not in {"only-public", "language"}


@pytest.mark.parametrize("method", ["mean", "noisy-gd", "top-k", "only-public", "film"])
def test_every_method_plans_with_and_without_stand_ins(cli_json, method):
    pictures = METHODS[method].takes is PrivateImages
    size = ("--image-size", "40") if pictures else ("--dim", "40")
    told = cli_json("plan", "-m", method, *BUDGET, "--classes", "7", *size)
    assert bool(told["events"]) == asks_private_rows(method)
    assert (told["classes"], told["assumed"]) == (7, [])
    assert told["shape"] == ([40, 40, 3] if pictures else [40])
    assert told["dimension"] == (None if pictures else 40)
    guessed = cli_json("plan", "-m", method, *BUDGET)
    assert guessed["epsilon"] == pytest.approx(told["epsilon"], abs=1e-6)
    assert guessed["steps"] == told["steps"]
    assert guessed["assumed"] == ["classes", "shape" if pictures else "dimension"]
    assert ("224 × 224" if pictures else "1280") in guessed["notes"][-1]


def test_the_methods_that_plan_by_facts_are_these():
    assert {name for name, kind in METHODS.items() if kind.plans_by_facts} == {"auto", "coinpress"}


def test_shots_give_classes_and_width(cli_json, data):
    told = cli_json("plan", "-m", "adamix", *BUDGET, "--shots", data / "test.npz")
    assert (told["classes"], told["dimension"], told["assumed"]) == (3, 16, [])
    both = ("--shots", data / "test.npz", "--public", data / "pool.npz", "--classes", "cat,dog,bird,cow")
    told = cli_json("plan", "-m", "adamix", *BUDGET, *both)
    assert (told["classes"], told["pool"]) == (4, None)  # a small one is not spoken of


def test_replace_one_with_declared_counts_which_say_how_many_classes_there_are(cli_json):
    words = ("--relation", "replace-one", "--dim", "8", "--set", "data.class_counts=30,20")
    told = cli_json("plan", "-m", "coinpress", *BUDGET, *words, "--set", "shares=0.25,0.75")
    assert (told["relation"], told["classes"], told["assumed"]) == ("replace-one", 2, [])
    assert len(told["events"]) == 2


@pytest.mark.parametrize("currency", ["rho", "mu"])
def test_other_currencies(cli_json, currency):
    told = cli_json("plan", "-m", "mean", "--budget", f"{currency}=0.5", *SIZES)
    assert told["guarantee"][currency] == pytest.approx(0.5, rel=1e-4)
    assert told["delta"] == 1e-5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*SIZES, "--epsilon", "1", "--budget", "rho=1"), "exactly one"),
        ((*BUDGET, "--dim", "8", "-m", "auto"), "--classes"),
        ((*BUDGET, "--classes", "10", "-m", "auto"), "--dim"),
        ((*BUDGET, "--relation", "replace-one", *SIZES, "-m", "coinpress"), "--set data.class_counts="),
        ((*BUDGET, "--relation", "replace-one", "-m", "coinpress"), "--classes"),
        ((*BUDGET, "-m", "noisy-gd", "--shots", "missing.emb"), "--shots: "),
        ((*BUDGET, "--classes", "3", "--dim", "0"), "--dim"),
        ((*BUDGET, *SIZES, "--set", "k=3"), "'mean' has no 'k'"),
        ((*BUDGET, *SIZES, "--public", "missing.emb"), "must exist"),
        ((*BUDGET, "--classes", "3", "--dim", "8", "--public", "{data}/pool.npz"), "one dimension"),
        ((*BUDGET, "-m", "adamix", "--shots", "{data}/pool.npz"), "--shots needs"),
        (
            (*BUDGET, "-m", "adamix", "--shots", "{data}/other.npz", "--public", "{data}/pool.npz"),
            "one dimension",
        ),
    ],
)
def test_refusals(cli, data, words, said):
    method = () if "-m" in words else ("-m", "mean")
    assert said in cli("plan", *method, *[one.format(data=data) for one in words], code=2).stderr


@pytest.mark.filterwarnings("default::dptransfer.errors.PrivacyWarning")
@pytest.mark.parametrize(
    ("words", "about"),
    [(("--epsilon", "20", "--delta", "1e-5"), "epsilon"), ((*BUDGET, "--set", "data.size=50000"), "delta")],
)
def test_a_budget_that_promises_little_is_one_line_on_standard_error(cli, words, about):
    done = cli("plan", "-m", "mean", *words, *SIZES)
    (line,) = done.stderr.splitlines()
    assert line.startswith("Warning: ")
    assert about in line
    assert "Warning" not in done.stdout


def test_a_plan_for_persons_says_so_and_reads_nothing(cli, cli_json):
    told = cli_json("plan", "-m", "mean", *BUDGET, *SIZES, "--person", "patient")
    rows = cli_json("plan", "-m", "mean", *BUDGET, *SIZES, "--person", "none")
    assert [one["events"][0].get("unit") for one in (told, rows)] == ["person", None]
    assert told["events"][0]["noise_multiplier"] == rows["events"][0]["noise_multiplier"]
    said = " ".join(cli("plan", "-m", "mean", *BUDGET, *SIZES, "--person", "absent.csv").output.split())
    assert "adding or removing" in said
    assert "in every answer" in said


def test_a_pool_that_is_not_encoded_is_planned_for_as_rows_of_the_encoder(cli, cli_json, tmp_path):
    flat = pictures(tmp_path / "pool", 40) / "cat"
    words = ("plan", *BUDGET, "--classes", "10", "--public")
    told = cli_json(*words, flat)
    assert (told["method"], told["dimension"]) == ("public-prior", 1280)
    assert "'efficientnet-lite0', 1280 wide" in told["notes"][0]
    (tmp_path / "pool.txt").write_text("one\ntwo\n")
    assert cli_json(*words, tmp_path / "pool.txt")["dimension"] == 384
    texts = ("plan", *BUDGET, "--public", tmp_path / "pool.txt", "--classes")
    named, coded = (cli_json(*texts, names) for names in ("lost card,refund", "C34.1,C34.2"))
    assert "class names" in named["events"][0]["label"]
    assert "class names" not in coded["events"][0]["label"]
    assert IN_CODES in coded["notes"][0]
    assert UNMEASURED in named["notes"]
    off = cli_json(*texts, "lost card,refund", "-m", "public-prior", "--set", "names=off")
    assert off["events"][0]["label"] == coded["events"][0]["label"]
    assert "small-cnn" in cli(*words, flat, "--encoder", "small-cnn").stdout
    assert cli_json(*words, flat, "--dim", "1280") == told
    assert "1280 wide; got --dim 64" in cli(*words, flat, "--dim", "64", code=2).stderr.replace("\n", " ")
    with_rows = cli_json("plan", "-m", "public-prior", *BUDGET, *SIZES)
    assert told["events"][0]["kind"] == with_rows["events"][0]["kind"]
    assert (
        "encode it first"
        in cli_json(*words[:-3], "--classes", "cat,dog", "--public", flat.parent)["notes"][0]
    )
    (tmp_path / "pool.txt").write_text("a word\n" * 200)
    pure = ("plan", "-e", "1", "-d", "0", "--classes", "10", "--public", tmp_path / "pool.txt")
    assert "Encode it first" in cli(*pure, code=2).stderr
    assert "its rows are" in cli(*words, flat, "--encoder", "hf:a/b", code=2).stderr
    assert "is for a pool" in cli("plan", *BUDGET, *SIZES, "--encoder", "minilm", code=2).stderr


@pytest.fixture
def shards(tmp_path, monkeypatch):
    """A folder of rows, one of which a fit would refuse: a plan does not go through them."""
    rows = np.random.default_rng(0).normal(size=(600, 4)).astype(np.float32)
    rows[7] = np.nan
    for number, part in enumerate(np.split(rows, 3)):
        (tmp_path / "pool").mkdir(exist_ok=True)
        np.save(tmp_path / "pool" / f"{number}.npy", part)
    monkeypatch.setattr("dptransfer.base.workers._PIECE_BYTES", 3200)
    return tmp_path / "pool"


def test_plan_says_what_going_through_a_large_pool_takes(cli, cli_json, shards):
    words = ("plan", "-m", "public", *BUDGET, "--classes", "2", "--public", shards)
    said = cli(*words, "--engine", "processes", "--workers", "2").stdout
    assert "600 rows in 6 pieces" in said
    assert "no data.size" in said
    assert "each of 3 processes" in said
    told = cli_json(*words, "--set", "data.size=30")["pool"]
    assert (told["pieces"], told["private_rows"], told["processes"]) == (6, 30, 1)
    assert [one["name"] for one in told["passes"]] == ["checking", "scoring", "looking up"]
    assert "data.size" not in cli(*words, "--set", "data.size=30").stdout


def test_a_plan_of_auto_without_a_pool_names_what_a_fit_with_one_takes(cli_json, cli, data):
    words = ("plan", "-e", "1", "-d", "1e-5", "--classes", "3", "--dim", "16")
    for more in ((), ("--person", "folder", "--holdout", "0.2")):
        alone = cli_json(*words, *more)
        (note,) = [one for one in alone["notes"] if "--public" in one]
        fitted = cli_json(*words, *more, "--public", data / "pool.npz")["method"]
        assert fitted != alone["method"]
        assert f"'{fitted}'" in note
        assert not [
            one for one in cli_json(*words, "--public", data / "pool.npz")["notes"] if "--public" in one
        ]
    assert not [one for one in cli_json(*words, "--method", "mean")["notes"] if "--public" in one]
