import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from dptransfer.encoders.onnx_graph import OnnxGraph
from dptransfer.errors import MissingDependency, ReleaseError, UnsafeRelease
from dptransfer.exact.feature_map import OnLattice, release_readers
from dptransfer.release import export_onnx
from dptransfer.release.calibration import SIMULATED, Calibration
from dptransfer.release.onnx_export import mapped_rows

from .models import CLASSES, DIMENSION, feature_maps, heads, make_model, rows

onnxruntime = pytest.importorskip("onnxruntime")


def run(path, x, *names):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(names or ["scores", "label_index"], {"rows": x})


def awkward_rows(dtype):
    """Ordinary rows, large, small, zero, one-hot, rows of powers of two, and rows with NaN and infinity."""
    x = rows(40)
    one_hot = np.eye(7)[:2] * 4.0
    odd = np.ones((2, 7))
    odd[0, 3], odd[1, 2] = np.nan, -np.inf
    return np.vstack(
        [x, x * 1e30, x * 1e-30, np.zeros((1, 7)), one_hot, 2.0 ** np.arange(-3, 4)[None], odd]
    ).astype(dtype)


@pytest.mark.parametrize("head", tuple(heads(7)))
@pytest.mark.parametrize("features", ["side by side", "rooted public map"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_graph_scores_as_the_model_does(head, features, precision, tmp_path):
    model = make_model(head, features)
    x = awkward_rows(precision)
    scores, labels = run(export_onnx(model, tmp_path / "m.onnx", precision=precision), x)
    expected = model.scores(x)
    assert scores.dtype == precision
    tolerance = {"float32": 1e-6, "float64": 1e-13}[precision]
    np.testing.assert_allclose(scores, expected, rtol=tolerance, atol=tolerance)
    assert (labels == expected.argmax(axis=1)).mean() > 0.97  # ties of zero rows may fall either way
    assert np.abs(scores - model.scores(-x)).max() > 0.01


@pytest.mark.parametrize("head", tuple(heads(7)))
@pytest.mark.parametrize("calibration", [None, Calibration(0.4, (6.0, 0.0, -6.0), SIMULATED)])
def test_the_graph_gives_the_probabilities_of_the_model_and_its_own_label_the_highest(
    head, calibration, tmp_path
):
    model = replace(make_model(head), simulated=calibration)
    x = rows(200).astype(np.float32)
    path = export_onnx(model, tmp_path / "m.onnx")
    chances, labels = run(path, x, "probabilities", "label_index")
    np.testing.assert_allclose(chances, model.predict_proba(x), rtol=1e-4, atol=1e-5)
    assert (chances.argmax(axis=1) == labels).all()
    plain = replace(model, simulated=None).predict_proba(x)
    assert np.allclose(chances, plain, atol=1e-4) == (calibration is None)


def test_no_rows_and_one_row_are_fine(tmp_path):
    path = export_onnx(make_model(features="pooled"), tmp_path / "m.onnx")
    for count in (0, 1):
        scores, labels = run(path, rows(count).astype(np.float32))
        assert scores.shape == (count, 3)
        assert labels.shape == (count,)


def test_the_file_carries_classes_and_guarantee(tmp_path):
    import onnx

    model = make_model()
    proto = onnx.load(export_onnx(model, tmp_path / "deep" / "m.onnx"))
    found = {entry.key: entry.value for entry in proto.metadata_props}
    assert tuple(json.loads(found["classes"])) == CLASSES
    assert json.loads(found["guarantee"])["epsilon"] == model.guarantee.epsilon == float(found["epsilon"])
    assert (found["delta"], found["relation"], found["unit"]) == ("1e-05", "add/remove", "row")
    assert found["release_digest"] == ""
    assert found["publishable"] == "true"
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["m.onnx"]


def test_a_seeded_model_is_refused_and_marked_where_it_is_forced(tmp_path):
    import onnx

    model = make_model(seeded=True)
    with pytest.raises(UnsafeRelease):
        export_onnx(model, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []
    proto = onnx.load(export_onnx(model, tmp_path / "m.onnx", unsafe_for_publication=True))
    assert {entry.key: entry.value for entry in proto.metadata_props}["publishable"] == "false"


def test_a_missing_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependency, match=r"dptransfer\[onnx\]"):
        export_onnx(make_model(), tmp_path / "m.onnx")


def test_a_wrong_precision_or_path_is_a_release_error(tmp_path):
    with pytest.raises(ReleaseError, match="precision"):
        export_onnx(make_model(), tmp_path / "m.onnx", precision="float16")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ReleaseError):
        export_onnx(make_model(), tmp_path / "file" / "m.onnx")


def rows_of_every_size(dtype):
    """Rows of all lengths that the type has, subnormal ones too, powers of two, and rows of zeros or NaN."""
    rng, limits = np.random.default_rng(3), np.finfo(dtype)
    sizes = 10.0 ** rng.uniform(np.log10(float(limits.smallest_subnormal)), limits.maxexp * 0.28, (1500, 1))
    mixed = np.exp(rng.uniform(-12, 3, (300, DIMENSION))) * rng.choice([-1, 1], (300, DIMENSION))
    powers = 2.0 ** rng.integers(-100, 100, (100, DIMENSION))
    odd = np.zeros((4, DIMENSION))
    odd[0, 0], odd[1, 1], odd[2, 2] = np.nan, np.inf, limits.smallest_subnormal
    whole = [rng.normal(size=(1500, DIMENSION)) * sizes, mixed, powers, odd]
    return np.vstack(whole).astype(dtype)


def in_onnx(features, rows):
    graph = OnnxGraph("map", extra="onnx", dtype=np.float64)
    graph.node("Identity", mapped_rows(graph, features, graph.cast("rows", "DOUBLE")), named="mapped")
    kind = {"float32": "FLOAT", "float64": "DOUBLE"}[rows.dtype.name]
    ends = {"rows": (kind, ["n", DIMENSION])}, {"mapped": ("DOUBLE", ["n", features.dimension])}
    session = onnxruntime.InferenceSession(graph.to_bytes(*ends, {}), providers=["CPUExecutionProvider"])
    return session.run(None, {"rows": rows})[0]


@pytest.mark.parametrize("name", feature_maps())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_map_gives_the_integers_that_it_gives_in_python(name, dtype):
    features, rows = feature_maps()[name], rows_of_every_size(dtype)
    mapped = features.lattice(rows, 2**30)
    assert (in_onnx(features, rows) == mapped * 2.0**-30).all()
    assert (mapped != 0).any(axis=1).mean() > 0.9


def test_every_map_that_a_release_can_hold_is_among_them():
    assert {one.kind for one in feature_maps().values()} == release_readers().keys()


def test_another_map_is_refused():
    with pytest.raises(ReleaseError, match="on-lattice"):
        in_onnx(OnLattice(DIMENSION, norm=2**20), np.zeros((1, DIMENSION), dtype="float32"))
