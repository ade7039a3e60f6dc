"""Sweeps as a whole: resumed, killed, shared between studies; the results are always the same."""

import json
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dptransfer.errors import ArgumentError, BudgetError, DataError, PrivacyWarning
from dptransfer_lab.cells import cells_of
from dptransfer_lab.results import FILE, read_results, read_study
from dptransfer_lab.run import MeasureTwice, Watcher, run_study
from dptransfer_lab.sources import stored_arrays
from dptransfer_lab.study import parse_study
from dptransfer_lab.tasks import task_of

from .samples import SMALL


def results_of(folder):
    """What must not depend on how a sweep was run: everything but times, peaks and dates."""
    kept = {}
    for line in (Path(folder) / FILE).read_text().splitlines():
        record = json.loads(line)
        assert record["cell"] not in kept, "a duplicate"
        record["cost"] = record["made"]["date"] = record["made"]["host_cores"] = None
        record["extra"] = {name: value for name, value in record["extra"].items() if "seconds" not in name}
        kept[record["cell"]] = record
    return kept


class Counting(Watcher):
    """A watcher that counts, and interrupts when told to."""

    def __init__(self, stop_after=None):
        self.ended = 0
        self.wanted = None
        self.stop_after = stop_after

    def missing(self, what):
        self.left_out = what

    def begin(self, total, wanted):
        self.wanted = len(wanted)

    def finished(self, cell, record):
        self.ended += 1
        if self.ended == self.stop_after:
            raise KeyboardInterrupt


def swept(toy, study, name="out", **how):
    return run_study(study, toy / name, folders=[toy], **{"workers": 0, **how})


def test_a_finished_cell_is_never_run_twice(toy, small):
    first = swept(toy, small)
    assert (first.total, first.reused, first.counts) == (16, 0, {"done": 16})
    before = (toy / "out" / FILE).read_bytes()
    again = swept(toy, small)
    assert (again.reused, again.ran) == (16, 0)
    assert (toy / "out" / FILE).read_bytes() == before
    kept = read_study(toy / "out", "small")
    assert kept["study"] == small.resolved()
    assert kept["digest"] == small.digest
    assert set(kept["cells"]) == set(results_of(toy / "out"))
    assert (toy / "out" / "results.csv").read_text().count("\n") == 17


def test_a_failed_cell_is_tried_again_when_that_is_asked_for(toy, small):
    swept(toy, small, "out")
    file = toy / "out" / FILE
    first, *rest = (json.loads(line) for line in file.read_text().splitlines())
    file.write_text("".join(json.dumps(record) + "\n" for record in [{**first, "status": "failed"}, *rest]))
    left = swept(toy, small, "out")
    assert (left.reused, left.ran) == (16, 0)
    again = swept(toy, small, "out", retry_failed=True)
    assert (again.reused, again.ran) == (15, 1)


def test_an_interrupted_sweep_goes_on_where_it_stopped(toy, small):
    swept(toy, small, "whole")
    with pytest.raises(KeyboardInterrupt):
        swept(toy, small, "parts", watcher=Counting(stop_after=5))
    rest = Counting()
    swept(toy, small, "parts", watcher=rest)
    assert (rest.wanted, rest.ended) == (11, 11)
    assert results_of(toy / "parts") == results_of(toy / "whole")


def test_two_studies_in_one_folder_share_their_cells(toy, small):
    swept(toy, small, "out")
    text = SMALL.replace('name = "small"', 'name = "wider"', 1).replace("seeds = 2", "seeds = 3")
    wider = parse_study(text.replace('label = "sums"', 'label = "class sums"'))
    tally = swept(toy, wider, "out")
    assert (tally.total, tally.reused) == (24, 16)
    assert len(read_results(toy / "out")) == 24
    assert len(read_results(toy / "out", "small")) == 16
    labels = set(read_results(toy / "out", "wider")["label"])
    assert labels == {"class sums", "public"}


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_workers(toy, small):
    swept(toy, small, "here")
    watcher = Counting()
    tally = swept(toy, small, "two", workers=2, watcher=watcher)
    assert tally.counts == {"done": 16}
    assert watcher.ended == 16
    assert results_of(toy / "two") == results_of(toy / "here")
    assert 0 < tally.starting < tally.seconds


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_cluster_gives_the_same_results(ray, toy, small):
    swept(toy, small, "here")
    assert swept(toy, small, "there", engine="ray", workers=2).counts == {"done": 16}
    assert results_of(toy / "there") == results_of(toy / "here")
    assert set(read_results(toy / "there")["host_cores"]) == {1}


