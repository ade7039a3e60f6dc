"""`dptransfer predict`: labels for new images, texts or rows."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dptransfer.cli import options
from dptransfer.cli.new_rows import rows_to_predict
from dptransfer.cli.screen import on_terminal, say, show_json, show_table
from dptransfer.errors import ArgumentError

_LINES = (".jsonl", ".ndjson", ".json")


def predict(
    model: Annotated[Path, typer.Argument(help="The release directory.", show_default=False)],
    inputs: Annotated[
        list[Path], typer.Argument(help="Images, a folder, a text or CSV file, or rows.", show_default=False)
    ],
    top: Annotated[int, typer.Option("--top", min=1, help="Classes per input, likeliest first.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A .csv or .jsonl file to write instead.", show_default=False),
    ] = None,
    encoder: options.EncoderName = None,
    device: options.Device = "cpu",
    batch: options.Batch = 8,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, as in a pipe.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Label new images, texts or rows.

    Images and texts are encoded with the encoder that the release names.

    Example: dptransfer predict model/ new/*.jpg --top 3
    """
    _require_new(out)

    from dptransfer.compute.device import DEVICES
    from dptransfer.release import read_release

    released = read_release(model)
    names, rows = rows_to_predict(released, inputs, encoder, device, batch)
    # Scores know these two devices; an encoder may run on others.
    chances = released.predict_proba(rows, device=device if device in DEVICES else "cpu")
    order = (-chances).argsort(axis=1, kind="stable")[:, :top].tolist()
    found = [
        (name, rank, released.classes[place], float(chances[row, place]))
        for row, (name, places) in enumerate(zip(names, order, strict=True))
        for rank, place in enumerate(places, start=1)
    ]
    ranked = top > 1
    if out is not None:
        as_lines = out.suffix.lower() in _LINES
        out.write_text(_json_lines(found, ranked) if as_lines else _csv(found, ranked), encoding="utf-8")
        say(f"Written: {out}, {len(names)} inputs", err=True)
    elif as_json:
        show_json([_fields(one, ranked) for one in found])
    elif as_csv or not on_terminal():
        typer.echo(_csv(found, ranked), nl=False)
    else:
        rounded = [("" if rank > 1 else name, label, f"{score:.3f}") for name, rank, label, score in found]
        show_table(("Input", "Label", "Score"), rounded, numbers=(2,))


_Found = tuple[str, int, str | int, float]


def _require_new(out: Path | None) -> None:
    if out is None:
        return
    if out.suffix.lower() not in (".csv", *_LINES):
        raise ArgumentError(f"--out must end in .csv or .jsonl; got '{out.name}'. Name it so.")
    if out.exists():
        raise ArgumentError(f"--out must name a new file; '{out}' exists. Choose another name.")


def _fields(one: _Found, ranked: bool) -> dict[str, Any]:
    name, rank, label, score = one
    return {"input": name, **({"rank": rank} if ranked else {}), "label": label, "score": score}


def _csv(found: list[_Found], ranked: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("input", *(("rank",) if ranked else ()), "label", "score"))
    for one in found:
        *words, score = _fields(one, ranked).values()
        writer.writerow((*words, f"{score:.6f}"))
    return text.getvalue()


def _json_lines(found: list[_Found], ranked: bool) -> str:
    return "".join(json.dumps(_fields(one, ranked), ensure_ascii=False) + "\n" for one in found)
