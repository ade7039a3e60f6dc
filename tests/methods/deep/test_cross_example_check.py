"""A picture's gradient is the same in any slot, beside any pictures, in samples of any size: bit for bit.

That is what `NetworkGradient` assumes of the arithmetic in front of its integers. A network for which it is
not so on a CPU is refused before anything is charged. On a GPU: `pytest -m gpu` with this file; a failure
prints for how many gradients it is not so.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from contracts.mixers import CODES, Layer, encoder, mixing
from contracts.mixers import SIDE as MIXERS_SIDE
from contracts.mixers import network as network_with
from dptransfer.data import PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods.deep import cross_example_check
from dptransfer.methods.deep.cross_example_check import (
    require_as_released,
    require_own_ballots,
    require_own_gradients,
)
from dptransfer.methods.deep.network import Network, network_of
from dptransfer.methods.deep.picture_loss import PictureLoss, Pictures
from dptransfer.methods.deep.teachers import Course, Prompts, SmallTeachers, ballots_of
from dptransfer.methods.deep.trained_parts import TRAINED, TrainedParts, row_map

from .tiny import PLACE
from .toys import CLASSES, SIDE, Active, shared_network, somewhere, tiny_network

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


@pytest.mark.parametrize(("count", "threads"), [(5, 1), (7, 2), (32, 5)])
def test_the_public_map_of_a_row_is_the_same_in_any_slot_on_any_number_of_threads(count, threads):
    rng = np.random.default_rng(0)
    mapped = row_map(PublicMap(axes=100).fit(128, PublicEmbeddings(rng.normal(size=(300, 128)))), "cpu")
    torch.set_num_threads(threads)
    rows = torch.from_numpy(rng.normal(size=(count, 128)).astype(np.float32))
    turned = [mapped(rows.roll(slot, 0)).roll(-slot, 0) for slot in range(count)]
    assert all(torch.equal(one, turned[0]) for one in turned)


class Windows(torch.nn.Module):
    """A linear layer that sees four windows of each picture as if they were pictures."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)

    def forward(self, maps):
        windows = maps.flatten(2).mT.reshape(len(maps) * 4, -1, 6)
        return self.linear(windows).reshape(len(maps), -1, 6).mean(1)


