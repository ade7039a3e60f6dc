"""Class sums in the words of the encoder, where it is sure of them: what they are worth, and what they say.

An encoder that was trained as a classifier knows some things by name, and a class of such things lies on a
few of its words: sums in words can then be read long before sums in axes (`methods.sparse_prior`), and where
it knows nothing of the kind they say little. What tells the two apart is how sure it is of its likeliest word
for the rows, on average: 0.45 for Caltech-101, which gains; 0.33 for textures, 0.32 for CIFAR-10, 0.21 for
traffic signs and 0.17 for satellite pictures, which do not, or lose. One mean of numbers between 0 and 1
costs next to nothing.

The smaller classes are, beside the noise, the more of the budget goes to words: all of it while a class is no
longer than 8 times the noise on a sum, and 8 parts of N where it is N times as long. On Caltech-101 with its
natural class sizes (2 seeds, ε = 0.25, 0.5, 1, 2 with N = 4, 8, 15, 29) words alone had 28, 51, 66 and 75 %,
half and half 23, 44, 69 and 81, a quarter 19, 41, 69 and 83, and axes alone 20, 42, 64 and 80.
"""

from __future__ import annotations

import numpy as np

from dptransfer.arrays import Floats
from dptransfer.data import PrivateEmbeddings
from dptransfer.features import FittedVocabularyMap
from dptransfer.mechanisms import SharesLeft
from dptransfer.methods.named_words import named_words
from dptransfer.methods.sparse_prior import sparse_posterior
from dptransfer.queries import ClassSums, ConfidenceTotal

CONFIDENCE_SHARE = 0.01
_SURE = 0.4  # mean probability of the likeliest word, between the sets that gain and those that lose
_READ = 8.0  # class size over noise up to which words alone are read
_WORTH_STEPS = 0.25  # of the budget; with less, steps add more noise than they tell


def share_of_words(
    purse: SharesLeft, words: FittedVocabularyMap, private: PrivateEmbeddings, typical: float
) -> float:
    """Which part of what is left is best spent on sums in words, by how sure the encoder is of them.

    Args:
        purse: pays `CONFIDENCE_SHARE`.
        words: the map.
        private: the rows.
        typical: size of a typical class, over the noise on a sum of rows.
    """
    query = ConfidenceTotal(words, bound=private.facts.bound)
    sure, unsure = purse.release(query, CONFIDENCE_SHARE, private.rows, private.labels, private.people)
    noise = purse.scale(query, CONFIDENCE_SHARE)
    # Less one standard deviation, so that luck alone rarely makes an encoder look sure.
    if sure - noise < _SURE * max(sure + unsure, 3 * noise):
        return 0.0
    part = _READ / max(typical, _READ)
    return part if part <= 1 - _WORTH_STEPS else 1.0


def weights_in_words(
    purse: SharesLeft,
    share: float,
    words: FittedVocabularyMap,
    private: PrivateEmbeddings,
    counts: tuple[Floats, float],
) -> Floats:
    """(classes, words) weights of a linear score, from noisy sums for this share of the budget.

    They are centred over classes: what all have in common tells no class from another.

    Args:
        purse: pays the share.
        share: of the budget.
        words: the map.
        private: the rows.
        counts: noisy class counts, and the standard deviation of their noise.
    """
    facts = private.facts
    query = ClassSums(words, len(facts.classes), bound=facts.bound)
    sums = purse.release(query, share, private.rows, private.labels, private.people)
    named = named_words(facts.classes, words.names)
    found = sparse_posterior(sums, counts[0], purse.scale(query, share), counts[1], named).weights
    centred: Floats = found - found.mean(axis=0)
    return np.asarray(centred)
