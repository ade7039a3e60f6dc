"""Evaluate a classifier on labelled test rows, with confidence intervals.

Test rows are not protected by the guarantee: whoever publishes these numbers publishes a function of the
test rows. So rows that a ledger has on record as private are refused, and a release tells the sizes of a test
set only if they are declared public.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Annotated, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, TypeAdapter

from dptransfer.base.types import Floats, Integers, JsonObject
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.data.labels import Labelled, class_positions
from dptransfer.errors import ArgumentError, DataError
from dptransfer.release.calibration import Calibration
from dptransfer.release.charged_evaluation import Estimate, read_exactly
from dptransfer.release.classifier import PrivateClassifier, probabilities

Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Count: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]  # nobody has more rows, and a card is drawn from it
Interval: TypeAlias = tuple[Share, Share]
ClassName: TypeAlias = str | int
ClassSizes: TypeAlias = Mapping[ClassName, int] | Sequence[int]
"""Class sizes by name, or in the order of the declared classes."""

_Z95 = 1.959963984540054  # the 97.5 % point of the normal law
_BINS = 15
_DIGITS = 3
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Evaluation:
    """Test results, most telling first. Intervals are 95 %.

    Attributes:
        name: whose rows these are, in words.
        size: number of test rows; None in a release, unless it is public.
        balanced_accuracy: mean recall over the classes that have a test row.
        balanced_interval: its interval, from the recalls' Wilson intervals.
        accuracy: share of rows predicted right.
        accuracy_interval: its Wilson interval.
        minority_accuracy: mean recall of the smallest quarter of the classes (rounded up); None where no
            class is smaller than another, or none of them has a test row.
        minority_interval: its interval.
        minority_classes: the classes it is taken over.
        minority_source: where the class sizes came from: 'declared sizes' or 'test set sizes'.
        macro_f1: mean F1 over the classes that have a test row.
        calibration_error: expected calibration error of `predict_proba`, 15 equal bins.
        classes: the declared classes.
        support: test rows per class; empty in a release, unless they are public.
        recall: recall per class, None without a test row.
        recall_intervals: their Wilson intervals.
        worst_class: the class of lowest recall.
        confusion: rows are true classes, columns predicted ones; empty in a release of many classes, and in
            one that does not tell sizes.
        public: whether the test set is declared public, so that its sizes may be told.
    """

    name: str
    size: Count | None
    balanced_accuracy: Share
    balanced_interval: Interval
    accuracy: Share
    accuracy_interval: Interval
    minority_accuracy: Share | None
    minority_interval: Interval | None
    minority_classes: tuple[ClassName, ...]
    minority_source: str
    macro_f1: Share
    calibration_error: Share
    classes: tuple[ClassName, ...]
    support: tuple[Count, ...]
    recall: tuple[Share | None, ...]
    recall_intervals: tuple[Interval | None, ...]
    worst_class: ClassName
    confusion: tuple[tuple[Count, ...], ...]
    public: bool = False
    test_data_protected: ClassVar[bool] = False

    def __repr__(self) -> str:
        balanced = self.estimates["balanced accuracy"].percent
        return f"Evaluation(balanced accuracy {balanced}, {self.words}, not protected)"

    def _repr_html_(self) -> str:
        from dptransfer.release.card import results_summary

        return results_summary(self).fragment()

    @property
    def statement(self) -> str:
        """The sentence that goes with these numbers wherever they are shown."""
        if self.public:
            return "The test rows are not protected; the evaluator declared them public."
        return "The test rows are not protected. Publish these numbers only if their owner agrees."

    @property
    def words(self) -> str:
        """How many test rows there are, as far as that is told, and whose, in words."""
        return f"{self.count} ({self.name or 'not named'}{', public' if self.public else ''})"

    @property
    def count(self) -> str:
        """How many test rows there are, as far as that is told."""
        return "test rows" if self.size is None else f"{self.size} test rows"

    @property
    def estimates(self) -> dict[str, Estimate]:
        """The most telling shares by name, with their intervals."""
        return {
            "balanced accuracy": Estimate(self.balanced_accuracy, *self.balanced_interval),
            "accuracy": Estimate(self.accuracy, *self.accuracy_interval),
        }

    @property
    def recalls(self) -> dict[str, Estimate]:
        """The recall of each class that has a test row, with its interval."""
        each = zip(self.classes, self.recall, self.recall_intervals, strict=True)
        return {str(name): Estimate(own, *ends) for name, own, ends in each if own is not None and ends}

    def for_release(self) -> Evaluation:
        """What a release tells: without the sizes of a test set that is not declared public.

        Shares and intervals are rounded then, for in full they give every class size to the digit. Rounded
        ones still tell about how many rows there were.
        """
        if self.public:
            return self
        shown = "accuracy accuracy_interval macro_f1 calibration_error recall recall_intervals".split()
        changes: JsonObject = {name: _rounded(getattr(self, name)) for name in shown}
        rounded = replace(self, size=None, support=(), confusion=(), **changes)
        intervals, minority = rounded.recall_intervals, rounded.minority_classes
        return replace(rounded, **_means(self.classes, rounded.recall, intervals, minority))

    def to_dict(self) -> JsonObject:
        """JSON-ready form."""
        plain: JsonObject = json.loads(json.dumps(asdict(self)))  # lists for tuples
        return {**plain, "test_data_protected": False}

    @classmethod
    @read_exactly
    def from_dict(cls, values: JsonObject) -> Evaluation:
        """Read what `to_dict` wrote; anything else is refused."""
        found = _schema().validate_json(json.dumps(values), strict=True)
        lengths = {len(found.recall), len(found.recall_intervals), *map(len, found.confusion)}
        lengths |= {len(found.confusion)} if found.confusion else set()
        lengths |= {len(found.support)} if found.support or found.size is not None else set()
        absent = [own is None for own in found.recall]
        alike = absent == [own is None for own in found.recall_intervals] and not all(absent)
        if not alike or lengths != {len(found.classes)}:
            raise ArgumentError("An evaluation must have one entry per class in each of its tables.")
        return found


def _rounded(value: object) -> object:
    """Shares, alone or in tables, as a card shows them; everything else as it is."""
    if isinstance(value, tuple):
        return tuple(map(_rounded, value))
    return round(value, _DIGITS) if isinstance(value, float) else value


@cache
def _schema() -> TypeAdapter[Evaluation]:
    """Takes longer to make than an evaluation does to read."""
    return TypeAdapter(Evaluation)


def evaluate_model(
    model: PrivateClassifier,
    x: object,
    y: ArrayLike | Labelled,
    *,
    minority_of: ClassSizes | None = None,
    name: str = "",
    device: str = "cpu",
    public: bool = False,
) -> Evaluation:
    """Test a classifier on labelled rows; `dptransfer.evaluate` compares them with a ledger first."""
    found = evaluate_scores(
        model.scores(x.rows if isinstance(x, PublicEmbeddings) else x, device=device),
        y,
        classes=model.classes,
        temperature=model.head.temperature,
        calibration=model.calibration,
        minority_of=model.facts.class_counts if minority_of is None else minority_of,
        name=name,
    )
    return replace(found, public=public)


def evaluate_scores(
    scores: Floats,
    y: ArrayLike | Labelled,
    *,
    classes: tuple[ClassName, ...],
    temperature: float = 1.0,
    calibration: Calibration | None = None,
    minority_of: ClassSizes | None = None,
    name: str = "",
) -> Evaluation:
    """The evaluation of any model's scores, say those of a reference without privacy.

    Args:
        scores: one row per test row and one column per class, higher for likelier ones.
        y: the rows' classes.
        classes: the classes, in the order of the columns.
        temperature: probabilities are the softmax of the scores divided by it.
        calibration: what makes calibrated probabilities of them, if there is one.
        minority_of: class sizes of the training set, as for `evaluate`; default those of the test set.
        name: whose rows these are.
    """
    truth = class_positions(y, classes)
    if len(truth) == 0:
        raise DataError("An evaluation needs at least one test row; got none.")
    if len(scores) != len(truth):
        raise DataError(f"y must label each of the {len(scores)} test rows; got {len(truth)} labels.")
    count, chosen = len(classes), scores.argmax(axis=1)
    confusion = np.bincount(truth * count + chosen, minlength=count * count).reshape(count, count)
    sizes = confusion.sum(axis=1).tolist() if minority_of is None else _class_sizes(classes, minority_of)
    small = tuple(classes[c] for c in _smallest_quarter(sizes))
    made = probabilities if calibration is None else calibration.probabilities
    confidence = made(scores, temperature)[np.arange(len(truth)), chosen]
    figures = _from_counts(confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0))
    recall: tuple[float | None, ...] = figures["recall"]
    return Evaluation(
        **figures,
        **_means(classes, recall, figures["recall_intervals"], small),
        name=name,
        minority_classes=small,
        minority_source="test set sizes" if minority_of is None else "declared sizes",
        calibration_error=_calibration_error(confidence, chosen == truth),
        classes=classes,
        worst_class=classes[recall.index(min(own for own in recall if own is not None))],
        confusion=tuple(tuple(row) for row in confusion.tolist()),
    )


def _from_counts(hits: Integers, support: Integers, predicted: Integers | None) -> JsonObject:
    """The figures that follow from each class's right predictions, test rows and predictions, if known."""
    pairs = list(zip(hits.tolist(), support.tolist(), strict=True))
    right, size = int(hits.sum()), int(support.sum())
    figures: JsonObject = {
        "size": size,
        "support": tuple(support.tolist()),
        "accuracy": right / max(1, size),
        "accuracy_interval": wilson(right, max(1, size)),
        "recall": tuple(found / rows if rows else None for found, rows in pairs),
        "recall_intervals": tuple(wilson(found, rows) if rows else None for found, rows in pairs),
    }
    if predicted is not None:
        there = support > 0
        figures["macro_f1"] = float((2 * hits[there] / (support + predicted)[there]).mean())
    return figures


