"""How much of the sums' budget goes to sums in words: all, half or nothing, from what is public or released.

Sums in words and in public axes share one budget, and both are rarely worth having. Two questions decide.

*Does the encoder have words for these examples?* If it is sure of them, with a mean confidence of 0.4 or
more; or if it is half sure (0.3) and half of the classes are called like a word, so that names help. It is
0.47 on Caltech-101, where words win; 0.33 on textures, 0.22 on traffic signs and 0.17 on satellite pictures,
where they lose; and 0.32 on CIFAR-10, where they win by far with the names of its classes, while those are
small, and by a little without.

*Is there still something to find out in words?* The sum of a class has a coordinate of about n·c in its own
word, for n rows and the mean confidence c (0.7 to 1.4 times that on the five sets for development), and noise
of scale s in all J of them. The largest of J noises is about √(2 ln J), so a word stands out, nine times out
of ten, once n·c/s ≥ √(2 ln J) + 1.28: for a thousand words, 5. Up to there all of the budget is for words.
From there on what they can tell is known better and better, and the axes, which tell more in the end, get
half; from twice that on, all.

On a grid of 56 cells (the five sets, two of them balanced and long-tailed, n/s from 1 to 32) this is 0.6
points behind the best of four ways on average, 7.6 ahead of axes alone, and 8 behind at worst: textures at
n/s ≤ 2 (benchmarks/words.py). The two levels of confidence are measured and not derived: they lie between
sets, and that is all.
"""

from __future__ import annotations

import math

_SURE, _HALF_SURE = 0.4, 0.3
_MARGIN = 1.28  # standard deviations that a normal exceeds one time in ten


def word_share(confidence: float, signal: float, words: int, named: float) -> float:
    """The share of the budget for sums that goes to words: 1, ½ or 0.

    Args:
        confidence: noisy mean of the largest probability of rows (`queries.ConfidenceTotal`).
        signal: typical class count ÷ scale of the noise that all of the sums' budget would leave.
        words: how many there are.
        named: share of the classes whose name some word bears (`methods.named_words`).

    >>> [word_share(0.47, signal, 1000, named=0.5) for signal in (3, 15, 30)]
    [1.0, 0.5, 0.0]
    >>> word_share(0.32, 3, 1000, named=0.2), word_share(0.32, 3, 1000, named=0.7)
    (0.0, 1.0)
    """
    if confidence < (_HALF_SURE if named >= 0.5 else _SURE):
        return 0.0
    stands_out = math.sqrt(2 * math.log(words)) + _MARGIN
    read = signal * confidence / stands_out
    return 1.0 if read <= 1 else 0.5 if read <= 2 else 0.0


def words_may_pay(signal: float, words: int, named: float) -> bool:
    """Whether some confidence would give words a share; where none would, it need not be measured.

    >>> words_may_pay(20.0, 1000, named=0.5), words_may_pay(40.0, 1000, named=0.5)
    (True, False)
    """
    return word_share(_HALF_SURE if named >= 0.5 else _SURE, signal, words, named) > 0
