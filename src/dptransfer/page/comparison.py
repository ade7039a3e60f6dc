"""Compare what the files of a page compute with what Python computes, on made-up inputs."""

from __future__ import annotations

import json
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dptransfer.encoders import Encoder
from dptransfer.encoders.onnx import OnnxEncoder, sample_pictures
from dptransfer.encoders.onnx_graph import onnx_session
from dptransfer.errors import ReleaseError
from dptransfer.page.encoder_files import GRAPH
from dptransfer.release import PrivateClassifier

APART = 1e-4
"""The most by which an entry of a row, or a probability, may differ."""
_SECONDS = 600
_ROWS = 5
_TEXTS = (
    "The cat sat on the mat.",
    "Where is my new card? It hasn't arrived yet!",
    "Naïve café owners in 日本 paid 3.50€ [SEP] twice",
    "word " * 300,
    "",
)


class SelfTest(NamedTuple):
    """The largest differences between a page and Python.

    Attributes:
        by: what ran the page's files: 'Node', or 'ONNX Runtime' for its graphs alone.
        inputs: how many were compared.
        rows: in entries of the encoder's rows.
        probabilities: of all classes.
    """

    by: str
    inputs: int
    rows: float
    probabilities: float


def compare_with_python(site: Path, model: PrivateClassifier, encoder: Encoder | None) -> SelfTest:
    """Run the page's files in Node, or its graphs in ONNX Runtime where there is no Node, and compare.

    A browser's decoder of picture files is no part of it: pictures are given as pixels.

    Args:
        site: the folder of the page.
        model: the release that it was made of.
        encoder: the encoder that it was made of.

    Raises:
        ReleaseError: a row or a probability differs by more than 1e-4, or a label or a set at all.
    """
    about = json.loads((site / "model.json").read_text(encoding="utf-8"))
    if encoder is None:
        inputs: list[Any] = list(
            np.random.Generator(np.random.PCG64(0)).normal(size=(_ROWS, model.dimension))
        )
    else:
        inputs = list(_TEXTS if encoder.kind == "text" else sample_pictures())
    rows = np.asarray(inputs) if encoder is None else encoder.encode(inputs)
    expected = model.predict_proba(rows)
    asked = [(one["coverage"], one["confidence"]) for one in about["sets"]]
    sets = [model.predict_sets(rows, coverage=own, confidence=sure).members for own, sure in asked]
    node = shutil.which("node")
    found = _by_graphs(site, encoder, inputs) if node is None else _by_node(node, site, inputs)
    apart = [float(np.abs(found["row"] - rows).max()), float(np.abs(found["probabilities"] - expected).max())]
    alike = np.array_equal(found["probabilities"].argmax(axis=1), expected.argmax(axis=1))
    if "sets" in found:
        told = [[np.flatnonzero(own[row]).tolist() for own in sets] for row in range(len(rows))]
        alike = alike and found["sets"] == told
    if not (max(apart) <= APART and alike):  # what is not a number does not agree
        raise ReleaseError(
            f"A page must give Python's rows and probabilities to {APART:g}, and its labels and sets; rows "
            f"differ by {apart[0]:.2g}, probabilities by {apart[1]:.2g}, and labels and sets "
            f"{'agree' if alike else 'differ'}. Do not publish '{site}'."
        )
    return SelfTest("ONNX Runtime" if node is None else "Node", len(rows), *apart)


def _by_node(node: str, site: Path, inputs: list[Any]) -> dict[str, Any]:
    """Rows, probabilities and sets as the page's own scripts compute them."""
    command = [node, str(site.absolute() / "self_test.mjs"), str(site.absolute())]
    given = json.dumps(list(map(_for_script, inputs)))
    ended = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if ended.returncode != 0:
        last = (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ReleaseError(f"Node must be able to run the page's files; it ended with: {last}. Update Node.")
    found = json.loads(ended.stdout)
    arrays = {name: np.array([one[name] for one in found]) for name in ("row", "probabilities")}
    return {**arrays, "sets": [one["sets"] for one in found]}


def _for_script(given: Any) -> Any:
    if isinstance(given, str):
        return given
    if isinstance(given, np.ndarray):
        return given.tolist()
    return {"width": given.width, "height": given.height, "data": b64encode(given.tobytes()).decode()}


def _by_graphs(site: Path, encoder: Encoder | None, inputs: list[Any]) -> dict[str, Any]:
    """Rows and probabilities by the graphs alone."""
    if encoder is None:
        rows = np.asarray(inputs)
    else:  # texts by the encoder, whose graph is the page's
        rows = (OnnxEncoder(site / GRAPH) if encoder.kind == "image" else encoder).encode(inputs)
    given = {"rows": rows.astype(np.float64)}
    (probabilities,) = onnx_session(site / "head.onnx", extra="onnx").run(["probabilities"], given)
    return {"row": rows, "probabilities": probabilities}
