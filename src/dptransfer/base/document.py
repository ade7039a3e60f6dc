"""Documents: headings, tables, figures and text, rendered as HTML, Markdown, terminal text or JSON."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import count
from typing import TYPE_CHECKING, Literal, TypeAlias

from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.base.types import JsonObject

_JOINERS = "\u200c\u200d"  # invisible, but several scripts need them


def one_line(text: object) -> str:
    r"""One line, with control characters, bidirectional overrides and the like made visible.

    >>> one_line("two\nlines \x1b[31mred ")
    'two lines �[31mred'
    """
    return clean(str(text)).strip()


def clean(part: str) -> str:
    """Part of a line: the same, with the spaces at its ends."""
    return visible(re.sub(r"\s+", " ", part))


def visible(text: str) -> str:
    """The text with a mark in place of every character that nobody would see."""
    if text.isprintable():
        return text
    hidden = (unicodedata.category(letter)[0] == "C" and letter not in _JOINERS for letter in text)
    return "".join("\ufffd" if not_seen else letter for letter, not_seen in zip(text, hidden, strict=True))


@dataclass(frozen=True)
class Strong:
    """Words that stand out."""

    text: str


@dataclass(frozen=True)
class Superscript:
    """A small raised letter, such as the ε of e^ε."""

    text: str


@dataclass(frozen=True)
class Words:
    """Text with parts that look different.

    >>> plain(Words(("a factor of e", Superscript("ε"))))
    'a factor of e^ε'
    """

    parts: tuple[str | Strong | Superscript, ...]


Text: TypeAlias = str | Words


@dataclass(frozen=True)
class Paragraph:
    """A few sentences."""

    text: Text


@dataclass(frozen=True)
class Note:
    """Sentences that stand out; a bad one is what nobody may overlook."""

    text: Text
    tone: Literal["plain", "good", "bad"] = "plain"


@dataclass(frozen=True)
class Bullets:
    """A list, perhaps with small pictures.

    Attributes:
        items: the lines.
        pictures: for each line the JPEG files that go with it; shown by HTML alone.
    """

    items: tuple[Text, ...]
    pictures: tuple[tuple[bytes, ...], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Code:
    """Something to type or to read letter by letter; lines stay lines."""

    text: str
    language: str = "sh"


@dataclass(frozen=True)
class Table:
    """Rows of words and numbers under a header.

    Attributes:
        header: names of the columns.
        rows: cells, as many in each row as there are columns.
        caption: what the numbers are.
        align: a letter for each column, 'l' or 'r'; columns without one are words, aligned to the left.
        marked: what stands out, such as the best of a column: a row by its number, a cell by row and column.
    """

    header: tuple[Text, ...]
    rows: tuple[tuple[Text, ...], ...]
    caption: Text = ""
    align: str = ""
    marked: frozenset[int | tuple[int, int]] = frozenset()

    @classmethod
    def of(cls, header: str, rows: Iterable[Iterable[Text]], align: str = "", caption: Text = "") -> Table:
        """A table whose columns are named in one line, with '|' between them.

        >>> Table.of("Name | Size", [["ants", "3"]]).header
        ('Name', 'Size')
        """
        names = tuple(name.strip() for name in header.split("|"))
        return cls(names, tuple(tuple(row) for row in rows), caption, align)

    def right(self, column: int) -> bool:
        """Whether the column is aligned to the right."""
        return self.align[column : column + 1] == "r"

    def stands_out(self, row: int, column: int) -> bool:
        """Whether the cell is marked, alone or with its row."""
        return row in self.marked or (row, column) in self.marked


@dataclass(frozen=True)
class Figure:
    """A picture with words that can stand for it.

    Attributes:
        name: letters, digits and hyphens, unique in the document: its place on the page and its file name.
        picture: SVG, which may use the page's own colours, such as var(--accent).
        alt: what it shows, for those who do not see it.
        caption: the words under it.
        instead: a table that says the same in forms without pictures; without one, Markdown refers to the
            file figures/NAME.svg, which whoever writes the document puts there.
    """

    name: str
    picture: str
    alt: str
    caption: Text = ""
    instead: Table | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w-]+", self.name):
            raise ArgumentError(
                f"A figure is named by letters, digits and hyphens; got '{one_line(self.name)}'. "
                "It is the file name, so choose a short one."
            )


Block: TypeAlias = Paragraph | Note | Bullets | Code | Table | Figure


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Highlight:
    """One of the few numbers at the head of a document.

    Attributes:
        name: what it is, in a word or two.
        shown: the number as people read it.
        note: a few words under it.
        key: what programs call it, if they may look for it.
        exact: the value that they find.
    """

    name: Text
    shown: Text
    note: Text = ""
    key: str = ""
    exact: float | str = ""

    def shown_with_note(self) -> Text:
        """The number, and the words under it in parentheses."""
        return Words((*parts_of(self.shown), " (", *parts_of(self.note), ")")) if self.note else self.shown


@dataclass(frozen=True)
class Document:
    """Everything a document says.

    Attributes:
        title: the heading.
        sentence: what matters most, in one sentence.
        warning: what must be read before anything else, if there is such a thing.
        highlights: the few numbers that go with the sentence.
        about: what it is about, when and by what it was made, whom to ask: a name and a line each.
        sections: the rest, in reading order.
        footer: a last line.
    """

    title: str
    sentence: Text = ""
    warning: str | None = None
    highlights: tuple[Highlight, ...] = ()
    about: tuple[tuple[str, Text], ...] = ()
    sections: tuple[Section, ...] = ()
    footer: str = ""

    def html(self) -> str:
        """One self-contained page."""
        from dptransfer.base.document_html import to_html

        return to_html(self)

    def fragment(self) -> str:
        """HTML without a page around it, for notebooks, which bring their own style."""
        from dptransfer.base.document_html import to_fragment

        return to_fragment(self)

    def markdown(self) -> str:
        """As Markdown."""
        from dptransfer.base.document_text import to_markdown

        return to_markdown(self)

    def text(self, width: int = 96, *, colour: bool = False) -> str:
        """For a terminal of `width` columns; with `colour`, headings and marks stand out there."""
        from dptransfer.base.document_text import to_terminal

        return to_terminal(self, width, colour=colour)

    def to_dict(self) -> JsonObject:
        """JSON-ready form: each block names its kind, and `numbers` are exact."""
        return {
            "title": one_line(self.title),
            "sentence": _json(self.sentence),
            "warning": _json(self.warning),
            "about": {one_line(name): _json(said) for name, said in self.about},
            "numbers": {one.key: one.exact for one in self.highlights if one.key},
            "sections": [
                {"title": one_line(section.title), "blocks": _json(section.blocks)}
                for section in self.sections
            ],
        }

    def head(self) -> list[tuple[Text, Text]]:
        """Highlights and `about` as one list, for forms that show them line by line."""
        return [*((one.name, one.shown_with_note()) for one in self.highlights), *self.about]

    def anchors(self) -> tuple[str, ...]:
        """A name for each section, unique in the document, to link to: as GitHub derives it.

        >>> Document("", sections=(Section("What, & why?", ()), Section("What & why", ()))).anchors()
        ('what--why', 'what--why-1')
        """
        found: list[str] = []
        for section in self.sections:
            stem = re.sub(r"[^\w-]", "", one_line(section.title).lower().replace(" ", "-")) or "section"
            names = (f"{stem}-{number}" if number else stem for number in count())
            found.append(next(name for name in names if name not in found))
        return tuple(found)


def first_few(names: Sequence[str], most: int = 20) -> str:
    """The first names, and how many more there are.

    >>> first_few(["cat", "dog", "eel"], most=2)
    'cat, dog and 1 more'
    """
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def name_list(names: Sequence[str | int], most: int = 8) -> str:
    """How many names there are, and the first of them.

    >>> name_list(["cat", "dog"])
    '2: cat, dog'
    """
    return f"{len(names)}: {first_few([str(name) for name in names], most)}"


def plain(text: Text) -> str:
    """The text as one line without any looks."""
    return inline(text, str)


def inline(text: Text, escape: Callable[[str], str], strong: str = "{}", superscript: str = "^{}") -> str:
    """The text as one line of a form: every part escaped, and put between the marks of its looks."""
    looks = {Strong: strong, Superscript: superscript}
    return "".join(
        escape(part) if isinstance(part, str) else looks[type(part)].format(escape(part.text))
        for part in parts_of(text)
    ).strip()


def parts_of(text: Text) -> list[str | Strong | Superscript]:
    """The parts of a line, without line breaks and hidden characters, with the spaces at their ends."""
    return [
        clean(part) if isinstance(part, str) else type(part)(clean(part.text))
        for part in (text.parts if isinstance(text, Words) else (one_line(text),))
    ]


def _json(value: object) -> object:
    """Text as clean lines, blocks as dictionaries; pictures are left out."""
    if isinstance(value, str | Words):
        return plain(value)
    if is_dataclass(value):
        names = [one.name for one in fields(value) if one.name not in ("picture", "pictures")]
        return {"kind": type(value).__name__, **{name: _json(getattr(value, name)) for name in names}}
    if isinstance(value, tuple | frozenset):
        return [_json(item) for item in (sorted(value, key=str) if isinstance(value, frozenset) else value)]
    return value
