"""Semi-supervised students on public images: FixMatch and FreeMatch.

For a batch of unlabelled pictures let q_b be the student's probabilities for a weak view, of which no
gradient is taken, Q_b those for a strong view, and ŷ_b the likeliest class of q_b. Guesses that are sure
enough are labels for the strong views:

    loss = mean over the batch of [max q_b ≥ threshold of class ŷ_b] · (−log Q_b(ŷ_b)).

**FixMatch** (Sohn et al. 2020) has one threshold, 0.95. **FreeMatch** (Wang et al. 2023) follows the student
with averages that decay by m = 0.999 a batch, all of which start at 1 ÷ classes:

    τ ← m τ + (1 − m) mean max q_b          how sure it is,
    p ← m p + (1 − m) mean q_b              of which classes it thinks,
    h ← m h + (1 − m) histogram of ŷ_b      which classes it names,

and the threshold of a class is τ · p(c) ÷ max p. It adds 0.05 times a term that keeps it from naming few
classes, of the guesses Q_b that are sure enough, with mean P and histogram H of their likeliest classes:

    fairness = Σ_c a_c log b_c,   a ∝ p ÷ h,   b ∝ P ÷ H,   both of sum 1,

which is minus a cross-entropy, as published: it is large in size where what is named and what is thought of
differ. A class that nobody names (H = 0) is left out of b, and so of the sum. If no guess is sure enough,
nothing is learned from the batch.

The averages travel as one vector, (τ, p, h), so that training can stop and go on anywhere.

FixMatch and FreeMatch (`methods.deep.semi_supervised`), for a linear head on a frozen public network and
then, where that is asked for, for the network too. Everything here is public or released: the answers were
paid for, and what is computed from them is free. Given the same answers the student comes out the same, on
the same kind of machine: draws are seeded by the number of the step, and kernels that would add in any order
are not used.

A network in evaluation mode is trained in evaluation mode: batch normalisation keeps its public averages, so
that what a picture gives does not depend on its batch, and nothing changes besides the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy, deepcopy
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dptransfer.base import progress
from dptransfer.base.types import Floats, Integers, PixelArray
from dptransfer.encoders.encoder import EncoderDelta
from dptransfer.methods.deep import augment
from dptransfer.methods.deep.network import Network

THRESHOLD = 0.95
DECAY = 0.999
FAIRNESS = 0.05


def first_averages(classes: int) -> Any:
    """(τ, p, h) before anything was seen: 1 ÷ classes each."""
    import torch

    return torch.full((1 + 2 * classes,), 1 / classes)


def fixmatch(weak: Any, strong: Any, averages: Any) -> tuple[Any, Any]:
    """The loss on unlabelled pictures, and the averages, of which it makes no use.

    Args:
        weak: (pictures, classes) logits of weak views.
        strong: the same of strong views of the same pictures.
        averages: see `first_averages`.
    """
    sure, guesses = weak.detach().softmax(1).max(1)
    return _consistency(strong, guesses, sure >= THRESHOLD), averages


def freematch(weak: Any, strong: Any, averages: Any) -> tuple[Any, Any]:
    """The same with thresholds that adapt and with fairness, and the averages after this batch."""
    import torch

    believed = weak.detach().softmax(1)
    classes = believed.shape[1]
    sure, guesses = believed.max(1)
    seen = torch.cat([sure.mean()[None], believed.mean(0), _histogram(guesses, classes)])
    averages = DECAY * averages + (1 - DECAY) * seen
    overall, thought, named = averages.split([1, classes, classes])
    taken = sure > (overall * thought / thought.max())[guesses]
    fair = _fairness(strong[taken], thought / named)
    return _consistency(strong, guesses, taken) + FAIRNESS * fair, averages


RULES: dict[str, Callable[[Any, Any, Any], tuple[Any, Any]]] = {"fixmatch": fixmatch, "freematch": freematch}


def _consistency(strong: Any, guesses: Any, taken: Any) -> Any:
    """The mean over all pictures, those not taken counting as zeros."""
    import torch

    return (torch.nn.functional.cross_entropy(strong, guesses, reduction="none") * taken).mean()


def _fairness(strong: Any, wanted: Any) -> Any:
    """Σ a log b over the classes that these pictures are named."""
    if not len(strong):
        return strong.sum()  # zero, and with a gradient
    probabilities = strong.softmax(1)
    named = _histogram(probabilities.argmax(1), probabilities.shape[1])
    told = named > 0
    found = probabilities.mean(0)[told] / named[told]
    return (wanted / wanted.sum())[told] @ (found / found.sum()).log()


def _histogram(classes: Any, count: int) -> Any:
    """The share of each class."""
    import torch

    return torch.nn.functional.one_hot(classes, count).float().mean(0)


RATIO = 7
"""For every answered picture of a step there are so many of all pictures, as in FixMatch."""

AVERAGING = 0.999
"""The student is the average of its values on the way, which decays by so much a step, as in FixMatch."""

HEAD_PACE, TRUNK_PACE = 1e-3, 3e-4
"""Lengths of the first steps, by Adam: plain descent, as published, needs others for every network.

