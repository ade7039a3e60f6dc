"""The screens: forms in, pages out."""

from __future__ import annotations

from functools import partial
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from dptransfer.app.choices import EPSILONS, FIELDS, Screen, shown_command
from dptransfer.app.gate import read_form
from dptransfer.app.picker import list_folder, resolve_inside
from dptransfer.app.session import ALARMS, NOTHING, Session
from dptransfer.base.document import visible
from dptransfer.base.document_html import head_html, sections_html
from dptransfer.cli.charges import attack_sentence
from dptransfer.errors import DPTransferError
from dptransfer.methods import METHODS
from dptransfer.privacy import number
from dptransfer.release.card_privacy import counted_as

_ORDER = tuple(FIELDS)
_WORK = {"check": "Checking the data", "look ahead": "Looking ahead with public data", "plan": "Planning"}
_WORK |= {"fit": "Fitting the model", "audit": "Auditing the model", "page": "Writing the page"}
_THEN: dict[str, Screen] = {"look ahead": "accuracy", "plan": "charge", "fit": "model"}
_DOCUMENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"


def make_app(session: Session, room: str) -> Starlette:
    """The screens under `/room/`, and what they are made of under `/static/`."""
    screens = _Screens(session)
    pages = [Route("/", screens.home), Route("/progress", screens.progress), Route("/status", screens.status)]
    pages += [Route("/pick", screens.pick), Route("/pick", screens.take_pick, methods=["POST"])]
    pages += [Route("/stop", screens.stop, methods=["POST"])]
    for name in _ORDER:
        pages.append(Route(f"/{name}", partial(screens.show, name)))
        pages.append(Route(f"/{name}", partial(screens.take, name), methods=["POST"]))
    pages += [Route(f"/{name}", partial(screens.document, name)) for name in ("card", "audit")]
    style = Response(files("dptransfer.base").joinpath("style.css").read_bytes(), media_type="text/css")
    static = StaticFiles(packages=[("dptransfer.app", "static")])
    public = [Route("/", screens.door), Route("/static/style.css", lambda _: style), Mount("/static", static)]
    return Starlette(routes=[*public, Mount(f"/{room}", routes=pages)])


