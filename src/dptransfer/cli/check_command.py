"""`dptransfer check`: what is wrong with data, for their owner's eyes, before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import dptransfer as dpt
from dptransfer.cli import lib, options
from dptransfer.cli.screen import say, show_document, show_json, show_progress
from dptransfer.errors import ArgumentError

_ABOUT = ("size", "person_bound", "rows_per_person", "split", "labels")


@dataclass(frozen=True)
class EstimateOptions:
    """What is estimated, and where the report goes."""

    forecast: Annotated[bool, Option("--forecast", help="Encode the pool for the accuracies.")] = False
    epsilon: Annotated[str, Option("--epsilon", "-e", help="The ε for which to estimate accuracies.")] = "1,4"
    delta: Annotated[float, Option("--delta", "-d", help="The δ for these ε.")] = 1e-5
    out: Annotated[Path | None, Option("--out", "-o", help="HTML page to write, for you alone.")] = None
    as_json: options.AsJson = False

    def epsilons(self) -> list[float]:
        """The ε of the comma list; whether each is one is checked where it is used."""
        try:
            return [float(part) for part in self.epsilon.split(",")]
        except ValueError:
            found = f"got '{self.epsilon}'. Example: 1,4"
            raise ArgumentError(f"--epsilon takes a number or several; {found}") from None


def check(
    data: Annotated[Path, Argument(help="Private data: images, texts or rows, as for 'fit'.")],
    examples: options.PrivateExamples,
    runtime: options.RuntimeOptions,
    workers: options.WorkerOptions,
    report: EstimateOptions,
    public: Annotated[Path | None, options.data(help="The public pool.")] = None,
    test: Annotated[Path | None, options.data(help="Labelled test examples.")] = None,
    settings: options.DataAssignments = None,
) -> None:
    """Look for problems in the data before you spend any budget (owner only).

    The report is as private as the data. The command charges nothing, opens no ledger and writes only --out.
    The exit code is 0 whatever the report says, because exit codes end up in logs; it is 2 only if the data
    cannot be read at all.

    Fields of --set data.FIELD=VALUE: size and rows_per_person (declared public, for the accuracies);
    person_bound; split and labels (of the private file).

    Example: dptransfer check photos/ --public pool/ --test test/ --out report.html
    """
    hands, out = workers.start(), report.out
    options.note_if_idle(hands, public_rows=public is not None)
    private, pool, tested = sources_of(data, examples, runtime, public, test, settings)
    if out is not None:  # after mistakes in options, and before minutes of work
        options.require_new(out)
    with show_progress("Checking"):
        how: dict[str, Any] = {"epsilons": report.epsilons(), "delta": report.delta, "workers": hands}
        found = dpt.check(private, pool, tested, encode_pool=report.forecast, **how)
    document = found.document()
    if out is not None:
        page = found.document(pictures=True).html().encode()
        lib.write_whole(out, page, opener=lib.owner_only)  # nobody else's from its first byte on
    if report.as_json:
        return show_json(document.to_dict())
    show_document(document)
    if out is not None:
        say(f"Written: {out}")


def sources_of(
    data: Path,
    examples: options.PrivateExamples,
    runtime: options.RuntimeOptions,
    public: Path | None = None,
    test: Path | None = None,
    settings: list[str] | None = None,
) -> tuple[dpt.Source, dpt.Source | None, dpt.Source | None]:
    """The private examples, the pool and the test that the options name; each is there."""
    about = options.data_settings(settings, _ABOUT)
    private = examples.source(data, about, runtime.device, runtime.runtime, name=None)
    columns = examples.columns.columns()
    pool, tested = (None if path is None else dpt.Source(path, columns=columns) for path in (public, test))
    for source in (private, pool, tested):
        if source is not None:
            source.require_there()
    return private, pool, tested
