"""`dptransfer encode`: images or texts to embeddings."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dptransfer.cli import options
from dptransfer.cli.option_groups import expand_groups
from dptransfer.cli.options import class_list, grey_ends
from dptransfer.cli.screen import say, show_facts, show_json
from dptransfer.encoders.encoding import (
    BREAKS_OFF,
    GREYS,
    NOBODY,
    encode_to,
    examples_in,
    note_problems,
    refuse_problems,
)
from dptransfer.errors import ArgumentError

_ALLOW = "pass --allow-unreadable to count each as a row of zeros."


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
        str, typer.Option("--row-type", metavar="float32|float16", help="Numbers of the rows on disk.")
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
    """Turn images or texts into embeddings, by default with efficientnet-lite0.

    Only rows that were encoded with --public are taken for a public pool. Pictures and texts that your ledger
    has on record as private are refused there.

    After a kill, run it again: it goes on where it stopped. With --engine each worker has a share of the
    cores, or a GPU: with --device cuda there is one worker for each.

    Example: dptransfer encode photos/ --encoder efficientnet-lite0 --out photos.emb
    """
    declared = None if classes is None else class_list(classes)
    if source.suffix == ".emb":
        raise ArgumentError(
            f"'encode' takes images or texts; '{source}' holds rows already. Pass it to 'dptransfer fit'."
        )
    if public and person not in (None, NOBODY):
        raise ArgumentError("--person is for private data and --public for public data. Leave one out.")
    if row_type not in ("float32", "float16"):
        raise ArgumentError(f"--row-type must be float32 or float16; got '{row_type}'. Choose one of them.")
    hands = workers.start(device)

    from dptransfer.api.source import Reading
    from dptransfer.base.workers import Here
    from dptransfer.data import Columns
    from dptransfer.ledger import Ledger
    from dptransfer.sources import ImageList
    from dptransfer.sources.decode import problem_of

    greys = grey_ends(grey_range)
    model = Reading(encoder, image_size, greys, device, runtime).load("images")
    columns = Columns(path_column, text_column, label_column, person=person)
    found = examples_in(source, model, declared, columns)
    if public and (ledger := Ledger.default_if_there()) is not None:
        ledger.require_unrelated(found)
    strict = not (public or allow_unreadable)
    refuse = partial(refuse_problems, beside=out, remedy=f"Repair or remove them, {GREYS}, or {_ALLOW}")
    how: dict[str, Any] = {"public": public, "batch": batch, "name": name, "overwrite": overwrite}
    how |= {"dtype": row_type, "shard_rows": shard_rows}
    how |= {"workers": None if isinstance(hands, Here) else hands}
    report = encode_to(out, found, model, refuse=refuse if strict else None, **how)
    if strict:
        kept = f"'{out}' was written with a row of zeros for each; encode again without them, or {_ALLOW}"
        refuse_problems(report.unreadable, out, remedy=kept)
    problems = None if public else note_problems(report.unreadable, out)
    facts = {
        "written": report.path,
        "rows": report.examples,
        "dimension": model.dimension,
        "classes": "none" if found.classes is None else len(found.classes),
        "people": "none" if found.people is None else "numbered, for their owner alone",
        "encoder": str(model.identity),
        "seconds": round(report.seconds, 1),
        "resumed": report.resumed,
    }
    if as_json:
        names = {"unreadable": list(report.unreadable)} if public else {"problems": problems}
        return show_json({**facts, "encoder": model.identity.to_dict(), **names})
    if found.classes is not None:
        from dptransfer.base.document import name_list

        facts["classes"] = name_list(found.classes)
    show_facts({name.capitalize(): value for name, value in facts.items() if name != "resumed" or value})
    if problems is not None:
        say(
            f"Some images could not be read and became rows of zeros. Their names are in '{problems}'.",
            err=True,
        )
    elif report.unreadable and isinstance(found, ImageList):
        some, first = ", ".join(report.unreadable[:5]), report.unreadable[0]
        why = problem_of(dict(zip(found.sources(), found.paths, strict=True))[first], greys)
        say(f"{len(report.unreadable)} unreadable (left out): {some}. {why or BREAKS_OFF}", err=True)
