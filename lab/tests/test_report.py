import json
import re
from dataclasses import replace

import pytest

from dptransfer.errors import DataError
from dptransfer_lab.report import document_of, results_of, write_report

from .synthetic import folder, grid, measured_losses, record

CLAIM = {
    "text": "Public is better.",
    "source": "Section 9",
    "kind": "above",
    "left": "public",
    "right": "mean",
}


def sketched(path):
    """A sweep with everything that a report tells of."""
    records = [
        *grid(("mean", "public"), epsilons=(0.5, 2.0), seeds=3, imbalance=[1.0, 10.0]),
        *[
            record("coinpress", epsilon=0.5, seed=s, status="refused", message="No sizes declared.")
            for s in range(3)
        ],
        record("dpsgd", epsilon=0.5, status="failed", message="MemoryError"),
        *[
            record("public", label="tuned", epsilon=e, seed=s, oracle_tuned=True)
            for e in (0.5, 2.0)
            for s in range(3)
        ],
    ]
    return folder(path, records, {"claim": [CLAIM], "figure": [{"kind": "curves", "over": "imbalance"}]})


@pytest.fixture
def results(tmp_path):
    return sketched(tmp_path / "sweep")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Its report, to be read alone."""
    return write_report(sketched(tmp_path_factory.mktemp("report") / "sweep"))


def test_the_report_can_be_read_by_someone_who_was_not_there(written):
    html, markdown = (re.sub(r"<[^>]+>|[*\\]", "", file.read_text()) for file in written)
    for text in (html, markdown):
        assert "A sketch" in text
        assert "34 of 34 cells" in text
        assert re.search("Cells:? ?30 of 34 finished", text)
        assert "4 of 4 settings, by" in text
        assert "30 done, 1 failed, 3 refused" in text
        assert "3 seeds" in text
        assert "No sizes declared." in text
        assert "MemoryError" in text
        assert "ORACLE-TUNED" in text
        assert "runs repeat: no" in text
        assert "tuned [oracle-tuned]" in text
        assert "is better. (Section 9)" in text
        assert "confirmed" in text
        assert "dptransfer bench run" in text
        assert "ab" * 32 in text
        assert "cd" * 32 in text
        assert "dptransfer 0.1.0" in text


def test_nothing_is_cut_off_on_a_narrow_page(written):
    """Every table scrolls in a box of its own, and every figure shrinks with the page."""
    text = written[0].read_text()
    assert text.count("<table") == len(re.findall(r'<div class="scroll"[^>]*><table', text)) > 3
    pictures = re.findall(r"<svg[^>]*>", text)
    assert pictures
    assert all("viewBox" in one for one in pictures)
    assert re.search(r"svg[^{]*\{[^}]*max-width:100%", text)


def test_figures_are_written_beside_it_as_svg_and_png(written):
    _, markdown = written
    files = sorted(path.name for path in (markdown.parent / "figures").iterdir())
    assert [name.rsplit(".", 1)[1] for name in files] == ["png", "svg"]
    assert f"](figures/{files[1]})" in markdown.read_text()


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


def test_nothing_refused_is_said_too(tmp_path):
    html, _ = write_report(folder(tmp_path / "a", grid(("mean",), epsilons=(1.0,), seeds=2)))
    assert "none was refused" in html.read_text()


def test_several_studies_share_a_page_and_one_can_be_asked_for(results, tmp_path):
    other = folder(tmp_path / "other", grid(("mean",), seeds=2, study="second", data="birds"))
    lines = (other / "results.jsonl").read_text()
    with (results / "results.jsonl").open("a") as stream:
        stream.write(lines)
    (results / "studies" / "second.json").write_text((other / "studies" / "second.json").read_text())
    both = write_report(results)[0].read_text()
    assert "second: Results" in both
    assert "sketch: Results" in both
    assert "Results in sweep" in both
    files = {path.name for path in (results / "figures").glob("*.svg")}
    assert {name.split("-")[0] for name in files} == {"second", "sketch"}
    one = write_report(results, study="second", out=tmp_path / "out")[0]
    assert one == tmp_path / "out" / "report.html"
    assert "birds" in one.read_text()
    assert "flowers" not in one.read_text().replace("flowers (lite0)", "")  # but for the fingerprint's name
    with pytest.raises(DataError, match="third"):
        write_report(results, study="third")


def test_a_folder_without_a_study_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds none"):
        write_report(tmp_path)


def test_a_wrong_claim_changes_the_verdict(results):
    found = results_of(results, "sketch")
    turned = {**CLAIM, "left": "mean", "right": "public"}
    asked = {**found.asked, "study": {**found.asked["study"], "claim": [turned]}}
    page = document_of([replace(found, asked=asked)], results)
    claims = next(section for section in page.sections if section.title == "Claims of the papers")
    assert claims.blocks[1].items[0].parts[1].text == "not confirmed here"


def test_a_paper_gets_pdf_figures_and_latex_tables(results, tmp_path):
    written = write_report(results, out=tmp_path / "out", paper=True)
    assert written[2] == tmp_path / "out" / "paper"
    files = {path.suffix for path in written[2].iterdir()}
    assert files == {".pdf", ".tex"}
    (table,) = written[2].glob("results-1.tex")
    assert "\\toprule" in table.read_text()
    assert not (results / "paper").exists()


def test_a_sweep_without_any_result_has_a_report(tmp_path):
    refused = [
        record(method, epsilon=e, status="refused", message="no")
        for method in ("mean", "public")
        for e in (1, 2)
    ]
    text = write_report(folder(tmp_path / "a", refused))[1].read_text()
    assert "cell has a result" in text
    assert "nobody won" in text
    assert "0 of 4 finished" in text


def test_hostile_names_stay_words_in_every_form(tmp_path):
    name = "<img src=x onerror=alert(1)> | $\\input{a}$ _*`"
    records = grid(("public",), epsilons=(0.5, 2.0), seeds=1, data=name)
    records += grid(("mean",), epsilons=(0.5, 2.0), seeds=1, data=name, label=name)
    html, markdown, paper = write_report(folder(tmp_path / "a", records), paper=True)
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
