"""Contract of methods; `check_method` tries all of it on small data."""

from __future__ import annotations

import gc
import tempfile
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import numpy as np

from dptransfer.accounting import epsilon_of, fits, guarantee_of
from dptransfer.base.types import AnyArray, Integers, Labels, People
from dptransfer.data import PrivateData
from dptransfer.errors import ArgumentError, BudgetError, BudgetExceeded
from dptransfer.ledger import Ledger, Receipt
from dptransfer.mechanisms import Step
from dptransfer.mechanisms.mechanism import exact_answer
from dptransfer.methods import PrivateMethod
from dptransfer.noise import SeededNoise
from dptransfer.privacy import GaussianEvent, Relation, SampledGaussianEvent, Unit
from dptransfer.queries.query import L2Query, ScoreQuery
from dptransfer.release import PrivateClassifier, read_release
from dptransfer.testing import sample_data as samples
from dptransfer.testing.contract import ContractBroken, require, require_refused, run_checks

AnyQuery: TypeAlias = L2Query | ScoreQuery
_DELTA = 1e-5


def check_method(method: PrivateMethod | type[PrivateMethod], *, skip: Collection[str] = ()) -> None:
    """Raise `ContractBroken`, which is an AssertionError, unless a method keeps every rule of methods.

    It is fitted some sixty times to thirty examples, so give it settings that make that quick.

    Args:
        method: a class that derives from `EmbeddingMethod` or `ImageMethod`, or an instance with settings.
        skip: rules of `METHOD_CHECKS` that do not apply; say why where you skip one.
    """
    made = method() if isinstance(method, type) else method
    run_checks(made, f"The method '{made.name}'", METHOD_CHECKS, skip)


def _check_refused_budget(method: PrivateMethod) -> None:
    ledger, data = Ledger.in_memory(), samples.sample_data_for(method).private()
    ledger.set_budget(samples.NAME, samples.budget_for(method, epsilon=1e-3, delta=1e-9))
    try:
        samples.fit_sample(method, data, ledger=ledger)
    except BudgetExceeded:
        require(data.reads == 0, "private examples were read")
    else:
        require(not samples.has_steps(method), "the ledger did not refuse")
        require(data.reads <= 1, "private examples were read")  # once, to compare them with public ones


def _check_reads_after_charge(method: PrivateMethod) -> None:
    ledger, data = Ledger.in_memory(), samples.sample_data_for(method).private()
    charge, seen = ledger.charge, []

    def watch(*given: Any, **named: Any) -> Receipt:
        seen.append(data.reads)
        receipt = charge(*given, **named)
        seen.append(data.reads)
        return receipt

    with mock.patch.object(ledger, "charge", watch):
        samples.fit_sample(method, data, ledger=ledger)
    require(len(seen) == 2, "the ledger was not charged once")
    before, by_the_charge = seen
    require(before == 0, "private examples were read before the charge")
    require(by_the_charge <= 2, "the charge reads more than it takes to recognise data and their content")
    looked = data.reads > by_the_charge
    require(
        looked == samples.has_steps(method), "examples are read without a step, or a step reads no example"
    )


def _check_plan(method: PrivateMethod) -> None:
    sample = samples.sample_data_for(method)
    data = sample.private()
    for relation in samples.relations_of(method):
        planned = method.plan(sample.facts, samples.budget_for(method, relation), sample.pool)
        again = method.plan(data.facts, samples.budget_for(method, relation), sample.pool)
        require(planned.events == again.events, "two plans from the same facts have other events")
        require(planned.guarantee == again.guarantee, "two plans from the same facts promise otherwise")
    require(data.reads == 0, "private examples were read by a plan")


def _check_events(method: PrivateMethod) -> None:
    sample = samples.sample_data_for(method)
    for relation in samples.relations_of(method):
        ledger, budget = Ledger.in_memory(), samples.budget_for(method, relation)
        model = samples.fit_sample(method, ledger=ledger, budget=budget)
        charges = samples.charges_in(ledger)
        require(len(charges) == 1, "the ledger does not have one charge")
        plan = method.plan(sample.private().facts, budget, sample.pool)
        same = charges[0].events == model.events == plan.events
        require(same, "events planned, charged and released differ")
        stated = {*(event.relation for event in model.events), model.guarantee.relation}
        require(stated == {relation}, "an event or the guarantee states another relation than the budget")


def _check_ledger_entries(method: PrivateMethod) -> None:
    ledger = Ledger.in_memory()
    samples.fit_sample(method, ledger=ledger)
    _require_closed(ledger, "released")


