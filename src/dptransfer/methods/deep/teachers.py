"""Train many teachers in one pass, each on its own pictures alone: prompts, or small networks.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from dptransfer.base import checks, progress
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, Floats, Floats32, Integers, Labels, PixelArray, Tensor
from dptransfer.encoders import registry, torch_module
from dptransfer.encoders.per_example import exact_kernels
from dptransfer.errors import ArgumentError
from dptransfer.queries.votes import ABSTAINS

if TYPE_CHECKING:
    from dptransfer.methods.deep.network import Network

_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8  # Adam's usual numbers


Teachers: TypeAlias = "Prompts | SmallTeachers"
"""What teachers are: where (`device`), what each learns (`start`) and how it answers (`logits`)."""


@dataclass(frozen=True)
class Course:
    """How every teacher learns: Adam on the softmax loss, at a rate that falls after each tenth of the steps.

    Attributes:
        steps: how many steps each takes.
        batch: how many of its own pictures it looks at in a step.
        rate: Adam's rate at the beginning.
        decay: by what the rate is multiplied then.
        together: how many teachers share a pass.
        looks: in how many batches a label map that is solved for sees pictures, each once.
    """

    steps: int
    batch: int
    rate: float
    decay: float
    together: int
    looks: int = 0

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


def repeat(arrays: Iterable[AnyArray], count: int, place: torch.device | str) -> list[Tensor]:
    """The same start for so many teachers: a tensor (count, ...) of each array, that gradients flow to."""
    copies = (np.repeat(np.asarray(array, dtype=np.float32)[None], count, axis=0) for array in arrays)
    return [torch.from_numpy(copy).to(place).requires_grad_() for copy in copies]


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
            `NoiseSource.keep`.
    """
    batches = _batches(questions, course.batch)
    asked = [torch.from_numpy(batch)[None].to(model.device) for batch in batches]
    ballots, heard = [], None
    if course.steps == 0:  # no prompt is trained, so the classifier says the same to all teachers
        assert isinstance(model, Prompts)
        with torch.no_grad(), exact_kernels():
            heard = [model.source(model.start(1)[0], one) for one in asked]
    groups, passes = range(0, len(parts), course.together), course.steps + len(asked)

    def report(before: int, done: int) -> None:
        progress.tell(before + done, len(groups) * passes, "passes of the teachers")

    def cast(few: Sequence[Integers], own: Report) -> Integers:
        with exact_kernels():
            weights = teach(model, course, _lessons(course, pixels, labels, few), own)
            return _favourites(model, course, weights, asked, heard, own)

    for number, first in enumerate(groups):
        few, own = parts[first : first + course.together], partial(report, number * passes)
        found = kept(f"ballots from teacher {first} on", partial(cast, few, own))
        ballots.append(found[: len(few), : len(questions)])
        own(passes)
    votes = np.concatenate(ballots)
    votes[[len(part) == 0 for part in parts]] = ABSTAINS
    return votes


Report = Callable[[int], None]
Lessons = tuple[PixelArray, Integers, Integers]
"""A group's pictures, read once, their classes, and (steps, together, batch) places among these."""


def teach(model: Teachers, course: Course, lessons: Lessons, report: Report) -> list[Tensor]:
    """What the teachers of one group learn from their own pictures."""
    raw, wanted, places = (torch.from_numpy(array).to(model.device) for array in lessons)
    weights = model.start(course.together)
    solving = model if isinstance(model, Prompts) and model.solves else None
    if solving:
        solving.solve(weights, raw, wanted, places[: course.looks])
    trained = weights[:1] if solving else weights
    moments = [(torch.zeros_like(one), torch.zeros_like(one)) for one in trained]
    for step, rate in enumerate(course.rates()):
        logits = model.logits(weights, raw[places[step]]).flatten(0, 1)
        losses = torch.nn.functional.cross_entropy(logits, wanted[places[step]].flatten(), reduction="none")
        # The sum of the teachers' mean losses: its gradient in one teacher's weights is that teacher's own.
        gradients = torch.autograd.grad(losses.sum() / course.batch, trained)
        with torch.no_grad():
            for one, gradient, (first, second) in zip(trained, gradients, moments, strict=True):
                _adam(one, gradient, first, second, rate, step + 1)
        report(step + 1)
    if solving and course.steps:
        solving.solve(weights, raw, wanted, places[: course.looks])
    return weights


