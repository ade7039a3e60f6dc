"""Tiny networks with layers of every kind, and pictures for them."""

from functools import cache

import numpy as np
import torch
from torch import nn

from dptransfer.encoders import TorchModuleEncoder
from dptransfer.encoders.torch_module import PixelMap
from dptransfer.methods.deep.network import Network
from dptransfer.methods.deep.trained_parts import TrainedParts

SIDE = 8
CLASSES = 3


def tiny_network(*layers, seed=0):
    """A network of two convolutions with batch, group and layer normalisation and a linear layer."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        batch = nn.BatchNorm2d(6)
        batch.running_mean.normal_()
        batch.running_var.uniform_(0.5, 2)
        given = layers or (
            nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), batch, nn.ReLU()),
            nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU()),
            nn.Sequential(nn.Conv2d(8, 8, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
            nn.Sequential(nn.Linear(8, 10), nn.LayerNorm(10)),
        )
    return Network(
        TorchModuleEncoder(
            nn.Sequential(*given),
            lambda image: (
                (np.asarray(image.resize((SIDE, SIDE), 3), np.float32).transpose(2, 0, 1) - 127) / 64
            ),
            name="tiny",
            transform_name="rgb 8",
            pixel_map=PixelMap(SIDE, 127.0, 64.0),
        )
    )


@cache
def shared_network():
    """One network for tests that do not change it: most of their time goes into recording its operations."""
    return tiny_network()


@cache
def shared_parts(train, **settings):
    """What is trained of it, likewise."""
    return TrainedParts(shared_network(), train, CLASSES, **{"rank": 2} | settings)


def pictures(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)


def labels(count, seed=0):
    return np.random.default_rng(seed + 1).integers(0, CLASSES, count)


def somewhere(parts, seed=0, far=1.0):
    """Parameters away from the start, with a head that says something."""
    theta = np.random.default_rng(seed + 2).normal(size=parts.size) * 0.1 * far
    theta[parts.trunk :] *= 20
    return theta


class Active(nn.GroupNorm):
    """A normalisation with an activation behind it."""

    def forward(self, maps):
        return super().forward(maps).relu()
