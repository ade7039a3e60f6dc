"""Public start of the default method: class names and labelled public rows as a linear score of unit rows.

What is public about classes costs nothing: their names, read by the text side of the encoder, and labelled
public rows. Both become labelled rows, names twice, of which softmax regression makes weights. On four sets
of texts names alone have 55 to 68 % so, as many as by cosine, and 1 to 5 points are won by names beside 5 and
more beside 2 shots. How sure the weights should be is found by leaving parts of the labelled rows out; for
names alone it is a constant, as probabilities are best at 1.5 to 2.2 times these weights on all four sets.

`read_start` asks the private rows for one number, whether the true classes are likelier by these weights than
by a blind guess. Names that are words are mostly good, so the number must say that they are not: of a gain
that is a half for every row, or minus a half where names say nothing, with noise of scale s over n rows, the
likelihood ratio is exp(gain·n/s²), and names are taken from odds of nine to one on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from dptransfer.base.types import Floats, Floats32, Integers, Labels
from dptransfer.data import Facts, PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.embeddings import RowsNeeded
from dptransfer.data.facts import EncoderIdentity
from dptransfer.errors import DataError, DPTransferError
from dptransfer.exact.chunks import one_blas_thread
from dptransfer.exact.feature_map import FittedUnitNorm, UnitNorm, apply
from dptransfer.exact.public_map import FittedSpan
from dptransfer.mechanisms import SharesLeft
from dptransfer.methods.heads.start import fitted_softmax
from dptransfer.queries import LikelihoodGain

START_SHARE = 0.02
_LABELLED = "labelled public rows"
_OF_TEXTS = ("{}", "a message about {}", "This is about {}.")
_OF_PICTURES = ("a photo of a {}.", "{}")
_STRENGTH = 1e-4  # few rows of unit norm need next to none
_COPIES = 2  # of names beside labelled rows; 1 to 5 do alike
_OF_NAMES = 1.8  # how sure weights of names alone are, in parts of what the fit gives them
_SCALES = np.geomspace(0.125, 8.0, 25)
# Best on ten sets with 2 and 5 rows of each class: 0.6 to 2.8. Few rows tell less than this.
_USUAL, _SPREAD = 1.5, 0.4
_MOST_SHOTS = 50  # of a class: more rows teach the steps little, and take time
_FOLDS = 5
_LEFT_OUT = 100  # rows; by then a scale is known well enough
_ODDS = 9.0  # that names in words, or labelled rows, say something
# Of the typical class over the noise; chosen with sets left out (docs/methods/public-prior.md).
_SURER = 2.0  # what weights of names alone are multiplied with where it is next to nothing
_ENOUGH, _ENOUGH_ALONE = 11.0, 5.7  # times the root of what it is worth: from here on steps go all the way
# For each labelled row of a class; names are worth two, and fade sooner where they are alone.
_FADES, _FADES_ALONE = 3.0, 1.0  # from here on what is public fades beside steps
_KNOWN, _KNOWN_ALONE = 40.0, 30.0  # from here on steps know as much


@dataclass(frozen=True, eq=False)
class ClassStart:
    """A linear score of rows of unit norm, made of public values.

    Attributes:
        features: the map of unit rows into the span of the weights: steps need not carry along more.
        weights: (classes, directions), as sure as they should be.
        what: what it was made of, in words.
        worth: as how many labelled rows of a class.
    """

    features: FittedSpan
    weights: Floats
    what: str
    worth: float

    @property
    def is_labelled(self) -> bool:
        """Whether it was made of labelled rows, so that its weights are as sure as they should be."""
        return _LABELLED in self.what

    def may_help(self, typical: float) -> bool:
        """Whether it can be worth its price beside steps on classes of this size over the noise."""
        return typical < self.worth * (_KNOWN if self.is_labelled else _KNOWN_ALONE)

    def beside(self, typical: float) -> Floats:
        """The weights beside steps on classes of this size over the noise.

        They count for less where steps tell so much that what is wrong in them would only have to be
        unlearned; names alone for more where the noise of steps competes with them.
        """
        surer, fades = (1.0, _FADES) if self.is_labelled else (_SURER, _FADES_ALONE)
        return surer / math.sqrt(1 + max(typical, 0.0) / (fades * self.worth)) * self.weights

    def way(self, typical: float) -> float:
        """Part of the usual noise in a logit that steps beside it may leave.

        Let a public logit be wrong by about τ, and let steps add r·(N·wrong + noise), with N the typical
        class over the noise. The r with the least squared error is τ²N/(1 + τ²N²): proportional to N where N
        is small, and to τ², which is less where labelled rows are known.
        """
        enough = (_ENOUGH if self.is_labelled else _ENOUGH_ALONE) * math.sqrt(self.worth)
        return min(1.0, max(typical, 0.0) / enough)


def sources_of_start(public: PublicEmbeddings | None, facts: Facts) -> tuple[str, ...]:
    """What is public about the classes, in words: their names, labelled rows of all of them, or nothing."""
    if public is None:
        return ()
    found = ["class names"] if public.names is not None and len(public.names) else []
    shots = public.shots
    if shots is not None and set(shots.classes or ()) <= set(facts.classes):
        if found or set(shots.classes or ()) == set(facts.classes):
            found.append(_LABELLED)
    return tuple(found)


def public_start(public: PublicEmbeddings | None, facts: Facts) -> ClassStart | None:
    """The start that public data give, if they give one."""
    sources = sources_of_start(public, facts)
    if public is None or not sources:
        return None
    features, classes = UnitNorm().fit(facts.dimension, None), len(facts.classes)
    rows, labels = np.zeros((0, facts.dimension)), np.zeros(0, dtype=np.int64)
    if _LABELLED in sources:
        rows, labels = _some_shots(public, facts, features)
        if len(sources) == 1 and len(np.unique(labels)) < classes:  # a class without a row would be unlikely
            return None
    named = np.zeros((0, facts.dimension))
    if public.names is not None and len(public.names):
        if len(public.names) != classes:
            raise DataError(
                f"Rows of class names must be one for each class; got {len(public.names)} for {classes} "
                "classes. Encode one name for each declared class, in their order."
            )
        named = np.tile(apply(features, public.names), (_COPIES if len(rows) else 1, 1))
    own = np.arange(len(named)) % classes
    known = _Labelled(np.vstack([rows, named]), np.concatenate([labels, own]), classes)
    weights = known.weights(slice(None))
    sure = known.sureness(weights, len(rows)) if len(rows) else _OF_NAMES
    weights = sure * (weights - weights.mean(axis=0)) @ known.basis
    span = FittedSpan.of(weights)
    worth = len(rows) / classes + (_COPIES if len(named) else 0)
    return ClassStart(span, weights @ span.basis, " and ".join(sources), worth)


class _Labelled:
    """Public rows with their labels, in the span of the rows, which is where their best weights are.

    Attributes:
        basis: of the span.
    """

    def __init__(self, rows: Floats, labels: Labels, classes: int) -> None:
        with one_blas_thread(len(rows)):
            directions, within = np.linalg.qr(rows.T)
        self.basis: Floats = directions.T
        self._rows, self._labels, self._classes = np.ascontiguousarray(within.T), labels, classes

    def weights(self, kept: slice | Integers, start: Floats | None = None) -> Floats:
        """Softmax regression on the rows that are kept."""
        zero = np.zeros((self._classes, len(self.basis)))
        return fitted_softmax(self._rows[kept], self._labels[kept], zero, _STRENGTH, start)

    def sureness(self, weights: Floats, shots: int) -> float:
        """The likeliest scale of weights, by rows that were left out of their fit and by what is usual.

        Every fold leaves out rows of every class, so that most classes have some left; there are no more
        folds than a single number needs.

        Args:
            weights: of all rows; fits without some of them are near.
            shots: how many of the rows may be left out: the first, whose labels are in order.
        """
        labels = self._labels[:shots]
        within = np.arange(shots) - np.searchsorted(labels, labels)
        fewest = int(np.bincount(labels, minlength=self._classes).min())
        folds = min(_FOLDS, max(2, fewest))
        likelihood, seen = -0.5 * (np.log(_SCALES / _USUAL) / _SPREAD) ** 2, 0
        for fold in range(folds):
            out = np.flatnonzero(within % folds == fold)
            if not 0 < len(out) < len(self._rows):
                return 1.0
            kept = np.delete(np.arange(len(self._rows)), out)
            logits = self._rows[out] @ self.weights(kept, weights).T
            for place, scale in enumerate(_SCALES):
                scaled = scale * logits
                true = scaled[np.arange(len(scaled)), self._labels[out]]
                likelihood[place] += float((true - logsumexp(scaled, axis=1)).sum())
            if (seen := seen + len(logits)) >= _LEFT_OUT:
                break
        return float(_SCALES[np.argmax(likelihood)])


def _some_shots(public: PublicEmbeddings, facts: Facts, features: FittedUnitNorm) -> tuple[Floats, Labels]:
    """Mapped labelled rows and their labels, no more of a class than are of use."""
    rows, labels = public.shots_for(facts)
    chosen = np.concatenate([np.flatnonzero(labels == c)[:_MOST_SHOTS] for c in range(len(facts.classes))])
    return apply(features, rows[chosen]), labels[chosen]


def read_start(
    purse: SharesLeft, start: ClassStart, private: PrivateEmbeddings, counts: Floats
) -> tuple[bool, str]:
    """Whether the start helps, by one noisy number, and what the card says about it.

    Args:
        purse: pays for it.
        start: what is public.
        private: the rows.
        counts: (classes,) estimates.
    """
    asking = LikelihoodGain(start.features, start.weights, bound=private.facts.bound)
    (gain,) = purse.release(asking, START_SHARE, private.rows, private.labels, private.people)
    noise, size = purse.scale(asking, START_SHARE), max(float(counts.sum()), 1.0)
    helps = float(gain) * size > -math.log(_ODDS) * noise**2
    said = "helped" if helps else "did not help, and were left out"
    measured = f"noisy gain {float(gain) / size:+.2f} on a scale from -1 to 1, noise {noise / size:.2g}"
    return helps, f"{start.what[:1].upper()}{start.what[1:]} {said} ({measured})."


IN_CODES = (
    "The class names are codes or numbers, of which the encoder can make nothing. Names in words cost no "
    "privacy and help most when epsilon is small."
)
"""Advice where an encoder of texts could read class names and there are none."""

UNMEASURED = (
    "Class names are a start that costs nothing. What names alone reach here was not measured, as no "
    "labelled public examples of all classes are given; on four public sets of texts it was 54 to 67 %."
)
"""Note on class names where nothing public tells how good they are."""


def notes_on_names(public: PublicEmbeddings | None, facts: Facts) -> tuple[str, ...]:
    """The advice, where it applies by the declared facts."""
    unread = public is not None and (public.names is None or not len(public.names))
    reads_texts = facts.encoder is not None and not _is_of_pictures(facts.encoder)
    return (IN_CODES,) if unread and reads_texts and not are_in_words(facts.classes) else ()


def accuracy_of_names(public: PublicEmbeddings, facts: Facts, role: str = "public") -> str:
    """What names alone reach on the labelled rows, in words; empty where there are no names."""
    if public.names is None or not len(public.names):
        return ""
    with suppress(RowsNeeded):
        if _LABELLED in sources_of_start(public, facts):
            rows, labels = public.shots_for(facts)
            alone = public_start(PublicEmbeddings(public.names).with_names(public.names), facts)
            if alone is not None and len(rows):
                right = (apply(alone.features, rows[:]) @ alone.weights.T).argmax(axis=1) == labels
                balanced = np.mean([right[labels == own].mean() for own in np.unique(labels)])
                return (
                    f"Class names alone, without a private row, reach {balanced:.0%} (balanced accuracy on "
                    f"{len(rows):,} labelled {role} examples)."
                )
    return UNMEASURED


_WORD = re.compile(r"[^\W\d_]+")
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_VOWEL = re.compile(r"[aeiouy]", re.IGNORECASE)


def readable_name(name: str) -> str:
    """A class name as a person would say it.

    >>> readable_name("Refund_not_showing_up"), readable_name("comp.sys.mac"), readable_name("iotCleaning")
    ('Refund not showing up', 'comp sys mac', 'iot Cleaning')
    """
    return " ".join(re.sub(r"[_\W]+", " ", CAMEL.sub(" ", name)).split())


def are_in_words(classes: Sequence[str | int]) -> bool:
    """Whether most classes are called by words of their own, and not by numbers or codes.

    >>> are_in_words(["skin cancer", "mole"]), are_in_words(["C34.1", "C34.2"]), are_in_words([1, 2])
    (True, False, False)
    >>> are_in_words(["class 1", "class 2", "class 3"])
    False
    """
    told = [
        tuple(word.lower() for word in _WORD.findall(CAMEL.sub(" ", str(name))) if _is_word(word))
        for name in classes
    ]
    return 2 * len(set(told) - {()}) > len(classes)


def _is_word(text: str) -> bool:
    """Whether it can be pronounced; what is not in Latin letters counts as a word."""
    return not text.isascii() or (len(text) > 2 and _VOWEL.search(text) is not None)


def with_known_names(public: PublicEmbeddings, facts: Facts) -> PublicEmbeddings:
    """The pool with rows of the class names, where these are words and the encoder on record reads texts."""
    identity = facts.encoder or public.encoder
    if public.names is not None or identity is None or not are_in_words(facts.classes):
        return public
    rows = _encoded_names(identity, facts.classes)
    return public if rows is None or rows.shape[1] != facts.dimension else public.with_names(rows)


def _is_of_pictures(identity: EncoderIdentity) -> bool:
    return identity.transform.startswith("rgb")


@lru_cache(maxsize=8)
def _encoded_names(identity: EncoderIdentity, classes: tuple[str | int, ...]) -> Floats32 | None:
    """One row of unit norm for each class, the mean over templates; None where nobody can read names.

    An encoder is looked up among those that are installed, or is a folder; nothing is fetched for names.
    """
    from dptransfer.encoders import ENCODERS, encoder_of, get_encoder
    from dptransfer.encoders.in_memory import encode_texts_in_memory

    pictures = _is_of_pictures(identity)
    with suppress(DPTransferError):
        if identity.name in ENCODERS.names and not pictures:
            encoder = encoder_of(identity)
        elif identity.name not in ENCODERS.names and (Path(identity.name) / "config.json").is_file():
            encoder = get_encoder(identity.name, kind="text")
        else:
            return None
        said = [readable_name(str(name)) for name in classes]
        templates = _OF_PICTURES if pictures else _OF_TEXTS
        mean = sum(
            apply(UnitNorm().fit(encoder.dimension, None), encode_texts_in_memory(texts, encoder))
            for texts in ([template.format(name) for name in said] for template in templates)
        )
        return np.asarray(mean / len(templates), dtype=np.float32)
    return None
