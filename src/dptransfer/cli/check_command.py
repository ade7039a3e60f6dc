"""`dptransfer check`: what is wrong with data, for their owner's eyes, before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dptransfer.base.progress import reported_to
from dptransfer.cli import options
from dptransfer.cli.inputs import require_new
from dptransfer.cli.option_groups import expand_groups
from dptransfer.cli.options import SIZES, class_list, declared_from, note_if_idle, settings_of
from dptransfer.cli.screen import console, on_terminal, progress_bar, say, show_json
from dptransfer.errors import ArgumentError

_ABOUT = {
    **{name: kind for name, kind in SIZES.items() if name != "class_counts"},
    "split": str,
    "labels": Path,
}


@expand_groups
def check(
    data: Annotated[Path, typer.Argument(help="Private data: images, texts or rows, as for 'fit'.")],
    columns: options.ColumnOptions,
    reading: options.ReadingOptions,
    workers: options.WorkerOptions,
    public: Annotated[Path | None, options.data_option(help="The public pool.")] = None,
    test: Annotated[Path | None, options.data_option(help="Labelled test examples.")] = None,
    classes: options.Classes = None,
    person: options.Person = None,
    epsilon: Annotated[
        str, typer.Option("--epsilon", "-e", help="The ε for which to estimate accuracies.")
    ] = "1,4",
    delta: Annotated[float, typer.Option("--delta", "-d", help="The δ for these ε.")] = 1e-5,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="HTML page to write; only you can read it.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="data.FIELD=VALUE", help="Such as data.size=5000.")
    ] = None,
    device: options.Device = "cpu",
    runtime: options.Runtime = None,
    as_json: options.AsJson = False,
) -> None:
    """Look for problems in the data before you spend any budget (owner only).

    The report is as private as the data. The command charges nothing, releases nothing, opens no ledger and
    writes nothing but --out. The exit code is 0 whatever is found, because exit codes end up in logs. Only
    data that cannot be read at all are an error.

    Fields of --set data.FIELD=VALUE: size and rows_per_person (declared public, for the accuracies);
    person_bound; split and labels (of the private file).

    Example: dptransfer check photos/ --public pool/ --test test/ --out report.html
    """
    of_method, about = settings_of(settings, _ABOUT)
    if of_method:
        raise ArgumentError(
            f"--set takes data.FIELD=VALUE here; got '{next(iter(of_method))}'. Leave it out."
        )
    hands = workers.start()
    note_if_idle(hands, public_rows=public is not None)

    from dptransfer.api.checkup import check as look
    from dptransfer.api.source import Source

    private = Source(
        data,
        about.get("labels"),
        None if classes is None else class_list(classes),
        person,
        columns=columns.columns(split=about.get("split")),
        reading=reading.reading(device, runtime),
        declared=declared_from(about),
    )
    others = [None if path is None else Source(path, columns=columns.columns()) for path in (public, test)]
    for source in (private, *others):
        if source is not None:
            _ = source.form  # raises for a type of file that nothing reads
            source.require_there()
    if out is not None:  # after mistakes in options, and before minutes of work
        require_new(out)
    with progress_bar("Checking", count_is_private=True) as step, reported_to(step):
        found = look(private, *others, epsilons=_numbers(epsilon), delta=delta, workers=hands)
    document = found.document()
    if out is not None:
        _write(out, document.html())
    if as_json:
        return show_json(document.to_dict())
    typer.echo(document.text(min(console().width, 100), colour=on_terminal()), nl=False)
    if out is not None:
        say(f"Written: {out}")


def _numbers(text: str) -> list[float]:
    """The ε of a comma list; whether each is one is checked where it is used."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(f"--epsilon takes a number or several; got '{text}'. Example: 1,4") from None


def _write(out: Path, page: str) -> None:
    """A page that nobody else can read, from its first byte on."""
    from dptransfer.data.atomic_files import owner_only, write_whole

    write_whole(out, page.encode(), opener=owner_only)
