"""Build, cache and run ONNX graphs.

A call of one item runs on one thread, and as many calls as there are cores run side by side: nothing is
shared among items but the weights, so neither the size of a batch nor the number of threads can reach a row.
It is the fastest way on a CPU, too. Measured with efficientnet-lite0 at 224 and 128 pixels and ONNX Runtime
1.31: rows of calls of 1, 2, 7, 8, 16, 32 and 64 pictures, on one thread and on two, are bit-identical anyway,
and none of these sizes is faster than one picture a call.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dptransfer.base import checks
from dptransfer.base.worker_env import usable_cores
from dptransfer.data.atomic_files import write_if_possible
from dptransfer.errors import ArgumentError, DataError, ReleaseError
from dptransfer.exact.chunks import side_by_side
from dptransfer.exact.principal_axes import cache_folder

_OPERATORS, _FORMAT = 17, 8  # old enough for every ONNX Runtime from 1.13 on
_LARGEST = 2**31 - 2**20  # what a protocol buffer can hold


Operand: TypeAlias = str | float | list[int] | NDArray[Any]
"""The input of an operation: the name of another's output, a constant of the graph's type, or a shape."""


class OnnxGraph:
    """A graph whose parts are called by the names of what they give.

    Args:
        name: what the graph is called.
        extra: the extra of ours that installs what it is written with.
        dtype: of constants, where nothing else is said.
    """

    def __init__(self, name: str, *, extra: str, dtype: Any = np.float32) -> None:
        self._onnx = checks.import_optional("onnx", extra, f"Making the graph of {name}")
        self._name = name
        self._dtype = dtype
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}

    def node(self, kind: str, *inputs: Operand, named: str | None = None, **settings: Any) -> str:
        """Add an operation; the name of its output. Inputs that are no names become constants."""
        names = [one if isinstance(one, str) else self._inlined(one) for one in inputs]
        output = named or f"{kind}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, names, [output], **settings))
        return output

    def _inlined(self, value: float | list[int] | NDArray[Any]) -> str:
        return self.constant(value, dtype=np.int64 if isinstance(value, list) else None)

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


Inputs = Mapping[str, NDArray[Any]]
"""What a model is given, by the names of its inputs."""


def onnx_session(model: bytes | Path, *, extra: str, device: str = "cpu") -> Any:
    """The model, loaded; on a CPU it computes on the thread that calls it.

    Args:
        model: a file, or what would be in it.
        extra: the extra of ours that installs ONNX Runtime for this.
        device: 'cpu' or 'cuda'.
    """
    onnxruntime = checks.import_optional("onnxruntime", extra, "An ONNX encoder")
    if isinstance(model, Path) and not model.is_file():
        raise DataError(f"'{model}': the ONNX file must exist; it does not. Check the path.")
    provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(device.partition(":")[0])
    built = onnxruntime.get_available_providers()
    if provider not in built:
        raise ArgumentError(
            f"device={device!r} must be one this ONNX Runtime was built for ({', '.join(built)}). "
            "Use device='cpu'."
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # a library never prints
    given = model if isinstance(model, bytes) else str(model)
    try:
        return onnxruntime.InferenceSession(given, options, providers=[provider])
    except Exception as error:  # ONNX Runtime's own errors share no public base class
        what = "A graph" if isinstance(model, bytes) else f"'{model}': the file"
        raise DataError(
            f"{what} must be an ONNX model that ONNX Runtime can load; it is not "
            f"({type(error).__name__}). Export it again."
        ) from None


def run_each(session: Any, items: Sequence[Inputs]) -> list[NDArray[Any]]:
    """The model's first output for each item, in order, on all cores."""
    return list(side_by_side(lambda item: session.run(None, item)[0], items, usable_cores()))


def cached_onnx_model(name: str, weights: Path, make: Callable[[], bytes]) -> bytes:
    """The model from the cache folder, or made and stored there.

    The file's name ends in the digest of its content, so a damaged file is recognised and made again; and the
    digest of the weights stands before it, so other weights have a model of their own. Anybody can name a
    file so: in a folder that several people share, a file that others could have written is ignored. A model
    of theirs could make a row depend on the calls before it, and no guarantee covers that.

    Args:
        name: of the graph; another for each way of making it.
        weights: the file that it is made from.
        make: makes it.
    """
    with weights.open("rb") as stream:
        source = hashlib.file_digest(stream, "sha256").hexdigest()[:16]
    beginning = f"{name}-{source}-"
    with suppress(OSError):
        for file in sorted(cache_folder().glob(f"{beginning}*.onnx")):
            with file.open("rb") as stream:
                graph, ours = stream.read(), _is_ours(stream)
            if ours and file.name == _named(beginning, graph):
                return graph
    graph = make()
    write_if_possible(cache_folder() / _named(beginning, graph), graph)
    return graph


def _named(beginning: str, graph: bytes) -> str:
    return f"{beginning}{hashlib.sha256(graph).hexdigest()}.onnx"


def _is_ours(stream: IO[bytes]) -> bool:
    """Whether nobody but this user, or the machine's administrator, can have written the file."""
    found = os.fstat(stream.fileno())
    return os.name != "posix" or (found.st_uid in (0, os.getuid()) and not found.st_mode & 0o022)
