import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from dptransfer.data import ShardedRows
from dptransfer.errors import ArgumentError, DataError
from dptransfer.exact.feature_map import apply
from dptransfer.privacy import Unit
from dptransfer.release import classifier
from dptransfer.release.calibration import SIMULATED, Calibration
from dptransfer.release.heads import scores_on_device

from .models import CLASSES, NOISE, feature_maps, heads, make_model, rows


def test_a_prediction_is_a_declared_class_and_the_score_is_accuracy():
    model = make_model()
    chosen = model.predict(rows())
    assert set(chosen.tolist()) <= set(CLASSES)
    assert model.score(rows(), chosen) == 1
    assert model.score(-rows(), chosen) < 1


@pytest.mark.parametrize(("some", "labels"), [(5, 3), (5, 1), (1, 5), (5, 0), (0, 0)])
def test_a_score_is_of_rows_with_a_label_each(some, labels):
    with pytest.raises(DataError, match=f"got {labels} for {some}"):
        make_model().score(rows(some), [CLASSES[0]] * labels)


def test_a_prediction_keeps_no_more_than_a_chunk_of_scores(monkeypatch):
    model, seen = make_model(), []
    monkeypatch.setattr(classifier, "CHUNK", 10)
    real = type(model.head).scores
    monkeypatch.setattr(type(model.head), "scores", lambda head, x: seen.append(len(x)) or real(head, x))
    at_once = real(model.head, apply(model.features, rows(95))).argmax(axis=1)
    assert (model.predict(rows(95)) == np.asarray(CLASSES)[at_once]).all()
    assert max(seen) == 10


def test_rows_in_many_files_are_scored_a_chunk_at_a_time(tmp_path, monkeypatch):
    x, seen = rows(95).astype(np.float32), []
    for number, part in enumerate(np.array_split(x, 4)):
        np.save(tmp_path / f"{number}.npy", part)
    files = ShardedRows(sorted(tmp_path.glob("*.npy")))
    monkeypatch.setattr(classifier, "CHUNK", 10)
    model, real = make_model(), ShardedRows.__getitem__
    monkeypatch.setattr(ShardedRows, "__getitem__", lambda own, at: seen.append(at) or real(own, at))
    assert np.array_equal(model.scores(files), model.scores(x))
    assert np.array_equal(model.predict(files), model.predict(x))
    assert np.array_equal(model.predict_proba(files), model.predict_proba(x))
    assert max(at.stop - at.start for at in seen) == 10


@pytest.mark.parametrize("kind", tuple(heads(4)))
def test_a_head_scores_tensors_as_it_scores_arrays(kind):
    torch = pytest.importorskip("torch")
    head, x = heads(4)[kind], rows(50, dimension=4)
    x[3] = 0.0
    got = scores_on_device(head, "cpu")(torch.from_numpy(x)).numpy()
    assert np.allclose(got, head.scores(x), rtol=1e-13, atol=1e-13)
    assert not np.allclose(got, head.scores(-x))


def test_cuda_where_there_is_none_is_refused_with_what_to_do(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    model = make_model()
    for ask in (model.scores, model.predict, model.predict_proba):
        with pytest.raises(ArgumentError, match="device='cpu'"):
            ask(rows(), device="cuda")
        with pytest.raises(ArgumentError, match="device"):
            ask(rows(), device="abacus")


@pytest.mark.gpu
@pytest.mark.parametrize("features", tuple(feature_maps()))
@pytest.mark.parametrize("kind", tuple(heads(7)))
def test_cuda_scores_are_those_of_the_cpu_but_for_rounding(kind, features, tmp_path):
    import torch

    model, x = make_model(kind, features), rows(5000)
    np.save(tmp_path / "rows.npy", x)
    want = model.scores(x)
    for some in (x, np.load(tmp_path / "rows.npy", mmap_mode="r"), torch.from_numpy(x).cuda()):
        got = model.scores(some, device="cuda")
        assert np.abs(got - want).max() <= 1e-13 * np.abs(want).max()
        assert (model.predict(some, device="cuda") == model.predict(x)).all()
    assert np.allclose(model.predict_proba(x, device="cuda"), model.predict_proba(x), rtol=1e-11)
    assert model.score(x, model.predict(x), device="cuda") == 1
    assert model.predict(torch.from_numpy(x).cuda()[:0]).shape == (0,)


@pytest.mark.gpu
def test_cuda_memory_of_a_prediction_does_not_grow_with_the_rows(monkeypatch):
    import torch

    monkeypatch.setattr(classifier, "_DEVICE_ELEMENTS", 7 * 1000)
    model, peaks = make_model(), []
    for count in (10_000, 500_000):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        model.predict(rows(count), device="cuda")
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] <= 1.5 * peaks[0] < 8 * 7 * 500_000 / 5


def test_rows_of_another_width_or_kind_are_refused():
    model = make_model()
    assert model.scores(np.zeros((0, 7))).shape == (0, 3)
    for wrong in (
        np.zeros((2, 6)),
        np.zeros(7),
        np.zeros((0, 6)),
        [["a"] * 7],
        np.zeros((1, 7), dtype=complex),
    ):
        with pytest.raises(DataError):
            model.scores(wrong)


def test_printing_a_model_takes_one_short_line_and_shows_no_array():
    assert repr(make_model()) == (
        "PrivateClassifier('mean-prototypes', 3 classes, dimension 7, ε = 0.9263416 at δ = 1e-5, add/remove)"
    )
    assert repr(make_model(events=(replace(NOISE, unit=Unit.PERSON),))).endswith("add/remove, by person)")
    assert "NOT PRIVATE" in repr(make_model(seeded=True))


@pytest.mark.parametrize("calibrated", [False, True])
def test_probabilities_of_many_rows_are_bit_for_bit_those_of_all_scores_at_once(calibrated):
    model = make_model("linear")
    if calibrated:
        model = replace(model, simulated=Calibration(2.5, (0.25, 0.0, -0.25), SIMULATED))
    x = rows(2 * classifier.CHUNK + 100)
    made = model.calibration.probabilities if calibrated else classifier.probabilities
    assert (model.predict_proba(x) == made(model.scores(x), model.head.temperature)).all()
    assert model.predict_proba(x[:0]).shape == (0, 3)


def test_probabilities_take_no_more_memory_than_they_are_and_a_few_chunks():
    x, model = rows(30 * classifier.CHUNK), make_model("linear")
    model.predict_proba(x[:10])
    tracemalloc.start()
    chances = model.predict_proba(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.7 * chances.nbytes
