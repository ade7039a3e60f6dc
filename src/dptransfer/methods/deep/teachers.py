"""Teachers that learn side by side, each from its own pictures alone, and are asked about public ones.

A pass through the network carries the pictures of several teachers, and each teacher's own weights meet its
own pictures only. Every teacher takes the same public number of steps on batches of the same size, going
through its own pictures again and again in an order that depends on their number alone. So nothing is padded,
no teacher waits for another, and how long it all takes tells nothing of who has how many pictures. A thousand
teachers cost what one teacher with all their pictures would.

What a teacher says must be a function of its own pictures, or one private unit would touch two ballots. Its
weights, its optimiser's state and its loss are its own; passes always have the same shape, and a teacher has
the same places in all of them, whatever the others have. A network that is not known to keep pictures apart
runs on each by itself. What is assumed is that a kernel's arithmetic for one picture of a batch does not look
at the values of the others, as that of convolutions, products and sums does not; `benchmarks/prompts.py
--neighbours` measures it, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dptransfer.base.progress import tell
from dptransfer.base.types import AnyArray, Floats, Integers, Labels
from dptransfer.encoders.device import exact_kernels
from dptransfer.queries.votes import ABSTAINS

_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8  # Adam's usual numbers


class Teachers(Protocol):
    """What teachers have in common, and what each learns."""

    @property
    def device(self) -> Any:
        """Where they are."""

    def start(self, count: int) -> list[Any]:
        """What so many teachers learn, at its public start: tensors (count, ...) that gradients flow to."""

    def logits(self, weights: list[Any], raw: Any) -> Any:
        """(teachers, pictures, classes) for bytes (teachers, pictures, side, side, 3), each teacher's own."""


