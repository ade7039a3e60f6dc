"""The checks every method passes; `CHECKS` maps their names, which are sentences, to functions.

A check takes a method and raises AssertionError (or lets the library's own error pass) when the method breaks
the rule. `test_method_suite.py` runs them over all methods, and over methods that cheat, which must fail.
"""

import gc
import tempfile
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dptransfer.accounting import fits, guarantee_of
from dptransfer.data import PrivateEmbeddings, PublicData, PublicEmbeddings
from dptransfer.data.facts import Facts
from dptransfer.errors import BudgetError, BudgetExceeded
from dptransfer.ledger import Ledger
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, GaussianEvent, Relation, SampledGaussianEvent
from dptransfer.release import read_release

WIDTH = 6
CLASSES = ("a", "b", "c")
COUNTS = (14, 9, 7)
NAME = "clinic-a"
SIZE = sum(COUNTS)


def _public():
    """Unlabelled rows, and two labelled ones of each class at their side."""
    rng, y = np.random.default_rng(100), np.repeat(np.arange(3), 2)
    rows = PublicEmbeddings(rng.normal(size=(25, WIDTH)))
    shots = rng.normal(size=(len(y), WIDTH)) + 2 * np.eye(3, WIDTH)[y]
    return rows.with_shots(PublicEmbeddings(shots, y, classes=CLASSES))


POOL = _public()


class Counted:
    """Private data that count how often they are looked at; a cheat gets hold of `Watched.latest`."""

    def __init__(self, x, y, **declared):
        self.reads = 0
        super().__init__(x, y, classes=CLASSES, class_counts=COUNTS, size=SIZE, **declared)
        self.reads = 0
        Watched.latest = self

    def _look(self, name):
        self.reads += 1
        return self.__dict__[name]

    labels = property(lambda self: self._look("_labels"), lambda self, y: self.__dict__.update(_labels=y))

    @property
    def fingerprint(self):
        self.reads += 1
        return "0" * 64


class Watched(Counted, PrivateEmbeddings):
    """Rows that count it."""

    latest = None
    rows = property(lambda self: self._look("_rows"), lambda self, x: self.__dict__.update(_rows=x))


FACTS = Facts(CLASSES, WIDTH, size=SIZE, class_counts=COUNTS)


def ordinary():
    """Thirty labelled rows in three clusters."""
    rng = np.random.default_rng(7)
    y = np.repeat(np.arange(3), COUNTS)
    return rng.normal(size=(len(y), WIDTH)) + 2 * np.eye(3, WIDTH)[y], y


@dataclass(frozen=True)
class World:
    """Data of one kind, on which a method is tried.

    Attributes:
        facts: what is declared.
        pool: public examples.
        kind: of private data that count how often they are looked at.
        ordinary: gives thirty examples and their labels.
        odd: gives strange ones, by name.
        traces: given a method, examples and a model, gives rows that no release may hold.
    """

    facts: Facts
    pool: PublicData
    kind: type
    ordinary: Callable
    odd: Callable
    traces: Callable

    def private(self, x=None, y=None):
        if x is None:
            x, y = self.ordinary()
        return self.kind(x, np.asarray(y, dtype=np.int64), name=NAME)


def world(method):
    """The data that the method takes."""
    if method.takes is PrivateEmbeddings:
        return ROWS
    from .pictures import PICTURES

    return PICTURES


def private(x=None, y=None):
    return ROWS.private(x, y)


def fresh(model):
    """Rows that nobody has seen, as wide as the model's."""
    return np.random.default_rng(101).normal(size=(40, model.dimension))


def relations(method):
    """CoinPress divides by public class sizes, so it is there for replace-one only."""
    return (Relation.REPLACE_ONE,) if method.name == "coinpress" else tuple(Relation)


def reads_nothing(method):
    """Whether the plan has no step at all: then nobody may look at a row, and every check asks for that."""
    here = world(method)
    return not method.plan(here.facts, budget_for(method), here.pool).events


def in_their_order(method):
    """Whether it has teachers that look at their examples one after the other."""
    return hasattr(method, "epochs")


def budget_for(method, relation=None, **amount):
    return Budget(**(amount or {"epsilon": 1.0, "delta": 1e-5}), relation=relation or relations(method)[0])


def fitted(method, data=None, *, seed=1, ledger=None, noise=None, budget=None):
    here = world(method)
    return method.fit(
        data or here.private(),
        here.pool,
        budget=budget or budget_for(method),
        ledger=ledger or Ledger.in_memory(),
        noise=noise or SeededNoise(seed),
    )


