import json
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from dptransfer.errors import ReleaseError
from dptransfer.release import read_release
from dptransfer.release.bundle import weights_bytes

from .models import make_model, rewrite

NAME = "model.safetensors"


@pytest.fixture
def release(tmp_path):
    return make_model(features="public map").save(tmp_path / "r")


def header_of(content):
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length])


def with_header(header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def test_the_weights_file_holds_the_released_arrays_and_nothing_else(release):
    model = make_model(features="public map")
    content = (release / NAME).read_bytes()
    assert set(header_of(content)) == {"prototypes", "features.mean", "features.matrix"}  # and no metadata
    stored = load_file(release / NAME)
    assert set(stored) == set(model.weights)
    assert all((stored[name] == model.weights[name]).all() for name in stored)
    header = struct.unpack("<Q", content[:8])[0]
    assert len(content) == 8 + header + sum(array.nbytes for array in model.weights.values())


def test_arrays_keep_their_types_and_others_are_refused():
    arrays = {"a": np.arange(3, dtype=np.int32), "b": np.ones((2, 2))[:, ::-1]}
    header = header_of(weights_bytes(arrays))
    assert (header["a"]["dtype"], header["b"]["dtype"]) == ("I32", "F64")
    for dtype in (np.float32, np.int64, object):
        with pytest.raises(ReleaseError, match="float64 or int32"):
            weights_bytes({"a": np.ones(3, dtype=dtype)})


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_nan_or_infinity_in_the_weights_is_refused_whatever_the_checksums_say(release, bad):
    arrays = load_file(release / NAME)
    rewrite(release, lambda fields: None, content={NAME: save(arrays)})
    read_release(release)
    arrays["prototypes"][1, 2] = bad
    rewrite(release, lambda fields: None, content={NAME: save(arrays)})
    with pytest.raises(ReleaseError, match="finite"):
        read_release(release)


def test_an_array_more_or_less_is_refused_whatever_the_checksums_say(release):
    arrays = load_file(release / NAME)
    extra = {**arrays, "private.rows": np.ones(3)}
    rewrite(release, lambda fields: None, content={NAME: save(extra)})
    with pytest.raises(ReleaseError, match="exactly the arrays"):
        read_release(release)
    listed = {"name": "private.rows", "dtype": "float64", "shape": [3]}
    rewrite(release, lambda fields: fields["arrays"].append(listed))
    with pytest.raises(ReleaseError, match="fits together"):
        read_release(release)
    arrays.pop("features.mean")
    rewrite(release, lambda fields: None, content={NAME: save(arrays)})
    with pytest.raises(ReleaseError, match="exactly the arrays"):
        read_release(release)


def test_metadata_beside_the_arrays_is_refused(release):
    arrays = load_file(release / NAME)
    rewrite(release, lambda fields: None, content={NAME: save(arrays, metadata={"secret": "rows"})})
    with pytest.raises(ReleaseError):
        read_release(release)


def overlapping(header, data):
    header["features.mean"]["data_offsets"] = [0, 7 * 4]
    return with_header(header, data)


def huge(header, data):
    header["prototypes"].update(shape=[10**9, 10**9], data_offsets=[0, 8 * 10**18])
    return with_header(header, data)


def inexact(header, data):
    first = next(iter(header.values()))
    first["shape"] = [float(length) for length in first["shape"]]
    return with_header(header, data)


def not_quite_json(header, data):
    next(iter(header.values()))["more"] = float("nan")  # Python reads it, safetensors does not
    return with_header(header, data)


def out_of_place(header, data):
    next(iter(header.values()))["data_offsets"] = [None, "8"]
    return with_header(header, data)


def of_another_type(header, data):
    first = next(iter(header.values()))
    first.update(dtype="BF16", shape=[(first["data_offsets"][1] - first["data_offsets"][0]) // 2])
    return with_header(header, data)


HEADERS = {
    "not JSON": lambda header, data: with_header(b"{" * 50, data),
    "a list": lambda header, data: with_header([], data),
    "arrays that are numbers": lambda header, data: with_header(dict.fromkeys(header, 1), data),
    "longer than the file": lambda header, data: with_header(header, data, length=2**20 - 1),
    "longer than anything": lambda header, data: with_header(header, data, length=2**64 - 1),
    "nothing but room": lambda header, data: with_header(b" " * 2**20, data),
    "deep": lambda header, data: with_header(b"[" * 100_000, data),
    "overlapping arrays": overlapping,
    "petabytes": huge,
    "bytes after the arrays": lambda header, data: with_header(header, data + b"rows"),
    "bytes missing": lambda header, data: with_header(header, data[:-8]),
    "shapes that are no whole numbers": inexact,
    "places that are no numbers": out_of_place,
    "JSON for some parsers": not_quite_json,
    "a type that NumPy lacks": of_another_type,
    "no header": lambda header, data: b"",
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_that_lies_is_refused_before_anything_is_allocated(release, kind):
    content = (release / NAME).read_bytes()
    header = header_of(content)
    data = content[8 + struct.unpack("<Q", content[:8])[0] :]
    rewrite(release, lambda fields: None, content={NAME: HEADERS[kind](header, data)})
    with pytest.raises(ReleaseError, match=NAME):
        read_release(release)


@pytest.mark.parametrize("shape", [[0, 2**63], [0] * 70])
def test_a_shape_that_no_array_can_have_is_refused_in_words(release, shape):
    content = (release / NAME).read_bytes()
    header = header_of(content)
    header["none"] = {"dtype": "F64", "shape": shape, "data_offsets": [0, 0]}
    forged = with_header(header, content[8 + int.from_bytes(content[:8], "little") :])
    more = {"name": "none", "dtype": "float64", "shape": shape}
    rewrite(release, lambda fields: fields["arrays"].append(more), content={NAME: forged})
    with pytest.raises(ReleaseError, match="must be readable"):
        read_release(release)


def test_a_header_laid_out_otherwise_that_tells_the_truth_is_read(release):
    content = (release / NAME).read_bytes()
    data = content[8 + struct.unpack("<Q", content[:8])[0] :]
    rewrite(release, lambda fields: None, content={NAME: with_header(header_of(content), data)})
    read_release(release)
