import numpy as np
import pytest
import torch

from dptransfer.methods.deep.augment import views_of
from dptransfer.methods.deep.network import network_of
from dptransfer.methods.deep.picture_loss import PictureLoss, Pictures, losses
from dptransfer.methods.deep.trained_parts import TrainedParts

from .toys import CLASSES, labels, pictures, shared_network, somewhere

LOGITS = torch.tensor([[1.0, 2.0, -1.0], [0.0, 0.0, 0.0]])
PRIOR = torch.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, -2.0]])
Y = torch.tensor([1, 2])


def softmax(x):
    return (x.exp() / x.exp().sum(dim=1, keepdim=True))[torch.arange(2), Y]


def test_without_a_prior_the_loss_is_cross_entropy():
    assert torch.allclose(losses(LOGITS, Y), -softmax(LOGITS).log())


def test_a_prior_is_averaged_with_what_is_trained_or_its_logits_are_added():
    averaged = -((softmax(LOGITS) + softmax(PRIOR)) / 2).log()
    assert torch.allclose(losses(LOGITS, Y, PRIOR), averaged)
    assert torch.allclose(losses(LOGITS, Y, PRIOR, "logits"), -softmax(LOGITS + PRIOR).log())


def test_far_logits_give_a_finite_loss_and_slope():
    far = torch.tensor([[200.0, -200.0, 0.0], [0.0, 300.0, -300.0]], requires_grad=True)
    for combined in ("average", "logits"):
        found = losses(far, Y, PRIOR, combined)
        assert torch.isfinite(found).all()
        assert torch.isfinite(torch.autograd.grad(found.sum(), far)[0]).all()


@pytest.mark.parametrize("combined", ["average", "logits"])
def test_every_picture_has_its_own_prior_and_a_prior_that_knows_leaves_little_to_learn(combined):
    parts = TrainedParts(shared_network(), "film", CLASSES)
    kept, y = Pictures(parts, pictures(6), views=2, micro_batch=4), labels(6)
    prior = torch.zeros((6, CLASSES))
    prior[2, y[2]] = 30.0
    theta = somewhere(parts)
    positions, classes = np.array([2, 3, 2, -1]), np.array([y[2], y[3], y[2], 0])
    plain = PictureLoss(kept).gradients_at(theta)(positions, classes)
    beside = PictureLoss(kept, prior, combined).gradients_at(theta)(positions, classes)
    assert plain.shape == beside.shape == (4, parts.size)
    assert torch.equal(beside[0], beside[2])
    assert beside[0].norm() < (1e-5 if combined == "logits" else 0.7) * plain[0].norm()
    if combined == "logits":
        assert torch.allclose(beside[1], plain[1], atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "train", "blocks"),
    [
        ("efficientnet-lite0", "film", None),
        ("efficientnet-lite0", "film", 4),
        ("efficientnet-lite0", "low-rank", 4),
        ("small-cnn", "bias", None),
        ("small-cnn", "all", None),
        ("small-cnn", "last", None),
    ],
)
@pytest.mark.parametrize("views", [1, 3])
def test_on_a_gpu_a_micro_batch_that_is_replayed_gives_the_same_bits(name, train, blocks, views):
    parts = TrainedParts(network_of(name, size=64, device="cuda"), train, CLASSES, blocks=blocks)
    pixels = np.random.default_rng(0).integers(0, 256, (9, 64, 64, 3), dtype=np.uint8)
    kept, y = Pictures(parts, pixels, views=views, micro_batch=4), labels(9)
    prior = torch.randn((9, CLASSES), generator=torch.Generator().manual_seed(0)).cuda()
    for loss in (PictureLoss(kept), PictureLoss(kept, prior, "logits")):
        for seed, positions in enumerate(([2, 3, 8, -1], [0, 0, 7, 1])):
            theta, positions = somewhere(parts) * (seed + 1), np.array(positions)
            found = loss.gradients_at(theta)(positions, y[positions])
            assert loss._gradients != loss._computed, "it was not recorded"
            given = (theta.astype(np.float32), positions, y[positions])
            assert torch.equal(found, loss._computed(*(torch.from_numpy(one).cuda() for one in given)))
            assert found.abs().sum() > 0


class Counted:
    """Pictures that count how often each is read."""

    def __init__(self, pixels):
        self.pixels, self.shape, self.reads = pixels, pixels.shape, np.zeros(len(pixels), dtype=int)

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, chosen):
        self.reads[chosen] += 1
        return self.pixels[chosen]


def kept(train, count=10, blocks=None, **settings):
    parts = TrainedParts(shared_network(), train, CLASSES, blocks=blocks, rank=2)
    source = Counted(pictures(count))
    return parts, source, Pictures(parts, source, micro_batch=4, **settings)


@pytest.mark.parametrize(("train", "blocks"), [("film", None), ("film", 1), ("last", None)])
@pytest.mark.parametrize("views", [1, 3])
def test_maps_are_what_the_frozen_stages_give_and_pictures_are_read_once(train, blocks, views):
    parts, source, found = kept(train, blocks=blocks, views=views)
    assert not source.reads.any()  # nothing before it is asked for
    chosen = np.array([7, 0, 3, 7])
    maps = found.at(chosen)
    shown = views_of(torch.from_numpy(pictures(10)[chosen]), views)
    expected = parts.front(parts.network.from_bytes(shown))
    assert maps.shape == expected.shape
    assert torch.allclose(maps, expected, atol=1e-5)
    found.at(chosen)
    assert (source.reads == 1).all()
