import errno
import io
import json
import os
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from dptransfer import evaluate
from dptransfer.errors import ReleaseError, UnsafeRelease
from dptransfer.release import (
    amend_release,
    bundle,
    read_evaluation,
    read_release,
    require_target,
    verify_files,
    write_release,
)
from dptransfer.release.bundle import read_file, weights_bytes
from dptransfer.release.heads import CosineHead

from .counts import evaluation
from .models import CHOICE, FILES, NOISE, heads, make_model, rewrite, rows

HEADS = tuple(heads(7))
MAPS = ("pooled", "rooted public map")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("release") / "good"
    return write_release(make_model(features="public map"), path)


@pytest.fixture
def release(written, tmp_path):
    return shutil.copytree(written, tmp_path / "copy")


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("features", MAPS)
def test_a_loaded_model_scores_exactly_as_the_saved_one(head, features, tmp_path):
    model = make_model(head, features)
    loaded = read_release(model.save(tmp_path / "r"))
    x = np.vstack([rows(), np.zeros((1, 7)), np.full((1, 7), np.nan)])
    assert (loaded.scores(x) == model.scores(x)).all()
    assert (loaded.predict(x) == model.predict(x)).all()
    assert (loaded.predict_proba(x) == model.predict_proba(x)).all()
    assert not (loaded.scores(x) == make_model(head, features).scores(-x)).all()


def test_a_loaded_model_has_everything_that_was_told_about_it(tmp_path):
    model = make_model(events=(NOISE, CHOICE), class_counts=(5, 6, 7), prototypes={"rows": [[1], [2], [3]]})
    loaded = read_release(model.save(tmp_path / "r"))
    assert loaded.facts == model.facts
    assert loaded.events == model.events
    assert loaded.guarantee == model.guarantee
    assert loaded.provenance.versions["numpy"] == np.__version__
    assert replace(loaded.provenance, versions={}) == model.provenance
    assert loaded.provenance != replace(model.provenance, method="other")


def test_a_loaded_model_can_be_written_again_and_is_the_same_release(written, tmp_path):
    again = write_release(read_release(written), tmp_path / "again")
    assert {name: (again / name).read_bytes() for name in FILES} == {
        name: (written / name).read_bytes() for name in FILES
    }