These and `SCALE` were decided on 24 classes of Caltech-101 at 64 pixels, with three answers each: of other
pictures the head alone had 0.778 right; 50 steps of the network made that 0.781, 0.831 and 0.805 at paces of
1e-4, 3e-4 and 1e-3.
"""

SCALE = 8.0
"""Root mean square of the norm of the head's rows; 4, 8 and 16 did about as well, 32 worse."""

VIEWS = 4
"""Weak views of each picture, and strong ones, while the network is frozen: each is seen once."""

_KEPT_TIMES = 10  # in a workspace a killed run loses at most a tenth of the steps
_DECAYS = 0.9, 0.999  # of Adam's averages of the gradient and of its square
_TINY = 1e-8
_PASS = 256  # pictures that a frozen network sees at once

Kept = Callable[[str, Callable[[], Any]], Any]
View = Callable[[Any, Any], Any]


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
    kept: Kept = lambda what, compute: compute(),
) -> Taught:
    """Train a student on public pictures.

    Args:
        network: the public network to start from; it stays as it is.
        pixels: all public pictures, (pictures, side, side, 3) bytes.
        answered: positions of those with an answer. With none, the student is the public start.
        targets: (answered, classes) probabilities of each answer; a single one where it is a label.
        rule: 'fixmatch' or 'freematch'.
        trains: 'head', or 'full' for the network too.
        steps: how many, of the head and, if it is trained, as many of the network.
        batch: how many answered pictures are drawn for a step.
        kept: the noise source's `kept`, so that a run that was killed goes on where it last kept something.
    """
    import torch

    wanted = torch.from_numpy(np.asarray(targets, dtype=np.float32)).to(network.device)

    def slope(learner: HeadAlone, number: int, averages: Any) -> Any:
        """Leave the gradient of a step's loss with the learner; the rule's averages after it."""
        draws = torch.Generator().manual_seed(number)
        mine = torch.randint(len(answered), (batch,), generator=draws)
        others = torch.randint(len(pixels), (RATIO * batch,), generator=draws).numpy()
        told = learner.logits(answered[mine.numpy()], augment.weak, draws)
        with torch.no_grad():
            guesses = learner.logits(others, augment.weak, draws)
        loss, averages = RULES[rule](guesses, learner.logits(others, augment.strong, draws), averages)
        (torch.nn.functional.cross_entropy(told, wanted[mine.to(wanted.device)]) + loss).backward()
        return averages

    averages, taken = first_averages(wanted.shape[1]).to(wanted.device), steps if len(answered) else 0
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        learner = HeadAlone(network, pixels, wanted.shape[1])
        _descend(learner, slope, averages, taken, "step of the student's head", kept)
        if trains == "full":
            learner = WholeNetwork(learner)
            _descend(learner, slope, averages, taken, "step of the student's network", kept)
    return learner.taught()


