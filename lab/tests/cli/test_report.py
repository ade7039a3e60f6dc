import numpy as np
import pytest

from dptransfer.data.emb_folder import RowMetadata, write_embeddings

from ..synthetic import folder, grid

QUICK = ("--rows", "300", "--epsilons", "0.5,8", "--methods", "mean")


@pytest.fixture
def pool(tmp_path):
    rows = np.random.default_rng(0).normal(size=(200, 12))
    return write_embeddings(tmp_path / "pool.emb", rows, RowMetadata(public=True))


LABELS = np.repeat([0, 1, 2], 12)
ROWS = 4 * np.eye(3, 12)[LABELS] + np.random.default_rng(1).normal(size=(36, 12))


@pytest.fixture
def sample(tmp_path):
    metadata = RowMetadata(LABELS, classes=["a", "b", "c"], public=True)
    return write_embeddings(tmp_path / "sample.emb", ROWS, metadata)


def test_report_writes_its_files_and_names_them(cli, cli_json, tmp_path):
    results = folder(tmp_path / "sweep", grid(("mean",), epsilons=(1.0, 2.0), seeds=2))
    said = cli("bench", "report", results, "--paper").stdout
    assert all(name in said for name in ("report.html", "report.md", "paper'"))
    assert (results / "report.html").is_file()
    assert list((results / "figures").glob("*.png"))
    assert list((results / "paper").glob("*.pdf"))
    found = cli_json("bench", "report", results, "--out", tmp_path / "there")
    assert found == {"reports": [str(tmp_path / "there" / name) for name in ("report.html", "report.md")]}
    assert "holds none" in cli("bench", "report", tmp_path, code=2).stderr


@pytest.mark.parametrize("public", ["{pool}", "demo"])
def test_explore_predicts_from_a_pool_and_says_so(cli, pool, tmp_path, public):
    words = ("bench", "explore", "--public", public.format(pool=pool), "--classes", "3", *QUICK)
    said = cli(*words, "--out", tmp_path / "figures").stdout
    assert "PREDICTION" in said
    assert "No private row" in said
    assert (tmp_path / "figures" / "explore.svg").is_file()


def test_explore_takes_classes_from_a_sample(cli_json, sample):
    found = cli_json("bench", "explore", "--sample", sample, *QUICK)
    lines = found["prediction"]
    assert [line["epsilon"] for line in lines] == [0.5, 8.0]
    assert all(line["lowest"] <= line["mean"] <= line["highest"] for line in lines)
    assert all(line["lowest"] <= line["median"] <= line["highest"] for line in lines)
    assert lines[1]["median"] > 0.9
    assert "3 classes, 300 rows" in found["how"]
    assert found["files"] == []


def test_explore_predicts_for_people(cli, cli_json, sample):
    people = ("bench", "explore", "--sample", sample, *QUICK, "--people", "30")
    found = cli_json(*people)
    assert found["unit"] == "person"
    assert "300 rows of 30 people" in found["how"]
    assert "ε per person" in cli(*people).stdout
    assert cli_json("bench", "explore", "--sample", sample, *QUICK)["unit"] == "row"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "needs public rows"),
        (("--public", "{pool}"), "number of classes"),
        (("--public", "{pool}", "--classes", "3", "--epsilons", "1,x"), "numbers"),
        (("--public", "{pool}", "--classes", "3", "--dim", "99"), "--dim"),
        (("--public", "{pool}", "--classes", "3", "--methods", "meen"), "mean"),
    ],
)
def test_explore_explains_what_is_missing(cli, pool, words, message):
    given = [word.format(pool=pool) for word in words]
    assert message in cli("bench", "explore", *given, code=2).stderr
