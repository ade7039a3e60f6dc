"""`dptransfer bench`: run studies, compare runs, write reports, and predict accuracy from public rows."""

from __future__ import annotations

from collections.abc import Sequence
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dptransfer.cli.options import AsJson, Overwrite, PublicPool
from dptransfer.cli.screen import console, progress_bar, say, show_json, show_table
from dptransfer.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from dptransfer.data import PublicEmbeddings


app = typer.Typer(no_args_is_help=True)
DataFolder = Annotated[Path | None, typer.Option(envvar="DPTRANSFER_DATA", help="Where data files are.")]


@app.callback()
def bench() -> None:
    """Compare methods over budgets, data sets and seeds; every sweep can be resumed.

    Example: dptransfer bench run demo --workers 2
    """


@app.command()
def new(
    file: Annotated[Path, typer.Argument(help="The TOML file to write.")],
    start: Annotated[str | None, typer.Option("--from", help="Copy a built-in study instead.")] = None,
    data: Annotated[Path | None, typer.Option(help="Your labelled rows (.emb, .npz, ...).")] = None,
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
    engine: Annotated[str, typer.Option(help="processes, or ray for a cluster.")] = "processes",
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; default a local one.")] = None,
    data: DataFolder = None,
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
    from dptransfer_lab.cli.view import ProgressView, show_tally, tally_json
    from dptransfer_lab.run import run_study

    found, home = find_study(study)
    folder = Path(found.name) if out is None else out
    try:
        with ProgressView(console(err=True)) as view:
            tally = run_study(
                found,
                folder,
                folders=[home, *([data] if data else [])],
                workers=workers,
                engine=engine,
                address=address,
                retry_failed=retry_failed,
                skip_missing=skip_missing,
                watcher=view,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Interrupted. What is finished is in '{folder}'; run the same command to go on."
        ) from None
    if as_json:
        show_json(tally_json(tally, folder))
    else:
        show_tally(tally, folder)


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="A results folder.")],
    second: Annotated[Path, typer.Argument(help="Another.")],
    metric: Annotated[str, typer.Option(help="What to compare.")] = "balanced_accuracy",
    level: Annotated[float, typer.Option(help="Chance of one false alarm in all.")] = 0.05,
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


