"""Releases that version 0.2 wrote, with the scores that their models gave then."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from dptransfer.errors import ReleaseError
from dptransfer.methods.replan import verify_release
from dptransfer.privacy import Unit
from dptransfer.release import amend_release, read_release

from .models import rewrite

HERE = Path(__file__).parent / "schema_1"
RELEASES = ("mean", "selected", "tuned")


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_of_schema_1_loads_and_scores_as_it_did(name):
    told = json.loads((HERE / f"{name}.json").read_text())
    model = read_release(HERE / name)
    assert (model.scores(np.array(told["rows"])) == np.array(told["scores"])).all()
    assert (model.facts.shape, model.facts.unit, model.dimension) == ((6,), Unit.ROW, 6)


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_of_schema_1_is_verified(name):
    found = verify_release(HERE / name)
    assert (found.outcome, found.failed) == ("verified", ())
    assert "schema 1" in found.checks[0].detail


def test_a_release_of_schema_1_is_written_again_in_the_present_schema(tmp_path):
    again = read_release(HERE / "mean").save(tmp_path / "again")
    fields = json.loads((again / "release.json").read_text())
    assert (fields["schema_version"], fields["facts"]["shape"], fields["facts"]["unit"]) == (2, [6], "row")
    assert "dimension" not in fields["facts"]
    assert verify_release(again).outcome == "verified"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda facts: facts.pop("dimension"),
        lambda facts: facts.update(shape=[6]),
        lambda facts: facts.update(unit="row"),
        lambda facts: facts.update(dimension="6"),
        lambda facts: facts.update(dimension=[6]),
        lambda facts: facts.pop("size"),
    ],
)
def test_schema_1_is_read_as_strictly_as_ever(tmp_path, wrong):
    copy = shutil.copytree(HERE / "mean", tmp_path / "copy")
    rewrite(copy, lambda fields: wrong(fields["facts"]))
    with pytest.raises(ReleaseError):
        read_release(copy)


def test_words_can_be_added_to_a_release_of_schema_1(tmp_path):
    copy = shutil.copytree(HERE / "mean", tmp_path / "copy")
    amend_release(copy, title="Other animals")
    assert read_release(copy).provenance.title == "Other animals"
