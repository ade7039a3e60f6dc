"""Encoders: frozen public models from images or texts to rows, and released changes of one."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, EncodedRows, Floats32, Picture, Tensor
from dptransfer.data.examples import described_digest
from dptransfer.data.facts import EncoderIdentity
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.errors import ArgumentError, DataError

Kind = Literal["image", "text"]
MADE_BY = "made_by"
"""The attribute of an encoder that makes it again: models do not travel between processes, recipes do."""


@runtime_checkable
class Encoder(Protocol):
    """A frozen public model. It never learns from what it encodes.

    A row must be a function of its own item and of the number of items in the call, never of the other items'
    content: no batch statistics, no padding to the longest neighbour. Otherwise two data sets that differ in
    one example would differ in several rows, and the sensitivity every guarantee rests on would be wrong.
    `dptransfer.encoders.shards` calls `encode` with one fixed number of items for the same reason; see
    `blanks_for`.

    One that was trained with a public classifier of its rows may bring it as an attribute `vocabulary`. One
    that is to work in other processes has an attribute `made_by`, a function that makes it again there, such
    as `functools.partial(MyEncoder, size=64)`; `get_encoder` sets it.
    """

    @property
    def identity(self) -> EncoderIdentity:
        """Name, weights and preprocessing: compared before two sets of rows are used together."""

    @property
    def dimension(self) -> int:
        """Width of a row."""

    @property
    def kind(self) -> Kind:
        """What it encodes."""

    def encode(self, batch: Sequence[Any]) -> EncodedRows:
        """Rows for a batch of RGB images (`PIL.Picture`) or of texts (`str`), as `kind` says."""


class ImageEncoder(ABC):
    """An image encoder in two halves, so that the first can run in threads ahead of the model.

    `prepare` turns one picture into an array; `forward` turns a stack of such arrays into rows.
    """

    identity: EncoderIdentity
    dimension: int
    kind: Kind = "image"
    vocabulary: Vocabulary | None = None
    """The words that it has for its rows, where it was trained with a linear classifier of them."""
    picklable_prepare: Callable[[Picture], AnyArray] | None = None
    """What `prepare` does, as a function that can be pickled, where the model outruns a process's threads."""
    one_by_one: bool = False
    """Whether a picture is computed alone, so that no other, nor how many there are, can reach its row."""

    @abstractmethod
    def prepare(self, image: Picture) -> AnyArray:
        """One RGB picture as the model's input array; may be called from several threads."""

    @abstractmethod
    def forward(self, pixels: AnyArray) -> EncodedRows:
        """Rows for a stack of prepared pictures, shape (pictures, ...), whose memory is used again then."""

    def measured_dimension(self) -> int:
        """Width of the row of a blank picture, for models that do not say it."""
        return int(self.forward(np.stack([self.prepare(blank_picture())])).shape[1])

    def encode(self, batch: Sequence[Picture]) -> EncodedRows:
        """Rows for a batch of pictures."""
        if not batch:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return self.forward(np.stack([self.prepare(image) for image in batch]))


def blanks_for(encoder: Encoder, items: int, batch: int) -> int:
    """How many blanks fill up a call of the model: its kernels may round otherwise for another number.

    An encoder that says `one_by_one` needs none.
    """
    return 0 if getattr(encoder, "one_by_one", False) else batch - items


def blank_picture() -> Picture:
    """What takes the place of an unreadable picture, and fills the last batch."""
    from PIL import Image

    return Image.new("RGB", (64, 64))


def require_rows(rows: EncodedRows, pictures: int) -> EncodedRows:
    """The model's output, or an error unless it is one row per picture."""
    if rows.ndim != 2 or len(rows) != pictures:
        rule = f"A model must give rows (pictures, features) or feature maps; got the shape {rows.shape}."
        raise DataError(f"{rule} Wrap or export it so that it pools.")
    return rows


def weights_digest(state: Mapping[str, AnyArray | Tensor]) -> str:
    """Digest of weights: names, types, shapes and bytes, in the order of the names.

    The same weights give the same digest, whatever file they came in, be they arrays or torch's tensors.
    """
    digest = hashlib.sha256()
    for name in sorted(state):
        weights = state[name]
        if isinstance(weights, np.ndarray):
            kind, held = f"torch.{weights.dtype}", np.ascontiguousarray(weights).tobytes()
        else:
            flat = weights.detach().cpu().contiguous().reshape(-1)
            kind, held = str(weights.dtype), flat.view(torch.uint8).numpy().tobytes() if len(flat) else b""
        digest.update(f"{name}|{kind}|{tuple(weights.shape)}|".encode())
        digest.update(held)
    return digest.hexdigest()


BESIDE = "-beside"
"""End of a delta's kind whose encoder gives rows of both, changed and unchanged, side by side."""


@dataclass(frozen=True, eq=False)
class EncoderDelta:
    """Arrays that turn a public encoder into the one whose rows a classifier takes.

    Rows of the changed encoder and of its base do not mix: `identity` is the base's, with a name and a digest
    of weights that the delta changes.

    >>> base = EncoderIdentity("tiny-net", "ab" * 32, "rgb 8")
    >>> delta = EncoderDelta(base, "state", {"norm.weight": np.ones(3, dtype=np.float32)})
    >>> delta.identity.name, delta.identity.weights == base.weights
    ('tiny-net+state', False)

    Attributes:
        base: the encoder that is changed.
        kind: how the encoder applies it; 'state': arrays take the place of parameters of the same names. With
            `BESIDE` at the end, its rows are those of the changed encoder and those of the base next to each
            other, both scaled to unit norm.
        arrays: float32 and finite, by name.
    """

    base: EncoderIdentity
    kind: str
    arrays: Mapping[str, Floats32] = field(repr=False)

    def __post_init__(self) -> None:
        """Check the arrays, and keep copies that nobody can change."""
        if not re.fullmatch("[a-z][a-z-]*", self.kind):
            raise ArgumentError(f"A delta's kind must be a word, such as 'state'; got {self.kind!r}.")
        if not self.arrays:
            raise ArgumentError("An encoder delta must change something; it has no array. Leave it out.")
        kept = {name: _freeze(name, array) for name, array in sorted(self.arrays.items())}
        object.__setattr__(self, "arrays", kept)

    @cached_property
    def identity(self) -> EncoderIdentity:
        """Who makes the rows: the base, changed by this delta and no other."""
        shapes = [[name, array.shape] for name, array in self.arrays.items()]
        digest = described_digest([self.base.weights, self.kind, shapes], *self.arrays.values())
        return replace(self.base, name=f"{self.base.name}+{self.kind}", weights=digest)


def _freeze(name: str, array: object) -> Floats32:
    if not isinstance(array, np.ndarray) or array.dtype != np.float32 or not np.isfinite(array).all():
        rule = f"Arrays of an encoder delta must be finite float32; '{name}' is not."
        raise ArgumentError(f"{rule} Convert it.")
    copy = np.array(array, order="C")
    copy.setflags(write=False)
    return copy
