import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from dptransfer import evaluate
from dptransfer.accounting import guarantee_of
from dptransfer.errors import ReleaseError, UnsafeRelease
from dptransfer.release import read_evaluation, read_release, write_release
from dptransfer.release.heads import CosineHead

from .models import CHOICE, CLASSES, FILES, NOISE, heads, make_model, rewrite, rows

HEADS = tuple(heads(7))
MAPS = ("unit norm", "pooled", "public map", "rooted public map")


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


def test_whole_number_classes_stay_whole_numbers(tmp_path):
    loaded = read_release(make_model(classes=(3, 1, 2)).save(tmp_path / "r"))
    assert loaded.classes == (3, 1, 2)
    assert set(loaded.predict(rows()).tolist()) <= {1, 2, 3}


def test_numpy_values_in_a_configuration_are_written_plainly_and_strange_ones_are_refused(tmp_path):
    model = make_model(prototypes={"rows": np.arange(3), "share": np.float32(0.5)})
    assert read_release(model.save(tmp_path / "r")).provenance.prototypes == {"rows": [0, 1, 2], "share": 0.5}
    with pytest.raises(ReleaseError, match="plain numbers, words and lists"):
        make_model(prototypes={"rows": object()}).save(tmp_path / "s")
    with pytest.raises(ReleaseError, match="plain numbers, words and lists"):
        make_model(prototypes={"share": float("nan")}).save(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_seeded_model_is_refused_and_stamped_where_it_is_forced(tmp_path):
    model = make_model(seeded=True)
    with pytest.raises(UnsafeRelease, match="seed"):
        model.save(tmp_path / "r")
    assert list(tmp_path.iterdir()) == []
    path = model.save(tmp_path / "r", unsafe_for_publication=True)
    assert json.loads((path / "release.json").read_text())["publishable"] is False
    assert (path / "CARD.md").read_text().splitlines()[0].startswith("> **NOT PRIVATE, DO NOT PUBLISH")
    assert 'class="alarm"' in (path / "card.html").read_text().replace("<style>", "")
    with pytest.raises(UnsafeRelease):
        read_release(path).save(tmp_path / "again")


def test_a_secure_model_is_publishable_and_its_card_raises_no_alarm(written):
    assert json.loads((written / "release.json").read_text())["publishable"] is True
    assert "NOT PRIVATE" not in (written / "CARD.md").read_text()
    assert '<p class="alarm"' not in (written / "card.html").read_text()


def test_an_evaluation_travels_with_the_release(tmp_path):
    model = make_model()
    evaluation = evaluate(model, rows(), np.arange(20) % 3, name="held-out rows")
    path = write_release(model, tmp_path / "r", evaluation=evaluation)
    assert read_evaluation(path) == evaluation.for_release() != evaluation
    assert "held-out rows" in (path / "CARD.md").read_text()
    assert read_evaluation(model.save(tmp_path / "s")) is None


def test_the_confusion_matrix_of_many_classes_is_left_out(tmp_path):
    model = make_model(classes=tuple(range(101)))
    evaluation = evaluate(model, rows(202), np.arange(202) % 101, public=True)
    path = write_release(model, tmp_path / "r", evaluation=evaluation)
    assert read_evaluation(path) == replace(evaluation, confusion=()) != evaluation


def test_an_evaluation_of_other_classes_is_refused(tmp_path):
    other = make_model(classes=("a", "b", "c"))
    evaluation = evaluate(other, rows(), np.arange(20) % 3)
    with pytest.raises(ReleaseError, match="own classes"):
        make_model().save(tmp_path / "r", evaluation=evaluation)


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
@pytest.mark.parametrize("place", [0.0, 0.1, 0.35, 0.5, 0.77, 0.999])
@pytest.mark.parametrize("bit", [0, 5])
def test_a_flipped_bit_anywhere_is_noticed(release, name, place, bit):
    content = bytearray((release / name).read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    (release / name).write_bytes(content)
    with pytest.raises(ReleaseError):
        read_release(release)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["empty", "half", "one byte short", "one byte long", "deleted", "folder"])
def test_a_damaged_file_is_a_release_error(release, name, damage):
    path = release / name
    content = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "deleted":
        kept = {"empty": 0, "half": len(content) // 2, "one byte short": len(content) - 1}
        path.write_bytes(content[: kept[damage]] if damage in kept else content + b"\n")
    with pytest.raises(ReleaseError):
        read_release(release)


def test_an_untouched_copy_is_read(release):
    assert read_release(release).classes == CLASSES


def test_what_is_not_a_directory_is_a_release_error(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "nothing", tmp_path):
        with pytest.raises(ReleaseError):
            read_release(path)


FORGERIES = {
    "head of another kind": lambda f: f["head"].update(kind="quadratic"),
    "head of no kind": lambda f: f["head"].update(kind="neural"),
    "map of no kind": lambda f: f["features"].update(kind="neural"),
    "map of another identity": lambda f: f["features"].update(identity="0"),
    "map without identity": lambda f: f["features"].pop("identity"),
    "map with another root": lambda f: f["features"].update(root=True),
    "wrong width": lambda f: f["facts"].update(shape=[8]),
    "no width": lambda f: f["facts"].update(shape=[0]),
    "pictures for a model of rows": lambda f: f["facts"].update(shape=[7, 7, 3], encoder=None),
    "one class too many": lambda f: f["facts"]["classes"].append("fox"),
    "a class twice": lambda f: f["facts"].update(classes=["cat", "cat", "dog"]),
    "counts for other classes": lambda f: f["facts"].update(class_counts=[1]),
    "array renamed": lambda f: f["arrays"][0].update(name="other"),
    "array of another type": lambda f: f["arrays"][0].update(dtype="float64"),
    "array of another shape": lambda f: f["arrays"][0].update(shape=[4, 7]),
    "petabytes declared": lambda f: f["arrays"][-1].update(shape=[10**9, 10**9]),
    "array unlisted": lambda f: f["arrays"].pop(),
    "evaluation of nothing": lambda f: f.update(evaluation={}),
    "wrong hash": lambda f: f["files"]["CARD.md"].update(sha256="0" * 64),
    "wrong size": lambda f: f["files"]["model.safetensors"].update(size=3),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_manifest_that_does_not_describe_the_model_is_refused(release, forgery):
    rewrite(release, FORGERIES[forgery])
    with pytest.raises(ReleaseError):
        read_release(release)


def test_a_rewritten_manifest_without_a_lie_is_read(release):
    rewrite(release, lambda fields: fields.update(notes=["another note"]))
    assert read_release(release).provenance.notes == ("another note",)


def test_strange_settings_of_a_plain_map_are_refused(tmp_path):
    path = make_model().save(tmp_path / "r")
    for wrong in (
        {"pool": 0},
        {"pool": "1"},
        {"pool": 1.5},
        {"input_dimension": 7.0},
        {"input_dimension": [7]},
    ):
        copy = shutil.copytree(path, tmp_path / "copy")
        rewrite(copy, lambda fields, wrong=wrong: fields["features"].update(wrong))
        with pytest.raises(ReleaseError):
            read_release(copy)
        shutil.rmtree(copy)


def test_the_recorded_guarantee_is_that_of_the_events(written):
    fields = json.loads((written / "release.json").read_text())
    assert fields["guarantee"]["epsilon"] == guarantee_of((NOISE,), 1e-5).epsilon
    assert fields["guarantee"]["epsilon"] != guarantee_of((NOISE, NOISE), 1e-5).epsilon
