"""How far a fit is: on a terminal a bar that counts, in a pipe nothing."""

import io

import pytest
from rich.console import Console

from dptransfer import progress
from dptransfer.cli import screen as module
from dptransfer.cli.screen import progress_bar


def shown(monkeypatch, *, terminal):
    """What a fit of three steps writes to standard error."""
    written = io.StringIO()
    screen = Console(file=written, force_terminal=terminal, width=100)
    monkeypatch.setattr(module, "console", lambda *, err: screen)
    monkeypatch.setattr(module, "on_terminal", lambda *, err: terminal)
    with progress_bar("Fitting 'noisy-gd'") as step, progress.reported_to(step):
        assert list(progress.steps(3, "noisy gradient step")) == [0, 1, 2]
    return written.getvalue()


def test_on_a_terminal_steps_are_counted(monkeypatch):
    out = shown(monkeypatch, terminal=True)
    assert "Fitting 'noisy-gd', noisy gradient step 3 of 3" in out


def test_in_a_pipe_there_is_nothing(monkeypatch):
    assert shown(monkeypatch, terminal=False) == ""


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
