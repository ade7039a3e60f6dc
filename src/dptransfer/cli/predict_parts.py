"""`dptransfer predict` in parts: answers about any number of inputs, in a folder of files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dptransfer.cli.screen import progress_bar, say
from dptransfer.encoding import held_in
from dptransfer.errors import ArgumentError
from dptransfer.progress import reported_to

if TYPE_CHECKING:
    from dptransfer.arrays import AnyArray
    from dptransfer.data import ShardedRows
    from dptransfer.release import PrivateClassifier
    from dptransfer.release.answers import Question
    from dptransfer.workers import Workers

FORMS = (".csv", ".json", ".jsonl", ".ndjson")
"""Endings of a file of answers."""


def one_pool(inputs: Sequence[Path], out: Path | None) -> tuple[Path, Path]:
    """What is to be predicted in parts, and the folder that they go to."""
    if len(inputs) > 1:
        raise ArgumentError(
            f"--shard-rows and --engine take one pool; got {len(inputs)} inputs. Predict each."
        )
    if out is None or out.suffix.lower() in FORMS:
        raise ArgumentError(
            "--shard-rows and --engine write a folder of parts; --out names none. Add --out answers/"
        )
    held_in(inputs[0]).stat()
    return inputs[0], out


@dataclass(frozen=True)
class Parts:
    """A folder of answers that is to be written.

    Attributes:
        model: where the release is.
        released: the release.
        question: what is asked of it.
        out: the folder.
        called: what inputs without names are called.
        form: ending of the parts.
        shard_rows: inputs of a part; None for the default.
        workers: who works.
    """

    model: Path
    released: PrivateClassifier
    question: Question
    out: Path
    called: str
    form: str
    shard_rows: int | None
    workers: Workers

    def write(self, rows: AnyArray | ShardedRows, names: Sequence[str] | None, files: Iterable[Path]) -> None:
        """Write it, or go on with what an earlier run has left, if rows in these files are the same."""
        from dptransfer.release.predicted_shards import predict_in_shards

        states = [[str(one), one.stat().st_size, one.stat().st_mtime_ns] for one in files if one.is_file()]
        digest = hashlib.sha256((self.model / "release.json").read_bytes()).hexdigest()
        with progress_bar("Predicting", count_is_private=True) as step, reported_to(step):
            parts = predict_in_shards(
                self.released,
                rows,
                self.out,
                question=self.question,
                request={"model": digest, "rows": states},
                called=self.called,
                names=names,
                form=self.form,
                shard_rows=self.shard_rows,
                workers=self.workers,
            )
        say(f"Written: {self.out}, {len(rows)} inputs in {parts} parts", err=True)
