import sys
import threading
from types import SimpleNamespace

import pytest

from dptransfer.base.progress import progress_bar, reported_to, show_progress, steps, tell


def test_every_step_is_told_after_it_is_done():
    heard, done = [], []
    with reported_to(lambda *told: heard.append((*told, len(done)))):
        for index in steps(3, "step"):
            done.append(index)
    assert done == [0, 1, 2]
    assert heard == [(1, 3, "step", 1), (2, 3, "step", 2), (3, 3, "step", 3)]


def test_nobody_hears_without_listening_or_after_it():
    heard = []
    assert list(steps(2, "step")) == [0, 1]
    with reported_to(lambda *told: heard.append(told)):
        list(steps(1, "step"))
    list(steps(5, "step"))
    assert heard == [(1, 1, "step")]


def test_listeners_nest_and_the_outer_one_comes_back():
    outer, inner = [], []
    with reported_to(lambda *told: outer.append(told)):
        list(steps(1, "a"))
        with reported_to(lambda *told: inner.append(told)):
            list(steps(1, "b"))
        list(steps(1, "c"))
    assert [what for *_, what in outer] == ["a", "c"]
    assert [what for *_, what in inner] == ["b"]


def test_a_listener_that_raises_stops_the_work_and_stops_listening():
    def impatient(done, of, what):
        if done == 2:
            raise KeyboardInterrupt

    seen = []
    with pytest.raises(KeyboardInterrupt), reported_to(impatient):
        list(map(seen.append, steps(5, "step")))
    assert seen == [0, 1]
    assert list(steps(3, "step")) == [0, 1, 2]


def test_another_thread_is_not_listened_to():
    heard = []
    with reported_to(lambda *told: heard.append(told)):
        other = threading.Thread(target=lambda: list(steps(3, "elsewhere")))
        other.start()
        other.join()
        list(steps(1, "here"))
    assert heard == [(1, 1, "here")]


def test_what_goes_on_in_the_middle_tells_where_it_is():
    heard = []
    tell(6, 10, "step")
    with reported_to(lambda *told: heard.append(told)):
        tell(7, 10, "step")
    assert heard == [(7, 10, "step")]


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


def test_an_ipython_without_a_notebook_is_a_terminal(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))
    with show_progress("Encoding"):
        tell(3, 4, "")
    assert capsys.readouterr().err == ""
