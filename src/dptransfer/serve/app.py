"""The routes of a server for one release.

A release is public and so is all that follows from it; the inputs are not. They are scored and forgotten:
nothing of them is logged, counted by value or put into an error. The server can load and predict, and imports
nothing that could fit.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any, TypeAlias

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from dptransfer._version import __version__
from dptransfer.base.types import Floats, JsonObject
from dptransfer.encoders.model_inputs import encoder_behind
from dptransfer.errors import DataError, DPTransferError
from dptransfer.release import PrivateClassifier
from dptransfer.serve import protocol
from dptransfer.serve.limits import Limits
from dptransfer.serve.metrics import Metrics
from dptransfer.serve.protocol import InferRequest, Items, TensorSpec
from dptransfer.serve.scoring import Scorer, TooBusy
from dptransfer.sources.decode import without_warnings

_HEADER = "Inference-Header-Content-Length"
_BODIES = 32  # of the largest size are in memory at a time, or more that are smaller
_AT_ONCE = 64  # pictures or texts that are scored before it is asked whether anybody still waits
_PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"

_Answer: TypeAlias = Callable[[Request], Awaitable[Response]]


@dataclass
class _Room:
    """Bytes that the bodies of all requests together may still take."""

    left: int

    def take(self, request: Request, size: int) -> None:
        """Room for so many bytes more; who finds none gives back what it has, so that others go on."""
        if size > self.left:
            self.give_back(request)
            raise TooBusy
        self.left -= size
        request.state.held = getattr(request.state, "held", 0) + size

    def give_back(self, request: Request) -> None:
        self.left += getattr(request.state, "held", 0)
        request.state.held = 0


@dataclass(frozen=True)
class _Served:
    """What the routes work with."""

    name: str
    model: PrivateClassifier
    digest: str
    card: str
    inputs: tuple[TensorSpec, ...]
    limits: Limits
    scorer: Scorer
    metrics: Metrics
    room: _Room

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Label, probabilities, and, where the release allows for them, sets of classes."""
        classes = len(self.model.classes)
        sets = (TensorSpec("set", "BOOL", (-1, classes)),) if self.model.charged is not None else ()
        return TensorSpec("label", "BYTES", (-1,)), TensorSpec("scores", "FP32", (-1, classes)), *sets

    def metadata(self) -> JsonObject:
        """Inputs, outputs and the guarantee."""
        promise = self.model.guarantee
        return {
            "name": self.name,
            "versions": [],
            "platform": "dptransfer",
            "inputs": [one.to_dict() for one in self.inputs],
            "outputs": [one.to_dict() for one in self.outputs],
            "parameters": {
                "classes": [str(one) for one in self.model.classes],
                "epsilon": promise.epsilon,
                "delta": promise.delta,
                "relation": promise.relation.value,
                "unit": promise.unit.value,
                "release_sha256": self.digest,
            },
        }


def make_app(
    model: PrivateClassifier,
    *,
    name: str,
    digest: str,
    card: str = "",
    limits: Limits | None = None,
    token: str | None = None,
) -> Starlette:
    """The routes as an ASGI application.

    Args:
        model: the release, loaded.
        name: what clients call it.
        digest: of the release, for its metadata.
        card: the page that is shown at `/`.
        limits: what a client may ask for.
        token: what requests must carry as `Authorization: Bearer`, but for the routes about health.
    """
    limits, metrics = limits or Limits(), Metrics()
    scorer = Scorer(partial(_scored, model, limits), most_inputs=limits.inputs, most_waiting=limits.waiting)
    room = _Room(int(_BODIES * limits.megabytes * 2**20))
    served = _Served(name, model, digest, card, _inputs_of(model), limits, scorer, metrics, room)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with scorer:
            yield

    return Starlette(routes=_routes(served, token), lifespan=lifespan)


