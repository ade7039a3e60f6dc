"""Run tasks on a Ray cluster that is named, or on one that is started for this process alone.

What a lost node took with it is run again, and a cluster that died is noticed: Ray's own code, below Python,
ends a process whose cluster has died, with exit code 1 and without a word. Then no charge would be closed and
nobody would be told. So whoever waits for tasks looks first.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dptransfer.base import workers
from dptransfer.base.checks import import_optional, or_none, positive, whole
from dptransfer.base.worker_env import environment_of_task, own_core
from dptransfer.base.workers import Numbered, Piece, Result, TaskResult, WorkerLost
from dptransfer.errors import ArgumentError, DataError, DPTransferError

if TYPE_CHECKING:
    from concurrent.futures import Future


_SECONDS, _BETWEEN = 2.0, 4.0
_PATIENCE = 20.0  # seconds; Ray itself waits for a minute


class Pulse:
    """Whether the cluster that this process belongs to still lives.

    Args:
        ray: the module, connected.
    """

    def __init__(self, ray: ModuleType) -> None:
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
        give_up: as `map_with_retries` takes it.
    """

    address: str
    workers: int | None = None
    patience: float | None = None
    gpus: int = field(default=0, repr=False)
    give_up: Callable[[Any, str], Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "workers", or_none(whole)("workers", self.workers))
        object.__setattr__(self, "patience", or_none(positive)("patience", self.patience))
        if self.address != "local":
            place_of(self.address)

    @property
    def cores(self) -> int:
        """On how many cores they work; the cluster is asked."""
        there = int(connect(self.address, self.workers).cluster_resources().get("CPU", 1))
        return min(self.workers or there, there)

    def ready(self) -> None:
        """Connect, or say within seconds why not; a connection is kept until this process ends."""
        connect(self.address, self.workers)

    def each(self, work: Callable[[Piece], Result], pieces: Sequence[Piece], what: str) -> Numbered[Result]:
        """As they come back."""
        ray = connect(self.address, self.workers)
        there = ray.cluster_resources().get("GPU" if self.gpus else "CPU", 1)
        window = self.workers or 2 * max(1, int(there))
        start = partial(_RayPool, ray, work, window, self.gpus)
        return workers.map_with_retries(start, pieces, what, patience=self.patience, give_up=self.give_up)


