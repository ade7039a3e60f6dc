"""The screens: forms in, pages out."""

from __future__ import annotations

from functools import partial
from importlib.resources import files
from typing import Any, cast
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import dptransfer as dpt
from dptransfer.app.choices import EPSILONS, FIELDS, Screen, shown_command
from dptransfer.app.gate import read_form
from dptransfer.app.picker import list_folder, resolve_inside
from dptransfer.app.session import ALARMS, Session
from dptransfer.base.document import visible
from dptransfer.base.document_html import head_html, sections_html
from dptransfer.cli.charges import attack_sentence
from dptransfer.errors import DPTransferError
from dptransfer.methods import METHODS
from dptransfer.privacy import Unit, number
from dptransfer.release import read_evaluation
from dptransfer.release.card import card_of
from dptransfer.release.card_privacy import counted_as

_TITLES: dict[Screen, tuple[str, str]] = {
    "data": ("Data", "Which data?"),
    "who": ("Who", "Who is protected?"),
    "accuracy": ("Accuracy", "How accurate must it be?"),
    "charge": ("Charge", "What it costs"),
    "model": ("Model", "The model"),
}
_ORDER = tuple(_TITLES)
_STARTS = {  # by the screen whose form does it: what is said, what is done, where that leads
    "check": ("Checking the data", "data"),
    "look ahead": ("Looking ahead with public data", "accuracy"),
    "plan": ("Planning", "charge"),
    "fit": ("Fitting the model", "model"),
    "audit": ("Auditing the model", "model"),
    "page": ("Writing the page", "model"),
}
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
        self._pages.filters |= {"percent": "{:.0%}".format, "number": number, "shell": shown_command}
        self._pages.filters["url"] = partial(quote, safe="")

    def _page(self, name: str, status: int = 200, **told: Any) -> Response:
        session = self._session
        steps = [(one, _TITLES[one][0], self._may_see(one)) for one in _ORDER]
        told |= {"session": session, "choices": session.choices, "steps": steps, "screen": name}
        return HTMLResponse(self._pages.get_template(f"{name}.html").render(told), status)

    def _may_see(self, screen: Screen) -> bool:
        """Whether all that comes before it is chosen."""
        session = self._session
        if screen == "model":
            return session.made is not None
        before = _ORDER[: _ORDER.index(screen)]
        return not any(map(session.choices.first_missing, before)) and (
            screen != "charge" or session.plan is not None
        )

    async def door(self, _: Request) -> Response:
        """The page that exchanges the token for the cookie; it says nothing."""
        return HTMLResponse(self._pages.get_template("door.html").render())

    async def home(self, _: Request) -> Response:
        """Where the story stands."""
        if self._session.is_busy:
            return _go("progress")
        return _go(next(one for one in reversed(_ORDER) if self._may_see(one)))

    async def show(self, screen: Screen, _: Request) -> Response:
        """The page of a screen."""
        return await run_in_threadpool(self._show, screen) if self._may_see(screen) else _go("./")

    def _show(self, screen: Screen) -> Response:
        session, job = self._session, self._session.job
        wrong = session.problem is not None and session.problem[0] == screen
        told: dict[str, Any] = {
            "title": _TITLES[screen][1],
            "problem": session.problem[1:] if session.problem is not None and wrong else ("", ""),
            "notes": job.notes if job is not None and job.then == screen else [],
        }
        told |= getattr(self, f"_of_{screen}")()
        return self._page(screen, 422 if wrong else 200, **told)

    def _of_data(self) -> dict[str, Any]:
        session, choices = self._session, self._session.choices
        report = None if session.checkup is None else session.checkup.document()
        return {
            "command": choices.check_words() if choices.data else None,
            "report": report,
            "sections": "" if report is None else Markup(sections_html(report)),
            "open_charges": [] if session.is_busy else session.open_charges(),
        }

    def _of_who(self) -> dict[str, Any]:
        choices = self._session.choices
        return {"command": choices.check_words() if choices.unit else None}

    def _of_accuracy(self) -> dict[str, Any]:
        words = self._session.choices.check_words(forecast=True)
        offered = [f"{one:g}" for one in EPSILONS]
        return {"command": words, "alarms": ALARMS, "methods": METHODS.names, "offered": offered}

    def _of_charge(self) -> dict[str, Any]:
        session, plan = self._session, self._session.plan
        assert plan is not None
        told: dict[str, Any] = {"command": session.choices.fit_words(), "quote": {}, "refusal": ""}
        try:
            told["quote"] = session.quote()
        except DPTransferError as problem:
            told["refusal"] = str(problem)
        by_person = plan.facts.unit is Unit.PERSON
        return told | {
            "account": session.account(),
            "attacker": attack_sentence(plan.events),
            "person": f"A person counts as {counted_as(plan.facts.person_bound)}." if by_person else "",
        }

    def _of_model(self) -> dict[str, Any]:
        session = self._session
        model = dpt.load(session.made or "")
        reads = "" if model.encoder is None else model.encoder.transform
        return {
            "head": Markup(head_html(card_of(model, read_evaluation(session.made or "")))),
            "kind": reads and ("image" if reads.startswith("rgb") else "text"),
        }

    async def take(self, screen: Screen, request: Request) -> Response:
        """A form that was sent from a screen."""
        session, form = self._session, await read_form(request)
        if session.is_busy or not self._may_see(screen):
            return _go("./")
        if screen == "model":
            return await self._use(form)
        if (wanted := form.get("browse", "")) in FIELDS[screen]:
            session.choices = session.choices.with_form(screen, form)
            return _go(f"pick?field={wanted}")
        good = await run_in_threadpool(session.choose, screen, form)
        if good and screen == "charge" and form.get("confirm", "").strip() != session.choices.name:
            told = f"A charge must be confirmed; the name is another. Type: {session.choices.name}"
            session.refuse(screen, told, "confirm")
        if session.problem is not None:
            return await run_in_threadpool(self._show, screen)
        if screen == "data" and "check" not in form:
            return _go("who")
        work = {"data": "check", "who": "look ahead", "accuracy": "plan", "charge": "fit"}[screen]
        return self._start(work, screen)

    def _start(self, work: str, screen: Screen) -> Response:
        what, then = _STARTS[work]
        self._session.start(what, work, screen, cast(Screen, then))
        return _go("progress")

    async def _use(self, form: dict[str, str]) -> Response:
        """What may be done with a model: audit it, make a page, try it, begin again."""
        session = self._session
        if (work := form.get("do", "")) in session.model_words() and work in _STARTS:
            return self._start(work, "model")
        if work == "again":
            session.reset()
            return _go("data")
        if "browse" in form:
            return _go("pick?field=example")
        try:
            if text := form.get("text", "").strip():
                await run_in_threadpool(session.ask, [text], text)
            elif given := form.get("example", ""):
                path = resolve_inside(session.root, given)
                await run_in_threadpool(session.ask, [path], path.name)
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
        told = {"title": "Choose a file or folder", "at": at, "found": found, "field": name}
        told |= {"back": back, "why": why, "above": at.parent if at != session.root else None}
        return self._page("pick", 422 if why else 200, **told)

    async def take_pick(self, request: Request) -> Response:
        """A file or folder that was chosen."""
        session, form = self._session, await read_form(request)
        name, given = form.get("field", ""), form.get("path", "")
        if name == "example" and session.made is not None and not session.is_busy:
            return await self._use({"example": given})
        screen = next((one for one, names in FIELDS.items() if name in names), None)
        if screen is not None and not session.is_busy:
            current = {one: getattr(session.choices, one) for one in FIELDS[screen]}
            session.choices = session.choices.with_form(screen, {**current, name: given})
        return _go(screen or "./")

    async def progress(self, _: Request) -> Response:
        """How far the work is; goes on to the next screen when it is over."""
        following, job = self._session.settle(), self._session.job
        if job is None or following is not None:
            return _go(following or "./")
        return self._page("progress", job=job, title=job.what)

    async def status(self, _: Request) -> Response:
        """The same for the script of the page."""
        job = self._session.job
        if job is None or not job.is_running:
            return JSONResponse({"running": False})
        told = {"step": visible(job.step), "share": job.share, "seconds": job.seconds}
        return JSONResponse({"running": True, **told})

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
