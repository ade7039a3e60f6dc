"""The parts of a public network that are trained, and a linear head: one vector, which every example has a copy of.

What is trained starts at the public network and is counted from there, in units of what the network has: so
the vector θ starts at zero. For gradients by example every example gets a copy of θ of its own
(`deep.carried_layers`). What one example's loss says about another's copy is zero, so that one ordinary
backward pass of the summed loss gives every example's gradient, without hooks and without a pass for each.

Stages in front of the first trained layer never change, so `front` is computed once for each picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from typing import Any

import numpy as np

from dptransfer import _check
from dptransfer.arrays import Floats
from dptransfer.deep.carried_layers import Bias, Film, LowRank, Shift, arrays_of
from dptransfer.deep.gradient_lattice import MOST_PARAMETERS
from dptransfer.deep.network import Network
from dptransfer.encoders.delta import EncoderDelta
from dptransfer.errors import ArgumentError

TRAINED = {
    "film": "scales and shifts of normalisation layers",
    "bias": "shifts of normalisation layers, and biases",
    "low-rank": "low-rank changes of linear and convolutional layers",
    "last": "the head alone",
    "all": "every parameter",
}
"""What can be trained, beside the head."""

Loss = Callable[[Any], Any]
"""From logits (examples, classes) to a loss for each."""


class TrainedParts:
    """What is trained of a network, with a head on its rows scaled to unit norm.

    Args:
        network: the public network; it stays as it is.
        train: one of `TRAINED`.
        classes: how many the head tells apart.
        blocks: how many of the last stages are trained; None for all.
        rank: of low-rank changes.
        pace: what one unit of θ changes in the network, in units of what is there; the head moves by one.

    Attributes:
        size: length of θ: first what is trained of the network, then the head.
        trunk: how many of these belong to the network.
        first: the first stage with a trained layer; those in front are frozen.
    """

    def __init__(
        self,
        network: Network,
        train: str,
        classes: int,
        *,
        blocks: int | None = None,
        rank: int = 8,
        pace: float = 1.0,
    ) -> None:
        self.network, self.train, self.classes = network, _check.one_of("train", train, TRAINED), classes
        self._own = copy(network)
        self._own.module = deepcopy(network.module)
        _require_public_statistics(network)
        raise NotImplementedError

    def front(self, inputs: Any) -> Any:
        """What comes out of the frozen stages for the network's inputs; computed once for each picture."""
        raise NotImplementedError

    def logits(self, theta: Any, maps: Any) -> Any:
        """(pictures, classes) at θ, a tensor (size,), for what `front` gives."""
        raise NotImplementedError

    def gradients(self, theta: Any, maps: Any, loss: Loss, *, views: int = 1) -> Any:
        """(examples, size) gradients of each example's own loss, averaged over its views.

        Args:
            theta: where, a tensor (size,).
            maps: what `front` gives for examples × views pictures, the views of one next to each other.
            loss: gives the loss of each picture from their logits.
            views: how many of them an example has.
        """
        raise NotImplementedError

    def head(self, theta: Floats) -> Floats:
        """(classes, dimension) weights of the head."""
        raise NotImplementedError

    def delta(self, theta: Floats) -> EncoderDelta | None:
        """What is changed in the encoder; None where the head alone is trained."""
        raise NotImplementedError
