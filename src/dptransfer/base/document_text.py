"""Render a document as Markdown or as terminal text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text as Line

from dptransfer.base import document as model
from dptransfer.base.document import Document, Figure, Table, Text, inline, one_line, parts_of, plain, visible

_MARKUP = re.compile(r"([\\`*_\[\]<>|~#&$])")
_OPENING = re.compile(r"^([-+](?=[\s-]|$)|\d+(?=[.)](?:\s|$)))")  # what would begin a list or be a rule


def to_markdown(document: Document) -> str:
    """The whole text; anchors of headings are those that GitHub makes."""
    parts = [f"> **{escape_markdown(document.warning)}**"] if document.warning else []
    parts.append(f"# {escape_markdown(document.title)}")
    parts += [_inline(document.sentence, strong=True)] if document.sentence else []
    parts.append(_list(f"{_inline(name)}: {_inline(said)}" for name, said in document.head()))
    if len(document.sections) > 1:
        links = zip(document.sections, document.anchors(), strict=True)
        parts.append(" · ".join(f"[{escape_markdown(one.title)}](#{anchor})" for one, anchor in links))
    for section in document.sections:
        parts += [f"## {escape_markdown(section.title)}", *map(_block, section.blocks)]
    parts += [_inline(document.footer)]
    return "\n\n".join(part for part in parts if part) + "\n"


def escape_markdown(text: object) -> str:
    r"""Markdown that shows exactly this text, on one line.

    >>> print(escape_markdown("a|b *c* <script>"))
    a\|b \*c\* \<script\>
    """
    return _OPENING.sub(_escaped_opening, _escape(one_line(text)))


def _escape(part: str) -> str:
    return _MARKUP.sub(r"\\\1", part)


def _escaped_opening(found: re.Match[str]) -> str:
    return f"{found[1]}\\" if found[1].isdigit() else f"\\{found[1]}"


def _inline(text: Text, *, strong: bool = False) -> str:
    if strong:
        return f"**{escape_markdown(plain(text))}**"
    return _OPENING.sub(_escaped_opening, inline(text, _escape, "**{}**"))


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _block(block: model.Block) -> str:
    match block:
        case model.Paragraph(text):
            return _inline(text)
        case model.Note(text, tone):
            return f"> {_inline(text, strong=tone == 'bad')}"
        case model.Bullets(items):
            return _list(map(_inline, items))
        case model.Code(text, language):
            return _code(text, language)
        case Table():
            return _table(block)
        case Figure():
            return _figure(block)


def _code(text: str, language: str) -> str:
    lines = [visible(line) for line in text.splitlines()]
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)  # longer than any inside
    return "\n".join([f"{fence}{language}", *lines, fence])


def _figure(figure: Figure) -> str:
    if figure.instead is not None:
        return _block(figure.instead)
    shown = f"![{escape_markdown(figure.alt)}](figures/{figure.name}.svg)"
    return "\n\n".join(part for part in (shown, _inline(figure.caption)) if part)


def _table(table: Table) -> str:
    rows = [[_inline(cell) for cell in table.header]]
    rows.append(["---:" if table.right(column) else "---" for column in range(len(table.header))])
    for place, row in enumerate(table.rows):
        rows.append([_inline(cell, strong=table.stands_out(place, at)) for at, cell in enumerate(row)])
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{_inline(table.caption)}\n\n{text}" if table.caption else text


_TONES = {"plain": "", "good": "green", "bad": "bold red"}


def to_terminal(document: Document, width: int, *, colour: bool = False) -> str:
    """The whole text in at most `width` columns."""
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
    )
    for part in _whole(document):
        console.print(part)
    lines = (line.rstrip() for line in stream.getvalue().splitlines())
    return "\n".join(lines).rstrip("\n") + "\n"


def _whole(document: Document) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if document.warning:
        parts += [_text(f"*** {document.warning} ***", "bold red"), ""]
    parts += [*_heading(document.title, "="), ""]
    if document.sentence:
        parts += [_text(document.sentence, "bold"), ""]
    if head := document.head():
        parts += [_grid(head, "dim"), ""]
    for section in document.sections:
        parts += _heading(section.title, "-")
        for block in section.blocks:
            parts += [*_rendered_block(block), ""]
    return [*parts, _text(document.footer, "dim")] if document.footer else parts


def _heading(title: str, rule: str) -> list[RenderableType]:
    return [_text(title, "bold"), Line(rule * Line(one_line(title)).cell_len, no_wrap=True, overflow="crop")]


def _rendered_block(block: model.Block) -> list[RenderableType]:
    match block:
        case model.Paragraph(text):
            return [_text(text)]
        case model.Note(text, tone):
            return [_text(text, _TONES[tone])]
        case model.Bullets(items):
            return [_grid((("-", item) for item in items), gap=1)]
        case model.Code(text):
            return [Line(f"    {visible(line)}", "cyan", overflow="fold") for line in text.splitlines()]
        case Table():
            return _rendered_table(block)
        case model.Figure():
            if block.instead is not None:
                return _rendered_table(block.instead)
            return [_text(f"[{block.alt}] {plain(block.caption)}")]


def _text(text: Text, style: str = "") -> Line:
    whole = Line(style=style, overflow="fold")
    for part in parts_of(text):
        match part:
            case model.Strong(words):
                whole.append(words, style="bold")
            case model.Superscript(words):
                whole.append(f"^{words}")
            case str():
                whole.append(part)
    return whole


def _grid(pairs: Iterable[tuple[Text, Text]], style: str = "", gap: int = 2) -> RenderableType:
    grid = Grid.grid(padding=(0, gap, 0, 0))
    grid.add_column(style=style, no_wrap=True)
    grid.add_column(overflow="fold", ratio=1)
    for name, said in pairs:
        grid.add_row(_text(name), _text(said))
    return grid


def _rendered_table(table: Table) -> list[RenderableType]:
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for column, name in enumerate(table.header):
        grid.add_column(_text(name), justify="right" if table.right(column) else "left", overflow="fold")
    for place, row in enumerate(table.rows):
        grid.add_row(*(_cell(cell, table.stands_out(place, column)) for column, cell in enumerate(row)))
    return [_text(table.caption), grid] if table.caption else [grid]


def _cell(text: Text, marked: bool) -> Line:
    return _text(model.Words(("*", *parts_of(text))), "bold green") if marked else _text(text)
