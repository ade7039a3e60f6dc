"""Class sums over the encoder's own labels: their share of the budget, and what they are worth.

Two questions decide.

*Does the encoder have words for these examples?* If it is sure of them, with a mean confidence of 0.4 or
more; or if it is half sure (0.3) and half of the classes are called like a word, so that names help. It is
0.45 on Caltech-101, where words win; 0.33 on textures, 0.21 on traffic signs and 0.17 on satellite pictures,
where they lose; and 0.32 on CIFAR-10, where they win by far with the names of its classes, while those are
small, and by a little without. The two levels are measured and not derived: they lie between sets, and that
is all.

*How much makes a word stand out?* The sum of a class has a coordinate of about n·c in its own word, for n
rows and the mean confidence c (0.7 to 1.4 times that on the five sets for development), and noise of scale s
in all J of them. The largest of J noises is about √(2 ln J), so a word stands out, nine times out of ten,
once n·c/s ≥ √(2 ln J) + 1.28: for a thousand words, 5. Up to there all of the budget is for words. From there
on words get what makes them stand out, with noise s/√share: the square of 5 over n·c/s. Steps in the axes,
which tell more in the end, start from what they said, with the rest.

On Caltech-101 with its natural class sizes (2 seeds, n/s = 4, 8, 15 and 29) words alone had 28, 51, 66 and
75 %, half and half 23, 44, 69 and 81, a quarter for words 19, 41, 69 and 83, and axes alone 20, 42, 64 and
80; the rule gives them all, all, a half and a seventh.

A class that is called 'soccer_ball' has most likely to do with the encoder's word 'soccer ball', before a
single private row is read. Names are compared as people would, by their words in small letters, with or
without a plural s; a word of the encoder may have several names, with commas between them, and what is in
brackets tells two of one name apart. Where no word has the name, those are taken that have its last word:
the head of an English compound says what a thing is, so a 'windsor_chair' may be one of the chairs.

It is a guess, and `methods.heads.words` weighs it against the sums: names that mean something else here, or
nothing at all ('class 7'), find no word or lose their weight.

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

Class names are public. Where a word bears the name of a class (`named_words`), m_cj has with chance
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

An encoder that was trained as a classifier knows some things by name, and a class of such things lies on a
few of its words: sums in words can then be read long before sums in axes (`methods.heads.words`). What tells
whether it has words for these rows is how sure it is of its likeliest one, on average: one mean of numbers
between 0 and 1, which costs next to nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from dptransfer.base.types import Floats
from dptransfer.data import PrivateEmbeddings
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
from dptransfer.mechanisms import SharesLeft
from dptransfer.methods.heads.hierarchical import class_weights, count_estimates
from dptransfer.methods.heads.public_start import CAMEL
from dptransfer.queries import ClassSums, ConfidenceTotal

_SURE, _HALF_SURE = 0.4, 0.3
_MARGIN = 1.28  # standard deviations that a normal exceeds one time in ten
_LEAST, _MOST = 0.05, 0.75  # less for words, or for steps, than this or what it leaves is not worth its noise


def word_share(confidence: float, signal: float, words: int, named: float) -> float:
    """The share of the budget that goes to words; 0 where they are not worth it, 1 where nothing else is.

    Args:
        confidence: noisy mean of the largest probability of rows (`queries.ConfidenceTotal`).
        signal: typical class count ÷ scale of the noise that all of the budget would leave on a sum.
        words: how many there are.
        named: share of the classes whose name some word bears (`named_words`).

    >>> [round(word_share(0.45, signal, 1000, named=0.5), 2) for signal in (4, 15, 29, 60)]
    [1.0, 0.55, 0.15, 0.0]
    >>> word_share(0.32, 3, 1000, named=0.2), word_share(0.32, 3, 1000, named=0.7)
    (0.0, 1.0)
    """
    if confidence < (_HALF_SURE if named >= 0.5 else _SURE):
        return 0.0
    stands_out = math.sqrt(2 * math.log(words)) + _MARGIN
    share = (stands_out / max(signal * confidence, stands_out)) ** 2
    return 1.0 if share > _MOST else share if share >= _LEAST else 0.0


def words_may_pay(signal: float, words: int, named: float) -> bool:
    """Whether some confidence would give words a share; where none would, it need not be measured.

    >>> words_may_pay(40.0, 1000, named=0.0), words_may_pay(80.0, 1000, named=0.0)
    (True, False)
    """
    return word_share(_HALF_SURE if named >= 0.5 else _SURE, signal, words, named) > 0


_LETTERS = re.compile(r"[^\W\d_]+")
_IN_BRACKETS = re.compile(r"\([^)]*\)")


def named_words(classes: Sequence[str | int], names: Sequence[str]) -> Floats:
    """(classes, words): 1 ÷ k for each of the k words that bear the class's name, or its last word; else 0.

    >>> named_words(["soccer_balls", "WindsorChair", 7], ["soccer ball", "rocking chair", "barber chair, x"])
    array([[1. , 0. , 0. ],
           [0. , 0.5, 0.5],
           [0. , 0. , 0. ]])

    Args:
        classes: the declared classes.
        names: of the encoder's words, each perhaps several with commas between them.
    """
    whole: dict[tuple[str, ...], set[int]] = {}
    heads: dict[str, set[int]] = {}
    for place, listed in enumerate(names):
        for name in _IN_BRACKETS.sub("", listed).split(","):
            spoken = _spoken(name)
            if spoken:
                whole.setdefault(spoken, set()).add(place)
                heads.setdefault(spoken[-1], set()).add(place)
    found = np.zeros((len(classes), len(names)))
    for own, declared in zip(found, classes, strict=True):
        spoken = _spoken(str(declared))
        places = sorted(whole.get(spoken, ()) or heads.get(spoken[-1] if spoken else "", ()))
        own[places] = 1 / max(1, len(places))
    return found


def _spoken(name: str) -> tuple[str, ...]:
    """The words of a name, in small letters and in the singular."""
    words = (word.lower() for word in _LETTERS.findall(CAMEL.sub(" ", name)))
    return tuple(re.sub(r"(?<=[^s]{2}[^su])s$", "", word) for word in words)


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
    """Posterior of the words of each class, given the released values.

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