def _check_failed_run(method: PrivateMethod) -> None:
    ledger, data = Ledger.in_memory(), samples.sample_data_for(method).private()
    try:
        samples.fit_sample(method, data, ledger=ledger, noise=samples.FailingNoise())
    except OSError:
        _require_closed(ledger, "failed")
        require(samples.charges_in(ledger)[0].detail == "OSError", "a failed run does not say by which error")
        require(ledger.privacy_spent(samples.NAME) is not None, "a failed run spent nothing")
    else:
        require(not samples.has_steps(method), "a failure of the noise source was swallowed")
        require(data.reads <= 1, "private examples were read without a step")


def _require_closed(ledger: Ledger, outcome: str) -> None:
    """Raise unless the ledger has one charge, which is closed with this outcome."""
    found = [(type(entry).__name__, getattr(entry, "outcome", None)) for entry in ledger.history()]
    require(found == [("Charge", outcome), ("ClosingEntry", outcome)], f"the ledger's entries are {found}")


def _check_guarantee(method: PrivateMethod) -> None:
    """In every currency that can pay for the method; where none can, it says so before anything is read."""
    sample = samples.sample_data_for(method)
    amounts: tuple[dict[str, float], ...] = (
        {"epsilon": 1.0, "delta": _DELTA},
        {"epsilon": 0.7},
        {"rho": 0.1, "delta": 1e-6},
        {"mu": 0.5, "delta": 1e-6},
    )
    for relation, amount in product(samples.relations_of(method), amounts):
        budget = samples.budget_for(method, relation, **amount)
        try:
            plan = method.plan(sample.facts, budget, sample.pool)
        except BudgetError:
            events = method.plan(sample.facts, samples.budget_for(method, relation), sample.pool).events
            noisy = any(isinstance(event, GaussianEvent | SampledGaussianEvent) for event in events)
            unpayable = (budget.flavour, noisy) in {("pure", True), ("gdp", False)}
            require(unpayable, f"a budget of {budget} is refused, which can pay for such steps")
            continue
        require(fits(plan.events, budget), f"its plan costs more than {budget}")
        stated = guarantee_of(plan.events, budget.delta, plan.guarantee.assumptions, relation=relation)
        require(plan.guarantee == stated, "its plan promises another guarantee than its events give")
        if not plan.events:
            require((plan.guarantee.epsilon, plan.guarantee.delta) == (0.0, 0.0), "no step has a price")
        elif budget.epsilon is not None:
            spent = plan.guarantee.epsilon / budget.epsilon
            require(0.99 <= spent <= 1, f"it spends {spent:.3g} of epsilon: not all, or too much")
            require(plan.guarantee.delta <= budget.delta, "it promises a larger delta than the budget's")


def _check_seed(method: PrivateMethod) -> None:
    same = samples.is_same_release(samples.fit_sample(method, seed=5), samples.fit_sample(method, seed=5))
    require(same, "two fits with noise of one seed release something else")


def _check_order(method: PrivateMethod) -> None:
    """Where nothing is drawn by position: samples are of all rows, and there is one part.

    Teachers on images look at theirs one after the other, so there the order may matter.
    """
    if samples.reads_in_order(method):
        return
    sample = samples.sample_data_for(method)
    x, y = sample.ordinary(7)
    method = samples.without_sampling(method)
    straight = samples.fit_sample(method)
    for order in (np.arange(len(x))[::-1], np.random.default_rng(3).permutation(len(x))):
        turned = samples.fit_sample(method, sample.private(x[order], y[order]))
        require(
            samples.is_same_release(straight, turned), "the same rows in another order give another release"
        )


def _check_odd_data(method: PrivateMethod) -> None:
    """Noisy answers that are paid for may decide which map is in front of a head, and so its width."""

    def lengths(model: PrivateClassifier) -> dict[str, tuple[int, ...]]:
        arrays = model.weights.items()
        return {name: array.shape[:1] for name, array in arrays if not name.startswith("features.")}

    expected = lengths(samples.fit_sample(method))
    sample = samples.sample_data_for(method)
    for name, (x, y) in sample.odd().items():
        try:
            model = samples.fit_sample(method, sample.private(x, y))
        except Exception as problem:
            raise ContractBroken(f"{name}: {type(problem).__name__}: {problem}") from problem
        rows = samples.fresh_rows(model)
        require(lengths(model) == expected, f"{name}: the released arrays are of other classes")
        require(np.isfinite(model.predict_proba(rows)).all(), f"{name}: scores that are no numbers")
        require(set(model.predict(rows)) <= set(samples.CLASSES), f"{name}: a class that was not declared")


