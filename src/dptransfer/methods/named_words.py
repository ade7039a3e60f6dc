"""Which words of the encoder bear a class's name: class names are declared public, so this costs nothing.

A class that is called 'soccer_ball' has most likely to do with the encoder's word 'soccer ball', before a
single private row is read. Names are compared as people would, by their words in small letters, with or
without a plural s; a word of the encoder may have several names, with commas between them, and what is in
brackets tells two of one name apart. Where no word has the name, those are taken that have its last word:
the head of an English compound says what a thing is, so a 'windsor_chair' may be one of the chairs.

It is a guess, and `methods.sparse_prior` weighs it against the sums: names that mean something else here, or
nothing at all ('class 7'), find no word or lose their weight.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from dptransfer.arrays import Floats

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
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
    words = (word.lower() for word in _LETTERS.findall(_CAMEL.sub(" ", name)))
    return tuple(re.sub(r"(?<=[^s]{2}[^su])s$", "", word) for word in words)
