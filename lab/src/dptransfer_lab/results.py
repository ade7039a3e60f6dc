"""The results of a sweep: a file of records, appended safely, read as one frame with declared columns.

    OUT/results.jsonl       one record per line
    OUT/studies/NAME.json   what was asked for, resolved: see `dptransfer_lab.run`

One process writes, and holds a lock while it does. A line is one `write` followed by `fsync`, so that a kill
leaves whole lines and at most one torn one at the end, which the next writer cuts off and every reader skips.
A cell that has a result is never written again.

`COLUMNS` is the schema: what each column is called, where it stands in a record, and its type.

what            columns
the cell        cell, study, status ('done', 'refused' or 'failed'), message (why not done)
the task        data, encoder, pool (missing: none), shots, imbalance (0: sizes as they are), seed
its sizes       rows, classes, pool_rows, dimension, as they were found
sizes asked     asked_rows, asked_classes, asked_pool_rows, asked_dimension (missing: all there is)
the budget      flavour ('approximate', 'pure', 'zcdp', 'gdp'), epsilon or rho or mu, delta, relation
whom it is for  unit ('row', 'person', 'group'), person_bound (1 for rows), people (missing: not known)
the method      method, label, settings (canonical JSON, so that it can be grouped by)
marks           oracle_tuned, seeded, not_private
the promise     promised_epsilon, promised_delta, promised_rho, promised_mu, promised_relation
metrics         the names in METRICS; per_class (a list)
cost            the names in COST
made            version, date, host_cores, study_digest, data_fingerprint
extra           what the cell tells of itself beyond that (a dict)

What a cell does not have is missing: `frame[name].notna()` tells. Keep missing values when grouping:
`frame.groupby(GROUP, dropna=False, sort=False)` gives the seeds of each point.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.data.atomic_files import try_lock, write_whole
from dptransfer.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from dptransfer.base.types import JsonObject


Record = dict[str, Any]
FILE = "results.jsonl"
_LOCK = ".lock"


class RecordFile:
    """The only writer of a results folder; use it as a context.

    Attributes:
        folder: the results folder.
        finished: the status of every cell that has a result, by content address.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.finished: dict[str, str] = {}

    def __enter__(self) -> RecordFile:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / FILE
        with ExitStack() as opened:
            lock = opened.enter_context(open(self.folder / _LOCK, "a"))  # closing it gives it back
            if not try_lock(lock.fileno()):
                raise DataError(
                    f"One sweep at a time writes to a folder; another is at work in '{self.folder}'. "
                    "Wait for it, or pass another --out."
                )
            self._handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            opened.callback(os.close, self._handle)
            os.ftruncate(self._handle, file.read_bytes().rfind(b"\n") + 1)  # the rest is the trace of a kill
            self.finished = {record["cell"]: record["status"] for record in lines_of(file)}
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def append(self, record: Record) -> None:
        """Add one record; a cell that is done already is refused, a failed one may be tried again."""
        cell = record["cell"]
        if self.finished.get(cell, "failed") != "failed":
            raise DataError(
                f"A cell has one result; {cell[:12]} has one already. This is a mistake of the sweep's."
            )
        line = (canonical(record) + "\n").encode()
        if os.write(self._handle, line) != len(line):
            raise DataError(
                f"A record must be written whole; '{self.folder / FILE}' has no room. Free some space and "
                "run again: nothing is lost."
            )
        os.fsync(self._handle)
        self.finished[cell] = record["status"]


def lines_of(file: Path) -> Iterator[Record]:
    """The records of a file, in order, without a torn last one."""
    for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], 1):
        try:
            record = json.loads(line)
            record["cell"], record["status"]
        except (ValueError, KeyError, TypeError):
            raise DataError(
                f"Every line of '{file}' must be a record; line {number} is not. "
                "Somebody else changed the file: take that line out."
            ) from None
        yield record


