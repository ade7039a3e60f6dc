"""One data set's account: what its charges cost by themselves and together, and what its budget allows.

Each charge is one request, fixed as a whole when it was made; the next may be made after its answer was seen.
How such requests add up, and why, is in `accounting.filters`.

An account counts for one unit: that of its limit, or without one that of its first charge. Steps that protect
the other are restated (`privacy.event`), and what cannot be restated is refused before it is charged. So
the limit is always a limit for what it names, whatever was charged.

Both are stated when the charge is made, in the terms of the account as it is then: its unit, its budget's
relation and δ. So a history tells what was promised at the time, without counting every account again.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from math import isfinite

from dptransfer.accounting import Requests, Rule, is_gaussian, pure_epsilon_of
from dptransfer.base.types import JsonObject
from dptransfer.errors import BudgetExceeded, DPTransferError, LedgerError, RelationMismatch, UnknownCharge
from dptransfer.ledger.entry import BudgetChange, Charge, DataSet, DatasetSummary, Entry
from dptransfer.privacy import Budget, Event, Guarantee, Relation, Unit, number, rounded_up
from dptransfer.privacy.event import for_people, for_rows, in_relation, same_unit
from dptransfer.privacy.numbers import plain_exponents

QUOTED_DELTA = 1e-5
"""δ at which ε is stated when nobody set a budget that names one."""


@dataclass(frozen=True)
class Account:
    """What the ledger holds on one data set.

    `budget_unit` is what the budget is a limit for one of: an example, or a person with all their examples;
    `most_rows_per_person` is the owner's public word that nobody has more rows.
    """

    dataset: DataSet
    charges: tuple[Charge, ...] = ()
    budget: Budget | None = None
    declared_rule: Rule | None = None
    budget_unit: Unit = Unit.ROW
    most_rows_per_person: int | None = None

    @property
    def unit(self) -> Unit | None:
        """Unit that the account protects: that of its budget, or else of its first charge."""
        if self.budget is not None:
            return self.budget_unit
        return next((event.unit for charge in self.charges for event in charge.events), None)

    def require_room(self, new: Sequence[Event]) -> str:
        """Raise unless the budget covers past and new charges; no new events are always covered.

        Returns the rule that granted them, in words.

        >>> from dptransfer.privacy import SelectionEvent
        >>> account = Account(DataSet("3fa9" * 16, "clinic-a"), budget=Budget(epsilon=1.0))
        >>> account.require_room([SelectionEvent(1.0, Relation.ADD_REMOVE, True, "exponential")])
        'one request, composed exactly'
        >>> account.require_room([SelectionEvent(1.3, Relation.ADD_REMOVE, True, "exponential")])
        Traceback (most recent call last):
        ...
        dptransfer.errors.BudgetExceeded: This release would bring 'clinic-a' to epsilon 1.3 (add/remove), \
