"""What a ledger records, as plain frozen data: charges, their outcomes, and changes of a budget."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib import metadata
from typing import Any, Protocol

from dptransfer import _check
from dptransfer.accounting import Rule
from dptransfer.accounting.requests import RULES
from dptransfer.errors import ArgumentError, LedgerTampered
from dptransfer.ledger.chain import Row
from dptransfer.ledger.sketch import Sketch
from dptransfer.privacy import Budget, Event, Guarantee, Unit, event_from_dict, event_to_dict

UNFINISHED = "spent, no result (interrupted or running)"
OUTCOMES = ("released", "failed")


class Named(Protocol):
    """What the ledger asks of a data set: `PrivateEmbeddings` and `PrivateImages` have it.

    `fingerprint` is only touched when `name` is None, because computing it reads the rows. One that also has
    `rows` or `pixels`, an array with an entry per example, is recognised under other names.
    """

    @property
    def name(self) -> str | None:
        """What the owner calls every version of this data set."""

    @property
    def fingerprint(self) -> str:
        """A digest of the content."""


@dataclass(frozen=True)
class DataSet:
    """A data set as one ledger knows it; the id is keyed, so it says nothing outside that ledger.

    >>> print(DataSet("3fa9" * 16, "clinic-a"), DataSet("3fa9" * 16), sep=" and ")
    'clinic-a' and data set 3fa93fa93fa9
    """

    id: str
    name: str | None = None

    @property
    def short(self) -> str:
        """Enough of the id to address the data set by."""
        return self.id[:12]

    def __str__(self) -> str:
        return f"data set {self.short}" if self.name is None else f"'{self.name}'"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What every entry has: its number from 1, its hash, when and by which process it was made, on what."""

    number: int
    hash: str
    time: str
    version: str
    process: int
    dataset: DataSet


@dataclass(frozen=True, kw_only=True)
class Charge(Entry):
    """One request: events that were fixed and paid for as a whole, before any of them ran.

    No events mean that no private row was to be used. `rule` says in words how it was counted when it was
    granted, and is None in ledgers of the first version. `sketch` is that of the rows, where they were not on
    record under this data set before; `apart_from` lists the ids of data sets that hold the same rows and
    that the owner said are other people's. `workspace` is the random number of the folder from which its run
    can go on, where it has one. `outcome` is None until the charge is closed.
    """

    label: str
    events: tuple[Event, ...]
    rule: str | None = None
    sketch: Sketch | None = field(default=None, repr=False)
    apart_from: tuple[str, ...] = ()
    workspace: str | None = None
    outcome: str | None = None
    detail: str = ""

    @property
    def status(self) -> str:
        """How it ended; a charge nobody closed has been spent all the same."""
        return self.outcome or UNFINISHED


@dataclass(frozen=True, kw_only=True)
class Closing(Entry):
    """How the charge with number `charge` ended; it gives nothing back."""

    charge: int
    outcome: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class BudgetChange(Entry):
    """The owner's limit from here on, what it is for one of, and what was declared with it.

    That is the rule by which requests count, and a public bound on how many rows anybody has.
    """

    budget: Budget
    note: str
    rule: Rule | None = None
    unit: Unit = Unit.ROW
    most_rows_per_person: int | None = None


@dataclass(frozen=True)
class Receipt:
    """Proof of a charge.

    Attributes:
        entry: number of the charge in the ledger.
        head: chain head right after it, in hexadecimal; kept elsewhere, it pins everything up to here.
        dataset: the data set's keyed id; belongs to the owner, not in a release.
        label: what it was for.
        time: when, UTC, ISO 8601.
        finished: whether its run has ended already, as one that is started again from a workspace may have.
    """

    entry: int
    head: str
    dataset: str
    label: str
    time: str
    finished: bool = False


@dataclass(frozen=True)
class DatasetSummary:
    """One data set's account in a line.

    Attributes:
        dataset: its id and name.
        charges: how many times it was charged.
        unfinished: how many of those have no outcome on record.
        spent: what all charges together promise; None before the first.
        budget: the limit in force; None when everything is recorded and nothing refused.
        rule: how the charges are counted together, in words; None before the first.
        sentence: what is spent of what is allowed, in words.
        merged: other spellings of its name that an older ledger kept as accounts of their own.
        unit: what the loss is counted for one of; None before the first charge or limit.
        most_rows_per_person: the owner's public bound on how many rows anybody has, if one was declared.
    """

    dataset: DataSet
    charges: int
    unfinished: int
    spent: Guarantee | None
    budget: Budget | None
    rule: str | None
    sentence: str
    merged: tuple[str, ...] = ()
    unit: Unit | None = None
    most_rows_per_person: int | None = None


