"""A document for terminals, and for pipes without colour: no line is wider than it may be."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text as Line

from dptransfer.document import model
from dptransfer.document.model import Document, Table, Text, parts_of, plain
from dptransfer.document.visible import one_line, visible

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
