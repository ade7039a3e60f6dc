import pytest

from dptransfer_lab.as_published import AS_PUBLISHED
from dptransfer_lab.catalogue import built_in
from dptransfer_lab.claims import Claim, entries_of
from dptransfer_lab.report import FigureEntry
from dptransfer_lab.study import parse_study

STUDIES = built_in()
PAPERS = [name for name in STUDIES if name != "demo"]
REPRODUCED = {
    "dppl-figures-2-5", "dppl-figure-8", "dppl-figure-11", "dppl-figure-14", "dppl-table-2", "dppl-table-3",
    "mean-estimation-table-1", "adamix-table-1", "adamix-figure-1", "adamix-figure-2", "adamix-figure-3",
    "as-published",
}  # fmt: skip


def test_every_reproduction_has_a_study_of_its_name():
    assert set(STUDIES) >= REPRODUCED
    for name, text in STUDIES.items():
        assert parse_study(text).name == name


@pytest.mark.parametrize("name", PAPERS)
def test_a_study_is_commented_and_says_how_to_run_it(name):
    text = STUDIES[name]
    assert text.startswith("# ")
    assert f"{name} --out {name}" in text
    study = parse_study(text)
    assert study.title
    assert study.about


@pytest.mark.parametrize("name", PAPERS)
def test_claims_and_figures_can_be_read_and_name_labels_that_exist(name):
    study = parse_study(STUDIES[name])
    known = {entry.label or entry.name for entry in study.method} | {pool.name for pool in study.pool}
    known |= set(study.unit)
    claims = entries_of(study.resolved(), "claim", Claim)
    assert claims
    for claim in claims:
        if claim.kind != "best-k-rises":
            assert {*claim.left, *claim.right} <= known, claim.text
        assert claim.kind in ("rises", "falls", "best-k-rises", "boost-falls") or claim.right
    assert [FigureEntry.model_validate(fields) for fields in study.figure]


def test_printed_mechanisms_stand_beside_the_right_ones():
    study = parse_study(STUDIES["as-published"])
    names = {entry.name for entry in study.method}
    printed = {name for name in AS_PUBLISHED if not name.endswith(("paragon", "class-means"))}
    assert printed <= names
    assert {"mean", "mean-estimation", "public", "top-k", "noisy-gd"} <= names


def test_relations_are_not_mixed_within_a_study():
    for text in STUDIES.values():
        assert len({grid.relation for grid in parse_study(text).budget}) == 1
    assert parse_study(STUDIES["dppl-figure-11"]).budget[0].relation == "replace-one"
