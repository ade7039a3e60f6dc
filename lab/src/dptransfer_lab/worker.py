"""A worker process: cells in on standard input, records out, one JSON object a line.

Started as `python -m dptransfer_lab.worker` with its threads pinned by the environment, before numpy is
loaded. The first line it reads is the stored arrays by fingerprint; every other line is a cell. It ends when
its input ends, at once and in the middle of a cell if need be: whoever started it is gone, and nobody would
write the result down.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from queue import SimpleQueue
from typing import IO, Any

CORES = "DPTRANSFER_BENCH_CORES"
"""Environment variable with the cores of this worker, such as 0,1."""


def main() -> None:
    """Work through what comes in."""
    _pin()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else prints does not get between the records
    tasks: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin, tasks), daemon=True).start()

    from dptransfer_lab.cells import Cell
    from dptransfer_lab.measure import measure
    from dptransfer_lab.shelf import Stored
    from dptransfer_lab.tasks import TaskBench

    shelf = {name: Stored.from_json(fields) for name, fields in tasks.get()["stored"].items()}
    bench = TaskBench(shelf)
    _say(answers, {"ready": True})
    while True:
        cell = Cell.from_json(tasks.get()["cell"])
        answer: dict[str, Any]
        try:
            answer = {"record": measure(cell, bench)}
        except Exception as problem:
            answer = {"problem": explained(problem)}
        _say(answers, answer)


def explained(problem: BaseException) -> str:
    """An unexpected error in one line, with the place it came from."""
    frames = traceback.extract_tb(problem.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"{type(problem).__name__}: {problem}{place}"


def _read(stream: IO[str], tasks: SimpleQueue[dict[str, Any]]) -> None:
    for line in stream:
        tasks.put(json.loads(line))
    os._exit(0)


def _say(stream: IO[str], answer: dict[str, Any]) -> None:
    stream.write(json.dumps(answer) + "\n")
    stream.flush()


def _pin() -> None:
    cores = os.environ.get(CORES)
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})


if __name__ == "__main__":
    main()
