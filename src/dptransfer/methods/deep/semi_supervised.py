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
from typing import NamedTuple, TypeAlias

import numpy as np

from dptransfer.base import progress
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, Floats, Integers, PixelArray, Tensor
from dptransfer.encoders import encoder, per_example
from dptransfer.methods.deep import augment
from dptransfer.methods.deep.augment import View
from dptransfer.methods.deep.network import Network

THRESHOLD = 0.95
DECAY = 0.999
FAIRNESS = 0.05

Rule: TypeAlias = "Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]"
"""From logits of weak views, of strong views and averages, to the loss and the averages after this batch."""


def first_averages(classes: int) -> Tensor:
    """(τ, p, h) before anything was seen: 1 ÷ classes each."""
    return torch.full((1 + 2 * classes,), 1 / classes)


def fixmatch(weak: Tensor, strong: Tensor, averages: Tensor) -> tuple[Tensor, Tensor]:
    """The loss on unlabelled pictures, and the averages, of which it makes no use.

    Args:
        weak: (pictures, classes) logits of weak views.
        strong: the same of strong views of the same pictures.
        averages: see `first_averages`.
    """
    sure, guesses = weak.detach().softmax(1).max(1)
    return _consistency(strong, guesses, sure >= THRESHOLD), averages


def freematch(weak: Tensor, strong: Tensor, averages: Tensor) -> tuple[Tensor, Tensor]:
    """The same with thresholds that adapt and with fairness, and the averages after this batch."""
    believed = weak.detach().softmax(1)
    classes = believed.shape[1]
    sure, guesses = believed.max(1)
    seen = torch.cat([sure.mean()[None], believed.mean(0), _histogram(guesses, classes)])
    averages = DECAY * averages + (1 - DECAY) * seen
    overall, thought, named = torch.split(averages, [1, classes, classes])
    taken = sure > (overall * thought / thought.max())[guesses]
    fair = _fairness(strong[taken], thought / named)
    return _consistency(strong, guesses, taken) + FAIRNESS * fair, averages


RULES: dict[str, Rule] = {"fixmatch": fixmatch, "freematch": freematch}


def _consistency(strong: Tensor, guesses: Tensor, taken: Tensor) -> Tensor:
    """The mean over all pictures, those not taken counting as zeros."""
    return (torch.nn.functional.cross_entropy(strong, guesses, reduction="none") * taken).mean()


def _fairness(strong: Tensor, wanted: Tensor) -> Tensor:
    """Σ a log b over the classes that these pictures are named."""
    if not len(strong):
        return strong.sum()  # zero, and with a gradient
    probabilities = strong.softmax(1)
    shares = _histogram(probabilities.argmax(1), probabilities.shape[1])
    named = shares > 0
    found = probabilities.mean(0)[named] / shares[named]
    return (wanted / wanted.sum())[named] @ (found / found.sum()).log()


def _histogram(classes: Tensor, count: int) -> Tensor:
    """The share of each class."""
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

Kept: TypeAlias = Callable[[str, Callable[[], AnyArray]], AnyArray]
Slope: TypeAlias = "Callable[[int, Tensor], Tensor]"


class Training(NamedTuple):
    """How a student is trained.

    Attributes:
        rule: 'fixmatch' or 'freematch'.
        trains: 'head', or 'full' for the network too.
        steps: how many, of the head and, if it is trained, as many of the network.
        batch: how many answered pictures are drawn for a step.
    """

    rule: str
    trains: str
    steps: int
    batch: int


class TrainedStudent(NamedTuple):
    """A linear head on rows of unit norm, and the change of the network whose rows they are.

    Attributes:
        weights: (classes, dimension).
        offset: (classes,).
        delta: what changed in the network; None where only the head was trained.
    """

    weights: Floats
    offset: Floats
    delta: encoder.EncoderDelta | None