class HeadAlone:
    """A linear head on a frozen network: rows of a few views of each picture are seen once, and drawn from.

    Rows are centred at the mean of all, and scaled by their spread around it, so that the head sees what
    tells pictures apart; that is part of the head in the end. What is trained, and its gradient, is one
    vector.

    Args:
        network: the public network.
        pixels: all public pictures.
        classes: how many.
    """

    def __init__(self, network: Network, pixels: PixelArray, classes: int) -> None:
        import torch

        self.network, self.pixels = network, pixels
        self.encoder = network.encoder
        self.weights = torch.zeros(classes, network.dimension, device=network.device, requires_grad=True)
        self.offset = torch.zeros(classes, device=network.device, requires_grad=True)
        self._seen: dict[View, Any] = {
            view: self._rows_of_views(view) for view in (augment.weak, augment.strong)
        }
        plain = self._seen[augment.weak].flatten(0, 1)
        centre = plain.mean(0)
        spread = float((plain - centre).square().sum(1).mean().sqrt())
        self.centre, self.scale = centre.to(network.device), SCALE / max(spread, _TINY)
        self.flatten([])

    def flatten(self, trunk: list[Any]) -> None:
        """Make the head's parameters and these, and their gradients, views of one vector each."""
        import torch

        tensors = [self.weights, self.offset, *trunk]
        self.values = torch.cat([one.detach().reshape(-1) for one in tensors])
        self.gradient = torch.zeros_like(self.values)
        self.paces = torch.full_like(self.values, TRUNK_PACE)
        self.paces[: self.weights.numel() + self.offset.numel()] = HEAD_PACE
        first = 0
        for one in tensors:
            place = slice(first, first := first + one.numel())
            one.data, one.grad = (whole[place].view(one.shape) for whole in (self.values, self.gradient))

    def logits(self, positions: Integers, view: View, draws: Any) -> Any:
        """What the student makes of views of those pictures."""
        return (self.rows(positions, view, draws) - self.centre) * self.scale @ self.weights.T + self.offset

    def rows(self, positions: Integers, view: View, draws: Any) -> Any:
        """Rows of unit norm for views of those pictures: of one that was seen, drawn for each."""
        import torch

        drawn = torch.randint(VIEWS, (len(positions),), generator=draws)
        return self._seen[view][torch.from_numpy(positions), drawn].to(self.network.device)

    def unit_rows(self, raw: Any) -> Any:
        """Rows of unit norm for bytes on the device."""
        import torch

        return torch.nn.functional.normalize(self.encoder.rows_of(self.network.from_bytes(raw)))

    def raw(self, positions: Any) -> Any:
        """Those pictures, as bytes on the device."""
        import torch

        return torch.from_numpy(np.array(self.pixels[positions])).to(self.network.device)

    def taught(self) -> Taught:
        """The student as it is, with a head for rows that are neither centred nor scaled."""
        weights = self.scale * self.weights.detach().double()
        offset = self.offset.detach().double() - weights @ self.centre.double()
        return Taught(weights.cpu().numpy(), offset.cpu().numpy(), self.delta())

    def delta(self) -> EncoderDelta | None:
        """What changed in the network."""
        return None

    def _rows_of_views(self, view: View) -> Any:
        """(pictures, views, dimension), in the machine's memory: there is more of it than of a GPU's."""
        import torch

        parts, draws = [], torch.Generator().manual_seed(0)
        with torch.no_grad():
            for number in progress.steps(-(-len(self.pixels) // _PASS), "pass over public pictures"):
                raw = self.raw(slice(number * _PASS, (number + 1) * _PASS))
                views = [self.unit_rows(view(raw, draws)).cpu() for _ in range(VIEWS)]
                parts.append(torch.stack(views, 1))
        return torch.cat(parts)


class WholeNetwork(HeadAlone):
    """A network that is trained with its head, once the head has learned what it can alone.

    In that order, since a head that knows nothing yet would spoil what the network knows (Kumar et al. 2022,
    Fine-Tuning can Distort Pretrained Features).

    Args:
        before: the student so far, whose head it takes over.
    """

    def __init__(self, before: HeadAlone) -> None:
        import torch

        vars(self).update({**vars(before), "_seen": {}})
        self.encoder = copy(self.network.encoder)
        self.encoder.module = deepcopy(self.network.module).requires_grad_(True)
        every = list(self.encoder.module.parameters())
        slopes = torch.autograd.grad(self.unit_rows(self.raw([0])).sum(), every, allow_unused=True)
        # Rows do not depend on all of them: on a public head's, say, which may be part of the network.
        self.flatten([one for one, slope in zip(every, slopes, strict=True) if slope is not None])

    def rows(self, positions: Integers, view: View, draws: Any) -> Any:
        """Rows of unit norm for new views of those pictures."""
        return self.unit_rows(view(self.raw(positions), draws))

    def delta(self) -> EncoderDelta | None:
        """The parameters of the network that have changed."""
        public = dict(self.network.module.named_parameters())
        arrays = {
            name: one.detach().float().cpu().numpy()
            for name, one in self.encoder.module.named_parameters()
            if not one.equal(public[name])
        }
        return EncoderDelta(self.network.identity, "state", arrays) if arrays else None


def _descend(
    learner: HeadAlone, slope: Callable[..., Any], averages: Any, steps: int, what: str, kept: Kept
) -> None:
    """Take Adam's steps, shorter from one to the next, and leave the average on the way with the learner."""
    import torch

    size, (of_slope, of_square) = len(learner.values), _DECAYS

    def onward(state: Any, first: int, last: int) -> Any:
        """The state after these steps: values, two averages of Adam's, average values, and the rule's."""
        values, speed, square, middle, averages = state.split([size] * 4 + [len(state) - 4 * size])
        learner.values.copy_(values)
        for number in range(first, last):
            learner.gradient.zero_()
            averages = slope(learner, number, averages)
            speed = of_slope * speed + (1 - of_slope) * learner.gradient
            square = of_square * square + (1 - of_square) * learner.gradient.square()
            usual = (square / (1 - of_square ** (number + 1))).sqrt() + _TINY
            pace = learner.paces * math.cos(7 * math.pi * number / (16 * steps))  # FixMatch's cosine
            learner.values.sub_(pace * speed / (1 - of_slope ** (number + 1)) / usual)
            decay = min(AVERAGING, (1 + number) / (10 + number))  # so that the start is soon forgotten
            middle = decay * middle + (1 - decay) * learner.values
            progress.tell(number + 1, steps, what)
        return torch.cat([learner.values, speed, square, middle, averages]).cpu().numpy()

    nothing = torch.zeros_like(learner.values)
    state = torch.cat([learner.values, nothing, nothing, learner.values, averages])
    stops = [round(part * steps / _KEPT_TIMES) for part in range(_KEPT_TIMES + 1)]
    for first, last in pairwise(sorted(set(stops))):
        found = kept(f"{what} {last}", partial(onward, state, first, last))
        state = torch.from_numpy(np.array(found)).to(learner.values.device)
    learner.values.copy_(state[3 * size : 4 * size])
