import io

from rich.console import Console

from dptransfer_lab.cli.view import ProgressView

from .test_cells import cells


def finished(cell, seconds=1.0, status="done"):
    return {
        "label": cell.label,
        "status": status,
        "message": None if status == "done" else "it broke",
        "metrics": {"balanced_accuracy": 0.5},
        "cost": {"cell_seconds": seconds, "fit_seconds": seconds},
    }


def test_in_a_pipe_each_cell_is_a_line():
    stream, todo = io.StringIO(), cells()[:3]
    with ProgressView(Console(file=stream, width=200)) as view:
        view.loading("toy")
        view.begin(10, todo)
        view.finished(todo[0], finished(todo[0]))
        view.finished(todo[1], finished(todo[1], status="failed"))
    reading, begun, done, failed = stream.getvalue().splitlines()
    assert reading == "Reading toy"
    assert begun.startswith("10 cells, 7")
    assert done.startswith(f"[8/10] {todo[0].words}: 50.0 %")
    assert done.endswith(" left")
    assert failed.startswith("[9/10]")
    assert failed.count("failed, it broke") == 1


def test_on_a_terminal_there_is_a_bar():
    stream, todo = io.StringIO(), cells()[:2]
    with ProgressView(Console(file=stream, force_terminal=True, width=120)) as view:
        view.begin(2, todo)
        view.finished(todo[0], finished(todo[0]))
    assert "1/2" in stream.getvalue()
