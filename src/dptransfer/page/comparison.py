"""Compare what the files of a page compute with what Python computes, on made-up inputs."""

from __future__ import annotations

import json
import shutil
import subprocess
from base64 import b64encode
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dptransfer.base.types import AnyArray, JsonObject
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
_TOLD = ("row", "probabilities", "sets")
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
    inputs = _inputs(about["kind"], model.dimension)
    rows = np.asarray(inputs) if encoder is None else encoder.encode(inputs)
    node = shutil.which("node")
    found = _by_graphs(site, encoder, inputs) if node is None else _by_node(node, site, about["kind"], inputs)
    expected = model.predict_proba(rows)
    apart = [
        float(np.abs(found[name] - own).max()) for name, own in (("row", rows), ("probabilities", expected))
    ]
    alike = np.array_equal(found["probabilities"].argmax(axis=1), expected.argmax(axis=1))
    alike = alike and found.get("sets", _sets(model, rows, about)) == _sets(model, rows, about)
    if not (max(apart) <= APART and alike):  # what is not a number does not agree
        raise ReleaseError(
            f"A page must give Python's rows and probabilities to {APART:g}, and its labels and sets; rows "
            f"differ by {apart[0]:.2g}, probabilities by {apart[1]:.2g}, and labels and sets "
            f"{'agree' if alike else 'differ'}. Do not publish '{site}'."
        )
    return SelfTest("ONNX Runtime" if node is None else "Node", len(rows), *apart)


def _inputs(kind: str, width: int) -> list[Any]:
    if kind == "text":
        return list(_TEXTS)
    if kind == "image":
        return list(sample_pictures())
    return list(np.random.Generator(np.random.PCG64(0)).normal(size=(_ROWS, width)))


def _sets(model: PrivateClassifier, rows: AnyArray, about: JsonObject) -> list[list[list[int]]]:
    """Positions of the classes in the set of each row at each coverage."""
    asked = [(own["coverage"], own["confidence"]) for own in about["sets"]]
    members = [model.predict_sets(rows, coverage=own, confidence=sure).members for own, sure in asked]
    return [[np.flatnonzero(own[row]).tolist() for own in members] for row in range(len(rows))]


def _by_node(node: str, site: Path, kind: str, inputs: list[Any]) -> dict[str, Any]:
    """Rows, probabilities and sets as the page's own scripts compute them."""
    given = [_for_script(kind, one) for one in inputs]
    with as_file(files("dptransfer.page").joinpath("assets", "self_test.mjs")) as script:
        command = [node, str(script.absolute()), str(site.absolute())]
        ended = subprocess.run(
            command, input=json.dumps(given), capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    if ended.returncode != 0:
        last = (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ReleaseError(f"Node must be able to run the page's files; it ended with: {last}. Update Node.")
    found = {name: [one[name] for one in json.loads(ended.stdout)] for name in _TOLD}
    return found | {name: np.array(found[name]) for name in _TOLD[:2]}


def _for_script(kind: str, given: Any) -> Any:
    if kind != "image":
        return given if kind == "text" else given.tolist()
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
