"""The classifier as an ONNX graph: feature map and head, for runtimes without Python.

The graph takes `rows` (n, dimension) and gives `scores` and `probabilities` (n, classes), calibrated where
the model is, and `label_index` (n). It repeats the library's integer lattice step by step in double
precision, so its scores agree with `PrivateClassifier.scores` far below any difference that matters; it is
post-processing of released arrays and costs no privacy.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dptransfer import _check
from dptransfer.errors import ReleaseError
from dptransfer.features import FittedFeatures, FittedPublicMap, FittedUnitNorm
from dptransfer.features.lattice import SUM_BITS
from dptransfer.release.bundle import require_publishable
from dptransfer.release.calibration import BELOW
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.heads import AverageHead, CosineHead, Head, MeanCosineHead, quadratic_form

_OPSET, _IR = 17, 8  # old enough for every runtime of the last years
_LARGEST = 2**31 - 2**20  # what a protocol buffer can hold
_MANTISSA, _HAIR, _TINY = 2.0**24, 1 + 2.0**-40, float(np.finfo(np.float64).tiny)
_ROW_BITS, _FINE_BITS = 26, 30


def export_onnx(
    model: PrivateClassifier,
    path: str | Path,
    *,
    precision: Literal["float32", "float64"] = "float32",
    unsafe_for_publication: bool = False,
) -> Path:
    """Write the classifier as an ONNX file; return its path. A file that is there already is replaced.

    Args:
        model: the classifier.
        path: where to write.
        precision: type of `rows`, `scores` and `probabilities`; inside, the graph computes in float64 either
            way.
        unsafe_for_publication: export a seeded model all the same.
    """
    require_publishable(model, unsafe_for_publication)
    onnx = _check.installed("onnx", "onnx", "Exporting to ONNX")
    graph = _Graph(onnx)
    outer = {"float32": onnx.TensorProto.FLOAT, "float64": onnx.TensorProto.DOUBLE}.get(precision)
    if outer is None:
        raise ReleaseError(f"precision must be float32 or float64; got {precision!r}.")
    rows = graph.add("Cast", "rows", to=onnx.TensorProto.DOUBLE)
    scores = _head(graph, model.head, _features(graph, model.features, rows))
    label = graph.add("ArgMax", scores, output="label_index", axis=1, keepdims=0)
    graph.add("Cast", scores, output="scores", to=outer)
    graph.add("Cast", _probabilities(graph, model, scores, label), output="probabilities", to=outer)
    value = onnx.helper.make_tensor_value_info
    width, count = model.dimension, len(model.classes)
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "dptransfer",
            [value("rows", outer, ["n", width])],
            [
                value("scores", outer, ["n", count]),
                value("label_index", onnx.TensorProto.INT64, ["n"]),
                value("probabilities", outer, ["n", count]),
            ],
            graph.constants,
        ),
        producer_name="dptransfer",
        opset_imports=[onnx.helper.make_opsetid("", _OPSET)],
    )
    proto.ir_version = _IR
    onnx.helper.set_model_props(proto, _metadata(model))
    if proto.ByteSize() > _LARGEST:
        raise ReleaseError(f"An ONNX file may hold at most {_LARGEST} bytes; this needs {proto.ByteSize()}.")
    onnx.checker.check_model(proto)
    return _write(Path(path), proto.SerializeToString())


class _Graph:
    """Nodes and constants as they are added; names are numbers."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Append a node; return the name of its output."""
        name = output or f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: ArrayLike, dtype: type = np.float64) -> str:
        """Store an array; return its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value, dtype=dtype), name))
        return name

    def row_sum(self, x: str) -> str:
        """Sum over the last axis, kept as an axis of one."""
        return self.add("ReduceSum", x, self.constant([-1], np.int64), keepdims=1)


def _features(graph: _Graph, features: FittedFeatures, rows: str) -> str:
    back = graph.constant(2.0**-SUM_BITS)
    if isinstance(features, FittedUnitNorm):
        if features.pool > 1:
            rows = _pooled(graph, _lattice(graph, rows, 2.0**_FINE_BITS), features)
        return graph.add("Mul", _lattice(graph, rows, 2.0**SUM_BITS), back)
    if not isinstance(features, FittedPublicMap):
        raise ReleaseError(f"Feature maps of kind '{features.kind}' cannot be exported to ONNX.")
    if features.root:
        rows = graph.add("Mul", graph.add("Sign", rows), graph.add("Sqrt", graph.add("Abs", rows)))
    units = _lattice(graph, rows, 2.0**_ROW_BITS)
    centred = graph.add("Sub", units, graph.constant(features.mean))
    mapped = graph.add("MatMul", centred, graph.constant(features.matrix))
    return graph.add("Mul", _lattice(graph, mapped, 2.0**SUM_BITS), back)


def _pooled(graph: _Graph, rows: str, features: FittedUnitNorm) -> str:
    """Sums of neighbouring coordinates: zeros up to a whole number of groups, then one sum per group."""
    lacking = features.dimension * features.pool - features.input_dimension
    padded = graph.add("Pad", rows, graph.constant([0, 0, 0, lacking], np.int64))
    shape = graph.constant([0, features.dimension, features.pool], np.int64)  # 0 keeps the number of rows
    groups = graph.add("Reshape", padded, shape)
    return graph.add("ReduceSum", groups, graph.constant([2], np.int64), keepdims=0)


def _lattice(graph: _Graph, x: str, norm: float) -> str:
    """`features.lattice.unit_lattice`, step by step; the numbers are whole but of type double."""
    zero, one = graph.constant(0.0), graph.constant(1.0)
    odd = graph.add("Or", graph.add("IsNaN", x), graph.add("IsInf", x))
    odd = graph.row_sum(graph.add("Cast", odd, to=graph.onnx.TensorProto.DOUBLE))
    x = graph.add("Where", graph.add("Greater", odd, zero), zero, x)
    peak = graph.add("ReduceMax", graph.add("Abs", x), axes=[1], keepdims=1)
    peak = graph.add("Where", graph.add("Greater", peak, zero), peak, one)
    exponent = graph.add("Floor", graph.add("Div", graph.add("Log", peak), graph.constant(np.log(2.0))))
    # A power of two may land on either side of the floor; both give the same row up to 2⁻²⁴.
    x = graph.add("Div", x, graph.add("Pow", graph.constant(2.0), exponent))
    x = graph.add("Mul", x, graph.constant(0.5))
    units = graph.add("Ceil", graph.add("Mul", graph.add("Abs", x), graph.constant(_MANTISSA)))
    above = graph.add("Sqrt", graph.row_sum(graph.add("Mul", units, units)))
    above = graph.add("Mul", above, graph.constant(_HAIR / _MANTISSA))
    above = graph.add("Where", graph.add("Greater", above, zero), above, one)
    x = graph.add("Mul", x, graph.add("Div", graph.constant(norm), above))
    return graph.add("Mul", graph.add("Sign", x), graph.add("Floor", graph.add("Abs", x)))  # toward zero


def _head(graph: _Graph, head: Head, rows: str) -> str:
    if isinstance(head, AverageHead):
        return _average(graph, head, rows)
    linear, offset, precision = quadratic_form(head)
    if isinstance(head, CosineHead | MeanCosineHead):
        norms = graph.add("Sqrt", graph.row_sum(graph.add("Mul", rows, rows)))
        rows = graph.add("Div", rows, graph.add("Max", norms, graph.constant(_TINY)))
    products = graph.add("MatMul", rows, graph.constant(linear.T))
    scores = graph.add("Add", products, graph.constant(offset))
    if precision is None:
        return scores
    squares = graph.add("MatMul", graph.add("Mul", rows, rows), graph.constant(0.5 * precision.T))
    return graph.add("Sub", scores, squares)


def _average(graph: _Graph, head: AverageHead, rows: str) -> str:
    """log((e^a + e^b) ÷ 2) of two log softmaxes, with the larger taken out."""
    products = [graph.add("MatMul", rows, graph.constant(one.T)) for one in (head.weights, head.prior)]
    own = graph.add("LogSoftmax", graph.add("Add", products[0], graph.constant(head.offset)), axis=1)
    beside = graph.add("LogSoftmax", products[1], axis=1)
    larger = graph.add("Max", own, beside)
    parts = [graph.add("Exp", graph.add("Sub", one, larger)) for one in (own, beside)]
    half = graph.add("Mul", graph.add("Add", *parts), graph.constant(0.5))
    return graph.add("Add", larger, graph.add("Log", half))


def _probabilities(graph: _Graph, model: PrivateClassifier, scores: str, label: str) -> str:
    """`PrivateClassifier.predict_proba`: a softmax, or what `Calibration.probabilities` makes of it."""
    calibration = model.calibration
    if calibration is None:
        return graph.add("Softmax", graph.add("Div", scores, graph.constant(model.head.temperature)), axis=1)
    flatness = graph.constant(model.head.temperature * calibration.temperature)
    logits = graph.add("Add", graph.add("Div", scores, flatness), graph.constant(calibration.offsets))
    chosen = graph.add("Unsqueeze", label, graph.constant([1], np.int64))
    above = graph.add("Sub", logits, graph.add("GatherElements", logits, chosen, axis=1))
    others = graph.add("Exp", graph.add("Min", above, graph.constant(0.0)))
    others = graph.add("Min", others, graph.constant(BELOW))
    places = graph.constant(np.arange(len(model.classes))[None], np.int64)
    weights = graph.add("Where", graph.add("Equal", places, chosen), graph.constant(1.0), others)
    return graph.add("Div", weights, graph.row_sum(weights))


def _metadata(model: PrivateClassifier) -> dict[str, str]:
    provenance = model.provenance
    return {
        "classes": json.dumps(list(model.classes)),
        "guarantee": json.dumps(model.guarantee.to_dict()),
        "sentence": str(model.guarantee),
        "method": provenance.method,
        "encoder": json.dumps(None if model.encoder is None else model.encoder.to_dict()),
        "publishable": json.dumps(not model.seeded),
        "temperature": repr(model.head.temperature),
        "calibration": json.dumps(None if model.calibration is None else model.calibration.to_dict()),
    }


def _write(path: Path, content: bytes) -> Path:
    """Write whole or not at all."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError as problem:
        raise ReleaseError(f"Writing '{path}' failed ({problem.strerror}). Choose another path.") from problem
    finally:
        with suppress(OSError):  # it is gone, or was never there
            part.unlink()
    return path
