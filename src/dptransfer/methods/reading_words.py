"""Class sums in the words of the encoder, where it is sure of them: what they are worth, and what they say.

An encoder that was trained as a classifier knows some things by name, and a class of such things lies on a
few of its words: sums in words can then be read long before sums in axes (`methods.sparse_prior`). What tells
whether it has words for these rows is how sure it is of its likeliest one, on average: one mean of numbers
between 0 and 1, which costs next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from dptransfer.arrays import Floats
from dptransfer.data import PrivateEmbeddings
from dptransfer.features import FittedVocabularyMap
from dptransfer.mechanisms import SharesLeft
from dptransfer.methods.named_words import named_words
from dptransfer.methods.sparse_prior import sparse_posterior
from dptransfer.methods.word_share import word_share, words_may_pay
from dptransfer.queries import ClassSums, ConfidenceTotal

CONFIDENCE_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class WordReader:
    """Reads classes in words.

    Attributes:
        purse: pays for it.
        words: the map into words.
        private: the rows.
        named: (classes, words), which words bear a class's name.
        signal: size of a typical class, over the noise on a sum of rows.
    """

    purse: SharesLeft
    words: FittedVocabularyMap
    private: PrivateEmbeddings
    named: Floats
    signal: float

    @classmethod
    def of(
        cls, purse: SharesLeft, words: FittedVocabularyMap, private: PrivateEmbeddings, signal: float
    ) -> WordReader:
        """With the names of the declared classes."""
        return cls(purse, words, private, named_words(private.facts.classes, words.names), signal)

    @property
    def is_worth_asking(self) -> bool:
        """Whether words may get a share, if the encoder is sure of them."""
        return words_may_pay(self.signal, self.words.dimension, self._named_classes)

    def share(self) -> float:
        """Which part of the budget words are worth, for `CONFIDENCE_SHARE` of it."""
        query = ConfidenceTotal(self.words, bound=self.private.facts.bound)
        sure, unsure = self._release(query, CONFIDENCE_SHARE)
        noise = self.purse.scale(query, CONFIDENCE_SHARE)
        # Less one standard deviation, so that luck alone rarely makes an encoder look sure.
        confidence = (sure - noise) / max(sure + unsure, 3 * noise)
        return word_share(confidence, self.signal, self.words.dimension, self._named_classes)

    def weights(self, share: float, counts: Floats, count_scale: float) -> Floats:
        """(classes, words) weights of a linear score, from noisy sums for this share of the budget."""
        facts = self.private.facts
        query = ClassSums(self.words, len(facts.classes), bound=facts.bound)
        sums = self._release(query, share)
        scale = self.purse.scale(query, share)
        return sparse_posterior(sums, counts, scale, count_scale, self.named).weights

    @property
    def _named_classes(self) -> float:
        return float(self.named.any(axis=1).mean())

    def _release(self, query: ClassSums | ConfidenceTotal, share: float) -> Floats:
        rows, labels, people = self.private.rows, self.private.labels, self.private.people
        return self.purse.release(query, share, rows, labels, people)
