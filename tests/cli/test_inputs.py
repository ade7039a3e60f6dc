"""Private rows that a command names: with people as the file or `--person` tells, and fit for the release."""

from pathlib import Path

import numpy as np
import pytest

from dptransfer.api.source import Source
from dptransfer.data import Facts, RowMetadata, write_embeddings
from dptransfer.ledger import Ledger
from dptransfer.privacy import Unit
from dptransfer.release import read_release

FIT = ("--epsilon", "1", "--delta", "1e-5", "--method", "mean")
CLASSES = ("cat", "dog", "bird")


@pytest.fixture
def people(rows):
    """The private rows with a patient each, in every format; 50 patients, and some rows of nobody."""
    x, y = rows("private")
    ids = np.array([f"xylo-{row % 50}" if row % 7 else "" for row in range(len(x))])
    np.savez("p.npz", x=x, y=y, patient=ids, mark=ids == "")
    np.save("ids.npy", ids)
    lines = [f"{row},{one}" for row, one in enumerate(ids)]
    with open("ids.csv", "w") as stream:
        stream.write("\n".join(["example,person", *reversed(lines)]))
    write_embeddings("p.emb", x, RowMetadata(y, classes=CLASSES, name="clinic", people=ids))
    write_embeddings("rows.emb", x, RowMetadata(y, classes=CLASSES, name="clinic"))
    return ids


def unit(model):
    return read_release(model).guarantee.unit


@pytest.mark.parametrize(
    ("words", "of"),
    [
        (("p.emb",), "person"),
        (("p.emb", "--person", "none"), "row"),
        (("rows.emb",), "row"),
        (("rows.emb", "--person", "ids.npy"), "person"),
        (("rows.emb", "--person", "ids.csv"), "person"),
        (("p.npz", "--classes", "cat,dog,bird", "--person", "patient"), "person"),
        (("p.npz", "--classes", "cat,dog,bird"), "row"),
    ],
)
def test_a_fit_protects_whom_it_is_told_of(cli, people, words, of, tmp_path):
    out = cli("fit", *words, *FIT, "--out", "model").output
    assert unit("model") is Unit(of)
    assert ("all their examples" in " ".join(out.split())) == (of == "person")
    for file in (tmp_path / "model").iterdir():
        assert b"xylo" not in file.read_bytes()
    assert "xylo" not in out


def test_the_same_rows_with_people_and_without_are_one_data_set(cli, people, ledger):
    cli("fit", "rows.emb", *FIT, "--out", "one")
    cli("fit", "rows.emb", *FIT, "--out", "two", "--person", "none")
    fingerprints = {Source(path).private().fingerprint for path in map(Path, ("p.emb", "rows.emb"))}
    assert len(fingerprints) == 1
    assert len(Ledger(ledger).datasets()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("p.npz", "--classes", "3", "--person", "who"), "the column 'who'"),
        (("p.npz", "--classes", "3", "--person", "folder"), "these are not on record"),
        (("p.emb", "--person", "patient"), "there are no columns"),
        (("short.npz", "--classes", "3", "--person", "who"), "one entry per example"),
        (("rows.emb", "--set", "data.person_bound=2"), "needs people"),
        (("p.emb", "--set", "data.person_bound=2000"), "between 2**-10 and 2**10"),
    ],
)
def test_bad_input_about_people_costs_nothing_and_tells_no_id(cli, people, charges, words, said, rows):
    x, y = rows("private")
    np.savez("short.npz", x=x, y=y, who=people[:-1])
    told = cli("fit", *words, *FIT, "--out", "model", code=2).stderr
    assert said in told
    assert "xylo" not in told
    assert charges() == []


@pytest.mark.parametrize(
    "ids",
    [
        ["one"] * 300,
        [None] * 300,
        list(range(300)),
        ["\x1b[31m\n" * 3, "\u202eann", "x" * 10**6, 7, "7", 7.0, float("nan")] * 42 + [0] * 6,
    ],
    ids=["one person", "missing", "a person per row", "odd"],
)
def test_private_facts_about_people_are_handled_without_a_word(cli, rows, ids):
    x, y = rows("private")
    write_embeddings("usual.emb", x, RowMetadata(y, classes=CLASSES, people=np.arange(300) // 6))
    write_embeddings("odd.emb", x, RowMetadata(y, classes=CLASSES, people=ids))
    usual, odd = (
        cli("fit", f"{name}.emb", *FIT, "--out", f"{name}-model", "--ledger", f"{name}.sqlite", "--name", "a")
        for name in ("usual", "odd")
    )
    assert odd.stderr == usual.stderr.replace("usual", "odd")
    assert odd.stdout == usual.stdout.replace("usual", "odd")


def test_rows_for_a_release_bring_their_people_and_take_its_classes(people, tmp_path):
    facts = Facts(CLASSES[::-1], (16,))
    rows = Source(tmp_path / "p.emb", declared={"person_bound": 2.0}).private(of=facts)
    assert rows.facts.classes == CLASSES[::-1]
    assert rows.facts.unit is Unit.PERSON
    assert len(np.unique(rows.people)) == len(set(people)) - 1 + (people == "").sum()
    assert Source(tmp_path / "p.emb", people="none").private(of=facts).facts.unit is Unit.ROW
    assert Source(tmp_path / "p.npz", people="patient", name="a").private(of=facts).name == "a"
