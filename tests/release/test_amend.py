"""Words and numbers that come after the fit: on the card, under new checksums, and nothing else moves."""

import json

import pytest

from dptransfer import evaluate
from dptransfer.errors import ReleaseError, UnsafeRelease
from dptransfer.release import (
    amend_release,
    read_evaluation,
    read_release,
    verify_files,
    write_release,
)

from .models import make_model, rows
from .noisy_evaluations import evaluation


@pytest.fixture
def release(tmp_path):
    return write_release(make_model(), tmp_path / "model")


def record(release):
    fields = json.loads((release / "release.json").read_text())
    return {name: value for name, value in fields.items() if name not in ("digest", "files", "evaluation")}


def test_an_evaluation_is_added_and_the_release_still_verifies(release):
    weights, before = (release / "model.safetensors").read_bytes(), record(release)
    assert "not measured" in (release / "CARD.md").read_text()
    tested = evaluate(read_release(release), rows(), [0, 1] * 10, name="public test rows")
    assert amend_release(release, evaluation=tested) == release
    assert read_evaluation(release) == tested.for_release()
    for name in ("CARD.md", "card.html"):
        assert "public test rows" in (release / name).read_text()
        assert "The test rows are not protected" in (release / name).read_text()
    assert (release / "model.safetensors").read_bytes() == weights
    assert record(release) == before
    assert all(check.passed for check in verify_files(release).checks)


def test_title_and_contact_are_kept_when_something_else_is_added(release):
    amend_release(release, title="Lesions\n2026", contact="privacy@clinic.example")
    tested = evaluate(read_release(release), rows(), [0, 1] * 10)
    amend_release(release, evaluation=tested)
    amend_release(release, contact="dpo@clinic.example")
    kept = read_release(release).provenance
    assert (kept.title, kept.contact) == ("Lesions 2026", "dpo@clinic.example")
    assert read_evaluation(release) == tested.for_release()
    assert (release / "CARD.md").read_text().startswith("# Privacy and model card: Lesions 2026\n")
    assert verify_files(release).failed == ()


def test_words_that_were_not_said_are_empty_on_record(release):
    assert record(release)["about"] == {"title": "", "contact": ""}
    amend_release(release, title="Lesions")
    assert record(release)["about"] == {"title": "Lesions", "contact": ""}


def test_a_seeded_release_stays_stamped(tmp_path):
    path = write_release(make_model(seeded=True), tmp_path / "seeded", unsafe_for_publication=True)
    amend_release(path, title="Lesions")
    assert read_release(path).provenance.seeded
    assert "DO NOT PUBLISH" in (path / "CARD.md").read_text()


def test_the_evaluation_of_another_model_and_a_damaged_release_are_refused_and_nothing_changes(release):
    other = make_model(classes=("x", "y"))
    before = (release / "release.json").read_bytes()
    with pytest.raises(ReleaseError, match="own classes"):
        amend_release(release, evaluation=evaluate(other, rows(), [0, 1] * 10))
    assert (release / "release.json").read_bytes() == before
    (release / "CARD.md").write_text("ε = 0.001")
    with pytest.raises(ReleaseError, match="was changed"):
        amend_release(release, title="Lesions")
    assert (release / "CARD.md").read_text() == "ε = 0.001"


def test_charged_results_are_added_travel_with_the_release_and_verify(release):
    weights = (release / "model.safetensors").read_bytes()
    found = evaluation()
    amend_release(release, charged=found)
    assert read_release(release).charged.to_dict() == found.to_dict()
    assert (release / "model.safetensors").read_bytes() == weights
    assert "on protected test rows" in (release / "CARD.md").read_text()
    assert all(check.passed for check in verify_files(release).checks)
    amend_release(release, title="Lesions")
    assert read_release(release).charged.to_dict() == found.to_dict()


def test_seeded_charged_results_are_added_to_no_publishable_release(release, tmp_path):
    before = (release / "release.json").read_bytes()
    with pytest.raises(UnsafeRelease):
        amend_release(release, charged=evaluation(seeded=True))
    assert (release / "release.json").read_bytes() == before
    seeded = write_release(make_model(seeded=True), tmp_path / "seeded", unsafe_for_publication=True)
    amend_release(seeded, charged=evaluation(seeded=True))
    assert read_release(seeded).seeded


def test_charged_results_of_other_classes_are_refused(release):
    with pytest.raises(ReleaseError, match="own classes"):
        amend_release(release, charged=evaluation(("x", "y")))


def test_the_hold_out_of_another_fit_is_refused_and_nothing_changes(release):
    before = (release / "release.json").read_bytes()
    with pytest.raises(ReleaseError, match="whose fit held it out"):
        amend_release(release, charged=evaluation(holdout=0.2))
    assert (release / "release.json").read_bytes() == before