above its budget of epsilon 1; nothing is spent yet. Lower the request, or ask the data owner to raise \
the budget with: dptransfer ledger budget clinic-a --epsilon 1.3 --delta 0
        """
        if not new:
            return "no budget is set" if self.budget is None else "nothing is spent"
        same_unit(new)
        if self.budget is None:
            self.require_restatable(new)
            return "no budget is set"
        whole = self._requests(self.budget.relation, new)
        if not whole.fit(self.budget):
            past = self._requests(self.budget.relation)
            raise BudgetExceeded(_refusal(self, self.budget, past, whole, new))
        return _counted_by(whole, self.budget.currency, self.budget.delta, self.budget.epsilon)

    def require_restatable(self, new: Sequence[Event] = ()) -> None:
        """Raise unless charges and new steps can be stated for the account's unit, under some relation."""
        with suppress(RelationMismatch):
            self._requests(Relation.ADD_REMOVE, new)
            return
        self._requests(Relation.REPLACE_ONE, new)

    def require_rule(self, rule: str) -> None:
        """Raise unless the owner may still declare this rule: it is settled by the first charge."""
        asked = ([in_relation(event, Relation.REPLACE_ONE) for event in one.events] for one in self.charges)
        charged = Requests.of(asked, self.declared_rule)
        if charged.first and charged.rule != rule:
            raise LedgerError(
                f"The rule comes before charges; {self.dataset} counts by '{charged.rule}'. Leave it out."
            )

    def privacy_spent(self, delta: float | None = None, relation: Relation | None = None) -> Guarantee | None:
        """What all charges together promise; None before the first.

        Args:
            delta: δ to state it at. By default the budget's, where that says something about these events;
                otherwise 0 when all steps are pure, and 1e-5 when they are not.
            relation: relation to state it under. By default the budget's, where the events can be stated
                under it; otherwise the events' own, and replace-one when they are mixed.
        """
        return self._promise(delta, relation) if self.charges else None

    def stated_cost(self, new: Sequence[Event]) -> JsonObject:
        """The fields `cost` and `total` of a charge that is about to be made; without what cannot be stated.

        >>> from dptransfer.privacy import SelectionEvent
        >>> step = SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential")
        >>> Account(DataSet("3fa9" * 16)).stated_cost([step])["cost"]["epsilon"]
        0.5
        """
        stated: JsonObject = {}
        for name, account in {"cost": replace(self, charges=()), "total": self}.items():
            with suppress(DPTransferError):  # it is granted all the same, without a statement
                promise = account._promise(new=new)
                numbers = {one: getattr(promise, one) for one in ("epsilon", "delta", "rho", "mu")}
                finite = {one: x for one, x in numbers.items() if x is not None and isfinite(x)}
                stated[name] = {**finite, "relation": promise.relation.value, "unit": promise.unit.value}
        return stated

    def _promise(
        self, delta: float | None = None, relation: Relation | None = None, new: Sequence[Event] = ()
    ) -> Guarantee:
        """What all charges, and a new one, promise together."""
        limit = self.budget
        if relation is None:
            relation = limit.relation if limit else Relation.ADD_REMOVE
            try:
                self._requests(relation, new)
            except RelationMismatch:
                relation = Relation.REPLACE_ONE
        requests = self._requests(relation, new)
        if delta is None:
            pure = pure_epsilon_of(requests.events) is not None
            delta = (limit.delta if limit else 0.0) or (0.0 if pure else QUOTED_DELTA)
        spent = requests.guarantee(delta, relation, self._limit_at(delta))
        unit, assumed = self._unit_with(new), spent.assumptions
        if unit is Unit.PERSON and self._has_steps_on_rows(new):
            assumed += (f"nobody has more than {self.most_rows_per_person} rows, as the data owner declared",)
        return replace(spent, unit=unit, assumptions=assumed)  # charges without any step do not tell a unit

    def summary(self) -> DatasetSummary:
        """The account in a line; one that cannot be counted here says that it is closed, and why."""
        try:
            (spent, rule, sentence), unit = self._spent_in_words(), self.unit
        except UnknownCharge as problem:
            spent, rule, sentence = None, None, f"closed. {problem}"
            unit = None if self.budget is None else self.budget_unit
        unfinished, most = sum(one.outcome is None for one in self.charges), self.most_rows_per_person
        return DatasetSummary(
            self.dataset, len(self.charges), unfinished, spent, self.budget, rule, sentence, unit, most
        )

    def _spent_in_words(self) -> tuple[Guarantee | None, str | None, str]:
        """What is spent and by which rule, in the budget's currency where it has an amount in that."""
        limit = "no budget is set" if self.budget is None else f"the budget is {self.budget}"
        if self.budget is not None and self.budget_unit is not Unit.ROW:
            limit += f", by {self.budget_unit.value}"
        if self.most_rows_per_person is not None:
            limit += f", nobody having more than {self.most_rows_per_person} rows"
        spent, rule, already = self.privacy_spent(), None, "nothing is spent"
        if spent is not None:
            requests = self._requests(spent.relation)
            currency = "epsilon" if self.budget is None else self.budget.currency
            if getattr(spent, currency) is None:
                currency = "epsilon"
            limit_there = self._limit_at(spent.delta)
            rule = _counted_by(requests, currency, spent.delta, limit_there)
            at = f" at delta {number(spent.delta)}" if spent.delta and currency == "epsilon" else ""
            already = f"{currency} {rounded_up(getattr(spent, currency))}{at}"
            already += f" ({spent.relation.words(spent.unit)}) is spent"
            already += f", by {rule}" if requests.later else ""
            if self.budget is not None and spent.relation is self.budget.relation:
                limit += "" if requests.fit(self.budget) else ", and nothing more is granted"
        return spent, rule, f"{already}; {limit}"

    def _limit_at(self, delta: float) -> float | None:
        """The budget's ε, where its δ is this one."""
        return self.budget.epsilon if self.budget is not None and self.budget.delta == delta else None

    def _requests(self, relation: Relation, new: Sequence[Event] = ()) -> Requests:
        """Past charges, and a new one, as requests for the account's unit under one relation."""
        unit = self._unit_with(new)
        past = [self._restated(charge.events, relation, unit, "is on record") for charge in self.charges]
        asked = self._restated(new, relation, unit, "was asked for")
        return Requests.of([*past, asked], self.declared_rule)

    def _restated(self, events: Iterable[Event], relation: Relation, unit: Unit, which: str) -> list[Event]:
        found: list[Event] = []
        for event in events:
            try:
                if unit is Unit.ROW:
                    found.append(for_rows(event, relation))
                else:
                    found.append(for_people(event, relation, self.most_rows_per_person))
            except RelationMismatch as problem:
                raise RelationMismatch(self._not_restated(event, unit, which, problem)) from None
        return found

    def _unit_with(self, new: Sequence[Event]) -> Unit:
        return self.unit or (new[0].unit if new else Unit.ROW)

    def _has_steps_on_rows(self, new: Sequence[Event]) -> bool:
        charged = (event for charge in self.charges for event in charge.events)
        return any(event.unit is Unit.ROW for event in chain(charged, new))

    def _not_restated(self, event: Event, unit: Unit, which: str, problem: RelationMismatch) -> str:
        """Why a step cannot be counted here, and what to do."""
        command = f"dptransfer ledger budget {_address(self.dataset)}"
        if event.unit is unit:
            return (
                f"A replace-one guarantee says nothing under add/remove; a replace-one step {which} for "
                f"{self.dataset}, whose account is to be stated under add/remove. Use methods planned under "
                f"add/remove, or ask the data owner for a replace-one budget: "
                f"{command} --relation replace-one ..."
            )
        why = (
            f"An account counts for one unit, and {self.dataset} counts by {unit.value}; a step by "
            f"{event.unit.value} {which}. {problem}"
        )
        if self.most_rows_per_person is not None and unit is Unit.PERSON:
            return why
        rows = self._has_steps_on_rows([event])
        declared = " --unit person" + " --most-rows-per-person N" * rows
        return f"{why} The data owner sets such a limit with: {command}{declared} ..."


