import base64
import json
import struct

import numpy as np
import pytest

from dptransfer.errors import DataError
from dptransfer.serve.protocol import (
    InferRequest,
    TensorSpec,
    infer_answer,
    read_infer_request,
    read_invocation,
)

ROWS = TensorSpec("rows", "FP32", (-1, 3))
TEXT, FILES, PIXELS = (
    TensorSpec("text", "BYTES", (-1,)),
    TensorSpec("image_bytes", "BYTES", (-1,)),
    TensorSpec("image", "UINT8", (-1, -1, -1, 3)),
)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
LABEL, SCORES = TensorSpec("label", "BYTES", (-1,)), TensorSpec("scores", "FP32", (-1, 2))


def tensor(name="rows", datatype="FP32", shape=(2, 3), data=None, **parameters):
    found = {"name": name, "datatype": datatype, "shape": list(shape)}
    found |= {} if data is None else {"data": data}
    return found | ({"parameters": parameters} if parameters else {})


def read(*inputs, rest=b"", specs=(ROWS, TEXT, FILES, PIXELS), binary=False, **told):
    head = json.dumps({"inputs": inputs, **told}).encode()
    return read_infer_request(head + rest, len(head) if rest or binary else None, specs)


@pytest.mark.parametrize("data", [X.tolist(), X.ravel().tolist()])
def test_rows_come_as_lists_nested_or_flat(data):
    assert (read(tensor(data=data)).items == X).all()


@pytest.mark.parametrize(
    ("datatype", "kind"), [("FP16", "<f2"), ("FP32", "<f4"), ("FP64", "<f8"), ("INT8", "i1")]
)
def test_rows_come_as_bytes_of_any_type(datatype, kind):
    content = X.astype(kind).tobytes()
    found = read(tensor(datatype=datatype, binary_data_size=len(content)), rest=content)
    assert (found.items == X).all()


def test_texts_and_files_come_as_bytes_with_their_length_in_front():
    parts = [b"a picture", b"", b"\x00\xff"]
    content = b"".join(struct.pack("<I", len(one)) + one for one in parts)
    assert (
        read(tensor("image_bytes", "BYTES", [3], binary_data_size=len(content)), rest=content).items == parts
    )
    words = struct.pack("<I", 2) + "ε".encode()
    assert read(tensor("text", "BYTES", [1], binary_data_size=6), rest=words).items == ["ε"]


def test_files_are_base64_in_json_and_texts_are_texts():
    encoded = base64.b64encode(b"\x00\xff").decode()
    assert read(tensor("image_bytes", "BYTES", [1], [encoded])).items == [b"\x00\xff"]
    assert read(tensor("text", "BYTES", [2], ["one", "two"])).items == ["one", "two"]


def test_pixels_are_bytes_of_any_size():
    x = np.arange(24).reshape(1, 2, 4, 3)
    found = read(tensor("image", "UINT8", x.shape, x.tolist())).items
    assert found.dtype == np.uint8
    assert (found == x).all()


def test_sets_outputs_and_id_are_read():
    outputs = [{"name": "label"}, {"name": "scores", "parameters": {"binary_data": True}}]
    asked = {"coverage": 0.8, "confidence": 0.9}
    found = read(tensor(data=X.tolist()), id="7", outputs=outputs, parameters=asked)
    assert (found.id, found.coverage, found.confidence) == ("7", 0.8, 0.9)
    assert found.outputs == {"label": False, "scores": True}


def read_text(content, count=1, name="text"):
    return read(tensor(name, "BYTES", [count], binary_data_size=len(content)), rest=content)


