"""Cost of a charge as it is recorded: by itself, and together with all charges before it.

Both are stated when the charge is made, in the terms of the account as it is then: its unit, its budget's
relation and δ. So a history tells what was promised at the time, without counting every account again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dptransfer.errors import DPTransferError
from dptransfer.ledger.account import Account
from dptransfer.ledger.entry import Charge, written
from dptransfer.privacy import Event, Guarantee


def stated_cost(account: Account, events: Sequence[Event]) -> dict[str, Any]:
    """The fields `cost` and `total` of a charge that is about to be made; without what cannot be stated.

    >>> from dptransfer.ledger.entry import DataSet
    >>> from dptransfer.privacy import Relation, SelectionEvent
    >>> step = SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential")
    >>> stated_cost(Account(DataSet("3fa9" * 16)), [step])["cost"]["epsilon"]
    0.5
    """
    charge = Charge(
        number=0,
        hash="",
        time="",
        version="",
        process=0,
        user="",
        dataset=account.dataset,
        label="",
        steps=tuple(written(events)),
    )
    found = {
        "cost": replace(account, charges=(charge,)),
        "total": replace(account, charges=(*account.charges, charge)),
    }
    return {name: stated for name, one in found.items() if (stated := _stated(one)) is not None}


def _stated(account: Account) -> dict[str, Any] | None:
    try:
        promise = account.spent()
    except DPTransferError:  # it is granted all the same; what has no statement is not made up
        return None
    return None if promise is None else _plain(promise)


def _plain(promise: Guarantee) -> dict[str, Any] | None:
    numbers = {name: getattr(promise, name) for name in ("epsilon", "delta", "rho", "mu")}
    told = {name: value for name, value in numbers.items() if value is not None and math.isfinite(value)}
    return {**told, "relation": promise.relation.value, "unit": promise.unit.value}
