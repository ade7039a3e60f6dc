"""One data set's account: what was charged, what is allowed, and whether more fits.

The rule is that past and new events together fit the limit. The next request may be made after the last
release was seen, so its noise, too, may depend on earlier results. For running totals of pure ε (Rogers,
Roth, Ullman and Vadhan 2016), of ρ (Feldman and Zrnic 2021) and of Gaussian noise in μ² (Smith and Thakurta
2022) the rule is sound for such choices as well. For selections against a budget in ε and δ > 0 the
accountant takes the best of several curves, which is proven for requests that were fixed in advance.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal

from dptransfer.accounting import fits, guarantee_of
from dptransfer.errors import BudgetExceeded, DPTransferError, RelationMismatch
from dptransfer.ledger.entry import BudgetChange, Charge, DataSet, DatasetSummary, Entry
from dptransfer.privacy import Budget, Event, Guarantee, Relation, SelectionEvent, in_relation

QUOTED_DELTA = 1e-5
"""δ at which ε is stated when nobody set a budget that names one."""


@dataclass(frozen=True)
class Account:
    """What the ledger holds on one data set."""

    dataset: DataSet
    charges: tuple[Charge, ...] = ()
    budget: Budget | None = None

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything paid for, in order."""
        return tuple(event for charge in self.charges for event in charge.events)

    def require_room(self, new: Sequence[Event]) -> None:
        """Raise unless the budget covers past and new events together; no new events are always covered.

        >>> from dptransfer.privacy import SelectionEvent
        >>> account = Account(DataSet("3fa9" * 16, "clinic-a"), budget=Budget(epsilon=1.0))
        >>> account.require_room([SelectionEvent(1.0, Relation.ADD_REMOVE, True, "exponential")])
        >>> account.require_room([SelectionEvent(1.3, Relation.ADD_REMOVE, True, "exponential")])
        Traceback (most recent call last):
        ...
        dptransfer.errors.BudgetExceeded: This release would bring 'clinic-a' to epsilon 1.3 (add/remove), \
above its budget of epsilon 1; nothing is spent yet. Lower the request, or ask the data owner to raise \
the budget with: dptransfer ledger budget clinic-a --epsilon 1.3
        """
        if self.budget is None or not new:
            return
        past = self._restated(self.events, self.budget.relation, "is on record")
        whole = past + self._restated(new, self.budget.relation, "was asked for")
        if not fits(whole, self.budget):
            raise BudgetExceeded(_refusal(self.dataset, self.budget, past, whole))

    def spent(self, delta: float | None = None, relation: Relation | None = None) -> Guarantee | None:
        """What all charges together promise; None before the first.

        Args:
            delta: δ to state it at. By default the budget's, where that says something about these events;
                otherwise 0 when all steps are pure, and 1e-5 when they are not.
            relation: relation to state it under. By default the budget's, where the events can be stated
                under it; otherwise the events' own, and replace-one when they are mixed.
        """
        if not self.charges:
            return None
        limit = self.budget
        if relation is None:
            relation = limit.relation if limit else Relation.ADD_REMOVE
            if any(event.relation is Relation.REPLACE_ONE for event in self.events):
                relation = Relation.REPLACE_ONE
        events = self._restated(self.events, relation, "is on record")
        if delta is None:
            pure = all(isinstance(event, SelectionEvent) for event in events)
            delta = (limit.delta if limit else 0.0) or (0.0 if pure else QUOTED_DELTA)
        return guarantee_of(events, delta, relation=relation)

    def summary(self) -> DatasetSummary:
        """The account in a line."""
        spent = self.spent()
        return DatasetSummary(
            dataset=self.dataset,
            charges=len(self.charges),
            unfinished=sum(charge.outcome is None for charge in self.charges),
            spent=spent,
            budget=self.budget,
            sentence=self._sentence(spent),
        )

    def _sentence(self, spent: Guarantee | None) -> str:
        if self.budget is None:
            limit = "no budget is set"
            currency = "epsilon"
        else:
            limit = f"the budget is {self.budget}"
            currency = _currency(self.budget)
        if spent is None:
            return f"nothing is spent; {limit}"
        amount = getattr(spent, currency)
        if amount is None:
            currency, amount = "epsilon", spent.epsilon
        at = f" at delta {spent.delta:g}" if spent.delta and currency == "epsilon" else ""
        return f"{currency} {_up(amount)}{at} ({spent.relation.value}) is spent; {limit}"

    def _restated(self, events: Iterable[Event], relation: Relation, which: str) -> tuple[Event, ...]:
        try:
            return tuple(in_relation(event, relation) for event in events)
        except RelationMismatch:
            raise RelationMismatch(
                f"A replace-one guarantee says nothing under add/remove; a replace-one step {which} for "
                f"{self.dataset}, whose account is to be stated under add/remove. Use methods planned under "
                f"add/remove, or ask the data owner for a replace-one budget: "
                f"dptransfer ledger budget {_address(self.dataset)} --relation replace-one ..."
            ) from None


