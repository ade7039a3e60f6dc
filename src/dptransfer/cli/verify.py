"""`dptransfer verify`: is a release what it says?"""

from __future__ import annotations

import typer

from dptransfer.cli import options
from dptransfer.cli.ledger_history import entry_of_release
from dptransfer.cli.screen import say, show_json, show_table
from dptransfer.privacy import Relation, Unit, number, rounded_up

_UNCHECKED = (
    "Files and arithmetic hold; the rest is the publisher's word. Verify with the version that wrote it, or "
    "read its method."
)


def verify(model: options.Release, as_json: options.AsJson = False) -> None:
    """Recompute ε, plan the steps again and check every file.

    Exit code 1 if a check fails; 3 if none does but not everything could be checked.

    Example: dptransfer verify model/ --json
    """
    from dptransfer.methods.replan import verify_release

    found = verify_release(model)
    if as_json:
        show_json(found.to_dict())
    else:
        marks = ["ok" if one.passed else "FAILED" if one.required else "note" for one in found.checks]
        checks = zip(marks, found.checks, strict=True)
        show_table(("", "Check", "Found"), [(mark, one.name, one.detail) for mark, one in checks])
        say()
        epsilon, delta = rounded_up(found.epsilon or 0.0), number(found.delta or 0.0)
        neighbours = Relation(found.relation).words(Unit(found.unit)) if found.relation else ""
        promise = f"'{found.method}', epsilon {epsilon} at delta {delta}, {neighbours}"
        if found.outcome == "verified":
            say(f"Verified: {promise}.", style="green")
        elif found.outcome == "failed":
            say(f"NOT verified: {', '.join(found.failed)}. Do not rely on this release.", style="bold red")
        else:
            unchecked = ", ".join(f"{name} NOT checked" for name in found.unchecked)
            say(f"NOT verified, {unchecked}: {promise}. {_UNCHECKED}", style="bold yellow")
        for one in found.checks:
            if one.name.startswith("promise") and not one.passed and not one.required:
                say(f"Warning: {one.detail}", style="yellow")
        say(f"The publisher's word: {'; '.join(found.publishers_word)}.")
        say(found.not_shown)
        if (charged := entry_of_release(model)) is not None:
            say(charged)
    if not found.ok:
        raise typer.Exit(1 if found.failed else 3)
