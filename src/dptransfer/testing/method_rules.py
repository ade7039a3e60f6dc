"""What every method must keep; `check_method` tries all of it on small data."""

from __future__ import annotations

import gc
import tempfile
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from dptransfer.accounting import epsilon_of, fits, guarantee_of
from dptransfer.errors import ArgumentError, BudgetError, BudgetExceeded
from dptransfer.ledger import Ledger
from dptransfer.noise import SeededNoise
from dptransfer.privacy import GaussianEvent, SampledGaussianEvent, Unit
from dptransfer.release import read_release
from dptransfer.testing.contract import ContractBroken, require, run_checks
from dptransfer.testing.person_rules import PEOPLE_CHECKS
from dptransfer.testing.sample_data import (
    CLASSES,
    NAME,
    FailingNoise,
    RecordedAnswers,
    budget_for,
    fit_sample,
    fresh_rows,
    has_steps,
    is_same_release,
    noting_releases,
    reads_in_order,
    relations_of,
    sample_data_for,
    without_sampling,
)

_DELTA = 1e-5


def check_method(method: Any, *, skip: Collection[str] = ()) -> None:
    """Raise `ContractBroken`, which is an AssertionError, unless a method keeps every rule of methods.

    It is fitted some sixty times to thirty examples, so give it settings that make that quick.

    Args:
        method: a class that derives from `EmbeddingMethod` or `ImageMethod`, or an instance with settings.
        skip: rules of `METHOD_CHECKS` that do not apply; say why where you skip one.
    """
    made = method() if isinstance(method, type) else method
    run_checks(made, f"The method '{made.name}'", METHOD_CHECKS, skip)


def _check_refused_budget(method: Any) -> None:
    ledger, data = Ledger.in_memory(), sample_data_for(method).private()
    ledger.set_budget(NAME, budget_for(method, epsilon=1e-3, delta=1e-9))
    try:
        fit_sample(method, data, ledger=ledger)
    except BudgetExceeded:
        require(data.reads == 0, "private examples were read")
    else:
        require(not has_steps(method), "the ledger did not refuse")
        require(data.reads <= 1, "private examples were read")  # once, to compare them with public ones


def _check_reads_after_charge(method: Any) -> None:
    ledger, data = Ledger.in_memory(), sample_data_for(method).private()
    charge, seen = ledger.charge, []

    def watch(*given: Any, **named: Any) -> Any:
        seen.append(data.reads)
        receipt = charge(*given, **named)
        seen.append(data.reads)
        return receipt

    with mock.patch.object(ledger, "charge", watch):
        fit_sample(method, data, ledger=ledger)
    require(len(seen) == 2, "the ledger was not charged once")
    before, by_the_charge = seen
    require(before == 0, "private examples were read before the charge")
    require(
        by_the_charge <= 2, "the charge reads more than it takes to recognise data, and images with content"
    )
    require(
        (data.reads > by_the_charge) == has_steps(method),
        "examples are read without a step, or a step reads no example",
    )


def _check_plan(method: Any) -> None:
    here = sample_data_for(method)
    data = here.private()
    for relation in relations_of(method):
        planned = method.plan(here.facts, budget_for(method, relation), here.pool)
        again = method.plan(data.facts, budget_for(method, relation), here.pool)
        require(planned.events == again.events, "two plans from the same facts have other events")
        require(planned.guarantee == again.guarantee, "two plans from the same facts promise otherwise")
    require(data.reads == 0, "private examples were read by a plan")


def _check_events(method: Any) -> None:
    here = sample_data_for(method)
    for relation in relations_of(method):
        ledger, budget = Ledger.in_memory(), budget_for(method, relation)
        model = fit_sample(method, ledger=ledger, budget=budget)
        charges = [entry for entry in ledger.history() if hasattr(entry, "events")]
        require(len(charges) == 1, "the ledger does not have one charge")
        plan = method.plan(here.private().facts, budget, here.pool)
        require(
            charges[0].events == model.events == plan.events, "events planned, charged and released differ"
        )
        stated = {*(event.relation for event in model.events), model.guarantee.relation}
        require(stated == {relation}, "an event or the guarantee states another relation than the budget")


def _check_ledger_entries(method: Any) -> None:
    ledger = Ledger.in_memory()
    fit_sample(method, ledger=ledger)
    kinds = [type(entry).__name__ for entry in ledger.history()]
    require(kinds == ["Charge", "ClosingEntry"], f"the ledger's entries are {', '.join(kinds)}")
    first: Any = ledger.history()[0]
    require(first.outcome == "released", f"the charge is closed as '{first.outcome}'")


