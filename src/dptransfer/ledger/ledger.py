"""The data owner's record of what was spent on which data set; it refuses before the fact."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import platformdirs

from dptransfer import _check
from dptransfer.accounting import Rule, heed
from dptransfer.accounting.requests import RULES
from dptransfer.document import escape_html
from dptransfer.errors import ArgumentError, DPTransferError, LedgerError, LedgerTampered
from dptransfer.ledger.account import Account
from dptransfer.ledger.entry import (
    OUTCOMES,
    Charge,
    DataSet,
    DatasetSummary,
    Entry,
    Receipt,
    read_entries,
    stamped,
    words,
    written,
)
from dptransfer.ledger.register import AnyDataSet, Register, identity_of, rows_on_record
from dptransfer.ledger.sketch import sketch_of
from dptransfer.ledger.store import Chain, Store
from dptransfer.privacy import Budget, Event, Guarantee, Relation, Unit


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
        strict_names: let names alone decide. Rows are not looked at before the charge, and rows that are on
            record under another name are not recognised, then or later.
    """

    def __init__(self, path: str | os.PathLike[str], *, strict_names: bool = False) -> None:
        self._store = Store(Path(path))
        self._strict_names = strict_names

    @classmethod
    def in_memory(cls, *, strict_names: bool = False) -> Ledger:
        """A ledger that lasts as long as the object: for tests, and for budgets within one process."""
        ledger = cls.__new__(cls)
        ledger._store = Store(None)
        ledger._strict_names = strict_names
        return ledger

    @classmethod
    def default(cls, *, strict_names: bool = False) -> Ledger:
        """The user's ledger, at `default_path()`."""
        return cls(cls.default_path(), strict_names=strict_names)

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
        from dptransfer.ledger.summary import ledger_summary

        try:
            return ledger_summary(str(self.path or "in memory"), self.datasets()).fragment()
        except DPTransferError as problem:  # a notebook shows what is wrong, and goes on
            return f"<p>{escape_html(problem)}</p>"

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: object) -> Ledger:
        return self  # a second copy of an account could be spent a second time

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """Another process opens the same file; an in-memory ledger stays where it is."""
        if self.path is None:
            raise LedgerError(
                "An in-memory ledger belongs to the process that made it; it was to be pickled for another. "
                "Use a ledger file, Ledger(path)."
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
    ) -> Receipt:
        """Record that `events` are about to run on `dataset`, or refuse; call it before they do.

        Verification, check and record are one transaction, so processes that charge at once cannot overspend
        together. When this raises, nothing is on record and nothing may be read. Once it returns, the charge
        is on disk and spent, whatever happens next.

        Args:
            dataset: what will be read. If it has rows they are sketched first, to tell whether they are on
                record under another name; not under `strict_names`, nor where nothing is spent. One without
                a name has its content digested.
            events: what will run, under any relation that can be stated under the budget's.
            label: what it is for, such as the name of the method.
            new_data_set: the owner's word that rows on record elsewhere are other people's here. It is
                recorded, and not asked for again between the same data sets.
            workspace: random number of a run that goes on where it was interrupted. If it was charged for
                already, that charge is returned and nothing is added.

        Raises:
            BudgetExceeded: past and new events together do not fit the budget.
            RowsOnRecord: another data set holds these rows, or a good part of them. For the owner only.
            RelationMismatch: a replace-one event meets an add/remove budget, or an event cannot be restated
                for the unit of the account.
            LedgerTampered: the chain does not hold.
            LedgerError: the file cannot be used.
        """
        if workspace is not None and not re.fullmatch("[0-9a-f]{32,}", workspace):
            raise ArgumentError(
                f"workspace must be a random number of 32 hexadecimal digits or more; got {workspace!r}. "
                "A word might be used for two runs, of which the second would be charged nothing."
            )
        events, label = tuple(events), words("label", label)
        steps = written(events)
        identity = identity_of(dataset)
        with self._store.transaction() as chain:  # prices may take a while, and nobody should wait for them
            register = _register(chain)
            account = register.account(identity)
            paid = register.paid(workspace)
            if paid is not None:
                if (paid.dataset, paid.label, paid.events) != (account.dataset, label, events):
                    raise LedgerError(
                        "A run goes on with the steps and the data set that it was charged for; entry "
                        f"{paid.number} of {self._store} is for others. Use another workspace."
                    )
                return Receipt(
                    paid.number, paid.hash, paid.dataset.id, label, paid.time, paid.outcome is not None
                )
            rule = account.require_room(events)
            settled = chain.head
        sketch = None
        if events and not self._strict_names and not isinstance(dataset, str | DataSet):
            rows = getattr(dataset, "rows", getattr(dataset, "pixels", None))
            # This may take a while, so it happens outside of any transaction.
            sketch = None if rows is None else sketch_of(rows, self._store.key)
        with self._store.transaction(write=True) as chain:
            register = _register(chain)
            account = register.account(identity)
            if chain.head != settled:
                rule = account.require_room(events)
            holders = [] if sketch is None else register.holders(sketch, account.dataset)
            if holders and not new_data_set:
                raise rows_on_record(holders)
            known = any(charge.sketch == sketch for charge in account.charges)
            fields = stamped(
                "charge",
                account.dataset,
                label=label,
                events=steps,
                rule=rule,
                sketch=None if known or sketch is None else sketch.to_text(),
                apart_from=[one.id for one in holders] or None,
                workspace=workspace,
            )
            row = chain.append(fields)
        return Receipt(row.number, row.hash, account.dataset.id, label, fields["time"])

    def require_room(self, dataset: AnyDataSet, events: Sequence[Event]) -> None:
        """Raise BudgetExceeded where a charge would; nothing is recorded, and the charge asks again.

        For data sets that are addressed by name: without one the content has to be there.
        """
        self._read_account(dataset).require_room(tuple(events))

    def complete(
        self, receipt: Receipt, outcome: Literal["released", "failed"] = "released", detail: str = ""
    ) -> None:
        """Record how a charge ended. A failed run gives nothing back: rows may have been read."""
        _check.one_of("outcome", outcome, OUTCOMES)
        with self._store.transaction(write=True) as chain:
            entries = read_entries(chain.rows)
            charge = entries[receipt.entry - 1] if 0 < receipt.entry <= len(entries) else None
            if not isinstance(charge, Charge) or charge.hash != receipt.head:
                raise LedgerError(
                    f"A receipt closes a charge of the ledger that gave it; entry {receipt.entry} of "
                    f"{self._store} is not that charge. Complete it on the ledger that was charged."
                )
            if charge.outcome is not None:
                raise LedgerError(
                    f"A charge is closed once; entry {receipt.entry} is '{charge.outcome}' already. "
                    "Charge again for another run."
                )
            closing = {"charge": charge.number, "outcome": outcome, "detail": str(detail)}
            chain.append(stamped("closing", charge.dataset, **closing))

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
        """Put a limit on a data set from here on; the change itself is recorded.

        A limit that promises nothing is refused, one that promises little brings a `PrivacyWarning`. One
        below what is spent already is allowed and means that nothing more is granted. A string is
        a name, also one that was never charged, or the short id of a data set on record without one.

        Args:
            dataset: whose limit it is.
            budget: the limit. Set it before the first charge: a limit that is set, or raised, after answers
                were seen is a promise about what is released from then on.
            note: why, for the record.
            rule: how requests that depend on earlier answers are counted against a budget in ε and δ,
                'gaussian' or 'renyi' (`accounting.requests`); without one the first charge settles it.
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
        if most_rows_per_person is not None:
            most_rows_per_person = _check.whole("most_rows_per_person", most_rows_per_person)
        heed(budget, stacklevel=2)
        declared = None if rule is None else cast(Rule, _check.one_of("rule", rule, RULES))
        limit = {"budget": budget.to_dict(), "note": str(note), "rule": declared}
        identity = identity_of(dataset)
        with self._store.transaction(write=True) as chain:
            account = _register(chain).account(identity)
            if declared is not None:
                account.require_rule(declared)
            unit = unit or account.unit or Unit.ROW
            bound = most_rows_per_person or account.most_rows_per_person
            replace(account, budget=budget, budget_unit=unit, most_rows_per_person=bound).require_restatable()
            by = None if unit is Unit.ROW else unit.value
            declared_rows = {"unit": by, "most_rows_per_person": most_rows_per_person}
            chain.append(stamped("budget", account.dataset, **limit, **declared_rows))

    def budget_of(self, dataset: AnyDataSet) -> Budget | None:
        """The limit in force; None when there is none."""
        return self._read_account(dataset).budget

    def unit_of(self, dataset: AnyDataSet) -> Unit | None:
        """What the account counts the loss of one of; None before the first charge or limit.

        >>> ledger = Ledger.in_memory()
        >>> ledger.set_budget("clinic-a", Budget(epsilon=1.0), unit=Unit.PERSON)
        >>> ledger.unit_of("clinic-a").value, ledger.unit_of("clinic-b")
        ('person', None)
        """
        return self._read_account(dataset).unit

    def spent(
        self, dataset: AnyDataSet, *, delta: float | None = None, relation: Relation | None = None
    ) -> Guarantee | None:
        """What all charges so far promise together; None before the first.

        `delta` and `relation` are the budget's unless given, or what suits the events where it has none.
        """
        return self._read_account(dataset).spent(delta, relation)

    def history(self, dataset: AnyDataSet | None = None) -> list[Entry]:
        """Every entry in order, or those of one data set; each charge says how it ended."""
        register = self._read_register()
        if dataset is None:
            return register.entries
        own = register.account(identity_of(dataset)).dataset
        return [entry for entry in register.entries if entry.dataset == own]

    def datasets(self) -> list[DatasetSummary]:
        """Every data set on record, with what is spent and allowed."""
        register = self._read_register()
        return [
            replace(account.summary(), merged=register.merged(account.dataset))
            for account in register.accounts.values()
        ]

    def find(self, name_or_prefix: str) -> DataSet:
        """The data set with that name, or the only one whose id begins like that (six digits or more).

        >>> ledger = Ledger.in_memory()
        >>> ledger.set_budget("clinic-a", Budget(epsilon=1.0))
        >>> ledger.find(ledger.find("Clinic-A").short).name
        'clinic-a'
        """
        return self._read_register().find(name_or_prefix)

    def charged_for(self, rows: Any, head: str) -> bool:
        """Whether the charge that `head` names was made for these rows, or for a good part of them.

        It goes by sketches (`ledger.sketch`), like the refusal of rows on record, and is for the owner's eyes
        alone. False, too, where no such charge is on record here, or was made under `strict_names`.
        """
        register = self._read_register()
        charges = [entry for entry in register.entries if isinstance(entry, Charge)]
        own = next((one for one in charges if one.hash == head), None)
        if own is None:
            return False
        # Rows that their account had been charged for before have their sketch there, and not here again.
        before = [one for one in charges if one.dataset == own.dataset and one.number < own.number]
        known = [one.sketch for one in ([own] if own.sketch else before) if one.sketch is not None]
        found = sketch_of(rows, self._store.key) if known else None
        return found is not None and any(one.overlaps(found) for one in known)

    def verify(self, *, known_head: str | None = None) -> None:
        """Raise LedgerTampered unless the chain holds, every entry reads, and `known_head` is part of it."""
        with self._store.transaction() as chain:
            read_entries(chain.rows)
            if known_head is not None and known_head not in {row.hash for row in chain.rows} | {chain.head}:
                raise LedgerTampered(
                    f"A ledger keeps every entry; the head {known_head[:12]} is not in {self._store}. "
                    "The file was rewritten or an older copy was put back: restore the one that has it."
                )

    def _read_account(self, dataset: AnyDataSet) -> Account:
        return self._read_register().account(identity_of(dataset))

    def _read_register(self) -> Register:
        with self._store.transaction() as chain:
            return _register(chain)


def _register(chain: Chain) -> Register:
    return Register(chain.key, read_entries(chain.rows))