def accounts(entries: Iterable[Entry]) -> dict[str, Account]:
    """Every account of a ledger, by id, in order of first mention."""
    found: dict[str, DataSet] = {}
    charges: dict[str, list[Charge]] = {}
    budgets: dict[str, Budget] = {}
    for entry in entries:
        key = entry.dataset.id
        found.setdefault(key, entry.dataset)
        if isinstance(entry, Charge):
            charges.setdefault(key, []).append(entry)
        elif isinstance(entry, BudgetChange):
            budgets[key] = entry.budget
    return {key: Account(found[key], tuple(charges.get(key, ())), budgets.get(key)) for key in found}


def _refusal(dataset: DataSet, budget: Budget, past: Sequence[Event], whole: Sequence[Event]) -> str:
    """The sentence that says what the whole would reach, what is allowed and spent, and what to do."""
    currency = _currency(budget)
    at = f" at delta {budget.delta:g}" if budget.flavour == "approximate" else ""
    limit = f"{currency} {getattr(budget, currency):g}"
    limit += f", delta {budget.delta:g}" if budget.flavour == "approximate" else ""
    reached, spent = _amount(whole, budget, currency), _amount(past, budget, currency)
    already = "nothing is spent yet" if not past else "what is spent already has no such bound"
    if spent is not None:
        already = f"{currency} {_up(spent)} is spent already"
    if reached is None:
        remedy = _command(dataset, budget, "epsilon", "1", budget.delta or QUOTED_DELTA)
        return (
            f"The budget of {dataset} is {limit} ({budget.relation.value}), in which not all of these steps "
            f"can be stated; {already}. Use a method whose noise suits that kind of budget, or ask the "
            f"data owner for a budget in epsilon and delta, for example: {remedy}"
        )
    remedy = _command(dataset, budget, currency, _up(reached), budget.delta)
    return (
        f"This release would bring {dataset} to {currency} {_up(reached)}{at} ({budget.relation.value}), "
        f"above its budget of {limit}; {already}. "
        f"Lower the request, or ask the data owner to raise the budget with: {remedy}"
    )


def _currency(budget: Budget) -> str:
    return {"zcdp": "rho", "gdp": "mu"}.get(budget.flavour, "epsilon")


def _amount(events: Sequence[Event], budget: Budget, currency: str) -> float | None:
    """What the events cost in a currency; None when it cannot be said."""
    if not events:
        return None
    try:
        amount: float | None = getattr(guarantee_of(events, budget.delta), currency)
    except DPTransferError:
        return None
    return amount if amount is not None and math.isfinite(amount) else None


def _up(amount: float) -> str:
    """Four digits, rounded up, so that a budget of that size suffices.

    >>> _up(1.3), _up(0.80001), _up(12.0)
    ('1.3', '0.8001', '12')
    """
    context = Context(prec=4, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal(Decimal(repr(float(amount))))):g}"


def _command(dataset: DataSet, budget: Budget, currency: str, amount: str, delta: float) -> str:
    options = f"--{currency} {amount}" + (f" --delta {float(delta)!r}" if delta else "")
    if budget.relation is not Relation.ADD_REMOVE:
        options += f" --relation {budget.relation.value}"
    return f"dptransfer ledger budget {_address(dataset)} {options}"


def _address(dataset: DataSet) -> str:
    return dataset.short if dataset.name is None else shlex.quote(dataset.name)
