"""`dptransfer plan`: what a fit would cost and add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptransfer.cli import budgets, options
from dptransfer.cli.declared import class_list
from dptransfer.cli.inputs import beside, labelled_shots
from dptransfer.cli.plan_facts import PlanFacts, facts_for_plan
from dptransfer.cli.privacy_view import attack_sentence, privacy_json, show_events
from dptransfer.cli.screen import say, show_facts, show_json, working
from dptransfer.cli.settings import method_from
from dptransfer.cli.tuning import Tuning
from dptransfer.privacy import Relation

if TYPE_CHECKING:
    from dptransfer.methods import Plan


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
    shots: options.LabelledShots = None,
    size: options.DeclaredSize = None,
    class_counts: options.ClassCounts = None,
    axes: options.Axes = None,
    pool: options.Pool = None,
    k: options.Prototypes = None,
    mechanism: options.Mechanism = None,
    lowest: options.Lowest = None,
    highest: options.Highest = None,
    noise_multiplier: options.NoiseMultiplier = None,
    steps: options.Steps = None,
    clip: options.Clip = None,
    sampling_rate: options.SamplingRate = None,
    start: options.Start = None,
    assignments: options.Assignments = None,
    tune: options.Tune = None,
    tune_on_public: options.TuneOnPublic = False,
    mean_trials: options.MeanTrials = None,
    device: options.MethodDevice = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what a fit would cost and add; no data are touched.

    Example: dptransfer plan --epsilon 1 --delta 1e-5 --classes 10 --dim 1280
    """
    budget = budgets.budget_from(epsilon, delta, rho, mu, relation)
    names = None if classes is None else class_list(classes)

    from dptransfer.accounting import heed
    from dptransfer.data import read_public

    shortcuts = {
        "axes": axes, "pool": pool, "k": k, "mechanism": mechanism, "lowest": lowest, "highest": highest,
        "noise_multiplier": noise_multiplier, "steps": steps, "clip": clip, "sampling_rate": sampling_rate,
        "start": start,
    }  # fmt: skip
    tuning = Tuning(tune or (), tune_on_public, mean_trials)
    chosen = method_from(method, shortcuts, assignments, tuning=tuning, device=device)
    pool_rows = None if public is None else read_public(public)
    rows = beside(pool_rows, None if shots is None else labelled_shots(shots, names))
    declared = facts_for_plan(chosen, rows, classes=classes, width=dim, size=size, class_counts=class_counts)
    facts = declared.facts
    if rows is not None:
        rows.require_match(facts)
    heed(budget, facts.declared_size)
    with working(f"Planning '{chosen.name}'"):
        made = chosen.plan(facts, budget, rows)
    notes = (*made.notes, *([declared.note] if declared.assumed else []))
    if as_json:
        common = privacy_json(made.method.name, made.guarantee, made.events)
        show_json({**common, **_rest(made, method, declared), "notes": list(notes)})
        return
    about = f"{len(facts.classes)} classes, {facts.dimension} dimensions"
    say(f"Plan of '{made.method.name}' for {about}, {budget}")
    say()
    show_events(made.events)
    say()
    facts_shown: dict[str, object] = {"Guarantee": made.guarantee, "Attacker": attack_sentence(made.events)}
    show_facts(facts_shown | {("Note" if n == 0 else " " * n): note for n, note in enumerate(notes)})


def _rest(made: Plan, asked: str, declared: PlanFacts) -> dict[str, Any]:
    from dptransfer.methods.base import configuration_of

    return {
        "asked": asked,
        "steps": _steps(made),
        "configuration": configuration_of(made.method),
        "classes": len(declared.facts.classes),
        "dimension": declared.facts.dimension,
        "assumed": list(declared.assumed),
    }


def _steps(made: Plan) -> int | None:
    """Rounds of a method that goes by rounds; None for one that asks everything once."""
    from dptransfer.mechanisms import rounds_of

    rounds = [step.times for step in rounds_of(made.mechanisms)]
    return max(rounds) if rounds and hasattr(made.method, "steps") else None
