"""A student on public pictures: learns from the answered ones, and from its own guesses at all others.

FixMatch and FreeMatch (`deep.pseudo_labels`), for a linear head on a frozen public network or for the network
too. Everything here is public or released: the answers were paid for, and what is computed from them is free.
Given the same answers the student comes out the same, on the same kind of machine: draws are seeded by the
number of the step, and kernels that would add in any order are not used.

A network in evaluation mode is trained in evaluation mode: batch normalisation keeps its public averages, so
that what a picture gives does not depend on its batch, and nothing changes besides the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any, NamedTuple

import numpy as np

from dptransfer import progress
from dptransfer.arrays import Floats, Integers, PixelArray
from dptransfer.deep import augment
from dptransfer.deep.network import Network
from dptransfer.deep.pseudo_labels import RULES, first_averages
from dptransfer.encoders.delta import EncoderDelta

PARTS = ("head", "full")
"""What can be trained: the linear head, or the network with it."""

RATIO = 7
"""For every answered picture of a step there are so many of all pictures, as in FixMatch."""

MOMENTS, WEIGHT_DECAY, AVERAGING = (0.9, 0.999), 5e-4, 0.999
"""Nesterov's momentum, the decay of weights, and that of their average, which is the student: FixMatch's."""

SCALE = 16.0
"""Logits are so many times the head's: rows have unit norm, and a sure guess needs logits far apart."""

PACE = 0.03
"""Length of the first steps; they shrink with the cosine of 7/16 of half a turn: FixMatch's."""

VIEWS = 4
"""Weak views of each picture, and strong ones, where the network is frozen: they are seen once."""

CHUNK = 100
"""After so many steps what a run needs to go on is kept."""


class Taught(NamedTuple):
    """A student: a linear head on rows of unit norm, and the change of the network whose rows they are.

    Attributes:
        weights: (classes, dimension).
        offset: (classes,).
        delta: what changed in the network; None where only the head was trained.
    """

    weights: Floats
    offset: Floats
    delta: EncoderDelta | None


def taught(
    network: Network,
    pixels: PixelArray,
    answered: Integers,
    targets: Floats,
    *,
    rule: str,
    trains: str,
    steps: int,
    batch: int,
    kept: Callable[[str, Callable[[], Any]], Any] = lambda what, compute: compute(),
) -> Taught:
    """Train a student on public pictures.

    Args:
        network: the public network to start from; it stays as it is.
        pixels: all public pictures, (pictures, side, side, 3) bytes.
        answered: positions of those with an answer. With none, the student is the public start.
        targets: (answered, classes) probabilities of each answer; a single one where it is a label.
        rule: 'fixmatch' or 'freematch'.
        trains: 'head', or 'full' for the network too.
        steps: how many.
        batch: how many answered pictures are drawn for a step.
        kept: `noise.kept`, so that a run that was killed goes on where it last kept something.
    """
    import torch

    classes = targets.shape[1]
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        learner = (_WholeNetwork if trains == "full" else _HeadAlone)(network, pixels, classes)
        wanted = torch.from_numpy(np.asarray(targets, dtype=np.float32)).to(network.device)

        def step(number: int, averages: Any) -> Any:
            """Leave the gradient of a step's loss with the learner; the averages of the rule after it."""
            draws = torch.Generator().manual_seed(number)
            mine = torch.randint(len(answered), (batch,), generator=draws)
            others = torch.randint(len(pixels), (RATIO * batch,), generator=draws).numpy()
            told = learner.logits(answered[mine.numpy()], augment.weak, draws)
            with torch.no_grad():
                guesses = learner.logits(others, augment.weak, draws)
            loss, averages = RULES[rule](guesses, learner.logits(others, augment.strong, draws), averages)
            (torch.nn.functional.cross_entropy(told, wanted[mine.to(wanted.device)]) + loss).backward()
            return averages

        averages = first_averages(classes).to(network.device)
        _descend(learner, step, averages, steps if len(answered) else 0, kept)
    return learner.taught()


