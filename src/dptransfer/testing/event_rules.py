"""Contract of events: files, words, restatements, and a price that the ledger asks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from dptransfer import privacy
from dptransfer.accounting import delta_of, epsilon_of, guarantee_of
from dptransfer.errors import ArgumentError, BudgetExceeded, DPTransferError
from dptransfer.ledger import Charge, Ledger
from dptransfer.testing.contract import require, require_refused, run_checks

_DELTA = 1e-5
_EPSILONS = (0.01, 0.1, 0.3, 1.0, 2.0, 4.0)
_HAIR = 1 + 1e-9


@dataclass(frozen=True)
class _Trial:
    event: privacy.Event
    reference: Callable[[float], float] | None
    tolerance: float


def check_event(
    event: privacy.Event,
    *,
    reference: Callable[[float], float] | None = None,
    tolerance: float = 0.01,
    skip: Collection[str] = (),
) -> None:
    """Raise `ContractBroken`, which is an AssertionError, unless an event keeps every rule of events.

    Args:
        event: one of its kind, under add/remove if the kind knows that relation.
        reference: δ as a function of ε, by an independent computation. The library's δ may not be below it,
            nor more than `tolerance` above, as a share.
        tolerance: see `reference`.
        skip: rules of `EVENT_CHECKS` that do not apply; say why where you skip one.
    """
    trial = _Trial(event, reference, tolerance)
    run_checks(trial, f"The event '{getattr(event, 'kind', event)}'", EVENT_CHECKS, skip)


def _price(*events: privacy.Event) -> float:
    return float(epsilon_of(list(events), _DELTA))


def _check_json(trial: _Trial) -> None:
    for event in _variants(trial.event):
        written = json.loads(json.dumps(privacy.event_to_dict(event)))
        require(privacy.event_from_dict(written) == event, "it is read back as another event")
        require(
            hash(privacy.event_from_dict(written)) == hash(event),
            "its hash is another after it was read back",
        )
        again = json.dumps(privacy.event_to_dict(privacy.event_from_dict(written)), sort_keys=True)
        require(again == json.dumps(written, sort_keys=True), "it is written differently the second time")
        for damage in ({"no such field": 1}, {"relation": "sideways"}, {"unit": "nobody"}):
            with require_refused(f"it is read although its JSON has {damage}", ArgumentError):
                privacy.event_from_dict({**written, **damage})


def _variants(event: privacy.Event) -> Iterator[privacy.Event]:
    """The event, and where the kind has them, the same for persons and under replace-one."""
    yield event
    restatements: tuple[Callable[[], privacy.Event], ...] = (
        lambda: privacy.for_people(event, event.relation, 2),
        event.under_replace_one,
    )
    for restate in restatements:
        try:
            yield restate()
        except ArgumentError:
            continue


def _check_words(trial: _Trial) -> None:
    said = (trial.event.words(), *trial.event.table_row())
    require(len(said) == 3 and all(isinstance(one, str) for one in said), "`table_row` is not two texts")
    require(said[0] and said[1], "it has no words")
    require(all("\n" not in one for one in said), "its words take several lines")


def _check_restatements(trial: _Trial) -> None:
    event, price = trial.event, _price(trial.event)
    require(privacy.for_group(event, 1) == event, "a group of one is not the event itself")
    require(_price(event.further(1)) <= price * _HAIR, "the same distance has another price")
    groups = [price, *(_price(privacy.for_group(event, size)) for size in (2, 3))]
    require(groups == sorted(groups) and groups[0] < groups[-1], "a larger group does not cost more")
    if event.relation is privacy.Relation.ADD_REMOVE:
        replaced = privacy.in_relation(event, privacy.Relation.REPLACE_ONE)
        require(replaced.relation is privacy.Relation.REPLACE_ONE, "restated, it keeps its relation")
        require(replaced.unit is event.unit, "restated under another relation, it has another unit")
        require(_price(replaced) >= price / _HAIR, "a replaced unit costs less than one that is added")
    if event.unit is privacy.Unit.ROW and event.relation is privacy.Relation.ADD_REMOVE:
        persons = privacy.for_people(event, event.relation, 3)
        require(persons.unit is privacy.Unit.PERSON, "restated for persons, it keeps its unit")
        require(
            _price(persons) >= _price(privacy.for_group(event, 3)) / _HAIR,
            "a person costs less than their rows",
        )
        try:
            rows = privacy.for_rows(persons, privacy.Relation.ADD_REMOVE)
        except ArgumentError:  # a step on samples of persons says nothing about rows
            return
        require(rows.unit is privacy.Unit.ROW, "restated for rows, it keeps its unit")
        require(_price(rows) >= _price(persons) / _HAIR, "one row more costs less than its person")


def _check_monotone(trial: _Trial) -> None:
    event = trial.event
    price = _price(event)
    require(0 < price < float("inf"), f"its epsilon at delta {_DELTA:g} is {price!r}")
    deltas = [delta_of([event], epsilon) for epsilon in _EPSILONS]
    require(all(0 <= delta <= 1 for delta in deltas), "a delta is no probability")
    require(deltas == sorted(deltas, reverse=True), "delta grows with epsilon")
    epsilons = [epsilon_of([event], delta) for delta in (1e-9, 1e-7, 1e-5, 1e-3)]
    require(epsilons == sorted(epsilons, reverse=True), "epsilon grows with delta")
    require(_price(event, event) > price, "two steps cost no more than one")
    stated = guarantee_of([event], _DELTA)
    same = (stated.relation, stated.unit) == (event.relation, event.unit)
    require(same, "a guarantee of it states another relation or unit")
    require(stated.epsilon >= price / _HAIR, "a guarantee of it states less than it costs")


def _check_noise_field(trial: _Trial) -> None:
    event = trial.event
    if event.inner():  # the noise is that of the steps inside
        return
    amount = getattr(event, event.noise_field)
    prices = [_price(replace(event, **{event.noise_field: amount * factor})) for factor in (0.5, 1, 2)]
    if event.noise_field != "epsilon":
        prices.reverse()
    falls = prices == sorted(set(prices))
    require(falls, f"its price does not fall as `{event.noise_field}` says more noise")


def _check_reference(trial: _Trial) -> None:
    if trial.reference is None:
        return
    for epsilon in _EPSILONS:
        own, known = delta_of([trial.event], epsilon), trial.reference(epsilon)
        require(own >= known / _HAIR - 1e-15, f"at epsilon {epsilon:g} delta is {own:.6g}, below {known:.6g}")
        is_near = own <= known * (1 + trial.tolerance) + 1e-12
        require(is_near, f"at epsilon {epsilon:g} delta is {own:.6g}, far above {known:.6g}")


def _check_ledger(trial: _Trial) -> None:
    event = trial.event
    price = _price(event)
    both = _price(event, event)
    ledger = Ledger.in_memory()
    budget = privacy.Budget(epsilon=(price + both) / 2, delta=_DELTA, relation=event.relation)
    ledger.set_budget("a", budget, unit=event.unit)
    ledger.charge("a", [event], label="first")
    charged = [entry.events for entry in ledger.history("a") if isinstance(entry, Charge)]
    require(charged == [(event,)], "the ledger reads another event than it was charged for")
    spent = ledger.privacy_spent("a")
    require(spent is not None and spent.epsilon >= price / _HAIR, "the ledger counts less than its price")
    with require_refused("the ledger grants two steps from a budget for one", BudgetExceeded):
        ledger.charge("a", [event], label="second")
    too_little = privacy.Budget(epsilon=0.9 * price, delta=_DELTA, relation=event.relation)
    ledger.set_budget("b", too_little, unit=event.unit)
    with require_refused("the ledger grants a step from a budget that does not cover it", DPTransferError):
        ledger.charge("b", [event], label="too dear")


EVENT_CHECKS: Mapping[str, Callable[[_Trial], None]] = {
    "as JSON it reads back as it was": _check_json,
    "its words are one line each": _check_words,
    "more of it costs more": _check_monotone,
    "restated for more it costs no less": _check_restatements,
    "more noise costs less": _check_noise_field,
    "its price agrees with the reference": _check_reference,
    "the ledger asks for its price": _check_ledger,
}
"""Each rule, in words, with the function that raises where an event breaks it."""
