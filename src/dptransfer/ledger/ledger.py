"""The data owner's record of what was spent on which data set; it refuses before the fact."""

from __future__ import annotations

import hmac
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import platformdirs

from dptransfer import _check
from dptransfer.accounting import heed
from dptransfer.errors import ArgumentError, LedgerError, LedgerTampered
from dptransfer.ledger.account import Account, accounts
from dptransfer.ledger.entry import (
    OUTCOMES,
    Charge,
    DataSet,
    DatasetSummary,
    Entry,
    Named,
    Receipt,
    budget_fields,
    charge_fields,
    closing_fields,
    read_entries,
    stamped,
    words,
)
from dptransfer.ledger.store import Chain, Store
from dptransfer.privacy import Budget, Event, Guarantee, Relation

AnyDataSet: TypeAlias = str | DataSet | Named
"""A name, a data set that `find` or `datasets` returned, or the private embeddings themselves."""


class Ledger:
    """An append-only record of charges and budgets, shared by all processes that use the same file.

    A data set with a name is filed under the name, whatever its content; one without is filed under a digest
    of its content. The two are separate accounts, so keep to one of them. A data set without a budget is
    recorded and never refused.

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
above its budget of epsilon 1; epsilon 0.8 is spent already. Lower the request, or ask the data owner to \
raise the budget with: dptransfer ledger budget clinic-a --epsilon 1.6

    Args:
        path: the file; made, readable by its owner only, when there is none.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store = Store(Path(path))

    @classmethod
    def in_memory(cls) -> Ledger:
        """A ledger that lasts as long as the object: for tests, and for budgets within one process."""
        ledger = cls.__new__(cls)
        ledger._store = Store(None)
        return ledger

    @classmethod
    def default(cls) -> Ledger:
        """The user's ledger: the file named by DPTRANSFER_LEDGER, or one in the user's data folder."""
        named = os.environ.get("DPTRANSFER_LEDGER")
        return cls(named or platformdirs.user_data_path("dptransfer") / "ledger.sqlite")

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

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: object) -> Ledger:
        return self  # a second copy of an account could be spent a second time

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        """Another process opens the same file; an in-memory ledger stays where it is."""
        if self.path is None:
            raise LedgerError(
                "An in-memory ledger belongs to the process that made it; it was to be pickled for another. "
                "Use a ledger file, Ledger(path)."
            )
        return Ledger, (str(self.path),)

    def charge(self, dataset: AnyDataSet, events: Sequence[Event], *, label: str) -> Receipt:
        """Record that `events` are about to run on `dataset`, or refuse; call it before reading any row.

        Verification, check and record are one transaction, so processes that charge at once cannot overspend
        together. When this raises, nothing is on record and nothing may be read. Once it returns, the charge
        is on disk and spent, whatever happens next.

        Args:
            dataset: what will be read; its rows are not touched, unless it has no name and its content has
                to be digested to tell which data set it is.
            events: what will run, under any relation that can be stated under the budget's.
            label: what it is for, such as the name of the method.

        Raises:
            BudgetExceeded: past and new events together do not fit the budget.
            RelationMismatch: a replace-one event meets an add/remove budget.
            LedgerTampered: the chain does not hold.
            LedgerError: the file cannot be used.
        """
        events = tuple(events)
        fields = charge_fields(label, events)
        identity = _identity(dataset)
        with self._store.transaction(write=True) as chain:
            account = _account(chain, identity)
            account.require_room(events)
            stamp = stamped(fields, account.dataset)
            row = chain.append(stamp)
        return Receipt(row.number, row.hash, account.dataset.id, fields["label"], stamp["time"])

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
            chain.append(stamped(closing_fields(charge.number, outcome, str(detail)), charge.dataset))

    def set_budget(self, dataset: AnyDataSet, budget: Budget, *, note: str = "") -> None:
        """Put a limit on a data set from here on; the change itself is recorded.

        A limit that promises nothing is refused, one that promises little brings a `PrivacyWarning`. One
        below what is spent already is allowed and means that nothing more is granted. A string is
        always a name, also one that was never charged; for an unnamed data set pass `find(prefix)`.
        """
        if not isinstance(budget, Budget):
            raise ArgumentError(f"budget must be a Budget; got {type(budget).__name__}.")
        heed(budget, stacklevel=2)
        identity = _identity(dataset)
        with self._store.transaction(write=True) as chain:
            account = _account(chain, identity)
            chain.append(stamped(budget_fields(budget, str(note)), account.dataset))

    def budget_of(self, dataset: AnyDataSet) -> Budget | None:
        """The limit in force; None when there is none."""
        return self._read_account(dataset).budget

    def spent(
        self, dataset: AnyDataSet, *, delta: float | None = None, relation: Relation | None = None
    ) -> Guarantee | None:
        """What all charges so far promise together; None before the first.

        `delta` and `relation` are the budget's unless given, or what suits the events where it has none.
        """
        return self._read_account(dataset).spent(delta, relation)

    def history(self, dataset: AnyDataSet | None = None) -> list[Entry]:
        """Every entry in order, or those of one data set; each charge says how it ended."""
        identity = None if dataset is None else _identity(dataset)
        with self._store.transaction() as chain:
            entries = read_entries(chain.rows)
            wanted = None if identity is None else _account(chain, identity).dataset.id
        return [entry for entry in entries if wanted in (None, entry.dataset.id)]

    def datasets(self) -> list[DatasetSummary]:
        """Every data set on record, with what is spent and allowed."""
        with self._store.transaction() as chain:
            entries = read_entries(chain.rows)
        return [account.summary() for account in accounts(entries).values()]

    def find(self, name_or_prefix: str) -> DataSet:
        """The data set with that name, or the only one whose id begins like that (six digits or more).

        >>> ledger = Ledger.in_memory()
        >>> ledger.set_budget("clinic-a", Budget(epsilon=1.0))
        >>> ledger.find(ledger.find("clinic-a").short).name
        'clinic-a'
        """
        text = words("name_or_prefix", name_or_prefix)
        with self._store.transaction() as chain:
            known = [account.dataset for account in accounts(read_entries(chain.rows)).values()]
        found = [one for one in known if one.name == text]
        if not found and len(text) >= _SHORTEST_PREFIX:
            found = [one for one in known if one.id.startswith(text.lower())]
        if len(found) == 1:
            return found[0]
        problem = (
            f"'{text}' fits {len(found)}" if found else f"'{text}' is none of the {len(known)} on record"
        )
        raise LedgerError(
            f"A data set is addressed by its name or by at least {_SHORTEST_PREFIX} digits of its id; "
            f"{problem}. List them with: dptransfer ledger show"
        )

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
        identity = _identity(dataset)
        with self._store.transaction() as chain:
            return _account(chain, identity)


_SHORTEST_PREFIX = 6


def _identity(dataset: AnyDataSet) -> DataSet | tuple[str, str | None]:
    """What to file the data set under, before keying; done outside the transaction: it may be slow."""
    if isinstance(dataset, DataSet):
        return dataset
    name = dataset if isinstance(dataset, str) else dataset.name
    if name is None:
        return f"content:{dataset.fingerprint}", None  # type: ignore[union-attr]  # not a str: its name is None
    name = words("name", name)
    return f"name:{name}", name


def _account(chain: Chain, identity: DataSet | tuple[str, str | None]) -> Account:
    known = accounts(read_entries(chain.rows))
    if isinstance(identity, DataSet):
        if identity.id not in known:
            raise LedgerError(
                f"A data set's id holds in one ledger only; {identity} is not on record here. "
                "Look it up with find() on this ledger."
            )
        return known[identity.id]
    text, name = identity
    key = hmac.digest(chain.key, text.encode(), "sha256").hex()
    return known.get(key, Account(DataSet(key, name)))