def canonical(value: object) -> str:
    """JSON in one form for one value: sorted, without spaces; numbers JSON does not have are refused."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


STUDIES = "studies"
SIZES = ("rows", "classes", "pool_rows", "dimension")
METRICS = (
    "balanced_accuracy",
    "accuracy",
    "minority_accuracy",
    "worst_class",
    "macro_f1",
    "calibration_error",
    "attack_auc",
    "instance_loss",
    "instance_loss_spread",
)
"""The metrics that are one number."""
COST = ("fit_seconds", "cell_seconds", "overhead_seconds", "peak_mib")

COLUMNS: dict[str, tuple[str, str]] = {
    **{name: (name, "str") for name in ("cell", "study", "status", "message")},
    **{name: (name, "str") for name in ("data", "encoder", "pool", "method", "label", "settings")},
    **{name: (name, "Int64") for name in (*SIZES, "shots", "seed")},
    "imbalance": ("imbalance", "float64"),
    "unit": ("unit", "str"),
    "person_bound": ("person_bound", "float64"),
    "people": ("extra.people", "Int64"),
    **{f"asked_{name}": (f"extra.cut.{name}", "Int64") for name in SIZES},
    **{name: (f"budget.{name}", "float64") for name in ("epsilon", "delta", "rho", "mu")},
    **{name: (f"budget.{name}", "str") for name in ("flavour", "relation")},
    **{name: (f"marks.{name}", "bool") for name in ("oracle_tuned", "seeded", "not_private")},
    **{f"promised_{name}": (f"guarantee.{name}", "float64") for name in ("epsilon", "delta", "rho", "mu")},
    "promised_relation": ("guarantee.relation", "str"),
    **{name: (f"metrics.{name}", "float64") for name in METRICS},
    "per_class": ("metrics.per_class", "object"),
    **{name: (f"cost.{name}", "float64") for name in COST},
    **{name: (f"made.{name}", "str") for name in ("version", "date", "study_digest", "data_fingerprint")},
    "host_cores": ("made.host_cores", "Int64"),
    "extra": ("extra", "object"),
}
"""Column: its place in a record, names joined by dots, and its type in the frame."""
PLACE = [
    *("data", "encoder", "pool", "shots", "imbalance", *(f"asked_{name}" for name in SIZES)),
    *("flavour", "epsilon", "delta", "rho", "mu", "relation", "unit", "person_bound", "method", "label"),
]
"""Where a cell stands in its study, but for the seed."""
GROUP = [*PLACE, "settings"]
"""What cells share that differ in their seed only."""
_RESTORE = "Somebody else changed the file: restore it, or run the study into a new folder."
_MAY_LACK = ("extra.", "guarantee.", "metrics.", "cost.")  # a refused cell has no promise


def read_results(folder: str | Path, study: str | None = None) -> pd.DataFrame:
    """Every cell of a results folder, one row each, in the order they were made.

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
    by_cell = {record["cell"]: record for record in lines_of(file)}  # a retried cell: the last word counts
    frame = frame_of(list(by_cell.values()))
    if study is None:
        return frame
    asked: Mapping[str, JsonObject] = read_study(folder, study)["cells"]
    own = frame[frame["cell"].isin(list(asked))].reset_index(drop=True)
    return own.assign(
        study=study,
        label=[asked[cell]["label"] for cell in own["cell"]],
        oracle_tuned=[asked[cell]["oracle_tuned"] for cell in own["cell"]],
    ).astype({name: COLUMNS[name][1] for name in ("study", "label", "oracle_tuned")})


def frame_of(records: Sequence[Record]) -> pd.DataFrame:
    """Records as a frame with the columns of `COLUMNS`."""
    import pandas as pd

    columns = {}
    for name, (place, kind) in COLUMNS.items():
        values = [_at(record, place) for record in records]
        if name == "settings":
            values = [canonical(value) for value in values]
        try:
            columns[name] = pd.Series(values, dtype=kind)
        except (TypeError, ValueError):
            raise DataError(f"'{place}' of a record must be {kind}; in one it is not. {_RESTORE}") from None
    return pd.DataFrame(columns)


def _at(record: Record, place: str) -> object:
    found: object = record
    for name in place.split("."):
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif place.startswith(_MAY_LACK):
            return None
        else:
            raise DataError(f"A record must have '{place}'; one has not. {_RESTORE}")
    return found


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


def write_study(folder: Path, study: str, whole: JsonObject) -> None:
    """Keep what was asked for next to the results, whole or not at all."""
    text = json.dumps(whole, ensure_ascii=False, indent=1) + "\n"
    write_whole(folder / STUDIES / f"{study}.json", text.encode(), overwrite=True)


def export_tables(frame: pd.DataFrame, folder: str | Path) -> None:
    """Write the frame as `.csv` and `.parquet` for other tools; columns are named by places in records."""
    table = frame.drop(columns=[f"asked_{name}" for name in SIZES])
    for name in ("per_class", "extra"):
        table[name] = table[name].map(canonical)
    table = table.rename(columns={name: place for name, (place, _) in COLUMNS.items()})
    table.to_csv(Path(folder) / "results.csv", index=False)
    table.to_parquet(Path(folder) / "results.parquet", index=False)
