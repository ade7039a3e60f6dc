"""Ledger entries as frozen data: charges, outcomes, budget changes, and the hash chain that ties them.

Entry n carries HMAC-SHA256(key, hash of entry n-1 ‖ its canonical JSON); a sealed record of the count and the
last hash closes the chain, so a missing tail shows too.

What the chain detects: damage, and edits by someone who does not recompute it. What it cannot detect by
itself: the owner of the file rewriting everything (the key is inside, for the ledger defends the data against
its honest users, not against its owner), or an old copy put back between two runs. Against those, keep a
chain head (`Receipt.head`) elsewhere and pass it to `Ledger.verify(known_head=...)`.
"""

from __future__ import annotations

import hmac
import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property, lru_cache
from typing import ClassVar, NamedTuple, Protocol

from dptransfer._version import __version__
from dptransfer.accounting import Rule
from dptransfer.accounting.filters import RULES
from dptransfer.base import checks
from dptransfer.base.types import JsonObject
from dptransfer.errors import ArgumentError, LedgerTampered, UnknownCharge, UnknownEvent
from dptransfer.ledger.sketch import Sketch, opened_sketch
from dptransfer.privacy import Budget, Event, Guarantee, Unit, event_from_dict, event_to_dict


class Row(NamedTuple):
    """One entry as stored: its number from 1, its canonical JSON, its link in the chain."""

    number: int
    body: str
    hash: str


def link(key: bytes, previous: str, body: str) -> str:
    """The hash of an entry: HMAC-SHA256(key, previous hash ‖ body), in hexadecimal.

    >>> len(link(b"key", "", "body"))
    64
    """
    return hmac.digest(key, (previous + body).encode(), "sha256").hex()


def head_of(key: bytes, rows: Sequence[Row]) -> str:
    """Hash of the last entry; one of the key alone while there is none."""
    return rows[-1].hash if rows else link(key, "", "genesis")


def seal_tail(key: bytes, count: int, head: str) -> str:
    """The record that closes the chain: how many entries, the last hash, and a seal over both."""
    return f"{count}:{head}:{link(key, head, f'tail {count}')}"


def first_break(key: bytes, rows: Sequence[Row], tail: object, checked: int = 0) -> str | None:
    """Where the chain does not hold, in words; None when it does. `checked` rows are known to hold.

    >>> rows = [Row(1, "{}", link(b"key", head_of(b"key", []), "{}"))]
    >>> first_break(b"key", rows, seal_tail(b"key", 1, rows[0].hash)) is None
    True
    >>> first_break(b"key", [rows[0]._replace(body="{ }")], seal_tail(b"key", 1, rows[0].hash))
    'entry 1 does not follow from what is before it'
    """
    previous = head_of(key, rows[:checked])
    for expected, row in enumerate(rows[checked:], start=checked + 1):
        if row.number != expected:
            return f"entry {expected} is missing"
        if not (isinstance(row.body, str) and _same(link(key, previous, row.body), row.hash)):
            return f"entry {expected} does not follow from what is before it"
        previous = row.hash
    if not _same(seal_tail(key, len(rows), previous), tail):
        return f"its last record does not match the {len(rows)} entries found"
    return None


def _same(expected: str, found: object) -> bool:
    return isinstance(found, str) and hmac.compare_digest(expected.encode(), found.encode())


UNFINISHED = "spent, no result (interrupted or running)"
OUTCOMES = ("released", "failed")