def _means(
    classes: Sequence[ClassName],
    recall: Sequence[float | None],
    intervals: Sequence[Interval | None],
    minority: Sequence[ClassName],
) -> JsonObject:
    """The mean recall of all classes and of the minority, with intervals; None where none has a test row."""
    figures: JsonObject = {}
    for name, chosen in (("balanced", set(classes)), ("minority", set(minority))):
        table = zip(classes, recall, intervals, strict=True)
        seen = [(share, ends) for one, share, ends in table if one in chosen and share is not None and ends]
        shares, own = [share for share, _ in seen], [ends for _, ends in seen]
        figures[f"{name}_accuracy"] = _mean(shares) if seen else None
        figures[f"{name}_interval"] = mean_interval(shares, own) if seen else None
    return figures


def wilson(hits: int, trials: int) -> Interval:
    """Wilson's 95 % interval for a proportion.

    >>> [round(end, 4) for end in wilson(8, 10)]
    [0.4902, 0.9433]
    """
    share = hits / trials
    shrink = 1 + _Z95**2 / trials
    centre = share + _Z95**2 / (2 * trials)
    reach = _Z95 * math.sqrt(share * (1 - share) / trials + _Z95**2 / (4 * trials**2))
    return max(0.0, (centre - reach) / shrink), min(1.0, (centre + reach) / shrink)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def mean_interval(values: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """Interval of a mean of independent proportions: the distances to their Wilson ends add in squares.

    This is the "method of variance estimates recovery" (Zou and Donner 2008); unlike a normal interval it
    does not collapse when every recall is 0 or 1.
    """
    below = math.sqrt(math.fsum((v - low) ** 2 for v, (low, _) in zip(values, intervals, strict=True)))
    above = math.sqrt(math.fsum((high - v) ** 2 for v, (_, high) in zip(values, intervals, strict=True)))
    mean = _mean(values)
    return max(0.0, mean - below / len(values)), min(1.0, mean + above / len(values))


def _class_sizes(classes: tuple[ClassName, ...], declared: ClassSizes) -> list[int]:
    """The declared sizes in the order of the classes."""
    if isinstance(declared, Mapping) and set(declared) == set(classes):
        declared = [declared[name] for name in classes]
    if isinstance(declared, Mapping) or len(declared) != len(classes):
        raise ArgumentError(
            f"minority_of must give one size for each of the {len(classes)} declared classes and no other; "
            f"it gives {len(declared)}. List them in the order of the classes, or by name."
        )
    return [int(size) for size in declared]


def _smallest_quarter(sizes: Sequence[int]) -> list[int]:
    """Positions of the smallest quarter, rounded up, ties in declared order; none where all are equal."""
    if len(set(sizes)) == 1:
        return []
    return sorted(sorted(range(len(sizes)), key=lambda c: sizes[c])[: math.ceil(len(sizes) / 4)])


def _calibration_error(confidence: Floats, right: NDArray[np.bool_]) -> float:
    """Σ over bins of (share of rows in it) · |mean confidence − accuracy|."""
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(confidence))


