"""How `dptransfer bench` shows what a sweep did, and how two of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dptransfer.cli.screen import say, show_facts, show_table

if TYPE_CHECKING:
    from pathlib import Path

    from dptransfer_lab.compare import Change, Comparison
    from dptransfer_lab.run import Tally

_SHOWN = 40
_WITHIN = 3


def show_tally(tally: Tally, folder: Path) -> None:
    """What a sweep did and cost."""
    whole = tally_json(tally, folder)
    counts = ", ".join(f"{whole[name]} {name}" for name in ("done", "refused", "failed"))
    side = f" by {tally.workers} workers" if tally.workers > 1 else ""
    show_facts(
        {
            "Results": folder,
            "Cells": f"{tally.total}: {tally.reused} finished before, {counts}",
            "Time": f"{tally.seconds:.1f} s{side}, of which {tally.starting:.1f} s to start",
            "Per cell": f"{whole['own_ms_per_cell']:.1f} ms in fit, prediction and attack, "
            f"{whole['overhead_ms_per_cell']:.1f} ms of overhead",
            "Marks": "every cell is seeded: none of these models may be released",
        }
    )


def tally_json(tally: Tally, folder: Path) -> dict[str, Any]:
    """JSON-ready form."""
    ran = max(1, tally.ran)
    return {
        "results": str(folder),
        "cells": tally.total,
        "finished_before": tally.reused,
        **{name: tally.counts.get(name, 0) for name in ("done", "refused", "failed")},
        "workers": tally.workers,
        "seconds": tally.seconds,
        "starting_seconds": tally.starting,
        "own_ms_per_cell": 1000 * tally.own_seconds / ran,
        "overhead_ms_per_cell": 1000 * tally.overhead / ran,
    }


def show_comparison(found: Comparison, first: str, second: str) -> None:
    """What changed, what cannot be told, and what is in one run only."""
    unknown = [change for change in found.shared if change.p is None and change.before != change.after]
    say(
        f"{found.metric}: {len(found.changed)} of {len(found.shared)} groups of cells changed beyond their "
        f"noise (t tests, Holm's correction, chance of one false alarm {found.level:g})."
    )
    if found.changed:
        show_table(_HEADER, [_row(change) for change in found.changed[:_SHOWN]], numbers=(1, 2, 3, 4))
    elif moved := [
        change for change in found.shared if change.p is not None and change.before != change.after
    ]:
        say("The largest differences, all within what seeds make of them:")
        show_table(_HEADER, [_row(change) for change in moved[:_WITHIN]], numbers=(1, 2, 3, 4))
    if len(found.changed) > _SHOWN:
        say(f"... and {len(found.changed) - _SHOWN} more; --json gives all of them.")
    if unknown:
        say(f"{len(unknown)} differ but have one seed, which tells nothing about noise:")
        show_table(_HEADER, [_row(change) for change in unknown[:_SHOWN]], numbers=(1, 2, 3, 4))
    if any(not change.same_data for change in found.shared):
        say("Some groups were run on other data than before: their fingerprints differ.")
    if others := [change for change in found.shared if change.other_settings]:
        names = sorted({name for change in others for name in change.other_settings})
        say(
            f"Settings differ ({', '.join(names)}) in {len(others)} of {len(found.shared)} groups, such as "
            f"{described(others[0].where)}."
        )
    for where, before, after in found.other_status:
        say(f"{described(where)}: {before} in '{first}', {after} in '{second}'.")
    for name, places in ((first, found.only_first), (second, found.only_second)):
        if places:
            say(f"{len(places)} groups are in '{name}' only, such as {described(places[0])}.")


def comparison_json(found: Comparison) -> dict[str, Any]:
    """JSON-ready form."""
    return asdict(found)


_HEADER = ("Cells", "Before", "After", "Change", "p", "Test")


def _row(change: Change) -> tuple[str, ...]:
    gap = change.after - change.before
    p = "" if change.p is None else f"{change.p:.2g}"
    return (
        described(change.where),
        f"{change.before:.4g}",
        f"{change.after:.4g}",
        f"{gap:+.4g}",
        p,
        change.test,
    )


def described(where: Mapping[str, Any]) -> str:
    """A group of cells in a few words."""
    budget = where["budget"]
    signs = {"epsilon": "ε", "rho": "ρ", "mu": "μ"}
    amount = next(f"{sign} = {budget[name]:g}" for name, sign in signs.items() if budget[name])
    words = [f"{where['data']} ({where['encoder']})"]
    words += [f"ratio {where['imbalance']:g}"] if where["imbalance"] else []
    words += [f"{where['shots']} shots"] if where["shots"] else []
    return ", ".join([*words, amount, str(where["label"])])
