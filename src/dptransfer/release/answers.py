"""What a model answers about rows: a label with its score for each, in CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dptransfer.arrays import AnyArray
    from dptransfer.data.sharded_rows import ShardedRows
    from dptransfer.release.classifier import PrivateClassifier
    from dptransfer.release.prediction_sets import PredictionSets

Answer = dict[str, Any]
"""An input with its label and score; with a rank, where several are asked for, or a set of classes."""

_COLUMNS = ("input", "label", "score")


class Answers(NamedTuple):
    """What was found, and the sets of classes behind it where they were asked for."""

    found: list[Answer]
    sets: PredictionSets | None


@dataclass(frozen=True)
class Question:
    """What is asked of a model.

    Attributes:
        top: classes per input, likeliest first.
        coverage: for sets of classes that hold the true one so often.
        confidence: how sure that is to hold.
        abstain_above: no label where a set has more classes than this.
        device: where scores are computed.
    """

    top: int = 1
    coverage: float | None = None
    confidence: float = 0.95
    abstain_above: int | None = None
    device: str = "cpu"

    def answers(
        self,
        model: PrivateClassifier,
        names: Sequence[str],
        rows: AnyArray | ShardedRows,
        within: slice = slice(None),
    ) -> Answers:
        """The model's answers for rows, or for those of them `within`, by the names of these."""
        chances = model.predict_proba(rows, device=self.device)[within]
        order = (-chances).argsort(axis=1, kind="stable")[:, : self.top].tolist()
        found: list[Answer] = [
            {"input": name, "rank": rank, "label": model.classes[place], "score": float(chances[row, place])}
            for row, (name, places) in enumerate(zip(names, order, strict=True))
            for rank, place in enumerate(places, start=1)
        ]
        if self.top == 1:
            for one in found:
                del one["rank"]
        if self.coverage is None:
            return Answers(found, None)
        sure = {"coverage": self.coverage, "confidence": self.confidence}
        sets = model.predict_sets(rows, **sure, device=self.device)
        sets = replace(sets, members=sets.members[within])
        above = self.abstain_above
        silent = [False] * len(sets) if above is None else sets.abstains(above).tolist()
        for one, labels, abstains in zip(found, sets.labels, silent, strict=True):
            one["set"] = list(labels)
            if abstains:
                one["label"] = None
        return Answers(found, sets)


def written(found: Sequence[Answer], form: str) -> str:
    """The answers as a file of this ending has them; in JSON scores are exact."""
    if form == ".csv":
        return csv_of(found)
    if form == ".json":
        return json.dumps(found, ensure_ascii=False, indent=2) + "\n"
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found)


def csv_of(found: Sequence[Answer]) -> str:
    """A line for each answer, below the names of the columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(found[0]) if found else _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for one in found:
        sets = {"set": json.dumps(one["set"], ensure_ascii=False)} if "set" in one else {}
        writer.writerow({**one, "score": f"{one['score']:.6f}", **sets})
    return text.getvalue()