def test_what_is_missing_is_refused_or_left_out_and_named(toy, small):
    extra = """
[[data]]
name = "elsewhere"
source = { made = "missing.npz" }
pool = "pool"
"""
    study = parse_study(SMALL + extra)
    with pytest.raises(DataError, match=r"missing\.npz"):
        swept(toy, study, "out")
    assert not (toy / "out").exists()
    watcher = Counting()
    tally = swept(toy, study, "out", skip_missing=True, watcher=watcher)
    assert tally.total == 16
    assert "elsewhere (made) is" in watcher.left_out
    assert "--data FOLDER" in watcher.left_out
    with pytest.raises(DataError, match="them are missing"):
        run_study(study, toy / "none", folders=[toy / "empty"], workers=0, skip_missing=True)


def test_large_budgets_bring_one_warning_for_the_study_and_none_for_its_cells(toy):
    study = parse_study(SMALL.replace("[0.5, 2]", "[16, 32]"))
    with pytest.warns(PrivacyWarning, match="epsilon") as caught:
        swept(toy, study, "large")
    assert {one.filename for one in caught} == {__file__}  # nothing from within a cell
    assert set(read_results(toy / "large")["status"]) == {"done"}
    absurd = parse_study(SMALL.replace("[0.5, 2]", "[1e308]"))
    with pytest.raises(BudgetError, match="at most 700"):
        swept(toy, absurd, "absurd")


def test_unknown_engines_are_refused(toy, small):
    with pytest.raises(ArgumentError, match="processes, ray"):
        swept(toy, small, "out", engine="abacus")


@pytest.fixture
def ready(toy, small):
    stored = stored_arrays(small, [toy])
    return cells_of(small, stored)[0], {one.fingerprint: one for one in stored.values()}


def test_a_worker_measures_a_cell_that_fails_once_more_and_then_says_what_happened(ready, monkeypatch):
    cell, stored = ready
    problems = [ZeroDivisionError("gone"), OSError("full")]

    def fail(*given):
        if problems:
            raise problems.pop()
        return {"status": "done"}

    monkeypatch.setattr("dptransfer_lab.run.measure", fail)
    record = MeasureTwice(stored)(cell)
    assert (record["cell"], record["status"]) == (cell.address, "failed")
    assert record["message"].startswith("ZeroDivisionError: gone at test_run.py:")
    problems.append(OSError("full"))
    assert MeasureTwice(stored)(cell) == {"status": "done"}


def test_a_worker_on_another_machine_needs_no_file(ready, toy, monkeypatch):
    cell, stored = ready
    arrays = {fingerprint: one.in_memory() for fingerprint, one in stored.items()}
    there = pickle.loads(pickle.dumps(MeasureTwice(arrays)))
    here = MeasureTwice(stored)(cell)
    monkeypatch.setattr(np, "load", None)  # a file that is opened would be an error
    task_of.cache_clear()
    assert there(cell)["metrics"] == here["metrics"]


def test_a_small_version_of_the_demo_study(tmp_path):
    from dptransfer_lab.catalogue import text_of

    text = text_of("demo")
    for old, new in (("seeds = 5", "seeds = 2"), ("[0.25, 1, 4]", "[8]"), ("[1, 10]", "[1]")):
        assert old in text
        text = text.replace(old, new)
    small = parse_study(text)
    tally = run_study(small, tmp_path, workers=0)
    assert tally.counts == {"done": tally.total}
    best = read_results(tmp_path, "demo").query("method == 'public-prior'")["balanced_accuracy"]
    assert len(best) == 2
    assert best.min() > 0.85


KILLED = """
import sys
from pathlib import Path
from dptransfer_lab.run import run_study
from dptransfer_lab.study import read_study_file
folder = Path(sys.argv[1])
run_study(read_study_file(folder / "small.toml"), sys.argv[2], folders=[folder], workers=int(sys.argv[3]))
"""


def lines_in(folder):
    file = Path(folder) / FILE
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.mark.slow
def test_killed_ten_times_the_results_are_those_of_an_uninterrupted_run(toy):
    text = SMALL.replace("seeds = 2", "seeds = 40")
    (toy / "small.toml").write_text(text)
    swept(toy, parse_study(text), "whole", workers=1)
    total = len(results_of(toy / "whole"))
    out = toy / "killed"
    command = [sys.executable, "-c", KILLED, str(toy), str(out), "2"]
    kills = 0
    while kills < 10:
        sweep = subprocess.Popen(command)
        goal = lines_in(out) + total // 14
        while lines_in(out) < goal and sweep.poll() is None:
            time.sleep(0.002)
        assert sweep.poll() is None, "it must be killed in the middle"
        sweep.send_signal(signal.SIGKILL)
        sweep.wait()
        kills += 1
        if kills == 5:  # what a kill in the middle of a write leaves
            with (out / FILE).open("ab") as file:
                file.write(b'{"cell":"0000')
    assert lines_in(out) < total
    subprocess.run(command, check=True)
    assert results_of(out) == results_of(toy / "whole")