class NamedData(Protocol):
    """What the ledger asks of a data set: `PrivateEmbeddings` and `PrivateImages` have it.

    `fingerprint` is only touched when `name` is None, because computing it reads the rows. One that also has
    `rows` or `pixels`, an array with an entry per example, is recognised under other names. One that has
    `require_content` is asked, before anything is charged, to raise where a fit would buy noise.
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
    """Fields of every entry: its number from 1, hash, time, user and data set; `kind` is what files call it.

    `user` is the name of the operating system's user whose process made it.
    """

    kind: ClassVar[str]
    number: int
    hash: str
    time: str
    version: str
    process: int
    user: str
    dataset: DataSet


@dataclass(frozen=True, kw_only=True)
class Charge(Entry):
    """One request: events that were fixed and paid for as a whole, before any of them ran.

    `steps` are its events as they are recorded; `events` are made of them when they are first asked for, and
    raise `UnknownCharge` where one is of a kind that is not installed. None mean that no private row was to
    be used. `rule` says in words how it was counted when it was granted. `cost` is what it promises by
    itself, and `total` what the account promised once it was granted, as stated then: ε, δ, relation and
    unit. `sketch` is that of the rows, and `sources` that of the files or texts behind them, where these were
    not on record under this data set before and the ledger's key is there; `apart_from` lists the ids of data
    sets that hold the same rows and that the owner said are other people's. `workspace` is the random number
    of the folder from which its run can go on. `coins` is the digest of the seed of its canaries
    (`privacy.witnesses`). `outcome` is None until the entry `closed_by` closes it.
    """

    kind: ClassVar[str] = "charge"
    label: str
    steps: tuple[JsonObject, ...] = field(hash=False)
    rule: str | None = None
    cost: JsonObject | None = field(default=None, hash=False)
    total: JsonObject | None = field(default=None, hash=False)
    sketch: Sketch | None = field(default=None, repr=False)
    sources: Sketch | None = field(default=None, repr=False)
    apart_from: tuple[str, ...] = ()
    workspace: str | None = None
    coins: str | None = None
    outcome: str | None = None
    detail: str = ""
    closed_by: int | None = None

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """What was fixed and paid for."""
        try:
            return _events(json.dumps(self.steps))
        except UnknownEvent as problem:
            raise UnknownCharge(
                "What is spent must be counted before more is granted; entry "
                f"{self.number} charged {self.dataset} for a step of the kind '{problem.kind}', which cannot "
                f"be read here. {problem}"
            ) from None
        except (LookupError, TypeError, ValueError, AttributeError) as problem:
            raise _unreadable(self.number, problem) from None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its steps, by the names on record, whether or not they are known here."""
        return tuple(dict.fromkeys(str(step.get("kind")) for step in self.steps))

    @property
    def status(self) -> str:
        """How it ended; a charge nobody closed has been spent all the same."""
        return self.outcome or UNFINISHED


@dataclass(frozen=True, kw_only=True)
class ClosingEntry(Entry):
    """Outcome of the charge with number `charge`; it gives nothing back."""

    kind: ClassVar[str] = "closing"
    charge: int
    outcome: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class BudgetChange(Entry):
    """A new budget from here on, its unit, and what the owner declared with it.

    That is the rule by which requests count, and a public bound on how many rows anybody has.
    """

    kind: ClassVar[str] = "budget"
    budget: Budget
    note: str
    rule: Rule | None = None
    unit: Unit = Unit.ROW
    most_rows_per_person: int | None = None


@dataclass(frozen=True, kw_only=True)
class Approval(Entry):
    """A person's word on a charge that is closed, such as that its release may leave.

    Attributes:
        charge: number of the charge.
        approver: who says so; `user` is whose process recorded it.
        note: what was decided, and why.
    """

    kind: ClassVar[str] = "approval"
    charge: int
    approver: str
    note: str


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
    unit: Unit | None = None
    most_rows_per_person: int | None = None


def event_fields(events: Sequence[Event]) -> list[JsonObject]:
    """The JSON of a charge's events; refuses what would not read back the same.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> event_fields([GaussianEvent(4.0, Relation.ADD_REMOVE)])[0]["noise_multiplier"]
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


def entry_fields(kind: str, dataset: DataSet, **fields: object) -> JsonObject:
    """The JSON of an entry, with time, library version and process; fields that are None are left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    made = {"time": datetime.now(UTC).isoformat(), "version": __version__}
    whose = {"dataset": dataset.id, "name": dataset.name, "process": os.getpid(), "user": _user()}
    return {**given, "kind": kind, **whose, **made}


def read_entries(rows: Iterable[Row], before: Sequence[Entry] = (), key: bytes | None = None) -> list[Entry]:
    """Entries from verified rows, each charge with its outcome; what cannot be read voids the ledger.

    Args:
        rows: as stored.
        before: the entries of the rows that come before these, read earlier.
        key: the ledger's secret; without it sketches stay closed, and are None.
    """
    entries = list(before)
    for row in rows:
        try:
            entry = _read(row, key)
            if isinstance(entry, ClosingEntry):
                entries[entry.charge - 1] = _closed(entries, entry)
        except (LookupError, TypeError, ValueError, AttributeError) as problem:
            raise _unreadable(row.number, problem) from None
        entries.append(entry)
    return entries


