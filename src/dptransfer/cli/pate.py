"""`dptransfer pate`: what votes of teachers cost, answers from votes that a user brings, a report on them."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptransfer.cli import options
from dptransfer.cli.commands import Group
from dptransfer.cli.inputs import require_new
from dptransfer.cli.ledger import open_ledger, summary_json, summary_of
from dptransfer.cli.options import class_list
from dptransfer.cli.privacy_view import attack_sentence, privacy_json, show_events
from dptransfer.cli.screen import say, show_facts, show_json
from dptransfer.cli.spending import claimed_release, told_if_interrupted
from dptransfer.errors import ArgumentError, DataError, ReleaseError
from dptransfer.privacy import Budget, Relation, Unit, number, rounded_up

if TYPE_CHECKING:
    from dptransfer.base.arrays import AnyArray
    from dptransfer.ledger import Ledger
    from dptransfer.methods.votes.vote_aggregation import Inquiry, VoteAnswers
    from dptransfer.noise import NoiseSource


def noise_from(seed: int | None, *, unsafe: bool) -> NoiseSource:
    """Secure noise, unless a test asks for a seed and says so twice."""
    from dptransfer.noise import SecureNoise, SeededNoise

    if seed is None:
        return SecureNoise()
    if not unsafe:
        raise ArgumentError(
            "Answers must have noise that nobody can repeat; --seed makes it repeatable. "
            "Leave --seed out, or pass --unsafe-for-publication too, for tests."
        )
    return SeededNoise(seed)


def inquiry_from(
    queries: int,
    noise: float | None,
    epsilon: float | None,
    delta: float,
    relation: Relation,
    settings: dict[str, Any],
) -> Inquiry:
    """What is asked, with the noise that is given, or the least that fits."""
    from dptransfer.methods.votes.vote_aggregation import Inquiry

    if (noise is None) is (epsilon is None):
        found = "neither" if noise is None else "both"
        raise ArgumentError(
            f"Either --noise says how noisy answers are, or --epsilon what they may cost; got {found}. "
            "Example: --noise 89"
        )
    if noise is not None:
        return Inquiry(queries, noise, relation=relation, **settings)
    budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
    return Inquiry.within(budget, queries, **settings)


def brought(
    path: Path, teachers: int | None, classes: str | None, *, ballots: bool
) -> tuple[AnyArray, int, tuple[str | int, ...], int]:
    """The votes, unread, with the number of teachers, the classes and the number of questions."""
    from dptransfer.data import Facts
    from dptransfer.data.labels import declared_classes
    from dptransfer.data.numpy_files import load_array

    votes = load_array(path)
    if votes.ndim != 2:
        raise ArgumentError(
            f"Votes have two dimensions, questions × classes, or with --ballots teachers × questions; "
            f"'{path}' has {votes.ndim}. Reshape them."
        )
    if ballots and classes is None:
        raise ArgumentError("--ballots name classes by position; none are declared. Give --classes.")
    if teachers is None:
        if not ballots:
            raise ArgumentError("Counts do not tell how many teachers there are. Give --teachers.")
        teachers = votes.shape[0]
    # Names are written once the charge is made, so what cannot be a class must show here.
    names = range(votes.shape[1]) if classes is None else declared_classes(class_list(classes))
    names = Facts(tuple(names), shape=(1,)).classes
    return votes, teachers, names, votes.shape[1] if ballots else votes.shape[0]


def charge_and_account(book: Ledger, name: str, head: str) -> tuple[dict[str, Any], dict[str, object]]:
    """The charge and the account, as JSON and in words."""
    charge = next(entry for entry in book.history(name) if entry.hash == head)
    account = summary_of(book, charge.dataset)
    entry = {"path": str(book.path), "entry": charge.number, "head": charge.hash}
    return {"ledger": entry, "account": summary_json(account)}, {
        "Charged": f"{account.dataset}, entry {charge.number} of the ledger {book.path}",
        "Account": account.sentence,
    }


app = typer.Typer(cls=Group, no_args_is_help=True)

_told = partial(typer.Option, rich_help_panel="Report")
_asked = partial(typer.Option, rich_help_panel="Questions")
Noise = Annotated[float | None, _asked(help="σ of the noise on each class's votes; or give --epsilon.")]
ThresholdNoise = Annotated[
    float | None, _asked(help="σ of the noise on each test of Confident-GNMax; without it there are none.")
]
MostAnswers = Annotated[
    int | None, _asked(min=1, help="Most questions answered; all are paid for. Default: every query.")
]
Whose = Annotated[Unit, typer.Option(help="Who touches one teacher at most: a row, or a person.")]
VotesFile = Annotated[
    Path, typer.Argument(help="An .npy of whole numbers: votes by question and class.", metavar="VOTES.npy")
]
Teachers = Annotated[int | None, typer.Option(min=1, help="How many teachers there are, a public number.")]
Ballots = Annotated[bool, typer.Option("--ballots", help="The file has ballots: teachers × questions.")]
Threshold = Annotated[
    float | None, _asked(help="Votes that a favourite must have, noise included, to be answered.")
]
Name = Annotated[str, typer.Option(help="What the ledger calls the data the teachers learned from.")]
Seed = Annotated[int | None, typer.Option(help="Repeatable noise, for tests only.")]
_DELTA = 1e-5
Delta = Annotated[float, typer.Option("--delta", "-d", rich_help_panel="Budget", help="δ, below 0.1.")]


@app.callback()
def pate() -> None:
    """Answer questions by votes of teachers: what that costs, and answers from votes that you bring.

    Example: dptransfer pate account --queries 1000 --noise 89
    """


@app.command()
def account(
    queries: Annotated[int, _asked(min=1, help="How many questions are asked.")],
    noise: Noise = None,
    answers: MostAnswers = None,
    threshold_noise: ThresholdNoise = None,
    epsilon: options.Epsilon = None,
    delta: Delta = _DELTA,
    relation: options.Neighbours = Relation.ADD_REMOVE,
    unit: Whose = Unit.ROW,
    as_json: options.AsJson = False,
) -> None:
    """Say what noisy answers cost, whatever the votes; with --epsilon, how much noise they need.

    Every test and every answer is counted by its exact Gaussian curve. No data are touched. A price that
    depends on votes is itself private: see dptransfer pate report.

    Example: dptransfer pate account --queries 1000 --answers 684 --threshold-noise 200 --noise 50
    """
    settings = {"threshold_noise": threshold_noise, "answers": answers, "unit": unit}
    asked = inquiry_from(queries, noise, epsilon, delta, relation, settings)
    promise = asked.guarantee(delta)
    if as_json:
        told = {"queries": queries, "answers": asked.most_answers, "noise": asked.noise}
        return show_json(
            {
                **privacy_json("pate", promise, asked.events),
                **told,
                "threshold_noise": threshold_noise,
                "mu": promise.mu,
                "rho": promise.rho,
            }
        )
    show_events(asked.events)
    say()
    facts: dict[str, object] = {
        "Epsilon": f"{rounded_up(promise.epsilon, 5)} at delta {number(delta)}, {relation.words(unit)}"
    }
    if epsilon is not None:
        facts["Noise"] = f"{asked.noise:.4g} votes on each count is the least that fits"
    show_facts(
        {**facts, "Attacker": attack_sentence(asked.events), "Assumes": "; ".join(promise.assumptions)}
    )


@app.command()
def aggregate(
    votes: VotesFile,
    name: Name,
    out: Annotated[Path, typer.Option("--out", "-o", help="The .csv to write; a .json goes beside it.")],
    teachers: Teachers = None,
    ballots: Ballots = False,
    classes: options.Classes = None,
    noise: Noise = None,
    threshold: Threshold = None,
    threshold_noise: ThresholdNoise = None,
    answers: MostAnswers = None,
    epsilon: options.Epsilon = None,
    delta: Delta = _DELTA,
    relation: options.Neighbours = Relation.ADD_REMOVE,
    unit: Whose = Unit.ROW,
    ledger: options.LedgerFile = None,
    seed: Seed = None,
    unsafe: options.Unsafe = False,
    as_json: options.AsJson = False,
) -> None:
    """Answer by votes that you bring: charge the data set, add noise, write the answers and their guarantee.

    You answer for how the votes were made: each row, or person, was given to one teacher at most, by a rule
    that does not depend on the others. All answers, and all tests, are paid for before a vote is read.

    Example: dptransfer pate aggregate votes.npy --teachers 1000 --noise 89 --name clinic --out answers.csv
    """
    from dptransfer.methods.votes.vote_aggregation import aggregate_votes, declared

    source = noise_from(seed, unsafe=unsafe)
    record = _new_files(out)
    cast, teachers, names, queries = brought(votes, teachers, classes, ballots=ballots)
    settings = {"threshold_noise": threshold_noise, "answers": answers, "unit": unit, "classes": len(names)}
    asked = inquiry_from(queries, noise, epsilon, delta, relation, settings)
    book = open_ledger(ledger)
    with claimed_release(out, overwrite=False), told_if_interrupted(book):
        found = aggregate_votes(
            cast,
            asked,
            teachers=teachers,
            name=name,
            delta=delta,
            threshold=threshold,
            cast=ballots,
            ledger=book,
            noise=source,
        )
        told = {
            **privacy_json("votes", found.guarantee, found.inquiry.events),
            "statement": found.statement,
            **declared(asked, teachers, threshold),
            "answered": len(found.positions),
            "seeded": found.seeded,
            "created": found.created,
            "ledger_head": found.ledger_head,
        }
        rows = _csv(found, names)
        try:
            _write(out, rows, record, told)
        except (OSError, DataError) as problem:
            kept = Path(tempfile.mkdtemp(prefix="dptransfer-")) / out.name
            _write(kept, rows, kept.with_suffix(".json"), told)
            found_out = problem.strerror if isinstance(problem, OSError) else problem
            why = f"'{out}' is not ({found_out}). The charge stands, so they were kept"
            raise ReleaseError(
                f"Answers must be writable, {why}: move '{kept}' to where they belong."
            ) from problem
    charge = charge_and_account(book, name, found.ledger_head)
    if as_json:
        return show_json({**told, **charge[0], "out": out, "files": [out.name, record.name]})
    show_events(asked.events)
    say()
    show_facts(
        {
            **charge[1],
            "Answered": f"{len(found.positions)} of {queries} questions",
            "Written": f"{out}: the answers; {record.name}: what they cost",
        }
    )
    say(found.statement)
    _warn_of_seed(found.seeded)


@app.command()
def report(
    votes: VotesFile,
    name: Name,
    noise: Annotated[float, _asked(help="σ of the noise that the answers' votes have.")],
    epsilon: Annotated[
        float, typer.Option("--epsilon", "-e", rich_help_panel="Budget", help="ε of the report itself.")
    ],
    teachers: Teachers = None,
    ballots: Ballots = False,
    classes: options.Classes = None,
    threshold: Threshold = None,
    threshold_noise: ThresholdNoise = None,
    answers: MostAnswers = None,
    delta: Delta = _DELTA,
    relation: options.Neighbours = Relation.ADD_REMOVE,
    unit: Whose = Unit.ROW,
    order: Annotated[float, _told(help="Rényi order at which losses are added up.")] = 20.0,
    smoothness: Annotated[
        float | None, _told(help="β of the smooth sensitivity; default 2 over the noise.")
    ] = None,
    confidence: Annotated[float, _told(help="With which the reported bound holds.")] = 0.95,
    ledger: options.LedgerFile = None,
    seed: Seed = None,
    unsafe: options.Unsafe = False,
    as_json: options.AsJson = False,
) -> None:
    """Report how little the answers to these very votes tell, with noise of its own and a charge of its own.

    The number is about labels alone: who gets noisy votes too learns what the price says. It describes the
    data as they are and is no guarantee, so the charge for answers stays what it is. Settings must be fixed
    before anybody looks at the votes.

    Example: dptransfer pate report votes.npy --teachers 1000 --noise 89 --name clinic --epsilon 0.5
    """
    from dptransfer.methods.votes.vote_report import VoteReport

    source = noise_from(seed, unsafe=unsafe)
    cast, teachers, names, queries = brought(votes, teachers, classes, ballots=ballots)
    settings = {"threshold_noise": threshold_noise, "answers": answers, "unit": unit, "classes": len(names)}
    asked = inquiry_from(queries, noise, None, delta, relation, settings)
    budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
    made = VoteReport(asked, teachers, budget, threshold, order, smoothness, confidence)
    book = open_ledger(ledger)
    with told_if_interrupted(book):
        found = made.release(cast, name=name, cast=ballots, ledger=book, noise=source)
    charge = charge_and_account(book, name, found.ledger_head)
    if as_json:
        return show_json(
            {
                **privacy_json("votes report", made.guarantee(), made.events),
                "epsilon_of_labels": found.epsilon_of_labels,
                "epsilon_of_labels_and_report": found.epsilon_with_report,
                "epsilon_for_any_votes": asked.guarantee(delta).epsilon,
                "confidence": confidence,
                "order": order,
                "noisy_loss": found.noisy_loss,
                "noise_of_loss": found.scale,
                "statement": found.statement,
                "seeded": found.seeded,
                **charge[0],
            }
        )
    show_events(made.events)
    say()
    show_facts(
        {
            **charge[1],
            "Labels": f"epsilon {rounded_up(found.epsilon_of_labels, 4)}, as these votes are",
            "With report": f"epsilon {rounded_up(found.epsilon_with_report, 4)}, as these votes are",
            "Any votes": f"epsilon {rounded_up(asked.guarantee(delta).epsilon, 4)}, the price of the answers",
        }
    )
    say(found.statement)
    _warn_of_seed(found.seeded)


def _warn_of_seed(seeded: bool) -> None:
    if seeded:
        say("NOT PRIVATE, DO NOT PUBLISH: the noise came from a seed.", style="bold red")


def _new_files(out: Path) -> Path:
    """The record that goes beside the answers, where both are new."""
    if out.suffix.lower() != ".csv":
        raise ArgumentError(f"--out must end in .csv; got '{out.name}'. Name it so.")
    record = out.with_suffix(".json")
    for file in (out, record):
        require_new(file)
    return record


def _csv(found: VoteAnswers, names: tuple[str | int, ...]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("question", "label"))
    pairs = zip(found.positions.tolist(), found.labels.tolist(), strict=True)
    writer.writerows((question, names[label]) for question, label in pairs)
    return text.getvalue()


def _write(out: Path, rows: str, record: Path, told: dict[str, Any]) -> None:
    from dptransfer.data.atomic_files import write_whole

    write_whole(record, json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False).encode())
    write_whole(out, rows.encode())
