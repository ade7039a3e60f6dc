"""Connections that end if nothing comes of them."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


def connections(seconds: float) -> type[H11Protocol]:
    """HTTP on connections that have so many seconds for the head of a request, and four times as many in all.

    A body and an answer have their own limits, in the routes. But those begin with the head of a request, and
    end with an answer: who sends either byte by byte, or does not read, would keep a connection for ever.
    """

    class Connection(H11Protocol):
        _end: asyncio.TimerHandle

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._end = self.loop.call_later(seconds, self._require_request)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._end.cancel()
            self._end = self.loop.call_later(seconds, self._require_request)

        def connection_lost(self, exc: Exception | None) -> None:
            self._end.cancel()
            super().connection_lost(exc)

        def _require_request(self) -> None:
            if self.cycle is None or self.cycle.response_complete:
                self.transport.abort()
            else:
                self._end = self.loop.call_later(3 * seconds, self.transport.abort)

    return Connection
