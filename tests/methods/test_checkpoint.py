"""A fit that is killed goes on where it was, under one charge and with the answers that were drawn."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer.data import Labelled, RowMetadata, write_embeddings
from dptransfer.errors import ArgumentError, DPTransferError, LedgerError, WorkspaceError
from dptransfer.ledger import Charge
from dptransfer.mechanisms import gaussian
from dptransfer.methods.checkpoint import RecordedNoise, Workspace
from dptransfer.methods.method import with_query
from dptransfer.sources import read_private

from . import dying
from .dying import STEPS

BUDGET = dpt.Budget(epsilon=1.0, delta=1e-5)
FOUR = dpt.methods.NoisyGD(steps=4)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    np.save(tmp_path / "rows.npy", np.column_stack([labels, rng.normal(size=(60, 5)) + labels[:, None]]))
    return tmp_path


@pytest.fixture
def fitted(ended):
    """Gives the exit code of a fit in a process of its own."""
    return lambda folder, moment="never": ended(dying.until, moment, dying.fit, folder)


def charges(ledger):
    """Of a ledger, or of the one in a folder."""
    ledger = dpt.Ledger(ledger / "ledger.sqlite") if isinstance(ledger, Path) else ledger
    return [entry for entry in ledger.history() if isinstance(entry, Charge)]


def answers(folder):
    with sqlite3.connect(folder / "run" / "run.sqlite") as file:
        return file.execute("SELECT number, what, array FROM answers ORDER BY number").fetchall()


@pytest.mark.parametrize(
    ("moment", "kept", "redrawn"),
    [
        ("before the charge", 0, 0),
        ("after the charge", 0, 0),
        ("answer 3 drawn", 2, 1),
        ("answer 3 written", 3, 0),
        (f"answer {STEPS} written", STEPS, 0),
        ("after the end", STEPS, 0),
    ],
)
def test_a_fit_that_is_killed_goes_on_with_one_charge_and_the_answers_it_had(
    fitted, folder, moment, kept, redrawn
):
    assert fitted(folder, moment) == -signal.SIGKILL
    before = answers(folder)
    assert len(before) == kept
    assert fitted(folder) == 0
    (charge,) = charges(folder)
    assert charge.outcome == "released"
    after = answers(folder)
    assert len(after) == STEPS
    assert after[:kept] == before
    # Only an answer that nobody had seen, drawn and not yet written, was drawn again.
    assert len((folder / "draws").read_text().splitlines()) == STEPS + redrawn


def test_a_fit_that_is_over_gives_the_same_model_again_and_draws_nothing(fitted, folder):
    assert fitted(folder, "after the end") == -signal.SIGKILL  # before the model was saved
    drawn = (folder / "draws").read_text()
    assert fitted(folder) == 0
    first = np.load(folder / "weights.npy")
    assert fitted(folder) == 0
    assert np.array_equal(np.load(folder / "weights.npy"), first)
    assert (folder / "draws").read_text() == drawn
    assert len(charges(folder)) == 1


def refuse(word, **called):
    """The workspace does, in words with this one."""
    with pytest.raises(WorkspaceError, match=word):
        FOUR.fit(**called)


class Cut(Exception):
    """A run that breaks off."""


class Breaking(dpt.SecureNoise):
    """Breaks off at its n-th draw."""

    def __init__(self, at):
        self.left = at

    def discrete_gaussian(self, scale, shape):
        self.left -= 1
        if self.left < 0:
            raise Cut
        return super().discrete_gaussian(scale, shape)


def made(rows=0.0, name="clinic", people=None):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 4)) + rows, rng.integers(0, 2, 40)
    return dpt.PrivateEmbeddings(x, y, classes=["a", "b"], name=name, people=people)


@pytest.fixture
def ledger(tmp_path):
    return dpt.Ledger(tmp_path / "ledger.sqlite")


@pytest.fixture
def broken_off(tmp_path, ledger):
    """A workspace with two answers, and what its fit was called with."""
    called = {"private": made(), "budget": BUDGET, "ledger": ledger, "workspace": tmp_path / "run"}
    with pytest.raises(Cut):
        FOUR.fit(**called, noise=Breaking(2))
    return called


def test_an_error_leaves_the_charge_open_and_the_run_goes_on(broken_off, ledger):
    assert ledger.history()[0].outcome is None
    FOUR.fit(**broken_off)
    assert [type(entry).__name__ for entry in ledger.history()] == ["Charge", "ClosingEntry"]


@pytest.mark.parametrize(
    ("method", "changed", "word"),
    [
        (dpt.methods.NoisyGD(steps=5), {}, "configuration"),
        (dpt.methods.DPSGDProbe(steps=4), {}, "method"),
        (FOUR, {"budget": dpt.Budget(epsilon=2.0, delta=1e-5)}, "budget"),
        (FOUR, {"private": made(rows=1e-9)}, "private data set"),
        (FOUR, {"public": dpt.PublicEmbeddings(np.eye(4))}, "public data set"),
    ],
)
def test_a_workspace_refuses_any_other_fit_and_nothing_is_charged(broken_off, ledger, method, changed, word):
    before = ledger.head
    with pytest.raises(WorkspaceError, match=f"has another {word}"):
        method.fit(**{**broken_off, **changed})
    assert ledger.head == before


def test_a_workspace_refuses_other_people_for_the_same_rows(tmp_path, ledger):
    called = {"budget": BUDGET, "ledger": ledger, "workspace": tmp_path / "run"}
    people = [f"patient {row % 9}" for row in range(40)]
    with pytest.raises(Cut):
        FOUR.fit(made(people=people), **called, noise=Breaking(2))
    before = ledger.head
    for others, word in ((sorted(people), "person for some row"), (None, "budget")):
        with pytest.raises(WorkspaceError, match=f"has another {word}"):
            FOUR.fit(made(people=others), **called)
    assert ledger.head == before
    renamed = [one.replace("patient", "case") for one in people]
    FOUR.fit(made(people=renamed), **called)  # other names for the same people


def test_a_workspace_refuses_another_version_of_the_software(broken_off, monkeypatch):
    from dptransfer.methods import fitting

    monkeypatch.setattr(fitting.manifest, "current_versions", lambda: {"dptransfer": "99"})
    refuse("software version", **broken_off)
    monkeypatch.undo()
    monkeypatch.setattr(fitting, "_packages", lambda method: {"somebody-elses"})  # brings it now
    refuse("software version", **broken_off)


def test_the_same_rows_under_another_name_are_not_the_data_set_that_was_charged(broken_off, ledger):
    before = ledger.head
    with pytest.raises(LedgerError, match="was charged for"):
        FOUR.fit(**{**broken_off, "private": made(name="ward")})
    assert ledger.head == before


def test_a_copy_of_a_workspace_cannot_draw_the_same_answers_a_second_time(broken_off, tmp_path):
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    refuse("copied or restored", **{**broken_off, "workspace": tmp_path / "copy"})
    os.rename(tmp_path / "run", tmp_path / "moved")
    FOUR.fit(**{**broken_off, "workspace": tmp_path / "moved"})


def test_a_workspace_restored_from_a_backup_is_refused_though_its_file_has_the_old_number(
    broken_off, tmp_path, ledger
):
    shutil.copytree(tmp_path / "run", tmp_path / "backup")
    FOUR.fit(**{**broken_off, "ledger": dpt.Ledger.in_memory()})  # draws the other two
    shutil.rmtree(tmp_path / "run")
    shutil.copytree(
        tmp_path / "backup", tmp_path / "run"
    )  # where the numbers of deleted files are used again
    refuse("copied or restored", **broken_off)


def test_files_of_answers_that_were_restored_beside_the_one_that_tells_copies_are_refused(
    broken_off, tmp_path
):
    names = "run.sqlite", "last-answer"
    for name in names:
        shutil.copy2(tmp_path / "run" / name, tmp_path / name)
    FOUR.fit(**{**broken_off, "ledger": dpt.Ledger.in_memory()})  # draws the other two
    for name in names:
        (tmp_path / name).rename(tmp_path / "run" / name)
    refuse("copied or restored", **broken_off)


def test_a_place_with_the_old_number_and_another_time_is_another_place(broken_off, tmp_path):
    (tmp_path / "run" / "place").chmod(0o600)  # as it was: the time of change alone is another
    refuse("copied or restored", **broken_off)


@pytest.fixture
def refused(broken_off, ledger, tmp_path):
    """Refuses to go on with a workspace in which something was changed, without a draw or a charge."""

    def changed(*statements):
        with sqlite3.connect(tmp_path / "run" / "run.sqlite") as file:
            for statement in statements:
                file.execute(statement)
        before, left = ledger.head, answers(tmp_path)
        refuse("must be intact", **broken_off, noise=Breaking(0))
        assert (ledger.head, answers(tmp_path)) == (before, left)

    return changed


@pytest.mark.parametrize(
    "column",
    [
        *("array = zeroblob(100)", "array = 'a text'", "sha256 = 'none'", "what = 'another question'"),
        *("what = zeroblob(9)", "number = 9", "number = 0", "number = -1"),
    ],
)
def test_a_damaged_answer_is_an_error_and_not_drawn_again(refused, column):
    refused(f"UPDATE answers SET {column} WHERE number = 1")


EXCHANGED = tuple(
    f"UPDATE answers SET number = {to} WHERE number = {at}" for at, to in ((1, 9), (2, 1), (9, 2))
)
TAMPERED = {
    "the last is taken away": ("DELETE FROM answers WHERE number = 2",),
    "the first is taken away": ("DELETE FROM answers WHERE number = 1",),
    "all are taken away": ("DELETE FROM answers",),
    "two are exchanged": EXCHANGED,
    "nobody drew some": ("INSERT INTO answers SELECT number + 2, what, sha256, array FROM answers",),
    "one is in the place of another, with its checksum and to the same question": (
        "UPDATE answers SET (what, sha256, array) = "
        "(SELECT what, sha256, array FROM answers WHERE number = 1) WHERE number = 2",
    ),
}


@pytest.mark.parametrize("statements", TAMPERED.values(), ids=TAMPERED)
def test_answers_that_were_tampered_with_are_refused(refused, statements):
    refused(*statements)


def test_answers_before_the_last_that_were_exchanged_are_refused(broken_off, refused):
    with pytest.raises(Cut):
        FOUR.fit(**broken_off, noise=Breaking(1))
    refused(*EXCHANGED)


@pytest.mark.parametrize("number", [3, 4])
def test_answers_are_missed_once_the_run_is_over(broken_off, refused, number):
    FOUR.fit(**broken_off)
    refused(f"DELETE FROM answers WHERE number = {number}")


def test_an_older_copy_of_the_answers_is_refused(broken_off, refused, tmp_path):
    file = tmp_path / "run" / "run.sqlite"
    older = file.read_bytes()
    with pytest.raises(Cut):
        FOUR.fit(**broken_off, noise=Breaking(1))
    file.write_bytes(older)
    refused()


@pytest.mark.parametrize("left", [None, b"", b"\xff" * 64, 63])
def test_a_record_of_the_last_answer_that_is_damaged_is_refused(refused, tmp_path, left):
    record = tmp_path / "run" / "last-answer"
    whole = record.read_bytes()
    record.unlink()
    if left is not None:
        record.write_bytes(left if isinstance(left, bytes) else whole[:left])
    refused()
    refused("DELETE FROM answers WHERE number = 2")


def test_a_record_of_another_run_is_refused(refused, tmp_path, ledger):
    called = {"budget": BUDGET, "ledger": ledger, "workspace": tmp_path / "other"}
    with pytest.raises(Cut):
        FOUR.fit(made(), **called, noise=Breaking(2))
    shutil.copy(tmp_path / "other" / "last-answer", tmp_path / "run" / "last-answer")
    refused()


@pytest.mark.parametrize("done", [0, 1])
def test_an_answer_that_was_not_recorded_before_the_process_ended_is_used_and_recorded(
    broken_off, tmp_path, monkeypatch, done
):
    """It is on the disk, and nobody has computed anything from it."""

    def ended(self, file, content):
        (put(self, file, content) if done else None)
        raise Cut

    put = Workspace._put
    with monkeypatch.context() as patch:
        patch.setattr(Workspace, "_put", ended)
        with pytest.raises(Cut):
            FOUR.fit(**broken_off)
    before = answers(tmp_path)
    assert len(before) == 3
    with pytest.raises(Cut):
        FOUR.fit(**broken_off, noise=Breaking(0))
    FOUR.fit(**broken_off)
    assert answers(tmp_path)[:3] == before


def test_an_answer_is_recorded_before_anything_is_computed_from_it(tmp_path):
    with Workspace(tmp_path / "run") as workspace:
        workspace.bind({})
        recorded = set()
        for number in (1, 2, 3):
            assert workspace.draw_once(number, "sum", lambda: np.zeros(1)) == [0]
            recorded.add((tmp_path / "run" / "last-answer").read_text())
            assert len(recorded) == number
        with pytest.raises(WorkspaceError, match="answer 5"):
            workspace.draw_once(5, "sum", lambda: np.zeros(1))


def test_a_record_is_on_the_disk_before_it_takes_the_place_of_the_one_before(tmp_path, monkeypatch):
    flushed, flush, record = [], os.fsync, tmp_path / "run" / "last-answer"

    def noted(handle):
        flush(handle)
        flushed.append((record.read_text(), record.with_suffix(".draft").exists()))

    with Workspace(tmp_path / "run") as workspace:
        workspace.bind({})
        before = record.read_text()
        monkeypatch.setattr(os, "fsync", noted)
        workspace.draw_once(1, "sum", lambda: np.zeros(1))
    assert flushed == [(before, True), (record.read_text(), False)]  # the file, and then its folder
    assert before != record.read_text()


def test_a_file_that_is_no_workspace_is_refused_in_words(broken_off, tmp_path):
    (tmp_path / "run" / "run.sqlite").write_bytes(b"something else" * 100)
    refuse("must be intact", **broken_off)


def opening(folder, then=""):
    """Open the workspace in another process, and go on."""
    code = "import os, sys; from dptransfer.methods.checkpoint import Workspace; w = Workspace(sys.argv[1])\n"
    return [sys.executable, "-c", code + then, str(folder / "run")]


def test_one_process_at_a_time_works_in_a_workspace(broken_off, tmp_path, ledger):
    command = opening(tmp_path, "print('held', flush=True); sys.stdin.read()")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        refuse("Only one process", **broken_off)
        other.kill()
    FOUR.fit(**broken_off)


def test_a_thread_that_is_refused_lets_no_other_process_in(broken_off, tmp_path):
    """Closing any descriptor of a file drops all locks that a process has on it."""
    with Workspace(tmp_path / "run"):
        refuse("Only one process", **broken_off)
        other = subprocess.run(opening(tmp_path), capture_output=True, text=True, check=False)
        assert "Only one process" in other.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_of_the_process_draws_nothing(tmp_path):
    forking = "if os.fork():\n    os.wait()\nelse:\n    w.draw_once(1, 'sum', lambda: print('drawn'))"
    command = opening(tmp_path, forking)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Only one process" in done.stderr


def test_a_full_disk_is_told_in_words_and_the_run_goes_on_when_there_is_room(tmp_path):
    with Workspace(tmp_path / "run") as workspace:
        workspace.bind({})
        workspace._file.execute("PRAGMA max_page_count = 1")
        with pytest.raises(WorkspaceError, match="disk is full"):
            workspace.draw_once(1, "sum", lambda: np.zeros(10_000))
        workspace._file.execute("PRAGMA max_page_count = 1000")
        assert workspace.draw_once(1, "sum", lambda: np.ones(10_000)).sum() == 10_000
        (tmp_path / "run").rename(tmp_path / "gone")
        with pytest.raises(WorkspaceError, match="No such file"):
            workspace.keep("votes", lambda: np.zeros(1))


def test_the_folder_is_its_owners_alone(broken_off, tmp_path):
    assert (tmp_path / "run").stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "run").iterdir())
    (tmp_path / "run").chmod(0o755)
    refuse("chmod 700", **broken_off)


def test_a_folder_with_other_files_is_no_workspace(tmp_path, ledger):
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "letter.txt").touch()
    with pytest.raises(WorkspaceError, match="of its own"):
        dpt.methods.MeanPrototypes().fit(made(), budget=BUDGET, ledger=ledger, workspace=tmp_path / "home")
    assert ledger.history() == []


def test_seeded_noise_cannot_go_on(tmp_path, ledger):
    with pytest.raises(ArgumentError, match="seeded"):
        dpt.methods.MeanPrototypes().fit(
            made(), budget=BUDGET, ledger=ledger, noise=dpt.SeededNoise(0), workspace=tmp_path / "run"
        )
    assert ledger.history() == []
    assert not (tmp_path / "run").exists()


def test_noise_that_was_drawn_ahead_and_lost_is_drawn_again_and_nothing_else_is(
    tmp_path, ledger, monkeypatch
):
    """Broken off at the third noise, which the second round draws ahead: both answers are on disk."""
    monkeypatch.setattr(gaussian, "_FEW", 1)
    monkeypatch.setattr(gaussian, "usable_cores", lambda: 3)
    called = {"budget": BUDGET, "ledger": ledger, "workspace": tmp_path / "run"}
    with pytest.raises(Cut):
        dpt.methods.DPSGDProbe(steps=4).fit(made(), **called, noise=Breaking(2))
    before = answers(tmp_path)
    assert len(before) == 2
    with pytest.raises(Cut):
        dpt.methods.DPSGDProbe(steps=4).fit(made(), **called, noise=Breaking(1))
    assert answers(tmp_path)[:2] == before
    assert len(answers(tmp_path)) == 3
    dpt.methods.DPSGDProbe(steps=4).fit(made(), **called, noise=Breaking(1))
    assert [number for number, *_ in answers(tmp_path)] == [1, 2, 3, 4]
    assert len(charges(ledger)) == 1


def test_every_kind_of_mechanism_answers_from_the_workspace(tmp_path, ledger):
    pool = dpt.PublicEmbeddings(np.random.default_rng(2).normal(size=(30, 4)))
    tuned = dpt.methods.PrivateTuning(candidates=(dpt.methods.NoisyGD(steps=2), dpt.methods.NoisyGD(steps=3)))
    methods = (
        dpt.methods.MeanPrototypes(),
        dpt.methods.PublicPrototypes(),
        dpt.methods.TopKPrototypes(k=2),
        dpt.methods.DPSGDProbe(steps=3),
    )
    for method in (*methods, dpt.methods.PublicPriorPrototypes(), tuned):
        called = {"budget": BUDGET, "ledger": ledger, "workspace": tmp_path / method.name}
        first, second = (method.fit(made(), pool, **called) for _ in range(2))
        assert first.weights.keys() == second.weights.keys()
        assert all(np.array_equal(first.weights[name], second.weights[name]) for name in first.weights)
    assert len(charges(ledger)) == 6


class DrawsOutside(dpt.methods.MeanPrototypes):
    """Takes noise past its mechanisms, which a run that goes on would draw again."""

    def run(self, task):
        task.noise.discrete_gaussian(1.0, (1,))
        return super().run(task)


def test_noise_outside_of_answers_is_refused(tmp_path, ledger):
    with pytest.raises(DPTransferError, match="inside of answers"):
        DrawsOutside().fit(made(), budget=BUDGET, ledger=ledger, workspace=tmp_path / "run")


def test_private_intermediates_are_computed_once_and_again_when_their_file_is_broken(tmp_path):
    computed = []

    def votes():
        computed.append(1)
        return np.arange(6).reshape(2, 3)

    with Workspace(tmp_path / "run") as workspace:
        workspace.bind({})
        noise = RecordedNoise(dpt.SecureNoise(), workspace, finished=False)
        for _ in range(2):
            assert noise.keep("votes of the teachers", votes).tolist() == [[0, 1, 2], [3, 4, 5]]
        assert len(computed) == 1
        (file,) = (tmp_path / "run").glob("*.npy")
        assert file.stat().st_mode & 0o077 == 0
        file.write_bytes(file.read_bytes()[:100])
        assert noise.keep("votes of the teachers", votes).tolist() == [[0, 1, 2], [3, 4, 5]]
        assert len(computed) == 2


def test_trials_may_keep_different_intermediates_under_the_same_words(tmp_path):
    def run(workspace):
        noise = RecordedNoise(dpt.SecureNoise(), workspace, finished=False)
        for trial in range(2):
            yield int(noise.keep("rows as the map gives them", lambda trial=trial: np.array([trial]))[0])
            noise.draw_once("score", lambda: np.zeros(1))

    for _ in range(2):
        with Workspace(tmp_path / "run") as workspace:
            workspace.bind({})
            assert list(run(workspace)) == [0, 1]


def test_an_answer_on_record_is_not_one_with_other_noise(tmp_path):
    """A share that follows from earlier answers might be another when the run goes on, say on another CPU."""
    data = made()
    (planned,) = dpt.methods.MeanPrototypes().plan(data.facts, BUDGET).mechanisms
    mechanism = with_query(planned, features=dpt.features.UnitNorm().fit(4, None))
    with Workspace(tmp_path / "run") as workspace:
        workspace.bind({})
        for multiplier, refused in ((3.0, False), (3.0, False), (4.0, True)):
            noise = RecordedNoise(dpt.SecureNoise(), workspace, finished=False)
            asked = replace(mechanism, noise_multiplier=multiplier)
            with pytest.raises(WorkspaceError, match="answer 1") if refused else nullcontext():
                asked.release(data.rows, data.labels, noise=noise)


def test_pieces_that_a_killed_run_left_behind_its_answer_are_deleted(tmp_path):
    def counted(missing):
        yield from ((number, np.array([number])) for number in missing)

    def draw():
        assert [int(one[0]) for one in noise.keep_pieces("scores", 3, counted)] == [0, 1, 2]
        return np.array([7])

    with Workspace(tmp_path / "run") as space:
        space.bind({"method": "one"})
        noise = RecordedNoise(dpt.SecureNoise(), space, finished=False)
        noise._workspace.forget_pieces = lambda answer: None  # killed between the answer and its end
        assert noise.draw_once("choice", draw) == [7]
        del noise._workspace.forget_pieces
    left = sorted((tmp_path / "run").glob("*.npy"))
    assert len(left) == 3
    left[0].with_suffix(".draft").write_bytes(b"")  # or in the middle of a file
    with Workspace(tmp_path / "run") as space:
        space.bind({"method": "one"})
        noise = RecordedNoise(dpt.SecureNoise(), space, finished=True)
        assert noise.draw_once("choice", draw) == [7]
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == [
        "last-answer",
        "place",
        "run.sqlite",
    ]


@pytest.mark.parametrize("part", ["rows", "labels"])
def test_a_run_does_not_go_on_with_rows_that_were_written_to_in_between(tmp_path, ledger, part):
    """By the very same object: its array is the caller's, who may write to it."""
    x, y = np.random.default_rng(1).normal(size=(40, 4)), np.arange(40) % 2
    labels = Labelled(y, (0, 1))
    private = dpt.PrivateEmbeddings(x, labels, name="clinic")
    called = {"budget": BUDGET, "ledger": ledger, "workspace": tmp_path / "run"}
    with pytest.raises(Cut):
        FOUR.fit(private, **called, noise=Breaking(2))
    before, left = ledger.head, answers(tmp_path)
    changed = x if part == "rows" else private.labels
    changed.flags.writeable = True
    changed[3] = 1 - changed[3]
    with pytest.raises(WorkspaceError, match="changed"):
        FOUR.fit(private, **called)
    assert (ledger.head, answers(tmp_path)) == (before, left)
    changed[3] = 1 - changed[3]
    if part == "labels":  # a flip and back is exact, and rows are rounded
        FOUR.fit(private, **called)


