"""`dptransfer plan`: costs without data, settings from dataclass fields, clear refusals."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest

from dptransfer.cli.methods_command import method_from
from dptransfer.cli.options import settings_of
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods import METHODS, MeanPrototypes
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


def test_selections_state_epsilon_in_place_of_noise(cli_json):
    told = cli_json("plan", "-m", "top-k", "--set", "k=3", "--epsilon", "1", "-d", "0", *SIZES)
    (event,) = told["events"]
    assert (event["kind"], event["epsilon"]) == ("selection", 1.0)
    assert "noise_multiplier" not in event
    assert told["configuration"]["k"] == 3


def asks_private_rows(method):
    return method not in {"only-public", "language"}


@pytest.mark.parametrize("method", [name for name, kind in METHODS.items() if not kind.plans_by_facts])
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


@pytest.mark.parametrize(("epsilon", "steps"), [(1, 28), (3, 206)])
def test_as_many_steps_as_the_budget_allows(cli_json, epsilon, steps):
    words = ("--set", "noise_multiplier=20", "--epsilon", epsilon, "--delta", "1e-5")
    told = cli_json("plan", "--method", "noisy-gd", *words)
    assert told["steps"] == told["events"][0]["times"] == steps
    assert told["epsilon"] <= epsilon
    one_more = cli_json("plan", "--method", "noisy-gd", "--set", f"steps={steps + 1}", *words[2:])
    assert one_more["events"][0]["noise_multiplier"] > 20


def test_steps_are_rounds_and_one_shot_methods_have_none(cli_json):
    assert cli_json("plan", "-m", "noisy-gd", *BUDGET, "--set", "steps=1")["steps"] == 1
    assert cli_json("plan", "-m", "feature-covariance", *BUDGET, "--set", "steps=9")["steps"] == 9
    for method in ("mean", "public-prior", "least-squares", "only-public", "public"):
        assert cli_json("plan", "-m", method, *BUDGET)["steps"] is None


def test_options_of_the_linear_heads(cli_json):
    words = ("--set", "steps=50", "--set", "clip=0.5", "--set", "sampling_rate=0.2", "--set", "start=shots")
    told = cli_json("plan", "-m", "dpsgd", *BUDGET, *words, "--set", "pace.reach=20")
    (event,) = told["events"]
    assert (event["kind"], event["times"], event["sampling_rate"]) == ("sampled-gaussian", 50, 0.2)
    made = told["configuration"]
    assert (made["clip"], made["start"]["type"], made["pace"]["reach"]) == (0.5, "FromShots", 20.0)


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


def test_the_pool_gives_the_dimension(cli_json, data):
    words = ("--classes", "3", "--public", data / "pool.npz", "--set", "axes=5")
    told = cli_json("plan", "-m", "mean", *BUDGET, *words)
    assert told["dimension"] == 16
    assert told["configuration"]["features"] == {"type": "PublicMap", "axes": 5, "whitening": 0.25}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*BUDGET, *SIZES, "-m", "zzz"), "must be one of"),
        ((*SIZES, "--epsilon", "1", "--delta", "1"), "delta must"),
        ((*SIZES, "--epsilon", "nan"), "epsilon must"),
        ((*SIZES, "--epsilon", "1", "--budget", "rho=1"), "exactly one"),
        (SIZES, "exactly one"),
        ((*SIZES, "--epsilon", "1", "--delta", "0"), "pure"),
        ((*BUDGET, "--dim", "8", "-m", "auto"), "--classes"),
        ((*BUDGET, "--classes", "10", "-m", "auto"), "--dim"),
        ((*BUDGET, "--relation", "replace-one", *SIZES, "-m", "coinpress"), "--set data.class_counts="),
        ((*BUDGET, "--relation", "replace-one", "-m", "coinpress"), "--classes"),
        ((*BUDGET, "-m", "noisy-gd", "--set", "steps=0"), "steps must be"),
        ((*BUDGET, "-m", "noisy-gd", "--set", "clip=-1"), "clip must"),
        ((*BUDGET, "-m", "noisy-gd", "--set", "sampling_rate=0.1"), "'noisy-gd' has no 'sampling_rate'"),
        ((*BUDGET, "-m", "dpsgd", "--set", "sampling_rate=2"), "sampling_rate must lie in (0, 1]"),
        ((*BUDGET, "-m", "noisy-gd", "--set", "start=shot"), "Did you mean 'shots'?"),
        ((*BUDGET, "-m", "noisy-gd", "--set", "pace.rech=2"), "Did you mean 'reach'?"),
        ((*BUDGET, "-m", "noisy-gd", "--shots", "missing.emb"), "--shots: "),
        ((*BUDGET, "-m", "noisy-gd", "--set", "noise_multiplier=0.1"), "a larger noise multiplier"),
        ((*BUDGET, "-m", "noisy-gd", "--set", "noise_multiplier=20", "--set", "steps=29"), "29 steps"),
        ((*BUDGET, "-m", "adamix", "--set", "axes=64", "--set", "device=cuda"), "device must be one of"),
        ((*BUDGET, "-m", "global-adapt", "--set", "device=cuda"), "device must be one of"),
        ((*BUDGET, "-m", "feature-covariance", "--set", "device=cuda"), "device must be one of"),
        ((*BUDGET, "-m", "feature-covariance", "--set", "noise_multiplier=20"), "its own noise"),
        ((*BUDGET, "--classes", "1", "--dim", "8"), "--classes takes"),
        ((*BUDGET, "--classes", "a,a", "--dim", "8"), "distinct"),
        ((*BUDGET, "--classes", "missing.txt", "--dim", "8"), "a file of names"),
        ((*BUDGET, "--classes", "3", "--dim", "0"), "--dim"),
        ((*BUDGET, *SIZES, "--set", "data.class_counts=1,2"), "each class"),
        ((*BUDGET, *SIZES, "--set", "k=3"), "'mean' has no 'k'"),
        ((*BUDGET, *SIZES, "--set", "pool"), "--set takes field=value"),
        ((*BUDGET, *SIZES, "--set", "pool=many"), "must be of the type int"),
        ((*BUDGET, *SIZES, "--set", "pol=2"), "Did you mean 'pool'?"),
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


def set_on(name, *assignments):
    return method_from(name, settings_of(assignments, {})[0])


def test_feature_maps_by_name_and_field():
    assert set_on("mean", "pool=4").features == UnitNorm(pool=4)
    made = set_on("mean", "features=public-map", "features.whitening=0.5")
    assert made.features == PublicMap(whitening=0.5)
    assert set_on("mean", "axes=8", "whitening=0").features == PublicMap(axes=8, whitening=0.0)
    with pytest.raises(ArgumentError, match="axes and pool"):
        set_on("mean", "axes=8", "pool=2")


@dataclasses.dataclass(frozen=True)
class Later(MeanPrototypes):
    """A method that somebody adds later, with fields of all kinds."""

    rounds: int | None = None
    mode: str = "plain"
    strict: bool = False
    shares: tuple[float, ...] = (1.0,)
    axes: int = 3
    inner: object = None
    name: ClassVar[str] = "later"


def test_fields_of_methods_to_come_are_options_at_once(cli_json):
    later = f"{__name__}:Later"
    assert cli_json("plan", "-m", later, "--set", "rounds=4", *BUDGET)["configuration"]["rounds"] == 4
    made = set_on(later, "rounds=4", "mode=7", "strict=true", "shares=0.5, 0.5", "axes=9")
    assert made == Later(rounds=4, mode="7", strict=True, shares=(0.5, 0.5), axes=9)
    assert set_on(later, "rounds=null").rounds is None
    with pytest.raises(ArgumentError, match="'strict' must be"):
        set_on(later, "strict=perhaps")


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


def test_a_budget_that_promises_nothing_is_refused(cli):
    for words in (("--epsilon", "1e308", "--delta", "1e-5"), ("--epsilon", "1", "--delta", "0.5")):
        done = cli("plan", "-m", "mean", *words, *SIZES, code=2)
        assert done.stderr.startswith("Error: ")
        assert len(done.stderr.splitlines()) == 1


def test_a_plan_for_persons_says_so_and_reads_nothing(cli, cli_json):
    told = cli_json("plan", "-m", "mean", *BUDGET, *SIZES, "--person", "patient")
    rows = cli_json("plan", "-m", "mean", *BUDGET, *SIZES, "--person", "none")
    assert [one["events"][0].get("unit") for one in (told, rows)] == ["person", None]
    assert told["events"][0]["noise_multiplier"] == rows["events"][0]["noise_multiplier"]
    said = " ".join(cli("plan", "-m", "mean", *BUDGET, *SIZES, "--person", "absent.csv").output.split())
    assert "adding or removing" in said
    assert "in every answer" in said


def test_what_is_declared_about_persons_reaches_the_plan(cli, cli_json):
    words = ("plan", "-m", "mean", *BUDGET, *SIZES)
    bound = ("--set", "data.person_bound=2", "--set", "data.rows_per_person=6")
    told = cli_json(*words, "--person", "patient", *bound)
    assert told["events"][0]["sensitivity"] == pytest.approx(2 * cli_json(*words)["events"][0]["sensitivity"])
    assert "without people" in cli(*words, *bound, code=2).stderr
    assert "person_bound must" in cli(*words, "--set", "data.person_bound=0", code=2).stderr


def test_a_method_that_bounds_rows_alone_has_no_plan_for_persons(cli):
    words = ("-m", "coinpress", *BUDGET, "--relation", "replace-one", "--set", "data.class_counts=50,50")
    cli("plan", *words, "--dim", "8")
    said = cli("plan", *words, "--dim", "8", "--person", "patient", code=2).stderr
    assert "one example contributes" in said


def test_a_pool_that_is_not_encoded_is_planned_for_as_rows_of_the_encoder(cli, cli_json, tmp_path):
    flat = pictures(tmp_path / "pool", 40) / "cat"
    words = ("plan", *BUDGET, "--classes", "10", "--public")
    told = cli_json(*words, flat)
    assert (told["method"], told["dimension"]) == ("public-prior", 1280)
    assert "'efficientnet-lite0', 1280 wide" in told["notes"][0]
    (tmp_path / "pool.txt").write_text("one\ntwo\n")
    assert cli_json(*words, tmp_path / "pool.txt")["dimension"] == 384
    assert "small-cnn" in cli(*words, flat, "--encoder", "small-cnn").stdout
    assert cli_json(*words, flat, "--dim", "1280") == told
    assert "encoder are, 1280; got 64" in cli(*words, flat, "--dim", "64", code=2).stderr.replace("\n", " ")
    with_rows = cli_json("plan", "-m", "public-prior", *BUDGET, *SIZES)
    assert told["events"][0]["kind"] == with_rows["events"][0]["kind"]
    assert (
        "encode it first"
        in cli_json(*words[:-3], "--classes", "cat,dog", "--public", flat.parent)["notes"][0]
    )
    (tmp_path / "pool.txt").write_text("a word\n" * 200)
    pure = ("plan", "-e", "1", "-d", "0", "--classes", "10", "--public", tmp_path / "pool.txt")
    assert "Encode it first" in cli(*pure, code=2).stderr
    assert "known when it" in cli(*words, flat, "--encoder", "hf:a/b", code=2).stderr
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