def _adam(weights: Tensor, gradient: Tensor, first: Tensor, second: Tensor, rate: float, step: int) -> None:
    """One step of Kingma and Ba (2015), in place and number by number, so that no teacher meets another."""
    first.lerp_(gradient, 1 - _FIRST)
    second.mul_(_SECOND).addcmul_(gradient, gradient, value=1 - _SECOND)
    spread = (second / (1 - _SECOND**step)).sqrt() + _TINY
    weights.sub_(rate / (1 - _FIRST**step) * first / spread)


def _lessons(course: Course, pixels: Any, labels: Labels, few: Sequence[Integers]) -> Lessons:
    """What a group learns from; the first picture is black, for places without a teacher or a picture."""
    batches = max(course.steps, course.looks)
    draws, places, read = batches * course.batch, [], [np.empty(0, dtype=np.int64)]
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
    shape = (course.together, batches, course.batch)
    return raw, wanted, np.stack(places).reshape(shape).transpose(1, 0, 2).copy()


def _favourites(
    model: Teachers, course: Course, weights: list[Tensor], asked: list[Tensor], heard: Any, report: Report
) -> Integers:
    """(teachers, questions) favourites of one group, in passes of the shape that they were taught in.

    `heard` are the classifier's logits where these are the same for all teachers.
    """
    found = []
    with torch.no_grad():
        for number, raw in enumerate(asked):
            if isinstance(model, Prompts) and heard is not None:
                logits = model.mapped(weights[1:], heard[number].expand(course.together, -1, -1))
            else:
                logits = model.logits(weights, raw.expand(course.together, *raw.shape[1:]))
            found.append(logits.argmax(2).cpu().numpy())
            report(course.steps + number + 1)
    return np.concatenate(found, axis=1)


def _batches(questions: PixelArray, batch: int) -> list[PixelArray]:
    """The questions in batches of one size, the last of which is filled up with black pictures."""
    padded = np.pad(questions, [(0, -len(questions) % batch), (0, 0), (0, 0), (0, 0)])
    return list(padded.reshape(-1, batch, *questions.shape[1:]))


_HIDDEN = 64  # width between two layers
_INNER = 192 / 224  # share of the input's side that the paper leaves to the picture
_SHARPNESS = 10.0  # of the softmax over the scores of a ridge regression, which lie between 0 and 1 mostly
_UNSEEN = -1e6


