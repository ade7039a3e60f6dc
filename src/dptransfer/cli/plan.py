"""`dptransfer plan`: what a fit would cost and add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptransfer.cli import options
from dptransfer.cli.declared import Sizes, class_list, settings_of
from dptransfer.cli.inputs import beside, labelled_shots
from dptransfer.cli.method import method_from
from dptransfer.cli.privacy_view import attack_sentence, privacy_json, show_events
from dptransfer.cli.screen import say, show_facts, show_json, working
from dptransfer.errors import ArgumentError
from dptransfer.privacy import Relation

if TYPE_CHECKING:
    from dptransfer.data import Facts, PublicEmbeddings
    from dptransfer.methods import Plan, PrivateMethod

_CLASSES, _WIDTH = 10, 1280


def plan(
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    other_budget: options.OtherBudget = None,
    relation: options.Neighbours = Relation.ADD_REMOVE,
    method: options.MethodName = "auto",
    settings: options.Settings = None,
    tune: options.Tune = None,
    device: options.MethodDevice = None,
    classes: options.Classes = None,
    dim: Annotated[
        int | None, typer.Option(min=1, help="Width of the rows; default that of the public pool.")
    ] = None,
    public: options.PublicPool = None,
    shots: options.LabelledShots = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what a fit would cost and add; no data are touched.

    With --set data.size=N and data.class_counts=A,B,... sizes are declared public.

    Example: dptransfer plan --epsilon 1 --delta 1e-5 --classes 10 --dim 1280
    """
    budget = options.budget_from(epsilon, delta, other_budget, relation)
    names = None if classes is None else class_list(classes)

    from dptransfer.accounting import heed
    from dptransfer.data import read_public

    of_method, sizes = settings_of(settings, Sizes)
    chosen = method_from(method, of_method, tune, device=device)
    pool_rows = None if public is None else read_public(public)
    rows = beside(pool_rows, None if shots is None else labelled_shots(shots, names))
    facts, assumed = _facts(chosen, rows, names, dim, sizes)
    if rows is not None:
        rows.require_match(facts)
    heed(budget, facts.declared_size)
    with working(f"Planning '{chosen.name}'"):
        made = chosen.plan(facts, budget, rows)
    notes = [*made.notes]
    if assumed:
        notes.append(
            f"Stand-ins: {' and '.join(assumed.values())}, as none were given. They decide nothing but the "
            "cost of the integer grid, the events' numeric_epsilon and numeric_delta."
        )
    if as_json:
        common = privacy_json(made.method.name, made.guarantee, made.events)
        show_json({**common, **_rest(made, method, facts), "assumed": list(assumed), "notes": notes})
        return
    about = f"{len(facts.classes)} classes, {facts.dimension} dimensions"
    say(f"Plan of '{made.method.name}' for {about}, {budget}")
    say()
    show_events(made.events)
    say()
    facts_shown: dict[str, object] = {"Guarantee": made.guarantee, "Attacker": attack_sentence(made.events)}
    show_facts(facts_shown | {("Note" if n == 0 else " " * n): note for n, note in enumerate(notes)})


def _facts(
    method: PrivateMethod,
    public: PublicEmbeddings | None,
    classes: tuple[str | int, ...] | None,
    width: int | None,
    sizes: Sizes,
) -> tuple[Facts, dict[str, str]]:
    """What is declared, else what public rows show, else a stand-in where the plan does not need it."""
    from dptransfer.data import Facts
    from dptransfer.data.class_names import declared_classes

    shots = None if public is None else public.shots
    assumed = {}
    if classes is not None:
        classes = declared_classes(classes)
    elif sizes.class_counts is not None:
        classes = tuple(range(len(sizes.class_counts)))
    elif shots is not None and shots.classes is not None:
        classes = shots.classes
    elif method.plans_by_facts:
        raise ArgumentError(
            f"A plan of '{method.name}' needs the declared classes; none were given. Example: --classes 10"
        )
    else:
        classes = tuple(range(_CLASSES))
        assumed["classes"] = f"{_CLASSES} classes"
    if width is None and public is not None:
        width = public.dimension
    if width is None and method.plans_by_facts:
        raise ArgumentError(
            f"A plan of '{method.name}' needs the width of the rows; none was given. "
            "Pass --dim 1280, or --public pool.emb."
        )
    if width is None:
        width = _WIDTH
        assumed["dimension"] = f"{_WIDTH} dimensions"
    return Facts(classes, (width,), size=sizes.size, class_counts=sizes.class_counts), assumed


def _rest(made: Plan, asked: str, facts: Facts) -> dict[str, Any]:
    """What JSON has of a plan alone; steps are those of a method that goes by rounds."""
    from dptransfer.mechanisms import rounds_of
    from dptransfer.methods.base import configuration_of

    rounds = [step.times for step in rounds_of(made.mechanisms)]
    return {
        "asked": asked,
        "steps": max(rounds) if rounds and hasattr(made.method, "steps") else None,
        "configuration": configuration_of(made.method),
        "classes": len(facts.classes),
        "dimension": facts.dimension,
    }
