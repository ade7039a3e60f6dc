"""Evaluate a classifier on labelled test rows, with confidence intervals.

Test rows are not protected by the guarantee: whoever publishes these numbers publishes a function of the
test rows. So rows that a ledger has on record as private are refused, and a release tells the sizes of a test
set only if they are declared public.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptransfer.base.types import Floats
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.data.labels import Labelled, class_positions
from dptransfer.errors import ArgumentError, DataError
from dptransfer.release.calibration import Calibration
from dptransfer.release.classifier import PrivateClassifier, probabilities

if TYPE_CHECKING:
    from pydantic import TypeAdapter


Interval: TypeAlias = tuple[float, float]
ClassSizes: TypeAlias = Mapping[str | int, int] | Sequence[int]
"""Class sizes by name, or in the order of the declared classes."""

_Z95 = 1.959963984540054  # the 97.5 % point of the normal law
_BINS = 15
_MOST = 2**53  # of a count: nobody has more rows
_COUNTS = ("size", "support", "confusion")
_SHARES = (
    *("balanced_accuracy", "balanced_interval", "accuracy", "accuracy_interval"),
    *("minority_accuracy", "minority_interval", "macro_f1", "calibration_error"),
    *("recall", "recall_intervals"),
)


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
    size: int | None
    balanced_accuracy: float
    balanced_interval: Interval
    accuracy: float
    accuracy_interval: Interval
    minority_accuracy: float | None
    minority_interval: Interval | None
    minority_classes: tuple[str | int, ...]
    minority_source: str
    macro_f1: float
    calibration_error: float
    classes: tuple[str | int, ...]
    support: tuple[int, ...]
    recall: tuple[float | None, ...]
    recall_intervals: tuple[Interval | None, ...]
    worst_class: str | int
    confusion: tuple[tuple[int, ...], ...]
    public: bool = False
    test_data_protected: ClassVar[bool] = False

    def __repr__(self) -> str:
        from dptransfer.release.card_utility import share

        balanced = share(self.balanced_accuracy, self.balanced_interval)
        return f"Evaluation(balanced accuracy {balanced}, {self.words}, not protected)"

    def _repr_html_(self) -> str:
        from dptransfer.release.card_utility import results_summary

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

    def for_release(self) -> Evaluation:
        """What a release tells: without the sizes of a test set that is not declared public.

        Shares and intervals are rounded then, for in full they give every class size to the digit. Rounded
        ones still tell about how many rows there were.
        """
        if self.public:
            return self
        rounded = ("accuracy", "accuracy_interval", "macro_f1", "calibration_error")
        changes = {name: _rounded(getattr(self, name)) for name in (*rounded, "recall", "recall_intervals")}
        told = replace(self, size=None, support=(), confusion=(), **changes)
        means = _means(told, "balanced", told.classes) | _means(told, "minority", told.minority_classes)
        return replace(told, **means)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))  # lists for tuples
        return {**plain, "test_data_protected": False}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evaluation:
        """Read what `to_dict` wrote; anything else is refused."""
        from pydantic import ValidationError

        rest = dict(values)
        unprotected = rest.pop("test_data_protected", None) is False
        if not unprotected or set(rest) != {field.name for field in fields(cls)}:
            raise ArgumentError("An evaluation must have exactly the fields that Evaluation.to_dict writes.")
        try:
            result = _schema().validate_json(json.dumps(rest), strict=True)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False, include_context=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise ArgumentError(f"An evaluation could not be read; at {place}: {first['msg']}.") from None
        lengths = {len(result.recall), len(result.recall_intervals)}
        if result.size is not None or result.support:
            lengths.add(len(result.support))
        if result.confusion:
            lengths |= {len(result.confusion), *(len(row) for row in result.confusion)}
        if lengths != {len(result.classes)}:
            raise ArgumentError("An evaluation must have one entry per class in each of its tables.")
        if not (_within(rest, _SHARES, 1) and _within(rest, _COUNTS, _MOST)):
            raise ArgumentError(
                "An evaluation's shares must lie between 0 and 1, and its counts be possible."
            )
        return result


def _within(values: Mapping[str, Any], names: Sequence[str], most: int) -> bool:
    """Whether every number under these names lies between 0 and this; a card is drawn from them."""
    waiting: list[Any] = [values[name] for name in names]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif one is not None and not 0 <= one <= most:
            return False
    return True


def _rounded(value: Any) -> Any:
    """Shares, alone or in tables, as a card shows them; everything else as it is."""
    if isinstance(value, tuple):
        return tuple(map(_rounded, value))
    return round(value, _DIGITS) if isinstance(value, float) else value


_DIGITS = 3


def _means(told: Evaluation, name: str, classes: Sequence[str | int]) -> dict[str, Any]:
    """The mean recall of these classes and its interval; nothing where none of them has a test row."""
    table = zip(told.classes, told.recall, told.recall_intervals, strict=True)
    seen = [(share, own) for one, share, own in table if one in classes and share is not None and own]
    if not seen:
        return {}
    shares, intervals = zip(*seen, strict=True)
    return {f"{name}_accuracy": _mean(shares), f"{name}_interval": mean_interval(shares, intervals)}


@cache
def _schema() -> TypeAdapter[Evaluation]:
    """Takes longer to make than an evaluation does to read."""
    from pydantic import TypeAdapter

    return TypeAdapter(Evaluation)


def evaluate_model(
    model: PrivateClassifier,
    x: Any | PublicEmbeddings,
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
    classes: tuple[str | int, ...],
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
    count = len(classes)
    chosen = scores.argmax(axis=1)
    confusion = np.bincount(truth * count + chosen, minlength=count * count).reshape(count, count)
    support, hits = confusion.sum(axis=1), confusion.diagonal()
    present = np.flatnonzero(support)
    intervals = {int(c): wilson(int(hits[c]), int(support[c])) for c in present}
    recall = {c: float(hits[c] / support[c]) for c in intervals}
    sizes = support.tolist() if minority_of is None else _class_sizes(classes, minority_of)
    small = _smallest_quarter(sizes)
    seen = [c for c in small if c in recall]
    minority = mean_interval([recall[c] for c in seen], [intervals[c] for c in seen]) if seen else None
    f1 = 2 * hits[present] / (support[present] + confusion.sum(axis=0)[present])
    made = probabilities if calibration is None else calibration.probabilities
    chances = made(scores, temperature)
    return Evaluation(
        name=name,
        size=len(truth),
        balanced_accuracy=_mean(list(recall.values())),
        balanced_interval=mean_interval(list(recall.values()), list(intervals.values())),
        accuracy=float(hits.sum() / len(truth)),
        accuracy_interval=wilson(int(hits.sum()), len(truth)),
        minority_accuracy=_mean([recall[c] for c in seen]) if seen else None,
        minority_interval=minority,
        minority_classes=tuple(classes[c] for c in small),
        minority_source="test set sizes" if minority_of is None else "declared sizes",
        macro_f1=float(f1.mean()),
        calibration_error=_calibration_error(chances[np.arange(len(truth)), chosen], chosen == truth),
        classes=classes,
        support=tuple(support.tolist()),
        recall=tuple(recall.get(c) for c in range(count)),
        recall_intervals=tuple(intervals.get(c) for c in range(count)),
        worst_class=classes[min(recall, key=lambda c: recall[c])],
        confusion=tuple(tuple(row) for row in confusion.tolist()),
    )


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


def _class_sizes(classes: tuple[str | int, ...], declared: ClassSizes) -> list[int]:
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


_ROUNDING = 1e-9


def wrong_figure(told: Evaluation) -> str | None:
    """The first figure that is not that of the table of right and wrong predictions; None if all are."""
    for name, recorded, implied in _figures(told):
        if not _same(recorded, implied):
            return name.replace("_", " ")
    return None


def _figures(told: Evaluation) -> Iterator[tuple[str, object, object]]:
    """Name, recorded and implied value of each figure; counts are told of public test sets alone."""
    shares = [recall for recall in told.recall if recall is not None]
    intervals = [interval for interval in told.recall_intervals if interval is not None]
    absent = [recall is None for recall in told.recall]
    yield "recall_intervals", [one is None for one in told.recall_intervals], absent
    if told.public and told.size is not None:
        yield from _from_counts(told, told.size, shares, intervals)
    else:
        yield "public", (told.size, list(told.support), list(told.confusion)), (None, [], [])
    yield "balanced_accuracy", told.balanced_accuracy, math.fsum(shares) / max(1, len(shares))
    yield "balanced_interval", told.balanced_interval, mean_interval(shares, intervals)
    known = dict(zip(told.classes, told.recall, strict=True))
    yield "worst_class", known.get(told.worst_class), min(shares, default=None)
    yield from _minority(told, known, dict(zip(told.classes, told.recall_intervals, strict=True)))


def _from_counts(
    told: Evaluation, size: int, shares: list[float], intervals: list[Interval]
) -> Iterator[tuple[str, object, object]]:
    support = told.support
    yield "size", size, sum(support)
    yield "recall", [recall is None for recall in told.recall], [rows == 0 for rows in support]
    hits = [round((recall or 0.0) * rows) for recall, rows in zip(told.recall, support, strict=True)]
    pairs = [(right, rows) for right, rows in zip(hits, support, strict=True) if rows]
    yield "recall", shares, [right / rows for right, rows in pairs]
    if told.confusion:
        table = np.array(told.confusion)
        yield "support", list(support), table.sum(axis=1).tolist()
        yield "recall", hits, table.diagonal().tolist()
        both = (table.sum(axis=0) + table.sum(axis=1))[table.sum(axis=1) > 0]
        yield "macro_f1", told.macro_f1, float((2 * table.diagonal()[table.sum(axis=1) > 0] / both).mean())
    yield "recall_intervals", intervals, [wilson(*pair) for pair in pairs]
    yield "accuracy", told.accuracy, sum(hits) / max(1, size)
    yield "accuracy_interval", told.accuracy_interval, wilson(sum(hits), max(1, size))


def _minority(
    told: Evaluation, recall: dict[str | int, float | None], intervals: dict[str | int, Interval | None]
) -> Iterator[tuple[str, object, object]]:
    seen = [name for name in told.minority_classes if recall.get(name) is not None]
    known = [(recall[name], intervals[name]) for name in seen]
    shares = [share for share, _ in known if share is not None]
    own = [interval for _, interval in known if interval is not None]
    yield "minority_accuracy", told.minority_accuracy, math.fsum(shares) / len(shares) if shares else None
    yield "minority_interval", told.minority_interval, mean_interval(shares, own) if shares else None


def _same(recorded: object, implied: object) -> bool:
    if isinstance(recorded, float) and isinstance(implied, float):
        return math.isclose(recorded, implied, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    if isinstance(recorded, list | tuple) and isinstance(implied, list | tuple):
        return len(recorded) == len(implied) and all(map(_same, recorded, implied))
    return recorded == implied
