import hashlib
import os
from contextlib import nullcontext
from unittest import mock

import pytest

from contracts.full_disk import full_disk
from dptransfer.encoders.onnx_graph import cached_onnx_model


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def weights(tmp_path):
    (tmp_path / "weights").write_bytes(b"public")
    return tmp_path / "weights"


@pytest.fixture
def make():
    return mock.Mock(return_value=b"a graph")


def test_a_graph_is_made_once_for_a_name_and_its_weights(cache, weights, make):
    assert [cached_onnx_model("net", weights, make) for _ in range(3)] == [b"a graph"] * 3
    assert make.call_count == 1
    cached_onnx_model("net-2", weights, make)
    weights.write_bytes(b"other")
    cached_onnx_model("net", weights, make)
    assert make.call_count == 3
    assert len(list(cache.iterdir())) == 3


@pytest.mark.parametrize("left", [b"a grapf", b"a graph and more"])
def test_a_damaged_graph_is_made_again(cache, weights, make, left):
    cached_onnx_model("net", weights, make)
    next(cache.iterdir()).write_bytes(left)
    assert [cached_onnx_model("net", weights, make) for _ in range(2)] == [b"a graph"] * 2
    assert make.call_count == 2


@pytest.mark.parametrize("problem", ["no folder", "no room"])
def test_a_cache_that_cannot_be_written_costs_time_alone(cache, weights, make, monkeypatch, problem):
    if problem == "no folder":
        monkeypatch.setenv("DPTRANSFER_CACHE", str(weights / "below"))
    with full_disk(3) if problem == "no room" else nullcontext():
        assert [cached_onnx_model("net", weights, make) for _ in range(2)] == [b"a graph"] * 2
    assert make.call_count == 2
    assert list(cache.iterdir() if cache.exists() else []) == []


def test_a_graph_that_others_could_have_written_is_made_again(cache, weights, make):
    old = os.umask(0o002)
    try:
        cached_onnx_model("net", weights, make)
    finally:
        os.umask(old)
    assert cached_onnx_model("net", weights, make) == b"a graph"
    assert make.call_count == 1
    (kept,) = cache.iterdir()
    planted = kept.with_name(f"{kept.name[:-69]}{hashlib.sha256(b'theirs').hexdigest()}.onnx")
    planted.write_bytes(b"theirs")
    kept.unlink()
    planted.chmod(0o666)
    assert cached_onnx_model("net", weights, make) == b"a graph"
    planted.chmod(0o600)  # the half that can fail: as our own it is taken
    next(path for path in cache.iterdir() if path != planted).unlink()
    assert cached_onnx_model("net", weights, make) == b"theirs"
