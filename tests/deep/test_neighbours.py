"""A picture's gradient is the same in any slot, beside any pictures, in samples of any size: bit for bit.

That is what `NetworkGradient` assumes of the arithmetic in front of its integers. On a GPU:
`pytest -m gpu tests/deep/test_neighbours.py`; a failure prints for how many gradients it is not so. A network
for which it is not so on a CPU is refused before anything is charged.
"""

import numpy as np
import pytest
import torch

from dptransfer.data import PublicEmbeddings
from dptransfer.deep.neighbours import require_own_ballots, require_own_gradients
from dptransfer.deep.network import network_of
from dptransfer.deep.picture_loss import PictureLoss
from dptransfer.deep.pictures import Pictures
from dptransfer.deep.prompts import Prompts
from dptransfer.deep.row_map import row_map
from dptransfer.deep.small_teachers import SmallTeachers
from dptransfer.deep.teachers import Course
from dptransfer.deep.trained_parts import TrainedParts
from dptransfer.errors import ArgumentError
from dptransfer.features import PublicMap

from .tiny import PLACE
from .toys import CLASSES, SIDE, somewhere, tiny_network

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


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [5, 7, 32])
def test_the_public_map_of_a_row_is_the_same_in_any_slot_on_any_number_of_threads(count, threads):
    rng = np.random.default_rng(0)
    mapped = row_map(PublicMap(axes=100).fit(128, PublicEmbeddings(rng.normal(size=(300, 128)))), "cpu")
    torch.set_num_threads(threads)
    rows = torch.from_numpy(rng.normal(size=(count, 128)).astype(np.float32))
    turned = [mapped(rows.roll(slot, 0)).roll(-slot, 0) for slot in range(count)]
    assert all(torch.equal(one, turned[0]) for one in turned)


class Mixing(torch.nn.Module):
    """A layer of no known kind that adds to each picture some of the one before."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, maps):
        return maps + self.share * maps.roll(1, 0)


class Windows(torch.nn.Module):
    """A linear layer that sees four windows of each picture as if they were pictures."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)

    def forward(self, maps):
        windows = maps.flatten(2).mT.reshape(len(maps) * 4, -1, 6)
        return self.linear(windows).reshape(len(maps), -1, 6).mean(1)


def parts_behind(*layers, train="film"):
    network = tiny_network(torch.nn.Conv2d(3, 6, 5), torch.nn.GroupNorm(2, 6), *layers)
    return TrainedParts(network, train, CLASSES)


@pytest.mark.parametrize("train", ["film", "bias", "low-rank", "last", "all"])
@pytest.mark.parametrize("micro_batch", [1, 2, 8])
def test_a_network_that_keeps_pictures_apart_is_taken(train, micro_batch):
    require_own_gradients(TrainedParts(tiny_network(), train, CLASSES), views=2, micro_batch=micro_batch)


@pytest.mark.parametrize("train", ["film", "last"])
def test_a_network_that_mixes_pictures_is_refused_whatever_its_layers_are_called(train):
    require_own_gradients(parts_behind(Mixing(0.0), train=train), views=1, micro_batch=4)
    with pytest.raises(ArgumentError, match="must not depend on the pictures beside it"):
        require_own_gradients(parts_behind(Mixing(0.5), train=train), views=1, micro_batch=4)


def test_a_difference_in_the_last_bits_is_refused_on_a_cpu():
    with pytest.raises(ArgumentError, match=r"in any bit.*OMP_NUM_THREADS=1"):
        require_own_gradients(parts_behind(Mixing(1e-6)), views=1, micro_batch=4)


def test_a_layer_that_cannot_carry_parameters_of_each_picture_is_refused():
    require_own_gradients(parts_behind(Windows(), train="film"), views=1, micro_batch=4)
    with pytest.raises(ArgumentError, match="along the first axis"):
        require_own_gradients(parts_behind(Windows(), train="low-rank"), views=1, micro_batch=4)


def test_teachers_that_see_each_others_pictures_are_refused():
    course = Course(steps=2, batch=3, rate=0.1, decay=1.0, together=4)
    network = network_of(PLACE, size=SIDE)
    for model in (SmallTeachers(CLASSES), Prompts(network, CLASSES, inner=4)):
        require_own_ballots(model, course, SIDE, "some")
    network.module.append(Mixing(0.5))
    with pytest.raises(ArgumentError, match="must not depend on the pictures beside it"):
        require_own_ballots(Prompts(network, CLASSES, inner=4), course, SIDE, "some")
