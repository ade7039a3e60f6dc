"""Render a document as Markdown or as terminal text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console

from dptransfer.base import document as model
from dptransfer.base.document import Document, Figure, Table, Text, inline, one_line, plain, visible

_MARKUP = re.compile(r"([\\`*_\[\]<>|~#&$])")
_OPENING = re.compile(r"^([-+](?=[\s-]|$)|\d+(?=[.)](?:\s|$)))")  # what would begin a list or be a rule


def to_markdown(document: Document, *, terminal: bool = False) -> str:
    """The whole text, with links to its sections; anchors of headings are those that GitHub makes.

    Terminals have no links; there headings are underlined, since rich would centre them.
    """
    parts = [f"> **{escape_markdown(document.warning)}**"] if document.warning else []
    headings = ("=", "-") if terminal else ("# ", "## ")
    parts.append(_heading(document.title, headings[0]))
    parts += [_inline(document.sentence, strong=True)] if document.sentence else []
    parts.append(_list(f"{_inline(name)}: {_inline(said)}" for name, said in document.head()))
    if not terminal and len(document.sections) > 1:
        links = zip(document.sections, document.anchors(), strict=True)
        parts.append(" · ".join(f"[{escape_markdown(one.title)}](#{anchor})" for one, anchor in links))
    for section in document.sections:
        parts += [_heading(section.title, headings[1]), *map(_block, section.blocks)]
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


def _heading(title: str, mark: str) -> str:
    """A title behind '# ', or above a line of dashes, as two lines of a paragraph."""
    text = escape_markdown(title)
    return f"{mark}{text}" if "#" in mark else f"**{text}**\\\n\\{mark * min(40, cell_len(one_line(title)))}"


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


def to_terminal(document: Document, width: int, *, colour: bool = False) -> str:
    """The whole text in at most `width` columns."""
    from rich.markdown import Markdown  # which few commands need
    from rich.theme import Theme

    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        theme=Theme({"markdown.block_quote": "bold red"}),
    )
    with console.capture() as captured:
        console.print(Markdown(to_markdown(document, terminal=True), code_theme="ansi_dark"))
    lines = "\n".join(line.rstrip() for line in captured.get().splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n") + "\n"
