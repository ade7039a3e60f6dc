"""Encoding what a source names into an `.emb` folder."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer.encoders import Reading
from dptransfer.errors import DPTransferError, PrivateOverlap
from encoders.toys import WordLengths

CLASSES = ["cat", "dog"]


@pytest.fixture(autouse=True)
def own_ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.chdir(tmp_path)


def test_texts_become_rows_that_a_fit_reads(notes):
    source = dpt.Source(notes / "private.csv", classes=CLASSES, people="person")
    report = dpt.encode(source, "private.emb", encoder=WordLengths())
    assert (report.examples, report.classes, report.has_people) == (80, ("cat", "dog"), True)
    assert dpt.Source("private.emb").private().facts.classes == ("cat", "dog")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"x": np.eye(2)}, "memory"),
        ({"x": "rows.npy"}, "rows"),
        ({"x": "nowhere.csv"}, "nowhere"),
        ({"x": "private.csv", "encoder": "nonesuch"}, "nonesuch"),
        ({"x": dpt.Source("private.csv", people="person"), "public": True}, "people"),
    ],
)
def test_what_cannot_be_encoded_is_refused_and_nothing_is_written(notes, given, named):
    np.save("rows.npy", np.eye(2))
    with pytest.raises(DPTransferError, match=named):
        dpt.encode(**given, out="out.emb")
    assert not Path("out.emb").exists()


def test_private_texts_do_not_become_a_public_pool(notes):
    private = dpt.Source("private.csv", classes=CLASSES, name="n", reading=Reading(WordLengths()))
    dpt.fit(private, epsilon=1, method="mean")
    with pytest.raises(PrivateOverlap):
        dpt.encode(replace(private, name=None), "pool.emb", encoder=WordLengths(), public=True)
