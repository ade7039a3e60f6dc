import io

from rich.console import Console

from dptransfer_lab.progress import ProgressView, TimeLeft

from .test_cells import cells


def finished(cell, seconds=1.0, status="done"):
    return {
        "label": cell.label,
        "status": status,
        "message": None if status == "done" else "it broke",
        "metrics": {"balanced_accuracy": 0.5},
        "cost": {"cell_seconds": seconds, "fit_seconds": seconds},
    }


def test_in_a_pipe_each_cell_is_a_line_with_the_time_left():
    stream = io.StringIO()
    todo = cells()[:3]
    with ProgressView(Console(file=stream, width=200), workers=1) as view:
        view.loading("toy")
        view.begin(10, todo)
        view.started(0, todo[0])
        view.finished(todo[0], finished(todo[0]))
        view.finished(todo[1], finished(todo[1], status="failed"))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "Reading toy"
    assert lines[1] == "10 cells, 7 of them finished before"
    assert lines[2].startswith(f"[8/10] {todo[0].words}: 50.0 % balanced, fitted in 1.00 s; ")
    assert lines[2].endswith(" left")
    assert "[9/10]" in lines[3]
    assert "failed, it broke" in lines[3]


def test_on_a_terminal_there_is_a_bar_and_a_line_per_worker():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    todo = cells()[:2]
    with ProgressView(console, workers=1) as view:
        view.begin(2, todo)
        view.started(0, todo[0])
        view.finished(todo[0], finished(todo[0]))
    assert "All cells" in stream.getvalue()
    assert "worker 1: toy (made)" in stream.getvalue()
    assert "1/2" in stream.getvalue()


def test_slow_methods_that_are_left_count_for_more(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("dptransfer_lab.progress.time.monotonic", lambda: now[0])
    clock = TimeLeft(1)
    assert clock.seconds({"slow": 1}) is None
    fast, slow = (
        {"label": name, "cost": {"cell_seconds": cost}} for name, cost in (("fast", 1.0), ("slow", 9.0))
    )
    now[0] = 10.0
    clock.learn(fast)
    clock.learn(slow)
    assert clock.seconds({"slow": 2}) == 18.0
    assert clock.seconds({"fast": 2}) == 2.0
    assert clock.seconds({"new": 1}) == 5.0


def test_two_workers_halve_what_is_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("dptransfer_lab.progress.time.monotonic", lambda: now[0])
    clock = TimeLeft(2)
    now[0] = 5.0
    for _ in range(10):
        clock.learn({"label": "a", "cost": {"cell_seconds": 1.0}})
    assert clock.seconds({"a": 10}) == 5.0