REFUSED = {
    "no input": lambda: read(),
    "two inputs": lambda: read(tensor(data=[]), tensor(data=[])),
    "an input that the model does not take": lambda: read(tensor("pixels", data=[])),
    "another width": lambda: read(tensor(shape=[1, 2], data=[1, 2])),
    "a shape that is not filled": lambda: read(tensor(data=[1, 2])),
    "a shape of other things": lambda: read(tensor(shape=["a"], data=[1])),
    "a negative side": lambda: read(tensor(shape=[-1, 3], data=[1, 2, 3])),
    "more sides than can be multiplied": lambda: read(
        tensor(shape=[2**31 - 1] * 100_000, binary_data_size=24), rest=bytes(24)
    ),
    "no number": lambda: read(tensor(data=[float("nan")] * 6)),
    "infinity": lambda: read(tensor(binary_data_size=24), rest=np.full(6, np.inf, "<f4").tobytes()),
    "words for numbers": lambda: read(tensor(data=["a"] * 6)),
    "numbers for words": lambda: read(tensor("text", "BYTES", [1], [1])),
    "no data": lambda: read(tensor()),
    "files that are not base64": lambda: read(tensor("image_bytes", "BYTES", [1], ["ä"])),
    "pixels beyond bytes": lambda: read(tensor("image", "UINT8", [1, 1, 1, 3], [0, 1, 256])),
    "fractions for pixels": lambda: read(tensor("image", "UINT8", [1, 1, 1, 3], [0, 1, 0.5])),
    "another size of bytes": lambda: read(tensor(binary_data_size=23), rest=bytes(24)),
    "half a number": lambda: read(tensor(binary_data_size=23), rest=bytes(23)),
    "an unknown type": lambda: read(tensor(datatype="FP8", binary_data_size=6), rest=bytes(6)),
    "bytes for an array of another type": lambda: read(
        tensor(datatype="UINT8", binary_data_size=6), rest=bytes(6)
    ),
    "texts that end early": lambda: read(
        tensor("text", "BYTES", [1], binary_data_size=5), rest=b"\x09\0\0\0a"
    ),
    "a length that ends early": lambda: read(
        tensor("text", "BYTES", [1], binary_data_size=2), rest=b"\x09\0"
    ),
    "texts that are not UTF-8": lambda: read(
        tensor("text", "BYTES", [1], binary_data_size=5), rest=b"\1\0\0\0\xff"
    ),
    "more texts than are told": lambda: read(
        tensor("text", "BYTES", [2], binary_data_size=5), rest=b"\1\0\0\0a"
    ),
    "bytes where there should be numbers": lambda: read(
        tensor(datatype="BYTES", shape=[1], binary_data_size=5), rest=b"\1\0\0\0a"
    ),
    "JSON that goes on too long": lambda: read_infer_request(b"{}", 3, (ROWS,)),
    "a length that is none": lambda: read_infer_request(b"{}", -1, (ROWS,)),
    "no JSON": lambda: read_infer_request(b"\xff{", None, (ROWS,)),
    "deep JSON": lambda: read_infer_request(b"[" * 100_000, None, (ROWS,)),
    "too many lists": lambda: read_infer_request(b"[" + b"[]," * 2**20 + b"[]]", None, (ROWS,)),
    "CSV without end": lambda: read_invocation(b"a\n" + b"1" * 200_000, "text/csv", (ROWS,)),
    "half a surrogate pair": lambda: read(tensor(data=X.tolist()), id="\ud800"),
    "UTF-16": lambda: read_infer_request("{}".encode("utf-16"), None, (ROWS,)),
    "a list": lambda: read_infer_request(b"[]", None, (ROWS,)),
    "parameters that are none": lambda: read(tensor(data=X.tolist()), parameters=[1]),
    "a coverage that is no number": lambda: read(tensor(data=X.tolist()), parameters={"coverage": "high"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_that_cannot_be_read_is_refused_and_its_content_is_not_repeated(name):
    with pytest.raises(DataError) as refused:
        REFUSED[name]()
    assert "ä" not in str(refused.value)


def invoked(told, specs=(ROWS,), kind="application/json"):
    return read_invocation(told if isinstance(told, bytes) else json.dumps(told).encode(), kind, specs)


@pytest.mark.parametrize(
    "told",
    [
        {"instances": X.tolist()},
        {"inputs": X.tolist()},
        {"dataframe_split": {"columns": ["a", "b", "c"], "data": X.tolist()}},
        {"dataframe_records": [dict(zip("abc", row, strict=True)) for row in X.tolist()]},
    ],
)
def test_mlflows_forms_of_rows_are_read(told):
    assert (invoked(told).items == X).all()


def test_mlflows_csv_texts_and_sets_are_read():
    assert (invoked(b"a,b,c\n0,1,2\n3,4,5\n", kind="text/csv; charset=utf-8").items == X).all()
    assert invoked({"inputs": ["one", "two"]}, (ROWS, TEXT)).items == ["one", "two"]
    split = {"dataframe_split": {"columns": ["text"], "data": [["one"]]}}
    assert invoked(split, (ROWS, TEXT)).items == ["one"]
    assert invoked({"inputs": X.tolist(), "params": {"coverage": 0.7}}).coverage == 0.7


@pytest.mark.parametrize(
    "told",
    [{}, {"inputs": [], "instances": []}, {"inputs": 3}, {"dataframe_split": 3}, {"dataframe_records": [3]}],
)
def test_what_is_none_of_mlflows_forms_is_refused(told):
    with pytest.raises(DataError):
        invoked(told)


def test_answers_are_json_or_bytes_as_they_are_wanted():
    scores = np.array([[0.25, 0.75]], dtype=np.float32)
    outputs = {"label": (LABEL, ["ε"]), "scores": (SCORES, scores)}
    body, length = infer_answer(InferRequest(X), "m", outputs)
    assert length is None
    told = json.loads(body)
    assert [one["data"] for one in told["outputs"]] == [["ε"], [0.25, 0.75]]
    assert [one["shape"] for one in told["outputs"]] == [[1], [1, 2]]
    body, length = infer_answer(
        InferRequest(X, id="7", outputs={"scores": True, "label": True}), "m", outputs
    )
    told = json.loads(body[:length])
    assert told["id"] == "7"
    assert [one["parameters"]["binary_data_size"] for one in told["outputs"]] == [6, 8]
    assert body[length:] == b"\2\0\0\0" + "ε".encode() + scores.tobytes()
    with pytest.raises(DataError):
        infer_answer(InferRequest(X, outputs={"logits": False}), "m", outputs)
