import json
from dataclasses import replace

import pytest

from dptransfer.errors import ReleaseError
from dptransfer.privacy import Unit, event_to_dict
from dptransfer.release import current_versions, read_release
from dptransfer.release.manifest import LARGEST_MANIFEST, manifest_bytes, read_manifest

from .models import NOISE, ROUNDS, SAMPLED, TUNED, make_model, rewrite, write_manifest


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = make_model().save(tmp_path_factory.mktemp("manifest") / "r")
    return (path / "release.json").read_bytes()


@pytest.fixture
def forged(content, tmp_path):
    """Change the fields, put the digest right, and read."""

    def read(change):
        fields = json.loads(content)
        change(fields)
        write_manifest(tmp_path / "release.json", fields)
        return read_manifest((tmp_path / "release.json").read_bytes())

    return read


def test_what_is_written_is_read_back(content, forged):
    manifest = read_manifest(content)
    assert manifest.schema_version == 1
    assert manifest.method.name == "mean-prototypes"
    assert manifest.versions == current_versions()
    assert forged(lambda fields: None) == manifest
    assert forged(lambda fields: fields.update(created="today")) != manifest


def test_a_newer_schema_says_so_and_asks_for_an_upgrade(forged):
    with pytest.raises(ReleaseError, match="upgrade"):
        forged(lambda fields: fields.update(schema_version=2, novelty="unknown"))


WRONG = {
    "version in words": lambda f: f.update(schema_version="2"),
    "no version": lambda f: f.pop("schema_version"),
    "extra key": lambda f: f.update(surprise=1),
    "extra key inside": lambda f: f["guarantee"].update(surprise=1),
    "missing key": lambda f: f.pop("events"),
    "a fractional number of times": lambda f: f["events"][0].update(times=2.5),
    "times spelt out although once": lambda f: f["events"][0].update(times=1),
    "unknown event": lambda f: f["events"][0].update(kind="laplace"),
    "event with another scale": lambda f: f["events"][0].update(scale=9.0),
    "event under another relation": lambda f: f["events"][0].update(relation="replace-one"),
    "unknown relation": lambda f: f.update(relation="one-way"),
    "another relation": lambda f: f.update(relation="replace-one"),
    "negative epsilon": lambda f: f["guarantee"].update(epsilon=-1.0),
    "a better sentence": lambda f: f["guarantee"].update(sentence="This model is perfectly private."),
    "epsilon without its sentence": lambda f: f["guarantee"].update(epsilon=0.1),
    "seeded yet publishable": lambda f: f.update(seeded=True),
    "another library version": lambda f: f.update(library_version="9"),
    "no temperature": lambda f: f["head"].update(temperature=0.0),
    "array twice": lambda f: f["arrays"].append(f["arrays"][0]),
    "file missing": lambda f: f["files"].pop("README.md"),
    "file elsewhere": lambda f: f["files"].update({"../x": f["files"]["README.md"]}),
    "a method without its words": lambda f: f["method"].pop("summary"),
    "facts with an extra key": lambda f: f["facts"].update(surprise=1),
    "shape with a fraction": lambda f: f["facts"].update(shape=[7.0]),
    "encoder without weights": lambda f: f["facts"]["encoder"].pop("weights"),
    "NaN": lambda f: f.update(public={"rows": float("nan")}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_reading_is_strict(forged, wrong):
    with pytest.raises(ReleaseError):
        forged(WRONG[wrong])


BROKEN = {
    "empty": b"",
    "a list": b"[]",
    "no text": b"\xff\xfe\x00",
    "endless nesting": b"[" * 200_000,
    "number too large": b'{"schema_version": 1e999}',
    "repeated key": b'{"schema_version": 1, "schema_version": 1}',
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_no_manifest_is_a_release_error(kind):
    with pytest.raises(ReleaseError):
        read_manifest(BROKEN[kind])


def test_a_repeated_key_is_refused_though_the_digest_is_right(content):
    doubled = content.replace(b'"seeded": false', b'"seeded": true,\n "seeded": false', 1)
    fields = json.loads(doubled)
    assert fields["seeded"] is False
    with pytest.raises(ReleaseError, match="repeated"):
        read_manifest(doubled)


def test_any_changed_byte_breaks_the_digest(content):
    spaced = content.replace(b"\n ", b"\n\t", 1)
    assert json.loads(spaced) == json.loads(content)
    with pytest.raises(ReleaseError, match="digest"):
        read_manifest(spaced)


def test_a_manifest_over_the_limit_is_never_written(content):
    fields = {**json.loads(content), "notes": ["x" * LARGEST_MANIFEST]}
    with pytest.raises(ReleaseError, match="at most"):
        manifest_bytes(fields)
    assert manifest_bytes({**fields, "notes": ["x"]})


def test_zeros_that_look_like_the_blank_digest_do_no_harm(tmp_path):
    path = make_model(notes=("0" * 64,)).save(tmp_path / "r")
    rewrite(path, lambda fields: None)
    assert read_manifest((path / "release.json").read_bytes()).notes == ("0" * 64,)


def test_every_kind_of_event_and_none_can_be_recorded(forged):
    kept = [event_to_dict(event) for event in (ROUNDS, SAMPLED, TUNED)]
    assert list(forged(lambda fields: fields.update(events=kept)).events) == kept
    assert forged(lambda fields: fields.update(events=[])).events == ()


def test_the_facts_carry_persons_and_their_bound(tmp_path):
    events = (replace(NOISE, unit=Unit.PERSON),)
    made = make_model(events=events)
    people = replace(made.facts, unit=Unit.PERSON, person_bound=2.5, rows_per_person=12.0)
    replace(made, facts=people).save(tmp_path / "release")
    told = json.loads((tmp_path / "release" / "release.json").read_text())["facts"]
    assert (told["unit"], told["person_bound"], told["rows_per_person"]) == ("person", 2.5, 12.0)
    assert read_release(tmp_path / "release").facts == people
    assert not {"person_bound", "rows_per_person"} & make_model().facts.to_dict().keys()
