"""Work in the background: its progress, its end, and what is said when it fails."""

import threading
import warnings

import pytest

from dptransfer.app.jobs import Job
from dptransfer.base.progress import progress_bar, steps, tell
from dptransfer.errors import DataError, PrivacyWarning


def run(work):
    job = Job("Working", work, screen="data", then="who")
    job.wait(10)
    assert not job.is_running
    return job


def test_bars_and_steps_are_shown_as_a_share(capsys):
    seen = []

    def work():
        tell(1, 4, "step")
        seen.append((job.step, job.share))
        with progress_bar("Encoding") as step:
            step(3, 4)
        seen.append((job.step, job.share))

    ready = threading.Event()
    job = Job("Working", lambda: (ready.wait(5), work()), screen="data", then="who")
    ready.set()
    job.wait(10)
    assert seen == [("Working", 0.25), ("Encoding", 0.75)]
    assert job.problem == ""
    assert capsys.readouterr().err == ""


def test_a_step_of_nothing_ends_no_work():
    """It may have been charged for by then."""
    assert run(lambda: tell(0, 0, "step")).problem == ""


def test_a_stopped_job_ends_at_its_next_step():
    ready = threading.Event()
    job = Job("Working", lambda: (ready.wait(5), list(steps(10**9, "step"))), screen="data", then="who")
    job.stop()
    ready.set()
    job.wait(10)
    assert not job.is_running
    assert "Interrupted" in job.problem


def test_errors_are_one_line_and_warnings_are_kept():
    def refuse():
        warnings.warn("weak\npromise", PrivacyWarning, stacklevel=1)
        raise DataError("A rule; found that. Pass overwrite=True.")

    job = run(refuse)
    assert job.problem.endswith("--overwrite.")
    assert job.notes == ["weak promise"]


@pytest.mark.filterwarnings("ignore")
def test_a_mistake_of_ours_is_named_without_its_values(capsys):
    job = run(lambda: {}["jane-doe"])
    assert "KeyError" in job.problem
    assert "jane" not in job.problem
    assert "jane-doe" in capsys.readouterr().err  # for who started the app
