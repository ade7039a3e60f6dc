"""What one person does with the app: choices, what is known by now, and the work that runs.

Everything is done by the commands of `dptransfer`: a choice becomes words, which the command line's own
parser reads. So what a screen shows as its command is what runs.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import dptransfer as dpt
from dptransfer.accounting import true_positive_rate
from dptransfer.api.checkup import Checkup, Forecast, forecast
from dptransfer.app.choices import EPSILONS, FIELDS, MISSING, Choices, Screen, field_of, suggested_name
from dptransfer.app.jobs import Job
from dptransfer.app.picker import resolve_inside
from dptransfer.base.types import JsonObject
from dptransfer.cli.check_command import sources_of
from dptransfer.cli.commands import COMMANDS, read_command, run_command
from dptransfer.cli.fit_command import request_of
from dptransfer.cli.screen import one_line
from dptransfer.errors import ArgumentError, DPTransferError, LedgerError
from dptransfer.ledger import Charge
from dptransfer.methods import METHODS
from dptransfer.methods.fitting import FitPlan

ALARMS = 0.01
"""False alarms of the attacker whose ceiling is shown."""


@dataclass(frozen=True)
class Outlook:
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
        asked: the example that the model was asked about, in words.
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
    problem: tuple[Screen, str, str] | None = None
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

    def choose(self, screen: Screen, form: dict[str, str]) -> bool:
        """Take a form; whether all that the screen asks for is there and can be used."""
        self.problem, before = None, self.choices
        self.choices = self.choices.with_form(screen, form)
        try:
            self._require(screen)
        except (DPTransferError, OSError) as problem:
            self.refuse(screen, problem)
        changed = {name for name in vars(before) if getattr(before, name) != getattr(self.choices, name)}
        if changed & {*FIELDS["data"]}:
            self.checkup = None
        if changed & {*FIELDS["data"], *FIELDS["who"]}:
            self.outlooks, self.best, self.no_forecast = (), None, ""
        if changed & {*FIELDS["data"], *FIELDS["who"], *FIELDS["accuracy"]}:
            self.plan = None
        return self.problem is None

    def refuse(self, screen: Screen, problem: BaseException | str, name: str | None = None) -> None:
        """Show what is wrong, beside the field that it is about."""
        text = problem if isinstance(problem, str) else one_line(problem, "fit")
        self.problem = screen, field_of(text, screen) if name is None else name, text

    def _require(self, screen: Screen) -> None:
        paths = {"data", "public", "out", *(["whose_name"] if self.choices.whose == "file" else [])}
        for name in FIELDS[screen]:
            if name in paths and (value := getattr(self.choices, name)):
                self.choices = replace(self.choices, **{name: str(resolve_inside(self.root, value))})
        if self.choices.data and not self.choices.name:
            self.choices = replace(self.choices, name=suggested_name(self.choices.data))
        if name := self.choices.first_missing(screen):
            return self.refuse(screen, MISSING[name], name)
        if self.choices.method not in METHODS.names:  # a class of any module could be named, and loaded
            raise ArgumentError(f"--method must be one that is listed; got '{self.choices.method}'.")
        if screen == "data":
            private, pool = self._sources()
            if pool is not None:
                pool.require_other_than(private, "public (--public)")
        elif screen == "accuracy":
            self._request(self.choices)

    def _sources(self) -> tuple[dpt.Source, dpt.Source | None]:
        given = read_command("check", self.choices.check_words()[1:])
        private, pool, _ = sources_of(given["data"], given["examples"], given["runtime"], given["public"])
        return private, pool

    def _request(self, choices: Choices) -> dpt.Fit:
        return request_of(**read_command("fit", choices.fit_words()[1:]))

    # Work

    def start(self, what: str, command: str, screen: Screen, then: Screen) -> None:
        """Begin a piece of work; a command about the model is run as it is shown."""
        if not self.is_busy:
            own = {"check": self._check, "look ahead": self._look_ahead, "plan": self._plan, "fit": self._fit}
            work, self.problem = own.get(command, partial(self._write, command)), None
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
        self.checkup = dpt.check(*self._sources())

    def _look_ahead(self) -> None:
        choices, found = self.choices, []
        for epsilon in EPSILONS:
            plan = self._request(replace(choices, epsilon=f"{epsilon:g}")).plan()
            found.append(Outlook(epsilon, true_positive_rate(plan.events, ALARMS)))
        self.no_forecast = "they are forecast on public data, and there are none."
        private, pool = self._sources()
        if pool is not None:
            try:
                expected = forecast(private, pool, EPSILONS, float(choices.delta))
                found = [replace(one, forecast=told) for one, told in zip(found, expected, strict=False)]
                self.best, self.no_forecast = expected[-1], ""
            except DPTransferError as problem:
                self.no_forecast = one_line(problem, "check")
        self.outlooks = tuple(found)

    def _plan(self) -> None:
        self.plan = self._request(self.choices).plan()
        if not self.choices.out:
            beside = Path(self.choices.data).parent
            beside = beside if beside.is_relative_to(self.root) else self.root
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
        made = self.made or Path("model")
        page = made.with_name(f"{made.name}-page")
        found = {
            "predict": [str(made), "picture.jpg", "--top", "3"],
            "card": [str(made)],
            "audit": [str(made), "--out", str(made.with_name(f"{made.name}-audit.html")), "--overwrite"],
            "page": [str(made), "--out", str(page)],
            "serve": [str(made)],
        }
        return {name: [name, *words] for name, words in found.items() if name in COMMANDS}

    def _write(self, command: str) -> None:
        words = self.model_words()[command]
        run_command(command, words[1:])
        self.written[command] = Path(words[words.index("--out") + 1])

    def ask(self, x: object, called: str) -> None:
        """Have the model label a picture or a text."""
        self.problem, self.asked, self.answers = None, called, ()
        model = dpt.load(self.made or "")
        shares = model.predict_proba(x)[0]
        best = shares.argsort()[::-1][:3]
        self.answers = tuple((str(model.classes[place]), float(shares[place])) for place in best)

    # The ledger

    def _book(self) -> dpt.Ledger:
        """The ledger to look something up in; one that is not there yet is not made."""
        return dpt.Ledger(self.ledger_path) if self.ledger_path.exists() else dpt.Ledger.in_memory()

    def account(self) -> str:
        """What the ledger says of the account before a charge."""
        with suppress(LedgerError):
            book = self._book()
            own = book.find(self.choices.name)
            return next(one.sentence for one in book.datasets() if one.dataset == own)
        return "nothing is spent; no budget is set"

    def quote(self) -> JsonObject:
        """What the charge costs, and what the account would be at after it; raises where it is refused."""
        return {} if self.plan is None else self._book().require_room(self.choices.name, self.plan.events)

    def open_charges(self) -> list[Charge]:
        """Charges that nobody closed: of runs that were killed, or that others do right now."""
        entries = self._book().history(recheck=False)
        return [one for one in entries if isinstance(one, Charge) and one.outcome is None]