def _routes(served: _Served, token: str | None) -> list[Route]:
    def route(path: str, answer: _Answer, *, method: str = "GET", open_to_all: bool = False) -> Route:
        own = None if open_to_all else token
        return Route(path, partial(_guarded, served, path, own, answer), methods=[method])

    def constant(content: Any, kind: type[Response] = JSONResponse) -> _Answer:
        async def answer(_: Request) -> Response:
            return kind(content)

        return answer

    async def card(_: Request) -> Response:
        return HTMLResponse(served.card, headers={"Content-Security-Policy": _PAGE_POLICY})

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(served.metrics.text(served.scorer.batches))

    async def infer(request: Request) -> Response:
        return await _infer(served, request)

    async def invoke(request: Request) -> Response:
        return await _invoke(served, request)

    ready, model = {"name": served.name, "ready": True}, f"/v2/models/{served.name}"
    return [
        route("/v2/health/live", constant({"live": True}), open_to_all=True),
        route("/v2/health/ready", constant({"ready": True}), open_to_all=True),
        route("/ping", constant({"status": "healthy"}), open_to_all=True),
        route("/", card),
        route("/metrics", metrics),
        route("/version", constant(__version__, PlainTextResponse)),
        route(
            "/v2",
            constant({"name": "dptransfer", "version": __version__, "extensions": ["binary_tensor_data"]}),
        ),
        route(model, constant(served.metadata())),
        route(f"{model}/ready", constant(ready)),
        route(f"{model}/infer", infer, method="POST"),
        route("/invocations", invoke, method="POST"),
    ]


async def _guarded(
    served: _Served,
    path: str,
    token: str | None,
    answer: _Answer,
    request: Request,
) -> Response:
    """The answer, or an error in JSON; counted either way. What went wrong inside is told to nobody."""
    start = time.perf_counter()
    try:
        _require_token(request, token)
        response = await answer(request)
    except HTTPException as problem:
        response = _error(problem.status_code, problem.detail)
    except DPTransferError as problem:
        response = _error(400, str(problem))
    except TooBusy:
        response = _error(503, "Too many requests wait already. Try again later.")
        response.headers["Retry-After"] = "1"
    except TimeoutError:
        response = _error(504, f"The answer took longer than {served.limits.seconds:g} seconds.")
    except Exception as problem:
        response = _error(500, f"The server failed ({type(problem).__name__}).")
    finally:
        served.room.give_back(request)
    inputs = getattr(request.state, "inputs", 0)
    served.metrics.add(path, response.status_code, time.perf_counter() - start, inputs)
    return response


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status)


def _require_token(request: Request, token: str | None) -> None:
    given = request.headers.get("authorization", "")
    if token is not None and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        raise HTTPException(401, "A request must carry the server's token: Authorization: Bearer TOKEN.")


async def _infer(served: _Served, request: Request) -> Response:
    body = await _body(served, request)
    asked = protocol.read_infer_request(body, _length_in(request, _HEADER), served.inputs)
    found = await _outputs(served, request, asked)
    content, length = protocol.infer_answer(asked, served.name, found)
    if length is None:
        return Response(content, media_type="application/json")
    return Response(content, media_type="application/octet-stream", headers={_HEADER: str(length)})


async def _invoke(served: _Served, request: Request) -> Response:
    """Labels; with coverage asked for, records of label, score and set."""
    body = await _body(served, request)
    asked = protocol.read_invocation(body, request.headers.get("content-type", ""), served.inputs)
    found = await _outputs(served, request, asked)
    predictions: list[Any] = found["label"][1]
    if "set" in found:
        classes = [str(one) for one in served.model.classes]
        best, sets = found["scores"][1].max(axis=1).tolist(), found["set"][1]
        predictions = [
            {
                "label": label,
                "score": score,
                "set": [one for one, held in zip(classes, row, strict=True) if held],
            }
            for label, score, row in zip(predictions, best, sets.tolist(), strict=True)
        ]
    return JSONResponse({"predictions": predictions})