class _Learner:
    """A network and a linear head; what is trained, and its gradient, is one vector."""

    def __init__(self, network: Network, pixels: PixelArray, classes: int) -> None:
        import torch

        self.network, self.pixels = network, pixels
        self.encoder = copy(network.encoder)
        self.centre, self.spread = self._centre_and_spread()
        self.weights = torch.zeros(classes, network.dimension, device=network.device, requires_grad=True)
        self.offset = torch.zeros(classes, device=network.device, requires_grad=True)
        tensors = [self.weights, self.offset, *self.unfrozen()]
        self.values = torch.cat([one.detach().reshape(-1) for one in tensors])
        self.gradient = torch.zeros_like(self.values)
        # Biases, and the scales of normalisation layers, do not decay: as is usual.
        decays = [torch.full_like(one.detach().reshape(-1), WEIGHT_DECAY * (one.ndim > 1)) for one in tensors]
        self.decays = torch.cat(decays)
        first = 0
        for one in tensors:
            place = slice(first, first := first + one.numel())
            one.data, one.grad = (whole[place].view(one.shape) for whole in (self.values, self.gradient))

    def unfrozen(self) -> list[Any]:
        """Parameters of the network that are trained."""
        return []

    def raw(self, positions: Any) -> Any:
        """Those pictures, on the device."""
        import torch

        return torch.from_numpy(np.array(self.pixels[positions])).to(self.network.device)

    def unit_rows(self, raw: Any) -> Any:
        """Rows of unit norm for pictures."""
        import torch

        return torch.nn.functional.normalize(self.encoder.rows_of(self.network.from_bytes(raw)))

    def rows(self, positions: Integers, view: Callable[[Any, Any], Any], draws: Any) -> Any:
        """Rows of unit norm for views of those pictures."""
        return self.unit_rows(view(self.raw(positions), draws))

    def logits(self, positions: Integers, view: Callable[[Any, Any], Any], draws: Any) -> Any:
        """What the student makes of views of those pictures."""
        centred = (self.rows(positions, view, draws) - self.centre) * (SCALE / self.spread)
        return centred @ self.weights.T + self.offset

    def taught(self) -> Taught:
        """The student as it is, its head for rows that are not centred."""
        weights = self.weights.detach().double() * (SCALE / self.spread)
        offset = self.offset.detach().double() - weights @ self.centre.double()
        return Taught(weights.cpu().numpy(), offset.cpu().numpy(), self.delta())

    def _centre_and_spread(self) -> tuple[Any, float]:
        """Mean of the public start's rows, and the root of their mean squared distance from it."""
        import torch

        with torch.no_grad():
            parts = [
                self.unit_rows(self.raw(slice(first, first + _PASS)))
                for first in range(0, len(self.pixels), _PASS)
            ]
        rows = torch.cat(parts)
        centre = rows.mean(0)
        return centre, float((rows - centre).square().sum(1).mean().sqrt()) or 1.0

    def delta(self) -> EncoderDelta | None:
        """What changed in the network."""
        return None


class _WholeNetwork(_Learner):
    """The network is trained with the head."""

    def unfrozen(self) -> list[Any]:
        self.encoder.module = deepcopy(self.network.module).requires_grad_(True)
        return list(self.encoder.module.parameters())

    def delta(self) -> EncoderDelta | None:
        public = dict(self.network.module.named_parameters())
        arrays = {
            name: one.detach().float().cpu().numpy()
            for name, one in self.encoder.module.named_parameters()
            if not one.equal(public[name])  # a public head, say, has no part in rows
        }
        return EncoderDelta(self.network.identity, "state", arrays) if arrays else None


class _HeadAlone(_Learner):
    """The network is frozen: rows of a few views of every picture are computed once, and drawn from."""

    def __init__(self, network: Network, pixels: PixelArray, classes: int) -> None:
        super().__init__(network, pixels, classes)
        self._seen = {view: self._rows_of_views(view) for view in (augment.weak, augment.strong)}

    def _rows_of_views(self, view: Callable[[Any, Any], Any]) -> Any:
        """(pictures, views, dimension) rows."""
        import torch

        parts = []
        with torch.no_grad():
            for number in progress.steps(-(-len(self.pixels) // _PASS), "views of public pictures"):
                raw = self.raw(slice(number * _PASS, (number + 1) * _PASS))
                draws = torch.Generator().manual_seed(number)
                parts.append(torch.stack([self.unit_rows(view(raw, draws)) for _ in range(VIEWS)], 1))
        return torch.cat(parts)

    def rows(self, positions: Integers, view: Callable[[Any, Any], Any], draws: Any) -> Any:
        import torch

        drawn = torch.randint(VIEWS, (len(positions),), generator=draws).to(self.network.device)
        return self._seen[view][torch.from_numpy(positions).to(self.network.device), drawn]


_PASS = 256


def _descend(
    learner: _Learner,
    step: Callable[[int, Any], Any],
    averages: Any,
    steps: int,
    kept: Callable[[str, Callable[[], Any]], Any],
) -> None:
    """Take the steps, and leave the learner with the average of its values on the way."""
    import torch

    size = len(learner.values)

    def onward(state: Any, first: int, last: int) -> Any:
        """The state after these steps: values, speed, average values, averages of the rule."""
        values, speed, square, middle, averages = state.split([size] * 4 + [len(state) - 4 * size])
        learner.values.copy_(values)
        for number in range(first, last):
            learner.gradient.zero_()
            averages = step(number, averages)
            first_moment, second_moment = MOMENTS
            speed = first_moment * speed + (1 - first_moment) * learner.gradient
            square = second_moment * square + (1 - second_moment) * learner.gradient.square()
            found = speed / (1 - first_moment ** (number + 1))
            size_ = (square / (1 - second_moment ** (number + 1))).sqrt() + 1e-8
            pace = PACE * math.cos(7 * math.pi * number / (16 * steps))
            learner.values.sub_(pace * (found / size_ + learner.decays * learner.values))
            decay = min(AVERAGING, (1 + number) / (10 + number))  # so that the start is soon forgotten
            middle = decay * middle + (1 - decay) * learner.values
            progress.tell(number + 1, steps, "student step")
        return torch.cat([learner.values, speed, square, middle, averages]).cpu().numpy()

    state = torch.cat(
        [
            learner.values,
            torch.zeros_like(learner.values),
            torch.zeros_like(learner.values),
            learner.values,
            averages,
        ]
    )
    for first in range(0, steps, CHUNK):
        last = min(first + CHUNK, steps)
        found = kept(f"student after {last} steps", lambda: onward(state, first, last))  # noqa: B023
        state = torch.from_numpy(np.array(found)).to(learner.values.device)
    learner.values.copy_(state[3 * size : 4 * size])
