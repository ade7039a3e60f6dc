"""A sparse, non-negative model of noisy class sums in words: post-processing of released values.

What is known: the noisy sum Z_cj of each class in each word of the encoder (`features.VocabularyMap`), and
the noisy counts. What is assumed: Z_cj = n_c · m_cj + noise, where m_cj ≥ 0 is how much of word j a row of
class c has on average. Most are next to nothing and a few are large, in a way that no formula knows before:
so m_cj is one of a few values, give or take 10 %, with probabilities that maximise the likelihood of all sums
together (expectation-maximisation; Kiefer and Wolfowitz 1956). The values are

    b_j times 0, 0.03, 0.1, 0.3, 1, 2, 4 or 8    as much as others have of it: b_j is the mean over classes
    0.01 … 0.95, twenty of them                  as much as only this class has

where b_j comes from the sum over classes, in which no class outweighs the typical one, by the same kind of
model. With little signal all b_j are alike, and with more they tell which words this data set is about: so a
class that is too small to be read is taken to have the words of the others, and not all words alike.

Class names are public. Where a word bears the name of a class (`methods.named_words`), m_cj has with chance
ρ, or ρ/k for each of k such words, one of the values from 0.1 to 0.95, all as likely, and else any value as
above. ρ says how far names can be trusted in this data set: of nineteen values the one that makes the sums of
these words likeliest, times ρ(1 − ρ), which is ½ where they say nothing.

A row's entries h_j, which are not negative, are read as words that it was seen to have, and a class gives
each of its words with chance q_cj = m_cj ÷ Σ_j m_cj. Then the log likelihood of a row is Σ_j h_j · log q_cj,
linear in h. As a logit it is about as sharp as it should be: by their log loss, its probabilities are best at
temperatures between a quarter and 1 (16 cells of the sets below), so it can stand beside other logits.

The values and the score were chosen on the five sets of pictures for development (Caltech-101, CIFAR-10,
signs, satellite, textures), in 16 cells of ε and class sizes: against an exponential slab with cosines, as
such models are usually built, 26 against 16 % on Caltech-101 at ε = 0.5, 54 against 43 at ε = 1. Names are
worth 26 points more on Caltech-101, and 12 on CIFAR-10, where classes are twice as large as the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from dptransfer.arrays import Floats
from dptransfer.methods.centre import class_weights
from dptransfer.methods.hierarchical import count_estimates

_SHARED = np.array([0.0, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0])
_OWN = np.geomspace(0.01, 0.95, 20)
_NAMED = np.array([*np.zeros(len(_SHARED)), *(_OWN >= 0.1) / np.count_nonzero(_OWN >= 0.1)])
_TRUSTS = np.linspace(0.05, 0.95, 19)
_BASES = np.array([0.0, *np.geomspace(1e-5, 0.9, 50)])
_WIDTH = 0.1  # of a value, as a standard deviation in parts of it: about half the way to the next
_LARGEST = 0.98  # of a mean: rows have unit norm
_LEAST_RATE = 1e-7  # of a base rate, and of a share: a word that nobody has is still possible
_ROUNDS = 50
_MOST_FITTED = 2**15  # sums from which probabilities of values are learned; more change nothing


@dataclass(frozen=True, eq=False)
class SparsePosterior:
    """What the released values say about the words of each class.

    Attributes:
        means: (classes, words) posterior means of m.
    """

    means: Floats

    @property
    def shares(self) -> Floats:
        """(classes, words) q: the chance of each word among those of a class; rows add up to 1."""
        own = self.means + _LEAST_RATE
        found: Floats = own / own.sum(axis=1, keepdims=True)
        return found

    @property
    def weights(self) -> Floats:
        """(classes, words) log q: weights of a linear score of rows in words, a log likelihood."""
        logs: Floats = np.log(self.shares)
        return logs


def sparse_posterior(
    sums: Floats, counts: Floats, sum_scale: float, count_scale: float, named: Floats | None = None
) -> SparsePosterior:
    """Empirical-Bayes posterior of the class means in words; see the module docstring for the model.

    Args:
        sums: (classes, words) noisy class sums.
        counts: (classes,) noisy counts.
        sum_scale: standard deviation of the noise of each sum's coordinate.
        count_scale: standard deviation of the noise of each count.
        named: (classes, words) which words bear a class's name, as `named_words` finds them; None for names
            that are no help.

    >>> noise = np.random.default_rng(0).normal(size=(2, 300))
    >>> sums = 3.0 * noise + np.eye(2, 300) * 80
    >>> found = sparse_posterior(sums, np.array([100.0, 100.0]), 3.0, 3.0)
    >>> found.means[:, :3].round(1).tolist()
    [[0.8, 0.0, 0.0], [0.0, 0.8, 0.0]]
    """
    estimates = count_estimates(counts, count_scale)
    base = _base_rates(sums, estimates, sum_scale)
    shared = np.minimum(np.multiply.outer(base, _SHARED), _LARGEST)
    values = np.hstack([shared, np.broadcast_to(_OWN, (len(base), len(_OWN)))])
    chances = _fitted(sums, estimates, values, sum_scale)
    own = _chances_by_word(sums, estimates, values, sum_scale, chances, named)
    read = [_read(*row, sum_scale) for row in zip(sums, estimates, repeat(values), own, strict=False)]
    return SparsePosterior(np.array(read))


def _base_rates(sums: Floats, counts: Floats, scale: float) -> Floats:
    """(words,) posterior mean of each word's mean over classes, of which none outweighs the typical one."""
    weights = class_weights(counts)
    total, size = weights @ sums, float(weights @ counts)
    values = np.broadcast_to(_BASES, (len(total), len(_BASES)))
    noise = scale * float(np.linalg.norm(weights))
    chances = _chances(_likelihood(total, size, values, noise))
    return np.maximum(_read(total, size, values, chances, noise), _LEAST_RATE)


