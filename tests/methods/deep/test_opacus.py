"""Our sums of clipped gradients are those of another library, by its hooks and by its ghost norms."""

import numpy as np
import pytest
import torch
from torch import nn

from dptransfer.methods.deep.network_gradient import NetworkGradient
from dptransfer.methods.deep.picture_loss import PictureLoss, Pictures
from dptransfer.methods.deep.trained_parts import TrainedParts

from .toys import CLASSES, labels, pictures, somewhere, tiny_network

CLIP = 0.4
COUNT = 12


def network():
    """Convolutions, linear and normalisation layers of the kinds that the other library knows."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return tiny_network(
            nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.GroupNorm(2, 6), nn.ReLU()),
            nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU()),
            nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10), nn.LayerNorm(10)),
        )


class WithHead(nn.Module):
    """The network with its head, as the other library trains it."""

    def __init__(self, trunk, head):
        super().__init__()
        self.trunk, self.head = trunk, nn.Linear(*reversed(head.shape), bias=False)
        self.head.weight.data = torch.from_numpy(head).float()

    def forward(self, inputs):
        return self.head(nn.functional.normalize(self.trunk(inputs)))


def ours(parts, theta, micro_batch):
    loss = PictureLoss(Pictures(parts, pictures(COUNT), micro_batch=micro_batch))
    query = NetworkGradient(parts.size, loss.gradients_at(theta), micro_batch, CLIP)
    return query(np.arange(COUNT), labels(COUNT)) * CLIP / query.grid


def theirs(parts, theta, way, micro_batch):
    model = WithHead(parts.network.module, parts.head(theta)).requires_grad_(False)
    model.train()  # which its hooks ask for, and these layers do not notice
    norms = (nn.GroupNorm, nn.LayerNorm)
    for part in model.modules():
        if parts.train == "all" or part is model.head or (parts.train == "film" and isinstance(part, norms)):
            part.requires_grad_(True)
    # In another layout torch 2.13 crashes where scales are trained and the inputs of their layer are not.
    inputs = parts.network.inputs(pictures(COUNT)).contiguous()
    y = torch.from_numpy(labels(COUNT))
    total = 0.0
    samples = pytest.importorskip("opacus.grad_sample")  # here, since loading it takes seconds
    wrapped = (
        samples.GradSampleModule(model, loss_reduction="sum")
        if way == "hooks"
        else samples.GradSampleModuleFastGradientClipping(model, loss_reduction="sum", max_grad_norm=CLIP)
    )
    trained = [one for one in wrapped.parameters() if one.requires_grad]
    for start in range(0, COUNT, micro_batch):
        chunk = slice(start, start + micro_batch)
        wrapped.zero_grad()
        losses = nn.functional.cross_entropy(wrapped(inputs[chunk]), y[chunk], reduction="none")
        losses.sum().backward(retain_graph=way == "ghost")
        if way == "hooks":
            each = torch.cat([one.grad_sample.flatten(1) for one in trained], dim=1)
            factors = (CLIP / each.norm(dim=1)).clamp(max=1)
            total = total + (factors[:, None] * each).sum(dim=0)
        else:
            factors = wrapped.get_clipping_coef()
            wrapped.zero_grad()
            wrapped.disable_hooks()
            (factors * losses).sum().backward()
            wrapped.enable_hooks()
            total = total + torch.cat([one.grad.flatten() for one in trained])
    return total.detach().numpy()


@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize("micro_batch", [12, 5])  # one accumulation step, and three
@pytest.mark.parametrize("way", ["hooks", pytest.param("ghost", marks=pytest.mark.slow)])
@pytest.mark.parametrize("train", ["film", "last", "all"])
def test_summed_gradients_are_those_of_opacus(train, way, micro_batch):
    parts = TrainedParts(network(), train, CLASSES)
    parts._units.fill_(1.0)  # the other library knows no units
    theta = np.zeros(parts.size)
    theta[parts.trunk :] = somewhere(parts)[parts.trunk :]
    found = ours(parts, theta, micro_batch)
    assert np.allclose(found, theirs(parts, theta, way, micro_batch), atol=1e-5)
    assert np.linalg.norm(found) > 0.3