def _check_private_arrays(method: PrivateMethod) -> None:
    sample = samples.sample_data_for(method)
    x, y = sample.ordinary(7)
    data = sample.private(x, y)
    model = samples.fit_sample(method, data)
    model.predict(samples.fresh_rows(model))
    held = list(_reachable(model))
    require(not any(item is data for item in held), "the release holds the private data")
    own = [one for one in (data._examples, data.labels) if isinstance(one, np.ndarray)]
    traces = [rows.astype(np.float64) for rows in sample.traces(method, x, model)]
    traces += [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in traces]
    for array in [item for item in held if isinstance(item, np.ndarray)] + list(model.weights.values()):
        is_view = any(np.shares_memory(array, one) for one in own)
        require(not is_view, "an array of the release is a view of private examples or labels")
        for rows in traces:
            if array.ndim and array.shape[-1] == rows.shape[1] and array.dtype.kind in "biuf":
                flat = array.reshape(-1, rows.shape[1]).astype(np.float64)
                nearest = np.abs(flat[:, None] - rows).max(axis=2).min(initial=1.0)
                require(nearest > 1e-6, "an array of the release has a private row in it")
    counts = np.bincount(y, minlength=len(samples.CLASSES))
    for array in model.weights.values():
        require(array.shape != counts.shape or (array != counts).any(), "the exact class sizes are released")


def _reachable(root: object) -> Iterable[object]:
    """Every object that something holds on to, through attributes and containers."""
    seen: dict[int, object] = {}
    queue = [root]
    while queue:
        item = queue.pop()
        if id(item) in seen or isinstance(item, type | types.ModuleType | types.FunctionType):
            continue
        seen[id(item)] = item
        queue.extend(gc.get_referents(item))
    return seen.values()


def _check_saving(method: PrivateMethod) -> None:
    model = samples.fit_sample(method)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model", unsafe_for_publication=True)
        again = read_release(Path(folder) / "model")
        require(samples.is_same_release(model, again), "the loaded model has other arrays or events")
        rows = samples.fresh_rows(model)
        require((model.predict(rows) == again.predict(rows)).all(), "the loaded model predicts other classes")
        same = (model.predict_proba(rows) == again.predict_proba(rows)).all()
        require(same, "the loaded model has other scores")
        require(again.guarantee == model.guarantee, "the loaded model has another guarantee")


def _check_noisy_answers(method: PrivateMethod) -> None:
    """Answers of one run are replayed in a run on other private data: what is released must be the same."""
    sample = samples.sample_data_for(method)
    first = samples.RecordedAnswers(5)
    model = samples.fit_sample(method, noise=first)
    require(
        bool(first.answers) == samples.has_steps(method),
        "a step asks for no answer, or an answer has no step",
    )
    x, y = sample.ordinary(8)
    other = sample.private(x[::-1].copy(), (y[::-1] + 1) % len(samples.CLASSES))
    again = samples.fit_sample(method, other, noise=samples.RecordedAnswers(5, first.answers))
    same = samples.is_same_release(model, again) and model.provenance.notes == again.provenance.notes
    same = same and model.provenance.prototypes == again.provenance.prototypes
    require(same, "with the same noisy answers, other private data give another release")


def _check_released_price(method: PrivateMethod) -> None:
    """Mechanisms note what they release: all of that together must cost what was planned, and no more.

    Parts of joint rounds cost less together than one by one, so they are left to `JointRounds`.
    """
    for relation in samples.relations_of(method):
        noted: list[Step] = []
        budget = samples.budget_for(method, relation)
        with samples.noting_releases(lambda step, *_, to=noted: to.append(step)) as ledger:
            model = samples.fit_sample(method, budget=budget, noise=SeededNoise(1), ledger=ledger)
        if noted and not any(getattr(step, "is_part", False) for step in noted):
            paid = epsilon_of(model.events, budget.delta)
            spent = epsilon_of([step.event for step in noted], budget.delta)
            require(spent <= paid * (1 + 1e-6), f"its mechanisms spent epsilon {spent:.6g} of {paid:.6g}")


def _check_units(method: PrivateMethod) -> None:
    named = method.units and all(isinstance(unit, Unit) for unit in method.units)
    require(named, "`units` names no unit at all")
    require(Unit.PERSON in method.units or method.rows_only, "`rows_only` does not say why persons are not")
    for name in ("takes", "takes_public"):
        require(isinstance(getattr(method, name, None), type), f"`{name}` is not a kind of data")
    other: Any = object()
    with require_refused("data of another kind are taken", ArgumentError):
        samples.fit_sample(method, other)