def _fitted(sums: Floats, counts: Floats, values: Floats, scale: float) -> Floats:
    """Probabilities of the values, from all sums, or from every so many of them where there are very many."""
    chosen = np.arange(0, sums.size, -(-sums.size // _MOST_FITTED))
    own, word = np.divmod(chosen, sums.shape[1])
    return _chances(_likelihood(sums.reshape(-1)[chosen], counts[own], values[word], scale))


def _chances(ratios: Floats) -> Floats:
    """Probabilities of the values that make the likelihood of all sums largest."""
    others = ratios.shape[1] - 1
    chances = np.array([0.5, *np.full(others, 0.5 / others)])  # the first is 0, which most are
    for _ in range(_ROUNDS):
        chances = chances * ((1 / (ratios @ chances)) @ ratios)
        chances /= chances.sum()
    return chances


def _chances_by_word(
    sums: Floats, counts: Floats, values: Floats, scale: float, chances: Floats, named: Floats | None
) -> Iterator[Floats]:
    """For each class the probabilities of the values, which for words that bear its name are their own."""
    if named is None or not named.any():
        yield from repeat(chances, len(sums))
        return
    whose, words = np.nonzero(named)
    weights = named[whose, words]
    ratios = _likelihood(sums[whose, words], counts[whose], values[words], scale)
    plain, borne = ratios @ chances, ratios @ _NAMED
    evidence = [
        np.log(trust * (1 - trust)) + np.log(plain + trust * weights * (borne - plain)).sum()
        for trust in _TRUSTS
    ]
    trusted = named * _TRUSTS[int(np.argmax(evidence))]
    for own in trusted:
        yield chances + own[:, None] * (_NAMED - chances)


def _read(sums: Floats, count: float, values: Floats, chances: Floats, scale: float) -> Floats:
    """Posterior means of m in each word."""
    ratios = _likelihood(sums, count, values, scale) * chances
    ratios /= ratios.sum(axis=1, keepdims=True)
    own = (_WIDTH * values) ** 2
    trusted = own / (own + (scale / count) ** 2)
    centres = values + trusted * ((sums / count)[:, None] - values)
    means: Floats = np.einsum("jg,jg->j", ratios, centres)
    return np.maximum(means, 0.0)


def _likelihood(sums: Floats, counts: Floats | float, values: Floats, scale: float) -> Floats:
    """Likelihood of each value, over its largest."""
    means = (np.asarray(counts)[..., None] / scale) * values
    observed = (sums / scale)[:, None]
    spread = 1 + (_WIDTH * means) ** 2
    ratios = 0.5 * (observed**2 - (observed - means) ** 2 / spread - np.log(spread))
    ratios -= ratios.max(axis=1, keepdims=True)
    return np.exp(ratios, out=ratios)