def test_a_run_does_not_begin_with_rows_that_are_not_those_of_their_fingerprint(tmp_path, ledger):
    x = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
    emb = write_embeddings(tmp_path / "a.emb", x, RowMetadata(np.arange(40) % 2, classes=["a", "b"]))
    private = read_private(emb, name="clinic")
    mapped = np.load(emb / "rows-00000.npy", mmap_mode="r+")
    mapped[7] += 1
    mapped.flush()
    with pytest.raises(WorkspaceError, match="changed"):
        dpt.methods.NoisyGD(steps=2).fit(private, budget=BUDGET, ledger=ledger, workspace=tmp_path / "run")
    assert ledger.history() == []
    mapped[7] = x[7]
    mapped.flush()
    dpt.methods.NoisyGD(steps=2).fit(private, budget=BUDGET, ledger=ledger, workspace=tmp_path / "run")


def test_choices_in_a_workspace_are_drawn_at_exactly_the_scale_asked_for(tmp_path, monkeypatch):
    asked = []
    for name in ("best_set", "permute_and_flip"):
        note = lambda *given, name=name: asked.append((name, *given[1:-1])) or np.zeros(1)  # noqa: E731
        monkeypatch.setattr(f"dptransfer.noise.race.{name}", note)
    with Workspace(tmp_path / "run") as workspace:
        workspace.bind({"method": "one"})
        noise = RecordedNoise(dpt.SecureNoise(), workspace, finished=False)
        workspace.bind({})
        noise.draw_once("a set", lambda: noise.best_set(None, 4, 14.25))
        noise.draw_once("a candidate", lambda: noise.permute_and_flip(None, 15.25))
    assert asked == [("best_set", 4, 14.25), ("permute_and_flip", 15.25)]
