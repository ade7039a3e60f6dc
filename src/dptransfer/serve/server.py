"""Serve a release on a port or a socket: verified first, stopped gracefully."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dptransfer.errors import ArgumentError, ReleaseError
from dptransfer.methods.replan import verify_release
from dptransfer.release import read_release, release_digest
from dptransfer.serve.app import make_app
from dptransfer.serve.connections import connections
from dptransfer.serve.limits import Limits

_GRACE = 10  # seconds for requests that are being answered when the server is told to stop


def run_server(
    path: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    unix_socket: Path | None = None,
    name: str | None = None,
    token: str | None = None,
    limits: Limits | None = None,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve the release at `path` until SIGTERM or Ctrl-C.

    Args:
        path: the release directory; it must verify.
        host: the address to listen on; other than this machine's own, it needs a token.
        port: 0 for any that is free.
        unix_socket: listen on this socket instead.
        name: what clients call the model; by default the name of the folder.
        token: what requests must carry.
        limits: what a client may ask for.
        announce: told where it listens, once it does.

    Raises:
        ReleaseError: the release does not verify.
    """
    import uvicorn

    if unix_socket is None and token is None and not is_loopback(host):
        raise ArgumentError(
            f"A server that other machines can reach needs a token; --host is '{host}'. Pass --token-file, "
            "or leave --host out."
        )
    found = verify_release(path)
    if found.outcome == "failed":
        raise ReleaseError(
            f"Only a release that verifies is served; '{path}' does not: {', '.join(found.failures)}. "
            f"See dptransfer verify {path}"
        )
    name = name or path.resolve().name
    model = read_release(path)
    card = (path / "card.html").read_text(encoding="utf-8")
    app = make_app(model, name=name, digest=release_digest(path), card=card, limits=limits, token=token)
    config = uvicorn.Config(
        app,
        http=connections((limits or Limits()).seconds),
        ws="none",
        log_config=None,  # the logging of whoever starts it stays as it is
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
    )
    try:
        with listen_on(host, port, unix_socket) as listener:
            announce(str(unix_socket) if unix_socket else _address(listener))
            with suppress(KeyboardInterrupt):  # uvicorn raises the signal again once it has stopped
                uvicorn.Server(config).run(sockets=[listener])
    finally:
        if unix_socket is not None:
            unix_socket.unlink(missing_ok=True)


def listen_on(host: str, port: int, unix_socket: Path | None = None) -> socket.socket:
    """A socket that listens; one at a path is its owner's alone."""
    if unix_socket is None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    _remove_if_left(unix_socket)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o077)  # the owner's alone; who wants to share it changes its mode
    try:
        listener.bind(str(unix_socket))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.listen()
    return listener


def _remove_if_left(unix_socket: Path) -> None:
    """Remove the socket of a server that was killed: nobody listens on it."""
    if unix_socket.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(unix_socket))
            except ConnectionRefusedError:
                unix_socket.unlink()


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether the address is this machine's own, which no other machine can reach."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