def accounts(entries: Iterable[Entry]) -> dict[str, Account]:
    """Every account of a ledger, by id, in order of first mention."""
    filed: dict[str, list[Entry]] = {}
    for entry in entries:
        filed.setdefault(entry.dataset.id, []).append(entry)
    return {key: _account(own) for key, own in filed.items()}


def _account(entries: Sequence[Entry]) -> Account:
    charges = tuple(entry for entry in entries if isinstance(entry, Charge))
    account = Account(entries[0].dataset, charges)
    for limit in entries:
        if isinstance(limit, BudgetChange):
            rule = limit.rule or account.declared_rule
            most = limit.most_rows_per_person or account.most_rows_per_person
            account = Account(account.dataset, charges, limit.budget, rule, limit.unit, most)
    return account


_WORDS = {
    "one": "one request, composed exactly",
    "basic": "basic composition, the sum of each request's epsilon at a share of delta",
    "gaussian": "the rule 'gaussian' (the first request exactly, later ones in mu squared)",
    "renyi": "the rule 'renyi' (one order for all requests)",
}


def _counted_by(requests: Requests, currency: str, delta: float, limit: float | None) -> str:
    """Composition rule of these requests in words; for ε, the rule that gives the smallest at this δ."""
    if not requests.later:
        return _WORDS["one"]
    if currency != "epsilon":
        return f"the sum of {currency}" + (" squared" if currency == "mu" else "")
    by = requests.counted_by(delta, limit)
    return "the sum of epsilon" if by == "sum" else _WORDS[by]


