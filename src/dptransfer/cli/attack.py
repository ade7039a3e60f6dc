"""`dptransfer attack`: can an outsider tell who was in the training data?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.inputs import labelled_rows, private_rows, require_other_than
from dptransfer.cli.model_encoder import encoder_behind
from dptransfer.cli.screen import say, show_json, show_table
from dptransfer.encoding import encoded_beside, is_table
from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.audit.membership import Given
    from dptransfer.release import PrivateClassifier


def attack(
    model: options.Release,
    members: Annotated[Path, typer.Option(help="Labelled rows or images it was fitted on.")],
    others: Annotated[Path, typer.Option(help="Labelled ones from the same source, not fitted on.")],
    person: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN|folder|dicom",
            help="What tells whose each row is, in both files; for releases that protect persons.",
        ),
    ] = None,
    encoder: options.EncoderName = None,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
) -> None:
    """Try to tell the rows, or people, a release was fitted on from others; for the data owner's eyes only.

    Images and texts go through the model's own encoder, and their rows are gone afterwards.

    Example: dptransfer attack model/ --members private.emb --others test.emb
    """
    from dptransfer.audit.membership import CONFIDENCE, FEWEST_ALARMS, membership_attack
    from dptransfer.privacy import Unit
    from dptransfer.release import read_release

    require_other_than(members, others, "--others", "A row cannot be told from itself.")
    released = read_release(model)
    if person is not None and released.guarantee.unit is Unit.ROW:
        raise ArgumentError(
            "--person is for releases that protect persons; this one protects single rows, and says nothing "
            "about somebody who has several. Leave it out."
        )
    seen_by = None
    if not all(is_table(path) or not path.exists() for path in (members, others)):
        seen_by = encoder_behind(released, encoder, device)

    def given(path: Path) -> Given:
        if seen_by is None or is_table(path):
            return _given(path, path, released, person)
        encoded = encoded_beside(path, seen_by, released.classes, model, person)
        with encoded as rows:  # they keep the people
            return _given(rows, path, released, None)

    inside, outside = given(members), given(others)
    found = membership_attack(released, inside, outside)
    if as_json:
        return show_json({**found.to_dict(), "statement": found.statement})
    low, high = found.interval
    one = "row" if found.guarantee.unit is Unit.ROW else "person, with all their rows,"
    say(
        f"Shown one {one} that the model was fitted on and one that it was not, the attack picks the right "
        f"one {found.auc:.1%} of the time (interval {low:.1%} to {high:.1%}); guessing gets 50%. "
        f"By the model's guarantee no attack, however clever, gets more than {found.auc_ceiling:.1%}."
    )
    say()
    if found.points:
        show_table(
            ("False alarms", "True rate at most", "Members found", "Interval", "Guarantee allows there"),
            [
                (
                    f"{100 * point.false_positive_rate:.4g}%",
                    f"{point.false_positive_limit:.2%}",
                    f"{point.true_positive_rate:.2%}",
                    f"{point.interval[0]:.2%} to {point.interval[1]:.2%}",
                    f"{point.ceiling_at_limit:.2%}",
                )
                for point in found.points
            ],
            numbers=range(5),
        )
        each = f"each {found.confidence:.2%}; Clopper and Pearson's for rates"
        say(f"All intervals hold together with {CONFIDENCE:.0%} confidence ({each}).")
        say()
    if found.left_out:
        shown = ", ".join(f"{100 * rate:.4g}%" for rate in found.left_out)
        enough = math.ceil(FEWEST_ALARMS / min(found.left_out))
        say(
            f"Nothing is said at false alarms of {shown}: of {found.others} other {found.many} fewer than "
            f"{FEWEST_ALARMS} would raise one, too few to tell. For all of it give {enough} other "
            f"{found.many}."
        )
        say()
    say(found.verdict, style="bold" if found.within_ceiling else "bold red")
    if released.charged is not None and released.charged.holdout is not None:
        kept = f"each member was kept from the fit with probability {released.charged.holdout:g}"
        say(f"Note: {kept}, and nothing tells who was. That makes every attack look weaker.", err=True)
    say(f"{found.guarantee} {found.statement}", style="yellow")


def _given(path: Path, named: Path, released: PrivateClassifier, person: str | None) -> Given:
    """Rows and classes and, for a release that protects persons, whose each row is."""
    from dptransfer.data import Labelled
    from dptransfer.privacy import Unit

    facts = released.row_facts
    if facts.unit is Unit.PERSON:
        rows = private_rows(path, person=person, of=facts)
        if rows.people is None:
            alone = "each was taken for somebody's only one. Say it with --person"
            say(f"Note: '{named}' does not tell whose its rows are; {alone}.", err=True)
        return rows.rows, Labelled(rows.labels, facts.classes), rows.people
    return labelled_rows(path, facts)[:2]