def _check_failed_run(method: Any) -> None:
    ledger, data = Ledger.in_memory(), sample_data_for(method).private()
    try:
        fit_sample(method, data, ledger=ledger, noise=FailingNoise())
    except OSError:
        entries: list[Any] = list(ledger.history())
        require(len(entries) == 2, "a failed run leaves other entries than a charge and its closing")
        charge, closing = entries
        require(charge.outcome == closing.outcome == "failed", "a failed run is not closed as 'failed'")
        require(charge.detail == "OSError", "a failed run does not say by which error")
        require(ledger.privacy_spent(NAME) is not None, "a failed run spent nothing")
    else:
        require(not has_steps(method), "a failure of the noise source was swallowed")
        require(data.reads <= 1, "private examples were read without a step")


def _check_guarantee(method: Any) -> None:
    """In every currency that can pay for the method; where none can, it says so before anything is read."""
    here = sample_data_for(method)
    amounts: tuple[dict[str, float], ...] = (
        {"epsilon": 1.0, "delta": _DELTA},
        {"epsilon": 0.7},
        {"rho": 0.1, "delta": 1e-6},
        {"mu": 0.5, "delta": 1e-6},
    )
    for relation in relations_of(method):
        for amount in amounts:
            budget = budget_for(method, relation, **amount)
            try:
                plan = method.plan(here.facts, budget, here.pool)
            except BudgetError:
                events = method.plan(here.facts, budget_for(method, relation), here.pool).events
                noisy = any(isinstance(event, GaussianEvent | SampledGaussianEvent) for event in events)
                require(
                    (budget.flavour, noisy) in {("pure", True), ("gdp", False)},
                    f"a budget of {budget} is refused, which can pay for such steps",
                )
                continue
            require(fits(plan.events, budget), f"its plan costs more than {budget}")
            told = guarantee_of(plan.events, budget.delta, plan.guarantee.assumptions, relation=relation)
            require(plan.guarantee == told, "its plan promises another guarantee than its events give")
            if not plan.events:
                require((plan.guarantee.epsilon, plan.guarantee.delta) == (0.0, 0.0), "no step has a price")
            elif budget.epsilon is not None:
                spent = plan.guarantee.epsilon / budget.epsilon
                require(0.99 <= spent <= 1, f"it spends {spent:.3g} of epsilon: not all, or too much")
                require(plan.guarantee.delta <= budget.delta, "it promises a larger delta than the budget's")


def _check_seed(method: Any) -> None:
    require(
        is_same_release(fit_sample(method, seed=5), fit_sample(method, seed=5)),
        "two fits with noise of one seed release something else",
    )


def _check_order(method: Any) -> None:
    """Where nothing is drawn by position: samples are of all rows, and there is one part.

    Teachers on images look at theirs one after the other, so there the order may matter.
    """
    if reads_in_order(method):
        return
    here = sample_data_for(method)
    x, y = here.ordinary(7)
    method = without_sampling(method)
    straight = fit_sample(method)
    for order in (np.arange(len(x))[::-1], np.random.default_rng(3).permutation(len(x))):
        turned = fit_sample(method, here.private(x[order], y[order]))
        require(is_same_release(straight, turned), "the same rows in another order give another release")


def _check_odd_data(method: Any) -> None:
    shapes = {name: array.shape for name, array in fit_sample(method).weights.items()}
    here = sample_data_for(method)
    for name, (x, y) in here.odd().items():
        try:
            model = fit_sample(method, here.private(x, y))
        except Exception as problem:
            raise ContractBroken(f"{name}: {type(problem).__name__}: {problem}") from problem
        found = {name: array.shape for name, array in model.weights.items()}
        require(found == shapes, f"{name}: the released arrays have other shapes")
        require(
            np.isfinite(model.predict_proba(fresh_rows(model))).all(), f"{name}: scores that are no numbers"
        )
        require(
            set(model.predict(fresh_rows(model))) <= set(CLASSES), f"{name}: a class that was not declared"
        )


def _check_private_arrays(method: Any) -> None:
    here = sample_data_for(method)
    x, y = here.ordinary(7)
    data = here.private(x, y)
    model = fit_sample(method, data)
    model.predict(fresh_rows(model))
    held = list(_reachable(model))
    require(not any(item is data for item in held), "the release holds the private data")
    traces = [rows.astype(np.float64) for rows in here.traces(method, x, model)]
    traces += [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in traces]
    for array in [item for item in held if isinstance(item, np.ndarray)] + list(model.weights.values()):
        own = (data._examples, data.labels)
        require(
            not any(isinstance(one, np.ndarray) and np.shares_memory(array, one) for one in own),
            "an array of the release is a view of private examples or labels",
        )
        for rows in traces:
            if array.ndim and array.shape[-1] == rows.shape[1] and array.dtype.kind in "biuf":
                flat = array.reshape(-1, rows.shape[1]).astype(np.float64)
                nearest = np.abs(flat[:, None] - rows).max(axis=2).min(initial=1.0)
                require(nearest > 1e-6, "an array of the release has a private row in it")
    counts = np.bincount(y, minlength=len(CLASSES))
    for array in model.weights.values():
        require(array.shape != counts.shape or (array != counts).any(), "the exact class sizes are released")


