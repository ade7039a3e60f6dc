"""The words of an encoder: a public classifier of its rows, with a name for each of its classes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.base import checks
from dptransfer.base.document import one_line
from dptransfer.base.types import AnyArray, Floats32, JsonObject
from dptransfer.data.atomic_files import write_whole
from dptransfer.data.examples import described_digest
from dptransfer.data.numpy_files import Archive
from dptransfer.data.tables import require
from dptransfer.errors import DataError

_AGAIN = "Write it again with Vocabulary.save."


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Names and weights of a linear classifier that the encoder brings: public, like the encoder itself.

    What an encoder calls an example is a description in words: softmax(weights · x + offset), for a row x as
    the encoder gave it. Rows that were scaled since then have lost what the softmax needs.

    >>> words = Vocabulary(("cat", "dog"), np.eye(2, 3), np.zeros(2))
    >>> words, words.dimension
    (Vocabulary(2 words, dimension 3), 3)

    Attributes:
        names: one for each word, or several with commas between them, of which the card shows the first.
        weights: (words, dimension), float32 and finite.
        offset: (words,).
        unit_rows: whether the classifier takes rows of unit norm, as models of pictures and texts do.
    """

    names: tuple[str, ...]
    weights: Floats32 = field(repr=False)
    offset: Floats32 = field(repr=False)
    unit_rows: bool = False

    def __post_init__(self) -> None:
        """Check the shapes, and keep copies that nobody can change."""
        names = tuple(one_line(name) for name in self.names)
        weights, offset = (_fixed(array) for array in (self.weights, self.offset))
        shapes = f"{weights.shape} and {offset.shape}"
        if weights.ndim != 2 or weights.shape[1] == 0 or offset.shape != weights.shape[:1]:
            raise DataError(f"Weights (words, dimension) need offsets (words,); got the shapes {shapes}.")
        if len(names) != len(weights) or len(names) < 2:
            raise DataError(f"Name each word, two at least; got {len(names)} names for {len(weights)} words.")
        checked = {"names": names, "weights": weights, "offset": offset, "unit_rows": bool(self.unit_rows)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words, dimension {self.dimension})"

    def __len__(self) -> int:
        return len(self.names)

    def __deepcopy__(self, memo: object) -> Vocabulary:
        """Itself: it never changes."""
        return self

    @property
    def dimension(self) -> int:
        """Width of the rows that it describes."""
        return int(self.weights.shape[1])

    @cached_property
    def identity(self) -> str:
        """SHA-256 of names, weights and offset."""
        return described_digest([self.names, self.weights.shape, self.unit_rows], self.weights, self.offset)

    @property
    def record(self) -> JsonObject:
        """What a release tells about it, beside a map that holds it."""
        return {"words": len(self), "identity": self.identity}

    @classmethod
    def from_names(cls, names: Sequence[str], rows: ArrayLike, *, scale: float = 100.0) -> Vocabulary:
        """Words for a model of pictures and texts, such as CLIP: cosines to the texts, times `scale`.

        Args:
            names: the words, say a few thousand nouns.
            rows: what the model's text half makes of each, such as of 'a photo of a NAME'.
            scale: the model's own scale of logits, `exp(logit_scale)`; 100 for most.

        >>> Vocabulary.from_names(["cat", "dog"], [[3.0, 4.0], [0.0, 2.0]], scale=10.0).weights
        array([[ 6.,  8.],
               [ 0., 10.]], dtype=float32)
        """
        texts = np.asarray(rows, dtype=np.float64)
        if texts.ndim != 2:
            raise DataError(f"There must be a row for each name; got the shape {texts.shape}. Encode them.")
        lengths = np.linalg.norm(texts, axis=1, keepdims=True)
        unit = texts / np.where(lengths == 0, 1.0, lengths)
        scaled = checks.moderate("scale", scale) * unit
        return cls(tuple(names), scaled.astype(np.float32), np.zeros(len(unit), np.float32), unit_rows=True)

    def save(self, path: str | Path) -> Path:
        """Write it as an `.npz` file, where there is none yet."""
        target = Path(path)
        rule = "the name of a vocabulary's file ends in '.npz'."
        require(target.suffix == ".npz", target, rule, "Rename it.")
        require(not target.exists(), target, "there must be nothing yet.", "Choose another name.")
        content = io.BytesIO()
        arrays: dict[str, Any] = {one.name: np.array(getattr(self, one.name)) for one in fields(self)}
        np.savez(content, **arrays)
        write_whole(target, content.getvalue())
        return target

    @classmethod
    def read(cls, path: str | Path) -> Vocabulary:
        """Read what `save` wrote."""
        file = Path(path)
        archive = Archive(file)
        whole = {"names", "weights", "offset", "unit_rows"} <= set(archive)
        require(whole, file, "a vocabulary has names, weights, an offset and unit_rows.", _AGAIN)
        names, unit_rows = archive["names"], archive["unit_rows"]
        words = names.ndim == 1 and names.dtype.kind == "U" and unit_rows.size == 1
        require(words, file, "the names of a vocabulary are a list of words; these are not.", _AGAIN)
        return cls(tuple(names.tolist()), archive["weights"], archive["offset"], bool(unit_rows.item()))


def _fixed(array: AnyArray) -> Floats32:
    with np.errstate(all="ignore"):  # what is too large becomes infinite, and is refused
        copy = np.array(array, dtype=np.float32, order="C")
    if not np.isfinite(copy).all():
        raise DataError("Weights of a vocabulary must be finite float32; some are not. Check their source.")
    copy.setflags(write=False)
    return copy
