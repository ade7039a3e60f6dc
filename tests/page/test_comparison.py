"""A page that computes something else than Python is found."""

import shutil

import pytest

from dptransfer.errors import ReleaseError
from dptransfer.page import compare_with_python, comparison, write_page
from dptransfer.page.ort_runtime import MODULE
from dptransfer.release import read_release


@pytest.fixture(scope="module")
def site(release, encoder, stub, tmp_path_factory):
    out = tmp_path_factory.mktemp("compared") / "site"
    write_page(release, out, encoder, stub)
    return out


@pytest.fixture
def no_node(monkeypatch):
    monkeypatch.setattr(comparison.shutil, "which", lambda name: None)


@pytest.mark.usefixtures("no_node")
def test_the_graphs_of_a_page_give_what_python_gives(site, model, encoder):
    found = compare_with_python(site, model, encoder)
    assert found.by == "ONNX Runtime"
    assert found.inputs > 1
    assert max(found.rows, found.probabilities) < 1e-6


@pytest.mark.usefixtures("no_node")
@pytest.mark.parametrize("other", ["encoder.onnx", "head.onnx"])
def test_a_page_of_another_model_is_refused(site, model, encoder, bare_release, tmp_path, stub, other):
    import onnx

    copy = shutil.copytree(site, tmp_path / "site")
    graph = onnx.load(copy / other)
    for one in graph.graph.initializer:
        if one.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE) and len(one.dims) == 2:
            values = onnx.numpy_helper.to_array(one).copy()
            one.CopyFrom(onnx.numpy_helper.from_array(values[::-1].copy(), one.name))
    onnx.save(graph, copy / other)
    with pytest.raises(ReleaseError):
        compare_with_python(copy, model, encoder)


def test_node_that_cannot_run_a_page_is_an_error(site, model, encoder, node):
    (site / MODULE).read_bytes()  # a stub, which exports nothing
    with pytest.raises(ReleaseError):
        compare_with_python(site, model, encoder)


@pytest.mark.slow
@pytest.mark.parametrize("bare", [False, True])
def test_node_runs_the_page_and_agrees(release, bare_release, encoder, runtime, node, tmp_path, bare):
    path, own = (bare_release, None) if bare else (release, encoder)
    write_page(path, tmp_path / "site", own, runtime)
    found = compare_with_python(tmp_path / "site", read_release(path), own)
    assert found.by == "Node"
    assert max(found.rows, found.probabilities) < 1e-6
