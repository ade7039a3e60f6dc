"""Session of one user of the app: choices, results so far, and the work that runs.

Everything is done by the commands of `dptransfer`: a choice becomes words, which the command line's own
parser reads. So what a screen shows as its command is what runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import dptransfer as dpt
from dptransfer.accounting import true_positive_rate
from dptransfer.api.checkup import Checkup, Forecast, forecast
from dptransfer.app.choices import EPSILONS, FIELDS, MISSING, Choices, Screen, field_of, suggested_name
from dptransfer.app.jobs import Job
from dptransfer.app.picker import resolve_inside
from dptransfer.base.document import Document
from dptransfer.base.types import JsonObject
from dptransfer.cli.commands import COMMANDS, read_command, run_command
from dptransfer.cli.fit_command import request_of
from dptransfer.cli.screen import one_line
from dptransfer.data.tables import is_person_file
from dptransfer.errors import ArgumentError, DPTransferError, LedgerError
from dptransfer.ledger import Charge
from dptransfer.methods import METHODS
from dptransfer.methods.fitting import FitPlan
from dptransfer.release import read_evaluation
from dptransfer.release.card import card_of

NOTHING = "", "", ""
ALARMS = 0.01  # false alarms of the attacker whose ceiling is shown


class Outlook(NamedTuple):
    """What a fit would cost and reach at one ε, from public facts and public rows.

    Attributes:
        epsilon: of the budget.
        attacker: the share of members that any attack finds at most, at 1 % false alarms.
        forecast: accuracies on tasks made of public rows, if there are some.
    """

    epsilon: float
    attacker: float
    forecast: Forecast | None = None


@dataclass
class Session:
    """The state of the app; there is one, and one piece of work at a time.

    Attributes:
        root: the folder under which everything may be chosen.
        choices: what was chosen.
        job: the last piece of work.
        checkup: the report about the data.
        outlooks: what to expect, for each ε that is offered.
        best: accuracies with next to no noise.
        no_forecast: why there are no accuracies.
        plan: of the fit as chosen.
        made: the release.
        written: what else was made of it, by command.
        problem: what is wrong: the screen, the field if it is about one, and the words.
        asked: the path or text that the model was asked about.
        answers: what it says, likeliest first.
    """

    root: Path
    choices: Choices = field(default_factory=Choices)
    job: Job | None = None
    checkup: Checkup | None = None
    outlooks: tuple[Outlook, ...] = ()
    best: Forecast | None = None
    no_forecast: str = ""
    plan: FitPlan | None = None
    made: Path | None = None
    written: dict[str, Path] = field(default_factory=dict)
    problem: tuple[str, str, str] = NOTHING
    asked: str = ""
    answers: tuple[tuple[str, float], ...] = ()

    @property
    def is_busy(self) -> bool:
        """Whether something is being done."""
        return self.job is not None and self.job.is_running

    @property
    def ledger_path(self) -> Path:
        """The file of the ledger, which may not be there yet."""
        return Path(self.choices.ledger) if self.choices.ledger else dpt.Ledger.default_path()

    def keep(self, screen: Screen, form: Mapping[str, str]) -> None:
        """Keep a form as it is filled in; what was found for other choices is forgotten."""
        before, self.choices = vars(self.choices), self.choices.with_form(screen, form)
        changed = {name for name, value in vars(self.choices).items() if before[name] != value}
        if changed & {*FIELDS["data"]}:
            self.checkup = None
        if changed & {*FIELDS["data"], *FIELDS["who"]}:
            self.outlooks, self.best, self.no_forecast = (), None, ""
        if changed & {*FIELDS["data"], *FIELDS["who"], *FIELDS["accuracy"]}:
            self.plan = None

    def choose(self, screen: Screen, form: dict[str, str]) -> None:
        """Take a form, if all that the screen asks for is there and can be used; else there is a problem."""
        self.problem = NOTHING
        self.keep(screen, form)
        paths = {"data", "public", "out"}
        whose, classes = form.get("whose_name", "").strip(), form.get("classes", "").strip()
        if form.get("whose") == "file" or is_person_file(whose):
            paths.add("whose_name")
        if not (classes.isdigit() or "," in classes):  # what is no number and no list is a file of names
            paths.add("classes")
        try:
            real = {name: str(resolve_inside(self.root, form[name])) for name in paths if form.get(name)}
            form = {**form, **real, "name": form.get("name") or suggested_name(real.get("data", ""))}
            self.keep(screen, form)
            if name := self.choices.first_missing(screen):
                self.refuse(screen, MISSING[name], name)
            elif self.choices.method not in METHODS.names:  # a class of any module could be named, and loaded
                raise ArgumentError(f"--method must be one that is listed; got '{self.choices.method}'.")
            elif screen in ("data", "accuracy"):
                request = self._request()
                for source in filter(None, (request.private, request.public)):
                    source.require_there()
            elif screen == "charge" and form.get("confirm", "").strip() != self.choices.name:
                self.refuse(screen, f"{MISSING['confirm']} {self.choices.name}", "confirm")
        except (DPTransferError, OSError) as problem:
            self.refuse(screen, problem)

    def refuse(self, screen: Screen, problem: BaseException | str, name: str | None = None) -> None:
        """Show what is wrong, beside the field that it is about."""
        text = problem if isinstance(problem, str) else one_line(problem, "fit")
        self.problem = screen, field_of(text, screen) if name is None else name, text

    def _request(self, epsilon: str = "") -> dpt.Fit:
        """The request, with this ε or that which was chosen; before that some ε stands in."""
        choices = replace(self.choices, epsilon=epsilon or self.choices.epsilon or "1")
        return request_of(**read_command("fit", choices.fit_words()[1:]))

    # Work

    def start(self, what: str, command: str, screen: Screen, then: Screen) -> None:
        """Begin a piece of work; a command about the model is run as it is shown."""
        if not self.is_busy:
            own = {"check": self._check, "look ahead": self._look_ahead, "plan": self._plan, "fit": self._fit}
            work, self.problem = own.get(command, partial(self._write, command)), NOTHING
            self.job = Job(what, work, screen=screen, then=then)

    def settle(self) -> Screen | None:
        """The screen to go to, once the work is over; what went wrong is shown where it was begun."""
        job = self.job
        if job is None or job.is_running:
            return None
        if job.problem:
            self.refuse(job.screen, job.problem)
            job.problem, job.then = "", job.screen
        return job.then

    def _check(self) -> None:
        request = self._request()
        self.checkup = dpt.check(request.private, request.public)

    def _look_ahead(self) -> None:
        requests, found = [self._request(f"{epsilon:g}") for epsilon in EPSILONS], []
        for epsilon, request in zip(EPSILONS, requests, strict=True):
            found.append(Outlook(epsilon, true_positive_rate(request.plan().events, ALARMS)))
        self.no_forecast, pool = "they are forecast on public data, and there are none.", requests[0].public
        if pool is not None:
            try:
                *expected, self.best = forecast(request.private, pool, EPSILONS, request.budget.delta)
                found = [one._replace(forecast=told) for one, told in zip(found, expected, strict=True)]
                self.no_forecast = ""
            except DPTransferError as problem:
                self.no_forecast = one_line(problem, "check")
        self.outlooks = tuple(found)

    def _plan(self) -> None:
        self.plan = self._request().plan()
        if not self.choices.out:
            beside = max(self.root, Path(self.choices.data).parent)  # not above the root
            self.choices = replace(self.choices, out=str(beside / f"{self.choices.name}-model"))

    def reset(self) -> None:
        """Begin again."""
        vars(self).update(vars(Session(self.root, Choices(ledger=self.choices.ledger))))

    def _fit(self) -> None:
        words, out = self.choices.fit_words(), Path(self.choices.out)
        run_command("fit", words[1:])
        self.made, self.written, self.answers = out, {}, ()

    def model_words(self) -> dict[str, list[str]]:
        """What can be done with the model, as commands, by name."""
        found = {
            "predict": [self.asked if Path(self.asked).is_absolute() else "EXAMPLE", "--top", "3"],
            "card": [],
            "audit": ["--out", f"{self.made}-audit.html", "--overwrite"],
            "page": ["--out", f"{self.made}-page"],
            "serve": [],
        }
        return {name: [name, str(self.made), *words] for name, words in found.items() if name in COMMANDS}

    def _write(self, command: str) -> None:
        words = self.model_words()[command]
        run_command(command, words[1:])
        self.written[command] = Path(words[words.index("--out") + 1])

    def card(self) -> tuple[Document, str]:
        """The card of the model, and whether it reads pictures ('image'), texts ('text') or rows ('')."""
        model = dpt.load(self.made or "")
        reads = "" if model.encoder is None else model.encoder.transform
        kind = "image" if reads.startswith("rgb") else "text" if reads else ""
        return card_of(model, read_evaluation(self.made or "")), kind

    def ask(self, x: Path | str) -> None:
        """Have the model label a picture or a text."""
        self.problem, self.asked, self.answers = NOTHING, str(x), ()
        model = dpt.load(self.made or "")
        shares = model.predict_proba([x])[0]
        best = shares.argsort()[::-1][:3]
        self.answers = tuple((str(model.classes[place]), float(shares[place])) for place in best)

    # The ledger

    def _book(self) -> dpt.Ledger:
        """The ledger to look something up in; one that is not there yet is not made."""
        return dpt.Ledger(self.ledger_path) if self.ledger_path.exists() else dpt.Ledger.in_memory()

    def quote(self) -> tuple[JsonObject, str]:
        """What the charge costs, and the account before and after it; or why it would be refused."""
        try:
            events = () if self.plan is None else self.plan.events
            return self._book().require_room(self.choices.name, events), ""
        except DPTransferError as problem:
            return {}, one_line(problem, "fit")

    def open_charges(self) -> list[Charge]:
        """Charges that nobody closed: of runs that were killed, or that others do right now."""
        with suppress(LedgerError):  # the charge says what is wrong with the file
            entries = [] if self.is_busy else self._book().history(recheck=False)
            return [one for one in entries if isinstance(one, Charge) and one.outcome is None]
        return []