@dataclass(frozen=True)
class Course:
    """How every teacher learns: Adam on the softmax loss, at a rate that falls after each tenth of the steps.

    Attributes:
        steps: how many steps each takes.
        batch: how many of its own pictures it looks at in a step.
        rate: Adam's rate at the beginning.
        decay: by what the rate is multiplied then.
        together: how many teachers share a pass.
    """

    steps: int
    batch: int
    rate: float
    decay: float
    together: int

    def rates(self) -> list[float]:
        """The rate of each step.

        >>> Course(20, 16, 1.0, 0.5, 1).rates()[:5]
        [1.0, 1.0, 0.5, 0.5, 0.25]
        """
        return [self.rate * self.decay ** (10 * step // self.steps) for step in range(self.steps)]


def public_layer(bits: np.random.Generator, inputs: int, outputs: int) -> tuple[Floats, Floats]:
    """An affine map to start from: uniform weights of variance 1 ÷ inputs, and offsets of zero."""
    most = math.sqrt(3 / inputs)
    return bits.uniform(-most, most, (inputs, outputs)), np.zeros(outputs)


def repeated(arrays: Iterable[AnyArray], count: int, device: Any) -> list[Any]:
    """The same start for so many teachers: a tensor (count, ...) of each array, that gradients flow to."""
    import torch

    copies = (np.repeat(np.asarray(array, dtype=np.float32)[None], count, axis=0) for array in arrays)
    return [torch.from_numpy(copy).to(device).requires_grad_() for copy in copies]


def visits(own: int, draws: int) -> Integers:
    """Which of its own pictures a teacher looks at, one after the other: all of them, then all again, ...

    The orders are random and public, and depend on nothing but how many pictures it has.

    >>> sorted(visits(3, 6).tolist())
    [0, 0, 1, 1, 2, 2]
    """
    rounds = np.tile(np.arange(own), (math.ceil(draws / own), 1))
    return np.random.Generator(np.random.PCG64(0)).permuted(rounds, axis=1).ravel()[:draws]


def ballots_of(
    model: Teachers,
    course: Course,
    pixels: Any,
    labels: Labels,
    parts: Sequence[Integers],
    questions: AnyArray,
    kept: Callable[[str, Callable[[], AnyArray]], AnyArray],
) -> Integers:
    """(teachers, questions) classes that trained teachers take public pictures for.

    Args:
        model: what the teachers are.
        course: how they learn.
        pixels: all private pictures, as bytes, by position.
        labels: class positions of these.
        parts: the positions of each teacher's pictures; one without any abstains.
        questions: public pictures, as bytes.
        kept: keeps what a group of teachers says, so that a run that goes on need not teach it again; see
            `NoiseSource.kept`.
    """
    ballots, asked = [], _batches(questions, course.batch)
    groups, passes = range(0, len(parts), course.together), course.steps + len(asked)
    for number, first in enumerate(groups):
        few = parts[first : first + course.together]

        def told(done: int, before: int = number * passes) -> None:
            tell(before + done, len(groups) * passes, "passes of the teachers")

        def said(few: Sequence[Integers] = few, told: Callable[[int], None] = told) -> Integers:
            with exact_kernels():
                weights = _taught(model, course, pixels, labels, few, told)
                return _said(model, course, weights, asked, told)

        ballots.append(kept(f"ballots from teacher {first} on", said)[: len(few), : len(questions)])
        told(passes)
    cast = np.concatenate(ballots)
    cast[[len(part) == 0 for part in parts]] = ABSTAINS
    return cast


def _taught(
    model: Teachers,
    course: Course,
    pixels: Any,
    labels: Labels,
    few: Sequence[Integers],
    told: Callable[[int], None],
) -> list[Any]:
    """What the teachers of one group learn from their own pictures."""
    import torch

    raw, wanted, places = (
        torch.from_numpy(array).to(model.device) for array in _lessons(course, pixels, labels, few)
    )
    weights = model.start(course.together)
    moments = [(torch.zeros_like(one), torch.zeros_like(one)) for one in weights]
    for step, rate in enumerate(course.rates()):
        logits = model.logits(weights, raw[places[step]]).flatten(0, 1)
        losses = torch.nn.functional.cross_entropy(logits, wanted[places[step]].flatten(), reduction="none")
        # The sum of the teachers' mean losses: its gradient in one teacher's weights is that teacher's own.
        gradients = torch.autograd.grad(losses.sum() / course.batch, weights)
        with torch.no_grad():
            for one, gradient, (first, second) in zip(weights, gradients, moments, strict=True):
                _adam(one, gradient, first, second, rate, step + 1)
        told(step + 1)
    return weights


def _adam(weights: Any, gradient: Any, first: Any, second: Any, rate: float, step: int) -> None:
    """One step of Kingma and Ba (2015), in place and number by number, so that no teacher meets another."""
    first.lerp_(gradient, 1 - _FIRST)
    second.mul_(_SECOND).addcmul_(gradient, gradient, value=1 - _SECOND)
    spread = (second / (1 - _SECOND**step)).sqrt() + _TINY
    weights.sub_(rate / (1 - _FIRST**step) * first / spread)


def _lessons(
    course: Course, pixels: Any, labels: Labels, few: Sequence[Integers]
) -> tuple[AnyArray, Integers, Integers]:
    """A group's pictures, read once, their classes, and (steps, together, batch) places among these.

    The first is a black one, for teachers that have none and for places in the group without a teacher.
    """
    draws, places, read = course.steps * course.batch, [], [np.empty(0, dtype=np.int64)]
    for teacher in range(course.together):
        own = few[teacher] if teacher < len(few) else read[0]
        if len(own) == 0:
            places.append(np.zeros(draws, dtype=np.int64))
            continue
        looked, place = np.unique(visits(len(own), draws), return_inverse=True)
        places.append(1 + sum(map(len, read)) + place)
        read.append(own[looked])
    rows = np.concatenate(read)
    raw = np.zeros((1 + len(rows), *pixels.shape[1:]), dtype=np.uint8)
    raw[1:] = pixels[rows]
    wanted = np.concatenate([[0], labels[rows]]).astype(np.int64)
    shape = (course.together, course.steps, course.batch)
    return raw, wanted, np.stack(places).reshape(shape).transpose(1, 0, 2).copy()


def _said(
    model: Teachers, course: Course, weights: list[Any], asked: list[AnyArray], told: Callable[[int], None]
) -> Integers:
    """(teachers, questions) favourites of one group, in passes of the shape that they were taught in."""
    import torch

    said = []
    with torch.no_grad():
        for number, batch in enumerate(asked):
            raw = torch.from_numpy(batch).to(model.device)
            logits = model.logits(weights, raw.expand(course.together, *raw.shape))
            said.append(logits.argmax(2).cpu().numpy())
            told(course.steps + number + 1)
    return np.concatenate(said, axis=1)


def _batches(questions: AnyArray, batch: int) -> list[AnyArray]:
    """The questions in batches of one size, the last of which is filled up with black pictures."""
    short = -len(questions) % batch
    padded = np.concatenate([questions, np.zeros((short, *questions.shape[1:]), dtype=np.uint8)])
    return list(padded.reshape(-1, batch, *questions.shape[1:]))
