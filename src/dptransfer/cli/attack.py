"""`dptransfer attack`: can an outsider tell who was in the training data?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.labelled import labelled_rows
from dptransfer.cli.screen import say, show_facts, show_json

if TYPE_CHECKING:
    from dptransfer.audit import MembershipResult


def attack(
    model: Annotated[Path, typer.Argument(help="The release directory.", show_default=False)],
    members: Annotated[
        Path, typer.Option("--members", help="Labelled rows it was fitted on.", show_default=False)
    ],
    others: Annotated[
        Path,
        typer.Option(
            "--others", help="Labelled rows from the same source, not fitted on.", show_default=False
        ),
    ],
    as_json: options.AsJson = False,
) -> None:
    """Try to tell the rows a release was fitted on from others; for the data owner's eyes only.

    Example: dptransfer attack model/ --members private.emb --others test.emb
    """
    from dptransfer.audit import membership_attack
    from dptransfer.release import read_release

    released = read_release(model)
    (inside, own), (outside, other) = (labelled_rows(path, released.facts) for path in (members, others))
    found = membership_attack(released, (inside.rows, own), (outside.rows, other))
    if as_json:
        show_json({**found.to_dict(), "statement": found.statement})
    else:
        _show(found)


def _show(found: MembershipResult) -> None:
    low, high = found.interval
    say(
        f"Shown one row that the model was fitted on and one that it was not, the attack picks the right one "
        f"{found.auc:.1%} of the time (95 % interval {low:.1%} to {high:.1%}); guessing gets 50 %. "
        f"By the model's guarantee no attack, however clever, gets more than {found.auc_ceiling:.1%}."
    )
    say()
    allowed = "of members found; the guarantee allows at most"
    show_facts(
        {
            f"At {point.false_positive_rate:.1%} false alarms": f"{point.true_positive_rate:.2%} {allowed} "
            f"{point.ceiling:.2%}"
            for point in found.points
        }
    )
    say()
    if not found.within_ceiling:
        say(
            "The attack did better than the guarantee allows. Either the other rows come from another "
            "source, or the guarantee is not true; do not publish the model before you know which.",
            style="bold red",
        )
    say(f"{found.guarantee} {found.statement}", style="yellow")