def require_readable(entries: Iterable[Entry]) -> None:
    """Raise unless the steps of every charge can be read, except those of kinds that are not installed."""
    for entry in entries:
        if isinstance(entry, Charge):
            with suppress(UnknownCharge):
                entry.events  # noqa: B018  # to read it is the check


def _unreadable(number: int, problem: Exception) -> LedgerTampered:
    return LedgerTampered(
        f"Every entry of a ledger must be readable; entry {number} is not: {problem}. "
        "Restore the file from a backup, and count what was spent since as spent."
    )


@lru_cache(maxsize=2**14)
def _events(text: str) -> tuple[Event, ...]:
    """The events of one charge; many charges have the same."""
    return tuple(event_from_dict(step) for step in json.loads(text))


def short_text(name: str, value: str) -> str:
    r"""A short printable text, composed (NFC) and trimmed: what is written down and shown.

    >>> short_text("name", "cafe\u0301 ") == short_text("name", "caf\u00e9")
    True
    """
    text = unicodedata.normalize("NFC", value).strip() if isinstance(value, str) else ""
    if not (0 < len(text) <= _LONGEST and text.isprintable()):
        raise ArgumentError(f"{name} must be 1 to {_LONGEST} printable characters; got {value!r}. Trim it.")
    return text


_LONGEST = 200


def _read(row: Row, key: bytes | None) -> Entry:
    fields: JsonObject = dict(json.loads(row.body))
    kind, name = fields.pop("kind"), fields.pop("name")
    if not isinstance(name, str | None):
        raise ValueError("its data set's name is no text")
    fields |= {"number": row.number, "hash": row.hash, "dataset": _data_set(fields["dataset"], name)}
    if kind == Charge.kind:
        steps = tuple(fields.pop("events"))
        if not all(isinstance(step, dict) and isinstance(step.get("kind"), str) for step in steps):
            raise ValueError("its steps are no events")
        rows, sources = (
            None if (text := fields.pop(name, None)) is None or key is None else opened_sketch(text, key)
            for name in ("sketch", "sources")
        )
        apart = tuple(str(one) for one in fields.pop("apart_from", ()))
        if fields.keys() & {"outcome", "detail", "closed_by"}:
            raise ValueError("it is closed by an entry of its own")
        return Charge(steps=steps, sketch=rows, sources=sources, apart_from=apart, **fields)
    if kind in (ClosingEntry.kind, Approval.kind):
        return ClosingEntry(**fields) if kind == ClosingEntry.kind else Approval(**fields)
    if kind == BudgetChange.kind:
        if fields.get("rule") not in (None, *RULES):
            raise ValueError(f"its rule {fields['rule']!r} is unknown")
        if "most_rows_per_person" in fields:
            checks.whole("most_rows_per_person", fields["most_rows_per_person"])
        budget, unit = Budget.from_dict(fields.pop("budget")), Unit(fields.pop("unit", Unit.ROW))
        return BudgetChange(budget=budget, unit=unit, **fields)
    raise ValueError(f"its kind {kind!r} is unknown")


@lru_cache(maxsize=2**12)
def _data_set(key: object, name: str | None) -> DataSet:
    """One object for each data set, however many entries name it."""
    return DataSet(str(key), name)


def _closed(entries: Sequence[Entry], closing: ClosingEntry) -> Charge:
    charge = entries[closing.charge - 1] if closing.charge > 0 else None
    if not isinstance(charge, Charge) or charge.outcome or charge.dataset != closing.dataset:
        raise ValueError(f"it closes entry {closing.charge}, which is not an open charge of its data set")
    closed = copy(charge)  # a third of the time of `replace`, and what was read of it stays
    vars(closed).update(outcome=closing.outcome, detail=closing.detail, closed_by=closing.number)
    return closed


@cache
def _user() -> str:
    """The operating system's name for whoever runs this process; its number where it has no name."""
    if sys.platform == "win32":  # pragma: no cover — Windows
        return os.environ.get("USERNAME", "unknown")
    import pwd

    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # as in a container
        return f"user {number}"
