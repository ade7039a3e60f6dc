"""Predictions as CSV or JSON, for any number of rows.

A task is a function of the model and of its rows, and its file appears under its name whole or not at all.
So it may be done by anybody, and twice; what is there need not be done again.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, JsonObject
from dptransfer.base.workers import ThisProcess, Workers
from dptransfer.data import atomic_files
from dptransfer.data.atomic_files import claim, require_seen
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.release.classifier import CHUNK, PrivateClassifier

if TYPE_CHECKING:
    from dptransfer.release.prediction_sets import PredictionSets


Answer: TypeAlias = JsonObject
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


def format_answers(found: Sequence[Answer], form: str) -> str:
    """The answers as a file of this ending has them; in JSON scores are exact."""
    if form == ".csv":
        return answers_as_csv(found)
    if form == ".json":
        return json.dumps(found, ensure_ascii=False, indent=2) + "\n"
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found)


def answers_as_csv(found: Sequence[Answer]) -> str:
    """A line for each answer, below the names of the columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(found[0]) if found else _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for one in found:
        sets = {"set": json.dumps(one["set"], ensure_ascii=False)} if "set" in one else {}
        writer.writerow({**one, "score": f"{one['score']:.6f}", **sets})
    return text.getvalue()


PART_ROWS = 100_000
"""Rows of a part where workers are named and no number is: seconds of a core, megabytes of answers."""


class Part(NamedTuple):
    """The rows of one file of answers.

    Attributes:
        number: of the file.
        start: where they begin.
        stop: where they end.
        names: what they are called; None if they are called by their numbers.
    """

    number: int
    start: int
    stop: int
    names: Sequence[str] | None


@dataclass(frozen=True)
class PredictPart:
    """Writes the answers for the rows of one part.

    Attributes:
        model: what answers.
        question: what is asked of it.
        rows: all rows as it takes them, an array or in many files.
        out: the folder to make.
        called: what rows without names are called, in front of their number.
        form: '.csv' or '.jsonl', the ending of its files.
    """

    model: PrivateClassifier
    question: Question
    rows: AnyArray | ShardedRows
    out: Path
    called: str
    form: str = ".csv"

    def __call__(self, part: Part) -> None:
        """Write a part, unless it is there."""
        require_seen(self.out)
        file = self.out / f"part-{part.number:05d}{self.form}"
        if file.exists():
            return
        names = part.names or [f"{self.called}:{number}" for number in range(part.start, part.stop)]
        # Whole chunks, so that products of floats have the same shapes as in one go, and the same roundings.
        begin, end = part.start // CHUNK * CHUNK, -(-part.stop // CHUNK) * CHUNK
        within = slice(part.start - begin, part.stop - begin)
        found = self.question.answers(self.model, names, self.rows[begin:end], within).found
        with (
            atomic_files.kept_on_disk(self.out),
            atomic_files.written_whole(file, atomic_files.owner_only) as stream,
        ):
            stream.write(format_answers(found, self.form).encode())


def predict_in_shards(
    work: PredictPart,
    request: JsonObject,
    *,
    names: Sequence[str] | None = None,
    shard_rows: int | None = None,
    workers: Workers | None = None,
) -> int:
    """Write a folder of answers, part-00000.csv and so on; how many parts it has.

    Unfinished work is in `<out>.partial`, and the same call goes on with it. All of it is the owner's alone.

    Args:
        work: what answers which rows, and where to.
        request: which model and rows these are, JSON-ready: parts are taken up again for the same alone.
        names: what each row is called, if known.
        shard_rows: rows of a part; default `PART_ROWS`.
        workers: who works; default this process.
    """
    size, count = checks.whole("shard_rows", PART_ROWS if shard_rows is None else shard_rows), len(work.rows)
    wanted = {**request, **asdict(work.question), "called": work.called, "form": work.form}
    with claim(work.out):
        folder, _ = atomic_files.draft_folder(work.out, wanted | {"shard_rows": size}, restart=False)
        sent = replace(work, rows=_by_file(work.rows), out=folder.absolute())
        parts = [
            Part(number, start, min(start + size, count), names and names[start : start + size])
            for number, start in enumerate(range(0, count, size))
        ]
        for _ in (workers or ThisProcess()).each(sent, parts, "part"):
            pass
        atomic_files.place_draft(folder, work.out)
    return len(parts)


def _by_file(rows: AnyArray | ShardedRows) -> AnyArray | ShardedRows:
    """Mapped rows as their file, which others can open: sent to them, all would be read."""
    if isinstance(rows, np.memmap) and str(rows.filename).endswith(".npy") and rows.dtype.kind == "f":
        filed = ShardedRows([str(rows.filename)])
        if filed.shape == rows.shape:
            return filed
    return rows
