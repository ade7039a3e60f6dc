"""Rows in the words of their encoder: how much more than chance it gives to each, as unit vectors.

An encoder that was trained as a classifier has a public opinion on every example: p = softmax(Wx + b) over
its own classes, its words. The map gives h with h² = max(p − 1/words, 0), scaled to add up to 1: unit norm
whatever the row, no negative entry, and nothing for a word that a blind guess would find as likely. A private
class whose things the encoder knows lies on a few words, so that noisy class sums can be denoised by what
they should look like (`methods.heads.words`).

Why less chance: of √p itself, a fifth to a half of the squared norm of class means is the same in all
classes, a little for each of a thousand words; the norm that this takes is sensitivity for nothing. On
Caltech-101 (one of the development sets) at ε = 0.5 it is worth 4 points of 22, and no set loses.

Rows must be as the encoder gave them: a row that was scaled since then has another softmax. There is no
temperature: softening spreads each class over many words, and takes away what the map is for.

Exactness, each step a function of one row alone:

- the row becomes integers of norm about 4000 and a length, which is 1 where the words take unit rows, and cut
  to 2¹⁰ otherwise (rows of encoders have norms from 1 to some hundred); the weights of a word are integers of
  norm at most about 4000, too. Rounding to nearest moves each of at most 2¹⁴ coordinates by at most ½, so
  norms grow by at most 64, and every partial sum of a product is an integer of at most 4064² < 2²⁴ by
  Cauchy-Schwarz: float32 computes it exactly in any order, on any number of threads. For rows of norm 16 and
  weights of norm 3, as the built-in encoder has them, a logit is off by 0.005;
- times the length, logits are rounded to steps of 2⁻¹⁰, and how far each lies below the row's largest is
  looked up in a table of exponentials that are integers of at most 2³⁶: those of 2¹⁶ words add up to at most
  2⁵², exactly;
- their mean, rounded up, is taken off them, and what is left adds up exactly, too;
- √(what is left ÷ its sum) is a quotient, a product and two roots of single numbers, correctly rounded, a
  hair (2⁻⁴⁰) short and rounded toward zero: so the squares add up to at most norm² · sum ÷ sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.types import AnyArray, Floats, Floats32, Integers
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.data.examples import described_digest
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.errors import ArgumentError, DataError
from dptransfer.exact.chunks import mapped_rows
from dptransfer.exact.feature_map import MatrixMap
from dptransfer.exact.lattice import HAIR, require_exact_norms, rows_and_lengths
from dptransfer.exact.softmax import exponential_table

LARGEST_VOCABULARY = 2**16
"""Words, so that their exponentials add up exactly."""

LONGEST_ROW = 2.0**10
WORD_NORM = 4000
"""Of a row's integers and of a word's."""
LOGIT_BITS = 10
"""Logits are rounded to steps of 2⁻¹⁰."""
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


@dataclass(frozen=True, eq=False)
class FittedVocabularyMap(MatrixMap):
    """`VocabularyMap` into one vocabulary; integers throughout.

    Attributes:
        names: of the words.
        matrix: integer (dimension, words) weights, column norms at most 4064.
        offset: (words,), in steps of 2⁻¹⁰ of a logit.
        scale: length of a word's weights whose integers have the norm 4000.
        unit_rows: whether rows are scaled to unit norm first.
        vocabulary: identity of the vocabulary.
    """

    names: tuple[str, ...]
    matrix: NDArray[np.int32]
    offset: NDArray[np.int32]
    scale: float
    unit_rows: bool
    vocabulary: str
    kind: ClassVar[str] = "vocabulary"

    def __post_init__(self) -> None:
        """Refuse what is not exact, or does not fit together."""
        require_exact_norms(len(self.matrix))
        require_words(len(self.names))
        if not all(isinstance(name, str) for name in self.names):
            raise DataError("The names of a vocabulary must be texts; some are not.")
        norms = np.square(self.matrix.astype(np.float64)).sum(axis=0)
        words = (len(self.names),)
        if norms.shape != words or self.offset.shape != words or norms.max() > (WORD_NORM + 64) ** 2:
            rule = "Weights of a vocabulary must be small, with one offset for each word; these are not."
            raise DataError(f"{rule} Fit the map again from its vocabulary.")
        if type(self.scale) is not float or not 2.0**-40 <= self.scale <= 2.0**40:
            raise DataError("The scale of a vocabulary's weights must be a number near 1; it is not.")

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> FittedVocabularyMap:
        """The map into these words."""
        require_exact_norms(vocabulary.dimension)
        require_words(len(vocabulary))
        weights = vocabulary.weights.astype(np.float64)
        longest = max(math.sqrt(float(np.square(weights).sum(axis=1).max())), 2.0**-40)
        offset = np.rint(vocabulary.offset.astype(np.float64) * 2**LOGIT_BITS)
        if longest > 2.0**40 or np.abs(offset).max() >= 2**31:
            rule = "Weights and offsets of a vocabulary must be below a million; some are not."
            raise DataError(f"{rule} Check their source.")
        return cls(
            names=vocabulary.names,
            matrix=np.ascontiguousarray(np.rint(weights * (WORD_NORM / longest)).T, dtype=np.int32),
            offset=offset.astype(np.int32),
            scale=longest,
            unit_rows=vocabulary.unit_rows,
            vocabulary=vocabulary.identity,
        )

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the map: equal identities map equal rows to equal integers."""
        told = [self.kind, self.names, self.matrix.shape, self.scale, self.unit_rows]
        return described_digest(told, self.matrix, self.offset)

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """(rows, words) integers of norm at most `norm`; see the module docstring for why they are exact."""

        def mapped(part: AnyArray) -> Floats:
            above, total = self._exponentials(part)
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

        def surest(part: AnyArray) -> Floats:
            weights, total = self._exponentials(part)
            chances: Floats = np.floor(weights.max(axis=1) / total * (grid / HAIR))
            return chances[:, None]

        return mapped_rows(surest, rows, 1)[:, 0]

    @cached_property
    def _floats(self) -> tuple[Floats32, Floats32]:
        """Weights and offsets as floats, which are as exact; converting takes as long as mapping a row."""
        return self.matrix.astype(np.float32), self.offset.astype(np.float32)

    def _exponentials(self, rows: AnyArray) -> tuple[Floats, Floats]:
        """(rows, words) exponentials as integers, and their sums; zeros, and 1, for a row of zeros."""
        matrix, offset = self._floats
        integers, lengths = rows_and_lengths(rows, WORD_NORM)
        lengths = np.ones_like(lengths) if self.unit_rows else np.minimum(lengths, LONGEST_ROW)
        steps = (lengths * (self.scale * 2.0**LOGIT_BITS / WORD_NORM**2)).astype(np.float32)
        logits = integers.astype(np.float32) @ matrix  # exact; what follows is done to single numbers
        logits *= steps[:, None]
        np.rint(logits, out=logits)
        logits += offset
        depth = logits.max(axis=1, keepdims=True) - logits
        table = exponentials()
        weights: Floats = table[np.minimum(depth, np.float32(len(table) - 1)).astype(np.intp)]
        weights[~integers.any(axis=1)] = 0.0
        return weights, np.maximum(weights.sum(axis=1), 1.0)


def require_words(words: int) -> None:
    """Raise if there are too many for exact sums; asked before anything is charged."""
    if words > LARGEST_VOCABULARY:
        rule = f"A vocabulary may have at most {LARGEST_VOCABULARY} words for exact sums; got {words}."
        raise ArgumentError(f"{rule} Leave the rarest out.")


@cache
def exponentials() -> Floats:
    """exp(−t·2⁻¹⁰) by t as whole numbers of 2⁻³⁶; the last, for all that is deeper, is 0."""
    table: Floats = np.rint(exponential_table() * 2.0**_WEIGHT_BITS)
    table[-1] = 0.0
    return table


def _required(public: PublicEmbeddings | None) -> Vocabulary:
    if public is None or public.vocabulary is None:
        rule = "VocabularyMap needs the words of the encoder; the public rows came without."
        raise DataError(f"{rule} Pass PublicEmbeddings(..., vocabulary=encoders.vocabulary(NAME)).")
    return public.vocabulary