def same(first, second):
    """Whether two releases hold the same arrays and events."""
    a, b = first.weights, second.weights
    return (
        a.keys() == b.keys() and all((a[key] == b[key]).all() for key in a) and first.events == second.events
    )


def a_refused_budget_leaves_the_rows_unread(method):
    ledger, data = Ledger.in_memory(), world(method).private()
    ledger.set_budget(NAME, budget_for(method, epsilon=1e-3, delta=1e-9))
    try:
        fitted(method, data, ledger=ledger)
    except BudgetExceeded:
        pass
    else:
        assert reads_nothing(method), "the ledger did not refuse"
    assert data.reads == 0


def no_row_is_read_before_the_charge(method):
    ledger, data = Ledger.in_memory(), world(method).private()
    charge, seen = ledger.charge, []

    def watching(*given, **named):
        seen.append(data.reads)
        return charge(*given, **named)

    ledger.charge = watching
    fitted(method, data, ledger=ledger)
    assert seen == [0]
    assert (data.reads == 0) == reads_nothing(method)


def a_plan_needs_the_facts_alone(method):
    here = world(method)
    data = here.private()
    for relation in relations(method):
        planned = method.plan(here.facts, budget_for(method, relation), here.pool)
        again = method.plan(data.facts, budget_for(method, relation), here.pool)
        assert planned.events == again.events
        assert planned.guarantee == again.guarantee
    assert data.reads == 0


def the_events_charged_are_the_events_released(method):
    here = world(method)
    for relation in relations(method):
        ledger, budget = Ledger.in_memory(), budget_for(method, relation)
        model = fitted(method, ledger=ledger, budget=budget)
        (charge,) = (entry for entry in ledger.history() if hasattr(entry, "events"))
        plan = method.plan(here.private().facts, budget, here.pool)
        assert charge.events == model.events == plan.events
        assert all(event.relation is relation for event in model.events)
        assert model.guarantee.relation is relation


def the_ledger_gets_one_charge_and_one_closing_entry(method):
    ledger = Ledger.in_memory()
    fitted(method, ledger=ledger)
    kinds = [type(entry).__name__ for entry in ledger.history()]
    assert kinds == ["Charge", "Closing"]
    assert ledger.history()[0].outcome == "released"


class Broken(SeededNoise):
    """A source that fails half-way through a run."""

    def __init__(self):
        super().__init__(0)

    def _fail(self, *given):
        raise OSError("no entropy")

    discrete_gaussian = discrete_laplace = best_set = permute_and_flip = _fail
    poisson_sample = subset = _fail


def a_run_that_raises_has_spent_and_says_that_it_failed(method):
    ledger, data = Ledger.in_memory(), world(method).private()
    try:
        fitted(method, data, ledger=ledger, noise=Broken())
    except OSError:
        pass
    else:
        assert reads_nothing(method), "the failure was swallowed"
        assert data.reads == 0
        return
    charge, closing = ledger.history()
    assert charge.outcome == closing.outcome == "failed"
    assert charge.detail == "OSError"
    assert ledger.spent(NAME) is not None


def the_guarantee_follows_from_the_events_and_fits_the_budget(method):
    """In every currency that can pay for the method; where none can, it says so before anything is read."""
    amounts = (
        {"epsilon": 1.0, "delta": 1e-5},
        {"epsilon": 0.7},
        {"rho": 0.1, "delta": 1e-6},
        {"mu": 0.5, "delta": 1e-6},
    )
    here = world(method)
    for relation in relations(method):
        for amount in amounts:
            budget = budget_for(method, relation, **amount)
            try:
                plan = method.plan(here.facts, budget, here.pool)
            except BudgetError:
                events = method.plan(here.facts, budget_for(method, relation), here.pool).events
                noisy = any(isinstance(event, GaussianEvent | SampledGaussianEvent) for event in events)
                assert (budget.flavour, noisy) in {("pure", True), ("gdp", False)}
                continue
            assert fits(plan.events, budget)
            assert plan.guarantee == guarantee_of(
                plan.events, budget.delta, plan.guarantee.assumptions, relation=relation
            )
            assert plan.guarantee.relation is relation
            if not plan.events:
                assert (plan.guarantee.epsilon, plan.guarantee.delta) == (0.0, 0.0)
            elif budget.epsilon is not None:
                assert 0.99 * budget.epsilon <= plan.guarantee.epsilon <= budget.epsilon
                assert plan.guarantee.delta <= budget.delta


def the_same_seed_gives_the_same_release(method):
    assert same(fitted(method, seed=5), fitted(method, seed=5))
    here = world(method)
    data = here.ordinary()
    assert same(fitted(method, here.private(*data), seed=5), fitted(method, here.private(*data), seed=5))


