"""Rows in the words of their encoder: how much more than chance it gives to each, as unit vectors.

An encoder that was trained as a classifier has a public opinion on every example: p = softmax(Wx + b) over
its own classes, its words. The map gives h with h² = max(p − 1/words, 0), scaled to add up to 1: unit norm
whatever the row, no negative entry, and nothing for a word that a blind guess would find as likely. A private
class whose things the encoder knows lies on a few words, so that noisy class sums can be denoised by what
they should look like (`methods.sparse_prior`).

Why less chance: of √p itself, a fifth to a half of the squared norm of class means is the same in all
classes, a little for each of a thousand words; the norm that this takes is sensitivity for nothing. On
Caltech-101 (one of the development sets) at ε = 0.5 it is worth 4 points of 22, and no set loses.

Rows must be as the encoder gave them: a row that was scaled since then has another softmax. There is no
temperature: softening spreads each class over many words, and takes away what the map is for.

Exactness, each step a function of one row alone:

- the row becomes integers of norm at most 2²⁶, those of unit norm as they are scaled, others in steps of 2⁻¹⁶
  (a row longer than 2¹⁰ is cut to that: rows of encoders have norms from 1 to some hundred);
- weights are integers of norm at most 2²⁵ for each word, so that every partial sum of a product is an integer
  of at most 2⁵¹ by Cauchy-Schwarz: float64 computes it exactly in any order, on any number of threads;
- logits are rounded to steps of 2⁻¹⁰, and how far each lies below the row's largest is looked up in a table
  of exponentials that are integers of at most 2³⁶: those of 2¹⁶ words add up to at most 2⁵², exactly;
- their mean, rounded up, is taken off them, and what is left adds up exactly, too;
- √(what is left ÷ its sum) is a quotient, a product and two roots of single numbers, correctly rounded, a
  hair (2⁻⁴⁰) short and rounded toward zero: so the squares add up to at most norm² · sum ÷ sum.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dptransfer.arrays import AnyArray, Floats, Integers
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.errors import ArgumentError, DataError
from dptransfer.features.base import Arrays, readable
from dptransfer.features.chunks import mapped_rows
from dptransfer.features.lattice import HAIR, clipped_lattice, require_exact_norms, unit_lattice

LARGEST_VOCABULARY = 2**16
"""Words, so that their exponentials add up exactly."""

ROW_NORM = 2**26
LONGEST_ROW = 2.0**10
_WORD_NORM = 2**25
_LOGIT_BITS = 10
_DEPTH = 24  # exp(−24) is 2.6 steps of the table; what is deeper counts as nothing
_WEIGHT_BITS = 36


@dataclass(frozen=True)
class VocabularyMap:
    """Feature map into the words of the encoder, which come with the pool.

    >>> words = Vocabulary(("cat", "dog"), np.eye(2), np.zeros(2))
    >>> pool = PublicEmbeddings([[1.0, 0.0], [0.0, 1.0]], vocabulary=words)
    >>> VocabularyMap().fit(2, pool).lattice(np.array([[np.log(9), 0.0], [np.nan, 0.0]]), norm=1000)
    array([[999,   0],
           [  0,   0]])
    """

    def output_dimension(self, dimension: int, public: PublicEmbeddings | None) -> int:
        """Number of words."""
        return len(_required(public))

    def fit(self, dimension: int, public: PublicEmbeddings | None) -> FittedVocabularyMap:
        """There is nothing to learn: the weights become integers."""
        return FittedVocabularyMap.of(_required(public))


@readable
@dataclass(frozen=True, eq=False)
class FittedVocabularyMap:
    """`VocabularyMap` into one vocabulary; integers throughout.

    Attributes:
        names: of the words.
        matrix: integer (dimension, words) weights, column norms at most 2²⁵.
        offset: (words,), in steps of 2⁻¹⁰ of a logit.
        exponent: a unit of the matrix is 2**exponent.
        unit_rows: whether rows are scaled to unit norm first.
        vocabulary: identity of the vocabulary.
    """

    names: tuple[str, ...]
    matrix: NDArray[np.int32]
    offset: NDArray[np.int32]
    exponent: int
    unit_rows: bool
    vocabulary: str
    kind: ClassVar[str] = "vocabulary"

    def __post_init__(self) -> None:
        """Refuse what is not exact, or does not fit together."""
        require_exact_norms(len(self.matrix))
        require_words(len(self.names))
        norms = np.square(self.matrix.astype(np.float64)).sum(axis=0)
        words = (len(self.names),)
        if norms.shape != words or self.offset.shape != words or norms.max() > _WORD_NORM**2:
            raise DataError(
                "The weights of a vocabulary must be small enough for exact products, one column and one "
                "offset for each word; these are not. Fit the map again from its vocabulary."
            )
        if type(self.exponent) is not int or not -100 <= self.exponent <= 20:
            raise DataError("The scale of a vocabulary's weights must be a power of two near 1; it is not.")

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> FittedVocabularyMap:
        """The map into these words."""
        require_exact_norms(vocabulary.dimension)
        require_words(len(vocabulary))
        weights = vocabulary.weights.astype(np.float64)
        longest = math.sqrt(float(np.square(weights).sum(axis=1).max()))
        exponent = max(math.frexp(longest)[1], -60)  # of a power of two that is at least the longest
        matrix = clipped_lattice(weights, _WORD_NORM, clip=math.ldexp(1.0, exponent)).T
        offset = np.rint(vocabulary.offset.astype(np.float64) * 2**_LOGIT_BITS)
        if longest > 2.0**40 or np.abs(offset).max() >= 2**31:
            raise DataError(
                "Weights and offsets of a vocabulary must be those of a classifier, below a million; some "
                "are not. Check their source."
            )
        return cls(
            names=vocabulary.names,
            matrix=np.ascontiguousarray(matrix, dtype=np.int32),
            offset=offset.astype(np.int32),
            exponent=exponent - 25,
            unit_rows=vocabulary.unit_rows,
            vocabulary=vocabulary.identity,
        )

    @property
    def input_dimension(self) -> int:
        """Width of the rows it takes."""
        return int(self.matrix.shape[0])

    @property
    def dimension(self) -> int:
        """Number of words."""
        return int(self.matrix.shape[1])

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the map: equal identities map equal rows to equal integers."""
        told = [self.kind, self.names, self.matrix.shape, self.exponent, self.unit_rows]
        digest = hashlib.sha256(json.dumps(told).encode())
        for array in (self.matrix, self.offset):
            digest.update(array.astype("<i4", copy=False).tobytes())
        return digest.hexdigest()

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """(rows, words) integers of norm at most `norm`; see the module docstring for why they are exact."""
        matrix = self.matrix.astype(np.float64)

        def mapped(part: AnyArray) -> Floats:
            above, total = self._exponentials(part, matrix)
            above -= np.ceil(total / self.dimension)[:, None]
            np.maximum(above, 0.0, out=above)
            left = np.maximum(above.sum(axis=1), 1.0)
            roots = np.sqrt(above, out=above)
            roots *= (norm / (np.sqrt(left) * HAIR))[:, None]
            return np.trunc(roots, out=roots)

        return mapped_rows(mapped, rows, self.dimension)

    def confidence(self, rows: AnyArray, grid: int) -> Integers:
        """For each row the probability of its likeliest word, in steps of 1 ÷ `grid`, rounded toward zero.

        The likeliest word's exponential is the table's largest, so the quotient by the sum is all there is.
        """
        matrix = self.matrix.astype(np.float64)

        def surest(part: AnyArray) -> Floats:
            weights, total = self._exponentials(part, matrix)
            chances: Floats = np.floor(weights.max(axis=1) / total * (grid / HAIR))
            return chances[:, None]

        return mapped_rows(surest, rows, 1)[:, 0]

    def arrays(self) -> Arrays:
        """Weights and offsets."""
        return {"matrix": self.matrix, "offset": self.offset}

    def settings(self) -> dict[str, Any]:
        """Names, scale and identity."""
        return {
            "names": list(self.names),
            "exponent": self.exponent,
            "unit_rows": self.unit_rows,
            "vocabulary": self.vocabulary,
            "identity": self.identity,
        }

    @classmethod
    def read(cls, arrays: Mapping[str, AnyArray], settings: Mapping[str, Any]) -> FittedVocabularyMap:
        """Restore from a release; the identity must be that of the arrays."""
        fitted = cls(
            names=tuple(str(name) for name in settings["names"]),
            matrix=np.asarray(arrays["matrix"], dtype=np.int32),
            offset=np.asarray(arrays["offset"], dtype=np.int32),
            exponent=settings["exponent"],
            unit_rows=bool(settings["unit_rows"]),
            vocabulary=str(settings["vocabulary"]),
        )
        if fitted.identity != settings["identity"]:
            raise DataError("The feature map's arrays must have the recorded identity; they do not.")
        return fitted

    def _exponentials(self, rows: AnyArray, matrix: Floats) -> tuple[Floats, Floats]:
        """(rows, words) exponentials as integers, and their sums; zeros, and 1, for a row of zeros."""
        if self.unit_rows:
            integers, unit = unit_lattice(rows, ROW_NORM), 1.0
        else:
            integers, unit = clipped_lattice(rows, ROW_NORM, clip=LONGEST_ROW), LONGEST_ROW
        logits = integers.astype(np.float64) @ matrix
        logits *= math.ldexp(unit / ROW_NORM, self.exponent + _LOGIT_BITS)  # a power of two
        np.rint(logits, out=logits)
        logits += self.offset
        depth = logits.max(axis=1, keepdims=True) - logits
        places = np.minimum(depth, _DEPTH * 2**_LOGIT_BITS).astype(np.intp)
        weights: Floats = _table()[places]
        weights[~integers.any(axis=1)] = 0.0
        return weights, np.maximum(weights.sum(axis=1), 1.0)


def require_words(words: int) -> None:
    """Raise if there are too many for exact sums; asked before anything is charged."""
    if words > LARGEST_VOCABULARY:
        raise ArgumentError(
            f"A vocabulary may have at most {LARGEST_VOCABULARY} words for exact sums; got {words}. "
            "Leave the rarest out."
        )


@cache
def _table() -> Floats:
    """exp(−t·2⁻¹⁰) by t as whole numbers of 2⁻³⁶; the last, for all that is deeper, is 0."""
    steps = np.arange(_DEPTH * 2**_LOGIT_BITS + 1) * 2.0**-_LOGIT_BITS
    table: Floats = np.rint(np.exp(-steps) * 2.0**_WEIGHT_BITS)
    table[-1] = 0.0
    return table


def _required(public: PublicEmbeddings | None) -> Vocabulary:
    if public is None or public.vocabulary is None:
        raise DataError(
            "VocabularyMap needs the words of the encoder; the public rows came without. Pass "
            "PublicEmbeddings(..., vocabulary=dptransfer.vocabulary('efficientnet-lite0')), or that of "
            "the encoder that made them."
        )
    return public.vocabulary
