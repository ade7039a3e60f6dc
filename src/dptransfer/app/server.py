"""Start the app on this machine, show its link, and end it when nobody uses it."""

from __future__ import annotations

import secrets
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dptransfer.app.choices import Choices
from dptransfer.app.gate import Gate
from dptransfer.app.screens import make_app
from dptransfer.app.session import Session
from dptransfer.errors import ArgumentError
from dptransfer.serve.connections import connections
from dptransfer.serve.server import is_loopback, listen_on

_LOOK = 5  # seconds between looks at whether somebody is there
_GRACE = 15.0  # seconds for work to end when the app does
_PATIENCE = 30.0  # seconds for a request to begin: whoever opens all connections would keep the user out


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
        number, names = listener.getsockname()[1], ("127.0.0.1", "localhost")
        own = [origin.rstrip("/")] if origin else [f"http://{name}:{number}" for name in names]
        gate = Gate(make_app(session, room), origins=own, token=token, room=room)

        async def look() -> None:
            if not session.is_busy and time.monotonic() - gate.last > 60 * idle_minutes:
                server.should_exit = True

        settings: dict[str, Any] = {"log_config": None, "log_level": "warning", "access_log": False}
        settings |= {"server_header": False, "proxy_headers": False, "ws": "none", "lifespan": "off"}
        settings |= {"limit_concurrency": 64, "timeout_graceful_shutdown": 2, "http": connections(_PATIENCE)}
        server = uvicorn.Server(uvicorn.Config(gate, callback_notify=look, timeout_notify=_LOOK, **settings))
        link = f"{own[0]}/#{token}"
        announce(link)
        shown = _opened(link) if open_browser else nullcontext()
        with shown, suppress(KeyboardInterrupt):  # uvicorn raises a signal again at its end
            server.run(sockets=[listener])
    job = session.job
    if job is None or not job.is_running:
        return ""
    job.stop()
    job.wait(_GRACE)
    return job.problem or f"{job.what}: ended with the app. 'dptransfer ledger show' shows what was charged."


def _require_safe(host: str, token: str | None, origin: str | None) -> None:
    """Raise for what would let other machines in without a token, or read along."""
    parts = urlsplit(origin or "")
    has_tls = parts.scheme == "https" and bool(parts.netloc) and not parts.path.strip("/")
    if (origin and not has_tls) or not (is_loopback(host) or (token and has_tls)):
        raise ArgumentError(
            "Other machines reach the app with a token and by a proxy with TLS; got --host "
            f"'{host}', --origin '{origin or ''}'. Pass --token-file and --origin https://NAME, or leave all "
            "of these out and make a tunnel: ssh -L 8080:127.0.0.1:8080 MACHINE."
        )


@contextmanager
def _opened(link: str) -> Iterator[None]:
    """Show the link in the user's browser, by a file of the user's own.

    On the browser's command line every user of the machine could read the token.
    """
    with tempfile.TemporaryDirectory(prefix="dptransfer-") as folder:  # nobody else can look into it
        page = Path(folder) / "open.html"
        page.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(link)}">', "utf-8"
        )
        webbrowser.open(page.as_uri())
        yield
