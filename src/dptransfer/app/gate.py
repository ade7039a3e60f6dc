"""Access control of the app: requests of the browser that opened its link, from the app's own pages.

Pages of other sites, and of other servers on this machine, can make a browser send requests here. A request
must name this server as its host, which DNS rebinding cannot; one that changes something must come from a
page of the app (`Origin`, `Sec-Fetch-Site`); and all but the door must carry a cookie. The cookie is given
once, for the token in the link. Browsers send cookies to every port of a host, so this one is for a path that
nobody can guess.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_COOKIE = "dptransfer"
_LIFE = 30 * 24 * 3600  # seconds; a fit may take days, and the secret ends with the process
_MOST_BYTES = 2**16
_PATIENCE = 10.0  # seconds for a form to arrive
_POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Gate:
    """Refuse what does not come from the app's own pages; add headers that keep other sites out.

    Attributes:
        last: when somebody last asked for something, by `time.monotonic`.
    """

    def __init__(self, app: ASGIApp, *, origins: Iterable[str], token: str, room: str) -> None:
        self._app, self._token, self._room = app, token, f"/{room}/"
        self._origins = {urlsplit(one).netloc: one for one in origins}
        self._secret, self.last = secrets.token_urlsafe(32), time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope, receive)
        answer = self._refusal(request)
        if answer is None and scope["path"] == "/open":
            answer = await self._open(request)
        await (answer or self._app)(scope, receive, guarded)

    def _refusal(self, request: Request) -> Response | None:
        headers, path, host = request.headers, request.url.path, request.headers.getlist("host")
        if len(host) != 1 or host[0] not in self._origins:
            return _no(421, "This server has another name.")
        site, is_public = headers.get("sec-fetch-site"), path == "/" or path.startswith("/static/")
        if request.method in ("GET", "HEAD"):
            is_own = is_public or site in (None, "same-origin", "none")
        else:
            is_own = headers.getlist("origin") == [self._origins[host[0]]] and site == "same-origin"
        if not is_own:
            return _no(403, "Only the app's own pages may ask for that.")
        if is_public or path == "/open":
            return None
        cookies = headers.get("cookie", "").split("; ")  # another port may have set one of the same name
        is_known = any(_same(one, f"{_COOKIE}={self._secret}") for one in cookies)
        if not is_known:
            return _no(403, "Open the app by the link that the terminal shows.")
        self.last = time.monotonic()
        return None

    async def _open(self, request: Request) -> Response:
        """Give the cookie for the token, once."""
        given = (await read_form(request)).get("token", "")
        if not self._token or not _same(given, self._token):
            return _no(403, "This link was used, or is of another run.")
        self._token, answer = "", JSONResponse({"room": self._room})
        is_secure = request.headers["origin"].startswith("https:")
        answer.set_cookie(
            _COOKIE, self._secret, _LIFE, path=self._room, secure=is_secure, httponly=True, samesite="strict"
        )
        return answer


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; files are no part of it, and what is too long or too slow is no form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    size = request.headers.get("content-length", "")
    if kind != "application/x-www-form-urlencoded" or not size.isdigit() or int(size) > _MOST_BYTES:
        return {}
    try:
        content = (await asyncio.wait_for(request.body(), _PATIENCE)).decode()
        return dict(parse_qsl(content, keep_blank_values=True, max_num_fields=100))
    except (TimeoutError, ValueError, ClientDisconnect):
        return {}


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _no(status: int, why: str) -> Response:
    return PlainTextResponse(f"{why}\n", status)
