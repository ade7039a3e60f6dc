"""`dptransfer encode`: images or texts to embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.option_groups import expand_groups
from dptransfer.cli.options import class_list, grey_ends
from dptransfer.cli.screen import say, show_facts, show_json


@expand_groups
def encode(
    source: Annotated[
        Path,
        typer.Argument(help="Images: a folder, .zip, .tar, .parquet; or texts: .csv, .parquet, .txt."),
    ],
    workers: options.WorkerOptions,
    out: Annotated[Path, typer.Option("--out", "-o", help="The .emb folder to write.")],
    encoder: options.EncoderName = None,
    image_size: options.ImageSize = None,
    grey_range: options.GreyRange = None,
    label_column: options.LabelColumn = None,
    text_column: options.TextColumn = None,
    path_column: options.PathColumn = None,
    device: options.Device = "cpu",
    runtime: options.Runtime = None,
    batch: options.Batch = 32,
    shard_rows: options.ShardRows = None,
    row_type: Annotated[
        str,
        typer.Option("--row-type", metavar="float32|float16|float64", help="Numbers of the rows on disk."),
    ] = "float32",
    classes: options.Classes = None,
    person: options.Person = None,
    name: options.DataSetName = None,
    public: Annotated[
        bool,
        typer.Option("--public", help="Nobody's data, for a public pool; unreadable images are left out."),
    ] = False,
    allow_unreadable: Annotated[
        bool, typer.Option("--allow-unreadable", help="Write a row of zeros for each unreadable image.")
    ] = False,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Turn images or texts into embeddings, by default with efficientnet-lite0 or minilm.

    Only rows that were encoded with --public are taken for a public pool. Pictures and texts that your ledger
    has on record as private are refused there.

    After a kill, run it again: it goes on where it stopped. With --engine each worker has a share of the
    cores, or a GPU: with --device cuda there is one worker for each.

    Example: dptransfer encode photos/ --encoder efficientnet-lite0 --out photos.emb
    """
    from dptransfer.api.requests import encode as encode_source
    from dptransfer.api.source import Reading, Source
    from dptransfer.base.document import name_list
    from dptransfer.base.workers import ThisProcess
    from dptransfer.data import Columns
    from dptransfer.encoders import EncodeOptions
    from dptransfer.encoders.encoding import note_problems

    greys = grey_ends(grey_range)
    read = Source(
        source,
        classes=None if classes is None else class_list(classes),
        name=name,
        columns=Columns(path_column, text_column, label_column, person=person),
        reading=Reading(encoder, image_size, greys, device, runtime),
    )
    hands = workers.start(device)
    made = EncodeOptions(
        batch=batch,
        overwrite=overwrite,
        dtype=row_type,  # type: ignore[arg-type]  # checked there
        shard_rows=shard_rows,
        workers=None if isinstance(hands, ThisProcess) else hands,
    )
    report = encode_source(read, out, public=public, allow_unreadable=allow_unreadable, options=made)
    problems = None if public else note_problems(report.unreadable, out)
    facts = {
        "written": report.path,
        "rows": report.examples,
        "dimension": report.dimension,
        "classes": "none" if report.classes is None else len(report.classes),
        "people": "numbered, for their owner alone" if report.has_people else "none",
        "encoder": str(report.encoder),
        "seconds": round(report.seconds, 1),
        "resumed": report.resumed,
    }
    if as_json:
        names = {"unreadable": list(report.unreadable)} if public else {"problems": problems}
        return show_json({**facts, "encoder": report.encoder.to_dict(), **names})
    if report.classes is not None:
        facts["classes"] = name_list(report.classes)
    show_facts({name.capitalize(): value for name, value in facts.items() if name != "resumed" or value})
    if problems is not None:
        say(
            f"Some images could not be read and became rows of zeros. Their names are in '{problems}'.",
            err=True,
        )
    elif report.unreadable:
        some = ", ".join(report.unreadable[:5])
        say(f"{len(report.unreadable)} unreadable (left out): {some}. {report.reason}", err=True)