CONFIDENCE_SHARE = 0.01


def read_words(
    purse: SharesLeft,
    words: FittedVocabularyMap,
    private: PrivateEmbeddings,
    signal: float,
    counts: Floats,
    count_scale: float,
) -> tuple[Floats | None, list[str], float]:
    """Weights of a linear score from sums in words, what was spent on them, and which part of what was left.

    Args:
        purse: pays for it.
        words: the map into words.
        private: the rows.
        signal: size of a typical class, over the noise on a sum of rows.
        counts: (classes,) noisy counts.
        count_scale: standard deviation of the noise of each count.

    Returns:
        (classes, words) weights, None where words are not worth their share; of nothing, nothing was spent.
    """
    facts, examples = private.facts, (private.rows, private.labels, private.people)
    matches = named_words(facts.classes, words.names)
    named = float(matches.any(axis=1).mean())
    if not words_may_pay(signal, words.dimension, named):
        return None, [], 0.0
    asking = ConfidenceTotal(words, bound=facts.bound)
    sure, unsure = purse.release(asking, CONFIDENCE_SHARE, *examples)
    noise, spent = purse.scale(asking, CONFIDENCE_SHARE), [f"{CONFIDENCE_SHARE:.0%} on encoder confidence"]
    # Less one standard deviation, so that luck alone rarely makes an encoder look sure.
    confidence = (sure - noise) / max(sure + unsure, 3 * noise)
    part = word_share(confidence, signal, words.dimension, named)
    if not part:
        return None, spent, part
    summing, share = ClassSums(words, len(facts.classes), bound=facts.bound), part * purse.left
    sums = purse.release(summing, share, *examples)
    spent.append(f"{share:.0%} on class sums over the encoder's labels")
    found = sparse_posterior(sums, counts, purse.scale(summing, share), count_scale, matches)
    return found.weights, spent, part