@app.command(name="long-tail")
def cut_long_tail(
    file: Annotated[Path, typer.Argument(help="Labelled rows (.emb, .npz, ...), for benchmarks alone.")],
    ratio: Annotated[list[float], typer.Option(help="Largest class over smallest; may be repeated.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="An .npz of the rows at the last ratio.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Which class is where in the tail, and which rows are drawn.")
    ] = 0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Show class sizes of exponential long tails of a file, and write one of them.

    Example: dptransfer bench long-tail cifar10.npz --ratio 1 --ratio 50 --out cifar10-50.npz
    """
    import numpy as np

    from dptransfer_lab.long_tail import long_tail
    from dptransfer_lab.sources import part_of

    if out is not None and out.exists() and not overwrite:
        raise DataError(f"'{out}' exists already. Pass --overwrite to replace it, or choose another name.")
    whole = part_of(file, "train", private_too=True)
    if whole.labels is None or whole.classes is None:
        raise DataError(f"A long tail needs labels; '{file}' has none. Name labelled rows.")
    lines, kept = [], np.arange(0)
    for one in ratio:
        kept = long_tail(whole.labels, one, rng=np.random.default_rng(seed), classes=whole.classes)
        sizes = np.bincount(whole.labels[kept], minlength=len(whole.classes))
        numbers = (len(kept), int(sizes.max()), float(np.median(sizes)), int(sizes.min()))
        lines.append(
            dict(zip(("ratio", "rows", "largest", "median", "smallest"), (one, *numbers), strict=True))
        )
    if out is not None:
        names = np.array(whole.classes)[whole.labels[kept]]
        np.savez(out, embeddings=whole.rows[kept], labels=names)
    if as_json:
        return show_json(lines)
    shown = [tuple(f"{value:g}" for value in line.values()) for line in lines]
    show_table(("Ratio", "Rows", "Largest class", "Median", "Smallest"), shown, numbers=range(5))


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A results folder.")],
    study: Annotated[str | None, typer.Option(help="One of its studies; default all.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to; default the folder.")] = None,
    data: DataFolder = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Write PDF figures and LaTeX tables too, to paper/.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write report.html and report.md: who won, tables, figures, claims, and how to run it again.

    Example: dptransfer bench report sweep/
    """
    from dptransfer_lab.report import write_report

    with progress_bar("Drawing figures"):
        written = write_report(folder, study=study, out=out, data=data, paper=paper)
    if as_json:
        show_json({"reports": [str(path) for path in written]})
    else:
        say(f"Wrote {_named(written)}.")


@app.command()
def explore(
    public: PublicPool = None,
    sample: Annotated[Path | None, typer.Option(help="Labelled PUBLIC rows of your own task.")] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes.")] = None,
    rows: Annotated[int, typer.Option("--rows", "-n", help="Number of private rows.")] = 5000,
    imbalance: Annotated[float, typer.Option(help="Largest class over smallest.")] = 1.0,
    people: Annotated[int | None, typer.Option(help="Number of people; protects them, not rows.")] = None,
    person_bound: Annotated[float, typer.Option(help="Examples that a person counts as, at most.")] = 1.0,
    dimension: Annotated[
        int | None, typer.Option("--dim", help="Width of the rows; default that of the public ones.")
    ] = None,
    epsilons: Annotated[str, typer.Option(help="Where on the curve.")] = "0.1,0.3,1,3,10",
    delta: Annotated[float, typer.Option("--delta", "-d", help="δ; 1e-5 if not given.")] = 1e-5,
    methods: Annotated[str, typer.Option(help="Which methods.")] = "public-prior,mean,public",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the figure.")] = None,
    as_json: AsJson = False,
) -> None:
    """Predict accuracy against ε for your sizes from public rows alone; no private row is read.

    --public demo stands for the demo's glyphs, to see what comes out.

    With --people 2000 the rows are of so many people, each protected with all their rows.

    Example: dptransfer bench explore --public pool.emb --classes 20 --rows 8000 --imbalance 10
    """
    from dptransfer.methods.configuration import named_method
    from dptransfer.privacy import Budget
    from dptransfer_lab.explore import Sizes
    from dptransfer_lab.explore import explore as predict
    from dptransfer_lab.figures.curves import predicted_curve

    if public is None and sample is None:
        raise ArgumentError(
            "A prediction needs public rows; pass --public POOL, or --sample LABELLED, or both."
        )
    labelled = None if sample is None else _public(sample, dimension)
    pool = _public(public, dimension) if public is not None else labelled
    assert pool is not None
    if classes is None:
        if labelled is None or labelled.classes is None:
            raise ArgumentError("A prediction needs the number of classes. Example: --classes 10")
        classes = len(labelled.classes)
    budgets = [Budget(epsilon=value, delta=delta) for value in _numbers(epsilons)]
    chosen = [named_method(name.strip(), {}) for name in methods.split(",")]
    sizes = Sizes(classes, rows, imbalance, people, person_bound)
    with progress_bar("Simulating"):
        outlook = predict(pool, sizes, budgets, chosen, sample=labelled)
        fitted = outlook.predictions["accuracy"].notna().any()
        files = predicted_curve(outlook).save(out) if out is not None and fitted else []
    found = outlook.summary().rename(columns={"at_epsilon": "epsilon"})
    if as_json:
        lines = loads(found.to_json(orient="records"))
        shown_files = [str(file) for file in files]
        show_json({"prediction": lines, "unit": sizes.unit.value, "how": outlook.how, "files": shown_files})
        return
    names = ("lowest", "mean", "highest")
    shown = [
        (
            line["method"],
            f"{line['epsilon']:.3g}",
            *(f"{line[name]:.1%}" if line["tasks"] else "–" for name in names),
        )
        for line in found.to_dict("records")
    ]
    axis = "ε per example" if people is None else "ε per person"
    show_table(("Method", axis, *names), shown, numbers=(1, 2, 3, 4))
    refused = found.dropna(subset="refusal").drop_duplicates(["method", "refusal"])
    for name, refusal in zip(refused["method"], refused["refusal"], strict=True):
        say(f"'{name}' cannot be fitted: {refusal}")
    say()
    say(f"PREDICTION. {outlook.how}")
    if files:
        say(f"Wrote {_named(files)}.")


def _public(path: Path, width: int | None) -> PublicEmbeddings:
    """The training rows of a file that has splits, all rows of one that has none, or the demo's glyphs."""
    from dptransfer.data import PublicEmbeddings
    from dptransfer_lab.demo.digits import demo_glyphs
    from dptransfer_lab.sources import DEMO, part_of

    found = demo_glyphs() if str(path) == DEMO and not path.exists() else part_of(path, "train")
    if width is None or width == found.dimension:
        return found
    if width > found.dimension:
        raise ArgumentError(f"--dim must be at most the public rows' width, {found.dimension}; got {width}.")
    return PublicEmbeddings(found.rows[:, :width], found.labels, classes=found.classes, name=found.name)


def _named(files: Sequence[Path]) -> str:
    return " and ".join(f"'{file}'" for file in files)


def _numbers(text: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(f"--epsilons must be numbers with commas between them; got '{text}'.") from None
    return sorted(set(values))
