"""`dptransfer pate`: what votes of teachers cost, answers from votes that a user brings, a report on them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

import dptransfer as dpt
from dptransfer.cli import charges, lib, options
from dptransfer.cli.commands import Group
from dptransfer.cli.screen import json_text, say, show_facts, show_json
from dptransfer.errors import ArgumentError
from dptransfer.privacy import Budget, Relation, Unit, number, rounded_up

_report = partial(Option, rich_help_panel="Report")
_question = partial(Option, rich_help_panel="Questions")
_budget = partial(Option, rich_help_panel="Budget")


@dataclass(frozen=True)
class Questions:
    """What the answers promise, and how noisy the tests before them are."""

    answers: Annotated[int | None, _question(min=1, help="Most answers, all charged; default all.")] = None
    threshold_noise: Annotated[float | None, _question(help="σ on Confident-GNMax tests; or none.")] = None
    delta: Annotated[float, _budget("--delta", "-d", help="δ, below 0.1.")] = 1e-5
    relation: options.Neighbours = Relation.ADD_REMOVE
    unit: Annotated[Unit, Option(help="What is given to at most one teacher: a row, or a person.")] = Unit.ROW

    def inquiry(
        self, queries: int, noise: float | None, epsilon: float | None, **settings: Any
    ) -> dpt.methods.Inquiry:
        """What is asked, with the given noise or the least that fits `epsilon`."""
        settings |= {"threshold_noise": self.threshold_noise, "answers": self.answers, "unit": self.unit}
        if (noise is None) is (epsilon is None):
            found = "neither" if noise is None else "both"
            raise ArgumentError(f"Give either --noise of the answers or --epsilon, their cost; got {found}.")
        if noise is not None:
            return dpt.methods.Inquiry(queries, noise, relation=self.relation, **settings)
        return dpt.methods.Inquiry.within(self.budget(epsilon), queries, **settings)

    def budget(self, epsilon: float | None) -> Budget:
        """The budget of this ε."""
        return Budget(epsilon=epsilon, delta=self.delta, relation=self.relation)


@dataclass(frozen=True)
class Votes:
    """The votes of a user's teachers, and what is declared about them."""

    randomness: options.NoiseOptions
    votes: Annotated[Path, Argument(help="Whole numbers by question and class.", metavar="VOTES.npy")]
    name: Annotated[str, Option(help="What the ledger calls the data the teachers learned from.")]
    teachers: Annotated[int | None, Option(min=1, help="How many teachers there are; public.")] = None
    ballots: Annotated[bool, Option("--ballots", help="The file has ballots: teachers × questions.")] = False
    classes: options.Classes = None
    threshold: Annotated[float | None, _question(help="Noisy votes that an answer needs.")] = None
    ledger: options.LedgerFile = None

    def load(self) -> tuple[lib.AnyArray, int, tuple[str | int, ...], int]:
        """The votes, unread, with the number of teachers, the classes and the number of questions."""
        votes = lib.load_array(self.votes)
        if votes.ndim != 2:
            shapes = "questions × classes, with --ballots teachers × questions"
            raise ArgumentError(f"Votes are {shapes}; '{self.votes}' has {votes.ndim} axes. Reshape it.")
        if self.ballots and self.classes is None:
            raise ArgumentError("--ballots name classes by position; none are declared. Give --classes.")
        if self.teachers is None and not self.ballots:
            raise ArgumentError("Counts do not tell how many teachers there are. Give --teachers.")
        # Names are written once the charge is made, so what cannot be a class must show here.
        listed = range(votes.shape[1]) if self.classes is None else options.class_list(self.classes)
        names = lib.Facts(tuple(lib.declared_classes(listed)), shape=(1,)).classes
        return votes, self.teachers or votes.shape[0], names, votes.shape[1 if self.ballots else 0]


@dataclass(frozen=True)
class ReportOptions:
    """How the report bounds what the answers to these votes tell."""

    order: Annotated[float, _report(help="Rényi order at which losses are added up.")] = 20.0
    smoothness: Annotated[float | None, _report(help="β of smooth sensitivity; default 2 / noise.")] = None
    confidence: Annotated[float, _report(help="Confidence with which the reported bound holds.")] = 0.95


app = Typer(cls=Group, no_args_is_help=True)
Noise = Annotated[float | None, _question(help="σ of the noise on each class's votes; or give --epsilon.")]


@app.callback()
def pate() -> None:
    """Answer questions by teachers' votes (PATE): compute the cost, or aggregate your own votes.

    Example: dptransfer pate account --queries 1000 --noise 89
    """


@app.command()
def account(
    queries: Annotated[int, _question(min=1, help="Number of questions.")],
    questions: Questions,
    noise: Noise = None,
    epsilon: options.Epsilon = None,
    as_json: options.AsJson = False,
) -> None:
    """Compute the cost of noisy answers, or with --epsilon the noise they need. No data are read.

    The cost holds for all votes: every test and every answer counts by its exact Gaussian curve. A cost that
    depends on the votes is itself private: see dptransfer pate report.

    Example: dptransfer pate account --queries 1000 --answers 684 --threshold-noise 200 --noise 50
    """
    asked = questions.inquiry(queries, noise, epsilon)
    promise = asked.guarantee(questions.delta)
    if as_json:
        facts = {"answers": asked.most_answers, "mu": promise.mu, "rho": promise.rho}
        facts |= {name: getattr(asked, name) for name in ("queries", "noise", "threshold_noise")}
        return show_json(charges.privacy_json("pate", promise, asked.events) | facts)
    charges.show_events(asked.events)
    say()
    cost = f"{rounded_up(promise.epsilon, 5)} at delta {number(questions.delta)}"
    told = {"Epsilon": f"{cost}, {asked.relation.words(asked.unit)}"}
    if epsilon is not None:
        told["Noise"] = f"{asked.noise:.4g} votes on each count is the least that fits"
    told |= {"Attacker": charges.attack_sentence(asked.events), "Assumes": "; ".join(promise.assumptions)}
    show_facts(told)


