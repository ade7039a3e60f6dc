import io
import re
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from dptransfer.base import progress
from dptransfer.base.progress import progress_bar, reported_to, show_progress, steps, tell


def test_every_step_is_told_after_it_is_done():
    heard, done = [], []
    with reported_to(lambda *told: heard.append((*told, len(done)))):
        for index in steps(3, "step"):
            done.append(index)
        tell(7, 10, "part")  # as a run that goes on does
    list(steps(5, "step"))
    assert done == [0, 1, 2]
    assert heard == [(1, 3, "step", 1), (2, 3, "step", 2), (3, 3, "step", 3), (7, 10, "part", 3)]


def test_listeners_nest_and_the_outer_one_comes_back():
    outer, inner = [], []
    with reported_to(lambda *told: outer.append(told)):
        list(steps(1, "a"))
        with reported_to(lambda *told: inner.append(told)):
            list(steps(1, "b"))
        list(steps(1, "c"))
    assert [what for *_, what in outer] == ["a", "c"]
    assert [what for *_, what in inner] == ["b"]


def test_in_a_notebook_a_bar_is_written_over_and_over(monkeypatch):
    written = []

    class Place:
        def update(self, shown):
            written.append(shown)

    class Shell:
        kernel = object()

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=Shell))
    display = SimpleNamespace(HTML=str, display=lambda shown, display_id: Place())
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with show_progress("Encoding <photos>"):
        tell(30, 40, "")
    # It is saved with the notebook, so that how many examples there are must not be in it.
    assert written == ['<progress value="75" max="100"></progress> Encoding &lt;photos&gt;, 75%']
    with progress_bar("Fitting") as step:
        step(3, 4, "step")
    assert written[1].startswith('<progress value="3" max="4"></progress> Fitting, step 3 of 4')


@pytest.mark.parametrize("terminal", [True, False])
def test_on_a_terminal_steps_are_counted_and_in_a_pipe_what_is_done_at_once_is_not(monkeypatch, terminal):
    written = io.StringIO()
    screen = Console(file=written, force_terminal=terminal, width=100)
    monkeypatch.setattr(progress, "_console", lambda: screen)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: terminal, raising=False)
    with show_progress("Fitting", count_is_private=False):
        list(steps(3, "noisy gradient step"))
    assert ("step 3 of 3" in written.getvalue()) is terminal


@pytest.mark.parametrize(
    ("private", "line"),
    [
        (False, r"Fitting, step \d+ of 1234, [\d.]+ a second, \d+ (s|min|h \d+ min) left"),
        (True, r"Fitting, \d+%, \d+ (s|min|h \d+ min) left"),  # and not how many there are
    ],
)
def test_in_a_pipe_long_work_tells_where_it_is_now_and_then(monkeypatch, capsys, private, line):
    seconds = iter(range(0, 10**6, 10))
    monkeypatch.setattr(progress, "_now", lambda: next(seconds))
    with show_progress("Fitting", count_is_private=private):
        for done in range(1, 1235, 50):
            tell(done, 1234, "step")
    lines = capsys.readouterr().err.splitlines()
    assert 2 < len(lines) < 25
    assert all(re.fullmatch(line, one) for one in lines)
