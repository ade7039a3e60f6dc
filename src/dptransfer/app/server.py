"""Start the app on this machine, show its link, and end it when nobody uses it."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from html import escape
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dptransfer.app.choices import Choices
from dptransfer.app.gate import Gate
from dptransfer.app.screens import make_app
from dptransfer.app.session import Session
from dptransfer.errors import ArgumentError
from dptransfer.serve.server import is_loopback, listen_on

if TYPE_CHECKING:
    from uvicorn import Server

_LOOK = 5.0  # seconds between looks at whether somebody is there
_GRACE = 15.0  # seconds for work to end when the app does


def run_app(
    root: Path,
    *,
    ledger: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    origin: str | None = None,
    idle_minutes: float = 60.0,
    open_browser: bool = True,
    announce: Callable[[str], None] = print,
) -> str:
    """Run the app until Ctrl-C, SIGTERM, or until nobody has used it for a while.

    Args:
        root: the folder under which data may be chosen and models are written.
        ledger: what is charged; the user's own ledger by default.
        host: the address to listen on.
        port: 0 for any that is free.
        token: what opens the app, once; a random one by default.
        origin: where browsers find the app, such as https://box.example, if a proxy stands in front.
        idle_minutes: how long it waits for somebody; it does not end while something is done.
        open_browser: whether to show the app in the user's browser.
        announce: told the link.

    Returns:
        What became of work that was going on, on one line; '' if there was none.
    """
    import uvicorn

    _require_safe(host, token, origin)
    session = Session(root.resolve(), Choices(ledger="" if ledger is None else str(ledger.absolute())))
    token, room = token or secrets.token_urlsafe(32), secrets.token_urlsafe(16)
    with listen_on(host, port) as listener:
        number = listener.getsockname()[1]
        own = (
            [origin.rstrip("/")]
            if origin
            else [f"http://{one}:{number}" for one in ("127.0.0.1", "localhost")]
        )
        gate = Gate(make_app(session, room), origins=own, token=token, room=room)
        settings: dict[str, Any] = {"log_config": None, "log_level": "warning", "access_log": False}
        settings |= {"server_header": False, "proxy_headers": False, "ws": "none", "lifespan": "off"}
        settings |= {"limit_concurrency": 64, "timeout_graceful_shutdown": 2}
        server = uvicorn.Server(uvicorn.Config(gate, **settings))
        link = f"{own[0]}/#{token}"
        announce(link)
        with ExitStack() as shown, suppress(KeyboardInterrupt):  # uvicorn raises a signal again at its end
            if open_browser:
                shown.enter_context(_opened(link))
            asyncio.run(_serve(server, listener, gate, session, 60 * idle_minutes))
    job = session.job
    if job is None or not job.is_running:
        return ""
    job.stop()
    job.wait(_GRACE)
    return job.problem or f"{job.what}: ended with the app. 'dptransfer ledger show' shows what was charged."


async def _serve(server: Server, listener: socket, gate: Gate, session: Session, idle: float) -> None:
    """Serve, and stop once nobody has asked for anything for so long and nothing is done."""

    async def watch() -> None:
        while not server.should_exit:
            await asyncio.sleep(min(_LOOK, idle))
            if not session.is_busy and time.monotonic() - gate.last > idle:
                server.should_exit = True

    watching = asyncio.create_task(watch())
    await server.serve(sockets=[listener])
    watching.cancel()


def _require_safe(host: str, token: str | None, origin: str | None) -> None:
    """Raise for what would let other machines in without a token, or read along."""
    outside = not is_loopback(host)
    if outside and token is None:
        raise ArgumentError(
            f"An app that other machines can reach needs a token; --host is '{host}'. Pass --token-file, or "
            "leave --host out and use a tunnel: ssh -L 8080:127.0.0.1:8080 MACHINE."
        )
    parts = urlsplit(origin or "")
    if (outside or origin) and (parts.scheme != "https" or not parts.netloc or parts.path.strip("/")):
        raise ArgumentError(
            "Other machines must reach the app through a proxy with TLS, whose address is --origin; got "
            f"'{origin or ''}'. Example: --origin https://box.example"
        )


@contextmanager
def _opened(link: str) -> Iterator[None]:
    """Show the link in the user's browser, by a file of the user's own.

    On the browser's command line every user of the machine could read the token.
    """
    handle, name = tempfile.mkstemp(prefix="dptransfer-", suffix=".html")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as page:
            page.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(link)}">')
        webbrowser.open(Path(name).as_uri())
        yield
    finally:
        Path(name).unlink(missing_ok=True)
