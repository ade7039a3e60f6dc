"""An ONNX graph in the making: operations and constants are added one by one, and the whole is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dptransfer import _check
from dptransfer.errors import ReleaseError

_OPERATORS, _FORMAT = 17, 8  # old enough for every ONNX Runtime from 1.13 on
_LARGEST = 2**31 - 2**20  # what a protocol buffer can hold


class OnnxGraph:
    """A graph whose parts are called by the names of what they give.

    Args:
        name: what the graph is called.
        extra: the extra of ours that installs what it is written with.
        dtype: of constants, where nothing else is said.
    """

    def __init__(self, name: str, *, extra: str, dtype: Any = np.float32) -> None:
        self._onnx = _check.installed("onnx", extra, f"Making the graph of {name}")
        self._name = name
        self._dtype = dtype
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}

    def node(self, kind: str, *inputs: str, named: str | None = None, **settings: Any) -> str:
        """Add an operation; the name of what it gives."""
        output = named or f"{kind}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [output], **settings))
        return output

    def constant(self, value: Any, name: str | None = None, *, dtype: Any = None) -> str:
        """Add an array; its name. Numbers and lists are added once; an array without a name is a new one."""
        kind = np.dtype(self._dtype if dtype is None else dtype)
        if name is None and isinstance(value, np.ndarray):
            name = f"constant_{len(self._constants)}"
        name = name or f"is {value}" + f" ({kind.name})" * (kind != np.float32)
        self._constants[name] = self._onnx.numpy_helper.from_array(np.asarray(value, dtype=kind), name)
        return name

    def cast(self, value: str, kind: str, *, named: str | None = None) -> str:
        """Convert to a type, as ONNX calls it, such as 'DOUBLE'."""
        return self.node("Cast", value, named=named, to=getattr(self._onnx.TensorProto, kind))

    def written(
        self,
        inputs: Mapping[str, tuple[str, Sequence[int | str]]],
        outputs: Mapping[str, tuple[str, Sequence[int | str]]],
        notes: Mapping[str, str],
    ) -> bytes:
        """The whole, as it stands in a file.

        Args:
            inputs: type (as ONNX calls it, such as 'FLOAT') and shape of each.
            outputs: likewise.
            notes: what is told in the file's metadata.
        """
        helper, types = self._onnx.helper, self._onnx.TensorProto

        def told(ends: Mapping[str, tuple[str, Sequence[int | str]]]) -> list[Any]:
            return [
                helper.make_tensor_value_info(name, getattr(types, kind), list(shape))
                for name, (kind, shape) in ends.items()
            ]

        graph = helper.make_graph(
            self._nodes, self._name, told(inputs), told(outputs), list(self._constants.values())
        )
        operators = [helper.make_opsetid("", _OPERATORS)]
        model = helper.make_model(graph, opset_imports=operators, ir_version=_FORMAT)
        helper.set_model_props(model, dict(notes))
        if model.ByteSize() > _LARGEST:
            raise ReleaseError(
                f"An ONNX file may hold at most {_LARGEST} bytes; that of {self._name} needs "
                f"{model.ByteSize()}. Use the Python library instead."
            )
        written: bytes = model.SerializeToString(deterministic=True)
        return written
