"""The classifier as an ONNX graph: feature map and head, for runtimes without Python.

The graph takes `rows` (n, dimension) and gives `scores` and `probabilities` (n, classes), calibrated where
the model is, and `label_index` (n). The feature map gives the integers that it gives in Python
(`release.onnx_maps`), and the head computes in float64, so that scores agree but for rounding. It is
post-processing of released arrays and costs no privacy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import numpy as np

from dptransfer.data.on_disk import write_whole
from dptransfer.encoders.onnx_graph import OnnxGraph
from dptransfer.errors import DataError, ReleaseError
from dptransfer.release.bundle import require_publishable
from dptransfer.release.calibration import BELOW
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.heads import AverageHead, CosineHead, Head, MeanCosineHead, quadratic_form
from dptransfer.release.onnx_maps import mapped_rows, row_sum

_TINY = float(np.finfo(np.float64).tiny)
_PRECISIONS = {"float32": "FLOAT", "float64": "DOUBLE"}


def export_onnx(
    model: PrivateClassifier,
    path: str | Path,
    *,
    precision: Literal["float32", "float64"] = "float32",
    digest: str | None = None,
    unsafe_for_publication: bool = False,
) -> Path:
    """Write the classifier as an ONNX file; return its path. A file that is there already is replaced.

    Args:
        model: the classifier.
        path: where to write.
        precision: type of `rows`, `scores` and `probabilities`; inside, the graph computes in float64 either
            way.
        digest: of the release that the model was read from (`release_digest`), for the file's metadata.
        unsafe_for_publication: export a seeded model all the same.
    """
    require_publishable(model, unsafe_for_publication)
    if precision not in _PRECISIONS:
        raise ReleaseError(f"precision must be float32 or float64; got {precision!r}.")
    graph, outer = OnnxGraph("release", extra="onnx", dtype=np.float64), _PRECISIONS[precision]
    scores = _head(graph, model.head, mapped_rows(graph, model.features, graph.cast("rows", "DOUBLE")))
    label = graph.node("ArgMax", scores, named="label_index", axis=1, keepdims=0)
    graph.cast(scores, outer, named="scores")
    graph.cast(_probabilities(graph, model, scores, label), outer, named="probabilities")
    width, count = model.dimension, len(model.classes)
    content = graph.written(
        {"rows": (outer, ["n", width])},
        {
            "scores": (outer, ["n", count]),
            "label_index": ("INT64", ["n"]),
            "probabilities": (outer, ["n", count]),
        },
        _metadata(model, digest),
    )
    return _write(Path(path), content)


def _head(graph: OnnxGraph, head: Head, rows: str) -> str:
    if isinstance(head, AverageHead):
        return _average(graph, head, rows)
    linear, offset, precision = quadratic_form(head)
    if isinstance(head, CosineHead | MeanCosineHead):
        norms = graph.node("Sqrt", row_sum(graph, graph.node("Mul", rows, rows)))
        rows = graph.node("Div", rows, graph.node("Max", norms, graph.constant(_TINY)))
    products = graph.node("MatMul", rows, graph.constant(linear.T))
    scores = graph.node("Add", products, graph.constant(offset))
    if precision is None:
        return scores
    squares = graph.node("MatMul", graph.node("Mul", rows, rows), graph.constant(0.5 * precision.T))
    return graph.node("Sub", scores, squares)


def _average(graph: OnnxGraph, head: AverageHead, rows: str) -> str:
    """log((e^a + e^b) ÷ 2) of two log softmaxes, with the larger taken out."""
    products = [graph.node("MatMul", rows, graph.constant(one.T)) for one in (head.weights, head.prior)]
    own = graph.node("LogSoftmax", graph.node("Add", products[0], graph.constant(head.offset)), axis=1)
    beside = graph.node("LogSoftmax", products[1], axis=1)
    larger = graph.node("Max", own, beside)
    parts = [graph.node("Exp", graph.node("Sub", one, larger)) for one in (own, beside)]
    half = graph.node("Mul", graph.node("Add", *parts), graph.constant(0.5))
    return graph.node("Add", larger, graph.node("Log", half))


def _probabilities(graph: OnnxGraph, model: PrivateClassifier, scores: str, label: str) -> str:
    """`PrivateClassifier.predict_proba`: a softmax, or what `Calibration.probabilities` makes of it."""
    calibration = model.calibration
    if calibration is None:
        return graph.node(
            "Softmax", graph.node("Div", scores, graph.constant(model.head.temperature)), axis=1
        )
    flatness = graph.constant(model.head.temperature * calibration.temperature)
    logits = graph.node(
        "Add", graph.node("Div", scores, flatness), graph.constant(np.array(calibration.offsets))
    )
    chosen = graph.node("Unsqueeze", label, graph.constant([1], dtype=np.int64))
    above = graph.node("Sub", logits, graph.node("GatherElements", logits, chosen, axis=1))
    others = graph.node("Exp", graph.node("Min", above, graph.constant(0.0)))
    others = graph.node("Min", others, graph.constant(BELOW))
    places = graph.constant(np.arange(len(model.classes))[None], dtype=np.int64)
    weights = graph.node("Where", graph.node("Equal", places, chosen), graph.constant(1.0), others)
    return graph.node("Div", weights, row_sum(graph, weights))


def _metadata(model: PrivateClassifier, digest: str | None) -> dict[str, str]:
    provenance, guarantee = model.provenance, model.guarantee
    return {
        "classes": json.dumps(list(model.classes)),
        "epsilon": repr(guarantee.epsilon),
        "delta": repr(guarantee.delta),
        "relation": guarantee.relation.value,
        "unit": guarantee.unit.value,
        "guarantee": json.dumps(guarantee.to_dict()),
        "sentence": str(guarantee),
        "release_digest": digest or "",
        "method": provenance.method,
        "encoder": json.dumps(None if model.encoder is None else model.encoder.to_dict()),
        "publishable": json.dumps(not model.seeded),
        "temperature": repr(model.head.temperature),
        "calibration": json.dumps(None if model.calibration is None else model.calibration.to_dict()),
    }


def _write(path: Path, content: bytes) -> Path:
    """Write whole or not at all."""
    try:
        write_whole(path, content, overwrite=True)
    except DataError as problem:
        raise ReleaseError(str(problem)) from None
    except OSError as problem:
        raise ReleaseError(f"Writing '{path}' failed ({problem.strerror}). Choose another path.") from problem
    return path
