"""How much of the budget goes to class sums in words, from what is public or released.

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
"""

from __future__ import annotations

import math

_SURE, _HALF_SURE = 0.4, 0.3
_MARGIN = 1.28  # standard deviations that a normal exceeds one time in ten
_LEAST, _MOST = 0.05, 0.75  # less for words, or for steps, than this or what it leaves is not worth its noise


def word_share(confidence: float, signal: float, words: int, named: float) -> float:
    """The share of the budget that goes to words; 0 where they are not worth it, 1 where nothing else is.

    Args:
        confidence: noisy mean of the largest probability of rows (`queries.ConfidenceTotal`).
        signal: typical class count ÷ scale of the noise that all of the budget would leave on a sum.
        words: how many there are.
        named: share of the classes whose name some word bears (`methods.named_words`).

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
