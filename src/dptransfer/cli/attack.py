"""`dptransfer attack`: run a membership-inference attack on a release."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dptransfer.cli import options
from dptransfer.cli.screen import say, show_json, show_table
from dptransfer.encoders.encoding import NOBODY
from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.api.source import EncodedBeside, Source
    from dptransfer.audit.membership import Given
    from dptransfer.release import PrivateClassifier


def attack(
    model: options.Release,
    members: Annotated[Path, typer.Option(help="Labelled rows or images that it was fitted on.")],
    others: Annotated[Path, typer.Option(help="Labelled ones of the same draw that it was not fitted on.")],
    person: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN|folder|dicom",
            help="Column of the person of each row, in both files; for releases that protect persons.",
        ),
    ] = None,
    encoder: options.EncoderName = None,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
) -> None:
    """Run a membership-inference attack on a release (owner only).

    The attack uses the model's loss. It prints the area under the curve and true positive rates at low false
    positive rates, each with an interval and with what the guarantee allows. It also tests whether the two
    sets differ without the model: then the comparison is unfair. The result is as private as the data.
    Images and texts are encoded with the model's own encoder; their rows are deleted afterwards.

    Example: dptransfer attack model/ --members private.emb --others test.emb
    """
    from dptransfer.api.source import EncodedBeside, Reading, Source
    from dptransfer.audit.membership import CONFIDENCE, UNFAIR_CONFIDENCE, membership_attack
    from dptransfer.encoders.model_inputs import encoder_behind
    from dptransfer.privacy import Unit
    from dptransfer.release import read_release

    Source(others).require_other_than(Source(members), "--others")
    released = read_release(model)
    by_person = released.guarantee.unit is Unit.PERSON
    if person is not None and not by_person:
        raise ArgumentError(
            "--person is for releases that protect persons; this one protects single rows, and says nothing "
            "about somebody who has several. Leave it out."
        )
    sources = [Source(path, people=person if by_person else NOBODY) for path in (members, others)]
    for source in sources:
        source.require_there()
    if not all(source.is_encoded for source in sources):
        reading = Reading(encoder_behind(released, encoder, device))
        sources = [one if one.is_encoded else replace(one, reading=reading) for one in sources]
    with EncodedBeside(model) as beside:
        inside, outside = (_given(source, released, beside) for source in sources)
    found = membership_attack(released, inside, outside)
    if as_json:
        return show_json({**found.to_dict(), "statement": found.statement})
    low, high = found.interval
    one = "row" if found.guarantee.unit is Unit.ROW else "person, with all their rows,"
    say(
        f"Given one {one} that the model was fitted on and one that it was not, the attack picks the right "
        f"one {found.auc:.1%} of the time (area under the curve; interval {low:.1%} to {high:.1%}). Guessing "
        f"gets 50%. The guarantee allows no attack more than {found.auc_ceiling:.1%}."
    )
    say()
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
    apart = found.without_model
    if apart is None:
        say("Too few members or others to test whether the two sets differ without the model.")
    else:
        ends = f"interval {apart.interval[0]:.1%} to {apart.interval[1]:.1%} at {UNFAIR_CONFIDENCE:.0%}"
        say(f"A classifier that never sees the model tells them apart {apart.auc:.1%} of the time ({ends}).")
    say()
    bad = "bold red" if found.contradicts_guarantee else "bold yellow"
    say(found.verdict, style="bold" if found.within_ceiling and found.fair else bad)
    if released.charged is not None and released.charged.holdout is not None:
        kept = f"each member was kept out of training with probability {released.charged.holdout:g}"
        say(f"Note: {kept}, and the release does not say who. Every attack then looks weaker.", err=True)
    say(f"{found.guarantee} {found.statement}", style="yellow")


def _given(source: Source, released: PrivateClassifier, beside: EncodedBeside) -> Given:
    """Rows and classes and, for a release that protects persons, whose each row is."""
    from dptransfer.data import Labelled
    from dptransfer.privacy import Unit

    facts = released.row_facts
    rows = source.private(beside, of=facts)
    labelled = Labelled(rows.labels, facts.classes)
    if facts.unit is Unit.ROW:
        return rows.rows, labelled
    if rows.people is None:
        alone = "each counts as a person of its own. Name the column of people with --person"
        say(f"Note: '{source.path}' does not say whose its rows are; {alone}.", err=True)
    return rows.rows, labelled, rows.people
