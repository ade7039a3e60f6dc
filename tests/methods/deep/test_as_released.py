import numpy as np
import pytest
import torch
from torch import nn

from dptransfer.data import PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods.deep.cross_example_check import require_as_released
from dptransfer.methods.deep.network import network_of
from dptransfer.methods.deep.trained_parts import TRAINED, TrainedParts

from .tiny import PLACE
from .toys import CLASSES, tiny_network


class Active(nn.GroupNorm):
    """A normalisation with an activation behind it."""

    def forward(self, maps):
        return super().forward(maps).relu()


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
    network = tiny_network()
    pool = PublicEmbeddings(np.random.default_rng(0).random((40, network.dimension)))
    for features in (None, PublicMap(axes=5).fit(network.dimension, pool)):
        require_as_released(TrainedParts(network, train, CLASSES, pace=pace, features=features))


@pytest.mark.parametrize("train", ["film", "bias", "low-rank"])
def test_the_embedded_encoder_is_released_as_it_is_trained(train):
    require_as_released(TrainedParts(network_of("efficientnet-lite0", size=32), train, CLASSES, pace=0.05))


@pytest.mark.parametrize("train", ODD)
@pytest.mark.parametrize("seed", [0, 33, 142])  # the latter two are linear for plain noise
def test_a_layer_that_does_more_than_its_kind_says_is_refused_where_it_is_trained(train, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = tiny_network(nn.Conv2d(3, 6, 3), *ODD[train]())
    require_as_released(TrainedParts(network, "all", CLASSES, pace=0.05))
    with pytest.raises(ArgumentError, match="What is trained must be what is released"):
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
