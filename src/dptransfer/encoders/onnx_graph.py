"""Build and run ONNX graphs.

A call of one item runs on one thread, and as many calls as there are cores run side by side: nothing is
shared among items but the weights, so neither the size of a batch nor the number of threads can reach a row.
It is the fastest way on a CPU, too. Measured with efficientnet-lite0 at 224 and 128 pixels and ONNX Runtime
1.31: rows of calls of 1, 2, 7, 8, 16, 32 and 64 pictures, on one thread and on two, are bit-identical anyway,
and none of these sizes is faster than one picture a call.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from dptransfer.base import checks
from dptransfer.base.types import AnyArray
from dptransfer.base.worker_env import usable_cores
from dptransfer.errors import ArgumentError, DataError, ReleaseError
from dptransfer.exact.chunks import side_by_side

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto, ValueInfoProto
    from onnxruntime import InferenceSession

_OPERATORS, _FORMAT = 17, 8  # old enough for every ONNX Runtime from 1.13 on
_LARGEST = 2**31 - 2**20  # what a protocol buffer can hold


Operand: TypeAlias = str | float | list[int] | AnyArray
"""The input of an operation: the name of another's output, a constant of the graph's type, or a shape."""
Shapes: TypeAlias = Mapping[str, tuple[str, Sequence[int | str]]]
"""Type (as ONNX calls it, such as 'FLOAT') and shape of inputs or outputs, by name."""


class OnnxGraph:
    """A graph whose parts are called by the names of what they give.

    Args:
        name: what the graph is called.
        extra: the extra of ours that installs what it is written with.
        dtype: of constants, where nothing else is said.
    """

    def __init__(self, name: str, *, extra: str, dtype: DTypeLike = np.float32) -> None:
        self._onnx = checks.import_optional("onnx", extra, f"Making the graph of {name}")
        self._name, self._dtype = name, dtype
        self._nodes: list[NodeProto] = []
        self._constants: dict[str, TensorProto] = {}

    def node(self, kind: str, *inputs: Operand, named: str | None = None, **settings: object) -> str:
        """Add an operation; the name of its output. Inputs that are no names become constants."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        output = named or f"{kind}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, names, [output], **settings))
        return output

    def constant(
        self, value: float | list[int] | AnyArray, name: str | None = None, *, dtype: DTypeLike | None = None
    ) -> str:
        """Add an array; its name. Numbers and lists are added once; an array without a name is a new one.

        Lists are shapes and places, and so whole numbers.
        """
        usual = np.int64 if isinstance(value, list) else self._dtype
        kind = np.dtype(usual if dtype is None else dtype)
        if name is None and isinstance(value, np.ndarray):
            name = f"constant_{len(self._constants)}"
        name = name or f"is {value}" + f" ({kind.name})" * (kind != np.float32)
        self._constants[name] = self._onnx.numpy_helper.from_array(np.asarray(value, dtype=kind), name)
        return name

    def cast(self, value: str, kind: str, *, named: str | None = None) -> str:
        """Convert to a type, as ONNX calls it, such as 'DOUBLE'."""
        return self.node("Cast", value, named=named, to=getattr(self._onnx.TensorProto, kind))

    def to_bytes(self, inputs: Shapes, outputs: Shapes, notes: Mapping[str, str]) -> bytes:
        """The graph as the content of an ONNX file; `notes` are the file's metadata."""
        helper, types = self._onnx.helper, self._onnx.TensorProto

        def declare(shapes: Shapes) -> list[ValueInfoProto]:
            return [
                helper.make_tensor_value_info(name, getattr(types, kind), list(shape))
                for name, (kind, shape) in shapes.items()
            ]

        constants = list(self._constants.values())
        graph = helper.make_graph(self._nodes, self._name, declare(inputs), declare(outputs), constants)
        operators = [helper.make_opsetid("", _OPERATORS)]
        model = helper.make_model(graph, opset_imports=operators, ir_version=_FORMAT)
        helper.set_model_props(model, dict(notes))
        if model.ByteSize() > _LARGEST:
            rule = f"An ONNX file may hold {_LARGEST} bytes; that of {self._name} needs {model.ByteSize()}."
            raise ReleaseError(f"{rule} Use the Python library instead.")
        content: bytes = model.SerializeToString(deterministic=True)
        return content


