"""The public words that each class of a released model landed on: read off its arrays, free in privacy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dptransfer.base.arrays import Floats
from dptransfer.base.document import Block, Paragraph, Table
from dptransfer.exact.feature_map import STRETCHES, FittedSideBySide
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.heads import AverageHead, LinearHead, QuadraticHead, quadratic_form

Words: TypeAlias = tuple[tuple[str, float], ...]
"""Words with their shares, the largest first."""

_MOST_WORDS = 5
_LEAST_SHARE = 0.02  # below, and in a vocabulary of a thousand, a word says little
_MOST_CLASSES = 50


def top_words(shares: Floats, names: Sequence[str], most: int = _MOST_WORDS) -> tuple[Words, ...]:
    """For each class its largest shares of words, by name; those of next to nothing are left out.

    Args:
        shares: (classes, words), such as `SparsePosterior.shares`; each row adds up to 1.
        names: of the words.
        most: so many words of a class.

    >>> top_words(np.array([[0.7, 0.29, 0.01], [0.0, 0.5, 0.5]]), ["cat", "dog", "car"], most=2)
    ((('cat', 0.7), ('dog', 0.29)), (('dog', 0.5), ('car', 0.5)))
    """
    order = np.argsort(-shares, axis=1, kind="stable")[:, :most]
    return tuple(
        tuple((_first(names[word]), float(own[word])) for word in best if own[word] >= _LEAST_SHARE)
        for own, best in zip(shares, order, strict=True)
    )


def _first(names: str) -> str:
    """A word's first name; others may follow after commas."""
    return names.partition(",")[0]


def words_of(model: PrivateClassifier, most: int = _MOST_WORDS) -> tuple[Words, ...] | None:
    """The words of each class of a model that scores in words; None of another.

    Linear weights are logarithms of shares up to a constant for each class, prototypes shares themselves.
    """
    found = _in_words(model)
    if found is None:
        return None
    features, weights, logarithms = found
    shares = np.exp(weights - weights.max(axis=1, keepdims=True)) if logarithms else np.maximum(weights, 0.0)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    return top_words(shares, features.names, most)


def word_blocks(model: PrivateClassifier) -> tuple[Block, ...]:
    """A section of the card: each class with its words; nothing for a model that has none."""
    found = words_of(model)
    if found is None:
        return ()
    told = tuple(
        (str(name), ", ".join(f"{word} {share:.0%}" for word, share in words) or "nothing in particular")
        for name, words in zip(model.classes, found, strict=True)
    )
    blocks: tuple[Block, ...] = (
        Paragraph(
            "The encoder was trained to recognise labels of its own, and the method used them. The table "
            "shows which of them the released model takes as evidence for each class. It is read from the "
            "released weights, at no further privacy cost. Classes the encoder has no label for map to "
            "similar-looking labels; classes drowned by noise map to arbitrary ones."
        ),
        Table(("Class", "Labels of the encoder"), told[:_MOST_CLASSES]),
    )
    if len(told) > _MOST_CLASSES:
        blocks = (*blocks, Paragraph(f"And {len(told) - _MOST_CLASSES} classes more."))
    return blocks


def _in_words(model: PrivateClassifier) -> tuple[FittedVocabularyMap, Floats, bool] | None:
    """The map into words, the head's weights of these, and whether they are logarithms."""
    features, head = model.features, model.head
    if isinstance(head, AverageHead) or not isinstance(features, FittedVocabularyMap | FittedSideBySide):
        return None
    weights, logarithms = quadratic_form(head)[0], isinstance(head, LinearHead | QuadraticHead)
    if isinstance(features, FittedVocabularyMap):
        return features, weights, logarithms
    split = features.first.dimension
    sides = (features.first, features.second), (weights[:, :split], weights[:, split:]), STRETCHES
    for part, own, stretch in zip(*sides, strict=True):
        if isinstance(part, FittedVocabularyMap):
            return part, own / stretch, logarithms
    return None
