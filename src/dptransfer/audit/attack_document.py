"""The owner's page of attacks on a release: as private as the rows that it is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dptransfer.audit.membership import CONFIDENCE, UNFAIR_CONFIDENCE, MembershipResult
from dptransfer.base import document as doc
from dptransfer.privacy import typeset


def attack_document(attacks: Mapping[str, MembershipResult]) -> doc.Document:
    """The page of these attacks, by name."""
    first = next(iter(attacks.values()))
    return doc.Document(
        title="Membership attacks: for the data owner alone",
        sentence=typeset(first.verdict),
        warning=first.statement,
        sections=tuple(doc.Section(name, tuple(_blocks(found))) for name, found in attacks.items()),
        footer="Written by dptransfer audit --members. Do not publish.",
    )


def _blocks(found: MembershipResult) -> Iterator[doc.Block]:
    low, high = found.interval
    yield doc.Paragraph(
        f"Area under the curve {found.auc:.1%} (interval {low:.1%} to {high:.1%}); guessing has 50%, and "
        f"the guarantee allows {found.auc_ceiling:.1%}. There are {found.members} members, and "
        f"{found.others} other {found.many}."
    )
    yield doc.Table(
        ("False alarms", "True rate at most", "Members found", "Interval", "Guarantee allows there"),
        tuple(
            (
                f"{point.false_positive_rate:.1%}",
                f"{point.false_positive_limit:.2%}",
                f"{point.true_positive_rate:.2%}",
                f"{point.interval[0]:.2%} to {point.interval[1]:.2%}",
                f"{point.ceiling_at_limit:.2%}",
            )
            for point in found.points
        ),
        f"All intervals hold together with {CONFIDENCE:.0%} confidence.",
        "rrrrr",
    )
    if found.without_model is not None:
        apart = found.without_model
        yield doc.Paragraph(
            f"A classifier that never sees the model tells the sets apart {apart.auc:.1%} of the time "
            f"(interval {apart.interval[0]:.1%} to {apart.interval[1]:.1%} at {UNFAIR_CONFIDENCE:.0%})."
        )
    good = found.within_ceiling and found.fair
    yield doc.Note(typeset(found.verdict), "good" if good else "bad")
