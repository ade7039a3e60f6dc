"""Fit methods to sample data, with seeded noise and a ledger in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import row_shares
from dptransfer.methods import base
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation
from dptransfer.testing.contract import require
from dptransfer.testing.sample_data import sample_data_for


def relations_of(method: Any) -> tuple[Relation, ...]:
    """The relations under which the method can be planned for the sample data."""
    data = sample_data_for(method)
    found, refused = [], "no relation was tried"
    for relation in Relation:
        try:
            method.plan(data.facts, Budget(epsilon=1.0, delta=1e-5, relation=relation), data.pool)
        except ArgumentError as refusal:
            refused = str(refusal)
        else:
            found.append(relation)
    require(found, f"it can be planned under no relation ({refused})")
    return tuple(found)


def budget_for(method: Any, relation: Relation | None = None, **amount: float) -> Budget:
    """A budget of ε = 1 and δ = 1e-5, or of this amount, under a relation that the method knows."""
    return Budget(**(amount or {"epsilon": 1.0, "delta": 1e-5}), relation=relation or relations_of(method)[0])


def has_steps(method: Any) -> bool:
    """Whether its plan has a noisy step; without one it may not look at a private example."""
    data = sample_data_for(method)
    return bool(method.plan(data.facts, budget_for(method), data.pool).events)


def reads_in_order(method: Any) -> bool:
    """Whether its teachers look at their examples one after the other: it has `epochs`."""
    return hasattr(method, "epochs")


def without_sampling(method: Any) -> Any:
    """The same method without draws that go by the position of a row or a person."""
    whole = {"sampling_rate": 1.0, "teachers": 1}
    return replace(method, **{name: value for name, value in whole.items() if hasattr(method, name)})


@contextmanager
def noting_releases(note: Callable[..., None]) -> Iterator[Ledger]:
    """Call `note` with what mechanisms release once the ledger, which is given, is charged.

    Before the charge there is nothing private: what runs there runs on made-up data.
    """
    ledger = Ledger.in_memory()
    charge, charged = ledger.charge, []

    def charge_and_begin(*given: Any, **named: Any) -> Any:
        receipt = charge(*given, **named)
        charged.append(receipt)
        return receipt

    def note_if_charged(*given: Any) -> None:
        if charged:
            note(*given)

    with (
        mock.patch.object(ledger, "charge", charge_and_begin),
        mock.patch.object(row_shares, "note", note_if_charged),
    ):
        yield ledger


def fit_sample(
    method: Any, data: Any = None, *, seed: int = 1, ledger: Any = None, noise: Any = None, budget: Any = None
) -> Any:
    """The model of a method that was fitted to sample data, or to those given.

    Rules look at this run: the trial on made-up examples before it is left out.
    """
    here = sample_data_for(method)
    with mock.patch.object(base, "require_rehearsed"):
        return method.fit(
            here.private() if data is None else data,
            here.pool,
            budget=budget_for(method) if budget is None else budget,
            ledger=Ledger.in_memory() if ledger is None else ledger,
            noise=SeededNoise(seed) if noise is None else noise,
        )
