"""`dptransfer export`: a release for runtimes without Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.screen import tell
from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.release import PrivateClassifier


def export(
    model: options.Release,
    onnx: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    overwrite: options.Overwrite = False,
    unsafe: options.Unsafe = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a release as an ONNX graph.

    Rows in; scores, probabilities (calibrated where the model is) and label positions out.
    It costs no privacy.

    Example: dptransfer export model/ --onnx model.onnx
    """
    from dptransfer.release import export_onnx, read_release, release_digest

    released = read_release(model)
    if onnx.is_dir() or (onnx.exists() and not overwrite):
        raise ArgumentError(f"--onnx must name a new file; '{onnx}' exists. Choose another, or --overwrite.")
    written = export_onnx(released, onnx, digest=release_digest(model), unsafe_for_publication=unsafe)
    facts = {
        "written": written,
        "input": f"rows (n, {released.dimension})" + _whose(released),
        "outputs": f"scores and probabilities (n, {len(released.classes)}), label_index (n)",
        "guarantee": str(released.guarantee),
    }
    tell(facts, as_json=as_json, classes=list(released.classes))


def _whose(released: PrivateClassifier) -> str:
    """Which encoder's rows it takes, where that is one of the release's own: the graph does not hold it."""
    delta = released.encoder_delta
    if delta is None:
        return ""
    return f" of {delta.base.name} as this release changes it, which is not in the graph"
