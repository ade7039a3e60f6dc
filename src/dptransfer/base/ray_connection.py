"""A connection with a Ray cluster that is named, or with one that is started for this process alone."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from dptransfer.base.checks import installed
from dptransfer.base.worker_env import environment_of_task
from dptransfer.errors import ArgumentError, DPTransferError

_SECONDS = 5.0
_SETTINGS = b"\x04"
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + b"\0" * 5
_known: dict[str, str] = {}
"""What a name of a cluster turned out to be: the address of its control store."""


def connected(address: str, workers: int | None) -> Any:
    """Ray, connected with the cluster of this address; the connection is kept until this process ends."""
    with _own_signals():
        ray = installed("ray", "ray", "A Ray cluster")
    if not ray.is_initialized():
        with _own_signals(), _one_line(address), _quiet():
            if address == "local":
                _begin_local(ray, workers)
            else:
                _join(ray, address)
            _known[address] = _control_store(ray)
    elif _control_store(ray) not in (address, _known.get(address)):
        raise ArgumentError(
            f"A process works with one Ray cluster; this one has another than '{address}' already. "
            "Call ray.shutdown() before, or name that one."
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
    raise ArgumentError(
        f"A Ray cluster is named by its address, and none is looked for; got {address!r}. "
        "Use host:port, ray://host:port, or 'local' for one on this machine."
    )


def runtime_env() -> dict[str, Any]:
    """What processes of the cluster that work for this one are started with."""
    return {"env_vars": environment_of_task()}


def _begin_local(ray: Any, workers: int | None) -> None:
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
        ray.init(
            address="local",
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            _temp_dir=os.path.join(folder, "r"),
            _system_config={"automatic_object_spilling_enabled": False},
        )


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
            "A Ray cluster must be able to turn strangers away, as it is from Ray 2.52 on; this Ray is "
            "older. Upgrade it: pip install -U 'dptransfer[ray]'"
        ) from None
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _join(ray: Any, address: str) -> None:
    """The cluster of this address; Ray itself would wait for minutes for one that is not there."""
    _require_answer(place_of(address))
    with suppress(DPTransferError):  # a cluster of others may be older
        _read_token()  # after one of our own
    how: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "error"}
    if not address.startswith("ray://"):
        ray.init(**how)
        return
    installed("grpc", "ray", "A cluster at ray://")
    # A process of the cluster speaks for this one, and opens what is sent through it.
    how["runtime_env"] = runtime_env()
    try:
        ray.init(**how)
    except ConnectionAbortedError:  # of 60 such processes two died as they were started
        ray.init(**how)


def _require_answer(place: tuple[str, int]) -> None:
    """Whoever is there must speak HTTP/2, as Ray does: it begins with its settings, unasked."""
    import socket

    with socket.create_connection(place, timeout=_SECONDS) as line:
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
            f"The Ray cluster '{address}' must answer; {said.rstrip(':')}. Check the address, whether the "
            "cluster runs (ray status --address ...), and, if it asks for a token, that it is given one: "
            "RAY_AUTH_MODE=token."
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


def _control_store(ray: Any) -> str:
    return str(ray.get_runtime_context().gcs_address)
