"""The results of a sweep: one JSON object per line, only ever appended, safe against a kill at any moment.

One process writes, and holds a lock while it does. A line is one `write` followed by `fsync`, so that a kill
leaves whole lines and at most one torn one at the end, which the next writer cuts off and every reader skips.
A cell that has a result is never written again.

    OUT/results.jsonl       the records
    OUT/studies/NAME.json   what was asked for, resolved: see `dptransfer_lab.run`
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dptransfer.errors import DataError, MissingDependency

Record = dict[str, Any]
FILE = "results.jsonl"
STUDIES = "studies"
_LOCK = ".lock"


class ResultsWriter:
    """The only writer of a results folder; use it as a context.

    Attributes:
        finished: the status of every cell that has a result, by content address.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.finished: dict[str, str] = {}
        self._lock: int | None = None
        self._file: int | None = None

    def __enter__(self) -> ResultsWriter:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.folder / _LOCK)
        file = self.folder / FILE
        cut_torn_line(file)
        for record in _lines(file):
            self.finished[record["cell"]] = record["status"]
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        return self

    def __exit__(self, *_: object) -> None:
        for handle in (self._file, self._lock):
            if handle is not None:
                os.close(handle)  # closing the lock's file gives the lock back
        self._file = self._lock = None

    def append(self, record: Record) -> None:
        """Add one record; a cell that is done already is refused, a failed one may be tried again."""
        assert self._file is not None, "open the results first"
        cell, status = record["cell"], record["status"]
        if self.finished.get(cell, "failed") != "failed":
            raise DataError(
                f"A cell has one result; {cell[:12]} has one already. This is a mistake of the sweep's."
            )
        line = (canonical(record) + "\n").encode()
        if os.write(self._file, line) != len(line):
            raise DataError(
                f"A record must be written whole; '{self.folder / FILE}' has no room. Free some space and "
                "run again: nothing is lost."
            )
        os.fsync(self._file)
        self.finished[cell] = status


def read_records(folder: str | Path, study: str | None = None) -> list[Record]:
    """Every record of a results folder, one per cell, in the order they were made.

    With `study`, those of its cells alone, under its own name and labels, also where another study in the
    same folder had made them first. Without, everything.

    Args:
        folder: a results folder, or the folder a sweep was told to write to.
        study: the name of a study that was run there.
    """
    file = Path(folder) / FILE
    if not file.is_file():
        raise DataError(
            f"A results folder holds {FILE}; '{folder}' has none. Make one with: dptransfer bench run"
        )
    by_cell = {record["cell"]: record for record in _lines(file)}  # a retried cell: the last word counts
    if study is None:
        return list(by_cell.values())
    asked: Mapping[str, Mapping[str, Any]] = read_study(folder, study)["cells"]
    return [
        {
            **record,
            "study": study,
            "label": asked[cell]["label"],
            "marks": {**record["marks"], "oracle_tuned": asked[cell]["oracle_tuned"]},
        }
        for cell, record in by_cell.items()
        if cell in asked
    ]


def studies_of(folder: str | Path) -> list[str]:
    """The names of the studies that were run into this folder."""
    return sorted(file.stem for file in (Path(folder) / STUDIES).glob("*.json"))


def read_study(folder: str | Path, study: str) -> dict[str, Any]:
    """What was asked for: the resolved study, its digest, and its cells."""
    file = Path(folder) / STUDIES / f"{study}.json"
    try:
        whole: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = ", ".join(studies_of(folder)) or "none"
        raise DataError(f"'{folder}' must hold the study '{study}'; it holds {known}.") from None
    return whole


def write_study(folder: Path, study: str, whole: Mapping[str, Any]) -> None:
    """Keep what was asked for next to the results, whole or not at all."""
    file = folder / STUDIES / f"{study}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.write_text(json.dumps(whole, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    partial.replace(file)


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as one row of a table: nested names are joined by dots, lists become JSON.

    >>> flat({"seed": 1, "metrics": {"accuracy": 0.5, "per_class": [1, 0]}})
    {'seed': 1, 'metrics.accuracy': 0.5, 'metrics.per_class': '[1,0]'}
    """
    row: dict[str, Any] = {}
    for name, value in record.items():
        if name in ("settings", "extra"):
            row[name] = canonical(value)
        elif isinstance(value, Mapping):
            row |= {f"{name}.{inner}": item for inner, item in flat(value).items()}
        else:
            row[name] = canonical(value) if isinstance(value, list) else value
    return row


def export_table(records: Sequence[Mapping[str, Any]], file: str | Path) -> Path:
    """Write the records as a table, `.csv` or `.parquet`, one row per cell."""
    path = Path(file)
    rows = [flat(record) for record in records]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if path.suffix == ".csv":
        import csv

        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, columns)
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".parquet":
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingDependency("pyarrow", "bench", "A table in Parquet") from None
        table = {name: [row.get(name) for row in rows] for name in columns}
        pyarrow.parquet.write_table(pyarrow.table(table), path)
    else:
        raise DataError(f"A table's name must end in .csv or .parquet; got '{path.name}'.")
    return path


def canonical(value: Any) -> str:
    """JSON in one form for one value: sorted, without spaces; numbers JSON does not have are refused."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def cut_torn_line(file: Path) -> None:
    """Cut off what follows the last line end: the trace of a write that a kill interrupted."""
    if not file.is_file():
        return
    with file.open("rb+") as stream:
        size = end = stream.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - 65_536)
            stream.seek(start)
            found = stream.read(end - start).rfind(b"\n")
            end = start + found + 1 if found >= 0 else start
            if found >= 0:
                break
        if end < size:
            stream.truncate(end)
            os.fsync(stream.fileno())


def _lines(file: Path) -> Iterator[Record]:
    if not file.is_file():
        return
    yield from _parsed(file, file.read_bytes().split(b"\n")[:-1])  # what follows the last line end is torn


def _parsed(file: Path, lines: Iterable[bytes]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            record["cell"], record["status"]
        except (ValueError, KeyError, TypeError):
            raise DataError(
                f"Every line of '{file}' must be a record; line {number} is not. "
                "Somebody else changed the file: take that line out."
            ) from None
        yield record


def _locked(file: Path) -> int:
    """An open handle that no other process has at the same time; the system frees it when we end."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            import fcntl
        except ImportError:  # Windows
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise DataError(
            f"One sweep at a time writes to a folder; another is at work in '{file.parent}'. "
            "Wait for it, or pass another --out."
        ) from None
    return handle
