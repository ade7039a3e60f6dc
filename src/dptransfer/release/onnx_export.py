"""Export a classifier to ONNX: feature map and head, equal to Python bit for bit in the map.

Each step of `features.lattice` and of the maps is elementwise and correctly rounded, or an exact sum of
integers, so a runtime that computes in IEEE 754 repeats them. Only powers of two are found otherwise: in
Python they are read in the bits of a float, here they are looked up in a table. All is float64, save the
logits of a vocabulary, which are float32 as in Python.

The graph takes `rows` (n, dimension) and gives `scores` and `probabilities` (n, classes), calibrated where
the model is, and `label_index` (n). The feature map gives the integers that it gives in Python
(`encoders.onnx_graph`), and the head computes in float64, so that scores agree but for rounding. It is
post-processing of released arrays and costs no privacy.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Literal

import numpy as np

from dptransfer.data.atomic_files import write_whole
from dptransfer.encoders.onnx_graph import OnnxGraph
from dptransfer.errors import ReleaseError
from dptransfer.exact import feature_map, vocabulary_map
from dptransfer.exact.lattice import GRAIN, HAIR, SUM_BITS, coordinate_bits, grains
from dptransfer.exact.public_map import ROW_NORM, SPAN_CLIP, FittedPublicMap, FittedSpan
from dptransfer.release.bundle import release_errors, require_publishable
from dptransfer.release.calibration import BELOW
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.heads import AverageHead, CosineHead, Head

_LEAST_POWER, _LARGEST_POWER = -1074, 1024  # the last is infinite
_LIFT, _SMALL = 600, 2.0**-400  # rows below that are multiplied by 2**600 first
_LONGEST_POWER = 200.0


def mapped_rows(graph: OnnxGraph, features: feature_map.FittedFeatures, rows: str) -> str:
    """Nodes for `features.apply`: mapped rows of a float64 input, in the unit ball."""
    return graph.node("Mul", _lattice(graph, features, rows, 2**SUM_BITS), 2.0**-SUM_BITS)


def row_sum(graph: OnnxGraph, x: str) -> str:
    """Sum over the last axis, kept as an axis of one."""
    return graph.node("ReduceSum", x, [-1], keepdims=1)


def _lattice(graph: OnnxGraph, features: feature_map.FittedFeatures, rows: str, norm: int) -> str:
    """`features.lattice(rows, norm)`, whole numbers of type float64."""
    if isinstance(features, feature_map.FittedUnitNorm):
        return _unit_norm(graph, features, rows, norm)
    if isinstance(features, FittedPublicMap):
        units = _unit_lattice(graph, rows, features.input_dimension, ROW_NORM, root=features.root)
        centred = graph.node("Sub", units, features.mean)
        mapped = graph.node("MatMul", centred, features.matrix)
        return _unit_lattice(graph, mapped, features.dimension, norm)
    if isinstance(features, FittedSpan):
        units = _unit_lattice(graph, rows, features.input_dimension, ROW_NORM)
        product = graph.node("MatMul", units, features.matrix)
        return _unit_lattice(graph, product, features.dimension, norm, clip=SPAN_CLIP)
    if isinstance(features, vocabulary_map.FittedVocabularyMap):
        return _vocabulary(graph, features, rows, norm)
    if isinstance(features, feature_map.FittedSideBySide):
        parts = zip((features.first, features.second), feature_map.norms_of_parts(norm), strict=True)
        return graph.node("Concat", *(_lattice(graph, part, rows, own) for part, own in parts), axis=1)
    raise ReleaseError(
        f"The feature maps of this library can be exported to ONNX; '{features.kind}' is none of them. "
        "Use the release from Python."
    )


def _unit_norm(graph: OnnxGraph, features: feature_map.FittedUnitNorm, rows: str, norm: int) -> str:
    if features.pool > 1:
        fine = _unit_lattice(graph, rows, features.input_dimension, feature_map.FINE_NORM)
        lacking = features.dimension * features.pool - features.input_dimension
        padded = graph.node("Pad", fine, [0, 0, 0, lacking])
        groups = graph.node("Reshape", padded, [0, features.dimension, features.pool])  # 0 keeps the rows
        rows = graph.node("ReduceSum", groups, [2], keepdims=0)
    return _unit_lattice(graph, rows, features.dimension, norm)


def _vocabulary(graph: OnnxGraph, features: vocabulary_map.FittedVocabularyMap, rows: str, norm: int) -> str:
    op = graph.node
    scaled, above, power = _scaled(graph, rows, features.input_dimension, root=False)
    stretch = op("Div", vocabulary_map.WORD_NORM, above)
    integers = op("Round", op("Mul", scaled, stretch))  # half to even, as NumPy does
    steps = graph.constant(features.scale * 2.0**vocabulary_map.LOGIT_BITS / vocabulary_map.WORD_NORM**2)
    if not features.unit_rows:
        power = op("Clip", op("Neg", power), -_LONGEST_POWER, _LONGEST_POWER)
        length = op("Mul", above, _power_of_two(graph, power))
        steps = op("Mul", op("Min", length, vocabulary_map.LONGEST_ROW), steps)
    logits = graph.cast(op("MatMul", integers, features.matrix), "FLOAT")
    logits = op("Round", op("Mul", logits, graph.cast(steps, "FLOAT")))
    logits = op("Add", logits, graph.constant(features.offset, dtype=np.float32))
    table = vocabulary_map.exponentials()
    depth = op("Sub", op("ReduceMax", logits, axes=[1], keepdims=1), logits)
    depth = op("Min", depth, graph.constant(float(len(table) - 1), dtype=np.float32))
    weights = op("Gather", table, graph.cast(depth, "INT64"))
    weights = op("Where", op("Greater", _peak(graph, integers), 0.0), weights, 0.0)
    total = op("Max", row_sum(graph, weights), 1.0)
    more = op("Max", op("Sub", weights, op("Ceil", op("Div", total, features.dimension))), 0.0)
    left = op("Sqrt", op("Max", row_sum(graph, more), 1.0))
    factor = op("Div", norm, _times_hair(graph, left))
    return op("Floor", op("Mul", op("Sqrt", more), factor))


def _unit_lattice(
    graph: OnnxGraph, rows: str, width: int, norm: int, *, root: bool = False, clip: float | None = None
) -> str:
    """`exact.lattice.unit_lattice`, or `clipped_lattice` where there is a clip, of rows of whole numbers."""
    scaled, above, power = _scaled(graph, rows, width, root=root)
    if clip is not None:
        above = graph.node("Max", above, graph.node("Mul", _power_of_two(graph, power), clip * HAIR))
    long = graph.node("Mul", scaled, graph.node("Div", norm, above))
    return graph.node("Mul", graph.node("Sign", long), graph.node("Floor", graph.node("Abs", long)))


def _scaled(graph: OnnxGraph, rows: str, width: int, *, root: bool) -> tuple[str, str, str]:
    """`scaled_rows`, with the upper bound on their norms, and the power of two that they were scaled by."""
    op = graph.node
    odd = graph.cast(op("Or", op("IsNaN", rows), op("IsInf", rows)), "DOUBLE")
    rows = op("Where", op("Greater", row_sum(graph, odd), 0.0), 0.0, rows)
    small = op("Less", _peak(graph, rows), _SMALL)
    rows = op("Where", small, op("Mul", rows, 2.0**_LIFT), rows)
    peak = _peak(graph, rows)
    nothing = op("Equal", peak, 0.0)
    exponent = _exponent(graph, op("Where", nothing, 1.0, peak))
    bits = coordinate_bits(width)
    if root:  # an even power, of which the root is taken
        half = op("Sub", bits, op("Floor", op("Mul", op("Add", exponent, 1.0), 0.5)))
        power = op("Add", half, half)
    else:
        power = op("Sub", bits, exponent)
    scaled = op("Mul", rows, _power_of_two(graph, power))
    if root:
        scaled = op("Mul", op("Sign", scaled), op("Sqrt", op("Abs", scaled)))
    units = op("Ceil", op("Sub", op("Abs", scaled), GRAIN))
    norm = op("Sqrt", row_sum(graph, op("Mul", units, units)))
    above = _times_hair(graph, op("Add", norm, graph.constant(grains(width))))
    lift = op("Where", small, _LIFT, 0.0)
    return scaled, above, op("Where", nothing, 0.0, op("Add", power, lift))


def _times_hair(graph: OnnxGraph, x: str) -> str:
    """Times `HAIR`, by way of its double: ONNX Runtime leaves out a product with what is 1 in float32."""
    return graph.node("Mul", graph.node("Mul", x, 2 * HAIR), 0.5)


def _peak(graph: OnnxGraph, rows: str) -> str:
    """The largest size in each row."""
    return graph.node("ReduceMax", graph.node("Abs", rows), axes=[1], keepdims=1)


def _exponent(graph: OnnxGraph, sizes: str) -> str:
    """The e with 2**(e − 1) ≤ size < 2**e: by the logarithm, which may be off by one, and then exactly."""
    about = graph.node("Floor", graph.node("Div", graph.node("Log", sizes), math.log(2.0)))
    less = graph.node("Sub", about, 1.0)
    for _ in range(3):  # the logarithm may be off by one either way
        reached = graph.node("GreaterOrEqual", sizes, _power_of_two(graph, less))
        less = graph.node("Add", less, graph.cast(reached, "DOUBLE"))
    return less


def _power_of_two(graph: OnnxGraph, exponents: str) -> str:
    """2**exponent of whole numbers, from a table."""
    with np.errstate(over="ignore"):
        powers = np.ldexp(1.0, np.arange(_LEAST_POWER, _LARGEST_POWER + 1))
    table = graph.constant(powers, "powers of two")
    place = graph.node("Sub", exponents, _LEAST_POWER)
    return graph.node("Gather", table, graph.cast(place, "INT64"))


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
    target = Path(path)
    content = graph.to_bytes(
        {"rows": (outer, ["n", width])},
        {
            "scores": (outer, ["n", count]),
            "label_index": ("INT64", ["n"]),
            "probabilities": (outer, ["n", count]),
        },
        _metadata(model, digest),
    )
    with release_errors(target):
        write_whole(target, content, overwrite=True)
    return target


def _head(graph: OnnxGraph, head: Head, rows: str) -> str:
    if isinstance(head, AverageHead):
        return _average(graph, head, rows)
    linear, offset, precision = head.form
    if isinstance(head, CosineHead):
        norms = graph.node("Sqrt", row_sum(graph, graph.node("Mul", rows, rows)))
        rows = graph.node("Div", rows, graph.node("Max", norms, _TINY))
    scores = graph.node("MatMul", rows, linear.T)
    if offset is not None:
        scores = graph.node("Add", scores, offset)
    if precision is None:
        return scores
    squares = graph.node("MatMul", graph.node("Mul", rows, rows), 0.5 * precision.T)
    return graph.node("Sub", scores, squares)


def _average(graph: OnnxGraph, head: AverageHead, rows: str) -> str:
    """log((e^a + e^b) ÷ 2) of two log softmaxes, with the larger taken out."""
    op = graph.node
    own = op("LogSoftmax", op("Add", op("MatMul", rows, head.weights.T), head.offset), axis=1)
    beside = op("LogSoftmax", op("MatMul", rows, head.prior.T), axis=1)
    larger = op("Max", own, beside)
    parts = [op("Exp", op("Sub", one, larger)) for one in (own, beside)]
    return op("Add", larger, op("Log", op("Mul", op("Add", *parts), 0.5)))


def _probabilities(graph: OnnxGraph, model: PrivateClassifier, scores: str, label: str) -> str:
    """`PrivateClassifier.predict_proba`: a softmax, or what `Calibration.probabilities` makes of it."""
    op, calibration, temperature = graph.node, model.calibration, model.head.temperature
    if calibration is None:
        return op("Softmax", op("Div", scores, temperature), axis=1)
    logits = op("Div", scores, temperature * calibration.temperature)
    logits = op("Add", logits, np.array(calibration.offsets))
    chosen = op("Unsqueeze", label, [1])
    above = op("Sub", logits, op("GatherElements", logits, chosen, axis=1))
    others = op("Min", op("Exp", op("Min", above, 0.0)), BELOW)
    places = graph.constant(np.arange(len(model.classes))[None], dtype=np.int64)
    weights = op("Where", op("Equal", places, chosen), 1.0, others)
    return op("Div", weights, row_sum(graph, weights))


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