def _reachable(root: object) -> Iterable[Any]:
    """Every object that something holds on to, through attributes and containers."""
    seen: dict[int, Any] = {}
    queue: list[Any] = [root]
    while queue:
        item = queue.pop()
        if id(item) in seen or isinstance(item, type | types.ModuleType | types.FunctionType):
            continue
        seen[id(item)] = item
        queue.extend(gc.get_referents(item))
    return seen.values()


def _check_saving(method: Any) -> None:
    model = fit_sample(method)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model", unsafe_for_publication=True)
        again = read_release(Path(folder) / "model")
        require(is_same_release(model, again), "the loaded model has other arrays or events")
        new = fresh_rows(model)
        require((model.predict(new) == again.predict(new)).all(), "the loaded model predicts other classes")
        require(
            (model.predict_proba(new) == again.predict_proba(new)).all(), "the loaded model has other scores"
        )
        require(again.guarantee == model.guarantee, "the loaded model has another guarantee")


def _check_noisy_answers(method: Any) -> None:
    """Answers of one run are replayed in a run on other private data: what is released must be the same."""
    here = sample_data_for(method)
    first = RecordedAnswers(5)
    model = fit_sample(method, noise=first)
    require(bool(first.answers) == has_steps(method), "a step asks for no answer, or an answer has no step")
    x, y = here.ordinary(8)
    other = here.private(x[::-1].copy(), (y[::-1] + 1) % len(CLASSES))
    again = fit_sample(method, other, noise=RecordedAnswers(5, first.answers))
    same = is_same_release(model, again) and model.provenance.notes == again.provenance.notes
    same = same and model.provenance.prototypes == again.provenance.prototypes
    require(same, "with the same noisy answers, other private data give another release")


def _check_released_price(method: Any) -> None:
    """Mechanisms note what they release: all of that together must cost what was planned, and no more.

    Parts of joint rounds cost less together than one by one, so they are left to `JointRounds`.
    """
    for relation in relations_of(method):
        noted: list[Any] = []

        def note(step: Any, *_: Any, to: list[Any] = noted) -> None:
            to.append(step)

        budget = budget_for(method, relation)
        with noting_releases(note) as ledger:
            model = fit_sample(method, budget=budget, noise=SeededNoise(1), ledger=ledger)
        if noted and not any(getattr(step, "is_part", False) for step in noted):
            paid = epsilon_of(model.events, budget.delta)
            spent = epsilon_of([step.event for step in noted], budget.delta)
            require(spent <= paid * (1 + 1e-6), f"its mechanisms spent epsilon {spent:.6g} of {paid:.6g}")


def _check_units(method: Any) -> None:
    require(
        method.units and all(isinstance(unit, Unit) for unit in method.units), "`units` names no unit at all"
    )
    require(Unit.PERSON in method.units or method.rows_only, "`rows_only` does not say why persons are not")
    for name in ("takes", "takes_public"):
        require(isinstance(getattr(method, name, None), type), f"`{name}` is not a kind of data")
    try:
        fit_sample(method, object())
    except ArgumentError:
        return
    require(False, "data of another kind are taken")


METHOD_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "a refused budget leaves the rows unread": _check_refused_budget,
    "no row is read before the charge": _check_reads_after_charge,
    "a plan needs the declared facts alone": _check_plan,
    "the events charged are the events released": _check_events,
    "the ledger gets one charge and one closing entry": _check_ledger_entries,
    "a run that raises has spent and says that it failed": _check_failed_run,
    "the guarantee follows from the events and fits the budget": _check_guarantee,
    "the same seed gives the same release": _check_seed,
    "the order of the rows does not matter": _check_order,
    "odd data sets work like any other": _check_odd_data,
    "the release holds no private array": _check_private_arrays,
    "what is released follows from noisy answers alone": _check_noisy_answers,
    "mechanisms release what was paid for": _check_released_price,
    "saved and loaded it predicts the same": _check_saving,
    "its units and kinds of data are declared": _check_units,
    **PEOPLE_CHECKS,
}
"""Each rule, in words, with the function that raises where a method breaks it."""