def _refusal(account: Account, budget: Budget, past: Requests, whole: Requests, new: Sequence[Event]) -> str:
    """Message of a refusal: what the charge would bring the account to, what is allowed, and what to do."""
    dataset, unit = account.dataset, account.budget_unit
    currency, relation = budget.currency, budget.relation.words(unit)
    limit = f"{currency} {number(budget.amount)}"
    limit += f", delta {number(budget.delta)}" if budget.flavour == "approximate" else ""
    (reached, pure), (spent, _) = _amount(whole, budget), _amount(past, budget)
    already = "nothing is spent yet" if not past.first else "what is spent already has no such bound"
    if spent is not None:
        already = f"{currency} {rounded_up(spent)} is spent already"
    if reached is None and budget.flavour == "approximate":
        return (
            f"The budget of {dataset} is {limit} ({relation}), in which these steps have no bound when they "
            f"are asked for after others; {already}. Use a method with more noise, or ask for them first."
        )
    if reached is None:
        remedy = _command(account, budget, "epsilon", "1", budget.delta or QUOTED_DELTA)
        return (
            f"The budget of {dataset} is {limit} ({relation}), in which not all of these steps can be "
            f"stated; {already}. Use a method whose noise suits that kind of budget, or ask the data owner "
            f"for a budget in epsilon and delta, for example: {remedy}"
        )
    remedy = _command(account, budget, currency, rounded_up(reached), budget.delta)
    at = "" if pure or budget.flavour != "approximate" else f" at delta {number(budget.delta)}"
    by = _counted_by(whole, currency, budget.delta, budget.epsilon)
    rule = f", by {by}" if whole.later else ""
    hint = ""
    if rule and at and whole.rule == "gaussian" and not is_gaussian(whole.later[-1]):
        hint = " Steps other than Gaussian ones often cost less in the first request, or by the rule 'renyi'."
    if unit is Unit.ROW and new[0].unit is Unit.PERSON:
        hint += " Steps that protect persons count double for single rows; --unit person limits them as such."
    return (
        f"This release would bring {dataset} to {currency} {rounded_up(reached)}{at} "
        f"({relation}){rule}, above its budget of {limit}; {already}.{hint} "
        f"Lower the request, or ask the data owner to raise the budget with: {remedy}"
    )


def _amount(requests: Requests, budget: Budget) -> tuple[float | None, bool]:
    """What the requests cost in the budget's currency, None when it cannot be said; and whether δ is 0."""
    if not requests.first:
        return None, True
    try:
        total = requests.guarantee(budget.delta, budget.relation, budget.epsilon)
    except DPTransferError:
        return None, False
    amount: float | None = getattr(total, budget.currency)
    return (amount if amount is not None and isfinite(amount) else None), total.delta == 0


def _command(account: Account, budget: Budget, currency: str, amount: str, delta: float) -> str:
    # Without a word the command takes a δ above 0, which a pure limit has not.
    asked = f"--epsilon {amount}" if currency == "epsilon" else f"--budget {currency}={amount}"
    options = f"{asked} --delta {plain_exponents(repr(float(delta))) if delta else 0}"
    if budget.relation is not Relation.ADD_REMOVE:
        options += f" --relation {budget.relation.value}"
    if account.budget_unit is not Unit.ROW:
        options += f" --unit {account.budget_unit.value}"
    return f"dptransfer ledger budget {_address(account.dataset)} {options}"


def _address(dataset: DataSet) -> str:
    return dataset.short if dataset.name is None else shlex.quote(dataset.name)
