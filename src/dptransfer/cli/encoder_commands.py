"""`dptransfer encoder`: public encoders as files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.commands import Group
from dptransfer.cli.inputs import require_new
from dptransfer.cli.screen import tell

app = typer.Typer(cls=Group, no_args_is_help=True)


@app.callback()
def encoder() -> None:
    """Write a public encoder into a file that runs faster, and without torch.

    Example: dptransfer encoder export ./vit vit.onnx
    """


@app.command()
def export(
    name: Annotated[
        str, typer.Argument(help="Such as hf:ORG/NAME, a model folder, or efficientnet-lite0; for images.")
    ],
    out: Annotated[Path, typer.Argument(help="The .onnx file to write.")],
    size: options.ImageSize = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Write an image encoder as an ONNX graph, from a picture's bytes to its row.

    It is written only if its rows agree with the encoder's. To a ledger and a release they are rows of
    another encoder, the file, which --encoder names from then on.

    Example: dptransfer encoder export hf:google/vit-base-patch16-224 vit.onnx
    """
    from dptransfer.encoders import export_encoder, get_encoder

    if not overwrite:
        require_new(out)
    written = export_encoder(get_encoder(name, size=size, kind="image"), out)
    facts = {
        "written": out,
        "input": "pixels, bytes of (1, height, width, 3)",
        "output": f"rows (1, {written.dimension})",
        "encoder": str(written.identity),
    }
    tell(facts, as_json=as_json)
