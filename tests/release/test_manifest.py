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


def test_a_manifest_cannot_be_changed_once_read(content):
    with pytest.raises(ValueError, match="frozen"):
        read_manifest(content).seeded = True


def test_a_newer_schema_says_so_and_asks_for_an_upgrade(forged):
    with pytest.raises(ReleaseError, match="upgrade"):
        forged(lambda fields: fields.update(schema_version=2, novelty="unknown"))


WRONG = {
    "older than the first": lambda f: f.update(schema_version=0),
    "version in words": lambda f: f.update(schema_version="2"),
    "version true": lambda f: f.update(schema_version=True),
    "no version": lambda f: f.pop("schema_version"),
    "extra key": lambda f: f.update(surprise=1),
    "extra key inside": lambda f: f["guarantee"].update(surprise=1),
    "missing key": lambda f: f.pop("events"),
    "a fractional number of times": lambda f: f["events"][0].update(times=2.5),
    "times spelt out although once": lambda f: f["events"][0].update(times=1),
    "times in words": lambda f: f["events"][0].update(times="3"),
    "unknown event": lambda f: f["events"][0].update(kind="laplace"),
    "event with an extra key": lambda f: f["events"][0].update(note="x"),
    "event of negative noise": lambda f: f["events"][0].update(noise_multiplier=-4.0),
    "event with another scale": lambda f: f["events"][0].update(scale=9.0),
    "event in words": lambda f: f["events"][0].update(noise_multiplier="4.0"),
    "event of a listed kind": lambda f: f["events"][0].update(kind=["gaussian"]),
    "event with a numbered label": lambda f: f["events"][0].update(label=7),
    "event under another relation": lambda f: f["events"][0].update(relation="replace-one"),
    "unknown relation": lambda f: f.update(relation="one-way"),
    "another relation": lambda f: f.update(relation="replace-one"),
    "another delta": lambda f: f.update(delta=1e-6),
    "delta of one": lambda f: f["guarantee"].update(delta=1.0),
    "negative epsilon": lambda f: f["guarantee"].update(epsilon=-1.0),
    "epsilon in words": lambda f: f["guarantee"].update(epsilon="1"),
    "a better sentence": lambda f: f["guarantee"].update(sentence="This model is perfectly private."),
    "epsilon without its sentence": lambda f: f["guarantee"].update(epsilon=0.1),
    "seeded yet publishable": lambda f: f.update(seeded=True),
    "seeded in numbers": lambda f: f.update(seeded=0),
    "another library version": lambda f: f.update(library_version="9"),
    "no temperature": lambda f: f["head"].update(temperature=0.0),
    "array of objects": lambda f: f["arrays"][0].update(dtype="object"),
    "array of negative shape": lambda f: f["arrays"][0].update(shape=[-1]),
    "array twice": lambda f: f["arrays"].append(f["arrays"][0]),
    "file missing": lambda f: f["files"].pop("CARD.md"),
    "file elsewhere": lambda f: f["files"].update({"../x": f["files"]["CARD.md"]}),
    "hash too short": lambda f: f["files"]["CARD.md"].update(sha256="ab"),
    "facts without a size": lambda f: f["facts"].pop("size"),
    "a method without its words": lambda f: f["method"].pop("summary"),
    "facts without a unit": lambda f: f["facts"].pop("unit"),
    "facts of another unit": lambda f: f["facts"].update(unit="family"),
    "facts of an older schema": lambda f: f["facts"].update(dimension=f["facts"].pop("shape")[0]),
    "facts with an extra key": lambda f: f["facts"].update(surprise=1),
    "shape in words": lambda f: f["facts"].update(shape=["7"]),
    "shape with a fraction": lambda f: f["facts"].update(shape=[7.0]),
    "encoder with an extra key": lambda f: f["facts"]["encoder"].update(surprise=1),
    "encoder without weights": lambda f: f["facts"]["encoder"].pop("weights"),
    "class half a number": lambda f: f["facts"].update(classes=[1.5, 2.5, 3.5]),
    "NaN": lambda f: f.update(public={"rows": float("nan")}),
    "infinity": lambda f: f.update(public={"rows": float("inf")}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_reading_is_strict(forged, wrong):
    with pytest.raises(ReleaseError):
        forged(WRONG[wrong])


BROKEN = {
    "empty": b"",
    "a list": b"[]",
    "a number": b"1",
    "half": b'{"schema_version": 1',
    "no text": b"\xff\xfe\x00",
    "endless nesting": b"[" * 200_000,
    "endless number": b'{"schema_version": ' + b"9" * 10_000 + b"}",
    "number too large": b'{"schema_version": 1e999}',
    "lone surrogate": b'{"schema_version": 1, "created": "\\ud800"}',
    "repeated key": b'{"schema_version": 1, "schema_version": 1}',
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_no_manifest_is_a_release_error(kind):
    with pytest.raises(ReleaseError):
        read_manifest(BROKEN[kind])


def test_a_lone_surrogate_anywhere_is_refused_in_a_whole_manifest(content):
    spoiled = content.replace(b"k = 7: all axes", b"\\ud800" + b" " * 9)
    with pytest.raises(ReleaseError):
        read_manifest(spoiled)


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


def tuned_fields(**change):
    return {**event_to_dict(TUNED), **change}


TAMPERED = {
    "another relation": tuned_fields(relation="replace-one"),
    "a numbered label": tuned_fields(label=7),
    "a numbered label inside": tuned_fields(candidates=[[{**event_to_dict(ROUNDS), "label": 7}]]),
    "noise in words inside": tuned_fields(candidates=[[{**event_to_dict(ROUNDS), "noise_multiplier": "20"}]]),
    "an extra key": tuned_fields(surprise=1),
    "no candidates": tuned_fields(candidates=[]),
}


@pytest.mark.parametrize("wrong", TAMPERED)
def test_a_tuned_step_is_read_as_strictly(forged, wrong):
    with pytest.raises(ReleaseError):
        forged(lambda fields: fields.update(events=[TAMPERED[wrong]]))


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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda facts: facts.update(person_bound=-1.0), "person_bound"),
        (lambda facts: facts.update(people=500), "facts"),
        (lambda facts: facts.update(unit="row"), "person_bound"),
        (lambda facts: facts.pop("person_bound"), "facts"),
    ],
)
def test_facts_about_people_that_cannot_be_are_refused(change, said, tmp_path):
    made = make_model(events=(replace(NOISE, unit=Unit.PERSON),))
    people = replace(made.facts, unit=Unit.PERSON, person_bound=2.5)
    replace(made, facts=people).save(tmp_path / "release")
    rewrite(tmp_path / "release", lambda fields: change(fields["facts"]))
    with pytest.raises(ReleaseError, match=said):
        read_release(tmp_path / "release")
