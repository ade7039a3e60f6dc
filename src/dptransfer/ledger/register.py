"""Find the account of a data set: by its name, its content, or rows that are on record already.

Names are compared folded: compatibility forms (NFKC), case and white space make no difference, and the first
spelling is the one shown. Letters that merely look alike, such as a Cyrillic 'а', are not folded: there the
rows tell.
"""

from __future__ import annotations

import hmac
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from dptransfer.errors import LedgerError, PrivateOverlap, RowsOnRecord
from dptransfer.ledger.account import Account, accounts
from dptransfer.ledger.entry import Charge, DataSet, Entry, NamedData, short_text
from dptransfer.ledger.overlap import OverlapCheck
from dptransfer.ledger.sketch import Sketch

AnyDataSet: TypeAlias = str | DataSet | NamedData
"""A name, a data set that `find` or `datasets` returned, or the private embeddings themselves."""

_SHORTEST_PREFIX = 6


def fold_name(name: str) -> str:
    r"""A name as it is compared.

    >>> fold_name(" Clinic\u00a0A") == fold_name("clinic a") == fold_name("\uff23linic  A")
    True
    """
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).split())


class Identity(NamedTuple):
    """Name or content digest that a data set is filed under, before the ledger's key is known."""

    text: str
    name: str | None = None


def identity_of(dataset: AnyDataSet) -> Identity | DataSet:
    """Identity by name, or by content where there is none, which reads all rows."""
    if isinstance(dataset, DataSet):
        return dataset
    name = dataset if isinstance(dataset, str) else dataset.name
    if name is None:
        return Identity(f"content:{dataset.fingerprint}")  # type: ignore[union-attr]  # not a str: it has no name
    name = short_text("name", name)
    return Identity(f"name:{fold_name(name)}", name)


class Register:
    """The accounts of one ledger, from its entries.

    Without the ledger's secret key, data sets are known by the names on record alone.

    Attributes:
        entries: the same.
        accounts: by id, in order of first mention.
    """

    def __init__(self, key: bytes | None, entries: Sequence[Entry]) -> None:
        self._key = key
        self.entries = entries
        self.accounts = accounts(entries)
        known = [account.dataset for account in self.accounts.values()]
        self._named = {fold_name(one.name): one for one in known if one.name is not None}
        self._nameless = {one.short: one for one in known if one.name is None}

    def account(self, identity: Identity | DataSet) -> Account:
        """The account on record, or an empty one. A name may be the short id of a data set without one."""
        if isinstance(identity, DataSet):
            if identity.id not in self.accounts:
                raise LedgerError(
                    f"A data set's id holds in one ledger only; {identity} is not on record here. Use find()."
                )
            return self.accounts[identity.id]
        if identity.name is None and self._key is None:
            raise LedgerError(
                "A data set without a name needs the ledger's key, which is missing. Put it back."
            )
        own = b"" if self._key is None else hmac.digest(self._key, identity.text.encode(), "sha256")
        new = DataSet(own.hex(), identity.name)
        if identity.name is None:
            return self.accounts.get(new.id, Account(new))
        name = fold_name(identity.name)
        known = self._named.get(name) or self._nameless.get(name)
        return Account(new) if known is None else self.accounts[known.id]

    @property
    def charges(self) -> Iterator[Charge]:
        """The charges among the entries."""
        return (entry for entry in self.entries if isinstance(entry, Charge))

    def charge_in_workspace(self, workspace: str | None) -> Charge | None:
        """The charge of the run that goes on in this workspace; None where there is none yet."""
        return next((one for one in self.charges if workspace and one.workspace == workspace), None)

    def charge_of(self, head: str | None) -> Charge | None:
        """The charge that this head names; None where it is not on record here."""
        return next((one for one in self.charges if one.hash == head), None)

    def find(self, name_or_prefix: str) -> DataSet:
        """The data set with that name, or the only one whose id begins like that."""
        text = short_text("The name or id of a data set", name_or_prefix)
        named = self._named.get(fold_name(text))
        found = [] if named is None else [named]
        if named is None and len(text) >= _SHORTEST_PREFIX:
            found = [one.dataset for key, one in self.accounts.items() if key.startswith(text.lower())]
        if len(found) == 1:
            return found[0]
        count = len(self.accounts)
        problem = f"'{text}' fits {len(found)}" if found else f"'{text}' is none of the {count} on record"
        raise LedgerError(
            f"A data set is addressed by its name or by at least {_SHORTEST_PREFIX} digits of its id; "
            f"{problem}. List them with: dptransfer ledger show"
        )

    def holders(self, rows: Sketch | None, sources: Sketch | None, own: DataSet) -> list[DataSet]:
        """The other data sets with these rows or sources, except those the owner said are other people's."""
        apart = {frozenset((one.dataset.id, other)) for one in self.charges for other in one.apart_from}

        def holds(charge: Charge) -> bool:
            return _overlap(charge.sketch, rows) or _overlap(charge.sources, sources)

        others = [one for key, one in self.accounts.items() if frozenset((key, own.id)) not in apart]
        others = [one for one in others if one.dataset.id != own.id]
        return [account.dataset for account in others if any(map(holds, account.charges))]

    def require_none_private(self, data: OverlapCheck, own: DataSet | None, new_data_set: bool) -> None:
        """Raise if what is to be public is on record; `new_data_set` allows it for others than `own`.

        Raises:
            PrivateOverlap: a data set on record has some of these rows or sources.
        """
        for account in self.accounts.values():
            if new_data_set and (own is None or account.dataset.id != own.id):
                continue
            rows = [charge.sketch for charge in account.charges if charge.sketch is not None]
            sources = [charge.sources for charge in account.charges if charge.sources is not None]
            if data.on_record(rows, sources):
                raise PrivateOverlap(
                    "Public and test data are not protected and may be published; some of these examples are "
                    f"registered as private data, as {account.dataset}. Nothing was charged. Use other data, "
                    "or pass new_data_set=True if they belong to other people and not to your data set."
                )


def _overlap(one: Sketch | None, other: Sketch | None) -> bool:
    return one is not None and other is not None and one.overlaps(other)


def rows_on_record(holders: Sequence[DataSet]) -> RowsOnRecord:
    """Error for rows that have another account; it names the account and no more."""
    first = holders[0]
    others = " and ".join(map(str, holders))
    return RowsOnRecord(
        f"Some of these rows are already registered as {others}. Nothing was charged. "
        f"Use that account with name={first.name or first.short!r}, or pass new_data_set=True if the rows "
        "belong to other people."
    )
