"""`dptransfer export`: a release for runtimes without Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.screen import show_facts, show_json
from dptransfer.errors import ArgumentError


def export(
    model: Annotated[Path, typer.Argument(help="The release directory.", show_default=False)],
    onnx: Annotated[Path, typer.Option("--onnx", help="The ONNX file to write.", show_default=False)],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    unsafe: options.Unsafe = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a release as an ONNX graph.

    Rows in, scores and label positions out. It costs no privacy.

    Example: dptransfer export model/ --onnx model.onnx
    """
    from dptransfer.release import export_onnx, read_release

    released = read_release(model)
    if onnx.is_dir() or (onnx.exists() and not overwrite):
        raise ArgumentError(
            f"--onnx must name a new file; '{onnx}' exists. Choose another, or pass --overwrite."
        )
    written = export_onnx(released, onnx, unsafe_for_publication=unsafe)
    facts = {
        "written": str(written),
        "input": f"rows (n, {released.dimension})",
        "outputs": f"scores (n, {len(released.classes)}), label_index (n)",
        "guarantee": str(released.guarantee),
    }
    if as_json:
        show_json({**facts, "classes": list(released.classes)})
    else:
        show_facts({name.capitalize(): value for name, value in facts.items()})
