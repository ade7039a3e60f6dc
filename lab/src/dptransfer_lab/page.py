"""What a report is made of, before it becomes HTML or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dptransfer_lab.figures.drawing import Drawing


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; an alarm is what nobody may overlook."""

    text: str
    alarm: bool = False


@dataclass(frozen=True)
class Table:
    """A table with what its numbers are.

    Attributes:
        caption: what the numbers are, how many seeds, which interval.
        header: names of the columns.
        rows: cells as text; the first columns are words.
        words: how many columns are words.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1


@dataclass(frozen=True)
class Picture:
    """A figure."""

    drawing: Drawing


@dataclass(frozen=True)
class Findings:
    """Claims with what became of them: outcome, claim, reason."""

    lines: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Commands:
    """Lines for a shell."""

    lines: Sequence[str]


Block: TypeAlias = Paragraph | Table | Picture | Findings | Commands


@dataclass(frozen=True)
class Section:
    """A heading and what follows it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A whole report.

    Attributes:
        title: its heading.
        lead: a line or two underneath.
        sections: the rest.
    """

    title: str
    lead: str
    sections: Sequence[Section] = field(default=())
