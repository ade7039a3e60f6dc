"""The ledger: record what is spent on each data set, and refuse what its budget does not cover."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import platformdirs
from numpy.typing import NDArray

from dptransfer.accounting import warn_if_weak
from dptransfer.accounting.filters import RULES
from dptransfer.base import checks
from dptransfer.base.document import Document, Paragraph, Section, Table
from dptransfer.base.document_html import escape_html
from dptransfer.base.types import JsonObject
from dptransfer.errors import ArgumentError, DPTransferError, LedgerError, LedgerTampered
from dptransfer.ledger import entry as records
from dptransfer.ledger.account import Account
from dptransfer.ledger.entry import Charge, DataSet, DatasetSummary, Entry, Receipt, Row
from dptransfer.ledger.overlap import OverlapCheck, rows_of, sketches_of, source_sketch, sources_of
from dptransfer.ledger.register import AnyDataSet, Register, identity_of, rows_on_record
from dptransfer.ledger.sketch import sealed_sketch
from dptransfer.ledger.store import Chain, Store
from dptransfer.privacy import Budget, Event, Guarantee, Relation, Unit

_MOST = 20  # data sets that a notebook lists before the rest is counted


class Ledger:
    """An append-only record of charges and budgets, shared by all processes that use the same file.

    A data set with a name is filed under the name, whatever its content and however it is spelled (case and
    compatibility forms make no difference); one without is filed under a digest of its content. Rows that
    have an account already are refused under another, unless the owner says that they are other people's. A
    data set without a budget is recorded, and no amount is refused. An account counts for one unit, an
    example or a person; charges about the other are restated, or refused where that cannot be done.

    >>> from dptransfer.privacy import SelectionEvent
    >>> ledger = Ledger.in_memory()
    >>> ledger.set_budget("clinic-a", Budget(epsilon=1.0))
    >>> step = SelectionEvent(0.8, Relation.ADD_REMOVE, True, "exponential")
    >>> receipt = ledger.charge("clinic-a", [step], label="PublicPrototypes")
    >>> ledger.complete(receipt, "released")
    >>> print(ledger.datasets()[0].sentence)
    epsilon 0.8 (add/remove) is spent; the budget is epsilon = 1, add/remove
    >>> ledger.charge("clinic-a", [step], label="PublicPrototypes")
    Traceback (most recent call last):
    ...
    dptransfer.errors.BudgetExceeded: This release would bring 'clinic-a' to epsilon 1.6 (add/remove), \
