"""`dptransfer predict`: labels for new images, texts or rows."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.new_rows import rows_to_predict
from dptransfer.cli.screen import on_terminal, show_json, show_table


def predict(
    model: Annotated[Path, typer.Argument(help="The release directory.", show_default=False)],
    inputs: Annotated[
        list[Path], typer.Argument(help="Images, a folder, a text or CSV file, or rows.", show_default=False)
    ],
    encoder: options.EncoderName = None,
    device: options.Device = "cpu",
    batch: options.Batch = 8,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, as in a pipe.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Label new images, texts or rows.

    Images and texts are encoded with the encoder that the release names.

    Example: dptransfer predict model/ new/*.jpg
    """
    from dptransfer.compute.device import DEVICES
    from dptransfer.release import read_release

    released = read_release(model)
    names, rows = rows_to_predict(released, inputs, encoder, device, batch)
    # Scores know these two devices; an encoder may run on others.
    chances = released.predict_proba(rows, device=device if device in DEVICES else "cpu")
    labels = [released.classes[place] for place in chances.argmax(axis=1).tolist()]
    found = list(zip(names, labels, chances.max(axis=1).tolist(), strict=True))
    if as_json:
        show_json([{"input": name, "label": label, "score": score} for name, label, score in found])
    elif as_csv or not on_terminal():
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("input", "label", "score"))
        writer.writerows((name, label, f"{score:.6f}") for name, label, score in found)
        typer.echo(text.getvalue(), nl=False)
    else:
        rounded = [(name, label, f"{score:.3f}") for name, label, score in found]
        show_table(("Input", "Label", "Score"), rounded, numbers=(2,))
