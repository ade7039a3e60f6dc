"""A sparse, non-negative model of noisy class sums in words: post-processing of released values.

What is known: the noisy sum Z_cj of each class in each word of the encoder (`features.VocabularyMap`), and
the noisy counts. What is assumed: Z_cj = n_c · m_cj + noise, where m_cj ≥ 0 is how much of word j a row of
class c has on average. Most are next to nothing and a few are large, in a way that no formula knows before:
so m_cj is one of a few values, with probabilities that maximise the likelihood of all sums together
(expectation-maximisation; Kiefer and Wolfowitz 1956). The values are

    b_j times 0, 0.03, 0.1, 0.3, 1, 2, 4 or 8    as much as others have of it: b_j is the mean over classes
    0.01 … 0.95, twenty of them                  as much as only this class has

where b_j comes from the sum over classes, in which no class outweighs the typical one, by the same kind of
model. With little signal all b_j are alike, and with more they tell which words this data set is about: so a
class that is too small to be read is taken to have the words of the others, and not all words alike.

A row's entries h_j, which are not negative, are read as words that it was seen to have, and a class gives
each of its words with chance q_cj = m_cj ÷ Σ_j m_cj. Then the log likelihood of a row is Σ_j h_j · log q_cj,
linear in h. It is about as sharp as the tempered score of `public_prior`: probabilities of either are best,
by their log loss, at temperatures between a quarter and 1, so the two can be added as they are.

The values and the score were chosen on the five sets of pictures for development (Caltech-101, CIFAR-10,
signs, satellite, textures), in 16 cells of ε and class sizes: against an exponential slab with cosines, as
such models are usually built, 26 against 16 % on Caltech-101 at ε = 0.5, 54 against 43 at ε = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dptransfer.arrays import Floats
from dptransfer.methods.centre import class_weights
from dptransfer.methods.hierarchical import count_estimates

_SHARED = np.array([0.0, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0])
_OWN = np.geomspace(0.01, 0.95, 20)
_BASES = np.array([0.0, *np.geomspace(1e-5, 0.9, 50)])
_LARGEST = 0.98  # of a mean: rows have unit norm
_LEAST = 1e-7  # of a base rate, and of a share: a word that nobody has is still possible
_ROUNDS = 50
_MOST_FITTED = 2**17  # sums from which probabilities of values are learned; more change nothing


@dataclass(frozen=True, eq=False)
class SparsePosterior:
    """What the released values say about the words of each class.

    Attributes:
        means: (classes, words) posterior means of m.
        uncertainty: (classes, words) posterior variances.
        counts: (classes,) posterior mean counts.
        log_evidence: log likelihood of all sums less that of pure noise, in nats: what there is to be read.
    """

    means: Floats
    uncertainty: Floats
    counts: Floats
    log_evidence: float

    @property
    def shares(self) -> Floats:
        """(classes, words) q: the chance of each word among those of a class; rows add up to 1."""
        found: Floats = self.means + _LEAST
        return found / found.sum(axis=1, keepdims=True)

    def scores(self) -> Floats:
        """(classes, words) weights of a linear score of rows in words, a log likelihood.

        They are log q less its mean over classes, which changes no difference of scores.
        """
        logs = np.log(self.shares)
        centred: Floats = logs - logs.mean(axis=0)
        return centred


def sparse_posterior(sums: Floats, counts: Floats, sum_scale: float, count_scale: float) -> SparsePosterior:
    """Empirical-Bayes posterior of the class means in words; see the module docstring for the model.

    Args:
        sums: (classes, words) noisy class sums.
        counts: (classes,) noisy counts.
        sum_scale: standard deviation of the noise of each sum's coordinate.
        count_scale: standard deviation of the noise of each count.

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
    size = estimates[:, None]
    chances = _fitted(sums, size, values, sum_scale)
    means, squares = np.empty(sums.shape), np.empty(sums.shape)
    evidence = 0.0
    for own in range(len(sums)):
        ratios, peaks = _likelihood(sums[own], estimates[own], values, sum_scale)
        ratios *= chances
        total = ratios.sum(axis=1)
        evidence += float((np.log(total) + peaks).sum())
        ratios /= total[:, None]
        means[own], squares[own] = (np.einsum("jg,jg->j", ratios, values**power) for power in (1, 2))
    return SparsePosterior(means, np.maximum(squares - means**2, 0.0), estimates, evidence)


def _base_rates(sums: Floats, counts: Floats, scale: float) -> Floats:
    """(words,) posterior mean of each word's mean over classes, of which none outweighs the typical one."""
    weights = class_weights(counts)
    total, size = weights @ sums, float(weights @ counts)
    noise = scale * float(np.linalg.norm(weights))
    ratios, _ = _likelihood(total, size, np.broadcast_to(_BASES, (len(total), len(_BASES))), noise)
    posterior = ratios * _chances(ratios)
    rates: Floats = posterior @ _BASES / posterior.sum(axis=1)
    return np.maximum(rates, _LEAST)


def _fitted(sums: Floats, counts: Floats, values: Floats, scale: float) -> Floats:
    """Probabilities of the values, from all sums or, where there are very many, from every so many of them."""
    step = -(-sums.size // _MOST_FITTED)
    chosen = np.arange(0, sums.size, step)
    own, word = np.divmod(chosen, sums.shape[1])
    ratios, _ = _likelihood(sums.reshape(-1)[chosen], counts[own, 0], values[word], scale)
    return _chances(ratios)


def _likelihood(sums: Floats, counts: Floats | float, values: Floats, scale: float) -> tuple[Floats, Floats]:
    """Likelihood of each value against that of 0, over its largest; and the logarithm of that."""
    means = (np.asarray(counts)[..., None] / scale) * values
    ratios = means * ((sums / scale)[:, None] - 0.5 * means)
    peaks: Floats = ratios.max(axis=1)
    ratios -= peaks[:, None]
    return np.exp(ratios, out=ratios), peaks


def _chances(ratios: Floats) -> Floats:
    """Probabilities of the values that make the likelihood of all sums largest."""
    others = ratios.shape[1] - 1
    chances = np.array([0.5, *np.full(others, 0.5 / others)])  # the first is 0, which most are
    for _ in range(_ROUNDS):
        chances = chances * ((1 / (ratios @ chances)) @ ratios)
        chances /= chances.sum()
    return chances