def test_numpy_values_in_a_configuration_are_written_plainly_and_strange_ones_are_refused(tmp_path):
    model = make_model(prototypes={"rows": np.arange(3), "share": np.float32(0.5)})
    assert read_release(model.save(tmp_path / "r")).provenance.prototypes == {"rows": [0, 1, 2], "share": 0.5}
    with pytest.raises(ReleaseError, match="plain numbers"):
        make_model(prototypes={"rows": object()}).save(tmp_path / "s")
    with pytest.raises(ReleaseError, match="plain numbers"):
        make_model(prototypes={"share": float("nan")}).save(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_seeded_model_is_refused_and_stamped_where_it_is_forced(tmp_path):
    model = make_model(seeded=True)
    with pytest.raises(UnsafeRelease, match="seed"):
        model.save(tmp_path / "r")
    assert list(tmp_path.iterdir()) == []
    path = model.save(tmp_path / "r", unsafe_for_publication=True)
    assert json.loads((path / "release.json").read_text())["publishable"] is False
    card = (path / "README.md").read_text().partition("---\n\n")[2]
    assert card.startswith("> **NOT PRIVATE, DO NOT PUBLISH")
    assert 'class="alarm"' in (path / "card.html").read_text().replace("<style>", "")
    with pytest.raises(UnsafeRelease):
        read_release(path).save(tmp_path / "again")


def test_an_evaluation_travels_with_the_release(tmp_path):
    model = make_model()
    evaluation = evaluate(model, rows(), np.arange(20) % 3, name="held-out rows")
    path = write_release(model, tmp_path / "r", evaluation=evaluation)
    assert read_evaluation(path) == evaluation.for_release() != evaluation
    assert "held-out rows" in (path / "README.md").read_text()
    assert read_evaluation(model.save(tmp_path / "s")) is None


def test_the_confusion_matrix_of_many_classes_is_left_out(tmp_path):
    model = make_model(classes=tuple(range(101)))
    evaluation = evaluate(model, rows(202), np.arange(202) % 101, public=True)
    path = write_release(model, tmp_path / "r", evaluation=evaluation)
    assert read_evaluation(path) == replace(evaluation, confusion=()) != evaluation


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_model_with_a_number_that_is_none_is_never_written(bad, tmp_path):
    head = CosineHead(np.full((3, 7), bad))
    with pytest.raises(ReleaseError, match="finite"):
        replace(make_model(), head=head).save(tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_a_model_whose_parts_do_not_fit_is_never_written(tmp_path):
    for head in (CosineHead(np.ones((3, 6))), CosineHead(np.ones((2, 7)))):
        with pytest.raises(ReleaseError, match="head must score"):
            replace(make_model(), head=head).save(tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", [0.0, 0.35, 0.999])
def test_a_flipped_bit_anywhere_is_noticed(release, name, place):
    content = bytearray((release / name).read_bytes())
    content[int(place * len(content))] ^= 1 << 5
    (release / name).write_bytes(content)
    with pytest.raises(ReleaseError):
        read_release(release)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["one byte short", "one byte long", "deleted", "folder"])
def test_a_damaged_file_is_a_release_error(release, name, damage):
    path = release / name
    content = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "deleted":
        path.write_bytes(content[:-1] if damage == "one byte short" else content + b"\n")
    with pytest.raises(ReleaseError):
        read_release(release)


def test_what_is_not_a_directory_is_a_release_error(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "nothing", tmp_path):
        with pytest.raises(ReleaseError):
            read_release(path)


FORGERIES = {
    "head of another kind": lambda f: f["head"].update(kind="quadratic"),
    "map of another identity": lambda f: f["features"].update(identity="0"),
    "map with another root": lambda f: f["features"].update(root=True),
    "wrong width": lambda f: f["facts"].update(shape=[8]),
    "pictures for a model of rows": lambda f: f["facts"].update(shape=[7, 7, 3], encoder=None),
    "one class too many": lambda f: f["facts"]["classes"].append("fox"),
    "a class twice": lambda f: f["facts"].update(classes=["cat", "cat", "dog"]),
    "array renamed": lambda f: f["arrays"][0].update(name="other"),
    "array of another shape": lambda f: f["arrays"][0].update(shape=[4, 7]),
    "petabytes declared": lambda f: f["arrays"][-1].update(shape=[10**9, 10**9]),
    "evaluation of nothing": lambda f: f.update(evaluation={}),
    "wrong hash": lambda f: f["files"]["README.md"].update(sha256="0" * 64),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_manifest_that_does_not_describe_the_model_is_refused(release, forgery):
    rewrite(release, FORGERIES[forgery])
    with pytest.raises(ReleaseError):
        read_release(release)


def test_a_rewritten_manifest_without_a_lie_is_read(release):
    rewrite(release, lambda fields: fields.update(notes=["another note"]))
    assert read_release(release).provenance.notes == ("another note",)


NAME = "model.safetensors"


def header_of(content):
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length])


def with_header(header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def test_the_weights_file_holds_the_released_arrays_and_nothing_else(release):
    model = make_model(features="public map")
    content = (release / NAME).read_bytes()
    assert set(header_of(content)) == {"prototypes", "features.mean", "features.matrix"}  # and no metadata
    stored = load_file(release / NAME)
    assert set(stored) == set(model.weights)
    assert all((stored[name] == model.weights[name]).all() for name in stored)
    header = struct.unpack("<Q", content[:8])[0]
    assert len(content) == 8 + header + sum(array.nbytes for array in model.weights.values())


def test_arrays_keep_their_types_and_others_are_refused():
    arrays = {"a": np.arange(3, dtype=np.int32), "b": np.ones((2, 2))[:, ::-1]}
    header = header_of(weights_bytes(arrays))
    assert (header["a"]["dtype"], header["b"]["dtype"]) == ("I32", "F64")
    for dtype in (np.float32, np.int64, object):
        with pytest.raises(ReleaseError, match="float64 or int32"):
            weights_bytes({"a": np.ones(3, dtype=dtype)})


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_a_nan_or_infinity_in_the_weights_is_refused_whatever_the_checksums_say(release, bad):
    arrays = load_file(release / NAME)
    rewrite(release, lambda fields: None, content={NAME: save(arrays)})
    read_release(release)
    arrays["prototypes"][1, 2] = bad
    rewrite(release, lambda fields: None, content={NAME: save(arrays)})
    with pytest.raises(ReleaseError, match="finite"):
        read_release(release)


def test_an_array_more_or_less_is_refused_whatever_the_checksums_say(release):
    arrays = load_file(release / NAME)
    extra = {**arrays, "private.rows": np.ones(3)}
    rewrite(release, lambda fields: None, content={NAME: save(extra)})
    with pytest.raises(ReleaseError, match="exactly the arrays"):
        read_release(release)
    listed = {"name": "private.rows", "dtype": "float64", "shape": [3]}
    rewrite(release, lambda fields: fields["arrays"].append(listed))
    with pytest.raises(ReleaseError, match="fits together"):
        read_release(release)
    arrays.pop("features.mean")
    rewrite(release, lambda fields: None, content={NAME: save(arrays)})
    with pytest.raises(ReleaseError, match="exactly the arrays"):
        read_release(release)


def test_metadata_beside_the_arrays_is_refused(release):
    arrays = load_file(release / NAME)
    rewrite(release, lambda fields: None, content={NAME: save(arrays, metadata={"secret": "rows"})})
    with pytest.raises(ReleaseError):
        read_release(release)


@pytest.mark.parametrize("name", ["features.rows", "encoder.rows"])
def test_an_array_that_the_model_does_not_use_is_refused_though_it_is_listed(release, name):
    rows = np.ones((4, 6), dtype=np.float32 if name.startswith("encoder") else np.float64)
    listed = {"name": name, "dtype": rows.dtype.name, "shape": [4, 6]}

    def add(fields):
        fields["arrays"] = sorted([*fields["arrays"], listed], key=lambda one: one["name"])

    rewrite(release, add, content={NAME: save({**load_file(release / NAME), name: rows})})
    with pytest.raises(ReleaseError):
        read_release(release)


def overlapping(header, data):
    header["features.mean"]["data_offsets"] = [0, 7 * 4]
    return with_header(header, data)


def huge(header, data):
    header["prototypes"].update(shape=[10**9, 10**9], data_offsets=[0, 8 * 10**18])
    return with_header(header, data)


def not_quite_json(header, data):
    next(iter(header.values()))["more"] = float("nan")  # Python reads it, safetensors does not
    return with_header(header, data)


def of_another_type(header, data):
    first = next(iter(header.values()))
    first.update(dtype="BF16", shape=[(first["data_offsets"][1] - first["data_offsets"][0]) // 2])
    return with_header(header, data)


HEADERS = {
    "not JSON": lambda header, data: with_header(b"{" * 50, data),
    "longer than anything": lambda header, data: with_header(header, data, length=2**64 - 1),
    "overlapping arrays": overlapping,
    "petabytes": huge,
    "bytes after the arrays": lambda header, data: with_header(header, data + b"rows"),
    "JSON for some parsers": not_quite_json,
    "a type that NumPy lacks": of_another_type,
    "no header": lambda header, data: b"",
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_that_lies_is_refused_before_anything_is_allocated(release, kind):
    content = (release / NAME).read_bytes()
    header = header_of(content)
    data = content[8 + struct.unpack("<Q", content[:8])[0] :]
    rewrite(release, lambda fields: None, content={NAME: HEADERS[kind](header, data)})
    with pytest.raises(ReleaseError, match=NAME):
        read_release(release)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def full_disk(*args):
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted(*args):
    raise KeyboardInterrupt


FAILURES = {
    "the disk fills up at a file": lambda patch: patch.setattr(os, "fsync", full_disk),
    "a file cannot be opened": lambda patch: patch.setattr(bundle, "write_synced", full_disk),
    "somebody interrupts": lambda patch: patch.setattr(bundle, "write_synced", interrupted),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_write_leaves_nothing_behind_and_keeps_the_old_release(failure, tmp_path, monkeypatch):
    path = make_model().save(tmp_path / "r")
    before, model = contents(path), make_model(head="euclidean")
    with monkeypatch.context() as patch:
        FAILURES[failure](patch)
        for target, overwrite in ((tmp_path / "new" / "parents" / "r", False), (path, True)):
            with pytest.raises((ReleaseError, KeyboardInterrupt), match=r"No space left|^$"):
                write_release(model, target, overwrite=overwrite)
    assert contents(path) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["r"]
    write_release(model, tmp_path / "new" / "parents" / "r")
    assert [path.name for path in (tmp_path / "new" / "parents").iterdir()] == ["r"]


def test_every_file_and_both_directories_are_flushed_to_the_disk(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    path = make_model().save(tmp_path / "r")
    for entry in (*path.iterdir(), path, tmp_path):
        assert entry.stat().st_ino in flushed
    assert len(flushed) == len(FILES) + 2


def test_an_existing_target_is_refused_and_replaced_on_request(tmp_path):
    path = make_model().save(tmp_path / "r")
    before = contents(path)
    with pytest.raises(ReleaseError, match="exists"):
        make_model(head="euclidean").save(path)
    assert contents(path) == before
    make_model(head="euclidean").save(path, overwrite=True)
    assert read_release(path).head.kind == "euclidean"
    assert set(contents(path)) == set(FILES)
    assert [entry.name for entry in tmp_path.iterdir()] == ["r"]


def test_overwriting_never_deletes_what_is_not_a_release(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / "link").symlink_to(tmp_path)
    for target in (tmp_path, tmp_path / "thesis.txt", tmp_path / "link"):
        with pytest.raises(ReleaseError):
            make_model().save(target, overwrite=True)
        with pytest.raises(ReleaseError):
            require_target(target, overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    require_target(tmp_path / "free")


def test_links_out_of_the_directory_are_refused_and_links_within_are_read(tmp_path):
    path = make_model().save(tmp_path / "r")
    outside = tmp_path / "outside.safetensors"
    (path / "model.safetensors").rename(outside)
    (path / "model.safetensors").symlink_to(outside)
    with pytest.raises(ReleaseError, match="ordinary files inside"):
        read_release(path)
    (path / "model.safetensors").unlink()
    outside.rename(path / "elsewhere")
    (path / "model.safetensors").symlink_to("elsewhere")
    read_release(path)


@pytest.mark.parametrize("kind", ["loop", "dangling", "pipe"])
def test_links_that_lead_nowhere_and_pipes_are_refused(kind, tmp_path):
    path = make_model().save(tmp_path / "r")
    card = path / "README.md"
    card.unlink()
    if kind == "pipe":
        os.mkfifo(card)
    else:
        card.symlink_to("README.md" if kind == "loop" else "nowhere")
    with pytest.raises(ReleaseError):
        read_release(path)


@pytest.mark.parametrize("name", FILES)
def test_an_oversized_file_is_refused_before_it_is_read(name, tmp_path, monkeypatch):
    path = make_model().save(tmp_path / "r")
    os.truncate(path / name, bundle.LARGEST_FILE[name] + 1)  # sparse: it takes no space

    plainly = Path.open

    def opened(self, *args, **options):
        assert self != path / name, "an oversized file was opened"
        return plainly(self, *args, **options)

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(ReleaseError, match="at most"):
        read_release(path)


@pytest.mark.parametrize("found", [b"", b"01234", b"01234567890"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch, found):
    (tmp_path / "README.md").write_bytes(b"0123456789")

    class Changing(io.BytesIO):
        def fileno(self):
            return descriptor

    with (tmp_path / "README.md").open("rb") as file:
        descriptor = file.fileno()
        monkeypatch.setattr(Path, "open", lambda path, mode: Changing(found))
        with pytest.raises(ReleaseError, match="changed"):
            read_file(tmp_path, "README.md")


def record(release):
    fields = json.loads((release / "release.json").read_text())
    return {name: value for name, value in fields.items() if name not in ("digest", "files", "evaluation")}


def test_an_evaluation_is_added_and_the_release_still_verifies(release):
    weights, before = (release / "model.safetensors").read_bytes(), record(release)
    assert "not measured" in (release / "README.md").read_text()
    tested = evaluate(read_release(release), rows(), [0, 1] * 10, name="public test rows")
    assert amend_release(release, evaluation=tested) == release
    assert read_evaluation(release) == tested.for_release()
    for name in ("README.md", "card.html"):
        assert "public test rows" in (release / name).read_text()
        assert "are not protected" in (release / name).read_text()
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
    card = (release / "README.md").read_text().partition("---\n\n")[2]
    assert card.startswith("# Privacy and model card: Lesions 2026\n")
    assert verify_files(release).failures == ()


def test_the_evaluation_of_another_model_and_a_damaged_release_are_refused_and_nothing_changes(release):
    other = make_model(classes=("x", "y"))
    before = (release / "release.json").read_bytes()
    with pytest.raises(ReleaseError, match="own classes"):
        amend_release(release, evaluation=evaluate(other, rows(), [0, 1] * 10))
    with pytest.raises(ReleaseError, match="own classes"):
        amend_release(release, charged=evaluation(("x", "y")))
    assert (release / "release.json").read_bytes() == before
    (release / "README.md").write_text("ε = 0.001")
    with pytest.raises(ReleaseError, match="was changed"):
        amend_release(release, title="Lesions")
    assert (release / "README.md").read_text() == "ε = 0.001"


def test_charged_results_are_added_travel_with_the_release_and_verify(release):
    weights = (release / "model.safetensors").read_bytes()
    found = evaluation()
    amend_release(release, charged=found)
    assert read_release(release).charged.to_dict() == found.to_dict()
    assert (release / "model.safetensors").read_bytes() == weights
    assert "protected test rows" in (release / "README.md").read_text()
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


def test_the_hold_out_of_another_fit_is_refused_and_nothing_changes(release):
    before = (release / "release.json").read_bytes()
    with pytest.raises(ReleaseError, match="hold-out"):
        amend_release(release, charged=evaluation(holdout=0.2))
    assert (release / "release.json").read_bytes() == before
