from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dptransfer.encoders import TorchModuleEncoder, get_encoder
from dptransfer.errors import ArgumentError
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
    with pytest.raises(ArgumentError, match="mix pictures"):
        tiny_network(*layers)
    identity = get_encoder("small-cnn", size=8).identity
    with pytest.raises(ArgumentError, match="needs public statistics"):  # whoever made the encoder
        Network(SimpleNamespace(module=torch.nn.Sequential(*layers), identity=identity))


def test_a_network_that_somebody_goes_on_training_is_in_evaluation_mode_here():
    encoder = get_encoder("small-cnn", size=8)
    encoder.module.train()
    assert not any(one.training for one in Network(encoder).module.modules())