def onnx_session(
    model: bytes | Path,
    *,
    extra: str,
    device: str = "cpu",
    weights: Mapping[str, AnyArray] | None = None,
    sides: int | None = None,
) -> InferenceSession:
    """The model, loaded; on a CPU it computes on the thread that calls it.

    Args:
        model: a file, or what would be in it.
        extra: the extra of ours that installs ONNX Runtime for this.
        device: 'cpu' or 'cuda'.
        weights: by name, of a graph that is without.
        sides: of pictures, for a graph that leaves them open.
    """
    onnxruntime = checks.import_optional("onnxruntime", extra, "An ONNX encoder")
    if isinstance(model, Path) and not model.is_file():
        raise DataError(f"'{model}': the ONNX file must exist; it does not. Check the path.")
    provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(device.partition(":")[0])
    built = onnxruntime.get_available_providers()
    if provider not in built:
        rule = f"device={device!r} must be one this ONNX Runtime was built for ({', '.join(built)})."
        raise ArgumentError(f"{rule} Use device='cpu'.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # a library never prints
    if weights is not None:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
        options.add_external_initializers(list(weights), values)
    if sides is not None:
        options.add_free_dimension_override_by_name("side", sides)
    given = model if isinstance(model, bytes) else str(model)
    try:
        return onnxruntime.InferenceSession(given, options, providers=[provider])
    except Exception as error:  # ONNX Runtime's own errors share no public base class
        what = "A graph" if isinstance(model, bytes) else f"'{model}': the file"
        rule = f"{what} must be an ONNX model that ONNX Runtime can load; it is not ({type(error).__name__})."
        raise DataError(f"{rule} Export it again.") from None


def runtime_for(name: str, *, device: str, asked: str | None, packages: Sequence[str]) -> str:
    """'onnx' or 'torch': what is asked for, else ONNX Runtime on a CPU, unless only torch is installed.

    Args:
        name: the encoder's.
        device: where to run; ONNX Runtime runs it on the cpu alone.
        asked: what the user says.
        packages: what ONNX Runtime needs for it, itself included.
    """
    if asked is None:
        can = all(importlib.util.find_spec(package) is not None for package in packages)
        return "onnx" if device == "cpu" and (can or importlib.util.find_spec("torch") is None) else "torch"
    if asked == "onnx" and device != "cpu":
        rule = f"Rows of {name} by ONNX Runtime are made on the cpu; got device={device!r}."
        raise ArgumentError(f"{rule} Leave device out, or make all rows with runtime='torch'.")
    return asked


def run_each(session: InferenceSession, items: Sequence[Mapping[str, AnyArray]]) -> list[AnyArray]:
    """The model's first output for each item, inputs by name, in order and on all cores."""
    return list(side_by_side(lambda item: session.run(None, item)[0], items, usable_cores()))


def shipped_graph(name: str) -> bytes:
    """The operations of an encoder of ours, without its weights; `tools/encoder_graphs.py` made them."""
    return files("dptransfer.encoders").joinpath(f"{name}.onnx").read_bytes()


def with_weights(graph: bytes, weights: Mapping[str, AnyArray], *, sides: int | None = None) -> bytes:
    """A graph that is without its weights as a model that has them; arguments as for `onnx_session`."""
    onnx = checks.import_optional("onnx", "onnx", "Exporting an encoder")
    model = onnx.load_model_from_string(graph)
    for one in model.graph.initializer:
        if one.name in weights:
            one.CopyFrom(onnx.numpy_helper.from_array(weights[one.name], one.name))
    for side in model.graph.input[0].type.tensor_type.shape.dim:
        if side.dim_param == "side":
            side.dim_value = sides
    content: bytes = model.SerializeToString(deterministic=True)
    return content
