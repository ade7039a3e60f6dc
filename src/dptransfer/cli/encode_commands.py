"""`dptransfer encode`: images or texts to embeddings; `dptransfer encoder`: encoders as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

import dptransfer as dpt
from dptransfer.cli import lib, options
from dptransfer.cli.commands import Group
from dptransfer.cli.screen import say, show_result


@dataclass(frozen=True)
class RowOptions:
    """How rows are made and stored, and by whom."""

    workers: options.WorkerOptions
    runtime: options.RuntimeOptions
    batch: options.Batch = 32
    shard_rows: options.ShardRows = None
    row_type: Annotated[str, Option(metavar="float32|float16|float64", help="Type of the rows.")] = "float32"
    overwrite: options.Overwrite = False


def encode(
    source: Annotated[Path, Argument(help="Images (folder, .zip, .tar, .parquet) or texts (.csv, .txt).")],
    out: Annotated[Path, Option("--out", "-o", help="The .emb folder to write.")],
    columns: options.ExampleColumns,
    declared: options.PrivateOptions,
    reading: options.ReadingOptions,
    rows: RowOptions,
    name: options.DataSetName = None,
    public: Annotated[bool, Option("--public", help="Public data; unreadable images are left out.")] = False,
    allow_unreadable: Annotated[
        bool, Option("--allow-unreadable", help="Write a row of zeros for each unreadable image.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Turn images or texts into embeddings, by default with efficientnet-lite0 or minilm.

    Use --public for rows of a public pool; other rows are private. Pictures and texts that your ledger knows
    as private are refused there.

    If the command is killed, run it again to resume. With --engine, each worker gets a share of the cores, or
    one GPU with --device cuda.

    Example: dptransfer encode photos/ --encoder efficientnet-lite0 --out photos.emb
    """
    how_read = reading.reading(rows.runtime.device, rows.runtime.runtime)
    classes, people = declared.class_list, declared.person
    examples = dpt.Source(source, None, classes, people, name, columns.columns(), how_read)
    workers = rows.workers.start(rows.runtime.device)
    those: dict[str, Any] = {name: getattr(rows, name) for name in ("batch", "overwrite", "shard_rows")}
    hands = None if isinstance(workers, lib.ThisProcess) else workers
    how = dpt.encoders.EncodeOptions(**those, dtype=rows.row_type, workers=hands)  # type: ignore[arg-type]
    report = dpt.encode(examples, out, public=public, allow_unreadable=allow_unreadable, options=how)
    problems = None if public else lib.note_problems(report.unreadable, out)
    found = report.classes
    facts = {"written": report.path, "rows": report.examples, "dimension": report.dimension}
    facts["classes"] = "none" if found is None else len(found) if as_json else lib.name_list(found)
    facts["people"] = "numbered, for their owner alone" if report.has_people else "none"
    facts |= {"encoder": report.encoder, "seconds": round(report.seconds, 1)}
    facts |= {"resumed": report.resumed} if as_json or report.resumed else {}
    names = {"unreadable": list(report.unreadable)} if public else {"problems": problems}
    show_result(facts, as_json=as_json, **names)
    if as_json:
        return
    if problems is not None:
        told = "Some images could not be read and became rows of zeros. Their names are in"
        say(f"{told} '{problems}'.", err=True)
    elif report.unreadable:
        some = ", ".join(report.unreadable[:5])
        say(f"{len(report.unreadable)} unreadable (left out): {some}. {report.reason}", err=True)


app = Typer(cls=Group, no_args_is_help=True)


@app.callback()
def encoder() -> None:
    """Write a public encoder into a file that runs faster, and without torch.

    Example: dptransfer encoder export ./vit vit.onnx
    """


@app.command()
def export(
    name: Annotated[str, Argument(help="Such as hf:ORG/NAME, a model folder or efficientnet-lite0.")],
    out: Annotated[Path, Argument(help="The .onnx file to write.")],
    size: options.ImageSize = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Write an image encoder as an ONNX graph, from a picture's bytes to its row.

    The file is written only if its rows agree with the encoder's. Ledgers and releases treat it as another
    encoder: from then on, pass the file as --encoder.

    Example: dptransfer encoder export hf:google/vit-base-patch16-224 vit.onnx
    """
    if not overwrite:
        options.require_new(out)
    written = dpt.encoders.export_encoder(dpt.encoders.get_encoder(name, size=size, kind="image"), out)
    shapes = {"input": "pixels, bytes of (1, height, width, 3)", "output": f"rows (1, {written.dimension})"}
    show_result({"written": out, **shapes, "encoder": str(written.identity)}, as_json=as_json)