def _exact_answers(
    method: PrivateMethod, data: PrivateData
) -> list[tuple[AnyQuery, Integers, Integers | None]]:
    """What mechanisms are asked in a fit, with the exact answer, and with that without the loud person.

    The last is None for ballots, of which nobody knows whose they are.
    """
    found: list[tuple[AnyQuery, Integers, Integers | None]] = []

    def note(_: Step, query: AnyQuery, rows: AnyArray, labels: Labels, people: People | None = None) -> None:
        others = None
        if people is not None:
            rest = people != samples.LOUD_PERSON
            others = _exact(query, rows[rest], labels[rest], people[rest])
        found.append((query, _exact(query, rows, labels, people), others))

    with samples.noting_releases(note) as ledger:
        model = samples.fit_sample(method, data, noise=samples.NoNoise(), ledger=ledger)
    require(bool(found) == bool(model.events), "an event has no mechanism behind it")
    return found


def _exact(query: AnyQuery, rows: AnyArray, labels: Labels, people: People | None) -> Integers:
    """The exact answer, of all candidates where they are scored in pieces."""
    if hasattr(query, "pool_scores"):
        scored = query.pool_scores(rows, labels, people)
        return np.asarray(scored.scores(slice(0, len(scored))))
    return exact_answer(query, rows, labels, people)


def share_moved(query: AnyQuery, answer: Integers, other: Integers) -> float:
    """How far apart two answers are, as a share of how far one unit more may move them."""
    require(answer.shape == other.shape, "the answer has another shape without a person")
    gap = (answer - other).astype(np.float64)
    if hasattr(query, "score_range"):  # what a person adds, summed over the classes that they touch
        require(gap.min(initial=0) >= 0, "a person more lowers a score")
        return float(gap.max(axis=0).sum() / query.score_range)
    return float(np.linalg.norm(gap) / query.grid / query.l2_sensitivity(Relation.ADD_REMOVE))


def person_shares(method: PrivateMethod, kind: str, **declared: object) -> list[float]:
    """How far the person with forty rows moves each exact answer of a fit, as a share of how far they may."""
    x, y, ids = samples.add_loud_person(method, kind)
    whole, less = (slice(None), slice(len(x) - samples.LOUD))
    data, without = (
        samples.private_with_people(method, ids[n], x[n], y[n], **declared) for n in (whole, less)
    )
    # A method may tell its mechanisms other people than it was given: so also compare two fits.
    seen, others = (_exact_answers(method, given) for given in (data, without))
    require(bool(seen) == bool(others), "without a person it answers nothing")
    pairs = [(query, answer, others[0][1]) for query, answer, _ in seen[:1]] + seen
    return [share_moved(query, answer, other) for query, answer, other in pairs if other is not None]


def _check_odd_people(method: PrivateMethod) -> None:
    if Unit.PERSON not in method.units:
        return
    for name, ids in samples.ODD_PEOPLE.items():
        ledger = Ledger.in_memory()
        model = samples.fit_sample(method, samples.private_with_people(method, ids), ledger=ledger)
        units = {model.guarantee.unit, *(event.unit for event in model.events)}
        require(units == {Unit.PERSON}, f"{name}: an event or the guarantee protects another unit")
        require(samples.charges_in(ledger)[0].events == model.events, f"{name}: other events were charged")
        scores = model.predict_proba(samples.fresh_rows(model))
        require(np.isfinite(scores).all(), f"{name}: scores that are no numbers")


def _check_refused_people(method: PrivateMethod) -> None:
    if Unit.PERSON in method.units:
        return
    ledger = Ledger.in_memory()
    with require_refused("data about persons were taken", ArgumentError):
        samples.fit_sample(
            method,
            samples.private_with_people(method, samples.EACH_OF_TEN, class_counts=[14, 9, 7]),
            ledger=ledger,
        )
    require(ledger.history() == [], "data about persons were charged before they were refused")


def _check_loud_person(method: PrivateMethod) -> None:
    if Unit.PERSON not in method.units:
        return
    for kind in samples.LOUD_KINDS:
        for moved in person_shares(method, kind):
            require(moved <= 1, f"rows that are {kind}: the answer moves {moved:.3g} times as far")


METHOD_CHECKS: Mapping[str, Callable[[PrivateMethod], None]] = {
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
    "odd people work like any other": _check_odd_people,
    "what does not bound persons refuses them before the charge": _check_refused_people,
    "forty rows of one person move no exact answer further than one may": _check_loud_person,
}
"""Each rule, in words, with the function that raises where a method breaks it."""