@app.command()
def aggregate(
    votes: Votes,
    questions: Questions,
    out: Annotated[Path, Option("--out", "-o", help="The .csv to write; a .json goes beside it.")],
    noise: Noise = None,
    epsilon: options.Epsilon = None,
    as_json: options.AsJson = False,
) -> None:
    """Aggregate your own votes: charge the data set, add noise, write the answers and their guarantee.

    You are responsible for how the votes were made: each row, or person, must be given to at most one
    teacher, by a rule that does not depend on the others. All answers and tests are charged before a vote is
    read.

    Example: dptransfer pate aggregate votes.npy --teachers 1000 --noise 89 --name clinic --out answers.csv
    """
    source = votes.randomness.noise()
    record = out.with_suffix(".json")
    if out.suffix.lower() != ".csv":
        raise ArgumentError(f"--out must end in .csv; got '{out.name}'. Name it so.")
    for file in (out, record):
        options.require_new(file)
    cast, teachers, names, queries = votes.load()
    asked = questions.inquiry(queries, noise, epsilon, classes=len(names))
    book = charges.open_ledger(votes.ledger)
    with charges.claim_release(out, overwrite=False), charges.explain_interruption(book):
        whose: dict[str, Any] = {"name": votes.name, "cast": votes.ballots, "ledger": book, "noise": source}
        how: dict[str, Any] = {"delta": questions.delta, "threshold": votes.threshold}
        found = dpt.methods.aggregate_votes(cast, asked, teachers=teachers, **how, **whose)
        promise = "votes", found.guarantee, found.inquiry.events
        told = {**charges.privacy_json(*promise), **lib.inquiry_record(asked, teachers, votes.threshold)}
        told |= {name: getattr(found, name) for name in ("statement", "seeded", "created", "ledger_head")}
        told["answered"] = len(found.positions)
        write = partial(_write, found=found, names=names, record=told)
        charges.write_or_rescue(write, out, "files of answers")
    answered = f"{len(found.positions)} of {queries} questions"
    facts = {"Answered": answered, "Written": f"{out}: the answers; {record.name}: what they cost"}
    told |= {"out": out, "files": [out.name, record.name]}
    charges.show_charge(book, found.ledger_head, promise, told, facts, as_json=as_json)


@app.command()
def report(
    votes: Votes,
    questions: Questions,
    noise: Annotated[float, _question(help="σ of the noise that the answers' votes have.")],
    epsilon: Annotated[float, _budget("--epsilon", "-e", help="ε of the report itself.")],
    settings: ReportOptions,
    as_json: options.AsJson = False,
) -> None:
    """Report the data-dependent privacy loss of the answers; the report has its own noise and charge.

    The number holds if only labels are published, not noisy votes. It describes these data and is not a
    guarantee, so the charge for the answers does not change. Fix the settings before anybody looks at the
    votes.

    Example: dptransfer pate report votes.npy --teachers 1000 --noise 89 --name clinic --epsilon 0.5
    """
    source = votes.randomness.noise()
    cast, teachers, names, queries = votes.load()
    asked = questions.inquiry(queries, noise, None, classes=len(names))
    budget = questions.budget(epsilon)
    made = dpt.methods.VoteReport(asked, teachers, budget, votes.threshold, **vars(settings))
    book = charges.open_ledger(votes.ledger)
    with charges.explain_interruption(book):
        found = made.release(cast, name=votes.name, cast=votes.ballots, ledger=book, noise=source)
    for_any = asked.guarantee(questions.delta).epsilon
    told = {name: getattr(found, name) for name in ("epsilon_of_labels", "noisy_loss", "statement", "seeded")}
    told |= {"epsilon_of_labels_and_report": found.epsilon_with_report, "epsilon_for_any_votes": for_any}
    told |= {"confidence": settings.confidence, "order": settings.order, "noise_of_loss": found.scale}
    facts = {
        "Labels": f"epsilon {rounded_up(found.epsilon_of_labels, 4)}, as these votes are",
        "With report": f"epsilon {rounded_up(found.epsilon_with_report, 4)}, as these votes are",
        "Any votes": f"epsilon {rounded_up(for_any, 4)}, the price of the answers",
    }
    promise = "votes report", made.guarantee(), made.events
    charges.show_charge(book, found.ledger_head, promise, told, facts, as_json=as_json)


def _write(out: Path, found: lib.VoteAnswers, names: Sequence[str | int], record: lib.JsonObject) -> None:
    """Write the answers, after the record beside them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("question", "label"))
    pairs = zip(found.positions.tolist(), found.labels.tolist(), strict=True)
    writer.writerows((question, names[label]) for question, label in pairs)
    lib.write_whole(out.with_suffix(".json"), json_text(record).encode())
    lib.write_whole(out, text.getvalue().encode())
