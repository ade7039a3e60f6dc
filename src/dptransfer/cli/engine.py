"""Who works through a large pool, as the options --engine, --workers and --address say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptransfer.cli.screen import say
from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.workers import Workers


def workers_from(
    engine: str | None, workers: int | None, address: str | None, device: str = "cpu"
) -> Workers:
    """Who works, ready to begin: a cluster that does not answer is found out here, before anything is spent.

    Of processes on GPUs there is one for each, unless another number is given.

    >>> workers_from(None, None, None), workers_from("processes", 2, None)
    (Here(), Processes(workers=2, patience=None))
    """
    from dptransfer.workers import Here, Processes, RayCluster

    if engine not in (None, "processes", "ray"):
        raise ArgumentError(f"--engine must be processes or ray; got '{engine}'. Choose one of them.")
    if workers is not None and workers < 1:
        raise ArgumentError(f"--workers must be 1 or more; got {workers}. Leave it out for one per core.")
    if address is not None and engine != "ray":
        raise ArgumentError(
            f"--address names a Ray cluster; the engine is {engine or 'this process'}. Add --engine ray."
        )
    if engine == "ray" and address is None:
        raise ArgumentError(
            "--engine ray takes the cluster that you name, and looks for none; no --address was given. "
            "Add --address host:6379, or --address local for one on this machine."
        )
    if engine == "processes" and workers is None and device == "cuda":
        from dptransfer.encoders.device import gpu_count

        workers = max(1, gpu_count())
    chosen: Workers
    if address is not None:
        chosen = RayCluster(address, workers)
    else:
        chosen = Here() if engine is None and workers is None else Processes(workers)
    chosen.ready()
    return chosen


def note_if_idle(workers: Workers, *, public_rows: bool) -> None:
    """Say it where workers were named and have nothing to do, which is no error: results are the same."""
    from dptransfer.workers import Here

    if not public_rows and not isinstance(workers, Here):
        say("Note: --engine shares out work on public rows. There are none; this process does all.", err=True)