@per_example.exact_kernels()
def train_student(
    network: Network,
    pixels: PixelArray,
    answered: Integers,
    targets: Floats,
    training: Training,
    kept: Kept = lambda what, compute: compute(),
) -> TrainedStudent:
    """Train a student on public pictures.

    Args:
        network: the public network to start from; it stays as it is.
        pixels: all public pictures, (pictures, side, side, 3) bytes.
        answered: positions of those with an answer. With none, the student is the public start.
        targets: (answered, classes) probabilities of each answer; a single one where it is a label.
        training: how.
        kept: the noise source's `kept`, so that a run that was killed goes on where it last kept something.
    """
    wanted = torch.from_numpy(np.asarray(targets, dtype=np.float32)).to(network.device)
    student = Student(network, pixels, wanted.shape[1])
    cross_entropy = torch.nn.functional.cross_entropy

    def slope(number: int, averages: Tensor) -> Tensor:
        """Leave the gradient of a step's loss with the student; the rule's averages after it."""
        draws = torch.Generator().manual_seed(number)
        mine = torch.randint(len(answered), (training.batch,), generator=draws)
        others = torch.randint(len(pixels), (RATIO * training.batch,), generator=draws).numpy()
        own = student.logits(answered[mine.numpy()], augment.weak, draws)
        with torch.no_grad():
            guesses = student.logits(others, augment.weak, draws)
        strong = student.logits(others, augment.strong, draws)
        loss, averages = RULES[training.rule](guesses, strong, averages)
        torch.autograd.backward(cross_entropy(own, wanted[mine.to(wanted.device)]) + loss)
        return averages

    averages = first_averages(wanted.shape[1]).to(wanted.device)
    steps = training.steps if len(answered) else 0
    for what in ("head", "network")[: 2 if training.trains == "full" else 1]:
        if what == "network":
            student.unfreeze()
        _descend(student, slope, averages, steps, f"step of the student's {what}", kept)
    return student.result()


