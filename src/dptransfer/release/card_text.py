"""The card for terminals and as Markdown."""

from __future__ import annotations

import re
import textwrap

from dptransfer.release.card import (
    AttackCurve,
    Block,
    Bullets,
    Card,
    Command,
    Paragraph,
    RecallBars,
    Table,
)

_MARKUP = re.compile(r"([\\`*_\[\]<>|~#&])")
_BAR = 30


def render_markdown(card: Card) -> str:
    """The card as Markdown; every character that could be markup is escaped."""
    lines = [f"> **{escape(card.warning)}**", ""] if card.warning else []
    lines += [f"# {escape(card.title)}", "", f"**{escape(card.sentence)}**", ""]
    lines += [*(f"- {escape(name)}: {escape(said)}" for name, said in card.about), ""]
    for section in card.sections:
        lines += [f"## {escape(section.title)}", ""]
        for block in section.blocks:
            lines += [*_markdown_block(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def render_text(card: Card, width: int) -> str:
    """The card as plain text of at most `width` columns, where words allow it."""
    lines = [*textwrap.wrap(f"*** {card.warning} ***", width), ""] if card.warning else []
    lines += [card.title, "=" * min(width, len(card.title)), "", *textwrap.wrap(card.sentence, width), ""]
    longest = max(len(name) for name, _ in card.about)
    lines += [*(f"{name:<{longest}}  {said}" for name, said in card.about), ""]
    for section in card.sections:
        lines += [section.title, "-" * len(section.title)]
        for block in section.blocks:
            lines += [*_text_block(block, width), ""]
    return "\n".join(lines).rstrip() + "\n"


def escape(text: str) -> str:
    r"""Markdown that shows exactly this text.

    >>> print(escape("a|b *c* <script>"))
    a\|b \*c\* \<script\>
    """
    return _MARKUP.sub(r"\\\1", text)


def _markdown_block(block: Block) -> list[str]:
    if isinstance(block, Paragraph):
        return [escape(block.text)]
    if isinstance(block, Bullets):
        return [f"- {escape(item)}" for item in block.items]
    if isinstance(block, Command):
        return ["```sh", block.text, "```"]
    if isinstance(block, Table):
        rows = [block.header, tuple("---" for _ in block.header), *block.rows]
        head, rule, *body = ["| " + " | ".join(escape(cell) for cell in row) + " |" for row in rows]
        return [head, rule, *body]
    return _markdown_block(_as_table(block))


def _text_block(block: Block, width: int) -> list[str]:
    if isinstance(block, Paragraph):
        return textwrap.wrap(block.text, width)
    if isinstance(block, Bullets):
        wrapped = (textwrap.wrap(item, width - 2) for item in block.items)
        return [("- " if n == 0 else "  ") + line for lines in wrapped for n, line in enumerate(lines)]
    if isinstance(block, Command):
        return [f"    {block.text}"]
    if isinstance(block, Table):
        return _text_table(block, width)
    return _text_table(_as_table(block), width)


def _as_table(block: AttackCurve | RecallBars) -> Table:
    """What a drawing shows, in words: both text forms have no pictures."""
    if isinstance(block, AttackCurve):
        shown = [point for n, point in enumerate(block.points) if n % 4 == 0 or n == len(block.points) - 1]
        rows = tuple((f"{100 * alarm:.3g}%", f"{100 * found:.3g}%") for alarm, found in shown)
        return Table(("False alarms", "Members found, at most"), rows)
    return Table(
        ("Class", "Recall", "95% interval", ""),
        tuple(
            (name, f"{value:.3f}", f"{low:.3f} to {high:.3f}", "█" * round(_BAR * value))
            for name, value, low, high in block.rows
        ),
    )


def _text_table(table: Table, width: int) -> list[str]:
    widths = [
        max(len(row[column]) for row in (table.header, *table.rows)) for column in range(len(table.header))
    ]
    gaps = 2 * (len(widths) - 1)
    while sum(widths) + gaps > width and max(widths) > 12:  # the widest column wraps first
        widest = widths.index(max(widths))
        widths[widest] = max(12, widths[widest] - (sum(widths) + gaps - width))
    lines = []
    for row in (table.header, tuple("-" * column for column in widths), *table.rows):
        cells = [textwrap.wrap(cell, column) or [""] for cell, column in zip(row, widths, strict=True)]
        for n in range(max(len(cell) for cell in cells)):
            parts = [
                (cell[n] if n < len(cell) else "").ljust(column)
                for cell, column in zip(cells, widths, strict=True)
            ]
            lines.append("  ".join(parts).rstrip())
    return lines