class Prompts:
    """Visual prompts and label maps, one of each for every teacher, around one frozen network.

    A picture x is resized to inner × inner and put in the middle of the network's input, with zeros (what
    the network takes for a middle grey) around it. With ω the prompt, of the input's shape, the network sees

    - with the mask, M ⊙ ω + (1 − M) ⊙ ZeroPad(x), where M is 1 outside of the inner square: the prompt is
      a frame around the picture;
    - without it, ω + ZeroPad(x): the prompt is added to every pixel.

    It answers with logits of its own public classes. `ridge` is the class-balanced ridge regression of
    `methods.votes.pate` on these logits at unit norm, solved for each teacher's own pictures, each counted
    once, before its prompt is trained and again after it; in between it is held. A prompt that is not trained
    stays zero. `random` takes one logit for each declared class, drawn once with a public seed, whoever's
    pictures are whose; `one-layer` and `two-layer` learn an affine map of all of them with the prompt, the
    latter with ReLU between. Prompts start at zero and layers at public random numbers, the same for every
    teacher.

    Args:
        network: the frozen classifier.
        classes: how many are declared.
        inner: side of the square that the picture is resized to; default: 192 of 224 parts of the whole.
        mask: whether the prompt is a frame only.
        label_map: how the network's classes become the declared ones.
    """

    def __init__(
        self,
        network: Network,
        classes: int,
        *,
        inner: int | None = None,
        mask: bool = True,
        label_map: str = "ridge",
    ) -> None:
        self.network, self.device, self.solves = network, network.device, label_map == "ridge"
        name, side, source = network.identity.name, network.side, network.source_classes
        self.inner = round(_INNER * side) if inner is None else inner
        if source == 0:
            raise ArgumentError(
                f"Prompts need an encoder that brings its public classifier; '{name}' brings none. Use "
                "'efficientnet-lite0', or an image classifier saved by transformers."
            )
        if not 0 < self.inner < side:
            raise ArgumentError(
                f"inner must leave a frame for the prompt, between 1 and {side - 1} for the encoder "
                f"'{name}'; got {self.inner}. Choose a smaller one."
            )
        if label_map == "random" and source < classes:
            raise ArgumentError(
                f"A random label map needs a source class for each declared class; '{name}' has {source} and "
                f"{classes} are declared. Use label_map='one-layer'."
            )
        self._low = (side - self.inner) // 2
        self._high = self._low + self.inner
        self._mask = torch.ones(side, side, device=self.device)
        if mask:
            self._mask[self._low : self._high, self._low : self._high] = 0
        bits = np.random.Generator(np.random.PCG64(0))
        self._chosen = torch.from_numpy(bits.permutation(source)[:classes].copy()).to(self.device)
        widths = {"random": (), "two-layer": (source, _HIDDEN, classes)}.get(label_map, (source, classes))
        layers = (public_layer(bits, *pair) for pair in pairwise(widths))
        self._start = [np.zeros((3, side, side)), *(array for layer in layers for array in layer)]

    def start(self, count: int) -> list[Tensor]:
        """The prompts, and each layer's weights and offsets."""
        return repeat(self._start, count, self.device)

    def logits(self, weights: list[Tensor], raw: Tensor) -> Tensor:
        """(teachers, pictures, classes) for bytes (teachers, pictures, side, side, 3), each teacher's own."""
        return self.mapped(weights[1:], self.source(weights[0], raw))

    def source(self, prompts: Tensor, raw: Tensor) -> Tensor:
        """(teachers, pictures, source classes) logits of the classifier, behind each teacher's prompt."""
        framed = self.with_prompts(prompts, raw)
        logits = self.network.classify(self.network.rows(framed.flatten(0, 1)))
        if self.solves:
            logits = logits / logits.norm(dim=1, keepdim=True)
        return logits.reshape(*raw.shape[:2], -1)

    def solve(self, weights: list[Tensor], raw: Tensor, wanted: Tensor, places: Tensor) -> None:
        """Set each teacher's layer to the ridge solution for its own pictures, at its prompt as it is."""
        from dptransfer.methods.votes.pate import ridge

        prompts, layer, offset = weights
        with torch.no_grad():
            passes = [self.source(prompts, raw[own]).cpu() for own in places]
            logits = torch.stack(passes, 1).flatten(1, 2).numpy().astype(np.float64)
            for teacher, own in enumerate(places.cpu().numpy().transpose(1, 0, 2).reshape(len(logits), -1)):
                own, once = np.unique(own, return_index=True)
                seen, labels = np.unique(wanted.cpu().numpy()[own], return_inverse=True)
                layer[teacher], offset[teacher] = 0, _UNSEEN
                found = _SHARPNESS * ridge(logits[teacher][once], labels)
                layer[teacher, :, seen] = torch.from_numpy(found).to(layer)
                offset[teacher, seen] = 0

    def with_prompts(self, prompts: Tensor, raw: Tensor) -> Tensor:
        """What the network sees of each picture, (teachers, pictures, 3, side, side)."""
        inputs = self.network.from_bytes(raw.flatten(0, 1))
        size = self.inner, self.inner
        small = torch.nn.functional.interpolate(inputs, size, mode="bilinear", antialias=True)
        after = self.network.side - self._high
        padded = torch.nn.functional.pad(small, (self._low, after, self._low, after))
        return (self._mask * prompts)[:, None] + padded.reshape(*raw.shape[:2], *padded.shape[1:])

    def mapped(self, layers: list[Tensor], source: Tensor) -> Tensor:
        """Logits of the declared classes."""
        if not layers:
            return source[..., self._chosen]
        mapped = torch.baddbmm(layers[1][:, None], source, layers[0])
        return mapped if len(layers) == 2 else torch.baddbmm(layers[3][:, None], mapped.relu(), layers[2])


NAME = "small-cnn"
_WIDTHS = (3, 32, 64, 128)
GROUPS = 8