async def _outputs(
    served: _Served, request: Request, asked: InferRequest
) -> dict[str, tuple[TensorSpec, Any]]:
    """All outputs by name; sets where a coverage is asked for."""
    count = len(asked.items)
    if not 0 < count <= served.limits.inputs:
        raise HTTPException(413 if count else 400, f"A request must have 1 to {served.limits.inputs} inputs.")
    request.state.inputs = count
    model, specs = served.model, {one.name: one for one in served.outputs}
    scores = await served.scorer.scores(asked.items, served.limits.seconds)
    labels = [str(model.classes[place]) for place in scores.argmax(axis=1)]
    found: dict[str, Any] = {"label": labels}
    if asked.coverage is not None:
        found["set"] = model.sets_of_scores(scores, asked.coverage, asked.confidence).members
    found["scores"] = model.probabilities_of(scores).astype("float32")
    return {name: (spec, found[name]) for name, spec in specs.items() if name in found}


def _length_in(request: Request, header: str) -> int | None:
    """What the header says; -1 if that is no length."""
    told = request.headers.get(header)
    return None if told is None else int(told) if re.fullmatch("[0-9]{1,20}", told) else -1


async def _body(served: _Served, request: Request) -> bytes:
    """The body, within its limits; compressed ones could be of any size and are refused."""
    limits = served.limits
    if request.headers.get("content-encoding", "identity") != "identity":
        raise HTTPException(415, "The body must not be compressed.")
    most = int(limits.megabytes * 2**20)
    too_large = HTTPException(413, f"The body must have at most {limits.megabytes:g} MB.")
    if (_length_in(request, "Content-Length") or 0) > most:
        raise too_large

    async def read() -> bytes:
        parts: list[bytes] = []
        async for part in request.stream():
            served.room.take(request, len(part))
            if request.state.held > most:
                raise too_large
            parts.append(part)
        return b"".join(parts)

    try:
        return await asyncio.wait_for(read(), limits.seconds)
    except TimeoutError:
        raise HTTPException(408, f"The body must arrive within {limits.seconds:g} seconds.") from None


def _inputs_of(model: PrivateClassifier) -> tuple[TensorSpec, ...]:
    """Rows; and what the model's encoder takes, where it is found on this machine."""
    rows = TensorSpec("rows", "FP32", (-1, model.dimension))
    if model.encoder is None:
        return (rows,)
    try:
        encoder = encoder_behind(model, None, "cpu")
    except DPTransferError:
        return (rows,)
    if encoder.kind == "text":
        return rows, TensorSpec("text", "BYTES", (-1,))
    return rows, TensorSpec("image_bytes", "BYTES", (-1,)), TensorSpec("image", "UINT8", (-1, -1, -1, 3))


def _scored(model: PrivateClassifier, limits: Limits, items: Items, wanted: Callable[[], bool]) -> Floats:
    """The scores of these; pictures and texts can take long, and are left when nobody waits any more."""
    if isinstance(items, np.ndarray) and items.ndim == 2:
        return model.scores(items)
    for one in items:
        if isinstance(one, bytes):
            _require_small(one, limits.megapixels)
    found = []
    for start in range(0, len(items), _AT_ONCE):
        if not wanted():
            raise TimeoutError
        found.append(model.scores(items[start : start + _AT_ONCE]))
    return np.concatenate(found)


def _require_small(content: bytes, megapixels: float) -> None:
    """Raise for a picture that would take too much memory, before it is opened."""
    from PIL import Image

    try:
        with without_warnings(), Image.open(BytesIO(content)) as opened:
            width, height = opened.size
    except Exception:  # readers raise many types on damaged files
        raise DataError("Pictures must be files that can be read; one is not. Repair it.") from None
    if width * height > megapixels * 1e6:
        raise DataError(f"A picture must have at most {megapixels:g} megapixels; one has more.")
