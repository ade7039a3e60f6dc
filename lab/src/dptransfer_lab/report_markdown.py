"""A report as Markdown, for repositories and mail; figures are files beside it."""

from __future__ import annotations

from dptransfer_lab.page import Block, Commands, Findings, Page, Paragraph, Picture, Table


def render_markdown(page: Page, figures: str = "figures") -> str:
    """The whole text.

    Args:
        page: the report.
        figures: the folder of the figures, relative to the file.
    """
    parts = [f"# {_line(page.title)}", page.lead]
    for section in page.sections:
        parts.append(f"## {_line(section.title)}")
        parts += [_block(block, figures) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _block(block: Block, figures: str) -> str:
    if isinstance(block, Paragraph):
        return f"**{_line(block.text)}**" if block.alarm else _line(block.text)
    if isinstance(block, Table):
        rule = ["---" if place < block.words else "---:" for place in range(len(block.header))]
        lines = [block.header, rule, *block.rows]
        return "\n".join(
            [f"{_line(block.caption)}", "", *(f"| {' | '.join(map(_cell, row))} |" for row in lines)]
        )
    if isinstance(block, Picture):
        drawing = block.drawing
        title = _line(drawing.title)
        return f"![{title}]({figures}/{drawing.name}.svg)\n\n*{title}.* {_line(drawing.caption)}"
    if isinstance(block, Findings):
        return "\n".join(
            f"- {_line(text)} **{outcome}**, because {_line(why)}." for outcome, text, why in block.lines
        )
    assert isinstance(block, Commands)
    return "\n".join(["```sh", *block.lines, "```"])


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    r"""A cell of a table; a bar would end it.

    >>> _cell("a|b")
    'a\\|b'
    """
    return _line(text).replace("|", "\\|")