def public_kernels(widths: Sequence[int]) -> Iterator[Floats32]:
    """Random 3 × 3 convolutions from each width to the next, (outputs, inputs, 3, 3), from one public seed.

    Uniform, with the variance 2 ÷ inputs of He et al. (2015).
    """
    bits = np.random.Generator(np.random.PCG64(0))
    for inputs, outputs in pairwise(widths):
        most = np.sqrt(6 / (9 * inputs))
        yield ((2 * bits.random((outputs, inputs, 3, 3)) - 1) * most).astype(np.float32)


def small_cnn(*, size: int = 32, device: str = "cpu") -> torch_module.TorchModuleEncoder:
    """The encoder: three convolutions with group normalisation, 128 features.

    Its weights are random but the same for everyone; see `public_kernels`.

    Args:
        size: pictures are resized to size × size; part of the identity.
        device: where to run.
    """
    checks.whole("size (--image-size)", size, at_least=8)
    torch = checks.import_optional("torch", "torch", "The encoder small-cnn")
    layers = []
    for weights in public_kernels(_WIDTHS):
        outputs, inputs = weights.shape[:2]
        convolution = torch.nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        convolution.weight.data = torch.from_numpy(weights)
        last = torch.nn.AvgPool2d(2) if outputs != _WIDTHS[-1] else torch.nn.Identity()
        group = torch.nn.GroupNorm(GROUPS, outputs)
        layers.append(torch.nn.Sequential(convolution, group, torch.nn.ReLU(), last))
    scaling = torch_module.PixelMap(size, 127.0, 64.0)
    named = partial(torch_module.TorchModuleEncoder, name=NAME, device=device, size=size, pixel_map=scaling)
    transform = f"rgb {size} bicubic (x-127)/64, mean pool"
    return named(torch.nn.Sequential(*layers), torch_module.ResizeCrop(size, size), transform_name=transform)


NOTE = registry.EncoderNote(
    name=NAME,
    load=small_cnn,
    summary="Random weights, for training on pixels from scratch.",
    kind="image",
    dimension=_WIDTHS[-1],
    install="pip install 'dptransfer[torch]'",
    licence="Apache-2.0",
    training_data="none",
)


_SIDE = 32
_CHANNELS = (3, 16, 32, 64)


class SmallTeachers:
    """Networks of the form of the encoder `small-cnn` at half its width, each with a head of its own.

    A convolution of all teachers at once is one with as many groups as there are teachers, and so is their
    group normalisation; no teacher's numbers meet another's. All start at the same public random weights.

    They learn on the CPU, where this was found to hold bit for bit. On an H200 one of two checks found
    weights that differ beside other neighbours: kernels of grouped convolutions do not keep groups apart.

    Args:
        classes: how many are declared.
    """

    device: ClassVar[str] = "cpu"
    solves: ClassVar[bool] = False

    def __init__(self, classes: int) -> None:
        bits = np.random.Generator(np.random.PCG64(0))
        self._start: list[AnyArray] = []
        for kernels in public_kernels(_CHANNELS):
            self._start += [kernels, np.ones(len(kernels)), np.zeros(len(kernels))]
        self._start += public_layer(bits, _CHANNELS[-1], classes)

    def start(self, count: int) -> list[Tensor]:
        """Kernels, scales and shifts of each layer; weights and offsets of the head."""
        return repeat(self._start, count, self.device)

    def logits(self, weights: list[Tensor], raw: Tensor) -> Tensor:
        """(teachers, pictures, classes) for bytes (teachers, pictures, side, side, 3), each teacher's own."""
        functional = torch.nn.functional
        teachers, pictures = raw.shape[:2]
        inputs = (raw.flatten(0, 1).permute(0, 3, 1, 2).float() - 127) / 64
        small = functional.interpolate(inputs, (_SIDE, _SIDE), mode="bilinear", antialias=True)
        maps = small.reshape(teachers, pictures, 3, _SIDE, _SIDE).transpose(0, 1).flatten(1, 2)
        *layers, head, offset = weights
        for number, (kernels, scale, shift) in enumerate(zip(*[iter(layers)] * 3, strict=True)):
            maps = functional.avg_pool2d(maps, 2) if number else maps
            maps = functional.conv2d(maps, kernels.flatten(0, 1), padding=1, groups=teachers)
            maps = functional.group_norm(maps, teachers * GROUPS, scale.flatten(), shift.flatten()).relu()
        rows = maps.mean((2, 3)).reshape(pictures, teachers, -1).transpose(0, 1)
        return torch.baddbmm(offset[:, None], rows, head)
