"""Samples of rows on a device, whose gradient is recorded; on a CPU the same steps run as they are."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dptransfer.exact import gradient_sums  # noqa: E402
from dptransfer.exact.gradient_sums import DeviceSample, clipped_gradient, whole_numbers  # noqa: E402
from dptransfer.exact.lattice import unit_lattice  # noqa: E402
from dptransfer.exact.softmax import IntegerLogits  # noqa: E402

NORM, CLASSES, WIDTH, ROWS = 2**16, 7, 40, 1500
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("first", [0, 3, 700])
@pytest.mark.parametrize("clip", [0.3, 1.0])
@pytest.mark.parametrize("can_be_recorded", [True, False])
def test_a_recorded_gradient_is_that_of_the_sample_alone(device, first, clip, can_be_recorded, monkeypatch):
    if not can_be_recorded:
        monkeypatch.setattr(gradient_sums, "record_graph", lambda step, *_: step)
    rng, recorded = np.random.default_rng(0), {}
    x = unit_lattice(rng.normal(size=(ROWS, WIDTH)), NORM).astype(np.float64)
    y = rng.integers(0, CLASSES, ROWS)
    there = [torch.from_numpy(part).to(device) for part in (x, y)]
    for size in (first, 1, 255, 256, 257, ROWS):  # smaller and larger than what was recorded
        logits = IntegerLogits.coarse(rng.normal(size=(CLASSES, WIDTH)) * 9, np.zeros(CLASSES), NORM)
        own = np.sort(rng.choice(ROWS, size, replace=False))
        found = DeviceSample(*there, own, recorded).recorded_gradient(logits, clip)
        assert (found == whole_numbers(clipped_gradient(x[own], y[own], logits, clip))).all()
        assert found.dtype == np.int64
    assert len(recorded) == 1


def test_what_is_recorded_for_one_clip_is_not_used_for_another():
    x, y = torch.ones((2, 1), dtype=torch.float64) * NORM, torch.tensor([0, 1])
    logits, recorded = IntegerLogits.coarse(np.zeros((2, 1)), np.zeros(2), NORM), {}
    sample = DeviceSample(x, y, np.array([0]), recorded)
    wide, narrow = (sample.recorded_gradient(logits, clip) for clip in (1.0, 0.1))
    assert np.abs(narrow).max() > np.abs(wide).max()  # in steps of its clip
    assert len(recorded) == 2


def test_what_is_recorded_for_some_rows_is_not_used_for_others():
    logits, recorded, own = IntegerLogits.coarse(np.zeros((2, 1)), np.zeros(2), NORM), {}, np.array([0])
    x, y = torch.ones((2, 1), dtype=torch.float64) * NORM, torch.tensor([0, 1])
    found = [
        DeviceSample(rows, labels, own, recorded).recorded_gradient(logits, 1.0)[0, 0]
        for rows, labels in ((x, y), (x / 2, y), (x / 2, 1 - y), (x, y))
    ]
    assert found[0] == 2 * found[1] == -2 * found[2] == found[3] < 0
