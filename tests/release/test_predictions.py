import errno
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from contracts.backwards import Backwards
from dptransfer.data import ShardedRows
from dptransfer.errors import DataError
from dptransfer.release import classifier
from dptransfer.release import predictions as predicted_shards
from dptransfer.release.predictions import (
    PredictPart,
    Question,
    answers_as_csv,
    format_answers,
    predict_in_shards,
)

from .models import DIMENSION, make_model, rows
from .test_prediction_sets import simulated

NAMES = [f"row {number}" for number in range(20)]


def test_an_answer_has_the_likeliest_class_and_its_probability():
    model, x = make_model(), rows()
    found, sets = Question().answers(model, NAMES, x)
    chances = model.predict_proba(x)
    assert sets is None
    assert [one["label"] for one in found] == model.predict(x).tolist()
    assert [one["score"] for one in found] == chances.max(axis=1).tolist()
    assert list(found[0]) == ["input", "label", "score"]


def test_sets_stand_beside_the_labels_and_silence_those_that_are_too_large():
    model, x, _ = simulated(2000)
    question = Question(coverage=0.8, abstain_above=1)
    found, sets = question.answers(model, NAMES, x[:20])
    assert [tuple(one["set"]) for one in found] == sets.labels
    assert [one["label"] is None for one in found] == sets.abstains(1).tolist()
    assert 0 < sets.abstains(1).sum() < 20
    within = question.answers(model, NAMES[5:9], x[:20], slice(5, 9))
    assert (within.found, len(within.sets)) == (found[5:9], 4)


def test_forms_say_the_same():
    found = Question(top=2).answers(make_model(), NAMES, rows()).found
    assert json.loads(format_answers(found, ".json")) == found
    assert [json.loads(line) for line in format_answers(found, ".jsonl").splitlines()] == found
    assert format_answers(found, ".csv") == answers_as_csv(found)
    assert answers_as_csv(found).splitlines()[0] == "input,rank,label,score"
    assert answers_as_csv([]) == "input,label,score\n"
    assert Question().answers(make_model(), [], np.zeros((0, DIMENSION))).found == []


COUNT = 45


@pytest.fixture
def pool(tmp_path):
    """Rows in three files."""
    x = rows(COUNT).astype(np.float32)
    for number, part in enumerate(np.array_split(x, 3)):
        np.save(tmp_path / f"{number}.npy", part)
    return ShardedRows([tmp_path / f"{number}.npy" for number in range(3)])


def predicted(pool, out, **how):
    how = {"request": {"model": 1}, "shard_rows": 7} | how
    question, form = how.pop("question", Question()), how.pop("form", ".csv")
    return predict_in_shards(PredictPart(make_model(), question, pool, out, "pool", form), **how)


def parts(folder):
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("form", [".csv", ".jsonl"])
def test_parts_together_are_the_answers_in_one_go(pool, tmp_path, monkeypatch, size, form):
    monkeypatch.setattr(classifier, "CHUNK", 10)
    monkeypatch.setattr(predicted_shards, "CHUNK", 10)
    names = [f"pool:{number}" for number in range(COUNT)]
    whole = format_answers(Question().answers(make_model(), names, pool[:]).found, form)
    assert predicted(pool, tmp_path / "out", shard_rows=size, form=form) == -(-COUNT // size)
    found = parts(tmp_path / "out")
    assert list(found) == [f"part-{number:05}{form}" for number in range(-(-COUNT // size))]
    header = "input,label,score\n" if form == ".csv" else ""
    assert header + "".join(part.removeprefix(header) for part in found.values()) == whole


@pytest.mark.parametrize("kind", ["files", "map", "array"])
def test_whoever_works_in_whatever_order_and_twice_writes_the_same(pool, tmp_path, kind):
    predicted(pool, tmp_path / "here")
    x = pool[:]
    np.save(tmp_path / "x.npy", x)
    given = {"files": pool, "map": np.load(tmp_path / "x.npy", mmap_mode="r"), "array": x}[kind]
    predicted(given, tmp_path / "there", workers=Backwards())
    assert parts(tmp_path / "here") == parts(tmp_path / "there")


def test_workers_may_be_in_another_folder(pool, tmp_path, monkeypatch):
    class Elsewhere(Backwards):
        def each(self, work, pieces, what):
            sent = pickle.dumps(work)
            monkeypatch.chdir(tmp_path / "other")
            yield from super().each(pickle.loads(sent), pieces, what)
            monkeypatch.chdir(tmp_path)

    (tmp_path / "other").mkdir()
    predicted(pool, tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    files = ShardedRows([f"{number}.npy" for number in range(3)])
    predicted(files, Path("there"), workers=Elsewhere())
    assert parts(tmp_path / "here") == parts(tmp_path / "there")


def test_an_interrupted_run_goes_on_and_another_request_is_refused(pool, tmp_path, monkeypatch):
    predicted(pool, tmp_path / "whole")
    real, done = PredictPart.__call__, []

    def breaks_off(self, part):
        if part.number == 3:
            raise KeyboardInterrupt
        done.append(part.number)
        real(self, part)

    monkeypatch.setattr(PredictPart, "__call__", breaks_off)
    with pytest.raises(KeyboardInterrupt):
        predicted(pool, tmp_path / "out")
    monkeypatch.undo()
    assert done == [0, 1, 2]
    assert not (tmp_path / "out").exists()
    for other in ({"request": {"model": 2}}, {"question": Question(top=2)}, {"shard_rows": 8}):
        with pytest.raises(DataError, match="another unfinished job"):
            predicted(pool, tmp_path / "out", **other)
    before = (tmp_path / "out.partial" / "part-00002.csv").stat().st_mtime_ns
    predicted(pool, tmp_path / "out")
    assert (tmp_path / "out" / "part-00002.csv").stat().st_mtime_ns == before
    assert parts(tmp_path / "out") == parts(tmp_path / "whole")


def test_a_full_disk_is_one_clear_line_and_what_is_finished_stays(pool, tmp_path, monkeypatch):
    real, count = predicted_shards.atomic_files.written_whole, []

    def fills_up(file, opener=None):
        count.append(file)
        if len(count) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, opener)

    monkeypatch.setattr(predicted_shards.atomic_files, "written_whole", fills_up)
    with pytest.raises(DataError, match="No space left"):
        predicted(pool, tmp_path / "out")
    assert len(list((tmp_path / "out.partial").glob("part*"))) == 2


def test_answers_are_the_owners_alone(pool, tmp_path):
    predicted(pool, tmp_path / "out")
    assert (tmp_path / "out").stat().st_mode & 0o077 == 0
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "out").iterdir()} == {0}
