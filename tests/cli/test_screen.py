"""How far a fit is: on a terminal a bar that counts, in a pipe a line every half minute."""

import io
import re

import pytest
from rich.console import Console

from dptransfer.base import progress
from dptransfer.base import progress as module
from dptransfer.cli.screen import progress_bar


def shown(monkeypatch, *, terminal):
    """What a fit of three steps writes to standard error."""
    written = io.StringIO()
    screen = Console(file=written, force_terminal=terminal, width=100)
    monkeypatch.setattr(module, "_console", lambda: screen)
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: terminal, raising=False)
    with progress_bar("Fitting 'noisy-gd'") as step, progress.reported_to(step):
        assert list(progress.steps(3, "noisy gradient step")) == [0, 1, 2]
    return written.getvalue()


def test_on_a_terminal_steps_are_counted(monkeypatch):
    out = shown(monkeypatch, terminal=True)
    assert "step 3 of 3" in out


def test_in_a_pipe_there_is_nothing_of_what_is_done_at_once(monkeypatch):
    assert shown(monkeypatch, terminal=False) == ""


@pytest.fixture
def clock(monkeypatch):
    """Time that passes ten seconds a step."""
    seconds = iter(range(0, 10**6, 10))
    monkeypatch.setattr(module, "_now", lambda: next(seconds))


def test_in_a_pipe_long_work_tells_its_rate_and_the_time_left_now_and_then(clock, capsys):
    with progress_bar("Fitting 'film'") as step, progress.reported_to(step):
        list(progress.steps(40, "step"))
    lines = capsys.readouterr().err.splitlines()
    assert 2 < len(lines) < 40
    assert all(
        re.fullmatch(r"Fitting 'film', step \d+ of 40, 0\.\d+ a second, \d+ (s|min) left", one)
        for one in lines
    )


def test_in_a_pipe_nothing_tells_how_many_private_examples_there_are(clock, capsys):
    with progress_bar("Encoding", count_is_private=True) as step:
        for done in range(0, 1235, 50):
            step(done, 1234)
    told = capsys.readouterr().err
    assert re.search(r"^Encoding, \d+%, \d+ (s|min) left$", told, re.MULTILINE)
    assert "1234" not in told
    assert "second" not in told


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "0 s"), (80, "80 s"), (200, "3 min"), (9000, "2 h 30 min")]
)
def test_times_are_told_in_words(seconds, words):
    assert module.duration(seconds) == words


def test_nobody_listens_afterwards(monkeypatch):
    shown(monkeypatch, terminal=True)
    assert progress._listener.get() is None
    with pytest.raises(RuntimeError, match="inside"):
        with progress_bar("Fitting") as step, progress.reported_to(step):
            raise RuntimeError("inside")
    assert progress._listener.get() is None


def test_a_fit_in_a_pipe_writes_nothing_to_standard_error(cli, data):
    words = ("-e", "1", "-d", "1e-5", "--classes", "cat,dog,bird", "-m", "noisy-gd", "--set", "steps=3")
    done = cli("fit", data / "private.npz", *words, "--out", "model", "--name", "clinic")
    assert done.stderr == ""
