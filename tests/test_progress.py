import threading

import pytest

from dptransfer.progress import reported_to, steps, tell


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
