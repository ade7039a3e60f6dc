"""A picture's gradient is the same in any slot, beside any pictures, in samples of any size: bit for bit.

That is what `NetworkGradient` assumes of the arithmetic in front of its integers. On a GPU:
`pytest -m gpu tests/deep/test_neighbours.py`; a failure prints for how many gradients it is not so.
"""

import numpy as np
import pytest
import torch

from dptransfer.deep.network import network_of
from dptransfer.deep.picture_loss import PictureLoss
from dptransfer.deep.pictures import Pictures
from dptransfer.deep.trained_parts import TrainedParts

from .toys import CLASSES, somewhere

COUNT = 23
ON_GPU = pytest.mark.gpu


def differences(name, side, train, blocks, micro_batch, device, views=1):
    """In how many of some other micro-batches a picture's gradient is another, and by how much at most."""
    rng = np.random.default_rng(0)
    parts = TrainedParts(network_of(name, size=side, device=device), train, CLASSES, blocks=blocks, rank=4)
    pixels = rng.integers(0, 256, (COUNT, side, side, 3), dtype=np.uint8)
    y, theta = rng.integers(0, CLASSES, COUNT), somewhere(parts, far=0.1)

    def gradients(order, beside):
        kept = Pictures(parts, beside, views=views, micro_batch=micro_batch)
        at, found = PictureLoss(kept).gradients_at(theta), {}
        for start in range(0, len(order), micro_batch):
            own = order[start : start + micro_batch]
            filled = np.append(own, np.full(micro_batch - len(own), -1))
            found |= dict(zip(own, at(filled, np.where(filled < 0, 0, y[filled])), strict=False))
        return found

    once, other, most = gradients(np.arange(COUNT), pixels), 0, 0.0
    for trial in range(3):
        order = rng.permutation(COUNT)[: rng.integers(1, COUNT + 1)]
        beside = pixels.copy()
        if trial:  # other neighbours: pictures of noise, black ones and white ones in the place of the rest
            beside[order[1:]] = rng.choice([0, 255, 77], (len(order) - 1, 1, 1, 1))
        same = order if not trial else order[:1]
        found = gradients(order, beside)
        for one in same:
            if not torch.equal(found[one], once[one]):
                other += 1
                most = max(most, float((found[one] - once[one]).norm() / once[one].norm()))
    return other, most


CASES = [
    ("small-cnn", 16, "film", None, 8),
    ("small-cnn", 16, "bias", 2, 7),
    ("small-cnn", 20, "low-rank", None, 8),
    ("small-cnn", 16, "all", None, 8),
    ("small-cnn", 16, "last", None, 5),
]
LARGE = [
    ("efficientnet-lite0", 64, train, blocks, micro_batch)
    for train in ("film", "bias", "low-rank", "last", "all")
    for blocks in (None, 4)
    for micro_batch in (7, 32)
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_a_cpu_no_neighbour_changes_a_gradient(case):
    assert differences(*case, "cpu") == (0, 0.0)
    assert differences(*case, "cpu", views=2) == (0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGE[:-4:2], ids=str)
def test_on_a_cpu_no_neighbour_changes_a_gradient_of_the_embedded_encoder(case):
    assert differences(*case, "cpu") == (0, 0.0)


@ON_GPU
@pytest.mark.parametrize("case", CASES + LARGE, ids=str)
def test_on_a_gpu_no_neighbour_changes_a_gradient(case):
    assert differences(*case, "cuda") == (0, 0.0)