def written(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The JSON of a charge's events; refuses what would not read back the same.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> written([GaussianEvent(4.0, Relation.ADD_REMOVE)])[0]["noise_multiplier"]
    4.0
    """
    found = []
    for event in events:
        if not isinstance(event, Event):
            raise ArgumentError(f"events must hold privacy events; got {type(event).__name__}.")
        fields = event_to_dict(event)
        try:
            stays = event_from_dict(json.loads(json.dumps(fields))) == event
        except (TypeError, ValueError):
            stays = False
        if not stays:
            raise ArgumentError(f"A {event.kind} event must hold plain numbers and words; got {event!r}.")
        found.append(fields)
    return found


def stamped(kind: str, dataset: DataSet, **fields: Any) -> dict[str, Any]:
    """The JSON of an entry, with time, library version and process; fields that are None are left out."""
    return {
        **{name: value for name, value in fields.items() if value is not None},
        "kind": kind,
        "dataset": dataset.id,
        "name": dataset.name,
        "time": datetime.now(UTC).isoformat(),
        "version": _version(),
        "process": os.getpid(),
    }


def read_entries(rows: Iterable[Row]) -> list[Entry]:
    """Entries from verified rows, each charge with its outcome; what cannot be read voids the ledger."""
    entries: list[Entry] = []
    for row in rows:
        try:
            entry = _read(row)
            if isinstance(entry, Closing):
                entries[entry.charge - 1] = _closed(entries, entry)
        except (LookupError, TypeError, ValueError, AttributeError) as problem:
            raise LedgerTampered(
                f"Every entry of a ledger must be readable; entry {row.number} is not: {problem}. "
                "Restore the file from a backup, and count what was spent since as spent."
            ) from None
        entries.append(entry)
    return entries


def words(name: str, value: str) -> str:
    r"""A short printable text, composed (NFC) and trimmed: what is written down and shown.

    >>> words("name", "cafe\u0301 ") == words("name", "caf\u00e9")
    True
    """
    text = unicodedata.normalize("NFC", value).strip() if isinstance(value, str) else ""
    if not (0 < len(text) <= _LONGEST and text.isprintable()):
        raise ArgumentError(
            f"{name} must be 1 to {_LONGEST} printable characters; got {value!r}. Choose a short word."
        )
    return text


_LONGEST = 200


@lru_cache(maxsize=10_000)
def _read(row: Row) -> Entry:
    """One entry; entries never change, so a process reads each of them once."""
    fields = dict(json.loads(row.body))
    kind, name = fields.pop("kind"), fields.pop("name")
    if not isinstance(name, str | None):
        raise ValueError("its data set's name is no text")
    shared: dict[str, Any] = {
        "number": row.number,
        "hash": row.hash,
        "dataset": DataSet(str(fields.pop("dataset")), name),
        **{key: fields.pop(key) for key in ("time", "version", "process")},
    }
    if kind == "charge":
        events = tuple(event_from_dict(event) for event in fields.pop("events"))
        sketch = fields.pop("sketch", None)
        rows = None if sketch is None else Sketch.from_text(sketch)
        apart = tuple(str(one) for one in fields.pop("apart_from", ()))
        if not {"label"} <= set(fields) <= {"label", "rule", "workspace"}:
            raise ValueError("it is not a list of events with a label")
        return Charge(**shared, events=events, sketch=rows, apart_from=apart, **fields)
    if kind == "closing":
        return Closing(**shared, **fields)
    if kind == "budget":
        if fields.get("rule") not in (None, *RULES):
            raise ValueError(f"its rule {fields['rule']!r} is unknown")
        if "most_rows_per_person" in fields:
            _check.whole("most_rows_per_person", fields["most_rows_per_person"])
        budget, unit = Budget.from_dict(fields.pop("budget")), Unit(fields.pop("unit", Unit.ROW))
        return BudgetChange(**shared, budget=budget, unit=unit, **fields)
    raise ValueError(f"its kind {kind!r} is unknown")


def _closed(entries: Sequence[Entry], closing: Closing) -> Charge:
    charge = entries[closing.charge - 1] if closing.charge > 0 else None
    if not isinstance(charge, Charge) or charge.outcome or charge.dataset != closing.dataset:
        raise ValueError(f"it closes entry {closing.charge}, which is not an open charge of its data set")
    return replace(charge, outcome=closing.outcome, detail=closing.detail)


@cache
def _version() -> str:
    try:
        return metadata.version("dptransfer")
    except metadata.PackageNotFoundError:
        return "unknown"