def parts_behind(*layers, train="film", seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        convolution = torch.nn.Conv2d(3, 6, 5)
    return TrainedParts(tiny_network(convolution, torch.nn.GroupNorm(2, 6), *layers), train, CLASSES)


@pytest.fixture
def plain_batches(monkeypatch):
    """Every network is taken for one whose layers are known, so that the check has to see what it does."""
    for place in ("dptransfer.methods.deep.trained_parts", "dptransfer.encoders.per_example"):
        monkeypatch.setattr(f"{place}.keeps_pictures_apart", lambda module: True)


@pytest.mark.parametrize("train", ["film", "bias", "low-rank", "last", "all"])
def test_a_network_that_keeps_pictures_apart_is_taken(train):
    require_own_gradients(TrainedParts(shared_network(), train, CLASSES), views=2, micro_batch=8)


SHOWN = [
    "divided by the largest",
    "less the mean",
    "less the median",
    "sorted",
    "rolled",
    "flipped",
    "added up",
    "attention over pictures",
    "convolved over pictures",
    "indexed by another",
    "normalised by the batch",
    "int8 by one scale",
    "int4 by one scale",
    "a branch on the largest",
    "state in a buffer",
    "state in an attribute",
    "on the way back",
    "on the way back, by a hook",
]


STATE = ["state in a buffer", "state in an attribute", "calls counted in a buffer"]


@pytest.mark.parametrize(
    ("kind", "micro_batch"),
    [*((kind, 8) for kind in SHOWN), ("rolled", 2), ("rolled", 32), *((kind, 1) for kind in STATE)],
)
def test_on_plain_batches_the_check_sees_a_layer_that_mixes_pictures(plain_batches, kind, micro_batch):
    parts = TrainedParts(Network(mixing(kind)), "low-rank", CLASSES, rank=2)
    with pytest.raises(ArgumentError, match="pictures beside it"):
        require_own_gradients(parts, views=1, micro_batch=micro_batch)


def little(share):
    """A layer that adds to each picture next to nothing of the one before."""
    return Layer(lambda _, maps: maps + share * maps.roll(1, 0))


def test_a_difference_in_the_last_bits_is_refused_on_a_cpu(plain_batches):
    require_own_gradients(parts_behind(little(0.0)), views=1, micro_batch=4)
    with pytest.raises(ArgumentError, match="OMP_NUM_THREADS=1"):
        require_own_gradients(parts_behind(little(1e-6)), views=1, micro_batch=4)


def test_a_picture_that_counts_otherwise_in_another_slot_is_refused(plain_batches):
    def code(_, maps):
        return maps + maps.square() * torch.arange(len(maps))[:, None, None, None]

    with pytest.raises(ArgumentError, match="pictures beside it"):
        require_own_gradients(parts_behind(Layer(code)), views=1, micro_batch=4)


def test_a_difference_that_adds_up_over_a_micro_batch_is_more_than_rounding(plain_batches):
    parts = parts_behind(little(3e-5))
    with pytest.raises(ArgumentError, match="in any bit"):
        require_own_gradients(parts, views=1, micro_batch=2)
    with pytest.raises(ArgumentError, match="counts for many"):
        require_own_gradients(parts, views=1, micro_batch=64)


def test_the_check_asks_far_from_the_start_too(plain_batches, monkeypatch):
    """Of a layer that mixes pictures where the layer in front of it has gone far, and nowhere else."""
    largest_near_start = 0.0

    def record(_, maps):
        nonlocal largest_near_start
        largest_near_start = max(largest_near_start, float(maps.detach().abs().amax()))
        return maps

    def mix_far_away(_, maps):
        return maps - maps.mean(0) * (maps.detach().abs().amax() > 1.05 * largest_near_start).float()

    with monkeypatch.context() as near:
        near.setattr(cross_example_check, "_FAR", (0.1, 0.1))
        require_own_gradients(parts_behind(Layer(record)), views=1, micro_batch=4)
        require_own_gradients(parts_behind(Layer(mix_far_away)), views=1, micro_batch=4)
    with pytest.raises(ArgumentError, match="counts for many"):
        require_own_gradients(parts_behind(Layer(mix_far_away)), views=1, micro_batch=4)


def test_the_first_question_is_asked_again_at_the_end(plain_batches):
    """Of networks that give something else where they are asked the very same again, and nowhere else."""
    met = set()

    def code(_, maps):
        what = maps.detach().numpy().tobytes()
        again, _ = what in met, met.add(what)
        return maps + maps.square() * again

    with pytest.raises(ArgumentError, match="pictures beside it"):
        require_own_gradients(parts_behind(Layer(code)), views=1, micro_batch=4)
    own = Network(encoder(network_with(torch.nn.Identity()), source_head=torch.nn.Linear(16, 7)))
    own.module[2] = Layer(code)
    with pytest.raises(ArgumentError, match="pictures beside it"):
        require_own_ballots(Prompts(own, CLASSES, inner=8), COURSE, MIXERS_SIDE, "some")


def test_the_check_of_ballots_sees_state_when_there_is_one_teacher(plain_batches):
    network = Network(mixing("state in a buffer", source_head=torch.nn.Linear(16, 7)))
    model = Prompts(network, CLASSES, inner=8)
    with pytest.raises(ArgumentError, match="pictures beside it"):
        require_own_ballots(model, replace(COURSE, together=1), MIXERS_SIDE, "some")


@pytest.mark.parametrize("train", ["film", "low-rank"])
def test_a_layer_that_sees_parts_of_a_picture_as_pictures_is_trained_as_it_is(train):
    parts = parts_behind(Windows(), train=train)
    require_own_gradients(parts, views=1, micro_batch=4)
    require_as_released(parts)


def test_a_network_without_a_gradient_is_refused():
    flat = Layer(lambda _, maps: torch.igamma(maps.abs() + 1, torch.ones(())))
    with pytest.raises(ArgumentError, match="have a gradient"):
        require_own_gradients(parts_behind(flat), views=1, micro_batch=4)


COURSE = Course(steps=2, batch=3, rate=0.1, decay=1.0, together=4, looks=2)


@pytest.mark.parametrize("together", [1, 2, 4])
def test_teachers_that_keep_to_their_own_pictures_are_taken(together):
    course = replace(COURSE, together=together)
    for model in (SmallTeachers(CLASSES), Prompts(network_of(PLACE, size=SIDE), CLASSES, inner=4)):
        require_own_ballots(model, course, SIDE, "some")


@pytest.mark.parametrize(("kind", "together"), [*((kind, 3) for kind in SHOWN), ("rolled", 2), ("rolled", 8)])
def test_on_plain_batches_the_check_sees_teachers_that_look_at_each_others_pictures(
    plain_batches, kind, together
):
    model = Prompts(Network(mixing(kind, source_head=torch.nn.Linear(16, 7))), CLASSES, inner=8)
    with pytest.raises(ArgumentError, match="pictures beside it"):
        require_own_ballots(model, replace(COURSE, together=together), MIXERS_SIDE, "some")


@pytest.mark.parametrize("kind", CODES)
def test_one_picture_changes_no_ballot_of_another_teacher_whatever_the_network_does(kind):
    rng, teachers = np.random.default_rng(0), 6
    pixels = rng.integers(100, 150, (teachers * 4, MIXERS_SIDE, MIXERS_SIDE, 3), dtype=np.uint8)
    asked = rng.integers(0, 256, (9, MIXERS_SIDE, MIXERS_SIDE, 3), dtype=np.uint8)
    own, labels = np.split(np.arange(teachers * 4), teachers), rng.integers(0, CLASSES, teachers * 4)
    wild = pixels.copy()
    wild[0] = rng.choice([0, 255], pixels[0].shape)
    try:
        model = Prompts(Network(mixing(kind, source_head=torch.nn.Linear(16, 7))), CLASSES, inner=8)
        require_own_ballots(model, replace(COURSE, together=3), MIXERS_SIDE, "own")
        plain, other = (
            ballots_of(model, replace(COURSE, together=3), one, labels, own, asked, lambda _, told: told())
            for one in (pixels, wild)
        )
    except ArgumentError:
        return
    assert (plain[1:] == other[1:]).all()


def test_a_public_head_of_several_layers_sees_one_row_at_a_time():
    head = torch.nn.Sequential(Layer(lambda _, rows: rows - rows.mean(0)), torch.nn.Linear(16, 7))
    network = Network(encoder(network_with(torch.nn.Identity()), source_head=head.eval()))
    rows = torch.randn(5, 16)
    assert torch.equal(network.classify(rows)[:1], network.classify(rows[:1]))
    assert not torch.equal(head(rows)[:1], head(rows[:1]))


class Standardised(nn.Conv2d):
    """A convolution that scales its weights before it uses them."""

    def forward(self, maps):
        norms = self.weight.flatten(1).norm(dim=1)[:, None, None, None]
        return nn.functional.conv2d(maps, self.weight / norms, self.bias)


class Rectified(nn.Linear):
    """A linear layer with an activation behind it."""

    def forward(self, rows):
        return super().forward(rows).relu()


ODD = {
    "film": lambda: (Active(2, 6),),
    "low-rank": lambda: (nn.GroupNorm(2, 6), Standardised(6, 6, 1)),
    "bias": lambda: (nn.AdaptiveAvgPool2d(1), nn.Flatten(), Rectified(6, 6)),
}


@pytest.mark.parametrize("train", TRAINED)
@pytest.mark.parametrize("pace", [pytest.param(0.05, marks=pytest.mark.slow), 1.0])
def test_plain_layers_are_released_as_they_are_trained(train, pace):
    network = shared_network()
    pool = PublicEmbeddings(np.random.default_rng(0).random((40, network.dimension)))
    for features in (None, PublicMap(axes=5).fit(network.dimension, pool)):
        require_as_released(TrainedParts(network, train, CLASSES, pace=pace, features=features))


@pytest.mark.parametrize("train", ODD)
@pytest.mark.parametrize("seed", [0, 33, 142])  # the latter two are linear for plain noise
def test_a_layer_that_does_more_than_its_kind_says_is_refused_where_it_is_trained(train, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = tiny_network(nn.Conv2d(3, 6, 3), *ODD[train]())
    require_as_released(TrainedParts(network, "all", CLASSES, pace=0.05))
    with pytest.raises(ArgumentError, match="what is released"):
        require_as_released(TrainedParts(network, train, CLASSES, pace=0.05))


def test_both_sides_of_the_comparison_have_exact_kernels(monkeypatch):
    """With fewer bits on one of them, as a GPU has them by default, plain layers would be refused."""
    parts = TrainedParts(network_of(PLACE, size=8), "film", 3)
    kind, seen = type(parts.network.encoder), []
    plain = kind.rows_of
    monkeypatch.setattr(
        kind, "rows_of", lambda *given: seen.append(torch.backends.cudnn.allow_tf32) or plain(*given)
    )
    with torch.backends.cudnn.flags(allow_tf32=True):
        require_as_released(parts)
    assert set(seen) == {False}