def undrawn(method):
    """The same method without draws that go by the position of a row or a person."""
    whole = {"sampling_rate": 1.0, "teachers": 1}
    return replace(method, **{name: value for name, value in whole.items() if hasattr(method, name)})


def the_order_of_the_rows_does_not_matter(method):
    """Where nothing is drawn by position: a method that samples rows is asked for all, one that shares them
    out for one part. Teachers on pictures look at theirs one after the other, so there the order may matter.
    """
    if in_their_order(method):
        return
    here = world(method)
    x, y = here.ordinary()
    method = undrawn(method)
    for order in (np.arange(len(x))[::-1], np.random.default_rng(3).permutation(len(x))):
        assert same(fitted(method), fitted(method, here.private(x[order], y[order])))


def odd_data_sets():
    x, y = ordinary()
    nasty = x.copy()
    nasty[0], nasty[5, 2], nasty[9], nasty[20] = np.nan, np.inf, 1e308, 5e-324
    zero = np.zeros((0, WIDTH)), np.zeros(0, dtype=np.int64)
    return {
        "an empty class": (x[y != 2], y[y != 2]),
        "one class only": (x[y == 1], y[y == 1]),
        "a single example": (x[:1], y[:1]),
        "no example": zero,
        "duplicates": (np.repeat(x[:2], 20, axis=0), np.repeat(y[:2], 20)),
        "rows of zeros": (np.zeros_like(x), y),
        "nasty rows": (nasty, y),
        "nothing but nan": (np.full_like(x, np.nan), y),
        "single precision": (x.astype(np.float32), y),
        "half precision": (x.astype(np.float16), y),
    }


def odd_data_sets_all_work_and_raise_nothing(method):
    shapes = {name: array.shape for name, array in fitted(method).weights.items()}
    here = world(method)
    for x, y in here.odd().values():
        model = fitted(method, here.private(x, y))
        assert {name: array.shape for name, array in model.weights.items()} == shapes
        assert np.isfinite(model.predict_proba(fresh(model))).all()
        assert set(model.predict(fresh(model))) <= set(CLASSES)


ROWS = World(FACTS, POOL, Watched, ordinary, odd_data_sets, lambda method, x, model: [x])


def _reachable(root):
    """Every object a release holds on to, through attributes and containers."""
    seen, queue = {}, [root]
    while queue:
        item = queue.pop()
        if id(item) in seen or isinstance(item, type | types.ModuleType | types.FunctionType):
            continue
        seen[id(item)] = item
        queue.extend(gc.get_referents(item))
    return seen.values()


def the_release_holds_no_private_array(method):
    here = world(method)
    x, y = here.ordinary()
    data = here.private(x, y)
    model = fitted(method, data)
    model.predict(fresh(model))
    held = list(_reachable(model))
    assert not any(item is data for item in held)
    traces = [rows.astype(np.float64) for rows in here.traces(method, x, model)]
    traces += [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in traces]
    for array in [item for item in held if isinstance(item, np.ndarray)] + list(model.weights.values()):
        assert not np.shares_memory(array, data._examples)
        assert not np.shares_memory(array, data.labels)
        for rows in traces:
            if array.ndim and array.shape[-1] == rows.shape[1]:
                flat = array.reshape(-1, rows.shape[1]).astype(np.float64)
                assert np.abs(flat[:, None] - rows).max(axis=2).min(initial=1.0) > 1e-6
    counts = np.bincount(y, minlength=len(CLASSES))
    for array in model.weights.values():
        assert array.shape != counts.shape or not (array == counts).all()


def saved_and_loaded_it_predicts_the_same(method):
    model = fitted(method)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model", unsafe_for_publication=True)
        again = read_release(Path(folder) / "model")
        assert same(model, again)
        new = fresh(model)
        assert (model.predict(new) == again.predict(new)).all()
        assert (model.predict_proba(new) == again.predict_proba(new)).all()
        assert again.guarantee == model.guarantee


CHECKS = {
    check.__name__: check
    for check in (
        a_refused_budget_leaves_the_rows_unread,
        no_row_is_read_before_the_charge,
        a_plan_needs_the_facts_alone,
        the_events_charged_are_the_events_released,
        the_ledger_gets_one_charge_and_one_closing_entry,
        a_run_that_raises_has_spent_and_says_that_it_failed,
        the_guarantee_follows_from_the_events_and_fits_the_budget,
        the_same_seed_gives_the_same_release,
        the_order_of_the_rows_does_not_matter,
        odd_data_sets_all_work_and_raise_nothing,
        the_release_holds_no_private_array,
        saved_and_loaded_it_predicts_the_same,
    )
}
