"""Connections of clients that begin, and go on for ever."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from dptransfer.serve.connections import connections

SECONDS = 0.2
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"


async def answers_at_once(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def reads_all(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await answers_at_once(scope, receive, send)


@asynccontextmanager
async def connected(application):
    loop, config = asyncio.get_running_loop(), Config(application, log_config=None, lifespan="off")
    kind, state = connections(SECONDS), ServerState()
    async with await loop.create_server(lambda: kind(config, state, {}), "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        yield reader, writer
        writer.close()


async def exchange(application, begin, drip):
    """What came back, and after how many seconds the connection was closed; sends a byte now and then."""
    loop, came = asyncio.get_running_loop(), bytearray()

    async def read():
        with suppress(ConnectionError):
            while part := await reader.read(1000):
                came.extend(part)

    async with connected(application) as (reader, writer):
        start, reading = loop.time(), asyncio.create_task(read())
        writer.write(begin)
        while not reading.done() and loop.time() - start < 20 * SECONDS:
            writer.write(drip)
            await asyncio.sleep(SECONDS / 10)
        return bytes(came), loop.time() - start


@pytest.mark.parametrize(
    ("application", "begin", "drip", "answer"),
    [
        (reads_all, b"", b"", False),
        (reads_all, b"GET / HTTP/1.1\r\nHost: x\r\nA: ", b"a", False),
        (reads_all, HEAD, b"a", False),
        (answers_at_once, HEAD, b"a", True),
        (answers_at_once, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"G", True),
    ],
)
def test_a_connection_of_which_nothing_comes_is_closed(application, begin, drip, answer):
    came, seconds = asyncio.run(exchange(application, begin, drip))
    assert came.startswith(b"HTTP/1.1 200") == answer
    assert SECONDS * 0.5 < seconds < 15 * SECONDS


def test_requests_one_after_the_other_keep_their_connection():
    async def steps():
        async with connected(reads_all) as (reader, writer):
            for _ in range(8):
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
                assert await reader.readexactly(2) == b"ok"
                await asyncio.sleep(SECONDS / 6)

    asyncio.run(steps())
