"""Requests and answers of the Open Inference Protocol (version 2 over HTTP) and of MLflow's `/invocations`.

A request is JSON with tensors inside of it. With the extension for binary data the JSON comes first, its
length is in the header `Inference-Header-Content-Length`, and the tensors follow as bytes, in order; the
elements of a tensor of type BYTES each have their length in front, four bytes with the lowest first.

In JSON the content of a picture file is text in base64. Nothing here knows a model but by the inputs that it
takes, and whatever cannot be read is a `DataError`, whose message tells types and sizes and no content.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.types import AnyArray, JsonObject
from dptransfer.errors import DataError

Items: TypeAlias = AnyArray | list[bytes] | list[str]
"""Inputs in the form that `PrivateClassifier.scores` takes."""

_NUMPY = {
    **{"BOOL": "?", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8"},
    **{f"INT{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)},
    **{f"UINT{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)},
}
_LENGTH = struct.Struct("<I")
_MOST_SIDES = 8  # of a shape
_MOST_LISTS = 2**20  # and objects, of a JSON; each takes some 20 times the memory of its three bytes


@dataclass(frozen=True)
class TensorSpec:
    """An input or an output: its name, type and shape, -1 for any number."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def to_dict(self) -> JsonObject:
        """As the metadata of a model list it."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


@dataclass(frozen=True)
class InferRequest:
    """What a client asks.

    Attributes:
        items: rows, pictures or texts.
        id: the client's name for the request, which the answer repeats.
        coverage: for sets of classes that hold the true one so often; None for no sets.
        confidence: how sure that is to hold.
        outputs: the outputs wanted, each with whether it is wanted as bytes; empty for all of them.
        binary: whether outputs that are not named are wanted as bytes.
    """

    items: Items
    id: str = ""
    coverage: float | None = None
    confidence: float = 0.95
    outputs: Mapping[str, bool] = field(default_factory=dict)
    binary: bool = False


def read_infer_request(body: bytes, json_length: int | None, inputs: Sequence[TensorSpec]) -> InferRequest:
    """The request in this body.

    Args:
        body: JSON, with the bytes of tensors behind it.
        json_length: the length of the JSON, where a header told one.
        inputs: what the model takes; a request has one of them.
    """
    end = len(body) if json_length is None else json_length
    if not 0 <= end <= len(body):
        raise DataError(f"Inference-Header-Content-Length must lie within the body; it is {end}.")
    told, rest = _json_object(body[:end]), memoryview(body)[end:]
    given = _list_of_objects(told.get("inputs"), "inputs")
    if len(given) != 1:
        raise DataError(f"A request must have one input; it has {len(given)}. {_takes(inputs)}")
    items = _read_tensor(given[0], rest, inputs)
    wanted = _list_of_objects(told.get("outputs", []), "outputs")
    asked = _parameters(told)
    binary = bool(asked.get("binary_data_output", False))
    return InferRequest(
        items,
        id=str(told.get("id", "")),
        outputs={str(one.get("name")): bool(_parameters(one).get("binary_data", binary)) for one in wanted},
        binary=binary,
        **_sets_asked(asked),
    )


def read_invocation(body: bytes, content_type: str, inputs: Sequence[TensorSpec]) -> InferRequest:
    """The request of MLflow's scoring protocol in this body: JSON, or CSV with a line of names.

    Texts and pictures (in base64) are a column, or a list; all other columns are numbers.
    """
    asked: JsonObject = {}
    found: Any
    if content_type.partition(";")[0].strip() == "text/csv":
        try:
            found = list(csv.reader(io.StringIO(_text(body))))[1:]
        except csv.Error:
            raise DataError("The body must be CSV; it cannot be read.") from None
    else:
        told = _json_object(body)
        asked = told.get("params") or {}
        forms: dict[str, Callable[[Any], Any]] = {
            "dataframe_split": lambda frame: frame["data"],
            "dataframe_records": lambda records: [list(one.values()) for one in records],
            "instances": lambda rows: rows,
            "inputs": lambda rows: rows,
        }
        named = [name for name in forms if name in told]
        if len(named) != 1:
            raise DataError(f"A request must have one of {', '.join(forms)}; it has {len(named)}.")
        try:
            found = forms[named[0]](told[named[0]])
        except (AttributeError, KeyError, TypeError):
            raise DataError(f"'{named[0]}' must have MLflow's form; it has another.") from None
    if not isinstance(found, list):
        raise DataError("The inputs must be a list, or a table; this is neither.")
    cells = [one[0] if isinstance(one, list) and len(one) == 1 else one for one in found]
    words = bool(cells) and all(isinstance(one, str) for one in cells)
    for spec in inputs:
        if spec.datatype == "BYTES" and words:
            return InferRequest(_strings(spec, cells), **_sets_asked(asked))
    return InferRequest(_numbers(inputs[0], found, None), **_sets_asked(asked))


def infer_answer(
    request: InferRequest, model: str, outputs: Mapping[str, tuple[TensorSpec, Any]]
) -> tuple[bytes, int | None]:
    """The body of an answer, and the length of the JSON in it where bytes follow.

    Args:
        request: what was asked.
        model: its name.
        outputs: all that there is to tell, arrays and lists of texts.
    """
    unknown = sorted(set(request.outputs) - set(outputs))
    if unknown:
        raise DataError(f"Outputs must be among {', '.join(outputs)}; got {', '.join(unknown)[:80]}.")
    told, parts = [], []
    for name, (spec, values) in outputs.items():
        if request.outputs and name not in request.outputs:
            continue
        shape = [len(values), *spec.shape[1:]]
        one: JsonObject = {"name": name, "datatype": spec.datatype, "shape": shape}
        if request.outputs.get(name, request.binary):
            part = _as_bytes(spec, values)
            one["parameters"] = {"binary_data_size": len(part)}
            parts.append(part)
        else:
            one["data"] = values if spec.datatype == "BYTES" else values.ravel().tolist()
        told.append(one)
    answer: JsonObject = {"model_name": model, "outputs": told}
    if request.id:
        answer["id"] = request.id
    head = json.dumps(answer, ensure_ascii=False).encode()
    return b"".join((head, *parts)), len(head) if parts else None


def _as_bytes(spec: TensorSpec, values: Any) -> bytes:
    if spec.datatype == "BYTES":
        encoded = [one.encode() for one in values]
        return b"".join(_LENGTH.pack(len(one)) + one for one in encoded)
    array: AnyArray = np.ascontiguousarray(values, dtype=_NUMPY[spec.datatype])
    return array.tobytes()


def _read_tensor(given: JsonObject, rest: memoryview, inputs: Sequence[TensorSpec]) -> Items:
    spec = next((one for one in inputs if one.name == given.get("name")), None)
    if spec is None:
        raise DataError(f"The input must be one that the model takes; it is not. {_takes(inputs)}")
    datatype, shape = given.get("datatype"), given.get("shape")
    # A product of many sides would be a number of many digits, and take hours.
    if not (isinstance(datatype, str) and isinstance(shape, list) and len(shape) <= _MOST_SIDES) or not all(
        map(_is_side, shape)
    ):
        raise DataError(f"The input '{spec.name}' must have a datatype and a shape of whole numbers.")
    size = _parameters(given).get("binary_data_size")
    if size is not None:
        if type(size) is not int or size != len(rest):
            raise DataError(f"binary_data_size must be that of the bytes behind the JSON, {len(rest)}.")
        found = _strings_in(rest) if datatype == "BYTES" else _array_in(rest, datatype)
        if len(found) != prod(shape):
            raise DataError(f"The input '{spec.name}' must fill its shape; it has {len(found)} values.")
        if isinstance(found, list):
            return _fit_strings(spec, found)
        return _fit(spec, found.reshape(shape))
    data = given.get("data")
    if not isinstance(data, list):
        raise DataError(f"The input '{spec.name}' must have its data as a list, or as bytes.")
    return _strings(spec, _flat(data)) if spec.datatype == "BYTES" else _numbers(spec, data, shape)


def _is_side(found: object) -> bool:
    return type(found) is int and 0 <= found < 2**31


def _strings_in(rest: memoryview) -> list[bytes]:
    found, place = [], 0
    while place < len(rest):
        start = place + _LENGTH.size
        stop = start + (_LENGTH.unpack_from(rest, place)[0] if start <= len(rest) else len(rest))
        if stop > len(rest):
            raise DataError(
                "Elements of the type BYTES must each have their length in front; one ends early."
            )
        found.append(bytes(rest[start:stop]))
        place = stop
    return found


def _array_in(rest: memoryview, datatype: str) -> AnyArray:
    if datatype not in _NUMPY:
        raise DataError(f"The datatype must be one of {', '.join(_NUMPY)} or BYTES; it is another.")
    kind = np.dtype(_NUMPY[datatype])
    if len(rest) % kind.itemsize:
        raise DataError(f"Values of the type {datatype} take {kind.itemsize} bytes; {len(rest)} came.")
    return np.frombuffer(rest, dtype=kind)


def _numbers(spec: TensorSpec, data: object, shape: Sequence[int] | None) -> AnyArray:
    kind = np.uint8 if spec.datatype == "UINT8" else np.float64
    try:
        found = np.array(data, dtype=np.float64)
        if shape is not None:
            found = found.reshape(shape)
        whole = found.astype(kind)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"The input '{spec.name}' must be numbers that fill its shape; it is not.") from None
    if kind is np.uint8 and not np.array_equal(whole, found):
        raise DataError(f"The input '{spec.name}' must be whole numbers from 0 to 255; it is not.")
    return _fit(spec, whole)


def _fit(spec: TensorSpec, found: NDArray[Any]) -> AnyArray:
    """The array, if its shape is that of the input and its type can be taken for it."""
    sides = len(found.shape) == len(spec.shape) and all(
        wanted in (-1, got) for wanted, got in zip(spec.shape, found.shape, strict=True)
    )
    if not sides or spec.datatype == "BYTES" or (spec.datatype == "UINT8") != (found.dtype == np.uint8):
        wanted = f"{spec.datatype} of the shape {list(spec.shape)}"
        raise DataError(f"The input '{spec.name}' must be {wanted}; got the shape {list(found.shape)}.")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise DataError(f"The input '{spec.name}' must have finite numbers; some are not.")
    return found


def _strings(spec: TensorSpec, data: Sequence[object]) -> Items:
    if not all(isinstance(one, str) for one in data):
        raise DataError(f"The input '{spec.name}' must be texts; some of it is not.")
    texts = [str(one) for one in data]
    if spec.name == "text":
        return texts
    try:
        return [base64.b64decode(one, validate=True) for one in texts]
    except (binascii.Error, ValueError):
        raise DataError("In JSON the content of a picture file must be base64; this is not.") from None


def _fit_strings(spec: TensorSpec, found: list[bytes]) -> Items:
    if spec.datatype != "BYTES":
        raise DataError(f"The input '{spec.name}' must be {spec.datatype}; got BYTES.")
    return [_text(one) for one in found] if spec.name == "text" else found


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise DataError("Texts must be UTF-8; this one is not.") from None


def _json_object(content: bytes) -> JsonObject:
    if content.count(b"[") + content.count(b"{") > _MOST_LISTS:
        raise DataError(f"The JSON must have at most {_MOST_LISTS} lists and objects. Send tensors as bytes.")
    try:
        found = json.loads(content.decode())
        if b"\\ud" in content.lower():  # half of a surrogate pair is no text, and no answer could repeat it
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise DataError("The body must be JSON; it cannot be read.") from None
    if not isinstance(found, dict):
        raise DataError("The body must be a JSON object; it is something else.")
    return found


def _parameters(told: Mapping[str, Any]) -> Mapping[str, Any]:
    found = told.get("parameters") or {}
    if not isinstance(found, dict):
        raise DataError("'parameters' must be a JSON object; it is something else.")
    return found


def _sets_asked(asked: Any) -> dict[str, Any]:
    """Coverage and confidence, where they are asked for; the model checks how large they are."""
    found = {}
    for name in ("coverage", "confidence"):
        value = asked.get(name) if isinstance(asked, dict) else None
        if value is not None:
            if type(value) not in (int, float):
                raise DataError(f"'{name}' must be a number, such as 0.9; it is something else.")
            found[name] = float(value)
    return found


def _list_of_objects(found: object, name: str) -> list[JsonObject]:
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise DataError(f"'{name}' must be a list of JSON objects; it is not.")
    return found


def _flat(data: Sequence[Any]) -> list[object]:
    return [inner for one in data for inner in (one if isinstance(one, list) else [one])]


def _takes(inputs: Sequence[TensorSpec]) -> str:
    return "The model takes " + " or ".join(f"'{one.name}' ({one.datatype})" for one in inputs) + "."
