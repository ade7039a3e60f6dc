"""Cells of a benchmark, a line of JSON each: what is in the file is not fitted again, the rest one by one.

A cell says what is fitted, as a dict of JSON values; its line adds what was found. Cells that share work are
one job. Each job has a process of its own, `workers` of them at a time, and a cell is in the file as soon as
it is done: a run that is stopped goes on, and a job that fails leaves the others alone.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

Cell = dict[str, Any]
Fitted = Callable[[Any, Sequence[Cell]], Iterator[tuple[Cell, dict[str, Any]]]]
"""From options and the cells of a job to each cell and what was found; a function that a process can find."""


def fill(out: Path, jobs: Sequence[Sequence[Cell]], fitted: Fitted, options: Any, workers: int) -> None:
    """Fit what is not in the file yet; leave with status 1 if a job failed."""
    lines = out.read_text().splitlines() if out.exists() else []
    done = [json.loads(line) for line in lines]
    left = [[cell for cell in job if not any(cell.items() <= line.items() for line in done)] for job in jobs]
    left = [job for job in left if job]
    print(f"{sum(map(len, left))} cells in {len(left)} jobs; {len(done)} lines in {out}", flush=True)
    failed = 0
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        for job in as_completed([processes.submit(_write, out, fitted, options, job) for job in left]):
            failed += job.exception() is not None
    sys.exit(1 if failed else 0)


def _write(out: Path, fitted: Fitted, options: Any, job: Sequence[Cell]) -> None:
    """Append a line for each cell of a job, in one write, so that processes do not mix theirs."""
    try:
        for cell, found in fitted(options, job):
            line = json.dumps({**cell, **found}) + "\n"
            with open(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "wb", buffering=0) as stream:
                stream.write(line.encode())
            print(line[:200].rstrip(), flush=True)
    except Exception:
        print(f"failed: {job[0]}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        raise