class _Screens:
    def __init__(self, session: Session) -> None:
        self._session = session
        own: dict[str, Any] = {"autoescape": True, "undefined": StrictUndefined, "finalize": _shown}
        self._pages = Environment(loader=PackageLoader("dptransfer.app"), trim_blocks=True, **own)
        told: dict[str, Any] = {"head_html": head_html, "sections_html": sections_html, "session": session}
        told |= {"alarms": ALARMS, "offered": [f"{one:g}" for one in EPSILONS]}
        self._pages.globals |= {**told, "methods": METHODS.names, "attack_sentence": attack_sentence}
        self._pages.filters |= {"percent": "{:.0%}".format, "number": number, "shell": shown_command}
        self._pages.filters |= {"url": partial(quote, safe=""), "counted": counted_as}

    def _page(self, name: str, status: int = 200, **told: Any) -> Response:
        steps = [(one, self._may_see(one)) for one in _ORDER]
        told |= {"choices": self._session.choices, "steps": steps, "screen": name}
        return HTMLResponse(self._pages.get_template(f"{name}.html").render(told), status)

    def _may_see(self, screen: Screen) -> bool:
        """Whether all that comes before it is chosen."""
        session = self._session
        if screen == "model" or (screen == "charge" and session.plan is None):
            return session.made is not None and screen == "model"
        return not any(map(session.choices.first_missing, _ORDER[: _ORDER.index(screen)]))

    async def door(self, _: Request) -> Response:
        """The page that exchanges the token for the cookie; it says nothing."""
        return HTMLResponse(self._pages.get_template("door.html").render())

    async def home(self, _: Request) -> Response:
        """Where the story stands."""
        here = next(one for one in reversed(_ORDER) if self._may_see(one))
        return _go("progress" if self._session.is_busy else here)

    async def show(self, screen: Screen, _: Request) -> Response:
        """The page of a screen."""
        return await run_in_threadpool(self._show, screen) if self._may_see(screen) else _go("./")

    def _show(self, screen: Screen) -> Response:
        job, (where, *problem) = self._session.job, self._session.problem
        notes = job.notes if job is not None and job.then == screen else []
        problem = problem if where == screen else ["", ""]
        return self._page(screen, 422 if where == screen else 200, notes=notes, problem=problem)

    async def take(self, screen: Screen, request: Request) -> Response:
        """A form that was sent from a screen."""
        session, form = self._session, await read_form(request)
        if session.is_busy or not self._may_see(screen):
            return _go("./")
        if screen == "model":
            return await self._use(form)
        if (wanted := form.get("browse", "")) in FIELDS[screen]:
            session.keep(screen, form)
            return _go(f"pick?field={wanted}")
        await run_in_threadpool(session.choose, screen, form)
        if session.problem != NOTHING:
            return await run_in_threadpool(self._show, screen)
        if screen == "data" and "check" not in form:
            return _go("who")
        work = {"data": "check", "who": "look ahead", "accuracy": "plan", "charge": "fit"}[screen]
        return self._start(work, screen)

    def _start(self, work: str, screen: Screen) -> Response:
        self._session.start(_WORK[work], work, screen, _THEN.get(work, screen))
        return _go("progress")

    async def _use(self, form: dict[str, str]) -> Response:
        """What may be done with a model: audit it, make a page, try it, begin again."""
        session = self._session
        if (work := form.get("do", "")) in session.model_words() and work in _WORK:
            return self._start(work, "model")
        if work == "again":
            session.reset()
            return _go("data")
        if "browse" in form:
            return _go("pick?field=example")
        try:
            if text := form.get("text", "").strip():
                await run_in_threadpool(session.ask, text)
            elif given := form.get("example", ""):
                await run_in_threadpool(session.ask, resolve_inside(session.root, given))
        except (DPTransferError, OSError) as problem:
            session.refuse("model", problem)
        return _go("model")

    async def pick(self, request: Request) -> Response:
        """A folder, from which a file or folder is chosen."""
        session, name, why = self._session, request.query_params.get("field", ""), ""
        back = next((one for one, names in FIELDS.items() if name in names), "model")
        given = request.query_params.get("at", "") or getattr(session.choices, name, "")
        try:
            at = resolve_inside(session.root, given)
            at = at if at.is_dir() or at == session.root else at.parent
            found = await run_in_threadpool(list_folder, session.root, at)
        except DPTransferError as problem:
            at, why, found = session.root, str(problem), ([], [], False)
        told = {"at": at, "found": found, "field": name, "back": back, "why": why}
        return self._page("pick", 422 if why else 200, **told)

    async def take_pick(self, request: Request) -> Response:
        """A file or folder that was chosen."""
        session, form = self._session, await read_form(request)
        name, given = form.get("field", ""), form.get("path", "")
        screen = next((one for one, names in FIELDS.items() if name in names), None)
        if session.is_busy:
            return _go("progress")
        if name == "example" and session.made is not None:
            return await self._use({"example": given})
        if screen is not None:
            current = {one: getattr(session.choices, one) for one in FIELDS[screen]}
            session.keep(screen, {**current, name: given})
        return _go(screen or "./")

    async def progress(self, _: Request) -> Response:
        """How far the work is; goes on to the next screen when it is over."""
        following, job = self._session.settle(), self._session.job
        if job is None or following is not None:
            return _go(following or "./")
        return self._page("progress", job=job)

    async def status(self, _: Request) -> Response:
        """The same for the script of the page."""
        job = self._session.job
        running = job is not None and job.is_running
        told = {"step": visible(job.step), "share": job.share, "seconds": job.seconds} if job else {}
        return JSONResponse({"running": running, **told})

    async def stop(self, _: Request) -> Response:
        """End the work."""
        if self._session.job is not None:
            self._session.job.stop()
        return _go("progress")

    async def document(self, name: str, _: Request) -> Response:
        """The card or the audit, as it lies on the disk."""
        made, written = self._session.made, self._session.written
        file = made / "card.html" if name == "card" and made is not None else written.get(name)
        if file is None or not file.is_file():
            return _go("./")
        headers = {"Content-Security-Policy": _DOCUMENT_POLICY}
        return FileResponse(file, media_type="text/html", headers=headers)


def _go(where: str) -> Response:
    return RedirectResponse(where, 303)


def _shown(value: object) -> object:
    """What a page shows, with hidden characters made visible; markup is our own."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
