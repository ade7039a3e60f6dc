import numpy as np
import pytest

from dptransfer.encoders.onnx_graph import OnnxGraph
from dptransfer.errors import ReleaseError
from dptransfer.exact.feature_map import OnLattice, release_readers
from dptransfer.release.onnx_export import mapped_rows

from .models import DIMENSION, feature_maps

onnxruntime = pytest.importorskip("onnxruntime")


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
