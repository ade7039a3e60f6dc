"""Private rows that a command names: with people as the file or `--person` tells, and fit for the release."""

import json
from pathlib import Path

import numpy as np
import pytest

from dptransfer.api.source import Declared, Source
from dptransfer.data import EncoderIdentity, Facts, RowMetadata, write_embeddings
from dptransfer.errors import DataError, Incompatible
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


def test_bound_and_typical_number_are_declared_with_set(cli, people):
    about = ("--set", "data.person_bound=2", "--set", "data.rows_per_person=6", "--set", "data.size=300")
    cli("fit", "p.emb", *FIT, "--out", "model", *about)
    facts = read_release("model").facts
    assert (facts.person_bound, facts.rows_per_person, facts.declared_units) == (2.0, 6.0, 50)
    assert json.loads(Path("model/release.json").read_text())["facts"]["person_bound"] == 2.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("p.npz", "--classes", "3", "--person", "who"), "the column 'who'"),
        (("p.npz", "--classes", "3", "--person", "mark"), "got the type bool"),
        (("p.npz", "--classes", "3", "--person", "folder"), "these are not on record"),
        (("p.npz", "--classes", "3", "--person", "none.csv"), "must be readable"),
        (("p.emb", "--person", "patient"), "there are no columns"),
        (("short.npz", "--classes", "3", "--person", "who"), "one entry per example"),
        (("rows.emb", "--set", "data.person_bound=2"), "without people"),
        (("p.emb", "--person", "none", "--set", "data.rows_per_person=6"), "without people"),
        (("p.emb", "--set", "data.person_bound=0"), "person_bound must"),
        (("p.emb", "--set", "data.person_bound=nan"), "person_bound must"),
        (("p.emb", "--set", "data.person_bound=2000"), "between 2**-10 and 2**10"),
        (("p.emb", "--set", "data.rows_per_person=0.5"), "rows_per_person must"),
        (("p.emb", "--set", "data.person_bound=many"), "type float"),
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
    rows = Source(tmp_path / "p.emb", declared=Declared(person_bound=2.0)).private(of=facts)
    assert rows.facts.classes == CLASSES[::-1]
    assert rows.facts.unit is Unit.PERSON
    assert len(np.unique(rows.people)) == len(set(people)) - 1 + (people == "").sum()
    assert Source(tmp_path / "p.emb", people="none").private(of=facts).facts.unit is Unit.ROW
    assert Source(tmp_path / "p.npz", people="patient", name="a").private(of=facts).name == "a"


def test_rows_of_another_width_encoder_or_class_do_not_suit_a_release(people, tmp_path):
    with pytest.raises(Incompatible, match="one dimension"):
        Source(tmp_path / "p.emb").private(of=Facts(CLASSES, (8,)))
    with pytest.raises(DataError, match="declared classes"):
        Source(tmp_path / "p.emb").private(of=Facts(("cat", "dog"), (16,)))
    mine, other = (EncoderIdentity(name, "0" * 64, "none") for name in ("mine", "other"))
    write_embeddings(
        tmp_path / "e.emb", np.zeros((2, 16)), RowMetadata([0, 1], classes=CLASSES, encoder=mine)
    )
    with pytest.raises(Incompatible, match="must come from"):
        Source(tmp_path / "e.emb").private(of=Facts(CLASSES, (16,), encoder=other))