class _RayPool:
    """The tasks of one piece of work; Ray finds a place for each."""

    def __init__(self, ray: ModuleType, work: Callable[..., object], window: int, gpus: int = 0) -> None:
        self.window, self._ray, self._work = window, ray, work
        self._stored: object = None
        self._pulse = Pulse(ray)
        self._tasks: dict[Future[TaskResult], object] = {}
        # Whoever handed a task out does so again, for a task lost is counted there.
        how = {"num_cpus": 1, "max_retries": 0, "runtime_env": runtime_env()}
        how |= {"num_gpus": gpus} if gpus else {}
        self._task = ray.remote(**how)(_run_on_own_core)

    def submit(self, piece: object) -> Future[TaskResult]:
        self.require_alive()
        if self._stored is None:
            self._stored = self._put()
        task = self._task.remote(self._stored, piece)
        answer: Future[TaskResult] = task.future()
        self._tasks[answer] = task
        return answer

    def _put(self) -> object:
        try:
            with workers.require_packable(self._work):
                return self._ray.put(self._work)
        except self._ray.exceptions.ObjectStoreFullError:
            raise DPTransferError(
                "Work must fit in a machine's object store. Use: ray start --object-store-memory=BYTES ..."
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
                "A task must start on every machine; on one its environment was not made. See its Ray logs."
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


def _run_on_own_core(work: Callable[[Piece], object], piece: Piece) -> tuple[object, BaseException | None]:
    """What a task does; a plain tuple, which a cluster reads without this module."""
    with own_core():
        return tuple(workers.run_task(work, piece))


def _unreadable(problem: OSError) -> DataError:
    name = "A file" if problem.filename is None else f"'{problem.filename}'"
    return DataError(
        f"{name} must be readable on every machine of the cluster; on one of them: "
        f"{problem.strerror or type(problem).__name__}. Share its folder, under the same path."
    )


_GREETING_SECONDS = 5.0
_SETTINGS = b"\x04"
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + b"\0" * 5
_SILENT = {"log_to_driver": False, "logging_level": "error"}
_known: dict[str, str] = {}
"""What a name of a cluster turned out to be: the address of its control store."""


def connect(address: str, workers: int | None) -> ModuleType:
    """Ray, connected with the cluster of this address; the connection is kept until this process ends."""
    with _own_signals():
        ray = import_optional("ray", "ray", "A Ray cluster")
    if not ray.is_initialized():
        with _own_signals(), _one_line(address), _quiet():
            if address == "local":
                _begin_local(ray, workers)
            else:
                _join(ray, address)
            _known[address] = _control_store(ray)
    elif _control_store(ray) not in (address, _known.get(address)):
        raise ArgumentError(
            f"A process works with one Ray cluster; this has another than '{address}'. Call ray.shutdown()."
        )
    return ray


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep who hears SIGTERM: Ray would end the process, whatever there is to be closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if heard is not None:
            signal.signal(signal.SIGTERM, heard)


def place_of(address: str) -> tuple[str, int]:
    """Host and port.

    >>> place_of("10.0.0.1:6379"), place_of("ray://head:10001")
    (('10.0.0.1', 6379), ('head', 10001))
    """
    with suppress(ValueError, TypeError):
        parts = urlsplit(address if "://" in address else f"//{address}")
        if parts.scheme in ("", "ray") and parts.hostname and parts.port:
            return parts.hostname, parts.port
    raise ArgumentError(f"Name a Ray cluster by host:port, ray://host:port or 'local'; got {address!r}.")


def runtime_env() -> dict[str, object]:
    """What processes of the cluster that work for this one are started with."""
    return {"env_vars": environment_of_task()}


def _begin_local(ray: ModuleType, workers: int | None) -> None:
    """A cluster of this machine alone, with nothing on disk but Ray's own logs until it ends.

    Its folder is its owner's, and not where Ray looks for clusters, so that nobody's program finds it. Ray
    lets everybody write in the folder that it is given, where its sockets are: that is one inside. And it
    listens on the network, whatever it is told: whoever has not this cluster's token is turned away.
    """
    import atexit
    import secrets
    import tempfile
    from shutil import rmtree

    folder = tempfile.mkdtemp(prefix="dptransfer-ray-", dir="/tmp" if os.path.isdir("/tmp") else None)

    def end() -> None:
        ray.shutdown()
        rmtree(folder, ignore_errors=True)

    atexit.register(end)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with _token(secrets.token_hex(32)):
        private = {"_temp_dir": os.path.join(folder, "r"), "include_dashboard": False}
        private["_system_config"] = {"automatic_object_spilling_enabled": False}
        ray.init(address="local", num_cpus=workers, **_SILENT, **private)


@contextmanager
def _token(token: str) -> Iterator[None]:
    """A cluster that is started inside the block asks for this token, which is in memory alone."""
    asked = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    before = {name: os.environ.get(name) for name in asked}
    os.environ.update(asked)
    try:
        _read_token()
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ.update({} if value is None else {name: value})


def _read_token() -> None:
    """Let Ray look for its token anew, as it keeps what it found first."""
    try:
        from ray._raylet import AuthenticationTokenLoader, Config
    except ImportError:
        raise DPTransferError(
            "A Ray cluster must turn strangers away. Upgrade this one: pip install -U 'dptransfer[ray]'"
        ) from None
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _join(ray: ModuleType, address: str) -> None:
    """The cluster of this address; Ray itself would wait for minutes for one that is not there."""
    _require_answer(place_of(address))
    with suppress(DPTransferError):  # a cluster of others may be older
        _read_token()  # after one of our own
    how: dict[str, object] = {"address": address, **_SILENT}
    if not address.startswith("ray://"):
        ray.init(**how)
        return
    import_optional("grpc", "ray", "A cluster at ray://")
    # A process of the cluster speaks for this one, and opens what is sent through it.
    how["runtime_env"] = runtime_env()
    try:
        ray.init(**how)
    except ConnectionAbortedError:  # of 60 such processes two died as they were started
        ray.init(**how)


def _require_answer(place: tuple[str, int]) -> None:
    """Whoever is there must speak HTTP/2, as Ray does: it begins with its settings, unasked."""
    with socket.create_connection(place, timeout=_GREETING_SECONDS) as line:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return  # Ray will find out
        line.sendall(_GREETING)
        if line.recv(9, socket.MSG_WAITALL)[3:4] != _SETTINGS:
            raise ConnectionError("somebody does who is not Ray")


@contextmanager
def _one_line(address: str) -> Iterator[None]:
    """What goes wrong on the way to a cluster, as one error."""
    try:
        yield
    except DPTransferError:
        raise
    except OSError as problem:
        said, *_ = (problem.strerror or str(problem) or type(problem).__name__).splitlines()
        raise DPTransferError(
            f"The Ray cluster '{address}' must answer; {said.rstrip(':')}. Check the address (ray status "
            "--address ...) and, if it asks for a token, that it is given one: RAY_AUTH_MODE=token."
        ) from problem
    except Exception as problem:
        raise DPTransferError(
            f"The Ray cluster '{address}' must take this process; Ray says {type(problem).__name__}. Use the "
            "same versions of Python and Ray; to join from a machine outside of it, ray://host:10001."
        ) from problem


@contextmanager
def _quiet() -> Iterator[None]:
    """A connection that is made inside the block does not print to standard output who died.

    Ray does so whatever it is told about logs, in the middle of what a command prints as JSON. Where a
    version of Ray has no such listener, nothing is changed.
    """
    from ray._private import worker

    listener = getattr(worker, "listen_error_messages", None)
    if listener is None:
        yield
        return
    worker.listen_error_messages = lambda *_: None
    try:
        yield
    finally:
        worker.listen_error_messages = listener


def _control_store(ray: ModuleType) -> str:
    return str(ray.get_runtime_context().gcs_address)
