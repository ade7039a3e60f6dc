"""No built-in study asks for a fit that its own settings make impossible: every method is planned, dry."""

import json
from functools import cache

import numpy as np
import pytest

from dptransfer.data import PublicEmbeddings
from dptransfer.data.facts import Facts
from dptransfer.errors import DPTransferError
from dptransfer.methods import PrivateMethod
from dptransfer.privacy import Budget
from dptransfer_lab.as_published import method_of
from dptransfer_lab.catalogue import built_in
from dptransfer_lab.cells import cells_of
from dptransfer_lab.claims import Claim, entries_of
from dptransfer_lab.report import FigureEntry
from dptransfer_lab.stored import Stored
from dptransfer_lab.study import Size, parse_study

STUDIES = built_in()
CLASSES, DIMENSION, EACH = ("a", "b", "c"), 8, 400
DECLARED = {
    "nothing": {},
    "size": {"size": EACH * len(CLASSES)},
    "class_counts": {"size": EACH * len(CLASSES), "class_counts": (EACH,) * len(CLASSES)},
}


@cache
def public(pool, shots):
    """A tiny pool, shots, both or neither, as a cell of the study would have them."""
    rng = np.random.default_rng(0)
    rows = PublicEmbeddings(rng.normal(size=(60, DIMENSION))) if pool else None
    if not shots:
        return rows
    labels = np.repeat(np.arange(len(CLASSES)), shots)
    labelled = PublicEmbeddings(rng.normal(size=(len(labels), DIMENSION)), labels, classes=CLASSES)
    return labelled if rows is None else rows.with_shots(labelled)


@cache
def refusal(name, given, declare, budget, pool, shots):
    """Why this fit would be refused before a row is read; None where it would not be."""
    method = method_of(name, json.loads(given))
    if not isinstance(method, PrivateMethod):  # what is not private plans nothing
        return None
    facts, rows = Facts(CLASSES, DIMENSION, **DECLARED[declare]), public(pool, shots)
    try:
        plan = method.plan(facts, Budget.from_dict(json.loads(budget)), rows)
        plan.method.require_public(facts, rows)
    except DPTransferError as problem:
        return str(problem)
    return None


def refusals(text):
    """What the cells of a study would be refused for, one after the other, at one seed and one size."""
    study = parse_study(text).model_copy(update={"seeds": 1, "size": (Size(),)})
    stored = {
        (role, one.name, encoder): Stored(one.name, {})
        for role, known in (("data", study.data), ("pool", study.pool))
        for one in known
        for encoder in one.source
    }
    for cell in cells_of(study, stored):
        fit = cell.method, json.dumps(cell.given), cell.declare, json.dumps(cell.budget)
        why = refusal(*fit, cell.task.pool is not None, cell.task.shots)
        if why is not None:
            yield f"{cell.words}: {why}"


@pytest.mark.parametrize("name", STUDIES)
def test_no_method_of_a_built_in_study_is_refused(name):
    assert list(refusals(STUDIES[name])) == []


# Teachers are planned by a declared size, and do without.
DECLARING = [name for name, text in STUDIES.items() if "declare = " in text and "transfer-pate" not in text]


@pytest.mark.parametrize("name", DECLARING)
def test_a_declaration_that_is_forgotten_is_noticed(name):
    lines = STUDIES[name].splitlines()
    forgotten = "\n".join(line for line in lines if not line.startswith("declare = "))
    assert "declare" in next(refusals(forgotten))


def test_a_pool_or_shots_that_are_forgotten_are_noticed():
    assert "needs public rows" in next(refusals(STUDIES["demo"].replace('pool = "glyphs"', "")))
    assert "needs" in next(refusals(STUDIES["adamix-figure-1"].replace("shots = 5", "")))


PAPERS = [name for name in STUDIES if name != "demo"]


@pytest.mark.parametrize("name", PAPERS)
def test_a_study_says_how_to_run_it_and_its_claims_name_labels_that_exist(name):
    assert f"{name} --out {name}" in STUDIES[name]
    study = parse_study(STUDIES[name])
    assert study.name == name
    assert study.title
    assert study.about
    known = {entry.label or entry.name for entry in study.method} | {pool.name for pool in study.pool}
    known |= set(study.unit)
    claims = entries_of(study.resolved(), "claim", Claim)
    assert claims
    for claim in claims:
        if claim.kind != "best-k-rises":
            assert {*claim.left, *claim.right} <= known, claim.text
        assert claim.kind in ("rises", "falls", "best-k-rises", "boost-falls") or claim.right
    assert [FigureEntry.model_validate(fields) for fields in study.figure]
