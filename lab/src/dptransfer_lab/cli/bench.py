"""`dptransfer bench`: sweeps over data sets, budgets, methods and seeds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from dptransfer.cli.options import AsJson, Overwrite, PublicPool
from dptransfer.cli.screen import console, say, show_json, show_table
from dptransfer.errors import ArgumentError, DataError
from dptransfer_lab.cli import report

app = typer.Typer(no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Compare methods over budgets, data sets and seeds; every sweep can be resumed.

    Example: dptransfer bench run demo --workers 2
    """


@app.command()
def new(
    file: Annotated[Path, typer.Argument(help="The TOML file to write.")],
    start: Annotated[str | None, typer.Option("--from", help="Copy a built-in study instead.")] = None,
    data: Annotated[Path | None, typer.Option("--data", help="Your labelled rows (.emb, .npz, ...).")] = None,
    public: PublicPool = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a commented study to start from: on the demo data, or on yours.

    Example: dptransfer bench new sweep.toml
    """
    from dptransfer_lab.catalogue import starting_point, text_of
    from dptransfer_lab.study import parse_study

    if file.suffix != ".toml":
        raise ArgumentError(f"A study's name must end in .toml; got '{file}'. Rename it.")
    if file.exists() and not overwrite:
        raise DataError(f"'{file}' exists already. Pass --overwrite to replace it, or choose another name.")
    if start is not None and (data is not None or public is not None):
        raise ArgumentError("--from copies a study with its own data; leave out --data and --public.")
    if public is not None and data is None:
        raise ArgumentError("--public needs --data, the rows it is a pool for. Pass both, or neither.")
    text = text_of(start) if start is not None else starting_point(file, data, public)
    study = parse_study(text)
    file.write_text(text, encoding="utf-8")
    say(f"Wrote '{file}', the study '{study.name}'. Next: dptransfer bench run {file} --out {file.stem}/")


@app.command()
def run(
    study: Annotated[str, typer.Argument(help="A TOML file, or the name of a built-in study.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Results folder; default the study's name.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", "-w", min=1, help="Cells side by side.")] = 1,
    engine: Annotated[str, typer.Option("--engine", help="processes, or ray for a cluster.")] = "processes",
    address: Annotated[
        str | None, typer.Option("--address", help="Of a Ray cluster; default a local one.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Where data files are; default $DPTRANSFER_DATA.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed cells again.")] = False,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out data sets that are not there, and say so.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a study; what is finished is kept, and the same command goes on where it stopped.

    Example: dptransfer bench run sweep.toml --out sweep/ --workers 2
    """
    from dptransfer_lab.catalogue import find_study
    from dptransfer_lab.cli.view import show_tally, tally_json
    from dptransfer_lab.progress import ProgressView
    from dptransfer_lab.run import run_study

    found, home = find_study(study)
    folder = Path(found.name) if out is None else out
    given = data or (Path(os.environ["DPTRANSFER_DATA"]) if os.environ.get("DPTRANSFER_DATA") else None)
    try:
        with ProgressView(console(err=True)) as view:
            tally = run_study(
                found,
                folder,
                folders=[home, *([given] if given else [])],
                workers=workers,
                engine=engine,
                address=address,
                retry_failed=retry_failed,
                skip_missing=skip_missing,
                watcher=view,
            )
    except KeyboardInterrupt:
        say(f"Interrupted. What is finished is in '{folder}'; run the same command to go on.", err=True)
        raise typer.Exit(130) from None
    if as_json:
        show_json(tally_json(tally, folder))
    else:
        show_tally(tally, folder)


app.command()(report.report)


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="A results folder.")],
    second: Annotated[Path, typer.Argument(help="Another.")],
    metric: Annotated[str, typer.Option("--metric", help="What to compare.")] = "balanced_accuracy",
    level: Annotated[float, typer.Option("--level", help="Chance of one false alarm in all.")] = 0.05,
    as_json: AsJson = False,
) -> None:
    """Say which cells of two runs differ by more than their noise.

    Example: dptransfer bench compare old/ new/
    """
    from dataclasses import asdict

    from dptransfer_lab.cli.view import show_comparison
    from dptransfer_lab.compare import compare_runs
    from dptransfer_lab.results import read_results

    found = compare_runs(read_results(first), read_results(second), metric=metric, level=level)
    if as_json:
        show_json(asdict(found))
    else:
        show_comparison(found, str(first), str(second))


@app.command(name="list")
def list_studies(as_json: AsJson = False) -> None:
    """List the built-in studies.

    Example: dptransfer bench list
    """
    from dptransfer_lab.catalogue import built_in
    from dptransfer_lab.study import parse_study

    studies = {name: parse_study(text, where=f"the study '{name}'") for name, text in built_in().items()}
    if as_json:
        show_json([{"name": name, "title": one.title, "about": one.about} for name, one in studies.items()])
        return
    show_table(("Study", "What it shows"), [(name, one.title) for name, one in studies.items()])
    say("Run one with: dptransfer bench run NAME. Copy one with: dptransfer bench new my.toml --from NAME")


app.command()(report.explore)