by the sum of epsilon, above its budget of epsilon 1; epsilon 0.8 is spent already. Lower the request, or \
ask the data owner to raise the budget with: dptransfer ledger budget clinic-a --epsilon 1.6 --delta 0

    Args:
        path: the file; made, readable by its owner only, when there is none, which is logged as a warning.
        strict_names: let names alone decide. Rows are not compared before the charge, and rows that are on
            record under another name are not recognised, then or later.
    """

    def __init__(self, path: str | os.PathLike[str], *, strict_names: bool = False) -> None:
        self._open(Store(Path(path)), strict_names)

    def _open(self, store: Store, strict_names: bool) -> None:
        self._store, self._strict_names = store, strict_names
        self._read: tuple[bytes | None, list[Row], list[Entry]] = (None, [], [])

    @classmethod
    def in_memory(cls, *, strict_names: bool = False) -> Ledger:
        """A ledger that lasts as long as the object: for tests, and for budgets within one process."""
        ledger = cls.__new__(cls)
        ledger._open(Store(None), strict_names)
        return ledger

    @classmethod
    def default(cls, *, strict_names: bool = False) -> Ledger:
        """The user's ledger, at `default_path()`."""
        return cls(cls.default_path(), strict_names=strict_names)

    @classmethod
    def default_if_there(cls) -> Ledger | None:
        """The user's ledger; None where there is no such file, which is not made."""
        return cls.default() if cls.default_path().is_file() else None

    @staticmethod
    def default_path() -> Path:
        """The file named by DPTRANSFER_LEDGER, or one in the user's data folder."""
        named = os.environ.get("DPTRANSFER_LEDGER")
        return Path(named) if named else platformdirs.user_data_path("dptransfer") / "ledger.sqlite"

    @property
    def is_new(self) -> bool:
        """Whether there was no file, so that opening this ledger made it."""
        return self._store.is_new

    @property
    def path(self) -> Path | None:
        """The file; None in memory."""
        return self._store.path

    @property
    def head(self) -> str:
        """The chain head in hexadecimal; it pins all entries so far."""
        with self._store.transaction() as chain:
            return chain.head

    def __repr__(self) -> str:
        return "Ledger.in_memory()" if self.path is None else f"Ledger({str(self.path)!r})"

    def _repr_html_(self) -> str:
        try:
            found = self.datasets()
        except DPTransferError as problem:  # a notebook shows what is wrong, and goes on
            return f"<p>{escape_html(problem)}</p>"
        rows = [(one.dataset.name or one.dataset.short, str(one.charges), one.sentence) for one in found]
        more = f"The first {_MOST} of {len(rows)}." if len(rows) > _MOST else ""
        listed = Table(("Data set", "Charges", "Account"), tuple(rows[:_MOST]), more, "lr")
        shown = (listed if rows else Paragraph("Nothing is on record yet."),)
        return Document(
            f"Ledger {self.path or 'in memory'}", sections=(Section("Data sets", shown),)
        ).fragment()

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: object) -> Ledger:
        return self  # a second copy of an account could be spent a second time

    def __reduce__(self) -> tuple[partial[Ledger], tuple[str]]:
        """Another process opens the same file; an in-memory ledger stays where it is."""
        if self.path is None:
            raise LedgerError(
                "An in-memory ledger stays in its process, and is not pickled. Use a file, Ledger(path)."
            )
        return partial(Ledger, strict_names=self._strict_names), (str(self.path),)

    def charge(
        self,
        dataset: AnyDataSet,
        events: Sequence[Event],
        *,
        label: str,
        new_data_set: bool = False,
        workspace: str | None = None,
        beside: object = None,
        coins: str | None = None,
    ) -> Receipt:
        """Record that `events` are about to run on `dataset`, or refuse; call it before they do.

        Verification, check and record are one transaction, so processes that charge at once cannot overspend
        together. When this raises, nothing is on record and nothing may be read. Once it returns, the charge
        is on disk and spent, whatever happens next.

        Args:
            dataset: what will be read. If it has rows they are sketched first, to tell whether they are on
                record under another name; not under `strict_names`, nor where nothing is spent, unless there
                are public data to compare them with. One without a name has its content digested.
            events: what will run, under any relation that can be stated under the budget's.
            label: what it is for, such as the name of the method.
            new_data_set: the owner's word that rows on record elsewhere are other people's here. It is
                recorded, and not asked for again between the same data sets.
            workspace: random number of a run that goes on where it was interrupted. If it was charged for
                already, that charge is returned and nothing is added.
            beside: public data, with the shots at their side, that go into the same run. They must not have
                rows or sources of `dataset`, nor of any data set on record; the latter not under
                `strict_names`, and of other data sets not under `new_data_set`.
            coins: digest of the seed of the run's canaries, which is on record before anything is drawn.

        Raises:
            PrivateOverlap: public data are private. For the owner only.
            BudgetExceeded: past and new events together do not fit the budget.
            RowsOnRecord: another data set holds these rows, or a good part of them. For the owner only.
            RelationMismatch: a replace-one event meets an add/remove budget, or an event cannot be restated
                for the unit of the account.
            LedgerTampered: the chain does not hold.
            LedgerError: the file cannot be used.
        """
        if workspace is not None and not re.fullmatch("[0-9a-f]{32,}", workspace):
            raise ArgumentError(
                f"workspace must be a random number of 32 hexadecimal digits or more; got {workspace!r}."
            )
        events, label = tuple(events), records.short_text("label", label)
        steps = records.event_fields(events)
        key = self._store.key  # without it nothing is charged
        identity = identity_of(dataset)
        with self._store.transaction(recheck=False) as chain:  # prices take a while; nobody waits for them
            register = Register(key, self._entries(chain))
            account = register.account(identity)
            paid = register.charge_in_workspace(workspace)
            if paid is not None:
                if (paid.dataset, paid.label, paid.events) != (account.dataset, label, events):
                    raise LedgerError(
                        "A resumed run must have the steps and the data set that it was charged for; entry "
                        f"{paid.number} of {self._store} is for others. Use another workspace."
                    )
                done = paid.outcome is not None
                return Receipt(paid.number, paid.hash, paid.dataset.id, label, paid.time, done)
            rule, cost, settled = account.require_room(events), account.stated_cost(events), account
        if events and hasattr(dataset, "require_content"):
            dataset.require_content()
        # This may take a while, so it happens outside of any transaction.
        is_recorded, sketch, sources = bool(events) and not self._strict_names, None, None
        rows = rows_of(dataset) if is_recorded or beside is not None else None
        data = OverlapCheck([beside], key, rows)
        if data or is_recorded:
            found = sketches_of(rows, sources_of(dataset), key, data)
            sketch, sources = found if is_recorded else (None, None)
        with self._store.transaction(write=True) as chain:
            register = Register(key, self._entries(chain))
            account = register.account(identity)
            if account != settled:  # others may have charged it, or changed its limit, meanwhile
                rule, cost = account.require_room(events), account.stated_cost(events)
            if data and not self._strict_names:
                register.require_none_private(data, account.dataset, new_data_set)
            holders = register.holders(sketch, sources, account.dataset)
            if holders and not new_data_set:
                raise rows_on_record(holders)
            known = {one for charge in account.charges for one in (charge.sketch, charge.sources)}
            new = {"sketch": sketch, "sources": sources}
            told = {"label": label, "events": steps, "rule": rule, "workspace": workspace, **cost}
            told |= {"apart_from": [one.id for one in holders] or None, "coins": coins}
            told |= {name: sealed_sketch(one, key) for name, one in new.items() if one and one not in known}
            fields = records.entry_fields("charge", account.dataset, **told)
            row = chain.append(fields)
        return Receipt(row.number, row.hash, account.dataset.id, label, fields["time"])

    def require_room(self, dataset: AnyDataSet, events: Sequence[Event]) -> JsonObject:
        """Raise BudgetExceeded where a charge would; nothing is recorded, and the charge asks again.

        For data sets that are addressed by name: without one the content has to be there. Returns the fields
        `cost` and `total` that the charge would have, and as `before` the account now, in words.
        """
        account = self._read_register(recheck=False).account(identity_of(dataset))
        account.require_room(tuple(events))
        return {"before": account.summary().sentence, **account.stated_cost(tuple(events))}

    def require_new_sources(
        self, digests: NDArray[np.uint64] | None, name: str | None, *, new_data_set: bool = False
    ) -> None:
        """Raise RowsOnRecord where a charge would, by the files or texts that are still to be encoded.

        Nothing is recorded, and the charge asks again. Without a name the account is only known by the rows:
        then this asks the accounts that have a name, for none of them would be the one that is charged.

        Args:
            digests: of the files or texts; None asks nothing.
            name: of the data set that would be charged.
            new_data_set: the owner's word that examples on record are other people's.
        """
        if digests is None or new_data_set or self._strict_names:
            return
        sketch = source_sketch(digests, self._store.key)
        register = self._read_register(recheck=False)
        own = _own(register, name) or DataSet("", None)
        holders = [one for one in register.holders(None, sketch, own) if name or one.name]
        if holders:
            raise rows_on_record(holders)

    def complete(
        self, receipt: Receipt, outcome: Literal["released", "failed"] = "released", detail: str = ""
    ) -> None:
        """Record how a charge ended. A failed run gives nothing back: rows may have been read."""
        checks.one_of("outcome", outcome, records.OUTCOMES)
        with self._store.transaction(write=True, recheck=False) as chain:
            entries = self._entries(chain)
            charge = entries[receipt.entry - 1] if 0 < receipt.entry <= len(entries) else None
            if not isinstance(charge, Charge) or charge.hash != receipt.head:
                raise LedgerError(
                    f"A receipt is of its own ledger; entry {receipt.entry} of {self._store} is another."
                )
            if charge.outcome is not None:
                raise LedgerError(
                    f"A charge is closed once; entry {receipt.entry} is '{charge.outcome}'. Charge again."
                )
            closing = {"charge": charge.number, "outcome": outcome, "detail": str(detail)}
            chain.append(records.entry_fields("closing", charge.dataset, **closing))

    def approve(self, head: str | None, approver: str, note: str) -> None:
        """Record that a person approved what came of a charge.

        Args:
            head: chain head of the charge, which a release names as its `ledger_head`.
            approver: who approves.
            note: what was decided, and why.

        Raises:
            LedgerError: there is no such charge, or it did not end with a release.
        """
        given = {"approver": approver, "note": note}
        words = {name: records.short_text(name, word) for name, word in given.items()}
        with self._store.transaction(write=True) as chain:
            charge = Register(self._store.key, self._entries(chain)).charge_of(head)
            if charge is None or charge.outcome != "released":
                raise LedgerError(
                    f"What came of a charge is approved; {str(head)[:12]} names none in {self._store} that "
                    "ended with a release. Give the release that was made under this ledger."
                )
            chain.append(records.entry_fields("approval", charge.dataset, charge=charge.number, **words))

    def set_budget(
        self,
        dataset: AnyDataSet,
        budget: Budget,
        *,
        note: str = "",
        rule: str | None = None,
        unit: Unit | None = None,
        most_rows_per_person: int | None = None,
    ) -> None:
        """Set the budget of a data set from here on; the change itself is recorded.

        A limit that promises nothing is refused, one that promises little brings a `PrivacyWarning`. One
        below what is spent already is allowed and means that nothing more is granted. A string is
        a name, also one that was never charged, or the short id of a data set on record without one.

        Args:
            dataset: whose limit it is.
            budget: the limit. Set it before the first charge: a limit that is set, or raised, after answers
                were seen is a promise about what is released from then on.
            note: why, for the record; required where a limit was charged against and is changed.
            rule: how requests that depend on earlier answers are counted against a budget in ε and δ,
                'gaussian' or 'renyi' (`accounting.filters`); without one the first charge settles it.
            unit: what it limits the loss of: an example, or a person with all their examples. By default
                what the account counts for already, and an example in a new one. Charges about the other
                unit are restated.
            most_rows_per_person: a public promise that nobody has more rows than that. With it, charges about
                examples count in an account of persons: as a group of so many. It stays until another is
                declared.

        Raises:
            RelationMismatch: the charges on record cannot be restated for that unit.
        """
        for name, value, kind in (("budget", budget, Budget), ("unit", unit or Unit.ROW, Unit)):
            if not isinstance(value, kind):
                raise ArgumentError(f"{name} must be a {kind.__name__}; got {type(value).__name__}.")
        most = checks.or_none(checks.whole)("most_rows_per_person", most_rows_per_person)
        warn_if_weak(budget, stacklevel=2)
        if rule is not None:
            checks.one_of("rule", rule, RULES)
        key = self._store.key  # names that are new get an id by it
        identity = identity_of(dataset)
        with self._store.transaction(write=True) as chain:
            account = Register(key, self._entries(chain)).account(identity)
            if account.charges and account.budget not in (None, budget) and not note:
                raise ArgumentError("A limit with charges is changed for a reason. Say why (--note, note=).")
            if rule is not None:
                account.require_rule(rule)
            unit = unit or account.unit or Unit.ROW
            bound = most or account.most_rows_per_person
            replace(account, budget=budget, budget_unit=unit, most_rows_per_person=bound).require_restatable()
            told = {"budget": budget.to_dict(), "note": str(note), "rule": rule}
            told |= {"unit": None if unit is Unit.ROW else unit.value, "most_rows_per_person": most}
            chain.append(records.entry_fields("budget", account.dataset, **told))

    def budget_of(self, dataset: AnyDataSet) -> Budget | None:
        """The budget in force; None when there is none."""
        return self._read_account(dataset).budget

    def unit_of(self, dataset: AnyDataSet) -> Unit | None:
        """The unit that the account protects; None before the first charge or budget.

        >>> ledger = Ledger.in_memory()
        >>> ledger.set_budget("clinic-a", Budget(epsilon=1.0), unit=Unit.PERSON)
        >>> ledger.unit_of("clinic-a").value, ledger.unit_of("clinic-b")
        ('person', None)
        """
        return self._read_account(dataset).unit

    def privacy_spent(
        self, dataset: AnyDataSet, *, delta: float | None = None, relation: Relation | None = None
    ) -> Guarantee | None:
        """What all charges so far promise together; None before the first.

        `delta` and `relation` are the budget's unless given, or what suits the events where it has none.
        """
        return self._read_account(dataset).privacy_spent(delta, relation)

    def history(self, dataset: AnyDataSet | None = None, *, recheck: bool = True) -> list[Entry]:
        """Every entry in order, or those of one data set; each charge says how it ended.

        Args:
            dataset: the data set; all if None.
            recheck: whether to verify again what this process has verified before.
        """
        register = self._read_register(recheck=recheck)
        if dataset is None:
            return list(register.entries)
        own = register.account(identity_of(dataset)).dataset
        return [entry for entry in register.entries if entry.dataset == own]

    def datasets(self) -> list[DatasetSummary]:
        """Every data set on record, with what is spent and allowed."""
        register = self._read_register()
        return [account.summary() for account in register.accounts.values()]

    def charge_of(self, head: str | None) -> tuple[Charge, DatasetSummary]:
        """The charge with this chain head, and the account that it is in; LedgerError where there is none."""
        register = self._read_register(recheck=False)
        found = register.charge_of(head)
        if found is None:
            raise LedgerError(f"A head names a charge on record; {head} names none in {self._store}.")
        return found, register.account(found.dataset).summary()

    def find(self, name_or_prefix: str) -> DataSet:
        """The data set with that name, or the only one whose id begins like that (six digits or more).

        >>> ledger = Ledger.in_memory()
        >>> ledger.set_budget("clinic-a", Budget(epsilon=1.0))
        >>> ledger.find(ledger.find("Clinic-A").short).name
        'clinic-a'
        """
        return self._read_register().find(name_or_prefix)

    def require_unrelated(
        self,
        *data: object,
        private: AnyDataSet | None = None,
        fit: str | None = None,
        new_data_set: bool = False,
    ) -> None:
        """Raise if data that are to be public, or to be tested without protection, are private.

        It goes by rows and by sources (`ledger.overlap`), and is for the owner's eyes alone. Nothing is
        recorded. Data sets on record are not looked at under `strict_names`.

        Args:
            data: public data, or arrays of rows.
            private: the private examples that they are to stand beside, if there are some.
            fit: the head of the ledger after the charge of a fit, whose data set stands for `private`.
            new_data_set: the owner's word that what is on record is other people's than that of `private`.

        Raises:
            PrivateOverlap: some of them are among the private examples, or on record.
        """
        key = self._store.key  # without it nothing on record can be compared
        register = None if self._strict_names else self._read_register(recheck=False)
        recorded = register is not None and any(one.sketch or one.sources for one in register.charges)
        if private is None and not recorded:
            return  # nothing that they could be compared with
        rows = rows_of(private)
        found = OverlapCheck(data, key, rows)
        if private is not None:
            sketches_of(rows, sources_of(private), key, found)
        if register is not None:
            charge = None if fit is None else register.charge_of(fit)
            own = _own(register, private) if fit is None else getattr(charge, "dataset", None)
            register.require_none_private(found, own, new_data_set)

    def verify(self, *, known_head: str | None = None) -> None:
        """Raise LedgerTampered unless the chain holds, every entry reads, and `known_head` is part of it."""
        with self._store.transaction() as chain:
            records.require_readable(self._entries(chain))
            if known_head is not None and known_head not in {row.hash for row in chain.rows} | {chain.head}:
                raise LedgerTampered(
                    f"A ledger keeps every entry; the head {known_head[:12]} is not in {self._store}. "
                    "The file was rewritten or an older copy was put back: restore the one that has it."
                )

    def _read_account(self, dataset: AnyDataSet) -> Account:
        return self._read_register().account(identity_of(dataset))

    def _read_register(self, *, recheck: bool = True) -> Register:
        with self._store.transaction(recheck=recheck) as chain:
            return Register(self._store.key_if_there, self._entries(chain))

    def _entries(self, chain: Chain) -> list[Entry]:
        """The entries of a chain; those that this object has read before are not read again."""
        key = self._store.key_if_there
        known_by, rows, entries = self._read
        before = entries if known_by == key and chain.rows[: len(rows)] == rows else []
        entries = records.read_entries(chain.rows[len(before) :], before, key)
        self._read = (key, list(chain.rows), entries)
        return entries


def _own(register: Register, data: AnyDataSet | None) -> DataSet | None:
    """The data set on record under the same name; without one it would have to be read to be found."""
    name = data if isinstance(data, str) else getattr(data, "name", None)
    return None if name is None else register.account(identity_of(name)).dataset
