"""Predictions for more rows than memory: a part of the rows is one task, and gives one file of answers.

A task is a function of the model and of its rows, and its file appears under its name whole or not at all.
So it may be done by anybody, and twice; what is there need not be done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dptransfer import _check
from dptransfer.arrays import AnyArray
from dptransfer.data.claim import claim
from dptransfer.data.drafts import draft_folder, kept_on_disk, place_draft, require_seen, written_whole
from dptransfer.data.owner_only import owner_only
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.release.answers import Question, written
from dptransfer.release.classifier import CHUNK, PrivateClassifier
from dptransfer.workers import Here, Workers

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
        rows: all rows, an array or in many files.
        called: what rows without names are called, in front of their number.
        folder: where the files go.
        form: their ending.
    """

    model: PrivateClassifier
    question: Question
    rows: AnyArray | ShardedRows
    called: str
    folder: Path
    form: str

    def __call__(self, part: Part) -> None:
        """Write a part, unless it is there."""
        require_seen(self.folder)
        file = self.folder / f"part-{part.number:05d}{self.form}"
        if file.exists():
            return
        names = part.names or [f"{self.called}:{number}" for number in range(part.start, part.stop)]
        # Whole chunks, so that products of floats have the same shapes as in one go, and the same roundings.
        begin, end = part.start // CHUNK * CHUNK, -(-part.stop // CHUNK) * CHUNK
        within = slice(part.start - begin, part.stop - begin)
        found = self.question.answers(self.model, names, self.rows[begin:end], within).found
        with kept_on_disk(self.folder), written_whole(file, owner_only) as stream:
            stream.write(written(found, self.form).encode())


def predict_in_shards(
    model: PrivateClassifier,
    rows: AnyArray | ShardedRows,
    out: Path,
    *,
    question: Question,
    request: dict[str, Any],
    called: str,
    names: Sequence[str] | None = None,
    form: str = ".csv",
    shard_rows: int | None = None,
    workers: Workers | None = None,
) -> int:
    """Write a folder of answers, part-00000.csv and so on; how many parts it has.

    Unfinished work is in `<out>.partial`, and the same call goes on with it. All of it is the owner's alone.

    Args:
        model: what answers.
        rows: rows as it takes them.
        out: the folder to make.
        question: what is asked.
        request: which model and rows these are, JSON-ready: parts are taken up again for the same alone.
        called: what rows without names are called.
        names: what each row is called, if known.
        form: '.csv' or '.jsonl'.
        shard_rows: rows of a part; default `PART_ROWS`.
        workers: who works; default this process.
    """
    size = _check.whole("shard_rows", PART_ROWS if shard_rows is None else shard_rows)
    wanted = {**request, **asdict(question), "called": called, "form": form, "shard_rows": size}
    with claim(out):
        folder, _ = draft_folder(out, wanted, restart=False)
        work = PredictPart(model, question, _by_file(rows), called, folder.absolute(), form)
        parts = [
            Part(number, start, min(start + size, len(rows)), names and names[start : start + size])
            for number, start in enumerate(range(0, len(rows), size))
        ]
        for _ in (workers or Here()).each(work, parts, "part"):
            pass
        place_draft(folder, out)
    return len(parts)


def _by_file(rows: AnyArray | ShardedRows) -> AnyArray | ShardedRows:
    """Mapped rows as their file, which others can open: sent to them, all would be read."""
    if isinstance(rows, np.memmap) and str(rows.filename).endswith(".npy") and rows.dtype.kind == "f":
        filed = ShardedRows([str(rows.filename)])
        if filed.shape == rows.shape:
            return filed
    return rows
