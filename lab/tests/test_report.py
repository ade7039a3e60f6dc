import json
import re

import pytest

from dptransfer.errors import DataError
from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.report import drawings_of, write_report

from .synthetic import cells, folder, grid, measured_losses, record

CLAIM = {"text": "Public is better.", "source": "Section 9"} | {
    "kind": "above",
    "left": "public",
    "right": "mean",
}


NONE = [{"kind": "cost"}]  # a figure that these results do not have: drawing takes most of the time


def sketched(path, figures):
    """A sweep with everything that a report tells of."""
    records = [
        *grid(("mean", "public"), epsilons=(0.5, 2.0), seeds=3, imbalance=[1.0, 10.0]),
        *grid(("coinpress",), epsilons=(0.5,), seeds=3, status="refused", message="No sizes declared."),
        record("dpsgd", epsilon=0.5, status="failed", message="MemoryError"),
        *grid(("public",), epsilons=(0.5, 2.0), seeds=3, label="tuned", oracle_tuned=True),
    ]
    return folder(path, records, {"claim": [CLAIM], "figure": figures})


@pytest.fixture
def results(tmp_path):
    return sketched(tmp_path / "sweep", NONE)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Its report, to be read alone."""
    figures = [{"kind": "curves", "over": "imbalance"}]
    return write_report(sketched(tmp_path_factory.mktemp("report") / "sweep", figures))


def test_the_report_can_be_read_by_someone_who_was_not_there(written):
    said = (
        "A sketch", "34 of 34 cells", "4 of 4 settings, by", "30 done, 1 failed, 3 refused", "3 seeds",
        "No sizes declared.", "MemoryError", "ORACLE-TUNED", "runs repeat: no", "tuned [oracle-tuned]",
        "is better. (Section 9)", "confirmed", "dptransfer bench run", "ab" * 32, "cd" * 32, "transfer 0.1.0",
    )  # fmt: skip
    for file in written:
        text = re.sub(r"<[^>]+>|[*\\]", "", file.read_text())
        assert re.search("Cells:? ?30 of 34 finished", text)
        assert [words for words in said if words not in text] == []


def test_losses_of_rows_come_with_a_warning(tmp_path):
    asked = {"figure": [{"kind": "instance-loss"}]}
    home = folder(tmp_path / "losses", measured_losses(), asked)
    for report in write_report(home):
        text = report.read_text()
        assert "privacy loss at ε = 1" in text
        assert text.count("must not be published with a release") == 2  # at the table and in the caption
    assert list((home / "figures").glob("instance-loss-1-flowers-*.svg"))


def test_a_sweep_that_is_not_finished_says_so(results):
    lines = (results / "results.jsonl").read_text().splitlines()
    (results / "results.jsonl").write_text("\n".join(lines[:20]) + "\n")
    html, _ = write_report(results)
    assert "finished: 14 cells have" in html.read_text()


def test_several_studies_share_a_page_and_one_can_be_asked_for(results, tmp_path):
    records = grid(("mean",), epsilons=(0.5, 2.0), seeds=2, study="second", data="birds")
    other = folder(tmp_path / "other", records, {"figure": [{"kind": "curves"}]})
    lines = (other / "results.jsonl").read_text()
    with (results / "results.jsonl").open("a") as stream:
        stream.write(lines)
    (results / "studies" / "second.json").write_text((other / "studies" / "second.json").read_text())
    both = write_report(results)[0].read_text()
    assert "second: Results" in both
    assert "sketch: Results" in both
    assert "Results in sweep" in both
    files = {path.name for path in (results / "figures").glob("*.svg")}
    assert {name.split("-")[0] for name in files} == {"second"}  # each name begins with its study's
    one = write_report(results, study="second", out=tmp_path / "out")[0]
    assert one == tmp_path / "out" / "report.html"
    assert "birds" in one.read_text()
    assert "flowers" not in one.read_text().replace("flowers (lite0)", "")  # but for the fingerprint's name
    with pytest.raises(DataError, match="third"):
        write_report(results, study="third")


def test_hostile_names_stay_words_in_every_form(tmp_path):
    name = "<img src=x onerror=alert(1)> | $\\input{a}$ _*`"
    records = grid(("public",), epsilons=(0.5, 2.0), seeds=1, data=name)
    records += grid(("mean",), epsilons=(0.5, 2.0), seeds=1, data=name, label=name)
    results = folder(tmp_path / "a", records, {"figure": [{"kind": "curves"}]})
    html, markdown, paper = write_report(results, out=tmp_path / "out", paper=True)
    assert paper == tmp_path / "out" / "paper"
    assert {path.suffix for path in paper.iterdir()} == {".pdf", ".tex"}
    assert "\\toprule" in (paper / "results.tex").read_text()
    assert "<img src=x" not in html.read_text()
    assert "<img src=x" not in markdown.read_text().replace("\\<", "")
    assert all(re.fullmatch(r"[a-z0-9-]+\.\w+", path.name) for path in paper.iterdir())
    assert "\\input{" not in "".join(path.read_text() for path in paper.glob("*.tex"))


def test_a_built_in_study_is_run_again_by_its_name(tmp_path):
    from dptransfer_lab.catalogue import built_in
    from dptransfer_lab.study import parse_study

    path = folder(tmp_path / "a", [record("mean", study="demo", status="refused", message="no")])
    file = path / "studies" / "demo.json"
    whole = json.loads(file.read_text())
    assert "demo.toml --out a" in write_report(path)[1].read_text()
    whole["digest"] = parse_study(built_in()["demo"]).digest
    file.write_text(json.dumps(whole))
    assert "bench run demo" in write_report(path)[1].read_text()


def test_the_report_tells_people_from_rows(tmp_path):
    people = {"people": 1200}
    records = grid(("mean", "public"), seeds=2, unit=["row", "person"], extra=people)
    write_report(folder(tmp_path / "sweep", records, {"figure": [{"kind": "curves", "over": "unit"}]}))
    text = (tmp_path / "sweep" / "report.md").read_text()
    assert "16 one example; 16 one" in text
    assert re.search(r"\| people \|", text)
    assert "1,200 people" in text


def names(records, study=None):
    frame = cells(records)
    return [drawing.name for drawing in drawings_of(frame, styles_of(frame), study or {})]


def test_what_the_results_have_is_drawn():
    found = names(grid(("mean", "public"), epsilons=(0.5, 2.0), seeds=2, imbalance=[1.0, 10.0]))
    assert [name.split("-")[0] for name in found] == ["balanced", "minority", "best"]
    assert len(set(found)) == len(found)
    sizes = [record(rows=n, seed=s) for n in (100, 200) for s in range(2)]
    assert [name.split("-")[0] for name in names(sizes)] == ["cost", "cost"]


def test_a_study_says_which_figures_it_wants():
    records = grid(("mean", "public"), epsilons=(0.5, 2.0), seeds=2, imbalance=[1.0, 10.0])
    asked = {"figure": [{"kind": "curves", "metric": "accuracy", "where": {"imbalance": 10}}]}
    (name,) = names(records, asked)
    assert name.startswith("accuracy")
    everything = {"figure": [{"kind": "curves", "metric": "accuracy"}]}
    assert name in names(records, everything)
    assert len(names(records, everything)) == 2
    twice = {"figure": asked["figure"] * 2}
    assert names(records, twice) == [name]


@pytest.mark.parametrize("wrong", [{"kind": "pie"}, {"kind": "curves", "colour": 1}])
def test_a_figure_nobody_knows_is_refused(wrong):
    with pytest.raises(DataError, match="Figure 1"):
        names(grid(), {"figure": [wrong]})


def test_variants_of_a_method_are_an_ablation():
    records = [
        record("adamix", label=f"v{v}", epsilon=e, seed=s) for v in (1, 2) for e in (1.0, 2.0) for s in (0, 1)
    ]
    assert any(name.startswith("ablation") for name in names(records))
