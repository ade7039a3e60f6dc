"""What a checkup found, as a document for the owner of the data alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dptransfer.checkup.advice import Finding
from dptransfer.checkup.examples import Examples, Role
from dptransfer.checkup.findings import class_sizes
from dptransfer.checkup.forecast import EncodingTime, Expected
from dptransfer.checkup.picture_looks import Look
from dptransfer.data import Facts
from dptransfer.document import Block, Bullets, Document, Paragraph, Section, Strong, Table, Words
from dptransfer.methods.surrogate import FAMILIES
from dptransfer.privacy import Unit

PRIVATE = "PRIVATE: for the eyes of the data's owner alone. Do not publish, send or log any of this."


@dataclass(frozen=True, eq=False, repr=False)
class Checkup:
    """What was found; as private as the data, however it is shown.

    Attributes:
        findings: what to look at, the worst first.
        expected: accuracies on public tasks, one for each ε that was asked for; empty where there is no pool.
        encoding: the time an encoding would take, if an encoder was named.
        unchecked: what was not looked at, and why.
        facts: what the accuracies assume.
        sets: what was read: private, test, public.
        looks: what was seen of their pictures.
    """

    findings: tuple[Finding, ...]
    expected: tuple[Expected, ...]
    encoding: EncodingTime | None
    unchecked: tuple[str, ...]
    facts: Facts | None
    sets: tuple[Examples, ...]
    looks: Mapping[Role, Sequence[Look]]

    def __str__(self) -> str:
        return self.document().text()

    def __repr__(self) -> str:
        return "Checkup(for the eyes of the data's owner alone: print it to see it)"

    def document(self) -> Document:
        """All of it, to be shown on a page or a terminal, or as JSON."""
        private = self.sets[0]
        count = len(self.findings)
        found = "Nothing was found" if not count else f"{count} finding{'s' * (count > 1)}"
        return Document(
            f"Checkup of {Path(private.source).name}",
            sentence=f"{found}. Nothing was charged, released or kept.",
            warning=PRIVATE,
            about=tuple((one.role.capitalize(), _in_words(one)) for one in self.sets),
            sections=(*map(_finding, self.findings), *self._facts()),
            footer="Rows and texts are numbered from 0.",
        )

    def _facts(self) -> Iterator[Section]:
        sizes: dict[Role, dict[str, int]] = {
            one.role: class_sizes(one) for one in self.sets if one.role != "public"
        }
        if any(sizes.values()):
            yield Section("Classes", (_table("Class", sizes),))
        people = self.sets[0].people
        if people is not None and len(people):
            each = np.bincount(people)
            row = (f"{len(each):,}", f"{np.median(each):g}", f"{each.mean():.3g}", f"{each.max():,}")
            header = ("People", "Examples each, usual", "on average", "at most")
            yield Section("People", (Table(header, (row,), align="rrrr"),))
        forms: dict[Role, dict[str, int]] = {
            role: dict(Counter(look.form or "unreadable" for look in looks).most_common())
            for role, looks in self.looks.items()
            if looks
        }
        if forms:
            yield Section("Pictures", (_table("Form", forms),))
        if self.encoding is not None:
            yield Section("Time to encode", (Paragraph(self.encoding.sentence),))
        if self.expected and self.facts is not None:
            yield Section("Accuracy to expect", tuple(_accuracies(self.expected, self.facts)))
        if self.unchecked:
            yield Section("Not looked at", (Bullets(self.unchecked),))
        yield Section("What this is", (Paragraph(_WHAT),))


_WHAT = (
    "A look at data by their owner, without noise: every number and name here is as private as the data. "
    "Correct the data by it, before a fit. Choose neither ε nor classes, a method or settings by it, for the "
    "release would then depend on private examples in a way that no budget covers; only the accuracies to "
    "expect are free to use, since they are made from public rows and declared facts."
)


def _in_words(examples: Examples) -> str:
    said = [f"{examples.count:,} {examples.kind}"]
    if examples.rows is not None:
        said.append(f"{examples.rows.shape[1]:,} wide")
    if examples.classes is not None:
        said.append(f"{len(examples.classes):,} classes")
    if examples.encoder is not None:
        said.append(f"of {examples.encoder}")
    return f"{', '.join(said)}: {examples.source}"


def _finding(finding: Finding) -> Section:
    advice = finding.advice
    blocks: list[Block] = [Paragraph(advice.why)]
    if finding.examples:
        blocks.append(Bullets(finding.examples))
    blocks.append(Paragraph(Words((Strong("What to do: "), advice.remedy))))
    return Section(f"{finding.role.capitalize()}: {advice.title} ({finding.count:,})", tuple(blocks))


def _table(what: str, counts: Mapping[Role, Mapping[str, int]]) -> Table:
    """A row for each name, in the order in which the sets have them, and a column for each set."""
    names = list(dict.fromkeys(name for own in counts.values() for name in own))
    rows = tuple((name, *(f"{own.get(name, 0):,}" for own in counts.values())) for name in names)
    return Table((what, *(role.capitalize() for role in counts)), rows, align="l" + "r" * len(counts))


def _accuracies(expected: Sequence[Expected], facts: Facts) -> Iterator[Block]:
    full = expected[-1].mean
    yield Table(
        ("ε", "Mean of the tasks", "Hardest", "Easiest", "Kept of the last line"),
        tuple(
            (
                f"{one.epsilon:g}",
                *(f"{share:.0%}" for share in (one.mean, one.lowest, one.highest, one.mean / full)),
            )
            for one in expected
        ),
        align="rrrrr",
    )
    units = "examples" if facts.unit is Unit.ROW else "people"
    size = (
        f"{facts.size:,} examples, as declared"
        if facts.size
        else f"100 {units} a class, as no size is declared"
    )
    yield Paragraph(
        f"Balanced accuracy of 'public-prior' on {len(FAMILIES)} tasks of {len(facts.classes)} classes and "
        f"{size}, mixed from the pool's rows. At the last ε noise is next to none."
    )
    yield Paragraph(_CAN_AND_CANNOT)


_CAN_AND_CANNOT = (
    "Such tasks know how many classes and examples are declared, and what noise does to that many; they do "
    "not know how hard your classes are. On nine public data sets of 4 to 101 classes the accuracy itself "
    "was wrong by up to 38 points in either direction, so take none of it for a promise. The share that is "
    "kept of the accuracy without noise is a rough floor: at ε = 1 real models kept 1 to 35 points more of "
    "theirs than the tasks did on eight of the sets and 9 less on one, at ε = 4 from 7 less to 16 more."
)