def wrong_figure(recorded: Evaluation) -> str | None:
    """The first figure that is not that of the table of right and wrong predictions; None if all are."""
    recall, table = recorded.recall, np.array(recorded.confusion)
    if not recorded.public or recorded.size is None:  # only public test sets have counts
        implied: JsonObject = {"size": None, "support": (), "confusion": ()}
    elif recorded.confusion:
        implied = _from_counts(table.diagonal(), table.sum(axis=1), table.sum(axis=0))
    else:
        pairs = zip(recall, recorded.support, strict=True)
        hits = np.array([round((own or 0.0) * rows) for own, rows in pairs])
        implied = _from_counts(hits, np.array(recorded.support), None)
    implied |= _means(recorded.classes, recall, recorded.recall_intervals, recorded.minority_classes)
    known = {name: own for name, own in zip(recorded.classes, recall, strict=True) if own is not None}
    if known.get(recorded.worst_class) != min(known.values()):
        return "worst class"
    wrong = (name for name, figure in implied.items() if not _same(getattr(recorded, name), figure))
    return next(wrong, "").replace("_", " ") or None


def _same(recorded: object, implied: object) -> bool:
    if isinstance(recorded, float) and isinstance(implied, float):
        return math.isclose(recorded, implied, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    if isinstance(recorded, list | tuple) and isinstance(implied, list | tuple):
        return len(recorded) == len(implied) and all(map(_same, recorded, implied))
    return recorded == implied
