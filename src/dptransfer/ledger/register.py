"""Which account a data set belongs to: by its name, by its content, and by rows that are on record already.

Names are compared folded: compatibility forms (NFKC), case and white space make no difference, and the first
spelling is the one shown. Ledgers of older versions told 'Clinic' from 'clinic'; such accounts are read as
one, with the charges of both and the limit that was set last. That is never more than the two allowed
together. Letters that merely look alike, such as a Cyrillic 'а', are not folded: there the rows tell.
"""

from __future__ import annotations

import hmac
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from dptransfer.errors import LedgerError, RowsOnRecord
from dptransfer.ledger.account import Account, accounts
from dptransfer.ledger.entry import Charge, DataSet, Entry, Named, words
from dptransfer.ledger.sketch import Sketch

AnyDataSet: TypeAlias = str | DataSet | Named
"""A name, a data set that `find` or `datasets` returned, or the private embeddings themselves."""

_SHORTEST_PREFIX = 6


def folded(name: str) -> str:
    r"""A name as it is compared.

    >>> folded(" Clinic\u00a0A") == folded("clinic a") == folded("\uff23linic  A")
    True
    """
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).split())


class Identity(NamedTuple):
    """What a data set is to be filed under, before the ledger's key is known."""

    text: str
    name: str | None = None


def identity_of(dataset: AnyDataSet) -> Identity | DataSet:
    """By name, or by content where there is none; that may take a while, for it reads the rows."""
    if isinstance(dataset, DataSet):
        return dataset
    name = dataset if isinstance(dataset, str) else dataset.name
    if name is None:
        return Identity(f"content:{dataset.fingerprint}")  # type: ignore[union-attr]  # not a str: it has no name
    name = words("name", name)
    return Identity(f"name:{folded(name)}", name)


class Register:
    """The accounts of one ledger, from its entries.

    Attributes:
        entries: the same, those of merged accounts under the one that came first.
        accounts: by id, in order of first mention.
    """

    def __init__(self, key: bytes, entries: Sequence[Entry]) -> None:
        self._key = key
        self._named: dict[str, DataSet] = {}
        self._filed: dict[str, DataSet] = {}  # every id on record, and the data set it stands for
        self._spellings: dict[str, list[str]] = {}
        for entry in entries:
            one = entry.dataset
            if one.id not in self._filed:
                first = one if one.name is None else self._named.setdefault(folded(one.name), one)
                self._filed[one.id] = first
                if one.name is not None and first is not one:
                    self._spellings.setdefault(first.id, []).append(one.name)
        self.entries = [
            entry if entry.dataset == first else replace(entry, dataset=first)
            for entry, first in ((entry, self._filed[entry.dataset.id]) for entry in entries)
        ]
        self.accounts = accounts(self.entries)

    def merged(self, dataset: DataSet) -> tuple[str, ...]:
        """Other spellings of the name that were accounts of their own once."""
        return tuple(self._spellings.get(dataset.id, ()))

    def account(self, identity: Identity | DataSet) -> Account:
        """The account on record, or an empty one. A name may be the short id of a data set without one."""
        if isinstance(identity, DataSet):
            if identity.id not in self._filed:
                raise LedgerError(
                    f"A data set's id holds in one ledger only; {identity} is not on record here. "
                    "Look it up with find() on this ledger."
                )
            return self.accounts[self._filed[identity.id].id]
        new = DataSet(hmac.digest(self._key, identity.text.encode(), "sha256").hex(), identity.name)
        known = self._filed.get(new.id)
        if identity.name is not None:
            name = folded(identity.name)
            nameless = {one.short: one for one in self._filed.values() if one.name is None}
            known = self._named.get(name) or nameless.get(name)
        return Account(new) if known is None else self.accounts[known.id]

    def paid(self, workspace: str | None) -> Charge | None:
        """The charge of the run that goes on in this workspace; None where there is none yet."""
        charges = (entry for entry in self.entries if isinstance(entry, Charge))
        return next((one for one in charges if workspace and one.workspace == workspace), None)

    def find(self, name_or_prefix: str) -> DataSet:
        """The data set with that name, or the only one whose id begins like that."""
        text = words("The name or id of a data set", name_or_prefix)
        named = self._named.get(folded(text))
        found = [] if named is None else [named]
        if named is None and len(text) >= _SHORTEST_PREFIX:
            begins = {one.id: one for key, one in self._filed.items() if key.startswith(text.lower())}
            found = list(begins.values())
        if len(found) == 1:
            return found[0]
        count = len(self.accounts)
        problem = f"'{text}' fits {len(found)}" if found else f"'{text}' is none of the {count} on record"
        raise LedgerError(
            f"A data set is addressed by its name or by at least {_SHORTEST_PREFIX} digits of its id; "
            f"{problem}. List them with: dptransfer ledger show"
        )

    def holders(self, sketch: Sketch, own: DataSet) -> list[DataSet]:
        """The other data sets with these rows, except those the owner said are other people's."""
        apart = {
            frozenset((charge.dataset.id, self._filed[other].id))
            for charge in self.entries
            if isinstance(charge, Charge)
            for other in charge.apart_from
            if other in self._filed
        }
        return [
            account.dataset
            for key, account in self.accounts.items()
            if key != own.id and frozenset((key, own.id)) not in apart
            if any(charge.sketch.overlaps(sketch) for charge in account.charges if charge.sketch is not None)
        ]


def rows_on_record(holders: Sequence[DataSet]) -> RowsOnRecord:
    """The refusal of rows that have another account already; it tells whose they are and no more."""
    first = holders[0]
    others = " and ".join(map(str, holders))
    return RowsOnRecord(
        f"Rows are charged to the account they have; these are on record as {others}, in part at least, and "
        f"nothing was charged. Use that account with name={first.name or first.short!r}, or pass "
        "new_data_set=True if they are other people's."
    )
