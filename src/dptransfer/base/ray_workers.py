"""Run tasks on a Ray cluster; retry what a lost node took with it, and notice a cluster that died.

Ray's own code, below Python, ends a process whose cluster has died, with exit code 1 and without a word. Then
no charge would be closed and nobody would be told. So whoever waits for tasks looks first.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dptransfer.base.checks import positive, whole
from dptransfer.base.ray_connection import connected, place_of, runtime_env
from dptransfer.base.worker_env import own_core
from dptransfer.base.worker_pool import TaskResult, WorkerLost, map_with_retries, require_packable, run_task
from dptransfer.base.workers import Piece, Result
from dptransfer.errors import DataError, DPTransferError

if TYPE_CHECKING:
    from concurrent.futures import Future


_SECONDS, _BETWEEN = 2.0, 4.0
_PATIENCE = 20.0  # seconds; Ray itself waits for a minute


class Pulse:
    """Whether the cluster that this process belongs to still lives.

    Args:
        ray: the module, connected.
    """

    def __init__(self, ray: Any) -> None:
        self.gone = False
        node = getattr(getattr(getattr(ray, "_private", None), "worker", None), "_global_node", None)
        self._store = getattr(node, "plasma_store_socket_name", None)  # none where Ray runs elsewhere
        self._head = getattr(node, "gcs_address", None)
        self._answered = self._looked = time.monotonic()

    def require(self) -> None:
        """Raise if this machine's part of the cluster has ended, or its head has not answered for a while."""
        if self._store is not None and not _answers(self._store):
            self._give_up("the Ray node of this machine has ended")
        now = time.monotonic()
        if self._head is None or now - self._looked < _BETWEEN:
            return
        if _answers(place_of(self._head)):
            self._answered = now
        elif now - self._answered > _PATIENCE:
            self._give_up("its head does not answer any more")
        self._looked = time.monotonic()

    def _give_up(self, why: str) -> None:
        self.gone = True
        raise DPTransferError(
            f"The Ray cluster must live until its work is done; {why}. What was charged stays charged. Start "
            "the cluster again; a run with a workspace goes on, and any other is charged anew."
        )


def _answers(place: str | tuple[str, int]) -> bool:
    """Whether somebody listens at a host and port, or at a socket in the file system."""
    try:
        if not isinstance(place, str):
            socket.create_connection(place, timeout=_SECONDS).close()
            return True
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(_SECONDS)
            line.connect(place)
            return True
    except OSError:
        return False


@dataclass(frozen=True)
class RayCluster:
    """Ray Core tasks on a cluster that is named, and never found by itself.

    What they work with, private rows among it, goes into the cluster's object store once and is shared by all
    tasks of a machine: the cluster must be the owner's own.

    >>> RayCluster("local", workers=2)
    RayCluster(address='local', workers=2, patience=None)

    Args:
        address: 'local' for a cluster of this machine alone, which nobody else can find and which ends with
            this process; host:port of one that this machine belongs to; or ray://host:port.
        workers: tasks side by side, each on one core; default as many as there are cores.
        patience: seconds after which tasks that give nothing back are taken to hang, and are begun again;
            default twenty times what the slowest piece took, and at least ten minutes.
        gpus: how many each task needs for itself; Ray shows it these alone.
    """

    address: str
    workers: int | None = None
    patience: float | None = None
    gpus: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        if self.workers is not None:
            object.__setattr__(self, "workers", whole("workers", self.workers))
        if self.patience is not None:
            object.__setattr__(self, "patience", positive("patience", self.patience))
        if self.address != "local":
            place_of(self.address)

    @property
    def cores(self) -> int:
        """On how many cores they work; the cluster is asked."""
        there = int(connected(self.address, self.workers).cluster_resources().get("CPU", 1))
        return min(self.workers or there, there)

    def ready(self) -> None:
        """Connect, or say within seconds why not; a connection is kept until this process ends."""
        connected(self.address, self.workers)

    def each(
        self, work: Callable[[Piece], Result], pieces: Sequence[Piece], what: str
    ) -> Iterator[tuple[int, Result]]:
        """As they come back."""
        ray = connected(self.address, self.workers)
        there = ray.cluster_resources().get("GPU" if self.gpus else "CPU", 1)
        window = self.workers or 2 * max(1, int(there))
        return map_with_retries(
            lambda: _RayPool(ray, work, window, self.gpus), pieces, what, patience=self.patience
        )


class _RayPool:
    """The tasks of one piece of work; Ray finds a place for each."""

    def __init__(self, ray: Any, work: Callable[..., Any], window: int, gpus: int = 0) -> None:
        self.window, self._ray, self._work = window, ray, work
        self._stored: Any = None
        self._pulse = Pulse(ray)
        self._tasks: dict[Future[TaskResult], Any] = {}
        # Whoever handed a task out does so again, for a task lost is counted there.
        how: dict[str, Any] = {"num_cpus": 1, "max_retries": 0, "runtime_env": runtime_env()}
        how |= {"num_gpus": gpus} if gpus else {}
        self._task = ray.remote(**how)(_on_own_core)

    def submit(self, piece: Any) -> Future[TaskResult]:
        self.require_alive()
        if self._stored is None:
            self._stored = self._put()
        task = self._task.remote(self._stored, piece)
        answer: Future[TaskResult] = task.future()
        self._tasks[answer] = task
        return answer

    def _put(self) -> Any:
        try:
            with require_packable(self._work):
                return self._ray.put(self._work)
        except self._ray.exceptions.ObjectStoreFullError:
            raise DPTransferError(
                "What tasks work with must fit in the object store of a machine; it does not. Start the "
                "cluster with a larger one: ray start --object-store-memory=BYTES ..."
            ) from None

    def outcome(self, answer: Future[TaskResult]) -> TaskResult:
        del self._tasks[answer]
        broken = self._ray.exceptions
        try:
            outcome = TaskResult(*answer.result())
        except broken.RayTaskError as problem:  # not the work's own, which would be in the outcome
            raise DPTransferError(
                "Work and results must travel between this machine and all of the cluster; on one of them: "
                f"{type(problem.cause).__name__}. Install the same versions of everything there."
            ) from None
        except broken.RuntimeEnvSetupError:
            raise DPTransferError(
                "A task must start on every machine of the cluster; on one of them its environment could not "
                "be made. Look at that machine's Ray logs."
            ) from None
        except (broken.RayError, ConnectionError) as problem:
            self._stored = None  # it may have gone with its machine
            raise WorkerLost(f"Ray says {type(problem).__name__}") from None
        if isinstance(outcome.problem, OSError) and not isinstance(outcome.problem, DPTransferError):
            return TaskResult(None, _unreadable(outcome.problem))
        return outcome

    def require_alive(self) -> None:
        """Raise once the cluster is gone, before Ray ends this process without a word."""
        self._pulse.require()

    def end(self) -> None:
        self._stored = None
        while self._tasks and not self._pulse.gone:
            _, task = self._tasks.popitem()
            with suppress(Exception):  # the cluster may be gone
                self._ray.cancel(task, force=True)


def _on_own_core(work: Callable[[Any], Any], piece: Any) -> tuple[Any, BaseException | None]:
    """What a task does."""
    with own_core():
        return tuple(run_task(work, piece))


def _unreadable(problem: OSError) -> DataError:
    name = "A file" if problem.filename is None else f"'{problem.filename}'"
    return DataError(
        f"{name} must be readable on every machine of the cluster; on one of them: "
        f"{problem.strerror or type(problem).__name__}. Share its folder, under the same path."
    )
