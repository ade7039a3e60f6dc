"""`dptransfer encode`: images or texts to embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.declared import class_list
from dptransfer.cli.encoding import (
    DEFAULT_ENCODER,
    examples_in,
    progress_bar,
    unrecognised,
)
from dptransfer.cli.problems import note_problems, refuse_problems
from dptransfer.cli.screen import say, show_facts, show_json


def encode(
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder per class, a folder, an image, or a file of texts (.csv, .parquet, .txt).",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .emb folder to write.", show_default=False)],
    encoder: Annotated[
        str,
        typer.Option(
            "--encoder", help="efficientnet-lite0, minilm, hf:ORG/NAME, a model folder, or an .onnx file."
        ),
    ] = DEFAULT_ENCODER,
    size: Annotated[
        int | None, typer.Option("--size", "--image-size", help="Side of the pictures, such as 128.")
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option(
            "--text-column", help="Column of a CSV or Parquet file that holds the texts; default text."
        ),
    ] = None,
    device: options.Device = "cpu",
    batch: options.Batch = 32,
    classes: options.Classes = None,
    name: options.DataSetName = None,
    public: Annotated[
        bool, typer.Option("--public", help="Nobody's data: leave unreadable images out instead of stopping.")
    ] = False,
    allow_unreadable: options.AllowUnreadable = False,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Turn images or texts into embeddings.

    After a kill, run it again: it goes on where it stopped.

    Example: dptransfer encode photos/ --encoder efficientnet-lite0 --out photos.emb
    """
    declared = None if classes is None else class_list(classes)

    from dptransfer.data import ImageList
    from dptransfer.encoders import encode_images, encode_texts, get_encoder

    model = get_encoder(encoder, size=size, device=device)
    found = examples_in(source, model, declared, text_column=text_column)
    strict = not (public or allow_unreadable)
    with progress_bar("encoding") as step:
        if isinstance(found, ImageList):
            if strict:
                refuse_problems(unrecognised(found.paths), out, remedy=f"Repair or remove them, or {_ALLOW}")
            report = encode_images(
                found,
                model,
                out,
                batch=batch,
                progress=step,
                name=name,
                overwrite=overwrite,
                drop_unreadable=public,
                public=public,
            )
        else:
            report = encode_texts(
                found, model, out, batch=batch, progress=step, name=name, overwrite=overwrite, public=public
            )
    if strict:
        kept = f"'{out}' was written with a row of zeros for each; encode again without them, or {_ALLOW}"
        refuse_problems(report.unreadable, out, remedy=kept)
    problems = None if public else note_problems(report.unreadable, out)
    facts = {
        "written": str(report.path),
        "rows": report.examples,
        "dimension": model.dimension,
        "classes": "none" if found.classes is None else len(found.classes),
        "encoder": str(model.identity),
        "seconds": round(report.seconds, 1),
        "resumed": report.resumed,
    }
    if as_json:
        names = (
            {"unreadable": list(report.unreadable)} if public else {"problems": problems and str(problems)}
        )
        show_json({**facts, "encoder": model.identity.to_dict(), **names})
        return
    show_facts({name.capitalize(): value for name, value in facts.items() if name != "resumed" or value})
    if problems is not None:
        say(f"Some images cannot be read and are rows of zeros; their names are in '{problems}'.", err=True)
    elif report.unreadable:
        say(f"{len(report.unreadable)} unreadable (left out): {', '.join(report.unreadable[:5])}", err=True)


_ALLOW = "pass --allow-unreadable to count each as a row of zeros."