class Student:
    """A linear head on a network that is frozen at first.

    Rows are centred at the mean of all, and scaled by their spread around it, so that the head sees what
    tells pictures apart; that is part of the head in the end. What is trained, and its gradient, is one
    vector. The network is trained once the head has learned what it can alone, since a head that knows
    nothing yet would spoil what the network knows (Kumar et al. 2022, Fine-Tuning can Distort Pretrained
    Features).

    Args:
        network: the public network.
        pixels: all public pictures.
        classes: how many.
    """

    def __init__(self, network: Network, pixels: PixelArray, classes: int) -> None:
        self.network, self.pixels, self.encoder = network, pixels, network.encoder
        self.weights = torch.zeros(classes, network.dimension, device=network.device, requires_grad=True)
        self.offset = torch.zeros(classes, device=network.device, requires_grad=True)
        views: tuple[View, View] = augment.weak, augment.strong
        self._seen = {view: self._rows_of_views(view) for view in views}
        plain = self._seen[augment.weak].flatten(0, 1)
        centre = plain.mean(0)
        spread = float((plain - centre).square().sum(1).mean().sqrt())
        self.centre, self.scale = centre.to(network.device), SCALE / max(spread, _TINY)
        self._flatten([])

    def unfreeze(self) -> None:
        """Train the network, too, on new views of pictures from here on."""
        self._seen, self.encoder = {}, copy(self.network.encoder)
        self.encoder.module = deepcopy(self.network.module).requires_grad_(True)
        every = list(self.encoder.module.parameters())
        slopes = torch.autograd.grad(self.unit_rows(self.raw([0])).sum(), every, allow_unused=True)
        # Rows do not depend on all of them: on a public head's, say, which may be part of the network.
        self._flatten([one for one, slope in zip(every, slopes, strict=True) if slope is not None])

    def _flatten(self, trunk: list[Tensor]) -> None:
        """Make the head's parameters and these, and their gradients, views of one vector each."""
        tensors = [self.weights, self.offset, *trunk]
        self.values = torch.cat([one.detach().reshape(-1) for one in tensors])
        self.gradient = torch.zeros_like(self.values)
        self.paces = torch.full_like(self.values, TRUNK_PACE)
        self.paces[: self.weights.numel() + self.offset.numel()] = HEAD_PACE
        first = 0
        for one in tensors:
            place = slice(first, first := first + one.numel())
            one.data, one.grad = (whole[place].view(one.shape) for whole in (self.values, self.gradient))

    def logits(self, positions: Integers, view: View, draws: torch.Generator) -> Tensor:
        """What the student makes of views of those pictures."""
        rows = self._rows(positions, view, draws) - self.centre
        return rows * self.scale @ self.weights.T + self.offset

    def _rows(self, positions: Integers, view: View, draws: torch.Generator) -> Tensor:
        """Rows of unit norm for views of those pictures: of new ones, or of one that was seen for each."""
        if not self._seen:
            return self.unit_rows(view(self.raw(positions), draws))
        drawn = torch.randint(VIEWS, (len(positions),), generator=draws)
        return self._seen[view][torch.from_numpy(positions), drawn].to(self.network.device)

    def unit_rows(self, raw: Tensor) -> Tensor:
        """Rows of unit norm for bytes on the device."""
        return torch.nn.functional.normalize(self.encoder.rows_of(self.network.from_bytes(raw)))

    def raw(self, positions: Integers | slice | list[int]) -> Tensor:
        """Those pictures, as bytes on the device."""
        return torch.from_numpy(np.array(self.pixels[positions])).to(self.network.device)

    def result(self) -> TrainedStudent:
        """The student as it is, with a head for rows that are neither centred nor scaled."""
        weights = self.scale * self.weights.detach().double()
        offset = self.offset.detach().double() - weights @ self.centre.double()
        public = dict(self.network.module.named_parameters())
        arrays = {
            name: one.detach().float().cpu().numpy()
            for name, one in self.encoder.module.named_parameters()
            if not one.equal(public[name])
        }
        delta = encoder.EncoderDelta(self.network.identity, "state", arrays) if arrays else None
        return TrainedStudent(weights.cpu().numpy(), offset.cpu().numpy(), delta)

    def _rows_of_views(self, view: View) -> Tensor:
        """(pictures, views, dimension), in the machine's memory: there is more of it than of a GPU's."""
        parts, draws = [], torch.Generator().manual_seed(0)
        with torch.no_grad():
            for number in progress.steps(-(-len(self.pixels) // _PASS), "pass over public pictures"):
                raw = self.raw(slice(number * _PASS, (number + 1) * _PASS))
                views = [self.unit_rows(view(raw, draws)).cpu() for _ in range(VIEWS)]
                parts.append(torch.stack(views, 1))
        return torch.cat(parts)


def _descend(student: Student, slope: Slope, averages: Tensor, steps: int, what: str, kept: Kept) -> None:
    """Take Adam's steps, shorter from one to the next, and leave the average on the way with the student."""
    size, (of_slope, of_square) = len(student.values), _DECAYS

    def onward(state: Tensor, first: int, last: int) -> Floats:
        """The state after these steps: values, two averages of Adam's, average values, and the rule's."""
        values, speed, square, middle, averages = torch.split(state, [size] * 4 + [len(state) - 4 * size])
        student.values.copy_(values)
        for number in range(first, last):
            student.gradient.zero_()
            averages = slope(number, averages)
            speed = of_slope * speed + (1 - of_slope) * student.gradient
            square = of_square * square + (1 - of_square) * student.gradient.square()
            usual = (square / (1 - of_square ** (number + 1))).sqrt() + _TINY
            pace = student.paces * math.cos(7 * math.pi * number / (16 * steps))  # FixMatch's cosine
            student.values.sub_(pace * speed / (1 - of_slope ** (number + 1)) / usual)
            decay = min(AVERAGING, (1 + number) / (10 + number))  # so that the start is soon forgotten
            middle = decay * middle + (1 - decay) * student.values
            progress.tell(number + 1, steps, what)
        return torch.cat([student.values, speed, square, middle, averages]).cpu().numpy()

    nothing = torch.zeros_like(student.values)
    state = torch.cat([student.values, nothing, nothing, student.values, averages])
    stops = [round(part * steps / _KEPT_TIMES) for part in range(_KEPT_TIMES + 1)]
    for first, last in pairwise(sorted(set(stops))):
        found = kept(f"{what} {last}", partial(onward, state, first, last))
        state = torch.from_numpy(np.array(found)).to(student.values.device)
    student.values.copy_(state[3 * size : 4 * size])
