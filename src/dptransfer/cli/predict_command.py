"""`dptransfer predict`: labels for new images, texts or rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

from typer import Argument, Option, echo

import dptransfer as dpt
from dptransfer.cli import lib, options
from dptransfer.cli.screen import on_terminal, progress_bar, say, show_json, show_progress, show_table
from dptransfer.errors import ArgumentError

Found: TypeAlias = "lib.ImageList | lib.TextList"
Answers: TypeAlias = "Sequence[lib.Answer]"


class NamedRows(NamedTuple):
    """What is predicted on.

    Attributes:
        names: what answers call each input.
        rows: of the model's encoder.
        groups: the lists that they come from; files that were unpacked go with them.
    """

    names: list[str]
    rows: lib.AnyArray
    groups: Sequence[Found] = ()

    @property
    def files(self) -> list[Path]:
        """Of each input, where all are pictures."""
        lists = [one.paths for one in self.groups if isinstance(one, lib.ImageList)]
        return [path for paths in lists for path in paths] if len(lists) == len(self.groups) else []


FORMS = (".csv", ".json", ".jsonl", ".ndjson")
"""Endings of a file of answers."""


@dataclass(frozen=True)
class QuestionOptions:
    """What is asked about each input."""

    top: Annotated[int, Option(min=1, help="Classes per input, likeliest first.")] = 1
    coverage: Annotated[float | None, Option(help="Sets with the true class this often, such as 0.9.")] = None
    confidence: Annotated[float, Option(help="Confidence with which --coverage holds.")] = 0.95
    abstain_above: Annotated[int | None, Option(min=1, help="No label for a set of more classes.")] = None

    def __post_init__(self) -> None:
        if self.coverage is None and self.abstain_above is not None:
            raise ArgumentError("--abstain-above counts the classes of a set; pass --coverage 0.9 too.")
        if self.coverage is not None and self.top > 1:
            raise ArgumentError("--coverage lists the classes of an input itself; leave out --top.")


@dataclass(frozen=True)
class AnswerOptions:
    """Where the answers go, and who finds them."""

    workers: options.WorkerOptions
    out: Annotated[Path | None, Option("--out", "-o", help="A .csv, .json, .jsonl, or a folder.")] = None
    report: Annotated[Path | None, Option(help="HTML page: counts, sure and unsure examples.")] = None
    shard_rows: options.ShardRows = None
    batch: options.Batch = 8
    as_csv: Annotated[bool, Option("--csv", help="Print CSV, as when piped.")] = False
    as_json: options.AsJson = False

    @property
    def in_parts(self) -> bool:
        """Whether answers about one pool go to a folder of parts."""
        return any(one is not None for one in (self.shard_rows, self.workers.engine, self.workers.workers))


def predict(
    model: options.Release,
    inputs: Annotated[list[Path], Argument(help="Images, a folder, a text or CSV file, or rows.")],
    tables: options.ColumnOptions,
    asked: QuestionOptions,
    answers: AnswerOptions,
    encoder: options.ModelEncoder,
) -> None:
    """Label new images, texts or rows.

    Images and texts are encoded with the encoder that the release names. Scores are probabilities; they are
    calibrated if the release has a charged evaluation, which --coverage needs. With --shard-rows or --engine,
    predictions for one pool go to a folder of parts; if the command is killed, run it again to resume.

    Example: dptransfer predict model/ new/*.jpg --top 3
    """
    columns, out = tables.columns(), answers.out
    if out is not None:
        lib.finish_placing(out)  # where a run in parts was killed at its very end
        if not answers.in_parts and out.suffix.lower() not in FORMS:
            raise ArgumentError(f"--out must end in .csv, .json or .jsonl; got '{out.name}'. Name it so.")
    answers.workers.start(encoder.device)  # raises where they cannot be started

    import numpy as np

    released = dpt.load(model)
    sets: lib.PredictionSets | None = None
    if asked.coverage is not None:  # what can be refused is refused before anything is encoded
        nothing = np.zeros((0, released.dimension))
        sets = released.predict_sets(nothing, coverage=asked.coverage, confidence=asked.confidence)
        _require_smaller_sets(released, sets, asked.abstain_above)
    for path in inputs:
        dpt.Source(path).require_there()  # a missing file is an error before the encoder is loaded
    for file in (out, answers.report):
        if file is not None:  # after all other mistakes, and before minutes of encoding
            options.require_new(file)
    question = lib.Question(**vars(asked), device=encoder.scoring_device)
    if answers.in_parts:
        _predict_in_parts(model, released, inputs, columns, encoder, question, answers)
        return _say_promise(released, sets, asked.abstain_above)
    given = _rows(released, inputs, columns, answers.batch, encoder)
    found, sets = question.answers(released, given.names, given.rows)
    if answers.report is not None:
        _write_report(answers.report, released, inputs, found, given.files)
    if out is not None:
        lib.write_whole(out, lib.format_answers(found, out.suffix.lower()).encode())
        say(f"Written: {out}, {len(given.names)} inputs", err=True)
    elif answers.as_json:
        show_json(found)
    elif answers.as_csv or not on_terminal():
        echo(lib.answers_as_csv(found), nl=False)
    else:
        _show(found)
    _say_promise(released, sets if given.names else None, asked.abstain_above)


def _write_report(
    report: Path, released: dpt.PrivateClassifier, inputs: Sequence[Path], found: Answers, files: list[Path]
) -> None:
    """Write the page, for its owner alone: it shows inputs."""
    source = inputs[0].name if len(inputs) == 1 else f"{len(inputs)} files and folders"
    inside = f"{inputs[0]}/" if len(inputs) == 1 else ""
    first = [one for one in found if one.get("rank", 1) == 1]
    likeliest = [{**one, "input": one["input"].removeprefix(inside)} for one in first]
    greys = None if released.encoder is None else released.encoder.grey_range
    thumbnails = (lambda places: lib.thumbnails([files[place] for place in places], greys)) if files else None
    page = lib.prediction_report(released, source, likeliest, thumbnails).html()
    lib.write_whole(report, page.encode(), opener=lib.owner_only)
    say(f"Written: {report}", err=True)


def _predict_in_parts(
    model: Path,
    released: dpt.PrivateClassifier,
    inputs: Sequence[Path],
    columns: lib.Columns,
    encoder: options.ModelEncoder,
    question: lib.Question,
    answers: AnswerOptions,
) -> None:
    """Write a folder of answers about one pool, or go on with what an earlier run has left."""
    out = answers.out
    if len(inputs) > 1 or out is None or out.suffix.lower() in FORMS:
        raise ArgumentError(
            "--shard-rows and --engine predict one pool into a folder of parts; "
            f"got {len(inputs)} inputs and --out {out}. Example: --out answers/"
        )
    if answers.report is not None:
        raise ArgumentError("--report is of answers in one file; these go to a folder. Leave it out.")
    (path,), workers = inputs, answers.workers.start(encoder.device)
    rows: lib.AnyArray | lib.ShardedRows
    names: Sequence[str] | None
    with ExitStack() as kept:
        if lib.contents_of(path, columns) == "rows":
            table = lib.table_for(released, path, columns)
            rows, names = table.rows, table.sources
            files = sorted(path.rglob("*")) if path.is_dir() else [path]
        else:
            loaded = encoder.load(released)
            examples = lib.examples_in(path, loaded, columns, labelled=False)
            rows = kept.enter_context(encoded_in_files(examples, loaded, out, answers, workers))
            names, files = _names(examples, path), list(rows.files)
        # What is there is gone on with if the model and the rows in these files are the same.
        states = [[str(one), one.stat().st_size, one.stat().st_mtime_ns] for one in files if one.is_file()]
        request = {"model": lib.release_digest(model), "rows": states}
        ending = ".jsonl" if answers.as_json else ".csv"
        work = lib.PredictPart(released, question, rows, out, str(path), ending)
        each = answers.shard_rows
        with show_progress("Predicting"):
            parts = lib.predict_in_shards(work, request, names=names, shard_rows=each, workers=workers)
        say(f"Written: {out}, {len(rows)} inputs in {parts} parts", err=True)


@contextmanager
def encoded_in_files(
    found: Found, encoder: dpt.encoders.Encoder, out: Path, answers: AnswerOptions, workers: lib.Workers
) -> Iterator[lib.ShardedRows]:
    """Rows of more examples than memory holds, in files of `shard_rows`, until the block is done.

    They are the owner's alone, in `<out>.rows.partial`. After a kill, or an error in the block, they stay,
    and the same call goes on with them.
    """
    if isinstance(found, lib.ImageList):
        lib.refuse_public(lib.unrecognised_images(found, encoder.identity.grey_range))
    place = out.with_name(f"{out.name}.rows")
    with lib.claim(place):
        with progress_bar("Encoding") as step:
            how = dpt.encoders.EncodeOptions(
                batch=answers.batch, shard_rows=answers.shard_rows, workers=workers
            )
            shards = lib.encode_in_shards(place, found, encoder, how, step)
        missing = [number for shard in shards for number in shard.unreadable]
        if missing and isinstance(found, lib.ImageList):  # and rows of the others are of another request
            lib.remove_draft(place)
            lib.refuse_public({found.names()[number]: lib.BREAKS_OFF for number in missing})
        yield lib.ShardedRows([shard.file for shard in shards])
        lib.remove_draft(place)


def _require_smaller_sets(
    released: dpt.PrivateClassifier, sets: lib.PredictionSets, abstain_above: int | None
) -> None:
    """Say, or raise where no input would get a label, if every set must hold every class."""
    if sets.informative or released.charged is None:
        return
    found = f"At --coverage {sets.coverage:g} every set holds every class: the release has too few test rows "
    found += "for its noise, or too many errors."
    other = lib.coverage_after_looking(released.charged.counts, sets.coverage, sets.confidence)
    remedy = "Fit with a larger hold-out, or evaluate on more private rows or with a larger budget."
    if other is not None:
        remedy = f"Try --coverage {other[0]:g} --confidence {other[1]:g}. {remedy}"
    if abstain_above is not None and abstain_above < len(sets.classes):
        raise ArgumentError(f"--abstain-above {abstain_above} would give no input a label. {found} {remedy}")
    say(f"Note: {found} {remedy}", err=True)


def _say_promise(
    released: dpt.PrivateClassifier, sets: lib.PredictionSets | None, abstain_above: int | None
) -> None:
    """What the answers promise, and how large sets are; on standard error, beside the answers."""
    if sets is not None:
        told = f"Sets: hold the true class at least {sets.coverage:.4g} of the time, with confidence "
        told += f"{sets.confidence:.4g}"
        if len(sets):
            told += f"; average size {sets.average_size:.2f} of {len(sets.classes)} classes"
        silent = None if abstain_above is None or not len(sets) else sets.abstains(abstain_above)
        if silent is not None:
            told += f"; no label for {int(silent.sum())} of {len(sets)} inputs"
        say(f"{told}.", err=True)
        if silent is not None and silent.all():
            half = sorted(sets.sizes.tolist())[(len(sets) - 1) // 2]
            note = f"half of the sets have at most {half} classes: --abstain-above {half} labels them."
            say(f"Note: {note}", err=True)
    if released.calibration is not None:
        say(f"Scores: {released.calibration.words}.", err=True)


def _show(found: Answers) -> None:
    """A table for people."""
    with_sets = any("set" in one for one in found)
    cells = []
    for one in found:
        name = "" if one.get("rank", 1) > 1 else one["input"]
        label = "-" if one["label"] is None else one["label"]
        sets = [", ".join(map(str, one["set"]))] if with_sets else []
        cells.append((name, label, f"{one['score']:.3f}", *sets))
    show_table(("Input", "Label", "Score", *["Set"] * with_sets), cells, numbers=(2,))


def _rows(
    released: dpt.PrivateClassifier,
    inputs: Sequence[Path],
    columns: lib.Columns,
    batch: int,
    encoder: options.ModelEncoder,
) -> NamedRows:
    """Names and rows of all inputs, in order; images and texts are encoded as the release records."""
    import numpy as np

    tables = [lib.contents_of(path, columns) == "rows" for path in inputs]
    if any(tables) and not all(tables):
        raise ArgumentError("Inputs must be all rows or all images; these are mixed. Predict each by itself.")
    parts: list[NamedRows] = []
    if all(tables):
        for path, table in ((path, lib.table_for(released, path, columns)) for path in inputs):
            names = table.sources or tuple(f"{path}:{number}" for number in range(len(table.rows)))
            parts.append(NamedRows(list(names), table.rows))
    else:
        loaded = encoder.load(released)
        found: Sequence[Found]
        if all(path.is_file() and path.suffix.lower() in lib.IMAGE_ENDINGS for path in inputs):
            found = [lib.find_images(inputs)]  # together, so that they share batches
        else:
            found = [lib.examples_in(path, loaded, columns, labelled=False) for path in inputs]
        groups = zip(inputs, found, strict=False)
        for path, group in groups:
            rows = lib.encoded_here(group, loaded, batch)
            parts.append(NamedRows(_names(group, path), rows, [group]))
    if len(parts) == 1:
        return parts[0]
    every = [name for part in parts for name in part.names]
    lists = [group for part in parts for group in part.groups]
    return NamedRows(every, np.concatenate([part.rows[:] for part in parts]), lists)


def _names(group: Found, path: Path) -> list[str]:
    """What answers call texts and pictures; unpacked ones are called by where they came from."""
    if isinstance(group, lib.TextList):
        return list(group.texts)
    inside = "" if group.held is None else f"{path}/"
    return [f"{inside}{name}" for name in group.names()]
