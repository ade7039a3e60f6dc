"""`dptransfer plan`: what a fit would cost and add."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dptransfer.cli import budgets, options
from dptransfer.cli.declared import class_list, class_sizes
from dptransfer.cli.privacy_view import attack_sentence, privacy_json, show_events
from dptransfer.cli.screen import say, show_facts, show_json, working
from dptransfer.cli.settings import method_from
from dptransfer.errors import ArgumentError
from dptransfer.privacy import Relation


def plan(
    epsilon: budgets.Epsilon = None,
    delta: budgets.Delta = None,
    rho: budgets.Rho = None,
    mu: budgets.Mu = None,
    relation: budgets.Neighbours = Relation.ADD_REMOVE,
    method: options.MethodName = "auto",
    classes: options.Classes = None,
    dim: Annotated[
        int | None, typer.Option("--dim", help="Width of the rows; default that of the public pool.")
    ] = None,
    public: options.PublicPool = None,
    size: options.DeclaredSize = None,
    class_counts: options.ClassCounts = None,
    axes: options.Axes = None,
    pool: options.Pool = None,
    k: options.Prototypes = None,
    mechanism: options.Mechanism = None,
    lowest: options.Lowest = None,
    highest: options.Highest = None,
    assignments: options.Assignments = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what a fit would cost and add; no data are touched.

    Example: dptransfer plan --epsilon 1 --delta 1e-5 --classes 10 --dim 1280
    """
    budget = budgets.budget_from(epsilon, delta, rho, mu, relation)
    if classes is None:
        raise ArgumentError("A plan needs the declared classes; none were given. Example: --classes 10")
    names = class_list(classes)

    from dptransfer.data import Facts, read_public

    shortcuts = {
        "axes": axes, "pool": pool, "k": k, "mechanism": mechanism, "lowest": lowest, "highest": highest,
    }  # fmt: skip
    chosen = method_from(method, shortcuts, assignments)
    rows = None if public is None else read_public(public)
    width = rows.dimension if dim is None and rows is not None else dim
    if width is None:
        raise ArgumentError("A plan needs the width of the rows. Pass --dim 1280, or --public pool.emb.")
    facts = Facts(classes=names, dimension=width, size=size, class_counts=class_sizes(class_counts))
    if rows is not None:
        rows.require_match(facts)
    with working(f"Planning '{chosen.name}'"):
        made = chosen.plan(facts, budget, rows)
    if as_json:
        show_json(
            {**privacy_json(made.method.name, made.guarantee, made.events), **_rest(made, method, facts)}
        )
        return
    say(f"Plan of '{made.method.name}' for {len(names)} classes, {width} dimensions, {budget}")
    say()
    show_events(made.events)
    say()
    facts_shown: dict[str, object] = {"Guarantee": made.guarantee, "Attacker": attack_sentence(made.events)}
    show_facts(facts_shown | {("Note" if n == 0 else " " * n): note for n, note in enumerate(made.notes)})


def _rest(made: Any, asked: str, facts: Any) -> dict[str, Any]:
    from dptransfer.methods.base import configuration_of

    return {
        "asked": asked,
        "configuration": configuration_of(made.method),
        "classes": len(facts.classes),
        "dimension": facts.dimension,
        "notes": list(made.notes),
    }
