from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dptransfer.encoders import TorchModuleEncoder, get_encoder
from dptransfer.errors import ArgumentError, Incompatible
from dptransfer.methods.deep.network import Network, network_of

from .toys import tiny_network

SIZES = {"small-cnn": 16, "efficientnet-lite0": 32}


def pictures(side, count=3):
    return np.random.default_rng(0).integers(0, 256, (count, side, side, 3), dtype=np.uint8)


@pytest.mark.parametrize("name", SIZES)
def test_its_rows_are_those_of_the_encoder(name):
    from PIL import Image

    side = SIZES[name]
    network, pixels = network_of(name, size=side), pictures(side)
    encoder = get_encoder(name, size=side, runtime="torch")
    with torch.no_grad():
        rows = network.rows(network.inputs(pixels)).numpy()
    assert np.allclose(rows, encoder.encode([Image.fromarray(one) for one in pixels]), atol=1e-5)
    assert rows.shape[1] == network.dimension == encoder.dimension
    assert network.identity == encoder.identity


@pytest.mark.parametrize("name", SIZES)
def test_its_stages_one_after_the_other_give_its_rows(name):
    network = network_of(name, size=SIZES[name])
    maps = inputs = network.inputs(pictures(SIZES[name]))
    for stage in network.stages:
        maps = stage(maps)
    assert torch.equal(maps.mean((2, 3)), network.rows(inputs))
    assert len(network.stages) > 2


def test_a_layer_that_is_called_stages_is_no_list_of_them():
    class Staged(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.stages = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3))

        def forward(self, maps):
            return self.stages(maps)

    own = {"name": "own", "transform_name": "small"}
    encoder = TorchModuleEncoder(Staged(), lambda one: np.zeros((3, 8, 8), np.float32), **own)
    assert Network(encoder).stages == [encoder.module]


def test_gradients_flow_to_the_pixels_and_never_to_the_weights():
    network = network_of("small-cnn", size=8)
    inputs = network.inputs(pictures(8)).requires_grad_()
    network.rows(inputs).square().sum().backward()
    assert inputs.grad.abs().sum() > 0
    assert not any(parameter.requires_grad for parameter in network.module.parameters())


def test_the_public_head_tells_the_encoders_own_classes_apart():
    network = network_of("efficientnet-lite0", size=32)
    rows = network.rows(network.inputs(pictures(32)))
    assert network.classify(rows).shape == (3, network.source_classes) == (3, 1000)
    assert network_of("small-cnn", size=8).source_classes == 0


def test_pictures_of_another_size_are_refused():
    with pytest.raises(Incompatible, match="9 × 9"):
        network_of("small-cnn", size=8).inputs(pictures(9))


def test_an_encoder_that_is_no_network_or_does_not_say_what_it_does_to_pixels_is_refused():
    encoder = TorchModuleEncoder(
        torch.nn.Sequential(torch.nn.Conv2d(3, 2, 1)),
        lambda image: np.zeros((3, 4, 4)),
        name="own",
        transform_name="rgb 4",
    )
    with pytest.raises(ArgumentError, match="pixel_map"):
        Network(encoder).side  # noqa: B018
    with pytest.raises(ArgumentError, match="needs a torch network"):
        Network(type("Other", (), {"identity": encoder.identity})())


def test_the_small_network_is_the_same_for_everyone():
    assert get_encoder("small-cnn").identity.weights.startswith("09b91e5a0dd6f0de")


def test_a_layer_that_would_normalise_by_its_neighbours_is_refused():
    layers = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4, track_running_stats=False)
    with pytest.raises(ArgumentError, match="pictures beside it"):
        tiny_network(*layers)
    identity = get_encoder("small-cnn", size=8).identity
    with pytest.raises(ArgumentError, match="needs public statistics"):  # whoever made the encoder
        Network(SimpleNamespace(module=torch.nn.Sequential(*layers), identity=identity))


def test_a_network_that_somebody_goes_on_training_is_in_evaluation_mode_here():
    encoder = get_encoder("small-cnn", size=8)
    encoder.module.train()
    assert not any(one.training for one in Network(encoder).module.modules())
