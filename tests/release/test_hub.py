from pathlib import Path

import pytest

import dptransfer as dpt
from dptransfer.errors import ArgumentError, ReleaseError
from dptransfer.release import amend_release, push_release
from release.fake_hub import remote as remote
from release.models import FILES, make_model, rewrite


def test_a_pushed_release_loads_and_verifies_by_its_name_and_only_its_files_travel(remote, tmp_path):
    path = make_model().save(tmp_path / "model")
    (path / "notes.txt").write_text("private")
    address = push_release(path, "clinic/lesions")
    assert address.endswith("clinic/lesions?private=True")
    assert {file.name for file in (remote / "clinic/lesions").iterdir()} == set(FILES)
    loaded = dpt.load("hf:clinic/lesions")
    assert loaded.guarantee == dpt.load(path).guarantee
    assert "file README.md" not in dpt.verify("hf:clinic/lesions@main").failures


def test_a_repository_is_public_only_where_that_is_said(remote, tmp_path):
    path = make_model().save(tmp_path / "model")
    assert push_release(path, "clinic/open", public=True).endswith("private=False")


@pytest.mark.parametrize("name", ["lesions", "a/b/c", "../x/y", "clinic/le sions", ""])
def test_a_name_that_is_no_repository_is_refused(remote, tmp_path, name):
    with pytest.raises(ArgumentError):
        push_release(make_model().save(tmp_path / "model"), name)
    with pytest.raises(ArgumentError):
        dpt.load(f"hf:{name}")


def test_a_release_that_was_changed_or_is_seeded_is_not_uploaded(remote, tmp_path):
    changed = make_model().save(tmp_path / "changed")
    (changed / "README.md").write_text("ε = 0.001")
    seeded = make_model(seeded=True).save(tmp_path / "seeded", unsafe_for_publication=True)
    for path in (changed, seeded):
        with pytest.raises(ArgumentError, match="Nothing was uploaded"):
            push_release(path, "clinic/lesions")
    assert not remote.exists()


def test_what_is_missing_on_the_hub_or_changed_there_is_refused(remote, tmp_path):
    with pytest.raises(ReleaseError, match="was not fetched"):
        dpt.load("hf:clinic/absent")
    push_release(make_model().save(tmp_path / "model"), "clinic/lesions")
    rewrite(remote / "clinic/lesions", lambda fields: fields["guarantee"].update(epsilon=0.001))
    assert dpt.verify("hf:clinic/lesions").outcome == "failed"


def test_a_release_on_the_hub_cannot_be_written_to(remote, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ReleaseError, match="on the hub"):
        make_model().save("hf:clinic/lesions")
    push_release(make_model().save(tmp_path / "model"), "clinic/lesions")
    with pytest.raises(ReleaseError, match="on the hub"):
        amend_release("hf:clinic/lesions", title="other")
    assert not Path("hf:clinic").exists()
